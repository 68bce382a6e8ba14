"""One row of the comparison: cells for each family, sentences made from the numbers, tables and plots.

A plot is one panel, readable on a telephone, the legend never on top of the lines.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwork.comparison.families import FAMILIES
from headwork.documents import FigureBlock, Table, subplots
from headwork.files import load_words

SIZE = (5.4, 4.6)
PLAIN_ATTENTION = "plain attention"  # is drawn as its family, with hollow markers on a dotted line
STYLES = {name: family.style for name, family in FAMILIES.items()}
STYLES[PLAIN_ATTENTION] = STYLES["transformer"] | {"linestyle": ":", "markerfacecolor": "white"}
Line = tuple[Sequence[float], Sequence[float]]
Results = Mapping[str, Mapping[str, Any]]  # of measurements, by their names
words = load_words(__file__)


def table(path: str, rows: Iterable[tuple[Any, ...]], **values: Any) -> Table:
    """Rows under the title and columns of an entry of ``words.toml``, above its notes."""
    entry = words(path, **values)
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


# --- plots ------------------------------------------------------------------------------------------
def new_panel(title: str, xlabel: str, ylabel: str, *, log: str) -> tuple[Any, Any]:
    """A figure and its axes; ``log`` names those with a logarithmic scale, such as ``"xy"``."""
    figure, axes = subplots(*SIZE)
    axes.set_title(title, fontsize=12, loc="left")
    axes.set_xlabel(xlabel, fontsize=11)
    axes.set_ylabel(ylabel, fontsize=11)
    if "x" in log:
        axes.set_xscale("log", base=2)
    if "y" in log:
        axes.set_yscale("log")
    axes.tick_params(labelsize=10)
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def set_ticks(axes: Any, sizes: Sequence[float]) -> None:
    """Ticks at the sizes themselves; at every second one where there are many."""
    ticks = list(sizes) if len(sizes) <= 6 else list(sizes)[(len(sizes) - 1) % 2 :: 2]
    axes.set_xticks(ticks, [format_size(size) for size in ticks])
    axes.minorticks_off()


def format_size(size: float) -> str:
    """A size on an axis.

    >>> format_size(16384), format_size(512)
    ('16k', '512')
    """
    return f"{size / 1024:.0f}k" if size >= 1024 and size % 1024 == 0 else f"{size:,.0f}"


def draw_line(axes: Any, family: str, line: Line, label: str = "", **style: Any) -> None:
    """The line of a family, in its own style unless another is given."""
    style = {**STYLES[family], "markersize": 5, "linewidth": 1.6, **style}
    axes.plot(*line, label=label or family, **style)


def dodge_factor(index: int, count: int) -> float:
    """The factor that moves one of several markers sideways on a logarithmic axis.

    >>> [round(dodge_factor(index, 3), 2) for index in range(3)]
    [0.94, 1.0, 1.06]
    """
    return float(2 ** (0.085 * (index - (count - 1) / 2)))


def add_legend(figure: Any, columns: int = 3) -> None:
    """A legend below the panel."""
    layout = {"frameon": False, "handlelength": 2.8, "columnspacing": 1.2}
    figure.legend(loc="outside lower center", ncols=columns, fontsize=10, **layout)


def size_figure(
    lines: Mapping[str, Line],
    title: str,
    xlabel: str,
    ylabel: str,
    *,
    labels: Mapping[str, str] | None = None,
) -> Any:
    """A figure of values against sizes on logarithmic scales, one line per family."""
    figure, axes = new_panel(title, xlabel, ylabel, log="xy")
    for name, line in lines.items():
        draw_line(axes, name, line, (labels or {}).get(name, ""))
    set_ticks(axes, sorted({size for sizes, _ in lines.values() for size in sizes}))
    add_legend(figure, 2 if labels else 3)
    return figure
