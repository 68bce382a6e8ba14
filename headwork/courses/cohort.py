"""A cohort of students: a folder of answer files marked against their keys, in parallel, with none lost.

A file that cannot be read is marked unreadable with the reason; the others are marked. Who handed a file in
is said by its name or its folder's, and only then by what stands in it, so that nobody can void another's
marks. What a teacher should look at is a flag. Overrides are kept in a file of their own and applied again
whenever the cohort is marked again.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headwork.courses.parallel import MAX_SECONDS, map_limited
from headwork.courses.sheets import Sheet, check_count, read_key
from headwork.errors import HeadworkError, InputError, truncate
from headwork.exercises.case import Array
from headwork.exercises.exercise import Exercise
from headwork.exercises.exercise_files import exercise_from, read_exercise, read_points
from headwork.files import read_toml
from headwork.grading.answers import AnswerFile, Entries, read_answers, tolerance
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, State, StepMark
from headwork.grading.wording import points_text

TOOK_TOO_LONG = f"marking it took too long (over {MAX_SECONDS} s of processor time) or was killed."
UNEXPECTED_ERRORS = (RecursionError, MemoryError, ValueError, ArithmeticError, TypeError)
# How likely an entry is that of a neighbour by chance: a small number, or one of three digits and more; and
# how many such chances there may be among all neighbours before a flag would say too little.
P_MATCH_SHORT_NUMBER, P_MATCH_LONG_NUMBER, P_MATCH_TO_FLAG = 0.3, 0.02, 0.01
IGNORED_NAMES = re.compile(r"\._|\.(?!.*\.toml$)")  # a system's own files, but no answer


@dataclass(frozen=True)
class StudentMarks:
    """One student's answer file: the marks of its exercises, or why there are none.

    ``flags`` say what a teacher should look at; ``solutions`` holds the right values of the asked steps.
    """

    file: str
    student: str = ""
    name: str = ""
    marks: Mapping[str, Mark] = field(default_factory=dict)
    problem: str = ""
    flags: tuple[str, ...] = ()
    email: str = ""
    title: str = ""
    solutions: Mapping[str, Mapping[str, Array]] = field(default_factory=dict, repr=False)

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.marks.values())

    @property
    def max_points(self) -> float:
        return sum(mark.max_points for mark in self.marks.values())

    @property
    def summary(self) -> str:
        student = self.student or "no name"
        return f"{student}: {points_text(self.points)} of {points_text(self.max_points)} points"

    @property
    def state(self) -> str:
        if not self.file:
            return "no answer"
        answered = [step for mark in self.marks.values() for step in mark.steps if step.state != "missing"]
        if self.problem or (answered and all(step.state == "unreadable" for step in answered)):
            return "unreadable" if self.student else "not counted"
        correct = all(mark.all_right for mark in self.marks.values())
        return "all correct" if correct and self.points >= self.max_points - 1e-9 else "marked"


def zero_marks(exercise: Exercise, state: State, remark: str = "") -> Mark:
    """No points for any step."""
    steps = [StepMark(path, state, 0.0, points, remark) for path, points in exercise.asked.items()]
    return Mark(exercise, tuple(steps))


def grade_sheet(sheet: Sheet, answers: AnswerFile) -> dict[str, Mark]:
    """The marks of every exercise of a sheet; one without an answer gets no points."""
    tokens_as = str(answers.conventions.get("tokens_as", ""))
    return {
        name: grade(exercise, answers.answers.get(name, {}), tokens_as=tokens_as)
        for name, exercise in sheet.exercises.items()
    }


def sheet_from_answers(path: str | Path, answers: AnswerFile) -> Sheet:
    """The sheet that an answer file names, or the exercise.toml beside it."""
    exercises: dict[str, Exercise] = {}
    check_count(answers.answers, path)
    file = Path(path).parent / "exercise.toml"
    exercise_beside = read_exercise(file) if file.is_file() else None
    for name in answers.answers:
        entry = answers.exercises.get(name)
        if entry is None and exercise_beside is None:
            raise InputError(
                f"{path}: it does not say which exercise {name} is. "
                "Give --key, or put exercise.toml beside it."
            )
        known = {"kind", "seed", "difficulty"}
        if entry is not None and (not isinstance(entry, Mapping) or set(entry) - known):
            raise InputError(f"{path}: [exercise.{name}] takes only kind, seed and difficulty.")
        # The student's own exercise.toml comes first: another version might draw other numbers from a seed.
        if exercise_beside is not None and (entry is None or exercise_beside.origin == dict(entry)):
            exercises[name] = exercise_beside
        else:
            exercises[name] = exercise_from(entry or {}, f"{path}, {name}")
    if not exercises:
        raise InputError(f"{path}: no answers.")
    return Sheet("", exercises, answers.student)


def grade_file(path: str | Path, key: str | Path | None = None) -> StudentMarks:
    """Mark one answer file; never raises for what is in the file."""
    owner_sheet: Sheet | None = None
    try:
        owner_sheet = None if key is None else _sheet_from_key(Path(path), AnswerFile({}), Path(key))
        answers = read_answers(path)
        sheet = (
            sheet_from_answers(path, answers)
            if key is None
            else owner_sheet or _sheet_from_key(Path(path), answers, Path(key))
        )
        if sheet is None:
            raise InputError(f"{path}: no key for student '{answers.student or Path(path).stem}' in {key}.")
        owner_sheet = sheet
        for name, exercise in sheet.exercises.items() if key is not None else ():
            check_origin(name, exercise, answers.exercises.get(name), f"{path}: ")
        flags = () if key is None else tuple(_inconsistencies(sheet, answers))
        student = sheet.student or answers.student or (Path(path).stem if key is not None else "")
        marked = StudentMarks(str(path), student, marks=grade_sheet(sheet, answers), flags=flags)
        return _with_student(marked, sheet)
    except HeadworkError as error:
        problem = str(error)
    except UNEXPECTED_ERRORS as error:
        problem = truncate(f"{path}: cannot be marked ({type(error).__name__}: {error})")
    return _unreadable(Path(path), problem, key, owner_sheet)


def _unreadable(path: Path, problem: str, key: str | Path | None, sheet: Sheet | None = None) -> StudentMarks:
    """No marks for a file; its owner is taken from the file name, or from a word in it."""
    with suppress(HeadworkError):
        sheet = sheet or (None if key is None else _sheet_from_key(path, AnswerFile({"": {}}), Path(key)))
    if sheet is None or not sheet.student:
        return StudentMarks(str(path), path.stem, problem=problem)
    return _zero_student_marks(sheet, str(path), problem, "unreadable")


def _with_student(marked: StudentMarks, sheet: Sheet) -> StudentMarks:
    solutions = {
        name: {path: exercise.solution[path] for path in exercise.asked}
        for name, exercise in sheet.exercises.items()
        if not exercise.is_challenge
    }
    return replace(marked, name=sheet.name, email=sheet.email, title=sheet.title, solutions=solutions)


def _zero_student_marks(sheet: Sheet, file: str, problem: str, state: State) -> StudentMarks:
    """A student whose answer is missing or unreadable: no points for any exercise."""
    marks = {name: zero_marks(exercise, state) for name, exercise in sheet.exercises.items()}
    return _with_student(StudentMarks(file, sheet.student, marks=marks, problem=problem), sheet)


def keys_by_student(folder: Path) -> Mapping[str, Path]:
    """The keys of a folder by student, without regard to capitals."""
    return {path.stem.casefold(): path for path in sorted(folder.glob("*.toml"))}


def _sheet_from_key(path: Path, answers: AnswerFile, key: Path) -> Sheet | None:
    """The sheet of the student whose name the file or its folder has, or else who is named in it."""
    if key.is_file():
        return read_key(key)
    students = keys_by_student(key)
    words = re.split(r"[^\w.@-]+|_", path.stem)
    for name in (path.stem, path.parent.name, *([answers.student, *words] if answers.answers else ())):
        if name.casefold() in students:
            return read_key(students[name.casefold()])
    return None


def _inconsistencies(sheet: Sheet, answers: AnswerFile) -> list[str]:
    """What a file says about itself that does not fit its sheet."""
    flags = []
    known = {name.casefold() for name in ("", sheet.student, sheet.name, sheet.email)}
    if sheet.student and answers.student.casefold() not in known:
        flags.append(f"the file names student '{answers.student}'; marked as {sheet.student}'s")
    if sheet.title and answers.sheet and answers.sheet != sheet.title:
        flags.append(f"the file is of '{answers.sheet}', not of '{sheet.title}'")
    more = sorted(set(answers.answers) - set(sheet.exercises))
    if more:
        flags.append(f"answers to {', '.join(more[:5])}, which the sheet does not ask")
    return [truncate(flag, 200) for flag in flags]


def check_origin(name: str, exercise: Exercise, entry: Any, where: str = "") -> None:
    """Refuse the answers to another kind, difficulty or variant."""
    if not isinstance(entry, Mapping) or not exercise.kind:
        return
    own = {"kind": exercise.kind, "difficulty": exercise.difficulty}
    own |= {"seed": exercise.seed} if exercise.seed is not None else {}
    other = any(entry.get(key, value) != value for key, value in own.items())
    if not other and exercise.seed is None and "seed" in entry:
        drawn = exercise_from(entry, f"{where}[exercise.{name}]")
        other = (drawn.inputs, drawn.options) != (exercise.inputs, exercise.options)
    if other:
        named = ", ".join(f"{key} {entry.get(key)}" for key in ("kind", "seed", "difficulty") if key in entry)
        raise InputError(
            f"{where}this file answers another exercise ({truncate(named, 100)}) than {name}. "
            "Fill in the sheet of this one."
        )


# --- a whole folder -----------------------------------------------------------------------------------
def answer_files(folder: str | Path) -> list[Path]:
    """The submitted files, here and in the folders here; a folder inside those is reported as a folder."""
    entries = [path for path in Path(folder).iterdir() if not IGNORED_NAMES.match(path.name)]
    inner = {p for p in entries if p.is_dir() and not p.is_symlink() and p.suffix.lower() != ".toml"}
    below = [path for place in inner for path in place.iterdir() if not IGNORED_NAMES.match(path.name)]
    return sorted([path for path in entries if path not in inner] + below)


def grade_cohort(folder: str | Path, key: str | Path) -> list[StudentMarks]:
    """Mark every answer file of a folder, in the order of their names; students without one come last."""
    files, keys = answer_files(folder), Path(key)
    if not keys.exists():
        raise InputError(f"--key {key}: no such file or folder. Make one with headwork practice sheet.")
    if not files:
        raise InputError(f"{folder}: no answer files.")
    marked = zip(files, map_limited(partial(grade_file, key=str(key)), files, "marked"), strict=True)
    every = [graded or _unreadable(path, f"{path}: {TOOK_TOO_LONG}", key) for path, graded in marked]
    results = _choose_submissions(every)
    if keys.is_dir():
        present = {graded.student.casefold() for graded in results}
        absent = [path for student, path in keys_by_student(keys).items() if student not in present]
        results += [graded for graded in map_limited(_absent_marks, absent) if graded]
    return _flag_copied_answers(results)


def _absent_marks(key: Path) -> StudentMarks:
    try:
        return _zero_student_marks(read_key(key), "", "no answer submitted", "missing")
    except HeadworkError as error:
        return StudentMarks("", key.stem, problem=f"no answer submitted; {error}")


def _choose_submissions(results: list[StudentMarks]) -> list[StudentMarks]:
    """Of several files of one student one counts: one that can be read, has their name, and is the best."""
    by_student: defaultdict[str, list[StudentMarks]] = defaultdict(list)
    for graded in results:
        by_student[graded.student].append(graded)
    counted: list[StudentMarks] = []
    for graded in results:
        submissions = by_student[graded.student]
        best = max(submissions, key=_preference)
        others = ", ".join(Path(other.file).name for other in submissions if other is not best)
        if graded is not best:
            reason = f"not counted: {graded.student} also has {Path(best.file).name}"
            problem = graded.problem or f"{graded.file}: {reason}"
            graded = StudentMarks(graded.file, problem=problem, flags=(reason,))
        elif others:
            graded = replace(graded, flags=(*graded.flags, f"more than one file; not counted: {others}"))
        counted.append(graded)
    return counted


def _preference(graded: StudentMarks) -> tuple[bool, bool, float]:
    path, student = Path(graded.file), graded.student.casefold()
    named = student in (path.stem.casefold(), path.parent.name.casefold())
    return not graded.problem, named, graded.points


def _flag_copied_answers(results: list[StudentMarks]) -> list[StudentMarks]:
    """Flag answers that are wrong by the student's own numbers and right by those of a neighbour."""
    fits: dict[tuple[int, str, int], list[tuple[str, int, float]]] = defaultdict(list)
    steps = dict.fromkeys((n, path) for g in results for n, steps in g.solutions.items() for path in steps)
    for name, path in steps:
        values: list[Any] = [graded.solutions.get(name, {}).get(path) for graded in results]
        for i, graded in enumerate(results):
            entries = _wrong_entries(graded, name, path)
            comparable = [j for j, value in enumerate(values) if value is not None and j != i]
            comparable = [j for j in comparable if entries is not None and values[j].shape == entries.shape]
            if entries is None or not comparable:
                continue
            allowed = tolerance(entries, graded.marks[name].exercise.digits).ravel() * (1 + 1e-6)
            # A row per neighbour: the right values of this step by their numbers.
            written = entries.values.ravel()
            theirs = np.stack([values[j].ravel() for j in comparable])
            with np.errstate(invalid="ignore"):
                matches = (np.abs(theirs - written) <= allowed) | (theirs == written)
                differ = np.abs(theirs - values[i].ravel()) > allowed
            chances = np.where(
                np.abs(theirs * 100 - np.round(theirs * 100)) > 1e-6,
                P_MATCH_LONG_NUMBER,
                P_MATCH_SHORT_NUMBER,
            )
            for row in np.flatnonzero(matches.all(1) & differ.any(1)):
                chance = chances[row][differ[row]].prod()
                fits[i, name, comparable[row]].append((path, int(differ[row].sum()), float(chance)))
    flagged = list(results)
    for (i, name, j), copied in fits.items():
        count = sum(entries for _, entries, _ in copied)
        if len(results) * math.prod(chance for _, _, chance in copied) < P_MATCH_TO_FLAG:
            *all_but_last, last = (path for path, _, _ in copied)
            names = f"{', '.join(all_but_last)} and {last} fit" if all_but_last else f"{last} fits"
            flag = (
                f"exercise {name}: {names} the numbers of {results[j].student} "
                f"({count} entries that differ from their own)"
            )
            flagged[i] = replace(flagged[i], flags=(*flagged[i].flags, flag))
    return flagged


