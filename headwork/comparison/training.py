"""Training within a fixed budget: the same steps, batch size and learning rate for every family.

AdamW, a warm-up and half a cosine, gradients clipped at 1, one thread. Every random number comes from a seed
that is derived from (seed, family, task), so the same seeds give the same results.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headwork.training.evaluation import losses
from headwork.training.loop import schedule
from headwork.training.runs import threads

BATCH_SIZE, LEARNING_RATE, WARM_UP = 32, 3e-3, 0.1
EVALUATION_BATCH_SIZE = 100
Batch = tuple[tuple[Tensor, ...], Tensor]  # inputs and labels
Module = TypeVar("Module", bound=nn.Module)


def derive_seed(*keys: object) -> int:
    """A seed for these keys, such as the seed, the family and the task.

    >>> derive_seed(0, "lstm") == derive_seed(0, "lstm"), derive_seed(0, "lstm") == derive_seed(0, "gru")
    (True, False)
    """
    return int.from_bytes(sha256("/".join(map(str, keys)).encode()).digest()[:6], "big")


def generator(*keys: object) -> torch.Generator:
    """A random generator with the seed of the keys."""
    return torch.Generator().manual_seed(derive_seed(*keys))


def build_seeded(build: Callable[[], Module], *keys: object) -> Module:
    """A model whose initial parameters follow from the keys."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("start", *keys))
        return build()


def config(family: str, seed: int, steps: int, rate: float = LEARNING_RATE) -> dict[str, Any]:
    """What the result of every training depends on, by the names in saved files."""
    return {"family": family, "seed": seed, "steps": steps, "batch": BATCH_SIZE, "rate": rate}


def train(
    model: nn.Module, batches: Iterable[Batch], *keys: object, steps: int, rate: float = LEARNING_RATE
) -> None:
    """Train for so many steps, one batch each; dropout follows from the keys."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    model.train()
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed("teaching", *keys))
        for step, batch in zip(range(steps), batches, strict=False):
            train_step(model, batch, optimiser, rate * schedule(step, steps, WARM_UP))
    model.eval()


def train_step(model: nn.Module, batch: Batch, optimiser: torch.optim.Optimizer, rate: float) -> None:
    inputs, labels = batch
    loss, _, _ = losses(model(*inputs), labels, 0.0)
    optimiser.zero_grad(set_to_none=True)
    loss.mean().backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()


def in_batches(inputs: Tensor, labels: Tensor) -> list[Batch]:
    """Examples in order, in batches for ``evaluate``."""
    size = EVALUATION_BATCH_SIZE
    return [((inputs[k : k + size],), labels[k : k + size]) for k in range(0, len(labels), size)]


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch]) -> float:
    """The accuracy over all batches."""
    with threads(1):
        correct = torch.cat([model(*inputs).argmax(-1) == labels for inputs, labels in batches])
    return float(correct.double().mean())
