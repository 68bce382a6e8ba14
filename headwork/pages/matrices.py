"""Matrices as tables: indices and axis names round them, a heat tint behind the numbers.

Blue is positive and orange negative, so that the colour-blind tell them apart; the tint is thin enough that
the text on it stays readable, on light paper and on dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

MAX_SHOWN = 12  # rows and columns


@dataclass(frozen=True)
class Entry:
    """One cell: its decimals, its exact form where that differs, and its heat from -1 to 1.

    A cell without heat (a symbol) stays blank behind; ``odd`` marks what is no finite number.
    """

    decimal: str
    exact: Markup = field(default_factory=Markup)
    heat: float | None = None
    odd: bool = False


@dataclass(frozen=True)
class Grid:
    """A matrix as it is shown. ``rows`` and ``columns`` are the indices; None stands for those left out."""

    cells: Sequence[Sequence[Entry | None]]
    rows: Sequence[int | None] = ()
    columns: Sequence[int | None] = ()
    row_axis: str = ""
    column_axis: str = ""
    label: str = ""
    caption: str = ""


def visible_indices(count: int, most: int = MAX_SHOWN) -> Sequence[int | None]:
    """Which of so many are shown: the first ones and the last two; None stands for those left out.

    >>> visible_indices(3), visible_indices(20, 6)
    (range(0, 3), [0, 1, 2, None, 18, 19])
    """
    if count <= most:
        return range(count)
    return [*range(most - 3), None, count - 2, count - 1]


def heat(value: float | None, largest: float) -> float | None:
    """How strongly a number is tinted: its share of what counts as largest, at most all of it, with its sign.

    >>> heat(-1.0, 4.0), heat(9.0, 4.0), heat(None, 4.0)
    (-0.25, 1.0, None)
    """
    if value is None or not math.isfinite(value):
        return None
    share = float(value) / largest if largest else math.copysign(1.0, value) if value else 0.0
    return max(-1.0, min(1.0, round(share, 2)))


def matrix_table(grid: Grid) -> Markup:
    """A matrix as a table.

    >>> print(matrix_table(Grid([[Entry("2", heat=0.5)]])))  # doctest: +ELLIPSIS
    <div class="matrix">...<td style="--heat:0.5">2</td>...
    """
    from headwork.pages.page import render

    return render("matrix.html", grid=grid)
