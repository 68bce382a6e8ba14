"""Teaching a model within a fixed budget: so many steps of so many examples at one rate, the same for every family.

AdamW, a warm-up and half a cosine, gradients clipped at 1, one thread; every draw comes from (seed, family, task), so
the same seeds give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import torch
from torch import Tensor, nn

from headwork.comparison.timing import threads
from headwork.training.evaluation import losses
from headwork.training.loop import schedule

BATCH, RATE, WARM_UP = 32, 3e-3, 0.1
Batch = tuple[tuple[Tensor, ...], Tensor]  # inputs and labels


def seed_of(*words: object) -> int:
    """A seed that the words decide: of the seed, the family, the task.

    >>> seed_of(0, "lstm", "gap 8") == seed_of(0, "lstm", "gap 8"), seed_of(0, "lstm") == seed_of(0, "gru")
    (True, False)
    """
    return int.from_bytes(sha256("/".join(map(str, words)).encode()).digest()[:6], "big")


def draws(*words: object) -> torch.Generator:
    """Random numbers that the words decide."""
    return torch.Generator().manual_seed(seed_of(*words))


def started(make: Callable[[], nn.Module], *words: object) -> nn.Module:
    """A model whose random start the words decide."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("start", *words))
        return make()


def teach(
    model: nn.Module, batch: Callable[[int], Batch], *words: object, steps: int, rate: float = RATE
) -> None:
    """Train on ``batch(step)`` for so many steps; the words decide what dropout draws."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    model.train()
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("teaching", *words))
        for step in range(steps):
            teach_step(model, batch(step), optimiser, rate * schedule(step, steps, WARM_UP))
    model.eval()


def teach_step(model: nn.Module, batch: Batch, optimiser: torch.optim.Optimizer, rate: float) -> None:
    inputs, labels = batch
    smoothed, _, _ = losses(model(*inputs), labels, 0.0)
    optimiser.zero_grad(set_to_none=True)
    smoothed.mean().backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for entry in optimiser.param_groups:
        entry["lr"] = rate
    optimiser.step()


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor, *, size: int = 100) -> float:
    """The share of right answers."""
    with threads(1):
        said = torch.cat([model(inputs[at : at + size]).argmax(-1) for at in range(0, len(labels), size)])
    return float((said == labels).double().mean())
