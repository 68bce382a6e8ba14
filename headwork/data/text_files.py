"""Labelled texts from the user's own file: CSV, TSV or JSONL with named columns; errors name file and line.

CSV is quoted as RFC 4180 says; TSV has no quotes: a field ends at a tab, a row at the end of the line.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headwork.data.datasets import TextSplit
from headwork.errors import InputError, TooLarge, unknown_name
from headwork.files import load_package_toml, read_bytes

SUFFIXES = (".csv", ".tsv", ".jsonl")
MAX_BYTES = 2_000_000_000
MAX_CLASSES = 1000
USER_FILES = load_package_toml(__file__, "user_files.toml")
Row = tuple[int, str, str]  # line, text, label


def labelled_rows(path: Path, columns: Sequence[str] | None = None) -> list[Row]:
    """The rows of a file: line, text and label; each has both, and there is at least one."""
    text = read_utf8(path)
    read = _json_rows if path.suffix.lower() == ".jsonl" else _table_rows
    before = csv.field_size_limit(MAX_BYTES)  # the module's own limit is for all its users
    try:
        most = max(2**20, len(text) // 16)
        rows = list(islice(read(path, text, columns), most + 1))
    finally:
        csv.field_size_limit(before)
    if not rows:
        raise InputError(f"{path}: holds no rows.")
    if len(rows) > most:
        raise TooLarge(f"{path}: more than {most:,} rows of a few letters each. Give fewer.")
    for name, column in (("text", 1), ("label", 2)):
        if empty := [row[0] for row in rows if not str(row[column]).strip()]:
            lines = ", ".join(map(str, empty[:5])) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
            raise InputError(f"{path}: no {name} in line {lines}. Fill it in or delete the row.")
    return rows


def class_names(rows: Sequence[Row], path: Path) -> tuple[str, ...]:
    """The labels that occur, in order: whole numbers by value, others by the alphabet."""
    names = {row[2].strip() for row in rows}
    if len(names) > MAX_CLASSES:
        raise InputError(
            f"{path}: {len(names):,} different labels in {len(rows):,} rows. "
            "Is that the column of the labels?"
        )
    numeric = all(re.fullmatch(r"-?\d{1,9}", name) for name in names)
    return tuple(sorted(names, key=lambda name: (int(name) if numeric else 0, name)))


def text_split(rows: Sequence[Row], classes: tuple[str, ...], path: Path) -> TextSplit:
    """Rows as texts with the numbers of their classes."""
    numbers = {name: number for number, name in enumerate(classes)}
    for line, _, label in rows:
        if label.strip() not in numbers:
            raise InputError(f"{path}, line {line}: {unknown_name('label', label.strip(), classes)}")
    return TextSplit([row[1] for row in rows], np.array([numbers[row[2].strip()] for row in rows], np.int64))


def read_utf8(path: Path) -> str:
    """A whole text file as UTF-8; a byte that is not is named by its line."""
    data = read_bytes(path, max_bytes=MAX_BYTES)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: is UTF-16. Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        mixed = " The lines before it are: the encodings are mixed." if line > 1 else ""
        raise InputError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8.{mixed} "
            "Save the whole file as UTF-8."
        ) from None
    if not text.strip():
        raise InputError(f"{path}: is empty.")
    if (index := text.find("\0")) >= 0:
        line = text.count("\n", 0, index) + 1
        raise InputError(f"{path}, line {line}: holds a zero byte: not a text file, or a damaged one.")
    return text


def _table_rows(path: Path, text: str, columns: Sequence[str] | None) -> Iterator[Row]:
    tabs = path.suffix.lower() == ".tsv"
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    lines = csv.reader(StringIO(text, newline=""), **dialect)
    row_line = 1
    try:
        first = next((fields for fields in lines if any(map(str.strip, fields))), [])
        header = [name.strip() for name in first]
        _check_separator(path, header, "," if tabs else ";\t|")
        text_column, label_column = (header.index(name) for name in _choose_columns(path, header, columns))
        row_line = lines.line_num + 1
        for fields in lines:
            if fields and len(fields) != len(header):
                raise InputError(
                    f"{path}, line {row_line}: {len(fields)} fields; the header has {len(header)}: "
                    f"{', '.join(header)}. Put a text with commas, quotes or line breaks in quotes."
                )
            if fields:
                yield row_line, fields[text_column], fields[label_column]
            row_line = lines.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {row_line}: not well-formed: {error}.") from None


def _check_separator(path: Path, header: list[str], others: str) -> None:
    if len(header) == 1 and (separators := [sign for sign in others if sign in header[0]]):
        sign = "a tab" if separators[0] == "\t" else f"'{separators[0]}'"
        advice = "tabs, or name it .csv" if others == "," else "commas, or with tabs as .tsv"
        raise InputError(
            f"{path}: its header is '{header[0]}'. Is {sign} the separator? Save it with {advice}."
        )


def _json_rows(path: Path, text: str, columns: Sequence[str] | None) -> Iterator[Row]:
    pair: tuple[str, str] | None = None
    # Not splitlines: a text may hold the line separators that JSON leaves as they are.
    for line, item in enumerate(text.split("\n"), 1):
        if not item.strip():
            continue
        try:
            row = json.loads(item)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {line}: not JSON: {error}.") from None
        if not isinstance(row, dict):
            raise InputError(
                f'{path}, line {line}: expected an object with named entries, such as {{"text": ...}}.'
            )
        pair = pair or _choose_columns(path, list(row), columns)
        yield line, _json_entry(path, line, row, pair[0]), _json_entry(path, line, row, pair[1])


def _json_entry(path: Path, line: int, row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, str) and (half := re.search(r"[\ud800-\udfff]", value)):
        raise InputError(
            f"{path}, line {line}: '{name}' holds \\u{ord(half[0]):x}, half of a character. "
            "Write the whole one."
        )
    if isinstance(value, (str, int)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise InputError(
        f"{path}, line {line}: '{name}' is {type(value).__name__}. Expected text or a whole number."
    )


def _choose_columns(path: Path, header: list[str], columns: Sequence[str] | None) -> tuple[str, str]:
    """The columns of the text and of the label: those named, or the only ones with a usual name."""
    if columns is not None:
        if len(columns) != 2:
            raise InputError(f"columns {', '.join(columns)}: expected two, one of text and one of labels.")
        for name in columns:
            if name not in header:
                raise unknown_name(f"column of {path}", name, header)
            if header.count(name) > 1:
                raise InputError(
                    f"{path}: {header.count(name)} columns are called '{name}'. Rename all but one."
                )
        return columns[0], columns[1]
    texts, labels = (
        [name for name in header if name.lower() in usual] for usual in USER_FILES["columns"].values()
    )
    if len(texts) != 1 or len(labels) != 1:
        raise InputError(
            f"{path}: which columns hold the text and the label? Its columns: {', '.join(header)}. "
            "Name the two, such as --columns review,stars."
        )
    return texts[0], labels[0]
