"""A sheet for a course: a variant for every student, with key and marking scheme in separate files.

The numbers of a variant come from HMAC(secret, student, exercise). Students' files hold neither the secret
nor the seed nor any answer.
"""

import csv
import hashlib
import hmac
import io
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from headwork.courses.answer_page import answer_page
from headwork.courses.parallel import map_limited
from headwork.documents import Document, Heading, Item, Items, Values
from headwork.documents.formats import find_format
from headwork.errors import InputError, check_all_known, check_known
from headwork.exercises import exercise_files
from headwork.exercises.exercise import Exercise, toml_lines
from headwork.exercises.generation import generate, kind_slugs
from headwork.exercises.questions import answer_sheet, build_question
from headwork.files import read_text, read_toml, safe_file_name, toml_text, write_atomic
from headwork.grading.wording import points_text
from headwork.readings.notebook_cells import array_text
from headwork.readings.trace_document import document_value

MIN_SECRET_LENGTH = 12
MAX_ROSTER_BYTES, MAX_EXERCISES = 1_000_000, 100
PRINT_FORMATS = ("markdown", "latex", "html")  # the forms of a sheet and of its key
SETTINGS = ("digits", "rounding", "hints")
EXERCISE_ENTRIES = ("kind", "file", "difficulty", "points")  # of an [[exercise]]


@dataclass(frozen=True)
class SheetTemplate:
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
    email: str = ""


def read_sheet_template(path: str | Path) -> SheetTemplate:
    """A course file: title, secret, and [[exercise]] tables with kind (and difficulty, points) or file."""
    data = read_toml(path)
    check_all_known("entry", data, ("title", "secret", "exercise", *SETTINGS), str(path))
    secret = data.get("secret", "")
    if not isinstance(secret, str) or len(secret) < MIN_SECRET_LENGTH:
        raise InputError(
            f"{path}: the secret has fewer than {MIN_SECRET_LENGTH} characters. "
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
        check_all_known("entry", part, EXERCISE_ENTRIES, where)
        exercise_files.read_integer(part, "difficulty", 1, where)
        points = part.get("points", 1)
        exercise_files.read_points(points if isinstance(points, Mapping) else {"the exercise": points}, where)
        if ("kind" in part) == ("file" in part):
            raise InputError(f"{where}: expected either a kind or a file.")
        if "kind" in part:
            check_known("kind of exercise", part["kind"], kind_slugs(), where)
    settings = {name: data[name] for name in SETTINGS if name in data}
    check_known("rounding", settings.get("rounding", "free"), exercise_files.ROUNDING, str(path))
    exercise_files.read_integer(settings, "digits", 4, str(path), maximum=exercise_files.MAX_DIGITS)
    exercise_files.read_integer(settings, "hints", 3, str(path), maximum=3)
    exercises = {str(n): part for n, part in enumerate(parts, 1)}
    return SheetTemplate(str(data.get("title", "Sheet")), secret, exercises, settings, Path(path).parent)


def check_count(exercises: Collection[Any], where: str | Path) -> None:
    """Refuse more exercises than anybody sets, before they are solved."""
    if len(exercises) > MAX_EXERCISES:
        raise InputError(f"{where}: {len(exercises):,} exercises; at most {MAX_EXERCISES} are read.")


def read_csv(path: str | Path, max_bytes: int) -> tuple[list[list[str]], str]:
    """The rows of a CSV file and what separates its columns: the commonest sign of its first line."""
    text = read_text(path, max_bytes=max_bytes)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(",;\t", key=first.count)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)), delimiter
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error}).") from None


def read_roster(path: str | Path) -> dict[str, dict[str, str]]:
    """Students with their name and e-mail, from columns ``student`` (or the first), ``name`` and ``email``.

    Columns are separated by commas, semicolons or tabs, whichever the first line has.
    """
    rows, _ = read_csv(path, MAX_ROSTER_BYTES)
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise InputError(f"{path}: empty. Expected a header student,name and a line for each student.")
    header = [cell.strip().lower().replace("-", "") for cell in rows[0]]
    titles = [title for title in ("student", "id") if title in header]
    column = header.index(titles[0]) if titles else 0
    columns = {title: header.index(title) for title in ("name", "email") if titles and title in header}
    students: dict[str, dict[str, str]] = {}
    listed: set[str] = set()
    for number, row in enumerate(rows[1:] if titles else rows, 1):
        student = row[column].strip() if len(row) > column else ""
        if safe_file_name(student) != student:
            raise InputError(
                f"{path}, student {number}: {student!r} cannot name a file. "
                "Use letters, digits, dots, hyphens and underscores."
            )
        if student.lower() in listed:  # two names that some systems take for one are one
            raise InputError(f"{path}: student {student} is listed twice.")
        listed.add(student.lower())
        students[student] = {title: row[at].strip() for title, at in columns.items() if at < len(row)}
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


def make_sheet(template: SheetTemplate, student: str, name: str = "", email: str = "") -> Sheet:
    """One student's sheet. Points are those of the whole exercise, or of the steps that are named."""
    exercises = {}
    for number, part in template.exercises.items():
        if "file" in part:
            exercise = exercise_files.read_exercise(template.folder / str(part["file"]))
        else:
            seed = variant_seed(template.secret, student, f"{number}/{part['kind']}")
            exercise = replace(generate(str(part["kind"]), seed, int(part.get("difficulty", 1))), hints=2)
        settings = dict(template.settings) if "kind" in part else {}
        exercise = replace(exercise, **settings, seed=None)
        if "points" in part:
            exercise = replace(exercise, points=_points(exercise, part, f"exercise {number}"))
        exercises[number] = exercise
    return Sheet(template.title, exercises, student, name, email)


