"""HandTensor: an array of exact (SymPy) or decimal numbers with the tensor methods that the mechanisms use,
spelled as in torch, so that one body runs here and on ``torch.Tensor``. Each method is one operation.

Each result remembers its operation, operands and options: a node of the operation graph. From it comes the
arithmetic of each cell, back to labelled tensors (inputs and noted steps).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headwork.numbers.arithmetic import Cell, Expression, Number
from headwork.numbers.operations import OPERATIONS, Axes, Index, Node, as_numbers, axes_of, compute


def _with_options(name: str, *options: str) -> Callable[..., Any]:
    def method(self: Any, *values: Any) -> Any:
        return self._apply(name, (self,), dict(zip(options, values, strict=True)))

    return method


def _with_other(name: str, swap: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        operand = other if isinstance(other, TensorMethods) else self.new_tensor(other)
        return self._apply(name, (operand, self) if swap else (self, operand), {})

    return method


class TensorMethods:
    """What ``HandTensor`` and ``ShapeTensor`` share; each says in ``_apply`` what becomes of an operation."""

    __slots__ = ()

    shape: tuple[int, ...]
    _apply: Callable[[str, tuple[Any, ...], dict[str, Any]], Self]
    new_tensor: Callable[[Any], Self]  # a constant of the same kind

    def new_zeros(self, *shape: int) -> Self:
        return self.new_tensor(np.broadcast_to(0, shape))

    def new_ones(self, *shape: int) -> Self:
        return self.new_tensor(np.broadcast_to(1, shape))

    def __len__(self) -> int:
        return self.shape[0]

    # As in torch, == compares cell by cell, and a tensor is hashed by what it is, not by its numbers.
    __hash__ = object.__hash__
    __eq__ = _with_other("equal")
    __ne__ = _with_other("not_equal")
    __gt__, __ge__ = _with_other("greater"), _with_other("greater_equal")
    __add__, __radd__ = _with_other("add"), _with_other("add", swap=True)
    __sub__, __rsub__ = _with_other("subtract"), _with_other("subtract", swap=True)
    __mul__, __rmul__ = _with_other("multiply"), _with_other("multiply", swap=True)
    __truediv__, __rtruediv__ = _with_other("divide"), _with_other("divide", swap=True)
    __pow__, __rpow__ = _with_other("power"), _with_other("power", swap=True)
    __matmul__ = _with_other("matmul")
    __neg__ = _with_options("negative")
    exp, log, sqrt, erf = (_with_options(name) for name in ("exp", "log", "sqrt", "erf"))
    tanh, sigmoid, relu = (_with_options(name) for name in ("tanh", "sigmoid", "relu"))
    sin, cos, abs, __floor__ = (_with_options(name) for name in ("sin", "cos", "abs", "floor"))

    # --- along an axis ------------------------------------------------------------------------

    def sum(self, dim: Axes, keepdim: bool = False) -> Self:
        return self._apply("sum", (self,), {"axis": dim, "keepdims": keepdim})

    def amax(self, dim: Axes, keepdim: bool = False) -> Self:
        return self._apply("amax", (self,), {"axis": dim, "keepdims": keepdim})

    def mean(self, dim: Axes, keepdim: bool = False) -> Self:
        count = prod(self.shape[axis] for axis in axes_of(dim, len(self.shape)))
        return self._apply("divide", (self.sum(dim, keepdim), self.new_tensor(count)), {})

    cumsum, softmax = _with_options("cumsum", "axis"), _with_options("softmax", "axis")

    def masked_fill(self, mask: Self, value: float) -> Self:
        return self._apply("masked_fill", (self, mask), {"value": value})

    def tril(self, diagonal: int = 0) -> Self:
        return self._apply("tril", (self,), {"diagonal": diagonal})

    # --- rearranging cells --------------------------------------------------------------------

    transpose = _with_options("transpose", "axis1", "axis2")
    unsqueeze, squeeze = _with_options("unsqueeze", "axis"), _with_options("squeeze", "axis")
    flip = _with_options("flip", "axis")
    unfold = _with_options("unfold", "axis", "size", "step")  # windows, which become the last axis

    @property
    def mT(self) -> Self:
        return self._apply("transpose", (self,), {"axis1": -2, "axis2": -1})

    def reshape(self, *shape: int) -> Self:
        return self._apply("reshape", (self,), {"shape": shape})

    def expand(self, *shape: int) -> Self:
        """Repeated along axes of size 1 or new leading axes; -1 keeps the size."""
        return self._apply("expand", (self,), {"shape": shape})

    def gather(self, dim: int, index: Self) -> Self:
        return self._apply("gather", (self, index), {"axis": dim})

    def __getitem__(self, key: Any) -> Self:
        """Cells by numpy's rules; a tensor of whole numbers looks up rows, as an embedding does."""
        if isinstance(key, TensorMethods):
            return self._apply("lookup", (self, key), {})
        return self._apply("getitem", (self,), {"key": key})


class HandTensor(TensorMethods):
    """Numbers worked by hand: ``array`` holds SymPy objects (exact) or floats (decimal, float64 as typed).

    >>> x = HandTensor(np.array([[1.0, 2.0]]))
    >>> (x @ x.mT).array.tolist()
    [[5.0]]
    """

    __slots__ = ("array", "label", "node")

    def __init__(self, array: NDArray[Any], node: Node | None = None, label: str = "") -> None:
        self.array = array
        self.node = node or Node("given", (), {})
        self.label = label

    @property
    def exact(self) -> bool:
        return self.array.dtype == object

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.array.shape

    def __repr__(self) -> str:
        return f"HandTensor({'exact' if self.exact else 'decimal'}, {self.array.tolist()})"

    def labelled(self, label: str) -> HandTensor:
        """The same numbers under a label, at which the arithmetic of a later cell stops."""
        return HandTensor(self.array, self.node, label)

    def cell(self, index: Index) -> Expression:
        """One cell in the arithmetic of others: by its label, by its own arithmetic, or as a number."""
        if self.label:
            return Cell(self.label, index, self.array[index])
        return self.derivation(index)

    def derivation(self, index: Index) -> Expression:
        """The arithmetic of one cell."""
        if not self.node.operands:
            return Number(self.array[index])
        return OPERATIONS[self.node.operation].cell(self, index)

    def new_tensor(self, values: Any) -> HandTensor:
        whole = self.array.dtype.kind in "iu"  # beside token numbers a constant stays what it is
        return HandTensor(np.asarray(values) if whole else as_numbers(values, self.array.dtype))

    def to(self, other: HandTensor) -> HandTensor:
        """The same numbers as exact or decimal ones, as ``other`` has them."""
        dtype = other.array.dtype
        return self if self.array.dtype == dtype else self._apply("to", (self,), {"dtype": dtype})

    def _apply(self, name: str, operands: tuple[HandTensor, ...], options: Mapping[str, Any]) -> HandTensor:
        array = compute(name, [operand.array for operand in operands], options)
        return HandTensor(array, Node(name, operands, options))
