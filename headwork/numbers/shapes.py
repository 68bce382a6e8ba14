"""ShapeTensor: a tensor that has only a shape, and counts the operations done on it.

It has the methods of ``HandTensor``, so a mechanism run on it gives the shape of each step and the number
of operations, for any size.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from headwork.numbers.hand import HandTensor, TensorMethods
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


# --- what is no method of a tensor, for every kind of tensor: the only dispatch on type -----------------
def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors one after another along an axis that they have."""
    if isinstance(tensors[0], TensorMethods):
        return tensors[0]._apply("cat", tuple(tensors), {"axis": dim})
    import torch

    return torch.cat(list(tensors), dim=dim)


def stack(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors side by side along a new axis."""
    if isinstance(tensors[0], TensorMethods):
        return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)
    import torch

    return torch.stack(list(tensors), dim=dim)


def exponentials_may_overflow(scores: Any) -> bool:
    """Whether the exponentials of a row could leave the range of their numbers, or all vanish.

    Exact numbers have no range. Compiled code cannot look at its numbers, so there they always may.
    """
    if isinstance(scores, ShapeTensor) or (isinstance(scores, HandTensor) and scores.exact):
        return False
    if isinstance(scores, HandTensor):
        peaks, largest = np.max(scores.array, -1), float(np.finfo(scores.array.dtype).max)
    else:
        import torch

        if torch.compiler.is_compiling():
            return True
        peaks, largest = scores.detach().amax(-1), torch.finfo(scores.dtype).max
    # Half of the range leaves room for the sum and for weights far below the largest.
    sizes = abs(peaks)
    return bool(((sizes > math.log(largest) / 2) & (sizes < math.inf)).any())
