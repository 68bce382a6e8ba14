"""The ledger: one row a thing that is counted, with its shape, parameters and work.

Parameters are weights and biases; the scale of a normalisation is a weight, its shift a bias. Work is
the multiply-adds of matrix products; FLOPs are twice that, the count that torch's own counter gives.
Every other scalar operation (additions, softmax, normalisation, activation) is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwork.errors import unknown
from headwork.sizes.polynomial import Polynomial

if TYPE_CHECKING:
    from headwork.pages import Table

Count = int | Polynomial
Fact = Count | str | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line; ``None`` where there is nothing to count. ``times``: so many alike, each with these numbers."""

    name: str
    shape: tuple[int, ...] | None = None
    axes: str = ""
    formula: str = ""
    about: str = ""
    weights: Count | None = None
    biases: Count | None = None
    multiply_adds: Count | None = None
    others: Count | None = None
    times: int = 1

    @property
    def parameters(self) -> Count | None:
        """Weights and biases together.

        >>> Row(name="filters", weights=2400, biases=32).parameters
        2432
        """
        return _sum([self.weights, self.biases])

    @property
    def flops(self) -> Count | None:
        return None if self.multiply_adds is None else 2 * self.multiply_adds


COUNTS = ("weights", "biases", "multiply_adds", "others")


def added(name: str, rows: Iterable[Row], **fields: Any) -> Row:
    """Several rows as one, each as often as it stands there.

    >>> added("both", [Row(name="layer", weights=3, times=2), Row(name="head", weights=1)]).weights
    7
    """
    kept = list(rows)
    counts: dict[str, Any] = {
        c: _sum([None if (v := getattr(r, c)) is None else v * r.times for r in kept]) for c in COUNTS
    }
    return Row(name=name, **counts, **fields)


def _sum(counts: Iterable[Count | None]) -> Count | None:
    known = [count for count in counts if count is not None]
    if not known:
        return None
    total = known[0]
    for count in known[1:]:
        total = total + count
    return total


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Rows, the facts that answer the question, notes on what is counted, and warnings.

    >>> ledger = Ledger(title="two", rows=(Row(name="a", weights=1), Row(name="b", weights=2, biases=1)), summed=True)
    >>> ledger.row("b").parameters, ledger.total.parameters
    (3, 4)
    """

    title: str
    rows: tuple[Row, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    summed: bool = False

    def __getitem__(self, name: str) -> Any:
        """The fact of that name, or the shape of that row: what a problem asks for."""
        if name in self.facts:
            return self.facts[name]
        for row in self.rows:
            if name in (row.name, row.about):
                return row.shape
        raise unknown(f"entry of '{self.title}'", name, [*self.facts, *(row.name for row in self.rows)])

    def row(self, name: str) -> Row:
        """The row of that name, or called so in words."""
        for row in self.rows:
            if name in (row.name, row.about):
                return row
        raise unknown(f"row of '{self.title}'", name, [row.name for row in self.rows])

    @property
    def total(self) -> Row:
        """All rows together: a sum that means something only where ``summed`` says so."""
        return added("total", self.rows)

    def table(self) -> Table:
        """The same as a plain table of results."""
        from headwork.sizes.rendering import table

        return table(self)

    def to_text(self) -> str:
        from headwork.sizes.rendering import text

        return text(self)

    def to_markdown(self) -> str:
        from headwork.sizes.rendering import markdown

        return markdown(self)

    def to_latex(self, fragment: bool = False) -> str:
        from headwork.sizes.rendering import latex

        return latex(self, fragment=fragment)

    def to_html(self) -> str:
        from headwork.sizes.rendering import html

        return html(self)

    def to_json(self) -> str:
        from headwork.sizes.rendering import json_text

        return json_text(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()