def _points(exercise: Exercise, part: Mapping[str, Any], where: str) -> dict[str, float]:
    """The points of each step: as the course says, or those of the whole shared out as before."""
    points = part["points"]
    if isinstance(points, Mapping):
        known = list(exercise.asked) if exercise.is_challenge else list(exercise.trace.steps)
        check_all_known(f"step of {exercise.mechanism}", points, known, where)
        return exercise_files.read_points(points, where)
    if not exercise.max_points:
        raise InputError(f"{where}: {part['file']} gives no step a point. Give one there.")
    share = float(points) / exercise.max_points
    return {path: worth * share for path, worth in exercise.asked.items()}


def write_sheets(template: SheetTemplate, roster: Mapping[str, Mapping[str, str]], out: str | Path) -> None:
    """Write a folder for each student, the key and the marking scheme, with progress on stderr."""
    folder = Path(out)
    students = list(roster)
    scheme = marking_scheme(template, make_sheet(template, students[0]))
    write = partial(_write_one, template, roster, folder)
    for student, written in zip(students, map_limited(write, students, "sheets"), strict=True):
        if not written:
            raise InputError(f"student {student}: writing the sheet took too long or was killed.")
    write_atomic(folder / "key" / "marking.md", scheme.to_markdown())
    (folder / "answers").mkdir(parents=True, exist_ok=True)


def _write_one(
    template: SheetTemplate, roster: Mapping[str, Mapping[str, str]], folder: Path, student: str
) -> Path:
    sheet = make_sheet(template, student, **roster[student])
    target, file = folder / "students" / student, f"{student}.toml"
    sheet_kwargs: dict[str, Any] = {"student": student, "sheet": template.title, "origin": False}
    next_step = f"Next: hand in {file}."
    page = answer_page(
        sheet.exercises, title=f"{template.title}: {student}", file=file, next_step=next_step, **sheet_kwargs
    )
    for name, document in (
        ("students/{0}/question", sheet_document(sheet)),
        ("key/print/{0}", key_document(sheet)),
    ):
        for format_ in PRINT_FORMATS:
            path = folder / (name.format(student) + find_format(format_).SUFFIX)
            write_atomic(path, document.render(format_))
    write_atomic(target / file, answer_sheet(sheet.exercises, **sheet_kwargs))
    write_atomic(target / "answer.html", page)
    return write_atomic(folder / "key" / file, key_text(sheet))


def sheet_document(sheet: Sheet) -> Document:
    """All questions of a sheet."""
    parts: list[Any] = []
    for number, exercise in sheet.exercises.items():
        question = build_question(replace(exercise, title=f"{number}. {exercise.name}"))
        parts += [Heading(question.title), *question.document().parts]
    return Document(sheet.title, tuple(parts), _student(sheet))


def key_document(sheet: Sheet) -> Document:
    """The solution of a sheet, every step in full; a challenge has none."""
    parts: list[Any] = []
    for number, exercise in sheet.exercises.items():
        parts.append(Heading(f"{number}. {exercise.name}: {points_text(exercise.max_points)} points"))
        if exercise.is_challenge:
            parts.append("Any answer that works when it is run is right.")
            continue
        steps = exercise.trace.steps
        values = [replace(document_value(steps[path]), digits=exercise.digits) for path in exercise.asked]
        parts.append(Values((("", tuple(values)),), all_cells=True, level=3))
    return Document(f"{sheet.title}: key", tuple(parts), _student(sheet))


def _student(sheet: Sheet) -> str:
    return sheet.student + (f", {sheet.name}" if sheet.name else "")


def key_text(sheet: Sheet) -> str:
    """The key of one student: every exercise in full, and its right values for the reader."""
    lines = [f"{name} = {toml_text(getattr(sheet, name))}" for name in ("student", "name", "email", "title")]
    for number, exercise in sheet.exercises.items():
        lines += ["", exercise.to_toml(f"exercise.{toml_text(number)}")]
        if not exercise.is_challenge:
            right, digits = exercise.solution, exercise.digits
            values = {path: array_text(right[path].round(digits)) for path in exercise.asked}
            lines += [f"[key.{toml_text(number)}]", *toml_lines(values)]
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
        number: exercise_files.exercise_from(part, f"{path}, exercise {number}")
        for number, part in exercises.items()
    }
    about = {name: str(data.get(name, "")) for name in ("title", "student", "name", "email")}
    return Sheet(exercises=read, **about)


def marking_scheme(template: SheetTemplate, sheet: Sheet) -> Document:
    """The points of each step, and how it is marked."""
    parts: list[Any] = []
    for number, exercise in sheet.exercises.items():
        steps = (Item(points_text(points), f"{path}:") for path, points in exercise.asked.items())
        rules = f"Digits asked: {exercise.digits}. Rounding too early: {exercise.rounding}."
        parts += [Heading(f"{number}. {exercise.name}: {points_text(exercise.max_points)} points")]
        parts += [Items(tuple(steps)), f"{rules} Hints up to level {exercise.hints}."]
    parts.append(
        "A step is correct if it equals the key or follows from the student's own earlier steps, "
        "to the digits written. An incorrect step costs its points; steps that follow from it, "
        "and the same mistake made again, cost nothing more."
    )
    return Document(f"Marking scheme: {template.title}", tuple(parts))
