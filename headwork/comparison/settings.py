"""What a comparison covers: which families, which rows of the table, which seeds, and how much training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwork.comparison.families import FAMILIES
from headwork.comparison.row import join_names
from headwork.comparison.training import BATCH_SIZE, LEARNING_RATE
from headwork.errors import InputError, unknown

ROWS = ("complexity", "parallelism", "long-range", "bias", "uses")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The families, rows and seeds to compare; every model is trained for ``steps`` steps."""

    families: tuple[str, ...] = ("cnn", "lstm", "gru", "transformer", "linear")
    rows: tuple[str, ...] = ROWS
    seeds: tuple[int, ...] = (0,)
    steps: int = 250
    full: bool = False

    def __post_init__(self) -> None:
        _check_names("family", self.families, FAMILIES)
        _check_names("row", self.rows, ROWS)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError(
                f"compare: seeds {self.seeds}. Give whole numbers from 0 on, each once, such as 0,1,2."
            )
        if self.steps < 1:
            raise InputError(f"compare: {self.steps} training steps. Give at least 1; 250 are usual.")

    @classmethod
    def of(cls, *, full: bool = False, steps: int | None = None, **chosen: Sequence[Any]) -> Settings:
        """The quick or the full settings; families, rows, seeds and steps replace the defaults where given.

        >>> Settings.of(full=True).seeds, Settings.of(rows=["bias"]).rows
        ((0, 1, 2), ('bias',))
        """
        default = cls(full=True, seeds=(0, 1, 2), steps=1000) if full else cls()
        given: dict[str, Any] = {name: tuple(values) for name, values in chosen.items() if values}
        return replace(default, **given, steps=default.steps if steps is None else steps)

    def describe_training(self, examples: str, parameters: Sequence[int] = ()) -> str:
        """The training budget; with the numbers of parameters of the models where they are given."""
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {join_names(map(str, self.seeds))}"
        text = f"{self.steps:,} steps of {BATCH_SIZE} {examples}, {seeds}"
        if not parameters:
            return text
        models = f"models of {min(parameters):,} to {max(parameters):,} parameters"
        return f"{text}, learning rate {LEARNING_RATE:g}; {models}"


def _check_names(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"compare: {kind} {', '.join(names) or 'none'}. Name each once, out of {', '.join(known)}."
        )
