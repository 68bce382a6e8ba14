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
from headwork.data.splits import words
from headwork.errors import InputError, TooLarge, unknown_name
from headwork.files import load_package_toml, read_bytes

SUFFIXES = (".csv", ".tsv", ".jsonl")
MAX_BYTES = 2_000_000_000
MAX_CLASSES = 1000
OWN_FILES = load_package_toml(__file__, "own_files.toml")
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
            raise InputError(words("table/empty", path=path, name=name, lines=lines))
    return rows


def class_names(rows: Sequence[Row], path: Path) -> tuple[str, ...]:
    """The labels that occur, in order: whole numbers by value, others by the alphabet."""
    names = {row[2].strip() for row in rows}
    if len(names) > MAX_CLASSES:
        raise InputError(words("table/labels", path=path, labels=len(names), rows=len(rows)))
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
        reason = words(f"utf8/byte/{'mixed' if line > 1 else 'other'}", byte=data[error.start])
        raise InputError(f"{path}, line {line}: {reason} Save the whole file as UTF-8.") from None
    if not text.strip():
        raise InputError(f"{path}: is empty.")
    if (index := text.find("\0")) >= 0:
        line = text.count("\n", 0, index) + 1
        raise InputError(words("utf8/zero", path=path, line=line))
    return text


def _table_rows(path: Path, text: str, columns: Sequence[str] | None) -> Iterator[Row]:
    tabs = path.suffix.lower() == ".tsv"
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    lines = csv.reader(StringIO(text, newline=""), **dialect)
    first_line = 1
    try:
        first = next((fields for fields in lines if any(map(str.strip, fields))), [])
        header = [name.strip() for name in first]
        _check_separator(path, header, "," if tabs else ";\t|")
        text_column, label_column = (header.index(name) for name in _choose_columns(path, header, columns))
        first_line = lines.line_num + 1
        for fields in lines:
            if fields and len(fields) != len(header):
                sizes = {"fields": len(fields), "expected": len(header), "header": ", ".join(header)}
                raise InputError(words("table/fields", path=path, line=first_line, **sizes))
            if fields:
                yield first_line, fields[text_column], fields[label_column]
            first_line = lines.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {first_line}: not well-formed: {error}.") from None


def _check_separator(path: Path, header: list[str], others: str) -> None:
    if len(header) == 1 and (separators := [sign for sign in others if sign in header[0]]):
        sign = "a tab" if separators[0] == "\t" else f"'{separators[0]}'"
        advice = "tabs, or name it .csv" if others == "," else "commas, or with tabs as .tsv"
        raise InputError(words("table/separator", path=path, header=header[0], sign=sign, advice=advice))


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
            raise InputError(words("table/object", path=path, line=line))
        pair = pair or _choose_columns(path, list(row), columns)
        yield line, _json_entry(path, line, row, pair[0]), _json_entry(path, line, row, pair[1])


def _json_entry(path: Path, line: int, row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, str) and (half := re.search(r"[\ud800-\udfff]", value)):
        raise InputError(words("table/half", path=path, line=line, name=name, code=ord(half[0])))
    if isinstance(value, (str, int)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise InputError(words("table/entry", path=path, line=line, name=name, kind=type(value).__name__))


def _choose_columns(path: Path, header: list[str], columns: Sequence[str] | None) -> tuple[str, str]:
    """The columns of the text and of the label: those named, or the only ones with a usual name."""
    if columns is not None:
        if len(columns) != 2:
            raise InputError(words("table/two_columns", columns=", ".join(columns)))
        for name in columns:
            if name not in header:
                raise unknown_name(f"column of {path}", name, header)
            if header.count(name) > 1:
                raise InputError(words("table/doubled", path=path, count=header.count(name), name=name))
        return columns[0], columns[1]
    texts, labels = (
        [name for name in header if name.lower() in usual] for usual in OWN_FILES["columns"].values()
    )
    if len(texts) != 1 or len(labels) != 1:
        raise InputError(words("table/columns", path=path, columns=", ".join(header)))
    return texts[0], labels[0]
