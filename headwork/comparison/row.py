"""One row of the comparison: cells for each family, sentences made from the numbers, tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwork.pages.tables import Table

Results = Mapping[str, Mapping[str, Any]]  # of measurements, by their names


@dataclass(frozen=True)
class Cells:
    """One line of the large table: a text for each family; programs know the line by ``json_name``."""

    label: str
    texts: Mapping[str, str]
    json_name: str


@dataclass(frozen=True)
class Plot:
    """A matplotlib figure, its description for those who cannot see it, and its caption."""

    figure: Any
    alt: str
    caption: str


@dataclass
class Row:
    """The report on one row: ``budget`` states what was run, ``verdict`` is the row in one sentence."""

    name: str
    title: str
    budget: str
    verdict: str = ""
    cells: list[Cells] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def add_cells(
        self, label: str, values: Mapping[str, Any], form: Callable[[Any], str] = str, json_name: str = ""
    ) -> None:
        """Add a line of the table, named in JSON like its label unless a name is given."""
        texts = {family: form(value) for family, value in values.items()}
        self.cells.append(Cells(label, texts, json_name or label))

    def add_sentence(self, sentence: str) -> None:
        if sentence:
            self.sentences.append(sentence)


def join_names(names: Iterable[str]) -> str:
    """Names in a sentence.

    >>> join_names(["cnn"]), join_names(["cnn", "lstm", "gru"])
    ('cnn', 'cnn, lstm and gru')
    """
    *first, last = list(names) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def clauses(texts: Mapping[str, str], numbers: Mapping[str, str]) -> str:
    """One clause for each different text, with the families it is true of and their numbers.

    >>> clauses({"cnn": "no", "lstm": "yes", "gru": "no"}, {"cnn": "1", "lstm": "2", "gru": "3"})
    'no for cnn (1) and gru (3); yes for lstm (2)'
    """
    groups: dict[str, list[str]] = {}
    for family, text in texts.items():
        groups.setdefault(text, []).append(f"{family} ({numbers[family]})")
    return "; ".join(f"{text} for {join_names(families)}" for text, families in groups.items())


def classify(value: float, scale: Sequence[tuple[float, str]]) -> str:
    """The text of the first limit on the scale that the value does not exceed.

    >>> [classify(x, ((0.9, "slower"), (1.1, "the same"), (float("inf"), "faster"))) for x in (1, 3)]
    ['the same', 'faster']
    """
    return next(text for limit, text in scale if value <= limit)


def format_ratio(ratio: float) -> str:
    """A ratio of times, to two digits.

    >>> format_ratio(1.234), format_ratio(123.4)
    ('1.2 x', '120 x')
    """
    rounded = float(f"{ratio:.2g}")
    return f"{rounded:.0f} x" if rounded >= 10 else f"{rounded:.1f} x" if rounded >= 0.1 else f"{rounded:g} x"
