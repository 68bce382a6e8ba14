"""One row of the comparison: cells for each family, sentences made from the numbers, tables and figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwork.documents import FigureBlock, Table
from headwork.files import load_words

Results = Mapping[str, Mapping[str, Any]]  # of measurements, by their names
text_of = load_words(__file__)


def table(path: str, rows: Iterable[tuple[Any, ...]], **values: Any) -> Table:
    """Rows under the title and columns of an entry of ``words.toml``, above its notes."""
    entry = text_of(path, **values)
    return Table(entry["title"], tuple(entry["columns"]), list(rows), entry.get("notes", []))


@dataclass
class Section:
    """The report on one row: ``budget`` states what was run, ``verdict`` is the row in one sentence.

    ``cells`` are lines of the large table by label, each a text for each family; ``json_cells`` are the same
    by the names under which programs know them.
    """

    name: str
    title: str
    budget: str
    verdict: str = ""
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    json_cells: dict[str, dict[str, str]] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[FigureBlock] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def add_cells(
        self, label: str, values: Mapping[str, Any], form: Callable[[Any], str] = str, json_name: str = ""
    ) -> None:
        """Add a line of the table, named in JSON like its label unless a name is given."""
        texts = {family: form(value) for family, value in values.items()}
        self.cells[label] = self.json_cells[json_name or label] = texts

    def as_data(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("budget", "verdict", "sentences", "numbers")}
        return {"row": self.name, **named, "cells": self.json_cells}

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


def clauses(findings: Mapping[str, tuple[str, str]]) -> str:
    """One clause for each different text, with the families it is true of and the number of each.

    >>> clauses({"cnn": ("no", "1"), "lstm": ("yes", "2"), "gru": ("no", "3")})
    'no for cnn (1) and gru (3); yes for lstm (2)'
    """
    groups: dict[str, list[str]] = {}
    for family, (text, number) in findings.items():
        groups.setdefault(text, []).append(f"{family} ({number})")
    return "; ".join(f"{text} for {join_names(families)}" for text, families in groups.items())


def on_scale(value: float, scale: Sequence[tuple[float, str]]) -> str:
    """The text of the first limit on the scale that the value does not exceed.

    >>> [on_scale(x, ((0.9, "slower"), (1.1, "the same"), (float("inf"), "faster"))) for x in (1, 3)]
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
