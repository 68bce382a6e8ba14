"""Matrices as formulas: exact and in decimals, in as many parts as fit a line."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from headwork.documents.blocks import Value, matrix_of
from headwork.documents.formulas import plain_formula
from headwork.documents.writing import LONGEST_EXACT, column_blocks, number_latex, visible_indices
from headwork.numbers.operations import map_cells

EM = 5.3  # points: a letter, roughly


def matrix_lines(value: Value, whole: bool, widest: float) -> Iterator[str]:
    """Each matrix in as many formulas as it takes: exact and decimals on a line, or blocks of columns."""
    for caption, index in value.matrices():
        name = [rf"\text{{{caption}: }} ".replace("_", r"\_")] if caption else []
        parts = [_visible(cells, whole) for cells in _parts(value, index)]
        if sum(sum(_widths(cells)) for cells in parts) <= widest:
            yield "".join([*name, r" \approx ".join(map(_bmatrix, parts))])
            continue
        for number, cells in enumerate(parts):
            relation = [r"\approx "] if number else []
            blocks = list(column_blocks(_widths(cells), widest))
            for block in blocks:
                columns = rf"\text{{columns {block.start} to {block.stop - 1}: }} "
                held = [columns] if len(blocks) > 1 else []
                yield "".join([*name, *relation, *held, _bmatrix([row[block] for row in cells])])


def _widths(cells: Sequence[Sequence[str]]) -> list[float]:
    """Roughly how wide the columns are, in points, and rather more."""
    return [
        EM * (2 + max(len(plain_formula(cell)) for cell in column)) for column in zip(*cells, strict=True)
    ]


def _parts(value: Value, index: tuple[int | None, ...]) -> list[Any]:
    """The numbers of a matrix in LaTeX: exact, and in decimals where those say more."""
    numbers, written = (
        np.atleast_2d(matrix_of(value.values, index)),
        partial(number_latex, digits=value.digits),
    )
    if value.exact is None:
        return [map_cells(written, numbers)]
    exact = np.atleast_2d(matrix_of(value.exact, index))
    first = np.vectorize(partial(_number, digits=value.digits), [object])(exact, numbers)
    if any(x is None for x in numbers.flat) or all(x.is_Integer or x.is_infinite for x in exact.flat):
        return [first]
    return [first, map_cells(written, numbers)]


def _number(value: Any, decimal: Any, digits: int) -> str:
    """An exact number, by its decimals where it is too long for a cell."""
    from headwork.numbers.exact import exact_text

    too_long = decimal is not None and len(exact_text(value)) > LONGEST_EXACT
    return number_latex(decimal if too_long else value, digits)


def _visible(cells: Any, whole: bool) -> list[list[str]]:
    rows, columns = (range(n) if whole else visible_indices(n) for n in cells.shape)
    return [[r"\cdots" if i is None or j is None else cells[i, j] for j in columns] for i in rows]


def _bmatrix(cells: Sequence[Sequence[str]]) -> str:
    return "\\begin{bmatrix}\n" + " \\\\\n".join(" & ".join(row) for row in cells) + "\n\\end{bmatrix}"
