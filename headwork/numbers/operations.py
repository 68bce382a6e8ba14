"""The one table of operations: how each is computed, and what one cell of its result reads.

A ``Node`` says how a ``HandTensor`` came about; nodes form the operation graph, which ``graph.py`` evaluates
again and changes. Operations are called as in torch or numpy, their options as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import NDArray

from headwork.errors import InputError
from headwork.numbers.arithmetic import Expression, Number, expression

if TYPE_CHECKING:
    from headwork.numbers.hand import HandTensor

Index = tuple[int, ...]
Axes = int | tuple[int, ...]
Compute = Callable[..., Any]
MATH_ERF = np.frompyfunc(math.erf, 1, 1)
ERF_LIMIT, ERF_STEPS = 4, 4096  # beyond 4 it is 1 in single precision; so many values between whole numbers
INDEX_OPERATIONS = ("masked_fill", "lookup", "gather")  # the second operand only says which cells


class Node(NamedTuple):
    """One operation with its operands and options. Numbers that were given have no operands.

    In an edit (``graph.py``) an operand may also be a number, a label or another node.
    """

    operation: str
    operands: tuple[Any, ...]
    options: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return self is other  # the same operation done twice is two nodes

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, slots=True)
class Rule:
    """How the array of a result comes from the arrays of its operands, and the arithmetic of one cell, from
    the result and the index of the cell. ``exact`` computes with SymPy numbers where that needs another way;
    ``rearranges`` marks operations that only move the cells of one operand.
    """

    numeric: Compute
    cell: Callable[[HandTensor, Index], Expression]
    exact: Compute | None = None
    rearranges: bool = False


def compute(name: str, arrays: Sequence[NDArray[Any]], options: Mapping[str, Any]) -> NDArray[Any]:
    """The array that the operation gives. What is undefined becomes nan, which is shown."""
    with np.errstate(all="ignore"):
        return compute_unguarded(name, arrays, options)


def compute_unguarded(name: str, arrays: Sequence[NDArray[Any]], options: Mapping[str, Any]) -> NDArray[Any]:
    """The same where numpy's warnings are off already: to switch them takes as long as a small operation."""
    rule, exact = OPERATIONS[name], arrays[0].dtype.kind == "O"
    if len(arrays) > 1 and name not in INDEX_OPERATIONS and (arrays[1].dtype.kind == "O") != exact:
        raise TypeError("exact and decimal numbers do not mix: make the constant from the input")
    if exact:
        # numpy takes a single exact cell out of its array: this puts it back.
        return np.asarray((rule.exact or rule.numeric)(*arrays, **options), object)
    return np.asarray(rule.numeric(*arrays, **options))


def erf(x: NDArray[Any]) -> NDArray[Any]:
    """The error function: Python's own, exact to the last bit; for float32 interpolated from a table.

    A model asks for millions of them. The table's values, 1/4096 apart, give it much faster and to 1e-8,
    about the resolution of float32.

    >>> erf(np.array([0.5, -9], np.float32)).tolist() == np.float32([math.erf(0.5), -1]).tolist()
    True
    """
    if x.dtype != np.float32:
        return np.asarray(MATH_ERF(x), x.dtype)
    values, slopes = _erf_table()
    at = np.fmin(np.abs(x, dtype=np.float64), ERF_LIMIT) * ERF_STEPS
    lower = at.astype(np.intp)
    interpolated = np.copysign(values[lower] + (at - lower) * slopes[lower], x)
    return np.where(np.isnan(x), x, interpolated).astype(np.float32)


@cache
def _erf_table() -> tuple[NDArray[Any], NDArray[Any]]:
    values = np.array([math.erf(i / ERF_STEPS) for i in range(ERF_LIMIT * ERF_STEPS + 2)])
    return values[:-1], np.diff(values)


def map_cells(function: Callable[[Any], Any], array: NDArray[Any]) -> NDArray[Any]:
    """A function applied to every cell, as an array of objects."""
    result = np.empty(array.size, object)
    result[:] = [function(x) for x in array.flat]
    return result.reshape(array.shape)


def as_numbers(values: Any, dtype: Any) -> NDArray[Any]:
    """The values as SymPy numbers (dtype object) or as decimals of that dtype."""
    if dtype.kind != "O":
        return np.array(values, dtype)
    import sympy

    array = np.asarray(values)
    return map_cells(lambda x: sympy.sympify(x.item() if isinstance(x, np.generic) else x), array)


