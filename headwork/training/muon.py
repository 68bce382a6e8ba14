r"""Muon: momentum, made orthogonal, for the matrices between first and last layer; AdamW for everything else.

A gradient's large singular values drown the small ones; here each update of a matrix has all of them near 1 (Jordan et
al. 2024, kellerjordan.github.io/posts/muon). Scaled by :math:`0.2 \sqrt{\max(\text{rows}, \text{columns})}` it is as
large as AdamW's, and one rate serves both (Liu et al. 2025, arXiv 2502.16982).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
QUINTIC = (3.4445, -4.7750, 2.0315)  # a x + b x^3 + c x^5, five times over, takes (0, 1] to about 1


class Muon(torch.optim.AdamW):
    """AdamW whose groups marked ``orthogonal`` take Muon's step instead; all matrices of one shape at once."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        for group in self.param_groups:
            if group.get("orthogonal"):
                for alike in _by_shape(group["params"]):
                    self._step_of(alike, group["lr"], group["weight_decay"])
        return super().step(closure)  # type: ignore[no-any-return]

    def _step_of(self, matrices: list[Tensor], rate: float, decay: float) -> None:
        gradients = torch.stack([matrix.grad for matrix in matrices])  # type: ignore[misc]
        kept = [self._kept(matrix) for matrix in matrices]
        momenta = torch.stack(kept).lerp_(gradients, 1 - MOMENTUM)
        updates = orthogonal(gradients.lerp(momenta, MOMENTUM))  # Nesterov's: a step ahead
        size = 0.2 * math.sqrt(max(updates.shape[-2:]))
        for matrix, momentum, new, update in zip(matrices, kept, momenta, updates, strict=True):
            momentum.copy_(new)
            matrix.mul_(1 - rate * decay).add_(update, alpha=-rate * size)
            matrix.grad = None  # so that AdamW leaves it alone

    def _kept(self, matrix: Tensor) -> Tensor:
        """The momentum of a matrix; AdamW will not load a state that counts no steps."""
        state = self.state[matrix]
        if not state:
            state |= {"step": torch.zeros(()), "momentum": torch.zeros_like(matrix)}
        state["step"] += 1
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest matrices with singular values near 1, by Newton and Schulz' iteration: between 0.6 and 1.3.

    >>> values = torch.linalg.svdvals(orthogonal(torch.tensor([[[3.0, 0.0], [0.0, 0.5]]])))
    >>> bool((values > 0.6).all() and (values < 1.3).all())
    True
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    result: Tensor = x.mT if tall else x
    return result


def _by_shape(matrices: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    alike: dict[Any, list[Tensor]] = {}
    for matrix in matrices:
        alike.setdefault(matrix.shape, []).append(matrix)
    return alike.values()
