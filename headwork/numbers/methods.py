"""The tensor methods that mechanisms use, spelled as in torch: each is one operation of the table.

``HandTensor`` and ``ShapeTensor`` have them all; each says in ``_apply`` what becomes of an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Self

import numpy as np

from headwork.numbers.operations import Axes, axes_of


def _cellwise(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return self._apply(name, (self,), {})

    return method


def _with_other(name: str, swap: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        operand = other if isinstance(other, TensorMethods) else self.new_tensor(other)
        return self._apply(name, (operand, self) if swap else (self, operand), {})

    return method


class TensorMethods:
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
    __neg__ = _cellwise("negative")
    exp, log, sqrt, erf = (_cellwise(name) for name in ("exp", "log", "sqrt", "erf"))
    tanh, sigmoid, relu = (_cellwise(name) for name in ("tanh", "sigmoid", "relu"))
    sin, cos, abs = (_cellwise(name) for name in ("sin", "cos", "abs"))

    # --- along an axis ------------------------------------------------------------------------

    def sum(self, dim: Axes, keepdim: bool = False) -> Self:
        return self._apply("sum", (self,), {"axis": dim, "keepdims": keepdim})

    def amax(self, dim: Axes, keepdim: bool = False) -> Self:
        return self._apply("amax", (self,), {"axis": dim, "keepdims": keepdim})

    def mean(self, dim: Axes, keepdim: bool = False) -> Self:
        count = prod(self.shape[axis] for axis in axes_of(dim, len(self.shape)))
        return self._apply("divide", (self.sum(dim, keepdim), self.new_tensor(count)), {})

    def cumsum(self, dim: int) -> Self:
        return self._apply("cumsum", (self,), {"axis": dim})

    def softmax(self, dim: int) -> Self:
        """Stable in decimals, by definition when exact. A row of minus infinities is undefined (nan)."""
        return self._apply("softmax", (self,), {"axis": dim})

    def masked_fill(self, mask: Self, value: float) -> Self:
        return self._apply("masked_fill", (self, mask), {"value": value})

    def tril(self, diagonal: int = 0) -> Self:
        return self._apply("tril", (self,), {"diagonal": diagonal})

    # --- rearranging cells --------------------------------------------------------------------

    @property
    def mT(self) -> Self:
        return self.transpose(-2, -1)

    def transpose(self, first: int, second: int) -> Self:
        return self._apply("transpose", (self,), {"axis1": first, "axis2": second})

    def reshape(self, *shape: int) -> Self:
        return self._apply("reshape", (self,), {"shape": shape})

    def expand(self, *shape: int) -> Self:
        """Repeated along axes of size 1 or new leading axes; -1 keeps the size."""
        return self._apply("expand", (self,), {"shape": shape})

    def unsqueeze(self, dim: int) -> Self:
        return self._apply("unsqueeze", (self,), {"axis": dim})

    def squeeze(self, dim: int) -> Self:
        return self._apply("squeeze", (self,), {"axis": dim})

    def flip(self, dim: int) -> Self:
        return self._apply("flip", (self,), {"axis": dim})

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """Windows of ``size`` along one axis, every ``step``; the window becomes the last axis."""
        return self._apply("unfold", (self,), {"axis": dim, "size": size, "step": step})

    def gather(self, dim: int, index: Self) -> Self:
        return self._apply("gather", (self, index), {"axis": dim})

    def __getitem__(self, key: Any) -> Self:
        """Cells by numpy's rules; a tensor of whole numbers takes so many rows, as an embedding does."""
        if isinstance(key, TensorMethods):
            return self._apply("lookup", (self, key), {})
        return self._apply("getitem", (self,), {"key": key})
