"""Grading inside a course system: variables of a notebook, or an answer file, with the marks of ``grade``.

A notebook's answers are plain variables. Their values are written out as text and read by headwork's own
parser, so nothing is evaluated here. As a program (``python -m headwork.courses.autograder ROOT HINT``) it is
Gradescope's autograder: it reads ``source/key.toml`` and ``submission/`` and writes ``results/results.json``.
"""

import ast
import builtins
import json
import keyword
import re
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from html import escape
from numbers import Number
from pathlib import Path
from typing import Any

from headwork.courses.cohort import UNEXPECTED, answer_files, check_origin, grade_sheet, no_marks
from headwork.courses.sheets import read_key
from headwork.errors import HeadworkError, InputError
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.exercise import Exercise
from headwork.exercises.reading import exercise_from
from headwork.files import parse_json, read_text, write_atomic
from headwork.grading.answers import LARGEST_FILE, AnswerFile, read_answers, read_entries
from headwork.grading.feedback import feedback, hints
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, StepMark
from headwork.grading.wording import points_text

LARGEST_NOTEBOOK = 2_000_000
LONGEST_OUTPUT = 4_000
MAX_DECIMALS = 17
Scope = Mapping[str, Any]


# --- variables ------------------------------------------------------------------------------------------
def variables(exercise: Exercise, prefix: str = "") -> dict[str, str]:
    """The variable that each asked step (or field of a challenge) is written into.

    >>> variables(Exercise("softmax", {"scores": "0 0"}), "q2_")
    {'exponentials': 'q2_exponentials', 'total': 'q2_total', 'weights': 'q2_weights'}
    """
    names: dict[str, str] = {}
    for blank in CHALLENGES[exercise.mechanism].fields if exercise.challenge else exercise.asked:
        name = prefix + re.sub(r"\W+", "_", blank).strip("_")
        name = name if name.isidentifier() else f"step_{name}"
        while keyword.iskeyword(name) or hasattr(builtins, name) or name in names.values():
            name += "_"
        names[blank] = name
    return names


def value_text(value: Any) -> str:
    """A value as a person types it. Floats of one array get as many decimals as the longest of them needs.

    >>> value_text([[0.5, 0.25], [1.0, 2.0]]), value_text("1/2 1/4")
    ('[[0.50, 0.25], [1.00, 2.00]]', '1/2 1/4')
    """
    plain = _plain(value)
    text = _nested_text(plain, min(_decimals(plain), MAX_DECIMALS))
    if len(text) > LARGEST_FILE:
        raise InputError(f"{len(text):,} characters; at most {LARGEST_FILE:,} are read.")
    return text


def _plain(value: Any) -> Any:
    """The value as lists, strings and numbers; arrays and tensors become lists."""
    if value is None or isinstance(value, str):
        return value or ""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    numeric = isinstance(value, Number) or type(value).__module__.startswith("sympy.")
    if isinstance(value, bool) or not numeric:
        raise InputError(
            f"a value of type {type(value).__name__}; expected numbers, a list, an array or a string."
        )
    return value


def _decimals(plain: Any) -> int:
    """The most decimals that any float of it needs."""
    if isinstance(plain, list):
        return max(map(_decimals, plain), default=0)
    exponent = Decimal(repr(float(plain))).normalize().as_tuple().exponent if isinstance(plain, float) else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _nested_text(plain: Any, decimals: int) -> str:
    if isinstance(plain, list):
        return "[" + ", ".join(_nested_text(part, decimals) for part in plain) + "]"
    if isinstance(plain, float):
        return "?" if plain != plain else f"{plain:.{decimals}f}"
    return str(plain)


# --- marking --------------------------------------------------------------------------------------------
def mark_variables(exercise: Exercise, scope: Scope, prefix: str = "") -> Mark:
    """Mark the variables of a notebook; never raises, whatever they hold.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 2})
    >>> mark_variables(exercise, {"weights": [0.5, 0.5]}).points
    2.0
    """
    texts: dict[str, str] = {}
    refused: dict[str, str] = {}
    for blank, name in variables(exercise, prefix).items():
        try:
            texts[blank] = value_text(scope.get(name))
        except Exception as error:  # whatever a student's own object does when it is read
            refused[blank] = f"{name} cannot be read: {error}"
    tokens_as = scope.get("tokens_as")
    convention = tokens_as if isinstance(tokens_as, str) and tokens_as in ("rows", "columns") else ""
    try:
        mark = grade(exercise, texts, tokens_as=convention)
    except (HeadworkError, *UNEXPECTED) as error:
        return no_marks(exercise, "unreadable", f"cannot be marked ({type(error).__name__}: {error})")
    return replace(mark, steps=tuple(_refuse(step, refused, exercise.challenge) for step in mark.steps))


