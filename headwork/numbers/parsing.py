r"""What a person types or pastes as numbers: a single one, a row, a matrix, nested lists.

A matrix is ``1 2; 2 0``, ``[[1, 2], [2, 0]]``, a LaTeX ``bmatrix``, a Markdown table, a Python ``array(...)``
or cells pasted from a spreadsheet, with a factor before it if need be: ``1/4 * [1 1; 1 1]``. ``pasted`` turns
these into plain text, each entry goes through the parser in ``entries``; nothing is ever evaluated as code.
"""

import math
import re
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.numbers.entries import (
    MAX_BITS,
    MAX_ENTRY_LENGTH,
    ExactNumbers,
    FloatNumbers,
    SymbolInDecimals,
    read_number,
)
from headwork.numbers.hand import HandTensor
from headwork.numbers.pasted import MIXED_SIGN, strip_wrappers, unreadable

MAX_EXACT_TEXT_LENGTH = 20_000
MAX_ENTRIES = 100_000
MAX_AXES = 5
MIXED_NUMBER = re.compile(r"([-+]?[0-9]+) +\(?([0-9]+/[0-9]+)\)?")  # 2 1/3
PLAIN_DECIMAL = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{0,15})?")  # most entries are: read them at once


def read_tensor(value: Any, *, exact: bool = False, where: str = "") -> HandTensor:
    """Typed text, nested lists, an array or a torch tensor, as a HandTensor.

    >>> read_tensor("1 2; 2 0").array.tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """
    factor = ""
    if isinstance(value, HandTensor):
        value = value.array
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    try:
        if isinstance(value, str):
            if exact and len(value) > MAX_EXACT_TEXT_LENGTH:
                raise InputError(
                    f"cannot read the text: {len(value)} characters; at most {MAX_EXACT_TEXT_LENGTH} are "
                    "read as exact numbers. Leave out --exact to work in decimals."
                )
            value, factor = split_entries(value)
        tensor = tensor_from_lists(value, exact=exact)
        return HandTensor(tensor.array * read_number(factor, exact=exact)) if factor else tensor
    except InputError as error:
        raise type(error)(f"{where}: {error}" if where else str(error)) from None


def tensor_from_lists(nested: Any, *, exact: bool = False) -> HandTensor:
    """Nested lists of numbers or typed entries as a HandTensor, all rows of one length."""
    shape = _shape(nested)
    flat = [nested]
    for _ in shape:
        flat = [cell for part in flat for cell in part]
    numbers: ExactNumbers | FloatNumbers = ExactNumbers() if exact else FloatNumbers()
    values = (_read_entry(x, numbers) for x in flat)
    return HandTensor(np.fromiter(values, object if exact else float, len(flat)).reshape(shape))


def _read_entry(value: Any, numbers: ExactNumbers | FloatNumbers) -> Any:
    """One cell given as text, a Python or numpy number, or (from Python code) a SymPy expression."""
    exact = isinstance(numbers, ExactNumbers)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return (
            read_number(value, exact=exact) if exact or not PLAIN_DECIMAL.fullmatch(value) else float(value)
        )
    if hasattr(value, "free_symbols"):
        if not exact and value.free_symbols:
            raise SymbolInDecimals(f"'{value}' holds a symbol; a number is expected here.")
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
    return numbers.number(str(value)) if value >= 0 else -numbers.number(str(-value))


def split_entries(text: str, *, single: bool = False) -> tuple[Any, str]:
    """The text cut into nested lists of entries, each still as typed, and the factor before or after them.

    Where a ``single`` number is expected, spaces do not cut: 2 1/3 and 2 sqrt(2) are one entry.

    >>> split_entries("1/2 x; 2 0"), split_entries("1/4 * [1 1; 1 2]")
    (([['1/2', 'x'], ['2', '0']], ''), ([['1', '1'], ['1', '2']], '1/4'))
    """
    stripped = strip_wrappers(text).strip()
    if not stripped:
        raise InputError("empty. Expected numbers, such as 1 2; 2 0.")
    if len(re.findall(r"[\s,;]+", stripped)) >= MAX_ENTRIES:
        raise InputError(f"cannot read the text: more than {MAX_ENTRIES} entries.")
    if "[" in stripped:
        stripped, factor = _split_factor(stripped)
        return _parse_brackets(stripped), factor
    if single:
        return _mark_mixed_number(stripped), ""
    rows = [row for row in re.split(r"[;\n\r]+", stripped) if row.strip(" ,\t")]
    if len(rows) == 1 and not re.search(r"[;\n]", stripped):
        cells = _split_row(rows[0])
        return cells[0] if len(cells) == 1 else cells, ""
    return [_split_row(row) for row in rows], ""


def entry_texts(text: str) -> Any:
    """The text cut into nested lists of entries, a factor of all of them written before each.

    >>> entry_texts("1/2 x; 2 0"), entry_texts("1/4 * [1 1]")
    ([['1/2', 'x'], ['2', '0']], ['(1/4)*(1)', '(1/4)*(1)'])
    """
    nested, factor = split_entries(text)

    def times(part: Any) -> Any:
        return list(map(times, part)) if isinstance(part, list) else f"({factor})*({part})"

    return times(nested) if factor else nested