def _exactly(name: str) -> Compute:
    """Our own exact function of that name or SymPy's, for every cell."""

    def function(array: NDArray[Any]) -> NDArray[Any]:
        from headwork.numbers import exact

        return map_cells(getattr(exact, name, None) or getattr(exact.sympy, name), array)

    return function


# --- cell by cell -------------------------------------------------------------------------------


def _broadcast_cell(operand: HandTensor, index: Index) -> Expression:
    """The cell of an operand, broadcast, that one cell of the result reads."""
    shape = operand.array.shape
    trailing = index[len(index) - len(shape) :]
    return operand.cell(tuple([0 if size == 1 else i for i, size in zip(trailing, shape, strict=True)]))


def _operand_cells(tensor: HandTensor, index: Index) -> list[Expression]:
    return [_broadcast_cell(operand, index) for operand in tensor.node.operands]


def _cellwise(kind: str, numeric: Compute, exact: str = "", *leading_operands: Expression) -> Rule:
    """An operation on each cell: ``kind`` is its name in the arithmetic, ``exact`` SymPy's name of it."""

    def cell(tensor: HandTensor, index: Index) -> Expression:
        return expression(kind, *leading_operands, *_operand_cells(tensor, index))

    return Rule(numeric, cell, _exactly(exact) if exact else None)


def _value_cell(tensor: HandTensor, index: Index) -> Expression:
    return Number(tensor.array[index])  # no arithmetic explains it


def _operand_cell(tensor: HandTensor, index: Index) -> Expression:
    return _operand_cells(tensor, index)[0]


def _comparison(numeric: Compute, test: Callable[[int], bool]) -> Rule:
    """1 where the comparison holds and 0 where not; ``test`` takes the sign of the difference."""

    def exact(a: Any, b: Any) -> Any:
        from headwork.numbers.exact import sign, sympy

        difference = 0 if a == b else a - b
        # As with decimals, no comparison with an undefined number (oo - oo) holds.
        holds = difference is not sympy.nan and test(sign(difference) if difference else 0)
        return sympy.Integer(int(holds))

    return Rule(
        lambda left, right: numeric(left, right).astype(left.dtype), _value_cell, np.frompyfunc(exact, 2, 1)
    )


def _sigmoid_cell(tensor: HandTensor, index: Index) -> Expression:
    one = Number(as_numbers(1, tensor.array.dtype)[()])
    power = expression("exp", expression("negative", *_operand_cells(tensor, index)))
    return expression("quotient", one, expression("sum", one, power))


def _masked_fill(array: NDArray[Any], mask: NDArray[Any], *, value: Any) -> NDArray[Any]:
    return np.where(mask.astype(bool), as_numbers(value, array.dtype), array)


def _masked_fill_cell(tensor: HandTensor, index: Index) -> Expression:
    hidden = np.broadcast_to(tensor.node.operands[1].array, tensor.shape)[index]
    return _value_cell(tensor, index) if hidden else _operand_cell(tensor, index)


def _tril(array: NDArray[Any], *, diagonal: int) -> NDArray[Any]:
    rows, columns = array.shape[-2:]
    return np.where(np.tri(rows, columns, diagonal, dtype=bool), array, as_numbers(0, array.dtype))


def _tril_cell(tensor: HandTensor, index: Index) -> Expression:
    above = index[-1] > index[-2] + tensor.node.options["diagonal"]
    return _value_cell(tensor, index) if above else _operand_cell(tensor, index)


# --- products and sums --------------------------------------------------------------------------


def _exact_sum(array: NDArray[Any], *, axis: Axes, keepdims: bool = False) -> Any:
    """All terms at once: SymPy would sort the sum anew with each of them."""
    import sympy

    axes = axes_of(axis, array.ndim)
    last = np.moveaxis(array, axes, range(-len(axes), 0)).reshape(*np.delete(array.shape, axes), -1)
    result = np.empty(last.shape[:-1], object)
    for index in np.ndindex(result.shape):
        result[index] = sympy.Add(*last[index])
    return np.expand_dims(result, tuple(axes)) if keepdims else result