def _refuse(step: StepMark, refused: Mapping[str, str], challenge: bool) -> StepMark:
    reason = "; ".join(refused.values()) if challenge else refused.get(step.path, "")
    if not reason:
        return step
    return replace(step, state="unreadable", points=0.0, remark=reason, causes=(), cells=())


def step_feedback(mark: Mark, step: StepMark, hint: int) -> str:
    """The feedback on one step, hints included."""
    remark = f" ({step.remark})" if step.remark else ""
    points = f"{points_text(step.points)} of {points_text(step.max_points)}"
    lines = [f"{step.path}: {step.verdict}, {points}{remark}"]
    if not step.right:
        lines += [f"{label}: {words}" for label, words in hints(mark, step, min(hint, mark.exercise.hints))]
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Text that any page or database takes: no control characters, not too long."""
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return printable if len(printable) <= LONGEST_OUTPUT else printable[:LONGEST_OUTPUT] + " ..."


# --- what the cells of a notebook call ------------------------------------------------------------------
def report(exercise: Mapping[str, Any], scope: Scope, *, prefix: str = "", hint: int = 2) -> str:
    """The whole mark in words, for a cell that a student runs."""
    return feedback(_mark(exercise, scope, prefix), hint)


def points(exercise: Mapping[str, Any], step: str, scope: Scope, *, prefix: str = "", hint: int = 2) -> float:
    """The points of one step as a plain float, with its feedback printed: the form that nbgrader expects."""
    # Anything on stderr, even a warning from numpy, would make nbgrader give no points.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mark = _mark(exercise, scope, prefix)
        print(step_feedback(mark, mark.step(step), hint))
    return float(mark.step(step).points)


def require(
    exercise: Mapping[str, Any],
    step: str,
    scope: Scope,
    *,
    prefix: str = "",
    hint: int = 2,
    share: float = 1.0,
) -> None:
    """Raise unless a step earned that share of its points: the form that otter expects of a test case.

    The message is escaped, because otter puts it into a page as it is.
    """
    mark = _mark(exercise, scope, prefix)
    step_mark = mark.step(step)
    if step_mark.points < share * step_mark.max_points - 1e-9:
        raise AssertionError(escape(step_feedback(mark, step_mark, hint), quote=False))


def require_readable(shapes: Mapping[str, Sequence[int] | None], scope: Scope) -> None:
    """Raise unless every variable can be read and has its shape (None: any), whether right or wrong."""
    reasons = {name: _problem(scope.get(name), shape) for name, shape in shapes.items()}
    problems = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    if problems:
        raise AssertionError(escape(_clean("\n".join(problems)), quote=False))


def _problem(value: Any, shape: Sequence[int] | None) -> str:
    try:
        axes = "" if shape is not None else "axis"
        entries = read_entries(value_text(value), shape=tuple(shape or ()), axes=axes)
    except Exception as error:  # as above
        return f"cannot be read: {error}"
    if entries is None:
        return "not filled in"
    if shape is not None and entries.fit(tuple(shape)) is None and entries.shape[::-1] != tuple(shape):
        sizes = [" x ".join(map(str, size)) or "one number" for size in (entries.shape, shape)]
        return f"{sizes[0]}; asked is {sizes[1]}"
    return ""


def _mark(exercise: Mapping[str, Any], scope: Scope, prefix: str) -> Mark:
    return mark_variables(_exercise(json.dumps(exercise)), scope, prefix)


@lru_cache(maxsize=32)
def _exercise(data: str) -> Exercise:
    return exercise_from(json.loads(data), "this notebook")


# --- Gradescope -----------------------------------------------------------------------------------------
def autograde(root: str | Path, hint: int = 2) -> dict[str, Any]:
    """The content of results.json for the files under ``root``; what cannot be marked gets 0 and a reason."""
    started = time.monotonic()
    folder = Path(root)
    try:
        sheet = read_key(folder / "source" / "key.toml")
    except Exception as error:
        return _results([], f"The autograder cannot read its key ({error}). Tell your teacher.", started)
    try:
        marks = grade_sheet(sheet, _read_submission(folder / "submission", sheet.exercises))
    except Exception as error:  # Gradescope must always find a result
        known = isinstance(error, HeadworkError)
        reason = str(error) if known else f"cannot be marked ({type(error).__name__}: {error})"
        marks = {number: no_marks(exercise, "missing") for number, exercise in sheet.exercises.items()}
        return _results(_tests(marks, 0), f"Unreadable: {reason}", started)
    total, full = sum(mark.points for mark in marks.values()), sum(mark.max_points for mark in marks.values())
    return _results(_tests(marks, hint), f"{points_text(total)} of {points_text(full)} points", started)


def _results(tests: list[dict[str, Any]], output: str, started: float) -> dict[str, Any]:
    result: dict[str, Any] = {"output": _clean(output), "output_format": "text", "visibility": "visible"}
    result |= {"tests": tests} if tests else {"score": 0.0}
    return result | {"execution_time": round(time.monotonic() - started, 3)}


def _tests(marks: Mapping[str, Mark], hint: int) -> list[dict[str, Any]]:
    return [
        {
            "name": step.path if len(marks) == 1 else f"{name}: {step.path}",
            "number": f"{question}.{number}",
            "score": step.points,
            "max_score": step.max_points,
            "status": "passed" if step.points >= step.max_points else "failed",
            "output": step_feedback(mark, step, hint),
            "output_format": "text",
            "visibility": "visible",
        }
        for question, (name, mark) in enumerate(marks.items(), 1)
        for number, step in enumerate(mark.steps, 1)
    ]


def _read_submission(folder: Path, exercises: Mapping[str, Exercise]) -> AnswerFile:
    """The answers of the one submitted answer file, or else of the one notebook."""
    files = answer_files(folder) if folder.is_dir() else []
    matches = [path for path in files if path.suffix.lower() == ".toml"]
    matches = matches or [path for path in files if path.suffix.lower() == ".ipynb"]
    if len(matches) != 1:
        names = ", ".join(path.name for path in matches[:5]) or "none"
        raise InputError(f"one answer file (.toml) or one notebook (.ipynb) is expected; submitted: {names}.")
    if matches[0].suffix.lower() == ".ipynb":
        return read_notebook(matches[0], exercises)
    answers = read_answers(matches[0])
    if len(exercises) == len(answers.answers) == 1:
        # With one exercise there is nothing to confuse, whatever the student's sheet calls it.
        ((name, texts),) = answers.answers.items()
        entry = answers.exercises.get(name, {})
        answers = replace(
            answers, answers=dict.fromkeys(exercises, texts), exercises=dict.fromkeys(exercises, entry)
        )
    for name, exercise in exercises.items():
        check_origin(name, exercise, answers.exercises.get(name))
    return answers


def read_notebook(path: str | Path, exercises: Mapping[str, Exercise]) -> AnswerFile:
    """The answers typed into a notebook: the source text to the right of each ``name =``. Nothing is run."""
    source = Path(path)
    text = read_text(source, max_bytes=LARGEST_NOTEBOOK, root=source.parent)
    try:
        cells = parse_json(text, source)["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{source}: not a notebook ({type(error).__name__}).") from None
    texts: dict[str, str] = {}
    for code in codes:
        texts |= _assignments(code)
    several = len(exercises) > 1
    answers = {}
    for number, (name, exercise) in enumerate(exercises.items(), 1):
        names = variables(exercise, f"q{number}_" if several else "")
        answers[name] = {blank: texts.get(variable, "") for blank, variable in names.items()}
    return AnswerFile(answers)


def _assignments(code: str) -> dict[str, str]:
    """The text assigned to each variable of a cell; a cell that is not Python assigns none."""
    code = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in code.splitlines())
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    texts = {}
    for line in body:
        if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            value = line.value.value if isinstance(line.value, ast.Constant) else None
            texts[line.targets[0].id] = (
                value if isinstance(value, str) else ast.get_source_segment(code, line.value) or ""
            )
    return texts


def main() -> None:
    """Mark the submission, as Gradescope's run_autograder asks."""
    root, hint = Path(sys.argv[1]), int(sys.argv[2])
    results = json.dumps(autograde(root, hint), allow_nan=False, indent=1)
    write_atomic(root / "results" / "results.json", results + "\n")


if __name__ == "__main__":
    main()
