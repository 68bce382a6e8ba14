"""Marks in the CSV files of Canvas and Moodle: their own export filled in, or a new file that they import.

Of an export every column keeps its position and every cell its content, but for the marks of the students in
the class. Canvas matches students by SIS User ID or SIS Login ID, Moodle by ID number or e-mail address.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from headwork.courses.class_page import csv_text
from headwork.courses.cohort import StudentMarks
from headwork.courses.sheets import read_csv
from headwork.errors import InputError, TooLarge
from headwork.files import load_package_toml, read_bytes, write_atomic
from headwork.grading.wording import points_text

MAX_BYTES, MAX_CELLS = 3_000_000, 2_000_000  # of an export; cells when every row has one for each column
COLUMNS = load_package_toml(__file__, "words.toml")["gradebook"]
CANVAS, MOODLE, IDENTITY_COLUMNS = (COLUMNS[name] for name in ("canvas", "moodle", "identity"))
POINTS_POSSIBLE = "points possible"  # how the second or third row of Canvas's export begins
GRADE = "grade"  # the column of Moodle's worksheet for one assignment
EXCUSED = ("EX", "N/A")  # Canvas: who is excused, and who need not hand it in


def write_gradebooks(
    results: Sequence[StudentMarks], out: str | Path, gradebook: str | Path | None = None, column: str = ""
) -> list[str]:
    """Write canvas.csv and moodle.csv, or a filled copy of an export; says who has no mark in that."""
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


def _points_to_enter(graded: StudentMarks) -> str | None:
    """The points of a student; none where there is nothing that could be marked."""
    return None if (graded.problem and not graded.points) or not graded.marks else points_text(graded.points)


def fill_gradebook(
    path: str | Path, results: Sequence[StudentMarks], title: str, column: str = ""
) -> tuple[str, list[str]]:
    """A system's own export with the marks filled in, and who has none there, with the reason."""
    rows, delimiter = read_csv(path, MAX_BYTES)
    data = read_bytes(path, max_bytes=MAX_BYTES)
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if len(rows) * len(header) > MAX_CELLS:
        raise TooLarge(
            f"{path}: {len(rows):,} rows of {len(header):,}; at most {MAX_CELLS:,} cells are read."
        )
    if not set(header) & set(IDENTITY_COLUMNS):
        raise InputError(
            f"{path}: no column that says who a row is about. Expected an export of Canvas "
            f"({', '.join(CANVAS)}) or of Moodle ({', '.join(MOODLE)})."
        )
    column_index = _column(header, column, title, path)
    titles = [row[column_index] for row in rows[:3] if column_index < len(row) and _is_points_possible(row)]
    if any("read only" in title.lower() for title in titles):
        raise InputError(
            f"{path}: the column '{rows[0][column_index]}' is read only. Name another with --column."
        )
    # A semicolon often comes with a decimal comma, but not where the file has decimal points.
    comma = delimiter == ";" and not re.search(rb'[;"][0-9]+\.[0-9]+[;"\r\n]', data)
    missing = _fill(rows, results, column_index, column or title, comma)
    buffer = io.StringIO(newline="")
    ending = "\r\n" if b"\r\n" in data else "\n"
    csv.writer(buffer, delimiter=delimiter, lineterminator=ending).writerows(rows)
    return ("\ufeff" if data.startswith(b"\xef\xbb\xbf") else "") + buffer.getvalue(), missing


def _fill(
    rows: list[list[str]], results: Sequence[StudentMarks], column_index: int, title: str, comma: bool = False
) -> list[str]:
    """Write the marks into a column, which may be a new one; says which students have none, and why."""
    if column_index == len(rows[0]):
        full = points_text(max((graded.max_points for graded in results), default=0.0))
        rows[0].append(title)
        for line in filter(None, rows[1:]):
            line += [""] * (column_index - len(line)) + [full if _is_points_possible(line) else ""]
    row_of_student, missing = _row_of_each_student(rows, results), []
    for graded in (graded for graded in results if graded.student):
        row, mark = row_of_student.get(graded.student), _points_to_enter(graded)
        if row is None:
            missing.append(f"{graded.student} (no row)")
        elif mark is not None:
            row += [""] * (column_index + 1 - len(row))
            if row[column_index].strip() in EXCUSED:
                missing.append(f"{graded.student} ({row[column_index].strip()})")
            else:
                row[column_index] = mark.replace(".", ",") if comma else mark
    return missing


def _is_points_possible(row: Sequence[str]) -> bool:
    return bool(row) and row[0].strip().lower() == POINTS_POSSIBLE


def _column(header: Sequence[str], column: str, title: str, path: str | Path) -> int:
    """Where the marks go: the column of that name, with or without the system's number; else a new one."""
    wanted = re.compile(re.escape((column or title).lower()) + r"(?: \((?:[0-9]+|real)\))?")
    matches = [i for i, name in enumerate(header) if wanted.fullmatch(name)]
    if not matches and not column and GRADE in header:
        matches = [header.index(GRADE)]
    if len(matches) > 1:
        listed = ", ".join(header[i] for i in matches[:5])
        raise InputError(f"{path}: several columns '{column or title}' ({listed}). Name one with --column.")
    return matches[0] if matches else len(header)


def _row_of_each_student(rows: list[list[str]], results: Sequence[StudentMarks]) -> dict[str, list[str]]:
    """The one row about each student, by the surest column that names them."""
    header = [cell.strip().lower() for cell in rows[0]]
    words = {g.student: {w.casefold() for w in (g.student, g.email, g.name) if w} for g in results}
    everybody = set().union(*words.values())
    row_of: dict[str, list[str]] = {}
    for at in (header.index(name) for name in IDENTITY_COLUMNS if name in header):
        named = defaultdict(list)
        for row in rows[1:]:
            if at < len(row) and (name := row[at].strip().casefold()) in everybody:
                named[name].append(row)
        for student, own in words.items():
            same = [row for name in own for row in named.get(name, ())]
            if len(same) == 1:
                row_of.setdefault(student, same[0])
    return row_of
