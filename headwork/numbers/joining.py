"""What is no method of a tensor (cat, stack), for every kind of tensor: the only dispatch on type."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headwork.numbers.hand import HandTensor, TensorMethods
from headwork.numbers.shapes import ShapeTensor


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
