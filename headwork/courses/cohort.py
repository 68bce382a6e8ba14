"""A cohort of students: a folder of answer files marked against their keys, in parallel, with none lost.

A file that cannot be read is marked unreadable with the reason; the others are marked. Overrides are kept in
a file of their own and applied again whenever the cohort is marked again.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from headwork.courses.parallel import MAX_SECONDS, limited, progress
from headwork.courses.sheets import Sheet, check_count, read_key
from headwork.documents import Document, Item, Items, Table
from headwork.documents.style import PLAIN, Style
from headwork.errors import HeadworkError, InputError, cut
from headwork.exercises.exercise import Exercise
from headwork.exercises.reading import exercise_from, read_exercise, read_points
from headwork.files import file_name, read_toml, write_atomic
from headwork.grading.answers import AnswerFile, read_answers
from headwork.grading.feedback import feedback, feedback_document
from headwork.grading.marking import grade
from headwork.grading.marks import Mark

TOO_LONG = f"marking it took too long (over {MAX_SECONDS} s of processor time) or was killed."
UNEXPECTED = (RecursionError, MemoryError, ValueError, ArithmeticError, TypeError)
OVERRIDES = """# Marks changed by hand; they are kept when the cohort is marked again.
# [[override]]
# student = "ada"
# exercise = "1"
# step = "weights"      # left out: the whole exercise
# points = 1
# reason = "right idea"
"""


@dataclass(frozen=True)
class StudentMarks:
    """One student's answer file: the marks of its exercises, or why there are none."""

    file: str
    student: str = ""
    name: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    problem: str = ""

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks.values())

    @property
    def max_points(self) -> float:
        return sum(mark.max_points for mark in self.marks.values())

    @property
    def summary(self) -> str:
        return f"{self.student}: {self.points:g} of {self.max_points:g} points"

    @property
    def state(self) -> str:
        if not self.file:
            return "no answer"
        answered = [step for mark in self.marks.values() for step in mark.steps if step.state != "missing"]
        if self.problem or (answered and all(step.state == "unreadable" for step in answered)):
            return "unreadable"
        return "all right" if all(mark.all_right for mark in self.marks.values()) else "marked"


def grade_sheet(sheet: Sheet, answers: AnswerFile) -> dict[str, Mark]:
    """The marks of every exercise of a sheet; one without an answer gets no points."""
    tokens_as = str(answers.conventions.get("tokens_as", ""))
    return {
        number: grade(exercise, answers.answers.get(number, {}), tokens_as=tokens_as)
        for number, exercise in sheet.exercises.items()
    }


def sheet_of(path: str | Path, answers: AnswerFile) -> Sheet:
    """The sheet that an answer file names, or the exercise.toml beside it."""
    exercises: dict[str, Exercise] = {}
    check_count(answers.answers, path)
    file = Path(path).parent / "exercise.toml"
    beside = read_exercise(file) if file.is_file() else None
    for name in answers.answers:
        entry = answers.exercises.get(name)
        if entry is None and beside is None:
            raise InputError(
                f"{path}: it does not say which exercise {name} is. "
                "Give --key, or put exercise.toml beside it."
            )
        known = {"kind", "seed", "difficulty"}
        if entry is not None and (not isinstance(entry, Mapping) or set(entry) - known):
            raise InputError(f"{path}: [exercise.{name}] takes only kind, seed and difficulty.")
        # The student's own exercise.toml comes first: another version might draw other numbers from a seed.
        if beside is not None and (entry is None or beside.origin == dict(entry)):
            exercises[name] = beside
        else:
            exercises[name] = exercise_from(entry or {}, f"{path}, {name}")
    if not exercises:
        raise InputError(f"{path}: no answers.")
    return Sheet("", exercises, answers.student)


