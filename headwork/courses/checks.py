"""``headwork.check``: a student's function beside Headwork's own mechanism, on fresh numbers at every call.

``checks.toml`` says what each check draws. Where the results differ, the cause is a mistake that gives those
very numbers: one of the check's own, each an edit of the solution in the notebook's source, or one that
grading knows.
"""

import tomllib
from collections.abc import Callable, Mapping
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from headwork.courses.notebooks import solution_function
from headwork.courses.variables import value_text
from headwork.errors import check_known, format_shape
from headwork.exercises.exercise import Exercise
from headwork.grading.marking import grade
from headwork.grading.wrong_step import BUT_FOR_A_SLIP
from headwork.mechanisms import attention, softmax
from headwork.numbers import HandTensor

Arguments = dict[str, Any]
CHECKS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TOLERANCE = 2e-5  # the notebooks compute in float32
DIGITS = (5, 4, 3)  # tried in turn to find a cause: float32 may be on the edge between two roundings
NOT_A_CAUSE = ("unknown", "shape", "slip", "misrounded", "too-few-digits")
NOT_FILLED_IN = "not filled in yet. Replace each ... with code."
NO_KNOWN_MISTAKE = "no known mistake gives these numbers. Work two tokens by hand and compare."
MAX_TRIES = 3  # with fresh numbers, until one of them shows the cause
HAS_NAN = "some numbers are nan: a softmax over scores that are all hidden, or another 0/0."


class CheckResult(str):
    """What a check found, in words; true where the function is correct."""

    correct = False
    __repr__ = str.__str__  # a notebook shows the words without quotation marks

    def __bool__(self) -> bool:
        return self.correct


def check(name: str, function: Callable[..., Any]) -> CheckResult:
    """Compare a function of your own with Headwork's, on numbers that are drawn anew at every call.

    >>> check("convolution", lambda signal, kernel, stride, padding: ...)
    convolution: not filled in yet. Replace each ... with code.
    """
    check_known("check", name, CHECKS)
    random, draws = np.random.default_rng(), CHECKS[name]["draws"]
    for draw in draws:
        with catch_warnings(), np.errstate(all="ignore"):
            simplefilter("ignore")
            problem = _checked_draws(name, function, draw, random)
        if problem:
            return CheckResult(f"{name}: {problem}")
    verdict = CheckResult(f"{name}: correct, on {len(draws)} draws of fresh numbers.")
    verdict.correct = True
    return verdict


def require(name: str, function: Callable[..., Any]) -> None:
    """Raise unless the function is correct: the form that otter and nbgrader expect.

    The message is escaped, because otter puts it into a page as it is.
    """
    verdict = check(name, function)
    if not verdict:
        raise AssertionError(escape(verdict, quote=False))


def _draw(spec: Any, random: np.random.Generator) -> Any:
    """A value as ``checks.toml`` describes it; to two decimals, as an exercise is typed."""
    if not isinstance(spec, str) or spec == "none":
        return None if spec == "none" else spec
    words = spec.split()
    shape = tuple(int(word) for word in words if word.isdecimal())
    if "integers" in words:
        return random.integers(0, shape[1], shape[0])
    if "mask" in words:
        # In every row at least two 1, or there is nothing to weigh, and a 0, also when it is turned round.
        visible = random.integers(2, shape[-1], (*shape[:-1], 1))
        return (random.random(shape).argsort(-1).argsort(-1) < visible).astype(float)
    return random.normal(size=shape).round(2)


def _checked_draws(
    name: str, function: Callable[..., Any], draw: Mapping[str, Any], random: np.random.Generator
) -> str:
    """What is wrong, on other numbers of the same kind where these do not show the cause."""
    problem = ""
    for _ in range(MAX_TRIES):
        message = _problem(name, function, {key: _draw(spec, random) for key, spec in draw.items()})
        problem = message or problem
        if NO_KNOWN_MISTAKE not in message:
            break
    return problem


