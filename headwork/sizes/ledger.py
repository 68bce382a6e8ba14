"""The ledger: one row for each thing that is counted, with its shape, parameters and work.

Parameters are weights and biases; the scale of a normalisation is a weight, its shift a bias. Work is
the multiply-adds of matrix products; FLOPs are twice that, the count that torch's own counter gives.
Every other scalar operation (additions, softmax, normalisation, activation) is kept apart.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from headwork.documents import Caution, Document, Formula, Renderable, Table
from headwork.errors import unknown_name
from headwork.files import load_words
from headwork.sizes.polynomial import Polynomial

text_of = load_words(__file__)
Count = int | Polynomial
Fact = Count | str | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line; ``None`` where there is nothing to count. ``times``: so many, each with these numbers."""

    name: str
    shape: tuple[int, ...] | None = None
    axes: str = ""
    formula: str = ""
    about: str = ""
    weights: Count | None = None
    biases: Count | None = None
    multiply_adds: Count | None = None
    other_operations: Count | None = None
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


COUNTS = ("weights", "biases", "multiply_adds", "other_operations")


def sum_rows(name: str, rows: Iterable[Row], **fields: Any) -> Row:
    """Several rows as one, each as often as it stands there.

    >>> sum_rows("both", [Row(name="layer", weights=3, times=2), Row(name="head", weights=1)]).weights
    7
    """
    listed = list(rows)
    counts: dict[str, Any] = {
        c: _sum([None if (v := getattr(r, c)) is None else v * r.times for r in listed]) for c in COUNTS
    }
    return Row(name=name, **counts, **fields)


def _sum(counts: Iterable[Count | None]) -> Count | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Ledger(Renderable):
    """Rows, the facts that answer the question, notes on what is counted, and warnings.

    >>> rows = (Row(name="a", weights=1), Row(name="b", weights=2, biases=1))
    >>> ledger = Ledger(title="two", rows=rows, summed=True)
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
        return self.facts[name] if name in self.facts else self.row(name).shape

    def row(self, name: str) -> Row:
        """The row of that name, or called so in words."""
        for row in self.rows:
            if name in (row.name, row.about):
                return row
        raise unknown_name(f"entry of '{self.title}'", name, [*self.facts, *(row.name for row in self.rows)])

    @property
    def total(self) -> Row:
        """All rows together: a sum that means something only where ``summed`` says so."""
        return sum_rows("total", self.rows)

    def document(self) -> Document:
        """Rows with shapes and rows without make tables of their own, then the facts, notes and warnings."""
        groups = [list(rows) for _, rows in groupby(self.rows, key=lambda row: row.shape is None)]
        if self.summed and groups:
            groups[-1].append(self.total)
        tables = [_table(rows, summed=self.summed and rows is groups[-1]) for rows in groups]
        facts = [(name, _cell(fact)) for name, fact in self.facts.items()]
        tables += [Table("", ("", ""), facts)] if facts else []
        remarks = (*self.notes, *map(Caution, self.warnings))
        return Document(self.title, (*tables, *remarks), data=self.as_data)

    def as_data(self) -> dict[str, Any]:
        """All of it: whole numbers exact, polynomials as text."""
        return {
            "title": self.title,
            "rows": [_row_data(row) for row in self.rows],
            **({"total": _row_data(self.total)} if self.summed else {}),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


# What a row shows under each heading; a column that no row fills is left out.
COLUMNS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name,
    "times": lambda row: row.times if row.times != 1 else None,
    "shape": lambda row: row.shape,
    "axes": lambda row: row.axes.replace(" ", ", ") or None,
    "weights": lambda row: row.weights,
    "biases": lambda row: row.biases,
    "parameters": lambda row: row.parameters,
    "multiply-adds": lambda row: row.multiply_adds,
    "FLOPs": lambda row: row.flops,
    "others": lambda row: row.other_operations,
    "formula": lambda row: Formula(row.formula) if row.formula else None,
    "": lambda row: row.about or None,
}


def _table(rows: Iterable[Row], *, summed: bool) -> Table:
    rows = list(rows)
    columns = {heading: [_cell(value(row)) for row in rows] for heading, value in COLUMNS.items()}
    if all(row.biases is None for row in rows):
        del columns["parameters"]  # it would only repeat the weights
    columns = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
    return Table("", tuple(columns), list(zip(*columns.values(), strict=True)), summed=summed)


def _cell(value: Any) -> Any:
    """A count, shape or text as a table shows it.

    >>> _cell((1, 5, 768)), _cell(Polynomial(("n",), {(2,): 3}))
    ('[1,5,768]', Formula(latex='3 n^{2}'))
    """
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return Formula(value.latex()) if isinstance(value, Polynomial) else value


def _row_data(row: Row) -> dict[str, Any]:
    names = ("name", "times", "shape", "axes", *COUNTS[:2], "parameters", COUNTS[2], "flops", COUNTS[3])
    data = {name: getattr(row, name) for name in (*names, "formula", "about")} | {"axes": row.axes.split()}
    return {name: value for name, value in data.items() if value not in (None, "", [])}