def grade_file(path: str | Path, key: str | Path | None = None) -> StudentMarks:
    """Mark one answer file; never raises for what is in the file."""
    try:
        answers = read_answers(path)
        sheet = sheet_of(path, answers) if key is None else read_key(_key_of(Path(path), answers, Path(key)))
        student = sheet.student or answers.student
        return StudentMarks(str(path), student, sheet.name, grade_sheet(sheet, answers))
    except HeadworkError as error:
        problem = str(error)
    except UNEXPECTED as error:
        problem = cut(f"{path}: cannot be marked ({type(error).__name__}: {error})")
    return StudentMarks(str(path), Path(path).stem, problem=problem)


def _key_of(path: Path, answers: AnswerFile, key: Path) -> Path:
    """The key of the student named in the file, or by the name of the file or its folder."""
    if key.is_file():
        return key
    for student in (answers.student, path.stem, path.parent.name):
        if Path(student).name == student and os.path.isfile(key / f"{student}.toml"):
            return key / f"{student}.toml"
    raise InputError(f"{path}: no key for student '{answers.student or path.stem}' in {key}.")


# --- a whole folder -----------------------------------------------------------------------------------
def answer_files(folder: str | Path) -> list[Path]:
    """The submitted files of the folder and of the folders in it."""
    root = Path(folder)
    folders = [root, *(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())]
    paths = [path for folder in folders for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(path for path in paths if path.is_symlink() or not path.is_dir())


def grade_cohort(folder: str | Path, key: str | Path) -> list[StudentMarks]:
    """Mark every answer file of a folder, in the order of their names; students without one come last."""
    files = answer_files(folder)
    if not Path(key).exists():
        raise InputError(f"--key {key}: no such file or folder. Make one with headwork practice sheet.")
    if not files:
        raise InputError(f"{folder}: no answer files.")
    results: list[StudentMarks] = []
    for path, graded in zip(files, limited(partial(grade_file, key=str(key)), files), strict=True):
        killed = StudentMarks(str(path), path.stem, problem=f"{path}: {TOO_LONG}")
        results.append(graded or killed)
        progress(len(results), len(files), "marked")
    results = _refuse_duplicates(results)
    if Path(key).is_dir():
        absent = sorted({file.stem for file in Path(key).glob("*.toml")} - {g.student for g in results})
        results += [StudentMarks("", student, problem="no answer submitted") for student in absent]
    return results


def _refuse_duplicates(results: list[StudentMarks]) -> list[StudentMarks]:
    """Two files of one student: neither is taken silently."""
    count = Counter(g.student for g in results if not g.problem)
    reason = "there is more than one file of this student: keep one"
    return [
        replace(g, problem=f"{g.file}: {reason}", marks={}) if count[g.student] > 1 and not g.problem else g
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
        where = f"{path}, override {number}"
        if not isinstance(entry, dict) or not {"student", "exercise", "points"} <= set(entry):
            raise InputError(f"{where}: expected student, exercise and points (and step, reason).")
        read_points({str(entry.get("step", "the exercise")): entry["points"]}, where)
    return entries


def apply_overrides(graded: StudentMarks, overrides: list[dict[str, Any]]) -> StudentMarks:
    """The marks of one student with those changed by hand."""
    marks = dict(graded.marks)
    for entry in overrides:
        number = str(entry["exercise"])
        if str(entry["student"]) != graded.student or number not in marks:
            continue
        points, reason = float(entry["points"]), str(entry.get("reason", "changed by hand"))
        mark = marks[number]
        share = points / mark.max_points if mark.max_points else 0.0
        new = {s.path: s.max_points * share for s in mark.steps}
        if "step" in entry:
            new = {str(entry["step"]): points}
        steps = [
            replace(s, points=new[s.path], remark=f"by hand: {reason}") if s.path in new else s
            for s in mark.steps
        ]
        marks[number] = replace(mark, steps=tuple(steps))
    return replace(graded, marks=marks)


# --- output files -------------------------------------------------------------------------------------
def write_marks(results: list[StudentMarks], out: str | Path, *, hint: int = 2) -> list[StudentMarks]:
    """Write marks.csv, causes.csv, feedback for each student, and the overrides file where there is none."""
    folder = Path(out)
    path = folder / "overrides.toml"
    overrides = read_overrides(path)
    results = [apply_overrides(graded, overrides) for graded in results]
    if not path.exists():
        write_atomic(path, OVERRIDES)
    write_atomic(folder / "marks.csv", marks_csv(results))
    causes = _csv_text([("exercise", "step", "cause", "students"), *common_causes(results)])
    write_atomic(folder / "causes.csv", causes)
    taken: set[str] = set()
    for graded in results:
        if not graded.file:
            continue
        stem = file_name(graded.student if not graded.problem else Path(graded.file).name)
        while stem.lower() in taken:  # some systems take Ada and ada for one
            stem += "_"
        taken.add(stem.lower())
        write_atomic(folder / "feedback" / f"{stem}.txt", feedback_text(graded, hint), root=folder)
        if graded.marks:
            page = feedback_document(graded.marks, title=graded.summary, hint=hint).to_html()
            write_atomic(folder / "feedback" / f"{stem}.html", page, root=folder)
    return results


def feedback_text(graded: StudentMarks, hint: int = 2, style: Style = PLAIN) -> str:
    """The feedback for one student."""
    if graded.problem:
        return f"unreadable: {graded.problem}\n"
    parts = [graded.summary]
    parts += [f"{number}. {feedback(mark, hint, style)}" for number, mark in graded.marks.items()]
    return "\n\n".join(parts) + "\n"


def marks_csv(results: list[StudentMarks]) -> str:
    """One line per student: state, points, points of each exercise, and the reason where there are none."""
    numbers = list(dict.fromkeys(number for graded in results for number in graded.marks))
    rows = [["student", "name", "state", "points", "of", *numbers, "file", "problem"]]
    for graded in results:
        each = [f"{graded.marks[n].points:g}" if n in graded.marks else "" for n in numbers]
        totals = [f"{graded.points:g}", f"{graded.max_points:g}"]
        row = [graded.student, graded.name, graded.state, *totals, *each, graded.file, graded.problem]
        rows.append(row)
    return _csv_text(rows)


def cohort_document(results: list[StudentMarks]) -> Document:
    """The marks of every student, and the most common causes."""
    names = ("student", "state", "points", "of", "problem")
    rows = [(g.student, g.state, f"{g.points:g}", f"{g.max_points:g}", g.problem) for g in results]
    causes = [{"exercise": e, "step": s, "cause": c, "students": n} for e, s, c, n in common_causes(results)]
    items = tuple(
        Item(f"{c['exercise']}. {c['step']}: {c['cause']}", f"{c['students']:>4}") for c in causes[:10]
    )
    marks = [{"student": g.student, "state": g.state, "points": g.points} for g in results]
    more = [{"of": g.max_points, "problem": g.problem} for g in results]
    data = {"marks": [a | b for a, b in zip(marks, more, strict=True)], "causes": causes}
    common = ("most common causes:", Items(items)) if items else ()
    return Document("Marks", (Table("", names, list(rows)), *common), data=lambda: data)


def _csv_text(rows: Iterable[Iterable[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_cell(str(cell)) for cell in row] for row in rows)
    return buffer.getvalue()


def _cell(text: str) -> str:
    """One line; a spreadsheet would run what begins like a formula."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    number = line.lstrip("-").replace(".", "", 1).isdigit()
    return f"'{line}" if line.startswith(tuple("=+-@＝＋－＠")) and not number else line


def common_causes(results: list[StudentMarks]) -> list[tuple[str, str, str, int]]:
    """Exercise, step, cause and the number of students for whom it came first, the most common first."""
    count: Counter[tuple[str, str, str]] = Counter()
    for graded in results:
        for number, mark in graded.marks.items():
            for step in mark.steps:
                if step.state == "wrong" and step.causes:
                    count[(number, step.path, step.causes[0].slug)] += 1
    return [(*where, times) for where, times in count.most_common()]
