"""Trace: every step of one problem, by its path, with its card; the thing that all renderers read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import InputError, unknown
from headwork.note import Input, Mechanism, Step
from headwork.numbers import HandTensor
from headwork.numbers.arithmetic import Cell, Number, Tree, cells, in_latex, in_text
from headwork.numbers.hand import map_cells
from headwork.pages.formulas import plain_formula
from headwork.pages.style import PLAIN, Style
from headwork.readings.writing import number_latex, number_text, with_infinity

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TraceValue:
    """One input or step as it is shown.

    ``order`` lists the axes of ``raw`` in the order in which they are shown; ``taken`` fixes an index
    along some of them.
    """

    path: str
    card: Input | Step
    raw: HandTensor
    order: tuple[int, ...]
    symbol: str
    formula: str = ""
    taken: tuple[tuple[int, int], ...] = ()

    @property
    def _left(self) -> list[int]:
        """The axes of ``raw`` that are still there, as shown."""
        return [axis for axis in self.order if axis not in dict(self.taken)]

    @property
    def tensor(self) -> HandTensor:
        taken = dict(self.taken)
        array = self.raw.array[tuple(taken.get(axis, slice(None)) for axis in range(self.raw.array.ndim))]
        if array is self.raw.array or not taken:
            return HandTensor(np.transpose(self.raw.array, self.order))
        left = self._left
        return HandTensor(np.transpose(array, [sorted(left).index(axis) for axis in left]))

    @property
    def axes(self) -> tuple[str, ...]:
        words = _axis_words(self.card.axes, len(self.order))
        return tuple(words[axis] for axis in self._left)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape[axis] for axis in self._left)

    @property
    def values(self) -> NDArray[Any]:
        """Decimals; an entry with free symbols is None."""
        if not self.raw.exact:
            return self.tensor.array
        from headwork.numbers.exact import decimal

        numbers = [decimal(x) for x in self.tensor.array.flat]
        kind = object if None in numbers else float
        return np.array(numbers, dtype=kind).reshape(self.shape)

    @property
    def exact(self) -> Any:
        """Tidy exact numbers as an array, or None where the problem was worked in decimals."""
        if not self.raw.exact:
            return None
        from headwork.numbers.exact import tidy

        return map_cells(tidy, self.tensor.array)

    def take(self, axis: str, index: int) -> TraceValue:
        """One index along a named axis: ``head 2``."""
        place = self.axes.index(axis)
        if index >= self.shape[place]:
            raise InputError(
                f"{self.path}: {axis} {index} is not there; it has {self.shape[place]}, counted from 0."
            )
        return replace(
            self, path=f"{axis} {index}/{self.path}", taken=(*self.taken, (self._left[place], index))
        )

    def matrices(self) -> Iterator[tuple[str, TraceValue]]:
        """The value cut into matrices, each with its caption; heads are taken before anything else."""
        if len(self.shape) <= 2:
            yield "", self
            return
        axis = "head" if "head" in self.axes else self.axes[0]
        for index in range(self.shape[self.axes.index(axis)]):
            for caption, matrix in self.take(axis, index).matrices():
                yield f"{axis} {index}" + (f", {caption}" if caption else ""), matrix

    def raw_index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The index into ``raw`` of a cell shown here."""
        places = {**dict(self.taken), **dict(zip(self._left, index, strict=True))}
        return tuple(places[axis] for axis in range(len(self.order)))

    def full_index(self, inner: tuple[int, ...]) -> tuple[int, ...]:
        """The index, in the whole value as shown, of a cell of ``raw``."""
        return tuple(inner[axis] for axis in self.order)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self.values, dtype)


def _axis_words(axes: str, count: int) -> list[str]:
    """The card's axis words for a value of so many axes; leading ones may be missing on either side."""
    words = axes.split()
    return ["batch"] * (count - len(words)) + words[max(0, len(words) - count) :]


@dataclass(frozen=True)
class CellArithmetic:
    """How one cell came about: in names, in numbers, exactly and as a decimal."""

    name: str
    in_names: str
    in_numbers: str
    exact: str
    decimal: str
    latex: str
    sources: tuple[tuple[str, tuple[int, ...]], ...]

    def __str__(self) -> str:
        parts = [self.name, self.in_numbers, self.exact, self.decimal]
        shown = [p for i, p in enumerate(parts) if p and p not in parts[:i]]
        return " = ".join(shown)


