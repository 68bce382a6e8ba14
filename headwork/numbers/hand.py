"""HandTensor: an array of exact (SymPy) or decimal (float64) numbers with the tensor methods that the
mechanisms use, so that one body runs here and on ``torch.Tensor``.

Each result knows the arithmetic of each of its cells, back to labelled tensors (inputs and noted steps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import InputError
from headwork.numbers.arithmetic import Cell, Number, Tree, operation

if TYPE_CHECKING:
    from numpy.typing import NDArray

Index = tuple[int, ...]
Expand = Callable[[Index], Tree]
Method = Callable[["HandTensor", Any], "HandTensor"]


def _both_orders(kind: str, compute: Callable[[Any, Any], Any]) -> tuple[Method, Method]:
    """The operator with the tensor on its left, and with the tensor on its right."""

    def method(self: HandTensor, other: Any) -> HandTensor:
        return self._combine(other, kind, compute, swap=False)

    def swapped(self: HandTensor, other: Any) -> HandTensor:
        return self._combine(other, kind, compute, swap=True)

    return method, swapped


def _function(
    kind: str, decimal: Callable[[Any], Any], exact: str = ""
) -> Callable[[HandTensor], HandTensor]:
    """A function of each cell; ``exact`` is SymPy's name of it where that differs."""

    def method(self: HandTensor) -> HandTensor:
        if self.exact:
            import sympy

            array = map_cells(getattr(sympy, exact or kind), self.array)
        else:
            with np.errstate(all="ignore"):
                array = np.asarray(decimal(self.array))
        return HandTensor(array, lambda index: operation(kind, self.cell(index)))

    return method


