"""A sheet for a course: a variant for every student, the key and the marking scheme apart.

The numbers of a variant come from HMAC(secret, student, exercise). What is handed to students holds neither the secret
nor the seed nor any answer.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from headwork.courses.answer_page import answer_page
from headwork.courses.parallel import pool, progress
from headwork.errors import InputError, unknown
from headwork.exercises.exercise import Exercise
from headwork.exercises.kinds import generate, kind_slugs
from headwork.exercises.questions import answer_sheet, markdown, question
from headwork.exercises.reading import ROUNDING, exercise_from, read_exercise
from headwork.files import read_text, read_toml, write_whole
from headwork.readings.notebook import array_text

SHORTEST_SECRET = 12
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
KEPT = ("digits", "rounding", "hints")


@dataclass(frozen=True)
class Course:
    """What a sheet is made from: a title, a secret, and one exercise or kind after another."""

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
    known = ("title", "secret", "exercise", *KEPT)
    for entry in data:
        if entry not in known:
            raise InputError(f"{path}: {unknown('entry', entry, known)}")
    secret = data.get("secret", "")
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
        raise InputError(
            f"{path}: the secret has fewer than {SHORTEST_SECRET} characters. "
            "Put in one of your own and keep it, for example:\n"
            f'secret = "{secrets.token_hex(16)}"'
        )
    listed = data.get("exercise", [])
    if not isinstance(listed, list) or not listed or not all(isinstance(part, dict) for part in listed):
        raise InputError(
            f"{path}: no exercises. Expected one or more tables [[exercise]] "
            'with kind = "self-attention" or file = "own.toml".'
        )
    for number, part in enumerate(listed, 1):
        for entry in part:
            if entry not in ("kind", "file", "difficulty", "points"):
                raise InputError(
                    f"{path}, exercise {number}: {unknown('entry', entry, ('kind', 'file', 'difficulty', 'points'))}"
                )
        if ("kind" in part) == ("file" in part):
            raise InputError(f"{path}, exercise {number}: expected either a kind or a file.")
        if "kind" in part and part["kind"] not in kind_slugs():
            raise InputError(
                f"{path}, exercise {number}: {unknown('kind of exercise', part['kind'], kind_slugs())}"
            )
    settings = {name: data[name] for name in KEPT if name in data}
    if settings.get("rounding", "free") not in ROUNDING:
        raise InputError(f"{path}: {unknown('rounding', settings['rounding'], ROUNDING)}")
    return Course(
        str(data.get("title", "Sheet")),
        secret,
        {str(n): part for n, part in enumerate(listed, 1)},
        settings,
        Path(path).parent,
    )


def read_roster(path: str | Path) -> dict[str, str]:
    """Students from a CSV file: a column ``student`` (or the first one) and, if there is one, ``name``."""
    rows = [row for row in csv.reader(read_text(path).splitlines()) if any(cell.strip() for cell in row)]
    if not rows:
        raise InputError(f"{path}: empty. Expected a line student,name and a line for each student.")
    header = [cell.strip().lower() for cell in rows[0]]
    place = header.index("student") if "student" in header else header.index("id") if "id" in header else None
    body = rows if place is None else rows[1:]
    named = header.index("name") if place is not None and "name" in header else None
    students: dict[str, str] = {}
    for number, row in enumerate(body, 1):
        student = row[place or 0].strip() if len(row) > (place or 0) else ""
        if not NAME.fullmatch(student):
            raise InputError(
                f"{path}, student {number}: {student!r} cannot name a file. "
                "Use letters, digits, dots, hyphens and underscores."
            )
        if student in students:
            raise InputError(f"{path}: student {student} stands there twice.")
        students[student] = row[named].strip() if named is not None and len(row) > named else ""
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
            exercise = read_exercise(course.folder / str(part["file"]))
        else:
            seed = variant_seed(course.secret, student, f"{number}/{part['kind']}")
            exercise = replace(generate(str(part["kind"]), seed, int(part.get("difficulty", 1))), hints=2)
        settings = dict(course.settings) if "kind" in part else {}
        exercises[number] = _scaled(replace(exercise, **settings, seed=None), part.get("points"))
    return Sheet(course.title, exercises, student, name)


def _scaled(exercise: Exercise, points: Any) -> Exercise:
    """The exercise worth so many points in all, shared among its steps as before."""
    if points is None:
        return exercise
    share = float(points) / exercise.full
    return replace(exercise, points={path: worth * share for path, worth in exercise.asked.items()})


def write_sheets(course: Course, roster: Mapping[str, str], out: str | Path) -> None:
    """A folder for each student, the key and the marking scheme; says how far it is on stderr."""
    folder = Path(out)
    students = list(roster)
    with pool(len(students)) as mapped:
        for done, _ in enumerate(mapped(partial(_write_one, course, roster, folder), students), 1):
            progress(done, len(students), "sheets")
    write_whole(folder / "key" / "marking.md", marking_scheme(course, sheet_for(course, students[0])))
    (folder / "answers").mkdir(parents=True, exist_ok=True)


def _write_one(course: Course, roster: Mapping[str, str], folder: Path, student: str) -> None:
    sheet = sheet_for(course, student, roster[student])
    place = folder / "students" / student
    write_whole(place / "question.md", question_text(sheet))
    given = sheet.exercises
    write_whole(
        place / f"{student}.toml", answer_sheet(given, student=student, sheet=course.title, origin=False)
    )
    page = answer_page(
        given,
        title=f"{course.title}: {student}",
        file=f"{student}.toml",
        student=student,
        sheet=course.title,
        origin=False,
    )
    write_whole(place / "answer.html", page)
    write_whole(folder / "key" / f"{student}.toml", key_text(sheet))


def question_text(sheet: Sheet) -> str:
    """All questions of a sheet as Markdown."""
    parts = [f"# {sheet.title}\n\n{sheet.student}" + (f", {sheet.name}" if sheet.name else "") + "\n"]
    for number, exercise in sheet.exercises.items():
        asked = question(replace(exercise, title=f"{number}. {exercise.title or exercise.mechanism}"))
        parts.append(markdown(asked, level=2))
    return "\n".join(parts)


def key_text(sheet: Sheet) -> str:
    """The key of one student: every exercise whole, and for the reader its right values."""
    lines = [f"{name} = {json.dumps(getattr(sheet, name))}" for name in ("student", "name", "title")]
    for number, exercise in sheet.exercises.items():
        lines += ["", exercise.to_toml(f"exercise.{json.dumps(number)}")]
        if not exercise.challenge:
            values = {path: array_text(exercise.key[path].round(exercise.digits)) for path in exercise.asked}
            lines += [
                f"[key.{json.dumps(number)}]",
                *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in values.items()),
            ]
    return "\n".join(lines) + "\n"


def read_key(path: str | Path) -> Sheet:
    """The sheet that a key file holds."""
    data = read_toml(path)
    exercises = data.get("exercise")
    if not isinstance(exercises, dict) or not exercises:
        raise InputError(
            f"{path}: not a key: no table [exercise.NUMBER]. Make one with headwork practice sheet."
        )
    read = {number: exercise_from(part, f"{path}, exercise {number}") for number, part in exercises.items()}
    return Sheet(str(data.get("title", "")), read, str(data.get("student", "")), str(data.get("name", "")))


def marking_scheme(course: Course, sheet: Sheet) -> str:
    """What each step is worth and how it is marked."""
    lines = [f"# Marking scheme: {course.title}", ""]
    for number, exercise in sheet.exercises.items():
        lines += [f"## {number}. {exercise.title or exercise.mechanism}: {exercise.full:g} points", ""]
        lines += [f"- {path}: {points:g}" for path, points in exercise.asked.items()]
        lines += [
            "",
            f"Digits asked: {exercise.digits}. Rounding too early: {exercise.rounding}. Hints up to {exercise.hints}.",
            "",
        ]
    lines += [
        "A step is right if it is the key's or follows from the student's own earlier steps, to the digits written.",
        "A wrong step costs its points; what follows from it costs nothing, nor does the same mistake made again.",
        "",
    ]
    return "\n".join(lines)
