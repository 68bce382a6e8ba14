"""``headwork.check``: a student's function beside Headwork's own mechanism, on fresh numbers at every call.

``checks.toml`` says what each check draws. Where the results differ, the cause is the one that grading finds
for those numbers, or one of the check's own mistakes: a sentence, and what that mistake would give.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from headwork.courses.autograder import value_text
from headwork.errors import sizes_in_words, unknown
from headwork.exercises.exercise import Exercise
from headwork.grading.marking import grade
from headwork.mechanisms import attention, patches, softmax
from headwork.numbers import HandTensor

Arguments = dict[str, Any]
CHECKS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
CLOSE = 2e-5  # the notebooks compute in float32
# A cause is looked for with the student's numbers rounded to so many digits; to fewer where float32 was on the
# edge between two of them.
DIGITS = (5, 4, 3)
NO_CAUSE = ("unknown", "shape", "slip", "misrounded", "too-few-digits")
OPEN = "not filled in yet. Replace each ... by code."
UNKNOWN = "no known mistake gives these numbers. Work two tokens by hand and compare."


@dataclass(frozen=True)
class Verdict:
    """What a check found; true where the function is correct. A notebook shows it as its message."""

    correct: bool
    message: str

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return self.message


def check(name: str, function: Callable[..., Any]) -> Verdict:
    """Compare a function of your own with Headwork's, on numbers that are drawn anew at every call.

    >>> check("convolution", lambda signal, kernel, stride, padding: ...)
    convolution: not filled in yet. Replace each ... by code.
    """
    if name not in CHECKS:
        raise unknown("check", name, CHECKS)
    random = np.random.default_rng()
    for draw in CHECKS[name]["draws"]:
        with catch_warnings(), np.errstate(all="ignore"):
            simplefilter("ignore")
            problem = _problem(name, function, {key: _draw(spec, random) for key, spec in draw.items()})
        if problem:
            return Verdict(False, f"{name}: {problem}")
    return Verdict(True, f"{name}: correct, on {len(CHECKS[name]['draws'])} draws of fresh numbers.")


def require(name: str, function: Callable[..., Any]) -> None:
    """Raise unless the function is correct: the form that otter and nbgrader expect.

    The message is escaped, because otter puts it into a page as it is.
    """
    verdict = check(name, function)
    if not verdict:
        raise AssertionError(escape(verdict.message, quote=False))


def _draw(spec: Any, random: np.random.Generator) -> Any:
    """A value as ``checks.toml`` describes it; two decimals, so that grading can read it as typed."""
    if not isinstance(spec, str) or spec == "none":
        return None if spec == "none" else spec
    kind, *words = ["normal", *spec.split()] if not spec[:1].isalpha() else spec.split()
    shape = tuple(map(int, words))
    if kind == "integers":
        return random.integers(0, shape[1], shape[0])
    if kind == "mask":
        # Both 0 and 1 in every row, so that a mask turned round hides no row whole.
        visible = random.integers(1, shape[-1], (*shape[:-1], 1))
        return (random.random(shape).argsort(-1).argsort(-1) < visible).astype(float)
    return random.normal(size=shape).round(2)


def _problem(name: str, function: Callable[..., Any], arguments: Arguments) -> str:
    """What is wrong with the function's result for these arguments; nothing where it is right."""
    batch = CHECKS[name].get("batch", ())
    try:
        result = function(*(_given(name, value) for value in arguments.values()))
        if result is Ellipsis:
            return OPEN
        own = np.asarray(result.detach() if hasattr(result, "detach") else result, float)
    except Exception as error:  # whatever a student's own code does
        stopped = f"stopped with {type(error).__name__}: {error}. {_sizes(arguments)}"
        return OPEN if "ellipsis" in str(error).lower() else stopped
    runs = [
        {key: value[i] if key in batch else value for key, value in arguments.items()}
        for i in range(2 if batch else 1)
    ]
    truths = [_truth(name, run) for run in runs]
    expected = (2, *truths[0].shape) if batch else truths[0].shape
    if own.shape != expected:
        cause = _cause(name, runs[0], own[0] if batch and len(own) == 2 else own)
        sizes = [sizes_in_words(shape, "") for shape in (own.shape, expected)]
        return f"incorrect: the result is {sizes[0]}, not {sizes[1]}. {cause or _sizes(arguments)}"
    for run, mine, right in zip(runs, own if batch else [own], truths, strict=True):
        if not np.allclose(mine, right, rtol=CLOSE, atol=CLOSE):
            return f"incorrect: {_cause(name, run, mine) or UNKNOWN}"
    return ""


def _given(name: str, value: Any) -> Any:
    """An argument as the student's function takes it, each time a new one."""
    if not isinstance(value, np.ndarray):
        return value
    if CHECKS[name].get("arrays"):
        return value.copy()
    torch = import_module("torch")  # the notebook has it already; marking by hand never needs it
    return torch.tensor(value, dtype=torch.float32 if value.dtype == float else torch.int64)


def _sizes(arguments: Arguments) -> str:
    sizes = {key: sizes_in_words(np.shape(value), "") for key, value in arguments.items() if np.ndim(value)}
    return f"The arguments were {', '.join(f'{key} {size}' for key, size in sizes.items())}."


