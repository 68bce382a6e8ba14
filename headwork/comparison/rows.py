"""What a row of the comparison is: a cell for each family, sentences made of the numbers, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwork.errors import InputError, unknown
from headwork.pages.tables import Table

ROWS = ("complexity", "parallelism", "long-range", "bias", "uses")
Results = Mapping[str, Mapping[str, Any]]  # of measurements, by their names


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to compare: which families, which rows, with which seeds; ``steps`` is the budget of every training."""

    families: tuple[str, ...] = ("cnn", "lstm", "gru", "transformer", "linear")
    rows: tuple[str, ...] = ROWS
    seeds: tuple[int, ...] = (0,)
    steps: int = 250
    full: bool = False

    def __post_init__(self) -> None:
        from headwork.comparison.families import FAMILIES

        _check("family", self.families, FAMILIES)
        _check("row", self.rows, ROWS)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError(
                f"compare: seeds {self.seeds}. Give whole numbers from 0 on, each once, such as 0,1,2."
            )
        if self.steps < 1:
            raise InputError(f"compare: {self.steps} training steps. Give at least 1; 250 are usual.")

    @classmethod
    def of(
        cls,
        *,
        full: bool = False,
        families: Sequence[str] = (),
        rows: Sequence[str] = (),
        seeds: Sequence[int] = (),
        steps: int | None = None,
    ) -> Settings:
        """The quick settings or the full ones, with what is given instead.

        >>> Settings.of(full=True).seeds, Settings.of(rows=["bias"]).rows
        ((0, 1, 2), ('bias',))
        """
        usual = cls(full=full, seeds=(0, 1, 2), steps=1000) if full else cls()
        return cls(
            full=full,
            families=tuple(families) or usual.families,
            rows=tuple(rows) or usual.rows,
            seeds=tuple(seeds) or usual.seeds,
            steps=usual.steps if steps is None else steps,
        )


def _check(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(what, name, known)
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"compare: {what} {', '.join(names) or 'none'}. Name each once, out of {', '.join(known)}."
        )


@dataclass(frozen=True)
class Measurement:
    """One piece of work whose result is kept: a name, all that decides it, the work, and its seconds, roughly."""

    name: str
    decided_by: Mapping[str, Any]
    work: Callable[[], dict[str, Any]]
    seconds: float


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, what it shows in words, and its caption."""

    plot: Any
    alt: str
    caption: str


@dataclass
class Row:
    """A row as it is told; a cell is a label and a text for each family."""

    name: str
    title: str
    budget: str
    verdict: str = ""  # the row in one sentence
    cells: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def say(self, sentence: str) -> None:
        if sentence:
            self.sentences.append(" ".join(sentence.split()))


def listed(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listed(["cnn"]), listed(["cnn", "lstm", "gru"])
    ('cnn', 'cnn, lstm and gru')
    """
    *first, last = list(names) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def grouped(said: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Families of which the same is said, together.

    >>> grouped({"cnn": "no", "lstm": "yes", "gru": "no"})
    [('no', ['cnn', 'gru']), ('yes', ['lstm'])]
    """
    groups: dict[str, list[str]] = {}
    for family, words in said.items():
        groups.setdefault(words, []).append(family)
    return list(groups.items())


def times(ratio: float) -> str:
    """A ratio of times in a cell.

    >>> times(1.234), times(123.4)
    ('1.2 x', '120 x')
    """
    rounded = float(f"{ratio:.2g}")
    return f"{rounded:.0f} x" if rounded >= 10 else f"{rounded:.1f} x" if rounded >= 0.1 else f"{rounded:g} x"
