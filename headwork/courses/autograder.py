"""Grading inside a course system: variables of a notebook, or an answer file, with the marks of ``grade``.

A notebook's answers are plain variables. Their values are written out as text and read by headwork's own
parser, so nothing is evaluated here. As a program (``python -m headwork.courses.autograder ROOT HINT``) it is
Gradescope's autograder: it reads ``source/key.toml`` and ``submission/`` and writes ``results/results.json``.
"""

import base64
import json
import sys
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from headwork.courses.cohort import UNEXPECTED_ERRORS, answer_files, check_origin, grade_sheet, zero_marks
from headwork.courses.sheets import Sheet, read_key
from headwork.courses.variables import value_text, variables
from headwork.errors import HeadworkError, InputError
from headwork.exercises.exercise import Exercise
from headwork.exercises.exercise_files import exercise_from
from headwork.files import parse_json, read_text, read_toml, write_atomic
from headwork.grading.answers import AnswerFile, read_answers, read_entries
from headwork.grading.feedback import feedback, hints
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, StepMark
from headwork.grading.wording import points_text

MAX_OUTPUT = 4_000
Scope = Mapping[str, Any]


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
    except (HeadworkError, *UNEXPECTED_ERRORS) as error:
        return zero_marks(exercise, "unreadable", f"cannot be marked ({type(error).__name__}: {error})")
    steps = (_mark_unreadable(step, refused, exercise.is_challenge) for step in mark.steps)
    return replace(mark, steps=tuple(steps))


def _mark_unreadable(step: StepMark, refused: Mapping[str, str], challenge: bool) -> StepMark:
    reason = "; ".join(refused.values()) if challenge else refused.get(step.path, "")
    if not reason:
        return step
    return replace(step, state="unreadable", points=0.0, remark=reason, causes=(), wrong_cells=())


def step_feedback(mark: Mark, step: StepMark, hint: int) -> str:
    """The feedback on one step, hints included."""
    remark = f" ({step.remark})" if step.remark else ""
    points = f"{points_text(step.points)} of {points_text(step.max_points)}"
    lines = [f"{step.path}: {step.verdict}, {points}{remark}"]
    if not step.right:
        lines += [f"{label}: {words}" for label, words in hints(mark, step, min(hint, mark.exercise.hints))]
    return _printable("\n".join(lines))


def _printable(text: str) -> str:
    """Text that any page or database takes: no control characters, not too long."""
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return printable if len(printable) <= MAX_OUTPUT else printable[:MAX_OUTPUT] + " ..."


# --- what the cells of a notebook call ------------------------------------------------------------------
# One exercise, or those of all students as ``pack_variants`` gives them.
ExerciseData = Mapping[str, Any] | str


def pack_variants(variants: Mapping[str, Any]) -> str:
    """Exercises by student as one line of text.

    >>> pack_variants({"ada": {}})[:4]
    'eNqr'
    """
    return base64.b64encode(zlib.compress(json.dumps(variants).encode(), 9)).decode()


def report(exercise: Mapping[str, Any], scope: Scope, *, prefix: str = "", hint: int = 2) -> str:
    """The whole mark in words, for a cell that a student runs."""
    return feedback(_mark(exercise, scope, prefix), hint)


def points(exercise: ExerciseData, step: str, scope: Scope, *, prefix: str = "", hint: int = 2) -> float:
    """The points of one step as a plain float, with its feedback printed: the form that nbgrader expects."""
    # Anything on stderr, even a warning from numpy, would make nbgrader give no points.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mark = _mark(exercise, scope, prefix)
        print(step_feedback(mark, mark.step(step), hint))
    return float(mark.step(step).points)


def require(
    exercise: ExerciseData, step: str, scope: Scope, *, prefix: str = "", hint: int = 2, share: float = 1.0
) -> None:
    """Raise unless a step earned that share of its points: the form that otter expects of a test case.

    The message is escaped, because otter puts it into a page as it is.
    """
    mark = _mark(exercise, scope, prefix)
    step_mark = mark.step(step)
    if step_mark.points < share * step_mark.max_points - 1e-9:
        raise AssertionError(escape(step_feedback(mark, step_mark, hint), quote=False))


def require_readable(
    shapes: Mapping[str, Sequence[int] | None], scope: Scope, *, student: bool = False
) -> None:
    """Raise unless every variable can be read and has its shape (None: any), whether right or wrong.

    With ``student`` there must be an ID as well; the students' tests cannot check whose it is.
    """
    reasons = {"student": "" if not student or _student(scope) else "type your ID, as on your sheet"}
    reasons |= {name: _problem(scope.get(name), shape) for name, shape in shapes.items()}
    problems = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
    if problems:
        raise AssertionError(escape(_printable("\n".join(problems)), quote=False))


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
        return f"{sizes[0]}; expected {sizes[1]}"
    return ""


def _student(scope: Scope) -> str:
    student = scope.get("student")
    return student.strip().casefold() if isinstance(student, str) else ""


