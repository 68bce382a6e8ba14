"""Plots of the comparison: one panel, readable on a telephone, the legend never on top of the lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from headwork.comparison.families import FAMILIES
from headwork.documents import subplots

SIZE = (5.4, 4.6)
PLAIN_ATTENTION = "plain attention"  # is drawn as its family, with hollow markers on a dotted line
STYLES = {name: family.style for name, family in FAMILIES.items()}
STYLES[PLAIN_ATTENTION] = STYLES["transformer"] | {"linestyle": ":", "markerfacecolor": "white"}
Line = tuple[Sequence[float], Sequence[float]]


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
