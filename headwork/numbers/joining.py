"""What torch has only as a function, for every kind of tensor: the one dispatch on type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headwork.numbers.hand import HandTensor, joined
from headwork.numbers.shapes import ShapeTensor, joined_shapes


def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors one after another along an axis that they have."""
    return _join(tensors, dim, "cat", np.concatenate)


def stack(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors side by side along a new axis."""
    return _join(tensors, dim, "stack", np.stack)


def _join(tensors: Sequence[Any], dim: int, name: str, join: Any) -> Any:
    if isinstance(tensors[0], HandTensor):
        return joined(tensors, dim, join)
    if isinstance(tensors[0], ShapeTensor):
        return joined_shapes(tensors, dim, join)
    import torch

    return getattr(torch, name)(list(tensors), dim=dim)
