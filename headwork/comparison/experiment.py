"""What a comparison covers, and how its models are trained: the same budget for every family.

AdamW, a warm-up and half a cosine, gradients clipped at 1, one thread. Every random number comes from a seed
that is derived from (seed, family, task), so the same seeds give the same results.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from headwork.comparison.families import FAMILIES
from headwork.comparison.section import Results, join_names
from headwork.errors import InputError, check_all_known
from headwork.training.evaluation import losses
from headwork.training.loop import schedule
from headwork.training.runs import use_threads

BATCH_SIZE, LEARNING_RATE, WARM_UP = 32, 3e-3, 0.1
EVALUATION_BATCH_SIZE = 100
Batch = tuple[tuple[Tensor, ...], Tensor]  # inputs and labels
Module = TypeVar("Module", bound=nn.Module)
SECTIONS = ("complexity", "parallelism", "long-range", "bias", "uses")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The families, sections and seeds to compare; every model is trained for ``steps`` steps."""

    families: tuple[str, ...] = ("cnn", "lstm", "gru", "transformer", "linear")
    sections: tuple[str, ...] = SECTIONS
    seeds: tuple[int, ...] = (0,)
    steps: int = 250
    full: bool = False

    def __post_init__(self) -> None:
        _check_names("family", self.families, FAMILIES)
        _check_names("row", self.sections, SECTIONS)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError(
                f"compare: seeds {self.seeds}. Give distinct non-negative integers, such as 0,1,2."
            )
        if self.steps < 1:
            raise InputError(f"compare: {self.steps} training steps. Give at least 1; 250 is typical.")

    @classmethod
    def from_options(cls, *, full: bool = False, steps: int | None = None, **chosen: Sequence[Any]) -> Self:
        """The quick or the full settings; families, sections, seeds and steps replace the defaults.

        >>> Settings.from_options(full=True).seeds, Settings.from_options(sections=["bias"]).sections
        ((0, 1, 2), ('bias',))
        """
        default = cls(full=True, seeds=(0, 1, 2), steps=1000) if full else cls()
        former = {"rows": "sections"}
        fields: dict[str, Any] = {former.get(n, n): tuple(values) for n, values in chosen.items() if values}
        return replace(default, **fields, steps=default.steps if steps is None else steps)

    of = from_options  # the former name

    def results_by_family(
        self, results: Results, name: Callable[..., str]
    ) -> dict[str, list[Mapping[str, Any]]]:
        """The results of a training by family, one per seed; ``name`` gives that of the measurement."""
        return {
            family: [results[name(family=family, seed=seed)] for seed in self.seeds]
            for family in self.families
        }

    def describe_training(self, examples: str, parameters: Sequence[int] = ()) -> str:
        """The training budget; with the numbers of parameters of the models where they are given."""
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {join_names(map(str, self.seeds))}"
        text = f"{self.steps:,} steps of {BATCH_SIZE} {examples}, {seeds}"
        if not parameters:
            return text
        models = f"models of {min(parameters):,} to {max(parameters):,} parameters"
        return f"{text}, learning rate {LEARNING_RATE:g}; {models}"


def _check_names(kind: str, names: Sequence[str], known_names: Collection[str]) -> None:
    check_all_known(kind, names, known_names)
    if not names or len(set(names)) < len(names):
        given = ", ".join(names) or "none"
        raise InputError(f"compare: {kind} {given}. Name each once, out of {', '.join(known_names)}.")


def seed_from(*seed_parts: object) -> int:
    """A seed for these keys, such as the seed, the family and the task.

    >>> seed_from(0, "lstm") == seed_from(0, "lstm"), seed_from(0, "lstm") == seed_from(0, "gru")
    (True, False)
    """
    return int.from_bytes(sha256("/".join(map(str, seed_parts)).encode()).digest()[:6], "big")


def generator_from(*seed_parts: object) -> torch.Generator:
    """A random generator with the seed of the keys."""
    return torch.Generator().manual_seed(seed_from(*seed_parts))


def build_seeded(build: Callable[[], Module], *seed_parts: object) -> Module:
    """A model whose initial parameters follow from the keys."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_from("start", *seed_parts))
        return build()


def run_config(family: str, seed: int, steps: int, rate: float = LEARNING_RATE) -> dict[str, Any]:
    """What the result of every training depends on, by the names in saved files."""
    return {"family": family, "seed": seed, "steps": steps, "batch": BATCH_SIZE, "rate": rate}


def train(
    model: nn.Module, batches: Iterable[Batch], *seed_parts: object, steps: int, rate: float = LEARNING_RATE
) -> None:
    """Train for so many steps, one batch each; dropout follows from the keys."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    model.train()
    with use_threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_from("teaching", *seed_parts))
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
    with use_threads(1):
        correct = torch.cat([model(*inputs).argmax(-1) == labels for inputs, labels in batches])
    return float(correct.double().mean())