def _exact_matmul(a: NDArray[Any], b: NDArray[Any]) -> Any:
    rows, columns = a if a.ndim > 1 else a[None, :], b if b.ndim > 1 else b[:, None]
    if rows.shape[-1] != columns.shape[-2]:
        (n, k), (m, p) = rows.shape[-2:], columns.shape[-2:]
        raise InputError(f"product of {n} x {k} and {m} x {p}: widths differ.")
    result = _exact_sum(rows[..., :, None, :] * np.swapaxes(columns, -1, -2)[..., None, :, :], axis=-1)
    return result[(..., slice(None) if a.ndim > 1 else 0, slice(None) if b.ndim > 1 else 0)]


def _matmul_cell(tensor: HandTensor, index: Index) -> Expression:
    left, right = tensor.node.operands
    column = index[-1:] if len(right.shape) > 1 else ()
    row = index[: len(index) - len(column)]
    batch = row[:-1] if len(left.shape) > 1 else row
    products = (
        expression("product", _broadcast_cell(left, (*row, k)), _broadcast_cell(right, (*batch, k, *column)))
        for k in range(left.shape[-1])
    )
    return expression("sum", *products)


def axes_of(axis: Axes, count: int) -> list[int]:
    """One axis or several, counted from the first, in order."""
    return sorted(normalize_axis_tuple(axis, count))


def _cells_along(tensor: HandTensor, index: Index) -> list[Expression]:
    """All cells of the operand that differ from a cell of the result only along the operation's axes."""
    (operand,), options = tensor.node.operands, tensor.node.options
    axes = axes_of(options["axis"], len(operand.shape))
    position = list(index)
    for axis in () if options.get("keepdims", True) else axes:
        position.insert(axis, 0)
    ranges = (range(n) if axis in axes else (position[axis],) for axis, n in enumerate(operand.shape))
    return [operand.cell(source) for source in product(*ranges)]


def _reduction_cell(kind: str) -> Callable[[HandTensor, Index], Expression]:
    return lambda tensor, index: expression(kind, *_cells_along(tensor, index))


def _exact_max(a: Any, b: Any) -> Any:
    from headwork.numbers.exact import sign

    # Equal ones first: minus infinity less itself is undefined.
    return b if b != a and sign(b - a) > 0 else a


def _cumsum_cell(tensor: HandTensor, index: Index) -> Expression:
    return expression("sum", *_cells_along(tensor, index)[: index[tensor.node.options["axis"]] + 1])


