"""What runs inside a course system: variables of a notebook, or an answer file, marked as ``headwork grade`` marks.

A notebook's answers are plain variables. Their values are written out as text and read by headwork's own parser, so
nothing is evaluated here. As a program (``python -m headwork.courses.autograder ROOT HINT``) it is the autograder of
Gradescope: it reads ``source/key.toml`` and what lies in ``submission/``, and writes ``results/results.json`` once.
"""

from __future__ import annotations

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

from headwork.errors import HeadworkError, InputError
from headwork.exercises.exercise import Exercise
from headwork.exercises.reading import exercise_from
from headwork.files import read_text, write_whole
from headwork.grading.answers import LARGEST_FILE, AnswerFile, read_answers, read_entries
from headwork.grading.feedback import SIGNS, hints
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, StepMark

LARGEST_NOTEBOOK = 2_000_000
LONGEST_OUTPUT = 4_000
MOST_DECIMALS = 17
BROKEN = (HeadworkError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError)
Scope = Mapping[str, Any]


# --- variables ------------------------------------------------------------------------------------------


def variables(exercise: Exercise, prefix: str = "") -> dict[str, str]:
    """The variable that each asked step (or field of a challenge) is written into.

    >>> variables(Exercise("softmax", {"scores": "0 0"}), "q2_")
    {'exponentials': 'q2_exponentials', 'total': 'q2_total', 'weights': 'q2_weights'}
    """
    names: dict[str, str] = {}
    for blank in _blanks(exercise):
        name = prefix + re.sub(r"\W+", "_", blank).strip("_")
        name = name if name.isidentifier() else f"step_{name}"
        while keyword.iskeyword(name) or hasattr(builtins, name) or name in names.values():
            name += "_"
        names[blank] = name
    return names


def _blanks(exercise: Exercise) -> Sequence[str]:
    from headwork.exercises.challenges import CHALLENGES

    return list(CHALLENGES[exercise.mechanism].fields) if exercise.challenge else list(exercise.asked)


def written(value: Any) -> str:
    """A value as a person types it. Floats of one array get as many decimals as the longest of them needs.

    >>> written([[0.5, 0.25], [1.0, 2.0]]), written("1/2 1/4")
    ('[[0.50, 0.25], [1.00, 2.00]]', '1/2 1/4')
    """
    plain = _plain(value)
    decimals = max((_decimals(x) for x in _flat(plain) if isinstance(x, float)), default=0)
    text = _typed(plain, min(decimals, MOST_DECIMALS))
    if len(text) > LARGEST_FILE:
        raise InputError(f"{len(text):,} characters; at most {LARGEST_FILE:,} are read.")
    return text


def _plain(value: Any) -> Any:
    """Lists, texts and numbers only; arrays and tensors become lists."""
    if value is None or isinstance(value, str):
        return value or ""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    numeric = isinstance(value, Number) or type(value).__module__.startswith("sympy.")
    if isinstance(value, bool) or not numeric:
        raise InputError(
            f"a value of type {type(value).__name__}; write numbers, a list, an array or a text."
        )
    return value


def _flat(plain: Any) -> list[Any]:
    return [x for part in plain for x in _flat(part)] if isinstance(plain, list) else [plain]


def _decimals(number: float) -> int:
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _typed(plain: Any, decimals: int) -> str:
    if isinstance(plain, list):
        return "[" + ", ".join(_typed(part, decimals) for part in plain) + "]"
    if isinstance(plain, float):
        return "?" if plain != plain else f"{plain:.{decimals}f}"
    return str(plain)


# --- marking --------------------------------------------------------------------------------------------


def mark_variables(exercise: Exercise, scope: Scope, prefix: str = "") -> Mark:
    """Mark the variables of a notebook; never raises for what is in them.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 2})
    >>> mark_variables(exercise, {"weights": [0.5, 0.5]}).points
    2.0
    """
    texts: dict[str, str] = {}
    refused: dict[str, str] = {}
    for blank, name in variables(exercise, prefix).items():
        try:
            texts[blank] = written(scope.get(name))
        except Exception as error:  # whatever a student's own object does when it is looked at
            refused[blank] = f"{name} cannot be read: {error}"
    tokens_as = scope.get("tokens_as")
    told = tokens_as if isinstance(tokens_as, str) and tokens_as in ("rows", "columns") else ""
    mark = _graded(exercise, texts, told)
    return replace(mark, steps=tuple(_refused(step, refused, exercise.challenge) for step in mark.steps))