@dataclass(frozen=True, repr=False)
class Trace:
    """The steps of one worked problem. Made by ``headwork.explain``."""

    mechanism: Mechanism
    inputs: dict[str, TraceValue]
    options: dict[str, Any]
    steps: dict[str, TraceValue]
    warnings: list[str]
    exact: bool
    digits: int = 4
    title: str = ""
    replaced: Mapping[str, Any] = field(default_factory=dict)
    again: Callable[..., Trace] | None = field(default=None, repr=False, compare=False)

    # --- looking things up --------------------------------------------------------------------

    def __getitem__(self, path: str) -> TraceValue:
        """A step or input by its path; ``head 2/weights`` takes one index along that axis."""
        everything = {**self.inputs, **self.steps}
        if path in everything:
            return everything[path]
        scope, _, rest = path.rpartition("/")
        outer, _, last = scope.rpartition("/")
        taking = re.fullmatch(r"(\w+) (\d+)", last)
        whole = f"{outer}/{rest}" if outer else rest
        if taking and whole in everything and taking[1] in everything[whole].axes:
            return everything[whole].take(taking[1], int(taking[2]))
        raise unknown(f"step of {self.mechanism.slug}", path, everything)

    @property
    def output(self) -> TraceValue:
        return list(self.steps.values())[-1]

    # --- one cell -----------------------------------------------------------------------------

    def cell(self, path: str, *index: int) -> CellArithmetic:
        """The arithmetic of one cell, from the steps noted before it or the inputs."""
        noted = self[path]
        if len(index) != len(noted.shape) or any(
            not 0 <= i < n for i, n in zip(index, noted.shape, strict=False)
        ):
            raise InputError(
                f"{path}: cell {list(index)} is not there. It is {' x '.join(map(str, noted.shape))} "
                f"({', '.join(noted.axes)}), counted from 0."
            )
        inner = noted.raw_index(tuple(index))
        tree = noted.raw.derivation(inner)
        value = noted.raw.array[inner]
        decimal = number_text(value, self.digits)
        exact = self.exact_text(value) if self.exact and decimal != "undefined" else ""
        numbers = in_text(tree, self._leaf_number)
        name = f"{plain_formula(noted.symbol)}{_brackets(noted.full_index(inner))}"
        return CellArithmetic(
            name=name,
            in_names=in_text(tree, self._leaf_name),
            in_numbers=numbers,
            exact=exact,
            decimal=decimal,
            latex=in_latex(tree, lambda leaf: number_latex(leaf.value, self.digits)),
            sources=tuple(dict.fromkeys((c.label, self._shown_index(c)) for c in cells(tree))),
        )

    def exact_text(self, value: Any) -> str:
        from headwork.numbers.exact import exact_text, tidy

        return with_infinity(exact_text(tidy(value)))

    def _shown_index(self, cell: Cell) -> tuple[int, ...]:
        noted = self.inputs.get(cell.label) or self.steps.get(cell.label)
        return noted.full_index(cell.index) if noted else cell.index

    def _leaf_number(self, leaf: Tree) -> str:
        value = leaf.value  # type: ignore[union-attr]
        return (
            self.exact_text(value)
            if self.exact and hasattr(value, "free_symbols")
            else number_text(value, self.digits)
        )

    def _leaf_name(self, leaf: Tree) -> str:
        if isinstance(leaf, Number):
            return self._leaf_number(leaf)
        assert isinstance(leaf, Cell)
        noted = self.inputs.get(leaf.label) or self.steps.get(leaf.label)
        symbol = plain_formula(noted.symbol) if noted else leaf.label
        return f"{symbol}{_brackets(self._shown_index(leaf))}"

    # --- other readings of the same problem -----------------------------------------------------

    def what_if(self, path: str, value: Any) -> Trace:
        """The same problem with one step replaced; the later steps follow from it."""
        assert self.again is not None
        if path not in self.steps:
            raise unknown(f"step of {self.mechanism.slug}", path, self.steps)
        return self.again(replacing={**self.replaced, path: value})

    def limit(self, symbol: str, to: Any) -> Trace:
        """Every step in the limit as one symbol goes to a number, ``oo`` or ``-oo``."""
        from headwork.numbers.exact import limit
        from headwork.numbers.typed import read_number

        name = read_number(symbol, exact=True)
        target = read_number(str(to), exact=True)
        trace = self
        if not any(
            name in x.free_symbols
            for noted in self.steps.values()
            for x in noted.raw.array.flat
            if self.exact
        ):
            if symbol not in self.options:
                raise InputError(
                    f"limit: no step holds the symbol '{symbol}'. Type it in place of a number first."
                )
            assert self.again is not None
            trace = self.again(exact=True, replacing=self.replaced, **{symbol: symbol})

        def at_limit(noted: TraceValue) -> TraceValue:
            return replace(
                noted, raw=HandTensor(map_cells(lambda x: limit(x, name, target), noted.raw.array))
            )

        steps = {path: at_limit(noted) for path, noted in trace.steps.items()}
        return replace(trace, steps=steps, title=with_infinity(f"limit as {symbol} -> {to}"))

    # --- renderers ------------------------------------------------------------------------------

    def to_text(self, style: Style = PLAIN) -> str:
        from headwork.readings.terminal import text

        return text(self, style)

    def to_markdown(self) -> str:
        from headwork.readings.markdown import markdown

        return markdown(self)

    def to_latex(self, fragment: bool = False) -> str:
        from headwork.readings.latex import latex

        return latex(self, fragment=fragment)

    def to_html(self) -> str:
        from headwork.readings.html import html

        return html([self])

    def to_json(self) -> str:
        from headwork.readings.json import json_text

        return json_text(self)

    def to_notebook(self) -> str:
        from headwork.readings.notebook import notebook

        return notebook(self)

    def _repr_html_(self) -> str:
        from headwork.readings.html import notebook_fragment

        return notebook_fragment(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Trace of {self.mechanism.slug}: {', '.join(self.steps)}>"

    def everything(self) -> Iterator[TraceValue]:
        """Inputs, then steps, in the order in which they came about."""
        yield from self.inputs.values()
        yield from self.steps.values()


def _brackets(index: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, index))}]" if index else ""
