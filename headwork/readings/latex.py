"""A trace in LaTeX: a whole document that needs only amsmath, or a fragment to put into one."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headwork.errors import sizes_in_words
from headwork.pages.matrices import visible_indices
from headwork.pages.tables import escape_latex
from headwork.readings.terminal import option_texts
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_latex, number_text

PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath}
\setcounter{MaxMatrixCols}{20}
\begin{document}
"""


def latex(trace: Trace, *, fragment: bool = False) -> str:
    """The whole trace in LaTeX."""
    body = "\n".join(_lines(trace)) + "\n"
    return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"


def _lines(trace: Trace) -> Iterator[str]:
    yield rf"\section*{{{escape_latex(trace.mechanism.slug)}}}"
    yield escape_latex(trace.mechanism.about)
    if trace.title:
        yield rf"\paragraph{{{escape_latex(trace.title)}}}"
    if options := option_texts(trace):
        yield r"\par " + escape_latex(", ".join(f"{name} = {value}" for name, value in options.items()))
    for value in trace.everything():
        formula = f" = {value.formula}" if value.formula else ""
        words = escape_latex(sizes_in_words(value.shape, " ".join(value.axes)))
        yield rf"\paragraph{{{escape_latex(value.path)}}} ${value.symbol}{formula}$ \quad {words}"
        for caption, matrix in value.matrices():
            name = rf"\text{{{escape_latex(caption)}: }} " if caption else ""
            yield "\\[\n" + name + matrix_latex(matrix, trace) + "\n\\]"
    for warning in trace.warnings:
        yield rf"\par\emph{{Note:}} {escape_latex(warning)}"


def matrix_latex(value: TraceValue, trace: Trace) -> str:
    """One matrix; exact with its decimals behind it where the two differ."""
    exact, decimals = value.exact, value.tensor.array
    if exact is None:
        return _matrix([[number_latex(x, trace.digits) for x in row] for row in _rows(decimals)])
    first = _matrix([[number_latex(x, trace.digits) for x in row] for row in _rows(exact)])
    if value.values.dtype == object or all(x.is_Integer or x.is_infinite for x in exact.flat):
        return first
    second = _matrix([[number_text(x, trace.digits) for x in row] for row in _rows(value.values)])
    return f"{first} \\approx {second}"


def _rows(array: Any) -> Any:
    return np.atleast_2d(array)


def _matrix(cells: Sequence[Sequence[str]]) -> str:
    rows, columns = visible_indices(len(cells)), visible_indices(len(cells[0]))
    shown = [[r"\cdots" if i is None or j is None else cells[i][j] for j in columns] for i in rows]
    return "\\begin{bmatrix}\n" + " \\\\\n".join(" & ".join(row) for row in shown) + "\n\\end{bmatrix}"
