"""Pictures of the comparison: one panel each, small enough for a telephone, the legend below and never on the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwork.comparison.families import FAMILIES

SIZE, WIDE = (5.4, 4.6), (9.0, 3.5)
Line = tuple[Sequence[float], Sequence[float]]


def panel(
    title: str, across: str, up: str, *, log_x: bool = False, log_y: bool = False, wide: bool = False
) -> tuple[Any, Any]:
    """A figure and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=WIDE if wide else SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=12, loc="left")
    axes.set_xlabel(across, fontsize=11)
    axes.set_ylabel(up, fontsize=11)
    if log_x:
        axes.set_xscale("log", base=2)
    if log_y:
        axes.set_yscale("log")
    axes.tick_params(labelsize=10)
    axes.grid(alpha=0.3, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def ticked(axes: Any, sizes: Sequence[float]) -> None:
    """Ticks at the sizes themselves, written plainly; where many, every second."""
    chosen = list(sizes) if len(sizes) <= 6 else list(sizes)[(len(sizes) - 1) % 2 :: 2]
    axes.set_xticks(chosen, [plain(size) for size in chosen])
    axes.minorticks_off()


def plain(size: float) -> str:
    """A size on an axis.

    >>> plain(16384), plain(512)
    ('16k', '512')
    """
    return f"{size / 1024:.0f}k" if size >= 1024 and size % 1024 == 0 else f"{size:,.0f}"


def draw(
    axes: Any,
    lines: Mapping[str, Line],
    labels: Mapping[str, str] | None = None,
    *,
    apart: bool = False,
    **style: Any,
) -> None:
    """One line a family, in its own colour, mark and stroke; ``apart`` where many have the same values."""
    for number, (name, (x, y)) in enumerate(lines.items()):
        family = FAMILIES[name]
        shown = [at * aside(number, len(lines)) for at in x] if apart else x
        drawn = {
            "color": family.colour,
            "marker": family.mark,
            "linestyle": family.line,
            "markersize": 5,
            **style,
        }
        axes.plot(shown, y, label=(labels or {}).get(name, name), linewidth=1.6, **drawn)


def aside(number: int, count: int) -> float:
    """The factor by which one of several marks stands aside on a logarithmic axis.

    >>> [round(aside(number, 3), 2) for number in range(3)]
    [0.94, 1.0, 1.06]
    """
    return float(2 ** (0.085 * (number - (count - 1) / 2)))


def legend(figure: Any, columns: int = 2, *, wide: bool = False) -> None:
    """Below the panel, or beside a wide one."""
    place, columns = ("outside right center", 1) if wide else ("outside lower center", columns)
    figure.legend(loc=place, ncols=columns, fontsize=10, frameon=False, handlelength=2.8, columnspacing=1.2)


def level(axes: Any, at: float, words: str) -> None:
    """A level to compare with, such as chance, named in the legend."""
    axes.axhline(at, color="#777777", linewidth=1, linestyle=(0, (2, 3)), label=words)