def _mark(exercise: ExerciseData, scope: Scope, prefix: str) -> Mark:
    if not isinstance(exercise, str):
        return mark_variables(_exercise(json.dumps(exercise)), scope, prefix)
    variants, student = _variants(exercise), _student(scope)
    if student in variants:
        return mark_variables(_exercise(variants[student]), scope, prefix)
    reason = f"student = {student[:40]!r} is not on the list: type your ID, as on your sheet"
    return zero_marks(_exercise(next(iter(variants.values()))), "unreadable", reason)


@lru_cache(maxsize=32)
def _variants(text: str) -> dict[str, str]:
    """Packed exercises by student, without regard to capitals, each as JSON."""
    variants = json.loads(zlib.decompress(base64.b64decode(text)))
    return {student.casefold(): json.dumps(data) for student, data in variants.items()}


@lru_cache(maxsize=32)
def _exercise(data: str) -> Exercise:
    return exercise_from(json.loads(data), "this notebook")


# --- Gradescope -----------------------------------------------------------------------------------------
def autograde(root: str | Path, hint: int = 2) -> dict[str, Any]:
    """The content of results.json for the files under ``root``; what cannot be marked gets 0 and a reason."""
    started, folder = time.monotonic(), Path(root)
    try:
        has_variants = (folder / "source" / "keys").is_dir()
        sheet, remark = _own_sheet(folder) if has_variants else (read_key(folder / "source" / "key.toml"), "")
    except _UnknownStudent as error:
        return _results([], f"Unreadable: {error}", started)
    except Exception as error:
        return _results([], f"The autograder cannot read its key ({error}). Tell your teacher.", started)
    try:
        marks = grade_sheet(sheet, _read_submission(folder / "submission", sheet.exercises))
    except Exception as error:  # Gradescope must always find a result
        known = isinstance(error, HeadworkError)
        reason = str(error) if known else f"cannot be marked ({type(error).__name__}: {error})"
        marks = {number: zero_marks(exercise, "missing") for number, exercise in sheet.exercises.items()}
        return _results(_tests(marks, 0), f"Unreadable: {reason}", started)
    total, full = sum(mark.points for mark in marks.values()), sum(mark.max_points for mark in marks.values())
    output = f"{points_text(total)} of {points_text(full)} points{remark}"
    return _results(_tests(marks, hint), output, started)


class _UnknownStudent(InputError):
    """Nobody knows whose numbers a submission should have."""


def _own_sheet(folder: Path) -> tuple[Sheet, str]:
    """The sheet of who submits, by the e-mail address or else by the ID in the file, and a remark on it."""
    listed = read_toml(folder / "source" / "students.toml")["students"]
    listed_ids = {student.casefold(): student for student in listed}
    emails = {email.casefold(): student for student, email in listed.items() if email}
    metadata = folder / "submission_metadata.json"
    users = parse_json(read_text(metadata), metadata) if metadata.is_file() else {}
    people = users.get("users") if isinstance(users, dict) else None
    addresses = [str(user.get("email", "")).casefold() for user in people or [] if isinstance(user, dict)]
    submitted = [emails[address] for address in addresses if address in emails]
    typed = _typed_student(folder / "submission")
    named = listed_ids.get(typed.casefold())
    student = named if named and (not submitted or named in submitted) else next(iter(submitted), None)
    if student is None:
        raise _UnknownStudent(
            f"neither the e-mail address of who submits nor the student in the file ({typed[:40]!r}) is "
            "on the list. Type your ID, as on your sheet, and submit again."
        )
    other = f". The file names {named}; the numbers are those of {student}, who submitted it"
    key = read_key(folder / "source" / "keys" / f"{student}.toml")
    return key, "" if named in (None, student) else other


def _typed_student(folder: Path) -> str:
    """Who a submission says that it is from; nothing where it cannot be read."""
    try:
        return read_answers(_submitted(folder)).student.strip()
    except HeadworkError:
        return ""


def _results(tests: list[dict[str, Any]], output: str, started: float) -> dict[str, Any]:
    result: dict[str, Any] = {"output": _printable(output), "output_format": "text", "visibility": "visible"}
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


def _submitted(folder: Path) -> Path:
    """The one submitted answer file."""
    files = answer_files(folder) if folder.is_dir() else []
    matches = [path for path in files if path.suffix.lower() == ".toml"]
    if len(matches) != 1:
        names = ", ".join(path.name for path in (matches or files)[:5]) or "none"
        raise InputError(f"one answer file (.toml) is expected; submitted: {names}.")
    return matches[0]


def _read_submission(folder: Path, exercises: Mapping[str, Exercise]) -> AnswerFile:
    """The answers of what was submitted."""
    answers = read_answers(_submitted(folder))
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


def main() -> None:
    """Mark the submission, as Gradescope's run_autograder asks."""
    root, hint = Path(sys.argv[1]), int(sys.argv[2])
    results = json.dumps(autograde(root, hint), allow_nan=False, indent=1)
    write_atomic(root / "results" / "results.json", results + "\n")


if __name__ == "__main__":
    main()
