"""Plain text for the terminal: each step with its formula, shape and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headwork.errors import sizes_in_words
from headwork.numbers.hand import mapped
from headwork.pages.formulas import plain_formula
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text

MOST_SHOWN = 12  # rows and columns; the whole is in the JSON
WIDEST_EXACT = 100  # characters; wider exact rows are listed cell by cell


def text(trace: Trace) -> str:
    """The whole trace as text."""
    lines = [f"{trace.mechanism.slug}: {trace.mechanism.about}"]
    if trace.title:
        lines.append(trace.title)
    if told := options_text(trace):
        lines.append(f"  {told}")
    for noted in trace.shown():
        lines += ["", heading(noted), *_block(noted, trace)]
    for warning in trace.warnings:
        lines += ["", f"! {warning}"]
    return "\n".join(lines) + "\n"


def options_text(trace: Trace) -> str:
    return ", ".join(f"{name} = {value}" for name, value in options_told(trace).items())


def options_told(trace: Trace) -> dict[str, str]:
    """Options in words; the default beta by what it means."""
    told = {}
    for name, value in trace.options.items():
        if value is None:
            if name == "beta":
                told[name] = "1/sqrt(d_k)"
        elif hasattr(value, "array"):
            told[name] = "given"
        elif isinstance(value, str):
            told[name] = value
        else:
            exact = trace.exact and hasattr(value, "free_symbols")
            told[name] = trace.exact_text(value) if exact else number_text(value, trace.digits)
    return told


def heading(noted: TraceValue) -> str:
    symbol = plain_formula(noted.symbol)
    left = f"{symbol} = {plain_formula(noted.formula)}" if noted.formula else symbol
    return f"{left}   {noted.path}, {sizes_in_words(noted.shape, ' '.join(noted.axes))}"


def _block(noted: TraceValue, trace: Trace) -> Iterator[str]:
    for caption, matrix in noted.matrices():
        if caption:
            yield f"  {caption}"
        decimals = texts(matrix.tensor.array, trace.digits)
        exact = matrix.exact
        if exact is None:
            yield from _table(decimals)
            continue
        strings = exact_texts(exact)
        if np.array_equal(strings, decimals):
            yield from _table(decimals)
        elif _width(strings) <= WIDEST_EXACT:
            yield from _table(strings)
            if matrix.values.dtype != object:
                yield "  ="
                yield from _table(decimals)
        else:
            yield from _table(decimals)
            symbol = plain_formula(noted.symbol)
            for place in np.ndindex(strings.shape):
                yield f"  {symbol}[{','.join(map(str, matrix.whole(matrix.inner(place))))}] = {strings[place]}"


def exact_texts(exact: Any) -> Any:
    from headwork.numbers.exact import exact_text

    return mapped(exact_text, exact)


def texts(array: Any, digits: int) -> Any:
    return mapped(lambda x: number_text(x, digits), array)


def _width(strings: Any) -> int:
    rows = np.atleast_2d(strings)
    return sum(max(len(s) for s in rows[:, j]) + 2 for j in range(rows.shape[1]))


def _table(strings: Any) -> Iterator[str]:
    rows = np.atleast_2d(strings)
    shown_rows, shown_columns = _shortened(rows.shape[0]), _shortened(rows.shape[1])
    cells = [["..." if i is None or j is None else rows[i, j] for j in shown_columns] for i in shown_rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(shown_columns))]
    for row in cells:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _shortened(count: int) -> Sequence[int | None]:
    """Which rows or columns are shown; None stands for those left out."""
    if count <= MOST_SHOWN:
        return range(count)
    return [*range(MOST_SHOWN - 3), None, count - 2, count - 1]