def _split_factor(text: str) -> tuple[str, str]:
    """What stands in square brackets, and a factor before it, or after it behind ``*`` or ``/``."""
    start, end = text.index("["), text.rindex("]") + 1 if "]" in text else len(text)
    before, after = text[:start].strip(), text[end:].strip()
    if len(before + after) > MAX_ENTRY_LENGTH:
        raise unreadable(text, "a factor may stand before the brackets; this is too long for one.")
    if set(before + after) & set(",;\n") or not (before or after):
        return text, ""
    product = before.endswith(("*", ")", "-")) or before[-1:].isdigit()
    if (before and not product) or (after and after[0] not in "*/"):
        return text, ""
    first = f"{before}1" if before in ("", "-") else before.removesuffix("*").strip()
    return text[start:end], f"({first}){after}" if after else first


def _split_row(row: str) -> list[str]:
    """A row cut at its commas, or else its tabs, or else its spaces, outside of brackets."""
    depths = list(accumulate((c == "(") - (c == ")") for c in row))
    for separator in (",", "\t", None):
        outside = [(i, c) for i, c in enumerate(row) if depths[i] == 0]
        marks = [i for i, c in outside if (c == separator if separator else c.isspace())]
        if marks or separator is None:
            ends = zip([0, *[m + 1 for m in marks]], [*marks, len(row)], strict=True)
            pieces = [row[a:b].strip() for a, b in ends]
            if separator == ",":
                return [_mark_mixed_number(piece) for piece in (pieces[:-1] if pieces[-1] == "" else pieces)]
            if separator:
                return [_mark_mixed_number(piece) for piece in pieces if piece]
            return _join_operators([p for p in pieces if p])
    raise AssertionError("unreachable")


def _mark_mixed_number(entry: str) -> str:
    """``2 1/3``, which can be only one number between commas or tabs."""
    return MIXED_NUMBER.sub(rf"\1{MIXED_SIGN}\2", entry) if MIXED_NUMBER.fullmatch(entry) else entry


def join_mixed_numbers(nested: Any) -> Any:
    """The entries with every ``2`` before a ``1/3`` as one number, for a caller who knows their count."""
    if not isinstance(nested, list) or (nested and isinstance(nested[0], list)):
        return [join_mixed_numbers(part) for part in nested] if isinstance(nested, list) else nested
    cells: list[str] = []
    for cell in nested:
        joined = _mark_mixed_number(f"{cells[-1]} {cell}") if cells else cell
        if cells and MIXED_SIGN in joined and MIXED_SIGN not in cells[-1]:
            cells[-1] = joined
        else:
            cells.append(cell)
    return cells[0] if len(cells) == 1 else cells


def _join_operators(pieces: list[str]) -> list[str]:
    """``1 + 2 3`` is 1+2 and 3: a lone operator joins its neighbours; ``1 -2`` is two entries."""
    entries: list[str] = []
    for piece in pieces:
        if entries and (entries[-1][-1] in "+-*/^" or piece in "+-" or piece[0] in "*/^"):
            entries[-1] += piece
            if len(entries[-1]) > MAX_ENTRY_LENGTH:
                raise unreadable(entries[-1], f"an entry may have {MAX_ENTRY_LENGTH} characters.")
        else:
            entries.append(piece)
    return entries


def _parse_brackets(text: str) -> Any:
    """``[[1, 2], [2, 0]]`` and ``[1 2; 2 0]`` as nested lists, by hand: what is inside is parsed later."""
    root: list[Any] = []
    open_lists: list[list[Any]] = [root]
    rows: list[list[Any]] = [[]]  # of each open list, those that a semicolon has ended
    commas = [False]  # whether its entries are separated by commas, and not by spaces
    entry: list[str] = []
    parenthesis_depth, matrix = 0, False
    for char in text:
        parenthesis_depth += (char == "(") - (char == ")")
        if char == "[":
            if len(open_lists) > MAX_AXES:
                raise unreadable(text, f"more than {MAX_AXES} axes.")
            if "".join(entry).strip():
                raise unreadable(text, "a comma is missing before '['.")
            open_lists[-1].append([])
            open_lists.append(open_lists[-1][-1])
            rows.append([])
            commas.append(False)
        elif char == "]" or (char in ",;\n" and parenthesis_depth <= 0):
            current = open_lists[-1]
            commas[-1] |= char == ","
            if cell := "".join(entry).strip():
                current.extend([_mark_mixed_number(cell)] if commas[-1] else _split_row(cell))
            entry = []
            if char == ";" and current and not isinstance(current[0], list):
                rows[-1].append(current[:])
                current.clear()
                commas[-1] = False
            if char == "]":
                commas.pop()
                if len(open_lists) == 1:
                    raise unreadable(text, "there is one ']' too many.")
                ended = rows.pop()
                if ended:
                    current[:] = [*ended, current[:]] if current else ended
                elif matrix and len(current) == 1:  # [[1 2; 2 0]] is the matrix itself
                    current[:] = current[0]
                matrix = bool(ended)
                open_lists.pop()
        elif len(open_lists) == 1 and not char.isspace():
            raise unreadable(text, f"{char!r} stands outside of the brackets.")
        else:
            entry.append(char)
    if len(open_lists) > 1:
        raise unreadable(text, "a ']' is missing.")
    return root[0] if len(root) == 1 else root


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
