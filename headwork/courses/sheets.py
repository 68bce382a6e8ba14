"""A sheet for a course: a variant for every student, with key and marking scheme in separate files.

The numbers of a variant come from HMAC(secret, student, exercise). Students' files hold neither the secret
nor the seed nor any answer.
"""

import csv
import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from headwork.courses.answer_page import answer_page
from headwork.courses.parallel import limited, progress
from headwork.documents import Document, Heading
from headwork.errors import InputError
from headwork.exercises import reading
from headwork.exercises.exercise import Exercise, toml_lines
from headwork.exercises.generation import generate, kind_slugs
from headwork.exercises.questions import answer_sheet, build_question
from headwork.files import file_name, read_text, read_toml, write_atomic
from headwork.readings.notebook_cells import array_text

SHORTEST_SECRET = 12
MAX_ROSTER, MAX_EXERCISES = 1_000_000, 100
SETTINGS = ("digits", "rounding", "hints")
ENTRIES = ("kind", "file", "difficulty", "points")  # of an [[exercise]]


@dataclass(frozen=True)
class Course:
    """The source of a sheet: a title, a secret, and a list of exercises or kinds."""

    title: str
    secret: str
    exercises: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    folder: Path


@dataclass(frozen=True)
class Sheet:
    """The exercises of one student, by their numbers."""

    title: str
    exercises: Mapping[str, Exercise]
    student: str = ""
    name: str = ""


def read_course(path: str | Path) -> Course:
    """A course file: title, secret, and [[exercise]] tables with kind (and difficulty, points) or file."""
    data = read_toml(path)
    reading.check_known("entry", data, ("title", "secret", "exercise", *SETTINGS), str(path))
    secret = data.get("secret", "")
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
        raise InputError(
            f"{path}: the secret has fewer than {SHORTEST_SECRET} characters. "
            "Choose your own and keep it, for example:\n"
            f'secret = "{secrets.token_hex(16)}"'
        )
    parts = data.get("exercise", [])
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise InputError(
            f"{path}: no exercises. Expected one or more tables [[exercise]] "
            'with kind = "self-attention" or file = "own.toml".'
        )
    check_count(parts, path)
    for number, part in enumerate(parts, 1):
        where = f"{path}, exercise {number}"
        reading.check_known("entry", part, ENTRIES, where)
        reading.read_integer(part, "difficulty", 1, where)
        reading.read_points({"the exercise": part.get("points", 1)}, where)
        if ("kind" in part) == ("file" in part):
            raise InputError(f"{where}: expected either a kind or a file.")
        if "kind" in part:
            reading.check_known("kind of exercise", [part["kind"]], kind_slugs(), where)
    settings = {name: data[name] for name in SETTINGS if name in data}
    reading.check_known("rounding", [settings.get("rounding", "free")], reading.ROUNDING, str(path))
    reading.read_integer(settings, "digits", 4, str(path), maximum=reading.MAX_DIGITS)
    reading.read_integer(settings, "hints", 3, str(path), maximum=3)
    exercises = {str(n): part for n, part in enumerate(parts, 1)}
    return Course(str(data.get("title", "Sheet")), secret, exercises, settings, Path(path).parent)


def check_count(exercises: Collection[Any], where: str | Path) -> None:
    """Refuse more exercises than anybody sets, before they are solved."""
    if len(exercises) > MAX_EXERCISES:
        raise InputError(f"{where}: {len(exercises):,} exercises; at most {MAX_EXERCISES} are read.")


def read_roster(path: str | Path) -> dict[str, str]:
    """Students from a CSV file: a column ``student`` (or the first one) and, if there is one, ``name``."""
    try:
        lines = csv.reader(read_text(path, max_bytes=MAX_ROSTER).splitlines())
        rows = [row for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error}).") from None
    if not rows:
        raise InputError(f"{path}: empty. Expected a header student,name and a line for each student.")
    header = [cell.strip().lower() for cell in rows[0]]
    titles = [title for title in ("student", "id") if title in header]
    column = header.index(titles[0]) if titles else 0
    name_column = header.index("name") if titles and "name" in header else None
    students: dict[str, str] = {}
    listed: set[str] = set()
    for number, row in enumerate(rows[1:] if titles else rows, 1):
        student = row[column].strip() if len(row) > column else ""
        if file_name(student) != student:
            raise InputError(
                f"{path}, student {number}: {student!r} cannot name a file. "
                "Use letters, digits, dots, hyphens and underscores."
            )
        if student.lower() in listed:  # two names that some systems take for one are one
            raise InputError(f"{path}: student {student} is listed twice.")
        listed.add(student.lower())
        has_name = name_column is not None and len(row) > name_column
        students[student] = row[name_column or 0].strip() if has_name else ""
    if not students:
        raise InputError(f"{path}: no students.")
    return students


