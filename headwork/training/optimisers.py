r"""AdamW, and for some tensors something better: a group with the ``update_rule`` "muon" or "sgd" takes that.

Muon, for the matrices of blocks: a gradient's large singular values drown the small ones; here each update of
a matrix has all of them near 1 (Jordan et al. 2024, kellerjordan.github.io/posts/muon). Scaled by :math:`0.2
\sqrt{\max(\text{rows}, \text{columns})}` it is as large as AdamW's, and one learning rate serves both (Liu et
al. 2025, arXiv 2502.16982).

SGD with momentum, for n-gram tables: AdamW moves a row that occurs once per epoch as far as one that occurs
in every batch, and so memorises rare n-grams.
"""

import math
from itertools import groupby
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from headwork.training.recipes import RunConfig

shape_of = attrgetter("shape")
MUON_MOMENTUM, SGD_MOMENTUM = 0.95, 0.9
QUINTIC = (3.4445, -4.7750, 2.0315)  # a x + b x^3 + c x^5, five times over, takes (0, 1] to about 1
# Times the learning rate, for n-gram tables: SGD steps are as small as their gradients.
NGRAM_FACTOR = 12_000.0


def build_optimiser(model: nn.Module, run: RunConfig) -> torch.optim.Optimizer:
    """The run's optimiser; matrices have weight decay; biases, scales, shifts and n-gram tables have none."""
    groups: dict[str, dict[str, Any]] = {
        "decayed": {"params": [], "weight_decay": run.weight_decay},
        "free": {"params": [], "weight_decay": 0.0},
        "muon": {"params": [], "weight_decay": run.weight_decay, "update_rule": "muon"},
        "sgd": {"params": [], "update_rule": "sgd", "rate_factor": NGRAM_FACTOR},
    }
    for name, parameter in model.named_parameters():
        group_name = "decayed" if parameter.dim() > 1 else "free"
        if name == "ngrams.table":
            group_name = "sgd"
        elif run.optimiser == "muon" and ".blocks." in name and parameter.dim() == 2:
            group_name = "muon"
        groups[group_name]["params"].append(parameter)
    filled = [group for group in groups.values() if group["params"]]
    return MixedOptimiser(filled, lr=run.learning_rate, fused=True)


class MixedOptimiser(torch.optim.AdamW):
    """AdamW whose marked groups take another step; all matrices of one shape at once."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            with_gradient = [tensor for tensor in group["params"] if tensor.grad is not None]
            if group.get("update_rule") == "muon":
                for _, matrices in groupby(sorted(with_gradient, key=shape_of), key=shape_of):
                    self._muon(list(matrices), group["lr"], group["weight_decay"])
            elif group.get("update_rule") == "sgd":
                for table in with_gradient:
                    momentum = self._momentum(table).mul_(SGD_MOMENTUM).add_(table.grad)
                    table.add_(momentum, alpha=-group["lr"])
            else:
                continue
            for tensor in with_gradient:
                tensor.grad = None  # so that AdamW leaves it alone
        super().step()

    def _muon(self, matrices: list[Tensor], rate: float, decay: float) -> None:
        gradients = torch.stack([matrix.grad for matrix in matrices])  # type: ignore[misc]
        buffers = [self._momentum(matrix) for matrix in matrices]
        momenta = torch.stack(buffers).lerp_(gradients, 1 - MUON_MOMENTUM)
        updates = orthogonal(gradients.lerp(momenta, MUON_MOMENTUM))  # Nesterov's: a step ahead
        size = 0.2 * math.sqrt(max(updates.shape[-2:]))
        for matrix, momentum, new, update in zip(matrices, buffers, momenta, updates, strict=True):
            momentum.copy_(new)
            matrix.mul_(1 - rate * decay).add_(update, alpha=-rate * size)

    def _momentum(self, tensor: Tensor) -> Tensor:
        """A tensor's momentum buffer; AdamW loads only states that count steps."""
        state = self.state[tensor]
        if not state:
            state |= {"step": torch.zeros(()), "momentum": torch.zeros_like(tensor)}
        state["step"] += 1
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(matrices: Tensor) -> Tensor:
    """The same directions with singular values near 1 (0.6 to 1.3), by Newton and Schulz' iteration.

    Values below about 1/500 of the norm end lower, and zeros stay.

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
