"""Accuracies at several sizes, of data or of gaps: as a list, by family, as numbers and as a plot."""

from collections.abc import Mapping
from typing import Any

from headwork.comparison.accuracy import Accuracy
from headwork.comparison.panels import add_legend, dodge_factor, draw_line, new_panel, set_ticks

ByFamily = Mapping[str, Accuracy]
BySize = Mapping[int, ByFamily]


def all_accuracies(by_size: BySize) -> list[Accuracy]:
    return [accuracy for families in by_size.values() for accuracy in families.values()]


def family_by_size(by_size: BySize, name: str) -> dict[int, Accuracy]:
    return {size: families[name] for size, families in by_size.items()}


def values_by_size(by_size: BySize) -> dict[str, dict[str, float]]:
    """The numbers alone, by family, for JSON."""
    return {
        name: {str(size): accuracy.value for size, accuracy in family_by_size(by_size, name).items()}
        for name in next(iter(by_size.values()))
    }


def plot_by_size(by_size: BySize, chance: float, title: str, xlabel: str) -> tuple[Any, Any, str]:
    """A figure of accuracy against size with its axes, and a sentence on the margins for its caption."""
    figure, axes = new_panel(title, xlabel, "accuracy in %", log="x")
    style = {"color": "#777777", "linewidth": 1, "linestyle": (0, (2, 3))}
    axes.axhline(100 * chance, label=f"chance, {chance:.0%}", **style)
    names = list(next(iter(by_size.values())))
    for index, name in enumerate(names):
        x = [size * dodge_factor(index, len(names)) for size in by_size]
        draw_line(
            axes, name, (x, [100 * accuracy.value for accuracy in family_by_size(by_size, name).values()])
        )
    set_ticks(axes, list(by_size))
    axes.set_ylim(0, 104)
    add_legend(figure)
    margin = max(accuracy.margin for accuracy in all_accuracies(by_size))
    return figure, axes, f"95% margins are at most {100 * margin:.1f} points."