def variant_seed(secret: str, student: str, exercise: str) -> int:
    """The seed of one student's variant of one exercise.

    >>> variant_seed("a course secret", "ada", "1") == variant_seed("a course secret", "ada", "1")
    True
    """
    digest = hmac.new(secret.encode(), f"{student}\x00{exercise}".encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def sheet_for(course: Course, student: str, name: str = "") -> Sheet:
    """One student's sheet."""
    exercises = {}
    for number, part in course.exercises.items():
        if "file" in part:
            exercise = reading.read_exercise(course.folder / str(part["file"]))
        else:
            seed = variant_seed(course.secret, student, f"{number}/{part['kind']}")
            exercise = replace(generate(str(part["kind"]), seed, int(part.get("difficulty", 1))), hints=2)
        settings = dict(course.settings) if "kind" in part else {}
        exercise = replace(exercise, **settings, seed=None)
        if "points" in part and not exercise.max_points:
            raise InputError(f"exercise {number}: {part['file']} gives no step a point. Give one there.")
        if "points" in part:
            share = float(part["points"]) / exercise.max_points
            exercise = replace(exercise, points={path: p * share for path, p in exercise.asked.items()})
        exercises[number] = exercise
    return Sheet(course.title, exercises, student, name)


def write_sheets(course: Course, roster: Mapping[str, str], out: str | Path) -> None:
    """Write a folder for each student, the key and the marking scheme, with progress on stderr."""
    folder = Path(out)
    students = list(roster)
    for done, written in enumerate(limited(partial(_write_one, course, roster, folder), students), 1):
        if not written:
            raise InputError(f"student {students[done - 1]}: writing the sheet took too long or was killed.")
        progress(done, len(students), "sheets")
    write_atomic(folder / "key" / "marking.md", marking_scheme(course, sheet_for(course, students[0])))
    (folder / "answers").mkdir(parents=True, exist_ok=True)


def _write_one(course: Course, roster: Mapping[str, str], folder: Path, student: str) -> Path:
    sheet = sheet_for(course, student, roster[student])
    target, file = folder / "students" / student, f"{student}.toml"
    origin: dict[str, Any] = {"student": student, "sheet": course.title, "origin": False}
    page = answer_page(sheet.exercises, title=f"{course.title}: {student}", file=file, **origin)
    write_atomic(target / "question.md", question_text(sheet))
    write_atomic(target / file, answer_sheet(sheet.exercises, **origin))
    write_atomic(target / "answer.html", page)
    return write_atomic(folder / "key" / file, key_text(sheet))


def question_text(sheet: Sheet) -> str:
    """All questions of a sheet as Markdown."""
    parts: list[Any] = [sheet.student + (f", {sheet.name}" if sheet.name else "")]
    for number, exercise in sheet.exercises.items():
        question = build_question(replace(exercise, title=f"{number}. {exercise.name}"))
        parts += [Heading(question.title), *question.document().parts]
    return Document(sheet.title, tuple(parts)).to_markdown()


def key_text(sheet: Sheet) -> str:
    """The key of one student: every exercise in full, and its right values for the reader."""
    lines = [f"{name} = {json.dumps(getattr(sheet, name))}" for name in ("student", "name", "title")]
    for number, exercise in sheet.exercises.items():
        lines += ["", exercise.to_toml(f"exercise.{json.dumps(number)}")]
        if not exercise.challenge:
            values = {path: array_text(exercise.key[path].round(exercise.digits)) for path in exercise.asked}
            lines += [f"[key.{json.dumps(number)}]", *toml_lines(values)]
    return "\n".join(lines) + "\n"


def read_key(path: str | Path) -> Sheet:
    """The sheet that a key file holds."""
    data = read_toml(path)
    exercises = data.get("exercise")
    if not isinstance(exercises, dict) or not exercises:
        raise InputError(
            f"{path}: not a key: no table [exercise.NUMBER]. Make one with headwork practice sheet."
        )
    check_count(exercises, path)
    read = {
        number: reading.exercise_from(part, f"{path}, exercise {number}")
        for number, part in exercises.items()
    }
    return Sheet(str(data.get("title", "")), read, str(data.get("student", "")), str(data.get("name", "")))


def marking_scheme(course: Course, sheet: Sheet) -> str:
    """The points of each step, and how it is marked."""
    lines = [f"# Marking scheme: {course.title}", ""]
    for number, exercise in sheet.exercises.items():
        lines += [f"## {number}. {exercise.name}: {exercise.max_points:g} points", ""]
        lines += [f"- {path}: {points:g}" for path, points in exercise.asked.items()]
        rules = f"Digits asked: {exercise.digits}. Rounding too early: {exercise.rounding}."
        lines += ["", f"{rules} Hints up to level {exercise.hints}.", ""]
    lines += [
        "A step is correct if it equals the key or follows from the student's own earlier steps,",
        "to the digits written. An incorrect step costs its points; steps that follow from it,",
        "and the same mistake made again, cost nothing more.",
    ]
    return "\n".join(lines) + "\n"
