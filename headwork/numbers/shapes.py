"""ShapeTensor: a tensor that has only a shape, and counts the operations done on it.

It has the methods of ``HandTensor``, so a mechanism run on it gives the shape of each step and the number
of operations, for any size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


@dataclass
class OperationCount:
    """Multiply-adds of matrix products, and every other scalar operation."""

    multiply_adds: int = 0
    other_operations: int = 0

    @property
    def flops(self) -> int:
        """Two for each multiply-add of a matrix product, the count that torch's own counter gives."""
        return 2 * self.multiply_adds


class ShapeTensor:
    """A shape, and the count that all tensors of one run share.

    >>> work = OperationCount()
    >>> (ShapeTensor((5, 4), work) @ ShapeTensor((4, 3), work)).shape, work.multiply_adds
    ((5, 3), 60)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Sequence[int], work: OperationCount) -> None:
        self.shape = tuple(int(size) for size in shape)
        self.work = work

    def __len__(self) -> int:
        return self.shape[0]

    def _new(self, shape: Sequence[int], operations: int = 0) -> "ShapeTensor":
        self.work.other_operations += operations
        return ShapeTensor(shape, self.work)

    # --- constants ----------------------------------------------------------------------------

    def new_tensor(self, values: Any) -> "ShapeTensor":
        return self._new(np.shape(values))

    def new_zeros(self, *shape: int) -> "ShapeTensor":
        return self._new(shape)

    new_ones = new_zeros

    def to(self, other: "ShapeTensor") -> "ShapeTensor":
        return self

    # --- arithmetic ---------------------------------------------------------------------------

    def _with(self, other: Any) -> "ShapeTensor":
        shape = np.broadcast_shapes(
            self.shape, other.shape if isinstance(other, ShapeTensor) else np.shape(other)
        )
        return self._new(shape, prod(shape))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _with
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __gt__ = __ge__ = _with
    __eq__ = _with  # type: ignore[assignment]

    def _each(self) -> "ShapeTensor":
        return self._new(self.shape, prod(self.shape))

    __neg__ = exp = sqrt = tanh = sigmoid = sin = cos = erf = abs = relu = _each

    def __matmul__(self, other: "ShapeTensor") -> "ShapeTensor":
        if len(other.shape) == 1:
            shape: tuple[int, ...] = self.shape[:-1]
        else:
            batch = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
            shape = (*batch, self.shape[-2], other.shape[-1])
        inner = other.shape[-2] if len(other.shape) > 1 else other.shape[0]
        if inner != self.shape[-1]:
            raise ValueError(f"product of {self.shape} and {other.shape}")
        self.work.multiply_adds += prod(shape) * inner
        return self._new(shape)

    def sum(self, dim: int, keepdim: bool = False) -> "ShapeTensor":
        shape = list(self.shape)
        if keepdim:
            shape[dim] = 1
        else:
            del shape[dim]
        return self._new(shape, prod(self.shape))

    mean = amax = sum

    def cumsum(self, dim: int) -> "ShapeTensor":
        return self._each()

    def softmax(self, dim: int) -> "ShapeTensor":
        return self._new(self.shape, 3 * prod(self.shape))

    def masked_fill(self, mask: "ShapeTensor", value: float) -> "ShapeTensor":
        return self._new(np.broadcast_shapes(self.shape, mask.shape))

    def tril(self, diagonal: int = 0) -> "ShapeTensor":
        return self._new(self.shape)

    # --- rearranging: done on an array of this shape that takes no memory ------------------------

    def _rearrange(self, move: Callable[[Any], Any]) -> "ShapeTensor":
        return self._new(np.shape(move(np.broadcast_to(np.zeros((), np.int8), self.shape))))

    @property
    def mT(self) -> "ShapeTensor":
        return self._rearrange(lambda a: np.swapaxes(a, -1, -2))

    def transpose(self, first: int, second: int) -> "ShapeTensor":
        return self._rearrange(lambda a: np.swapaxes(a, first, second))

    def unsqueeze(self, dim: int) -> "ShapeTensor":
        return self._rearrange(lambda a: np.expand_dims(a, dim))

    def squeeze(self, dim: int) -> "ShapeTensor":
        return self._rearrange(lambda a: np.squeeze(a, dim))

    def flip(self, dim: int) -> "ShapeTensor":
        return self._new(self.shape)

    def __getitem__(self, key: Any) -> "ShapeTensor":
        return self._rearrange(lambda a: a[key])

    def unfold(self, dim: int, size: int, step: int) -> "ShapeTensor":
        shape = list(self.shape)
        shape[dim] = (shape[dim] - size) // step + 1
        return self._new([*shape, size])

    def reshape(self, *shape: int) -> "ShapeTensor":
        known = prod(size for size in shape if size != -1)
        filled = [prod(self.shape) // known if size == -1 else size for size in shape]
        if prod(filled) != prod(self.shape):
            raise ValueError(f"reshape of {self.shape} to {shape}")
        return self._new(filled)


def join_shapes(tensors: Sequence[ShapeTensor], dim: int, join: Callable[..., Any]) -> ShapeTensor:
    shape = list(tensors[0].shape)
    if join is np.stack:
        shape.insert(dim % (len(shape) + 1), len(tensors))
    else:
        shape[dim] = sum(t.shape[dim] for t in tensors)
    return tensors[0]._new(shape)
