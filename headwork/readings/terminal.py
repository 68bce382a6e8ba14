"""Text for the terminal: each step with its formula, shape and numbers, within the width of the screen."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from headwork.errors import sizes_in_words
from headwork.numbers.operations import map_cells
from headwork.pages.formulas import plain_formula
from headwork.pages.matrices import visible_indices
from headwork.pages.style import PLAIN, Style
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text, with_infinity

WIDEST_EXACT = 100  # characters; wider exact rows are listed cell by cell


def text(trace: Trace, style: Style = PLAIN) -> str:
    """The whole trace as text."""
    name = trace.mechanism.slug
    lines = [_with_bold(line, name, style) for line in _wrapped(f"{name}: {trace.mechanism.about}", style)]
    lines += _wrapped(trace.title, style)
    lines += _wrapped(options_text(trace), style, "  ", "  ")
    for value in trace.everything():
        lines += ["", *_heading(value, style), *_block(value, trace, style)]
    for warning in trace.warnings:
        lines += ["", *_wrapped(f"Note: {warning}", style, "", "  ")]
    return "\n".join(lines) + "\n"


def options_text(trace: Trace) -> str:
    return ", ".join(f"{name} = {value}" for name, value in option_texts(trace).items())


def option_texts(trace: Trace) -> dict[str, str]:
    """Options in words; the default beta by what it means."""
    texts = {}
    for name, value in trace.options.items():
        if value is None:
            if name == "beta":
                texts[name] = "1/sqrt(d_k)"
        elif hasattr(value, "array"):
            texts[name] = "given"
        elif isinstance(value, str):
            texts[name] = value
        else:
            texts[name] = trace.number_text(value)
    return texts


def exact_texts(exact: Any) -> Any:
    """An array of exact numbers as texts that can be typed back in."""
    from headwork.numbers.exact import exact_text

    return map_cells(exact_text, exact)


def _heading(value: TraceValue, style: Style) -> Iterator[str]:
    symbol = plain_formula(value.symbol)
    left = f"{symbol} = {plain_formula(value.formula)}" if value.formula else symbol
    right = f"{value.path}, {sizes_in_words(value.shape, ' '.join(value.axes))}"
    if len(left) + 3 + len(right) <= style.width:
        yield f"{left}   {_with_bold(right, value.path, style)}"
        return
    yield from _wrapped(left, style, "", "    ")
    for line in _wrapped(right, style, "  ", "    "):
        yield _with_bold(line, value.path, style)


def _with_bold(line: str, name: str, style: Style) -> str:
    return line.replace(name, style.bold(name), 1)


def _wrapped(words: str, style: Style, first: str = "", later: str = "") -> list[str]:
    return wrap(words, style.width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _block(value: TraceValue, trace: Trace, style: Style) -> Iterator[str]:
    for caption, matrix in value.matrices():
        if caption:
            yield f"  {caption}"
        decimals = map_cells(lambda x: number_text(x, trace.digits), matrix.tensor.array)
        exact = matrix.exact
        strings = decimals if exact is None else map_cells(with_infinity, exact_texts(exact))
        if np.array_equal(strings, decimals):
            yield from _table(decimals, style)
        elif _fits(strings, style):
            yield from _table(strings, style)
            if matrix.values.dtype != object:
                yield "  ="
                yield from _table(decimals, style)
        else:
            yield from _table(decimals, style)
            symbol = plain_formula(value.symbol)
            for index in np.ndindex(strings.shape):
                cell = ",".join(map(str, matrix.full_index(matrix.raw_index(index))))
                yield from _wrapped(f"{symbol}[{cell}] = {strings[index]}", style, "  ", "      ")


def _fits(strings: Any, style: Style) -> bool:
    """Whether exact numbers are short enough for a table."""
    widths = [max(map(len, column)) + 2 for column in np.atleast_2d(strings).T]
    return sum(widths) <= WIDEST_EXACT and max(widths) <= style.width


def _table(strings: Any, style: Style) -> Iterator[str]:
    """Aligned rows; what is wider than the screen is cut into blocks of columns under their numbers."""
    rows = np.atleast_2d(strings)
    columns = [
        ["..." if i is None or j is None else rows[i, j] for i in visible_indices(rows.shape[0])]
        for j in visible_indices(rows.shape[1])
    ]
    names = ["..." if j is None else f"[,{j}]" for j in visible_indices(rows.shape[1])]
    widths = [max(map(len, column)) for column in columns]
    if sum(widths) + 2 * len(widths) <= style.width:
        yield from _lines(columns, widths)
        return
    widths = [max(width, len(name)) for width, name in zip(widths, names, strict=True)]
    start = 0
    for stop in range(1, len(columns) + 1):
        if stop == len(columns) or sum(widths[start : stop + 1]) + 2 * (stop + 1 - start) > style.width:
            yield style.dim(next(_lines([[name] for name in names[start:stop]], widths[start:stop])))
            yield from _lines(columns[start:stop], widths[start:stop])
            start = stop


def _lines(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in zip(*columns, strict=True):
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