def _problem(name: str, function: Callable[..., Any], arguments: Arguments) -> str:
    """What is wrong with the function's result for these arguments; nothing where it is right."""
    shapes = ", ".join(f"{key} {format_shape(v.shape, '')}" for key, v in arguments.items() if np.ndim(v))
    try:
        result = _result(name, function, arguments)
    except Exception as error:  # whatever a student's own code does
        stopped = f"stopped with {type(error).__name__}: {error}. The arguments were {shapes}."
        return NOT_FILLED_IN if "ellipsis" in str(error) else stopped
    expected = _reference(name, arguments)
    if result.shape != expected.shape and (result.size > 1 or expected.size > 1):
        sizes = [format_shape(shape, "") for shape in (result.shape, expected.shape)]
        cause = _cause(name, arguments, result) or f"the arguments were {shapes}."
        return f"incorrect: the result is {sizes[0]}, not {sizes[1]}; {cause}"
    if np.allclose(result.reshape(expected.shape), expected, rtol=TOLERANCE, atol=TOLERANCE):
        return ""
    return "incorrect: " + (
        _cause(name, arguments, result) or (HAS_NAN if np.isnan(result).any() else NO_KNOWN_MISTAKE)
    )


def _result(name: str, function: Callable[..., Any], arguments: Arguments) -> Any:
    """What a function makes of the arguments, as an array. Of a batch, of two equal sequences, the first."""
    batch = CHECKS[name].get("batch", ())
    values = [np.stack([value] * 2) if key in batch else value for key, value in arguments.items()]
    result = function(*(_student_argument(name, value) for value in values))
    array = np.asarray(result.detach() if hasattr(result, "detach") else result, float)
    if not batch:
        return array
    if array.shape[:1] != (2,):
        raise ValueError(f"the result is {format_shape(array.shape, '')}, but its first axis is the batch, 2")
    if not np.allclose(array[0], array[1], TOLERANCE, TOLERANCE, equal_nan=True):
        raise ValueError("two equal sequences of a batch give different results")
    return array[0]


def _student_argument(name: str, value: Any) -> Any:
    """An argument as the student's function takes it, each time a new one."""
    if not isinstance(value, np.ndarray) or CHECKS[name].get("arrays"):
        return np.copy(value) if isinstance(value, np.ndarray) else value
    torch = import_module("torch")  # the notebook has it already; the others never need it
    return torch.tensor(value, dtype=torch.float32 if value.dtype == float else torch.int64)


def _exercise(name: str, arguments: Arguments, digits: int) -> Exercise:
    inputs = {key: np.asarray(value).tolist() for key, value in arguments.items() if value is not None}
    step = CHECKS[name].get("step", "output")
    return Exercise(CHECKS[name]["mechanism"], inputs, points={step: 1}, digits=digits)


def _reference(name: str, arguments: Arguments) -> Any:
    if name in REFERENCES:
        return np.asarray(REFERENCES[name](**{key: HandTensor(value) for key, value in arguments.items()}))
    exercise = _exercise(name, arguments, DIGITS[0])
    return exercise.solution[next(iter(exercise.points))]


def _cause(name: str, arguments: Arguments, result: Any) -> str:
    """The mistakes that give exactly these numbers, in sentences; nothing where none is known."""
    sentences = []
    for sentence, old, new in CHECKS[name].get("mistakes", ()):
        try:
            wrong = _result(name, solution_function(name, old, new), arguments)
        except (RuntimeError, ValueError, IndexError):  # it cannot be made with these sizes
            continue
        if wrong.shape == result.shape and np.allclose(wrong, result, rtol=TOLERANCE, atol=TOLERANCE):
            sentences.append(sentence)
    digits = iter(() if name in REFERENCES or not np.isfinite(result).all() else DIGITS)
    while not sentences and (count := next(digits, 0)):
        exercise = _exercise(name, arguments, count)
        (step,) = grade(exercise, dict.fromkeys(exercise.points, value_text(result.round(count)))).steps
        sentences = [cause.sentence for cause in step.causes if cause.slug not in NOT_A_CAUSE]
        sentences = [text for text in sentences if BUT_FOR_A_SLIP not in text]  # code makes no slips
    return "; or ".join(sentences) + "." if sentences else ""


def _cross_entropy(logits: HandTensor, labels: HandTensor) -> Any:
    rows = np.arange(len(labels.array))
    return -np.log(softmax(logits).array[rows, labels.array.astype(int)]).mean()


def _masked_mean(tokens: HandTensor, mask: HandTensor) -> Any:
    """Attention that cannot tell the tokens apart: the mean of those it may see."""
    return attention(tokens[:1], tokens, tokens, beta=0.0, mask=mask.unsqueeze(0)).array[0]


# What is no exercise by itself.
REFERENCES: dict[str, Callable[..., Any]] = {"cross-entropy": _cross_entropy, "masked-mean": _masked_mean}
