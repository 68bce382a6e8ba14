"""Marks in the CSV files of Canvas and Moodle: their own export filled in, or a new file that they import.

Of an export every column keeps its position and every cell its content, but for the marks of the students in
the class. Canvas matches students by SIS User ID or SIS Login ID, Moodle by ID number or e-mail address.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from headwork.courses.class_page import csv_text
from headwork.courses.cohort import StudentMarks
from headwork.errors import InputError
from headwork.files import read_bytes, read_text, write_atomic
from headwork.grading.wording import points_text

MAX_BYTES = 10_000_000
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("ID number", "Full name", "Email address")
# The columns that say who a row is about, the surest first.
IDENTITIES: tuple[str, ...] = (
    "sis user id",
    "sis login id",
    "id number",
    "username",
    "email address",
    "email",
)
IDENTITIES += ("integration id", "id", "student id", "student", "full name")
POSSIBLE = "points possible"  # how the second or third row of Canvas's export begins
GRADE = "grade"  # the column of Moodle's worksheet for one assignment


def write_gradebooks(
    results: Sequence[StudentMarks], out: str | Path, gradebook: str | Path | None = None, column: str = ""
) -> list[str]:
    """Write canvas.csv and moodle.csv, or a filled copy of an export; says whom that does not list."""
    title = next((graded.title for graded in results if graded.title), "") or "Marks"
    if gradebook is None:
        write_atomic(Path(out) / "canvas.csv", canvas_csv(results, column or title))
        write_atomic(Path(out) / "moodle.csv", moodle_csv(results, column or title))
        return []
    text, missing = fill_gradebook(gradebook, results, title, column)
    write_atomic(Path(out) / "gradebook.csv", text)
    return missing


def canvas_csv(results: Sequence[StudentMarks], title: str) -> str:
    """A file that Canvas imports as a new assignment."""
    rows = [[*CANVAS], ["Points Possible", "", "", "", ""]]
    rows += [[g.name or g.student, "", g.student, g.email, ""] for g in results if g.student]
    _fill(rows, results, len(CANVAS), title)
    return csv_text(rows).replace("\nPoints Possible", "\n    Points Possible", 1)


def moodle_csv(results: Sequence[StudentMarks], title: str) -> str:
    """A file that Moodle's grade import reads."""
    rows = [[*MOODLE], *([g.student, g.name, g.email] for g in results if g.student)]
    _fill(rows, results, len(MOODLE), title)
    return csv_text(rows)


def _mark(graded: StudentMarks) -> str | None:
    """The points of a student; none where there is nothing that could be marked."""
    return None if (graded.problem and not graded.points) or not graded.marks else points_text(graded.points)


def fill_gradebook(
    path: str | Path, results: Sequence[StudentMarks], title: str, column: str = ""
) -> tuple[str, list[str]]:
    """A system's own export with the marks filled in, and the students that it does not list."""
    data, text = read_bytes(path, max_bytes=MAX_BYTES), read_text(path, max_bytes=MAX_BYTES)
    first = text.splitlines()[0] if text.strip() else ""
    delimiter = max(",;\t", key=first.count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if not set(header) & set(IDENTITIES):
        raise InputError(
            f"{path}: no column that says who a row is about. Expected an export of Canvas "
            f"({', '.join(CANVAS)}) or of Moodle ({', '.join(MOODLE)})."
        )
    missing = _fill(rows, results, _column(header, column, title, path), column or title, delimiter == ";")
    buffer = io.StringIO(newline="")
    ending = "\r\n" if b"\r\n" in data else "\n"
    csv.writer(buffer, delimiter=delimiter, lineterminator=ending).writerows(rows)
    return ("\ufeff" if data.startswith(b"\xef\xbb\xbf") else "") + buffer.getvalue(), missing


def _fill(
    rows: list[list[str]], results: Sequence[StudentMarks], at: int, title: str, comma: bool = False
) -> list[str]:
    """Write the marks into a column, which may be a new one; says which students have no row."""
    if at == len(rows[0]):
        full = points_text(max((graded.max_points for graded in results), default=0.0))
        rows[0].append(title)
        for row in rows[1:]:
            row.append(full if row and row[0].strip().lower() == POSSIBLE else "")
    header = [cell.strip().lower() for cell in rows[0]]
    identities = [header.index(name) for name in IDENTITIES if name in header]
    missing = []
    for graded in (graded for graded in results if graded.student):
        own, mark = _row(rows[1:], identities, graded), _mark(graded)
        if own is None:
            missing.append(graded.student)
        elif mark is not None and at < len(own):
            own[at] = mark.replace(".", ",") if comma else mark
    return missing


def _column(header: Sequence[str], column: str, title: str, path: str | Path) -> int:
    """Where the marks go: the column of that name, with or without the system's number; else a new one."""
    wanted = (column or title).lower()
    matches = [i for i, name in enumerate(header) if name == wanted or name.startswith(f"{wanted} (")]
    if not matches and not column and GRADE in header:
        matches = [header.index(GRADE)]
    if len(matches) > 1:
        listed = ", ".join(header[i] for i in matches)
        raise InputError(
            f"{path}: several columns for '{column or title}' ({listed}). Name one with --column."
        )
    return matches[0] if matches else len(header)


def _row(rows: list[list[str]], identities: Sequence[int], graded: StudentMarks) -> list[str] | None:
    """The one row about a student, by the surest column that names them."""
    who = {text.casefold() for text in (graded.student, graded.email, graded.name) if text}
    for at in identities:
        same = [row for row in rows if at < len(row) and row[at].strip().casefold() in who]
        if len(same) == 1:
            return same[0]
    return None