class HandTensor:
    """Numbers worked by hand: ``array`` holds SymPy objects (exact) or float64 (decimal).

    >>> x = HandTensor(np.array([[1.0, 2.0]]))
    >>> (x @ x.mT).array.tolist()
    [[5.0]]
    """

    __hash__ = None  # type: ignore[assignment]  # == compares cell by cell, as in torch

    def __init__(self, array: NDArray[Any], expand: Expand | None = None, label: str = "") -> None:
        self.array = array
        self.expand = expand
        self.label = label

    # --- what it is ---------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        return self.array.dtype == object

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"HandTensor({'exact' if self.exact else 'decimal'}, {self.array.tolist()})"

    def labelled(self, label: str) -> HandTensor:
        """The same numbers under a label, at which the arithmetic of a later cell stops."""
        return HandTensor(self.array, self.expand, label)

    def cell(self, index: Index) -> Tree:
        """One cell in the arithmetic of others: by its label, by its own arithmetic, or as a number."""
        if self.label:
            return Cell(self.label, index, self.array[index])
        return self.derivation(index)

    def derivation(self, index: Index) -> Tree:
        """The arithmetic of one cell."""
        return self.expand(index) if self.expand else Number(self.array[index])

    # --- constants made from this tensor, so that they are of its kind ------------------------

    def new_tensor(self, values: Any) -> HandTensor:
        return HandTensor(_numbers(np.asarray(values), self.exact))

    def new_zeros(self, *shape: int) -> HandTensor:
        return self.new_tensor(np.zeros(shape, int))

    def new_ones(self, *shape: int) -> HandTensor:
        return self.new_tensor(np.ones(shape, int))

    def to(self, other: HandTensor) -> HandTensor:
        same = self.exact == other.exact
        return self if same else HandTensor(_numbers(self.array, other.exact), self.expand)

    # --- arithmetic, cell by cell -------------------------------------------------------------

    def _combine(self, other: Any, kind: str, compute: Callable[[Any, Any], Any], swap: bool) -> HandTensor:
        left, right = self, other if isinstance(other, HandTensor) else self.new_tensor(other)
        if left.exact != right.exact:
            raise TypeError("exact and decimal numbers do not mix: make the constant from the input")
        if swap:
            left, right = right, left
        with np.errstate(all="ignore"):
            array = np.asarray(compute(left.array, right.array))

        def expand(index: Index) -> Tree:
            parts = (tensor.cell(_broadcast_index(index, tensor.shape)) for tensor in (left, right))
            return operation(kind, *parts)

        return HandTensor(_as_objects(array, left.exact), expand)

    __add__, __radd__ = _both_orders("sum", np.add)
    __sub__, __rsub__ = _both_orders("difference", np.subtract)
    __mul__, __rmul__ = _both_orders("product", np.multiply)
    __truediv__, __rtruediv__ = _both_orders("quotient", np.divide)
    __pow__, __rpow__ = _both_orders("power", np.power)

    def __neg__(self) -> HandTensor:
        return HandTensor(-self.array, lambda index: operation("negative", self.cell(index)))

    def __eq__(self, other: object) -> HandTensor:  # type: ignore[override]
        return self._compare(other, lambda sign: sign == 0)

    def __gt__(self, other: Any) -> HandTensor:
        return self._compare(other, lambda sign: sign > 0)

    def __ge__(self, other: Any) -> HandTensor:
        return self._compare(other, lambda sign: sign >= 0)

    def _compare(self, other: Any, test: Callable[[Any], Any]) -> HandTensor:
        """1 where the comparison holds and 0 where not."""
        right = other if isinstance(other, HandTensor) else self.new_tensor(other)
        left, right_array = np.broadcast_arrays(self.array, right.array)
        if self.exact:
            import sympy

            from headwork.numbers.exact import sign

            def holds(a: Any, b: Any) -> bool:
                difference = 0 if a == b else a - b
                # As with decimals, no comparison with an undefined number (oo - oo) holds.
                return difference is not sympy.nan and bool(test(difference and sign(difference)))

            cells = zip(left.flat, right_array.flat, strict=True)
            held = np.array([int(holds(a, b)) for a, b in cells]).reshape(left.shape)
        else:
            with np.errstate(all="ignore"):
                held = test(np.where(left == right_array, 0, left - right_array)).astype(int)
        return self.new_tensor(held)

    exp = _function("exp", np.exp)
    sqrt = _function("sqrt", np.sqrt)
    tanh = _function("tanh", np.tanh)
    sin = _function("sin", np.sin)
    cos = _function("cos", np.cos)
    erf = _function("erf", np.vectorize(math.erf, otypes=[float]))
    abs = _function("abs", np.abs, "Abs")

    def sigmoid(self) -> HandTensor:
        return 1 / (1 + (-self).exp())

    def relu(self) -> HandTensor:
        if self.exact:
            from headwork.numbers.exact import positive_part

            array = map_cells(positive_part, self.array)
        else:
            array = np.maximum(self.array, 0)
        return HandTensor(array, lambda index: operation("max", Number(0), self.cell(index)))

    # --- products and sums --------------------------------------------------------------------

    def __matmul__(self, other: HandTensor) -> HandTensor:
        with np.errstate(all="ignore"):  # an undefined weight gives an undefined output, which is shown
            array = _exact_matmul(self.array, other.array) if self.exact else self.array @ other.array

        def expand(index: Index) -> Tree:
            if len(other.shape) == 1:
                *batch, row = index
                pairs: list[tuple[Index, Index]] = [((*batch, row, k), (k,)) for k in range(other.shape[0])]
            else:
                *batch, row, column = index
                pairs = [((*batch, row, k), (*batch, k, column)) for k in range(other.shape[-2])]
            products = [
                operation(
                    "product",
                    self.cell(_broadcast_index(i, self.shape)),
                    other.cell(_broadcast_index(j, other.shape)),
                )
                for i, j in pairs
            ]
            return operation("sum", *products)

        return HandTensor(np.asarray(array), expand)

    def _reduce(self, kind: str, dim: int, keepdim: bool, compute: Callable[..., Any]) -> HandTensor:
        dim %= len(self.shape)

        def expand(index: Index) -> Tree:
            rest = index[:dim] + (index[dim + 1 :] if keepdim else index[dim:])
            return operation(
                kind, *(self.cell((*rest[:dim], k, *rest[dim:])) for k in range(self.shape[dim]))
            )

        with np.errstate(all="ignore"):
            array = np.asarray(compute(self.array, axis=dim, keepdims=keepdim))
        return HandTensor(_as_objects(array, self.exact), expand)

    def sum(self, dim: int, keepdim: bool = False) -> HandTensor:
        return self._reduce("sum", dim, keepdim, np.sum)

    def mean(self, dim: int, keepdim: bool = False) -> HandTensor:
        return self.sum(dim, keepdim) / self.shape[dim]

    def amax(self, dim: int, keepdim: bool = False) -> HandTensor:
        return self._reduce("max", dim, keepdim, _exact_max if self.exact else np.max)

    def cumsum(self, dim: int) -> HandTensor:
        dim %= len(self.shape)

        def expand(index: Index) -> Tree:
            before = range(index[dim] + 1)
            return operation("sum", *(self.cell((*index[:dim], k, *index[dim + 1 :])) for k in before))

        with np.errstate(all="ignore"):
            array = np.cumsum(self.array, axis=dim)
        return HandTensor(array, expand)

    def softmax(self, dim: int) -> HandTensor:
        """Stable in decimals, by definition when exact. A row of minus infinities is undefined (nan)."""
        dim %= len(self.shape)
        if self.exact:
            import sympy

            powers = map_cells(sympy.exp, self.array)
            array = powers / np.sum(powers, axis=dim, keepdims=True)
        else:
            with np.errstate(all="ignore"):
                powers = np.exp(self.array - np.max(self.array, axis=dim, keepdims=True))
                array = powers / np.sum(powers, axis=dim, keepdims=True)

        def expand(index: Index) -> Tree:
            row = [self.cell((*index[:dim], k, *index[dim + 1 :])) for k in range(self.shape[dim])]
            powers = [operation("exp", part) for part in row]
            return operation("quotient", powers[index[dim]], operation("sum", *powers))

        return HandTensor(array, expand)

    def masked_fill(self, mask: HandTensor, value: float) -> HandTensor:
        hidden = np.broadcast_to(mask.array.astype(bool), self.shape)
        filling = _numbers(np.asarray(value), self.exact)[()]
        array = np.where(hidden, filling, self.array)
        return HandTensor(array, lambda index: Number(filling) if hidden[index] else self.cell(index))

    # --- rearranging cells --------------------------------------------------------------------

    def _rearrange(self, move: Callable[[Any], Any]) -> HandTensor:
        def expand(index: Index) -> Tree:
            sources = move(np.arange(self.array.size).reshape(self.shape))
            return self.cell(tuple(int(i) for i in np.unravel_index(sources[index], self.shape)))

        return HandTensor(np.asarray(move(self.array)), expand)

    @property
    def mT(self) -> HandTensor:
        return self._rearrange(lambda a: np.swapaxes(a, -1, -2))

    def transpose(self, first: int, second: int) -> HandTensor:
        return self._rearrange(lambda a: np.swapaxes(a, first, second))

    def reshape(self, *shape: int) -> HandTensor:
        return self._rearrange(lambda a: a.reshape(shape))

    def unsqueeze(self, dim: int) -> HandTensor:
        return self._rearrange(lambda a: np.expand_dims(a, dim))

    def squeeze(self, dim: int) -> HandTensor:
        return self._rearrange(lambda a: np.squeeze(a, dim))

    def flip(self, dim: int) -> HandTensor:
        return self._rearrange(lambda a: np.flip(a, dim))

    def tril(self, diagonal: int = 0) -> HandTensor:
        rows, columns = self.shape[-2:]
        return self.masked_fill(self.new_tensor(~np.tri(rows, columns, diagonal, dtype=bool)), 0)

    def unfold(self, dim: int, size: int, step: int) -> HandTensor:
        """Windows of ``size`` along one axis, every ``step``; the window becomes the last axis."""

        def move(a: Any) -> Any:
            windows = np.lib.stride_tricks.sliding_window_view(a, size, axis=dim)
            keep = [slice(None)] * windows.ndim
            keep[dim % a.ndim] = slice(None, None, step)
            return windows[tuple(keep)]

        return self._rearrange(move)

    def __getitem__(self, key: Any) -> HandTensor:
        # A list wrapped round a single cell keeps it an array, exact or not.
        return self._rearrange(lambda a: np.array(a[key], dtype=a.dtype) if np.ndim(a[key]) == 0 else a[key])