def _graded(exercise: Exercise, texts: Mapping[str, str], tokens_as: str) -> Mark:
    try:
        return grade(exercise, texts, tokens_as=tokens_as)
    except BROKEN as error:
        why = f"cannot be marked ({type(error).__name__}: {error})"
        return Mark(
            exercise, tuple(StepMark(p, "unreadable", 0.0, full, why) for p, full in exercise.asked.items())
        )


def _refused(step: StepMark, refused: Mapping[str, str], challenge: bool) -> StepMark:
    why = "; ".join(refused.values()) if challenge else refused.get(step.path, "")
    return replace(step, state="unreadable", points=0.0, remark=why, causes=(), cells=()) if why else step


def told(mark: Mark, step: StepMark, hint: int) -> str:
    """What is said about one step, hints included."""
    remark = f" ({step.remark})" if step.remark else ""
    lines = [f"{step.path}: {SIGNS[step.state]}, {step.points:g} of {step.full:g}{remark}"]
    if not step.right:
        lines += hints(mark, step, min(hint, mark.exercise.hints))
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Text that any page or database takes: no control characters, not too long."""
    harmless = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return harmless if len(harmless) <= LONGEST_OUTPUT else harmless[:LONGEST_OUTPUT] + " ..."


# --- what the cells of a notebook call ------------------------------------------------------------------


def report(exercise: Mapping[str, Any], scope: Scope, *, prefix: str = "", hint: int = 2) -> str:
    """The whole mark in words, for a cell in which a student looks for herself."""
    from headwork.grading.feedback import feedback

    return feedback(_mark(exercise, scope, prefix), hint)


def points(exercise: Mapping[str, Any], step: str, scope: Scope, *, prefix: str = "", hint: int = 2) -> float:
    """The points of one step as a plain float, with its feedback printed: what nbgrader wants of a cell."""
    # Anything on stderr, a warning of numpy's say, would make nbgrader give nothing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mark = _mark(exercise, scope, prefix)
        print(told(mark, mark.step(step), hint))
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
    """Raise unless a step earned that share of its points: what otter wants of a test case.

    The message is escaped, because otter puts it into a page as it is.
    """
    mark = _mark(exercise, scope, prefix)
    found = mark.step(step)
    if found.points < share * found.full - 1e-9:
        raise AssertionError(escape(told(mark, found, hint), quote=False))


def require_readable(shapes: Mapping[str, Sequence[int] | None], scope: Scope) -> None:
    """Raise unless every variable can be read and has its shape (None: any); says nothing about what is right."""
    problems = [
        f"{name}: {why}" for name, shape in shapes.items() if (why := _unreadable(scope.get(name), shape))
    ]
    if problems:
        raise AssertionError(escape(_clean("\n".join(problems)), quote=False))


def _unreadable(value: Any, shape: Sequence[int] | None) -> str:
    try:
        typed = read_entries(
            written(value), shape=tuple(shape or ()), axes="" if shape is not None else "axis"
        )
    except Exception as error:  # as above
        return f"cannot be read: {error}"
    if typed is None:
        return "not filled in"
    if shape is not None and typed.fitted(tuple(shape)) is None and typed.shape[::-1] != tuple(shape):
        return f"{_sized(typed.shape)}; asked is {_sized(shape)}"
    return ""


def _sized(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _mark(exercise: Mapping[str, Any], scope: Scope, prefix: str) -> Mark:
    return mark_variables(_exercise(json.dumps(exercise)), scope, prefix)


@lru_cache(maxsize=32)
def _exercise(data: str) -> Exercise:
    return exercise_from(json.loads(data), "this notebook")


# --- Gradescope -----------------------------------------------------------------------------------------


def autograde(root: str | Path, hint: int = 2) -> dict[str, Any]:
    """The content of results.json for what lies under ``root``; what cannot be marked gets 0 and a reason."""
    from headwork.courses.cohort import grade_sheet
    from headwork.courses.sheets import read_key

    started = time.monotonic()
    place = Path(root)
    try:
        sheet = read_key(place / "source" / "key.toml")
    except Exception as error:
        return _results(
            [], f"The autograder has no key that it can read ({error}). Tell your teacher.", started
        )
    try:
        marks = grade_sheet(sheet, _submitted(place / "submission", sheet.exercises))
    except Exception as error:  # the box must always find a result
        why = (
            str(error)
            if isinstance(error, HeadworkError)
            else f"cannot be marked ({type(error).__name__}: {error})"
        )
        nothing = {
            n: Mark(e, tuple(StepMark(p, "missing", 0.0, full) for p, full in e.asked.items()))
            for n, e in sheet.exercises.items()
        }
        return _results(_tests(nothing, 0), f"Unreadable: {why}", started)
    total, full = (sum(getattr(mark, what) for mark in marks.values()) for what in ("points", "full"))
    return _results(_tests(marks, hint), f"{total:g} of {full:g} points", started)


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
            "max_score": step.full,
            "status": "passed" if step.points >= step.full else "failed",
            "output": told(mark, step, hint),
            "output_format": "text",
            "visibility": "visible",
        }
        for question, (name, mark) in enumerate(marks.items(), 1)
        for number, step in enumerate(mark.steps, 1)
    ]


def _submitted(folder: Path, exercises: Mapping[str, Exercise]) -> AnswerFile:
    """The answers of the one answer file, or else of the one notebook, that was handed in."""
    from headwork.courses.cohort import answer_files

    files = answer_files(folder) if folder.is_dir() else []
    found = [p for p in files if p.suffix.lower() == ".toml"] or [
        p for p in files if p.suffix.lower() == ".ipynb"
    ]
    if len(found) != 1:
        names = ", ".join(p.name for p in found[:5]) if found else "nothing of the kind"
        raise InputError(
            f"one answer file (.toml) or one notebook (.ipynb) is expected; handed in was {names}."
        )
    if found[0].suffix.lower() == ".ipynb":
        return read_notebook(found[0], exercises)
    answers = read_answers(found[0])
    if len(exercises) == len(answers.answers) == 1:
        # With one exercise there is nothing to confuse, whatever the student's sheet calls it.
        ((old, given),) = answers.answers.items()
        answers = replace(
            answers,
            answers=dict.fromkeys(exercises, given),
            exercises=dict.fromkeys(exercises, answers.exercises.get(old, {})),
        )
    for name, exercise in exercises.items():
        _same_exercise(name, exercise, answers.exercises.get(name))
    return answers


def _same_exercise(name: str, exercise: Exercise, entry: Any) -> None:
    if not isinstance(entry, Mapping) or exercise.seed is None:
        return
    asked = {"kind": exercise.kind, "seed": exercise.seed, "difficulty": exercise.difficulty}
    if any(entry.get(word, value) != value for word, value in asked.items()):
        given = ", ".join(f"{word} {entry.get(word)}" for word in asked)
        raise InputError(
            f"this file answers another exercise ({given}) than {name}. Fill in the sheet of this one."
        )


def read_notebook(path: str | Path, exercises: Mapping[str, Exercise]) -> AnswerFile:
    """The answers typed into a notebook: the text to the right of each ``name =``, as it stands. Nothing is run."""
    source = Path(path)
    if source.is_symlink() or not source.is_file():
        raise InputError(f"{source}: not a plain file.")
    try:
        cells = json.loads(read_text(source, most=LARGEST_NOTEBOOK))["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, HeadworkError):
            raise
        raise InputError(f"{source}: not a notebook ({type(error).__name__}).") from None
    texts: dict[str, str] = {}
    for code in codes:
        texts |= _assigned(code)
    several = len(exercises) > 1
    answers = {}
    for number, (name, exercise) in enumerate(exercises.items(), 1):
        names = variables(exercise, f"q{number}_" if several else "")
        answers[name] = {blank: texts.get(variable, "") for blank, variable in names.items()}
    return AnswerFile(answers)


def _assigned(code: str) -> dict[str, str]:
    """What each variable of a cell is set to, as typed; a cell that is not Python sets none."""
    code = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in code.splitlines())
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found = {}
    for line in body:
        if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
            value = line.value.value if isinstance(line.value, ast.Constant) else None
            found[line.targets[0].id] = (
                value if isinstance(value, str) else ast.get_source_segment(code, line.value) or ""
            )
    return found


def main() -> None:
    """Mark what was handed in, as Gradescope's run_autograder asks."""
    root, hint = Path(sys.argv[1]), int(sys.argv[2])
    write_whole(
        root / "results" / "results.json", json.dumps(autograde(root, hint), allow_nan=False, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