def array_softmax(array: NDArray[Any], *, axis: int = -1) -> Any:
    """The softmax of decimals, shifted by the largest so that no exponential overflows."""
    powers = np.exp(array - np.max(array, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _exact_softmax(array: NDArray[Any], *, axis: int) -> Any:
    powers = _exactly("exponential")(array)
    return powers / _exact_sum(powers, axis=axis, keepdims=True)


def _softmax_cell(tensor: HandTensor, index: Index) -> Expression:
    powers = [expression("exp", part) for part in _cells_along(tensor, index)]
    return expression("quotient", powers[index[tensor.node.options["axis"]]], expression("sum", *powers))


# --- rearranging cells --------------------------------------------------------------------------


def _rearranging(rearrange: Compute) -> Rule:
    """Cells of the first operand in other places; the other operands and the options say where."""

    def cell(tensor: HandTensor, index: Index) -> Expression:
        operand, *others = tensor.node.operands
        source = []
        for axis, size in enumerate(operand.shape):
            # The places along one axis, as an array of the operand's shape that takes no memory.
            indices = np.arange(size).reshape(-1, *[1] * (len(operand.shape) - axis - 1))
            arrays = (np.broadcast_to(indices, operand.shape), *(other.array for other in others))
            source.append(int(np.asarray(rearrange(*arrays, **tensor.node.options))[index]))
        return _broadcast_cell(operand, tuple(source))

    return Rule(rearrange, cell, rearranges=True)


def _transposed_cell(tensor: HandTensor, index: Index) -> Expression:
    options, source = tensor.node.options, list(index)
    first, second = options["axis1"], options["axis2"]
    source[first], source[second] = source[second], source[first]
    return _broadcast_cell(tensor.node.operands[0], tuple(source))


def _reshaped_cell(tensor: HandTensor, index: Index) -> Expression:
    (operand,) = tensor.node.operands
    number, source = 0, []
    for position, size in zip(index, tensor.shape, strict=True):
        number = number * size + position
    for size in reversed(operand.shape):
        number, position = divmod(number, size)
        source.append(position)
    return _broadcast_cell(operand, tuple(reversed(source)))


def _unfold(array: NDArray[Any], *, axis: int, size: int, step: int) -> NDArray[Any]:
    windows = np.lib.stride_tricks.sliding_window_view(array, size, axis=axis)
    keep = [slice(None)] * windows.ndim
    keep[axis % array.ndim] = slice(None, None, step)
    return windows[tuple(keep)]


def _expand(array: NDArray[Any], *, shape: tuple[int, ...]) -> NDArray[Any]:
    """Repeated without a copy; -1 keeps the size of an axis."""
    padded = (1,) * (len(shape) - array.ndim) + array.shape
    return np.broadcast_to(array, tuple(k if n == -1 else n for n, k in zip(shape, padded, strict=True)))


def _row_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers, which may have been typed, and read as decimals or exactly."""
    numbers = array if array.dtype.kind in "iu" else array.astype(float)
    if not np.array_equal(numbers, np.floor(numbers)):
        raise InputError("an index is not a whole number. Give the numbers of the rows, counted from 0.")
    return numbers.astype(int, copy=False)


def _cat_cell(tensor: HandTensor, index: Index) -> Expression:
    axis = tensor.node.options["axis"] % len(index)
    position = index[axis]
    for operand in tensor.node.operands:
        if position < operand.shape[axis]:
            break
        position -= operand.shape[axis]
    return _broadcast_cell(operand, (*index[:axis], position, *index[axis + 1 :]))


OPERATIONS: dict[str, Rule] = {
    "add": _cellwise("sum", np.add),
    "subtract": _cellwise("difference", np.subtract),
    "multiply": _cellwise("product", np.multiply),
    "divide": _cellwise("quotient", np.divide),
    "power": _cellwise("power", np.power),
    "negative": _cellwise("negative", np.negative),
    "exp": _cellwise("exp", np.exp, "exponential"),
    "log": _cellwise("ln", np.log, "log"),
    "sqrt": _cellwise("sqrt", np.sqrt, "sqrt"),
    "tanh": _cellwise("tanh", np.tanh, "tanh"),
    "sin": _cellwise("sin", np.sin, "sin"),
    "cos": _cellwise("cos", np.cos, "cos"),
    "erf": _cellwise("erf", erf, "erf"),
    "abs": _cellwise("abs", np.abs, "Abs"),
    "floor": _cellwise("floor", np.floor, "floor"),
    "sigmoid": Rule(lambda x: 1 / (1 + np.exp(-x)), _sigmoid_cell, _exactly("sigmoid")),
    "relu": _cellwise("max", lambda x: np.maximum(x, 0), "positive_part", Number(0)),
    "equal": _comparison(np.equal, lambda sign: sign == 0),
    "not_equal": _comparison(np.not_equal, lambda sign: sign != 0),
    "greater": _comparison(np.greater, lambda sign: sign > 0),
    "greater_equal": _comparison(np.greater_equal, lambda sign: sign >= 0),
    "masked_fill": Rule(_masked_fill, _masked_fill_cell),
    "tril": Rule(_tril, _tril_cell),
    "matmul": Rule(np.matmul, _matmul_cell, _exact_matmul),
    "sum": Rule(np.sum, _reduction_cell("sum"), _exact_sum),
    "amax": Rule(np.max, _reduction_cell("max"), np.frompyfunc(_exact_max, 2, 1).reduce),
    "cumsum": Rule(np.cumsum, _cumsum_cell),
    "softmax": Rule(array_softmax, _softmax_cell, _exact_softmax),
    "transpose": Rule(np.swapaxes, _transposed_cell, rearranges=True),
    "reshape": Rule(lambda x, *, shape: x.reshape(shape), _reshaped_cell, rearranges=True),
    "unsqueeze": _rearranging(np.expand_dims),
    "squeeze": _rearranging(np.squeeze),
    "flip": _rearranging(np.flip),
    "getitem": _rearranging(lambda x, *, key: x[key]),
    "unfold": _rearranging(_unfold),
    "expand": _rearranging(_expand),
    "lookup": _rearranging(lambda table, rows: table[_row_numbers(rows)]),
    "gather": _rearranging(lambda x, rows, *, axis: np.take_along_axis(x, _row_numbers(rows), axis)),
    "cat": Rule(lambda *parts, axis: np.concatenate(parts, axis), _cat_cell),
    "constant": Rule(lambda like, *, value: as_numbers(value, like.dtype), _value_cell),
    "to": Rule(lambda x, *, dtype: as_numbers(x, dtype), _operand_cell),
}