def _wrong_entries(graded: StudentMarks, name: str, path: str) -> Entries | None:
    """What a student wrote into a step that is wrong, where all of it is filled in."""
    mark = graded.marks.get(name)
    step = next((step for step in mark.steps if step.path == path), None) if mark else None
    entries = mark.entries.get(path) if mark and step and step.state in ("wrong", "again") else None
    return entries if entries is not None and not entries.blank.any() else None


# --- overrides ----------------------------------------------------------------------------------------
def read_overrides(path: str | Path) -> list[dict[str, Any]]:
    """Marks changed by hand."""
    if not Path(path).exists():
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
    """The marks of one student with those changed by hand, of a file that cannot be read as well."""
    marks = dict(graded.marks)
    for entry in overrides:
        name = str(entry["exercise"])
        if str(entry["student"]) != graded.student or name not in marks:
            continue
        points, reason = float(entry["points"]), str(entry.get("reason", "changed by hand"))
        mark = marks[name]
        share = points / mark.max_points if mark.max_points else 0.0
        new = {s.path: s.max_points * share for s in mark.steps}
        if "step" in entry:
            new = {str(entry["step"]): points}
        steps = [
            replace(s, points=new[s.path], remark=f"by hand: {reason}") if s.path in new else s
            for s in mark.steps
        ]
        marks[name] = replace(mark, steps=tuple(steps))
    return replace(graded, marks=marks)