def join_tensors(tensors: Sequence[HandTensor], dim: int, join: Callable[..., Any]) -> HandTensor:
    """Cells of several tensors in one (``np.concatenate`` or ``np.stack``)."""
    starts = np.cumsum([0] + [t.array.size for t in tensors])

    def expand(index: Index) -> Tree:
        numbered = [np.arange(t.array.size).reshape(t.shape) + starts[i] for i, t in enumerate(tensors)]
        number = join(numbered, axis=dim)[index]
        source = int(np.searchsorted(starts, number, side="right")) - 1
        inner = np.unravel_index(number - starts[source], tensors[source].shape)
        return tensors[source].cell(tuple(int(i) for i in inner))

    return HandTensor(join([t.array for t in tensors], axis=dim), expand)


def _numbers(array: NDArray[Any], exact: bool) -> NDArray[Any]:
    """The array as SymPy numbers or as float64."""
    if not exact:
        return array.astype(float)
    import sympy

    return map_cells(lambda x: sympy.sympify(x.item() if isinstance(x, np.generic) else x), array)


def map_cells(function: Callable[[Any], Any], array: NDArray[Any]) -> NDArray[Any]:
    """A function applied to every cell, as an array of objects."""
    result = np.empty(array.size, object)
    result[:] = [function(x) for x in array.flat]
    return result.reshape(array.shape)