def _exercise(name: str, run: Arguments, digits: int = DIGITS[0]) -> Exercise:
    inputs = {key: np.asarray(value).tolist() for key, value in run.items() if value is not None}
    step = CHECKS[name].get("step", "output")
    return Exercise(CHECKS[name]["mechanism"], inputs, points={step: 1}, digits=digits)


def _truth(name: str, run: Arguments) -> Any:
    if name in TRUTHS:
        return np.asarray(TRUTHS[name](*run.values()))
    exercise = _exercise(name, run)
    return exercise.key[next(iter(exercise.points))]


def _cause(name: str, run: Arguments, own: Any) -> str:
    """The mistakes that give exactly these numbers, in sentences; nothing where none is known."""
    matches = [key for key, mistake in MISTAKES.get(name, {}).items() if _gives(mistake, run, own)]
    sentences = [CHECKS[name]["mistakes"][key] for key in matches]
    digits = iter(() if name in TRUTHS or not np.isfinite(own).all() else DIGITS)
    while not sentences and (count := next(digits, 0)):
        exercise = _exercise(name, run, count)
        (step,) = grade(exercise, dict.fromkeys(exercise.points, value_text(own.round(count)))).steps
        sentences = [cause.sentence for cause in step.causes if cause.slug not in NO_CAUSE]
    if not sentences and np.isnan(own).any():
        sentences = ["some numbers are nan: 0/0, or a row in which every key is hidden"]
    return "; or ".join(sentences) + "." if sentences else ""


def _gives(mistake: Callable[..., Any], run: Arguments, own: Any) -> bool:
    try:
        wrong = np.asarray(mistake(*run.values()), float)
    except ValueError:  # the mistake cannot be made with these sizes
        return False
    return wrong.shape == own.shape and np.allclose(wrong, own, rtol=CLOSE, atol=CLOSE)


# --- what no exercise asks for --------------------------------------------------------------------------
def _softmax(scores: Any) -> Any:
    return softmax(HandTensor(scores)).array


def _of_labels(rows: Any, labels: Any) -> Any:
    """The number of each row that stands at its label."""
    return rows[np.arange(len(labels)), labels]


def _cut(image: Any, size: int, *order: int) -> Any:
    """Patches whose axes (patch row, row, patch column, column) are taken in another order."""
    high, wide = image.shape
    return image.reshape(high // size, size, wide // size, size).transpose(order).reshape(-1, size * size)


def _masked_mean(tokens: Any, mask: Any) -> Any:
    """Attention that cannot tell the tokens apart: the mean of those it may see."""
    rows = HandTensor(tokens)
    return attention(rows[:1], rows, rows, beta=0.0, mask=HandTensor(mask[None])).array[0]


def _keys_as_they_are(query: Any, key: Any, value: Any, beta: Any = None, mask: Any = None) -> Any:
    scores = query @ key * (beta or query.shape[-1] ** -0.5)
    return _softmax(scores if mask is None else np.where(mask == 0, -np.inf, scores)) @ value


TRUTHS: dict[str, Callable[..., Any]] = {
    "patches": lambda image, size: patches(HandTensor(image), size=size).array,
    "cross-entropy": lambda logits, labels: -np.log(_of_labels(_softmax(logits), labels)).mean(),
    "masked-mean": _masked_mean,
}
# What each mistake gives; its sentence stands under the same name in checks.toml.
MISTAKES: dict[str, dict[str, Callable[..., Any]]] = {
    "attention": {"keys": _keys_as_they_are},
    "padded-attention": {
        "keys": lambda query, key, value, mask: _keys_as_they_are(query, key, value, None, mask)
    },
    "patches": {
        "reshaped": lambda image, size: image.reshape(-1, size * size),
        "down": lambda image, size: _cut(image, size, 2, 0, 1, 3),
        "turned": lambda image, size: _cut(image, size, 0, 2, 3, 1),
        "inside-out": lambda image, size: _cut(image, size, 1, 3, 0, 2),
        "rows-first": lambda image, size: _cut(image, size, 1, 0, 2, 3),
    },
    "cross-entropy": {
        "sign": lambda logits, labels: np.log(_of_labels(_softmax(logits), labels)).mean(),
        "sum": lambda logits, labels: -np.log(_of_labels(_softmax(logits), labels)).sum(),
        "logarithm": lambda logits, labels: -_of_labels(_softmax(logits), labels).mean(),
        "softmax": lambda logits, labels: -_of_labels(logits, labels).mean(),
        "batch": lambda logits, labels: -np.log(_of_labels(_softmax(logits.T).T, labels)).mean(),
        "classes": lambda logits, labels: -np.log(_softmax(logits)).mean(),
    },
    "masked-mean": {
        "padding": lambda tokens, mask: tokens.mean(0),
        "length": lambda tokens, mask: (tokens * mask[:, None]).mean(0),
        "added": lambda tokens, mask: tokens.sum(0) / mask.sum(),
        "sum": lambda tokens, mask: (tokens * mask[:, None]).sum(0),
        "turned": lambda tokens, mask: _masked_mean(tokens, 1 - mask),
        "first": lambda tokens, mask: tokens[0],
    },
}
