"""ShapeTensor: a tensor that has only a shape, and counts the operations done on it.

It has the methods of ``HandTensor``, so a mechanism run on it gives the shape of each step and the number
of operations, for any size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from headwork.numbers.hand import TensorMethods
from headwork.numbers.operations import OPERATIONS, Axes, axes_of

Shape = tuple[int, ...]


@dataclass
class OperationCount:
    """Multiply-adds of matrix products, and every other scalar operation."""

    multiply_adds: int = 0
    other_operations: int = 0

    @property
    def flops(self) -> int:
        """Two for each multiply-add of a matrix product, the count that torch's own counter gives."""
        return 2 * self.multiply_adds

    def pop_counts(self) -> dict[str, Any]:
        """What was counted since it was last taken."""
        counts, self.multiply_adds, self.other_operations = vars(self).copy(), 0, 0
        return counts


COSTS = {"softmax": 3, "masked_fill": 0, "tril": 0}  # operations per cell of the result; all others take one


class ShapeTensor(TensorMethods):
    """A shape, and the count that all tensors of one run share.

    >>> work = OperationCount()
    >>> (ShapeTensor((5, 4), work) @ ShapeTensor((4, 3), work)).shape, work.multiply_adds
    ((5, 3), 60)
    """

    __slots__ = ("shape", "work")

    def __init__(self, shape: Sequence[int], work: OperationCount) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.work = work

    def new_tensor(self, values: Any) -> "ShapeTensor":
        return ShapeTensor(np.shape(values), self.work)

    def to(self, other: "ShapeTensor") -> "ShapeTensor":
        return self

    def mean(self, dim: Axes, keepdim: bool = False) -> "ShapeTensor":
        return self.sum(dim, keepdim)  # the one division more is not counted

    def _apply(
        self, name: str, operands: tuple["ShapeTensor", ...], options: Mapping[str, Any]
    ) -> "ShapeTensor":
        shapes = [operand.shape for operand in operands]
        if name in SHAPES:
            shape = SHAPES[name](*shapes, **options)
        elif OPERATIONS[name].rearranges:  # done on an array of this shape that takes no memory
            nothing = np.broadcast_to(np.zeros((), np.int8), shapes[0])
            shape = np.shape(OPERATIONS[name].numeric(nothing, **options))
        else:
            shape = np.broadcast_shapes(*shapes)
            self.work.other_operations += COSTS.get(name, 1) * prod(shape)
        if name == "matmul":
            self.work.multiply_adds += prod(shape) * shapes[0][-1]
        if name in ("sum", "amax"):
            self.work.other_operations += prod(shapes[0])
        return ShapeTensor(shape, self.work)


def _product(left: Shape, right: Shape) -> Shape:
    if left[-1:] != right[-2:][:1]:
        raise ValueError(f"product of {left} and {right}")
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _reduced(shape: Shape, *, axis: Axes, keepdims: bool) -> Shape:
    axes = axes_of(axis, len(shape))
    return tuple(1 if a in axes else size for a, size in enumerate(shape) if keepdims or a not in axes)


def _concatenated(*shapes: Shape, axis: int) -> Shape:
    shape = list(shapes[0])
    shape[axis] = sum(other[axis] for other in shapes)
    return tuple(shape)


SHAPES: dict[str, Callable[..., Shape]] = {
    "matmul": _product,
    "sum": _reduced,
    "amax": _reduced,
    "cat": _concatenated,
    "lookup": lambda table, rows: (*rows, *table[1:]),
    "gather": lambda shape, rows, *, axis: rows,
}
