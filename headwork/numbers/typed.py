r"""What a person types or pastes as numbers: a single one, a row, a matrix, nested lists.

A matrix is ``1 2; 2 0``, ``[[1, 2], [2, 0]]``, a LaTeX ``bmatrix`` or cells pasted from a spreadsheet. Each
entry goes through the parser in ``entries``; nothing is ever evaluated as code.
"""

import math
import re
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.numbers.entries import (
    LONGEST_ENTRY,
    MAX_BITS,
    DecimalNumbers,
    ExactNumbers,
    SymbolFound,
    plain_text,
    read_number,
    unreadable,
)
from headwork.numbers.hand import HandTensor

__all__ = ["SymbolFound", "nested_array", "nested_texts", "read_array", "read_number", "read_tensor"]

LONGEST_EXACT_TEXT = 20_000
MAX_ENTRIES = 100_000
MAX_AXES = 5
PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{0,15})?")  # most entries are: read them at once


def read_array(text: str, *, exact: bool = False, where: str = "") -> HandTensor:
    """A single number, a row, a matrix or a nested list, as a HandTensor.

    >>> read_array("1 2; 2 0").array.tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """
    try:
        if exact and len(text) > LONGEST_EXACT_TEXT:
            raise InputError(
                f"cannot read the text: {len(text)} characters; at most {LONGEST_EXACT_TEXT} are read as "
                "exact numbers. Leave out --exact to work in decimals."
            )
        return nested_array(nested_texts(text), exact=exact)
    except InputError as error:
        raise type(error)(f"{where}: {error}" if where else str(error)) from None


def read_tensor(value: Any, *, exact: bool = False, where: str = "") -> HandTensor:
    """Typed text, nested lists, an array or a torch tensor, as a HandTensor."""
    if isinstance(value, str):
        return read_array(value, exact=exact, where=where)
    if isinstance(value, HandTensor):
        value = value.array
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    try:
        return nested_array(value, exact=exact)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None


def nested_array(nested: Any, *, exact: bool = False) -> HandTensor:
    """Nested lists of numbers or typed entries as a HandTensor, all rows of one length."""
    shape = _shape(nested)
    flat = [nested]
    for _ in shape:
        flat = [cell for part in flat for cell in part]
    build: ExactNumbers | DecimalNumbers = ExactNumbers() if exact else DecimalNumbers()
    values = (_entry(x, build) for x in flat)
    return HandTensor(np.fromiter(values, object if exact else float, len(flat)).reshape(shape))


def _entry(value: Any, build: ExactNumbers | DecimalNumbers) -> Any:
    """One cell given as text, a Python or numpy number, or (from Python code) a SymPy expression."""
    exact = isinstance(build, ExactNumbers)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return read_number(value, exact=exact) if exact or not PLAIN.fullmatch(value) else float(value)
    if hasattr(value, "free_symbols"):
        if not exact and value.free_symbols:
            raise SymbolFound(f"'{value}' holds a symbol; a number is expected here.")
        return value if exact else float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise InputError(f"cannot read {value!r}: expected a number or text.")
    if value != value:
        raise InputError("nan is not a number. Leave no cell undefined.")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise InputError("cannot read a number with too many digits.")
    if not exact:
        return float(value)
    if value in (math.inf, -math.inf):
        return read_number("oo" if value > 0 else "-oo", exact=True)
    return build.number(str(value)) if value >= 0 else -build.number(str(-value))


