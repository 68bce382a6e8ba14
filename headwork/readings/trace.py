"""Trace: every step of one problem, by its path, with its card; what is shown of it is a document."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.documents import Document, Renderable
from headwork.documents.formulas import plain_formula
from headwork.documents.number_format import number_latex, number_text, with_infinity
from headwork.errors import InputError, check_known, format_shape, unknown_name
from headwork.note import Input, Mechanism, Step
from headwork.numbers import HandTensor
from headwork.numbers.arithmetic import Cell, Expression, Number, leaf_cells, to_latex, to_text
from headwork.numbers.operations import map_cells
from headwork.readings.trace_document import trace_document


@dataclass(frozen=True)
class TraceValue:
    """One input or step as it is shown.

    ``order`` lists the axes of ``raw`` in the order in which they are shown; ``fixed`` holds an index along
    some of them.
    """

    path: str
    card: Input | Step
    raw: HandTensor
    order: tuple[int, ...]
    symbol: str
    formula: str = ""
    fixed: tuple[tuple[int, int], ...] = ()
    abbreviations: tuple[Any, ...] = ()  # that it brings, of exact numbers too long for a cell
    simplified: bool = True  # exact numbers are simplified where they are shown

    @property
    def _free_axes(self) -> list[int]:
        """The axes of ``raw`` that are not fixed, in the order in which they are shown."""
        return [axis for axis in self.order if axis not in dict(self.fixed)]

    @property
    def tensor(self) -> HandTensor:
        fixed = dict(self.fixed)
        index = (fixed.get(axis, slice(None)) for axis in self.order)
        return HandTensor(np.transpose(self.raw.array, self.order)[(*index, ...)])

    @property
    def axes(self) -> tuple[str, ...]:
        words = _axis_words(self.card.axes, len(self.order))
        return tuple(words[axis] for axis in self._free_axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape[axis] for axis in self._free_axes)

    @property
    def values(self) -> NDArray[Any]:
        """Decimals; an entry with free symbols is None."""
        if not self.raw.exact:
            return self.tensor.array
        from headwork.numbers.exact import to_float

        numbers = [to_float(x) for x in self.tensor.array.flat]
        kind = object if None in numbers else float
        return np.array(numbers, dtype=kind).reshape(self.shape)

    @property
    def exact_values(self) -> Any:
        """Exact numbers as an array, or None where the problem was worked in decimals."""
        if not self.raw.exact:
            return None
        return map_cells(self.simplify, self.tensor.array)

    exact = exact_values  # the former name

    def simplify(self, number: Any) -> Any:
        """A number as it is shown in this trace."""
        if not (self.simplified and hasattr(number, "free_symbols")):  # SymPy takes a second to import
            return number
        from headwork.numbers.exact import as_single_fraction

        return as_single_fraction(number)

    def select(self, axis: str, index: int) -> "TraceValue":
        """One index along a named axis: ``head 2``."""
        position = self.axes.index(axis)
        if index >= self.shape[position]:
            raise InputError(
                f"{self.path}: there is no {axis} {index}; there are {self.shape[position]}, counted from 0."
            )
        fixed = (*self.fixed, (self._free_axes[position], index))
        return replace(self, path=f"{axis} {index}/{self.path}", fixed=fixed)

    def raw_index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The index into ``raw`` of a cell shown here."""
        by_axis = {**dict(self.fixed), **dict(zip(self._free_axes, index, strict=True))}
        return tuple(by_axis[axis] for axis in range(len(self.order)))

    def shown_index(self, raw_index: tuple[int, ...]) -> tuple[int, ...]:
        """The index, in the whole value as shown, of a cell of ``raw``."""
        return tuple(raw_index[axis] for axis in self.order)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return np.asarray(self.values, dtype)


def _axis_words(axes: str, count: int) -> list[str]:
    """The card's axis words for a value of so many axes; leading ones may be missing on either side."""
    words = axes.split()
    return ["batch"] * (count - len(words)) + words[max(0, len(words) - count) :]