def _as_objects(array: NDArray[Any], exact: bool) -> NDArray[Any]:
    """numpy turns a single exact cell into a bare object: this is an array again."""
    return array if not exact or array.dtype == object else array.astype(object)


def _broadcast_index(index: Index, shape: tuple[int, ...]) -> Index:
    """The index into an operand that was broadcast."""
    trailing = index[len(index) - len(shape) :] if shape else ()
    return tuple(0 if size == 1 else i for i, size in zip(trailing, shape, strict=True))


def _exact_matmul(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    import sympy

    vector = b.ndim == 1
    if vector:
        b = b[:, None]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    if a.shape[-1] != b.shape[-2]:
        raise InputError(
            f"product of {a.shape[-2]} x {a.shape[-1]} and {b.shape[-2]} x {b.shape[-1]}: widths differ."
        )
    result = np.empty((*batch, a.shape[-2], b.shape[-1]), object)
    for index in np.ndindex(result.shape):
        *lead, row, column = index
        left, right = a[(*lead, row)], b[(*lead, slice(None), column)]
        result[index] = sympy.Add(*(x * y for x, y in zip(left, right, strict=True)))
    return result[..., 0] if vector else result


def _exact_max(array: NDArray[Any], axis: int, keepdims: bool) -> NDArray[Any]:
    from headwork.numbers.exact import sign

    lines = np.moveaxis(array, axis, -1)
    result = np.empty(lines.shape[:-1], object)
    for index in np.ndindex(result.shape):
        best, *others = lines[index]
        for x in others:
            # Equal ones first: minus infinity less itself is undefined.
            best = x if x != best and sign(x - best) > 0 else best
        result[index] = best
    return np.expand_dims(result, axis) if keepdims else result