def nested_texts(text: str) -> Any:
    """The text cut into nested lists of entries, each still as typed.

    >>> nested_texts("1/2 x; 2 0")
    [['1/2', 'x'], ['2', '0']]
    """
    stripped = plain_text(text).strip()
    if not stripped:
        raise InputError("empty. Expected numbers, such as 1 2; 2 0.")
    if len(re.findall(r"[\s,;]+", stripped)) >= MAX_ENTRIES:
        raise InputError(f"cannot read the text: more than {MAX_ENTRIES} entries.")
    inner = stripped[1:-1]
    if stripped == f"[{inner}]" and ";" in inner and not set("[]") & set(inner):  # [1 2; 2 0] is a matrix too
        stripped = inner
    if stripped.startswith("["):
        return _brackets(stripped)
    rows = [row for row in re.split(r"[;\n\r]+", stripped) if row.strip(" ,\t")]
    if len(rows) == 1 and not re.search(r"[;\n]", stripped):
        cells = _cells(rows[0])
        return cells[0] if len(cells) == 1 else cells
    return [_cells(row) for row in rows]


def _cells(row: str) -> list[str]:
    """A row cut at its commas, or else its tabs, or else its spaces, outside of brackets."""
    depths = list(accumulate((c == "(") - (c == ")") for c in row))
    for separator in (",", "\t", None):
        marks = [
            i for i, c in enumerate(row) if depths[i] == 0 and (c == separator if separator else c.isspace())
        ]
        if marks or separator is None:
            ends = zip([0, *[m + 1 for m in marks]], [*marks, len(row)], strict=True)
            pieces = [row[a:b].strip() for a, b in ends]
            if separator == ",":
                return pieces[:-1] if pieces[-1] == "" else pieces
            return _join_operators([p for p in pieces if p])
    raise AssertionError("unreachable")


def _join_operators(pieces: list[str]) -> list[str]:
    """``1 + 2 3`` is 1+2 and 3: a lone operator joins its neighbours; ``1 -2`` is two entries."""
    entries: list[str] = []
    for piece in pieces:
        if entries and (entries[-1][-1] in "+-*/^" or piece in "+-" or piece[0] in "*/^"):
            entries[-1] += piece
            if len(entries[-1]) > LONGEST_ENTRY:
                raise unreadable(entries[-1], f"an entry may have {LONGEST_ENTRY} characters.")
        else:
            entries.append(piece)
    return entries


def _brackets(text: str) -> Any:
    """``[[1, 2], [2, 0]]`` as nested lists, by hand: what is inside is parsed later."""
    root: list[Any] = []
    open_lists = [root]
    entry, round_depth = "", 0
    for sign in text:
        round_depth += (sign == "(") - (sign == ")")
        if sign == "[":
            if len(open_lists) > MAX_AXES:
                raise unreadable(text, f"more than {MAX_AXES} axes.")
            if entry.strip():
                raise unreadable(text, "a comma is missing before '['.")
            inner: list[Any] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
        elif sign == "]" or (sign in ",;\n" and round_depth <= 0):
            if entry.strip():
                open_lists[-1].extend(_cells(entry))
            entry = ""
            if sign == "]":
                if len(open_lists) == 1:
                    raise unreadable(text, "a ']' too many.")
                open_lists.pop()
        elif len(open_lists) == 1 and not sign.isspace():
            raise unreadable(text, f"{sign!r} stands outside of the brackets.")
        else:
            entry += sign
    if len(open_lists) > 1:
        raise unreadable(text, "a ']' is missing.")
    if len(root) != 1:
        raise unreadable(text, "several lists side by side. Put one more pair of brackets round them.")
    return root[0]


def _shape(nested: Any, depth: int = 0) -> tuple[int, ...]:
    if not isinstance(nested, (list, tuple)):
        return ()
    if not nested:
        raise InputError("empty. Expected numbers, such as 1 2; 2 0.")
    if depth == MAX_AXES:
        raise InputError(f"more than {MAX_AXES} axes.")
    shapes = [_shape(part, depth + 1) for part in nested]
    if len(set(shapes)) > 1:
        lengths = [s[0] if s else 1 for s in shapes]
        odd = next(i for i, s in enumerate(shapes) if s != shapes[0])
        raise InputError(
            f"ragged rows: row 0 has {lengths[0]} entries and row {odd} has {lengths[odd]}. "
            "All rows need one length. A decimal comma? Write 0.5, because a comma separates entries."
        )
    return (len(nested), *shapes[0])