@dataclass(frozen=True)
class CellArithmetic:
    """The arithmetic of one cell: in names, in numbers, its exact value and its decimal."""

    name: str
    in_names: str
    in_numbers: str
    exact: str
    decimal: str
    latex: str
    sources: tuple[tuple[str, tuple[int, ...]], ...]

    def __str__(self) -> str:
        parts = [self.name, self.in_numbers, self.exact, self.decimal]
        return " = ".join(part for i, part in enumerate(parts) if part and part not in parts[:i])


@dataclass(frozen=True, repr=False)
class Trace(Renderable):
    """Every step of one problem, as ``headwork.explain`` returns it."""

    mechanism: Mechanism
    inputs: dict[str, TraceValue]
    options: dict[str, Any]
    steps: dict[str, TraceValue]
    warnings: list[str]
    exact: bool
    digits: int = 4
    title: str = ""
    limited: tuple[str, str] | None = None  # the symbol of a limit, and what it tends to
    replaced: Mapping[str, Any] = field(default_factory=dict)
    rerun: "Callable[..., Trace] | None" = field(default=None, repr=False, compare=False)

    # --- looking things up --------------------------------------------------------------------

    def __getitem__(self, path: str) -> TraceValue:
        """A step or input by its path; ``head 2/weights`` takes one index along that axis."""
        everything = {**self.inputs, **self.steps}
        if path in everything:
            return everything[path]
        scope, _, rest = path.rpartition("/")
        outer, _, last = scope.rpartition("/")
        match = re.fullmatch(r"(\w+) (\d+)", last)
        inner_path = f"{outer}/{rest}" if outer else rest
        if match and inner_path in everything and match[1] in everything[inner_path].axes:
            return everything[inner_path].select(match[1], int(match[2]))
        raise unknown_name(f"step of {self.mechanism.slug}", path, everything)

    @property
    def output(self) -> TraceValue:
        return list(self.steps.values())[-1]

    # --- one cell -----------------------------------------------------------------------------

    def cell(self, path: str, *index: int) -> CellArithmetic:
        """The arithmetic of one cell, from the steps noted before it or the inputs."""
        value = self[path]
        inside = all(0 <= i < n for i, n in zip(index, value.shape, strict=False))
        if len(index) != len(value.shape) or not inside:
            raise InputError(
                f"{path}: there is no cell {list(index)}. It is "
                f"{format_shape(value.shape, ' '.join(value.axes))}, counted from 0."
            )
        raw_index = value.raw_index(tuple(index))
        tree = value.raw.derivation(raw_index)
        number = value.raw.array[raw_index]
        decimal = number_text(number, self.digits)
        return CellArithmetic(
            name=f"{plain_formula(value.symbol)}{_index_text(value.shown_index(raw_index))}",
            in_names=to_text(tree, self._leaf_name),
            in_numbers=to_text(tree, lambda leaf: self.number_text(leaf.value)),
            exact=self.exact_text(number) if self.exact and decimal != "undefined" else "",
            decimal=decimal,
            latex=to_latex(tree, lambda leaf: number_latex(value.simplify(leaf.value), self.digits)),
            sources=tuple(dict.fromkeys(self._sources(value, raw_index, tree))),
        )

    def _sources(self, value: TraceValue, index: tuple[int, ...], tree: Expression) -> Iterator[Any]:
        """The cells in the arithmetic of one, and of a mask that was typed the one that lets it through."""
        yield from ((cell.label, self._shown_index(cell)) for cell in leaf_cells(tree))
        if value.raw.node.operation == "masked_fill":
            for mask in (m for m in value.raw.node.operands[1].node.operands if m.label in self.inputs):
                cell = tuple(
                    min(i, n - 1) for i, n in zip(index[-len(mask.shape) :], mask.shape, strict=True)
                )
                yield mask.label, self.inputs[mask.label].shown_index(cell)

    def exact_text(self, value: Any) -> str:
        from headwork.numbers.exact import exact_text

        return with_infinity(exact_text(self.output.simplify(value)))

    def _shown_index(self, cell: Cell) -> tuple[int, ...]:
        value = self.inputs.get(cell.label) or self.steps.get(cell.label)
        return value.shown_index(cell.index) if value else cell.index

    def number_text(self, value: Any) -> str:
        """A number in the form of this trace: exact, or to so many digits."""
        exact = self.exact and hasattr(value, "free_symbols")
        return self.exact_text(value) if exact else number_text(value, self.digits)

    def _leaf_name(self, leaf: Expression) -> str:
        if isinstance(leaf, Number):
            return self.number_text(leaf.value)
        assert isinstance(leaf, Cell)
        value = self.inputs.get(leaf.label) or self.steps.get(leaf.label)
        symbol = plain_formula(value.symbol) if value else leaf.label.rpartition("/")[2]
        return f"{symbol}{_index_text(self._shown_index(leaf))}"

    # --- other readings of the same problem -----------------------------------------------------

    def what_if(self, path: str, value: Any) -> "Trace":
        """The same problem with one step replaced; the later steps follow from it."""
        assert self.rerun is not None
        check_known(f"step of {self.mechanism.slug}", path, self.steps)
        return self.rerun(replacing={**self.replaced, path: value})

    def limit(self, name: str, to: Any) -> "Trace":
        """Every step in the limit as one symbol goes to a number, ``oo`` or ``-oo``."""
        from headwork.numbers.limits import limit
        from headwork.numbers.naming import expand_names
        from headwork.numbers.parsing import read_number

        symbol = read_number(name, exact=True)
        target = read_number(str(to), exact=True)
        trace = self
        cells_of_steps = (x for value in self.steps.values() for x in value.raw.array.flat)
        if not (self.exact and any(symbol in x.free_symbols for x in cells_of_steps)):
            if name not in self.options:
                raise InputError(
                    f"limit: no step holds the symbol '{name}'. Type it instead of a number first."
                )
            assert self.rerun is not None
            trace = self.rerun(exact=True, replacing=self.replaced, **{name: name})

        def at_limit(value: TraceValue) -> TraceValue:
            limits = map_cells(lambda x: limit(expand_names(x), symbol, target), value.raw.array)
            return replace(value, raw=HandTensor(limits), abbreviations=())

        steps = dict(trace.steps)
        if name == "beta" == str(trace.options.get("beta")) and str(target) == "oo" and not trace.replaced:
            # beta S grows without bound: the scores are shown as where beta = oo is typed, without beta.
            assert trace.rerun is not None
            hard = trace.rerun(exact=True, beta="oo").steps
            steps = {
                path: hard[path]
                if path.endswith(("scores", "masked"))
                else replace(step, formula=hard[path].formula)
                for path, step in steps.items()
            }
        steps = {path: at_limit(value) for path, value in steps.items()}
        title = with_infinity(f"limit as {name} -> {to}")
        return replace(trace, steps=steps, title=title, limited=(name, str(to)))

    # --- showing it -----------------------------------------------------------------------------

    def document(self) -> Document:
        return trace_document(self)

    def option_texts(self) -> dict[str, str]:
        """Options in words; the default beta by what it means."""
        texts = {}
        for name, value in self.options.items():
            if value is None:
                if name == "beta":
                    texts[name] = "1/sqrt(d_k)"
            elif hasattr(value, "array"):
                texts[name] = "given"
            elif isinstance(value, str):
                texts[name] = value
            else:
                texts[name] = self.number_text(value)
        return texts

    def __repr__(self) -> str:
        return f"<Trace of {self.mechanism.slug}: {', '.join(self.steps)}>"

    def all_values(self) -> Iterator[TraceValue]:
        """Inputs, then steps, in order."""
        yield from self.inputs.values()
        yield from self.steps.values()


def _index_text(index: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, index))}]" if index else ""
