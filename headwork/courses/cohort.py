"""A class: a folder of answer files marked against their keys, in parallel, with nothing lost on the way.

A file that cannot be read is marked unreadable with the reason; the others go on. Overrides are kept in a file of their
own and applied again whenever the class is marked again.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from headwork.courses.parallel import pool, progress
from headwork.courses.sheets import Sheet, read_key
from headwork.errors import HeadworkError, InputError
from headwork.exercises.exercise import Exercise
from headwork.exercises.reading import exercise_from, read_exercise
from headwork.files import read_toml, write_whole
from headwork.grading.answers import AnswerFile, read_answers
from headwork.grading.feedback import feedback, feedback_page
from headwork.grading.marking import grade
from headwork.grading.marks import Mark

OVERRIDES = """# Marks changed by hand; they are kept when the class is marked again.
# [[override]]
# student = "ada"
# exercise = "1"
# step = "weights"      # left out: the whole exercise
# points = 1
# reason = "right idea"
"""


@dataclass(frozen=True)
class Graded:
    """One answer file: the marks of its exercises, or why there are none."""

    file: str
    student: str = ""
    name: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    problem: str = ""

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks.values())

    @property
    def full(self) -> float:
        return sum(mark.full for mark in self.marks.values())

    @property
    def state(self) -> str:
        if not self.file:
            return "no answer"
        answered = [step for mark in self.marks.values() for step in mark.steps if step.state != "missing"]
        if self.problem or (answered and all(step.state == "unreadable" for step in answered)):
            return "unreadable"
        return "all right" if all(mark.all_right for mark in self.marks.values()) else "marked"


def grade_sheet(sheet: Sheet, answers: AnswerFile) -> dict[str, Mark]:
    """Every exercise of a sheet marked; one that was not answered at all gets nothing."""
    conventions = answers.conventions.get("tokens_as", "")
    return {
        number: grade(exercise, answers.answers.get(number, {}), tokens_as=str(conventions))
        for number, exercise in sheet.exercises.items()
    }


def own_sheet(path: str | Path, answers: AnswerFile) -> Sheet:
    """The sheet that an answer file says it answers, or the exercise that lies beside it."""
    exercises: dict[str, Exercise] = {}
    file = Path(path).parent / "exercise.toml"
    beside = read_exercise(file) if file.is_file() else None
    for name in answers.answers:
        entry = answers.exercises.get(name)
        if entry is None and beside is None:
            told = "it does not say which exercise {name} is. Give --key, or put exercise.toml beside it."
            raise InputError(f"{path}: {told.format(name=name)}")
        if entry is not None and (
            not isinstance(entry, Mapping) or set(entry) - {"kind", "seed", "difficulty"}
        ):
            raise InputError(f"{path}: [exercise.{name}] takes only kind, seed and difficulty.")
        # What was handed out stands beside the answer; another version might draw other numbers from a seed.
        same = beside is not None and (entry is None or _origin(beside) == dict(entry))
        exercises[name] = (
            beside if beside is not None and same else exercise_from(entry or {}, f"{path}, {name}")
        )
    if not exercises:
        raise InputError(f"{path}: no answers.")
    return Sheet("", exercises, answers.student)


def _origin(exercise: Exercise) -> dict[str, Any]:
    return {"kind": exercise.kind, "seed": exercise.seed, "difficulty": exercise.difficulty}


def grade_file(path: str | Path, key: str | Path | None = None) -> Graded:
    """One answer file marked; never raises for what is in the file."""
    try:
        answers = read_answers(path)
        sheet = own_sheet(path, answers) if key is None else read_key(_key_of(Path(path), answers, Path(key)))
        student = sheet.student or answers.student
        return Graded(str(path), student, sheet.name, grade_sheet(sheet, answers))
    except HeadworkError as error:
        return Graded(str(path), Path(path).stem, problem=str(error))
    except (RecursionError, MemoryError, ValueError, ArithmeticError, TypeError) as error:
        return Graded(
            str(path), Path(path).stem, problem=f"{path}: cannot be marked ({type(error).__name__}: {error})"
        )


def _key_of(path: Path, answers: AnswerFile, key: Path) -> Path:
    """The key of the student that a file names, or that its own name names."""
    if key.is_file():
        return key
    known = _keys(str(key))
    for student in (answers.student, path.stem, path.parent.name):
        if student in known:
            return key / f"{student}.toml"
    raise InputError(f"{path}: no key for student '{answers.student or path.stem}' in {key}.")


@cache
def _keys(folder: str) -> frozenset[str]:
    return frozenset(path.stem for path in Path(folder).glob("*.toml"))


# --- a whole folder -----------------------------------------------------------------------------------


def answer_files(folder: str | Path) -> list[Path]:
    """Everything in the folder (and one folder down) that looks handed in."""
    place = Path(folder)
    folders = [place, *(p for p in place.iterdir() if p.is_dir() and not p.is_symlink())]
    found = [p for folder in folders for p in folder.iterdir() if not p.name.startswith(".")]
    return sorted(p for p in found if p.is_symlink() or not p.is_dir())


def grade_class(folder: str | Path, key: str | Path) -> list[Graded]:
    """Every answer file of a folder marked, in the order of their names, with those who handed in nothing last."""
    files = answer_files(folder)
    if not Path(key).exists():
        raise InputError(f"--key {key}: not there. Make one with headwork practice sheet.")
    if not files:
        raise InputError(f"{folder}: no answer files.")
    results: list[Graded] = []
    for graded in _graded(files, str(key)):
        results.append(graded)
        progress(len(results), len(files), "marked")
    results = _once_each(results)
    if Path(key).is_dir():
        handed_in = {graded.student for graded in results}
        results += [
            Graded("", student, problem="no answer handed in")
            for student in sorted(_keys(str(key)) - handed_in)
        ]
    return results


def _graded(files: list[Path], key: str) -> Iterator[Graded]:
    done = 0
    try:
        with pool(len(files)) as mapped:
            for graded in mapped(partial(grade_file, key=key), files):
                done += 1
                yield graded
    except BrokenProcessPool:
        # A process was ended from outside: go on with one of its own for each file, so that only one is lost.
        for path in files[done:]:
            yield _alone(path, key)


def _alone(path: Path, key: str) -> Graded:
    try:
        with ProcessPoolExecutor(1) as one:
            return one.submit(grade_file, path, key).result()
    except BrokenProcessPool:
        return Graded(
            str(path), path.stem, problem=f"{path}: the process that marked it was ended from outside."
        )


def _once_each(results: list[Graded]) -> list[Graded]:
    """Two files of one student: neither is taken silently."""
    count = Counter(g.student for g in results if not g.problem)
    told = "there is more than one file of this student: leave one"
    return [
        replace(g, problem=f"{g.file}: {told}", marks={}) if count[g.student] > 1 and not g.problem else g
        for g in results
    ]


# --- overrides ----------------------------------------------------------------------------------------


def read_overrides(path: str | Path) -> list[dict[str, Any]]:
    """Marks changed by hand."""
    if not Path(path).is_file():
        return []
    entries = read_toml(path).get("override", [])
    if not isinstance(entries, list):
        raise InputError(f"{path}: expected tables [[override]].")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not {"student", "exercise", "points"} <= set(entry):
            raise InputError(
                f"{path}, override {number}: expected student, exercise and points (and step, reason)."
            )
        try:
            float(entry["points"])
        except (TypeError, ValueError):
            raise InputError(
                f"{path}, override {number}: points is {entry['points']!r}. Expected a number."
            ) from None
    return entries


def overridden(graded: Graded, overrides: list[dict[str, Any]]) -> Graded:
    """The marks of one student after those changed by hand."""
    marks = dict(graded.marks)
    for entry in overrides:
        number = str(entry["exercise"])
        if str(entry["student"]) != graded.student or number not in marks:
            continue
        points, reason = float(entry["points"]), str(entry.get("reason", "changed by hand"))
        mark = marks[number]
        if "step" in entry:
            steps = tuple(
                replace(s, points=points, remark=f"by hand: {reason}") if s.path == entry["step"] else s
                for s in mark.steps
            )
        else:
            share = points / mark.full if mark.full else 0.0
            steps = tuple(replace(s, points=s.full * share, remark=f"by hand: {reason}") for s in mark.steps)
        marks[number] = replace(mark, steps=steps)
    return replace(graded, marks=marks)


# --- what is written ----------------------------------------------------------------------------------


def write_marks(results: list[Graded], out: str | Path, *, hint: int = 2) -> list[Graded]:
    """marks.csv, feedback for each student, the most common causes, and the overrides file where there is none."""
    folder = Path(out)
    place = folder / "overrides.toml"
    overrides = read_overrides(place)
    results = [overridden(graded, overrides) for graded in results]
    if not place.exists():
        write_whole(place, OVERRIDES)
    write_whole(folder / "marks.csv", marks_csv(results))
    write_whole(folder / "causes.csv", causes_csv(results))
    for graded in results:
        if not graded.file:
            continue
        stem = graded.student if not graded.problem else Path(graded.file).name
        write_whole(folder / "feedback" / f"{stem}.txt", feedback_text(graded, hint))
        if graded.marks:
            page = feedback_page(
                graded.marks,
                title=f"{graded.student}: {graded.points:g} of {graded.full:g} points",
                hint=hint,
            )
            write_whole(folder / "feedback" / f"{stem}.html", page)
    return results


def feedback_text(graded: Graded, hint: int = 2) -> str:
    """What one student is told."""
    if graded.problem:
        return f"unreadable: {graded.problem}\n"
    parts = [f"{graded.student}: {graded.points:g} of {graded.full:g} points"]
    parts += [f"{number}. {feedback(mark, hint)}" for number, mark in graded.marks.items()]
    return "\n\n".join(parts) + "\n"


def marks_csv(results: list[Graded]) -> str:
    """One line a student: state, points, points of each exercise, and the reason where there are none."""
    numbers = list(dict.fromkeys(number for graded in results for number in graded.marks))
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(["student", "name", "state", "points", "of", *numbers, "file", "problem"])
    for graded in results:
        each = [f"{graded.marks[n].points:g}" if n in graded.marks else "" for n in numbers]
        row = [
            graded.student,
            graded.name,
            graded.state,
            f"{graded.points:g}",
            f"{graded.full:g}",
            *each,
            graded.file,
            graded.problem,
        ]
        table.writerow([_harmless(cell) for cell in row])
    return buffer.getvalue()


def _harmless(cell: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula."""
    return (
        "'" + cell
        if cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        and not cell.lstrip("-").replace(".", "", 1).isdigit()
        else cell
    )


def common_causes(results: list[Graded]) -> list[tuple[str, str, str, int]]:
    """Exercise, step and cause with how often it came first, the most common first."""
    count: Counter[tuple[str, str, str]] = Counter()
    for graded in results:
        for number, mark in graded.marks.items():
            for step in mark.steps:
                if step.state == "wrong" and step.causes:
                    count[(number, step.path, step.causes[0].slug)] += 1
    return [(*where, times) for where, times in count.most_common()]


def causes_csv(results: list[Graded]) -> str:
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(["exercise", "step", "cause", "students"])
    table.writerows(common_causes(results))
    return buffer.getvalue()
