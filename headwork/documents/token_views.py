"""Blocks that a page draws on tokens: words, or the patches of a picture. Other formats show their tables."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TableRows = tuple[tuple[str, ...], list[tuple[Any, ...]]]  # the columns of a table, and its rows


@dataclass(frozen=True)
class Tokens:
    """What attention runs between: words, or patches of a picture, the last tokens on a grid of them."""

    labels: tuple[str, ...]
    grid: tuple[int, int] | None = None  # rows, columns
    picture: bytes = b""  # a PNG

    @property
    def picture_url(self) -> str:
        """The picture within a page; empty where there is none."""
        return f"data:image/png;base64,{b64encode(self.picture).decode()}" if self.picture else ""

    @property
    def first_patch(self) -> int:
        """The first token that is a patch."""
        return len(self.labels) - self.grid[0] * self.grid[1] if self.grid else 0


@dataclass(frozen=True)
class Heatmap:
    """A number for each token: NaN for those that have none."""

    title: str
    values: Any
    caption: str = ""


@dataclass(frozen=True)
class TokenHeatmaps:
    """Tokens tinted by what is known of each, once for each map; blue is positive, orange negative."""

    tokens: Tokens
    maps: tuple[Heatmap, ...]

    def largest(self, heatmap: Heatmap) -> float:
        """What full tint means: each map has its own scale."""
        return max((abs(float(value)) for value in heatmap.values if value == value), default=0.0) or 1.0

    def has_negative(self, heatmap: Heatmap) -> bool:
        return any(value < 0 for value in heatmap.values)

    def cells(self, heatmap: Heatmap) -> list[tuple[str, float, float, int, int]]:
        """Of each token its label, number, tint from -1 to 1, and place on the grid; patches alone."""
        columns, first_patch = self.tokens.grid[1] if self.tokens.grid else 1, self.tokens.first_patch
        most = self.largest(heatmap)
        return [
            (label, float(value), 0.0 if value != value else float(value) / most, i % columns, i // columns)
            for i, (label, value) in enumerate(
                zip(self.tokens.labels[first_patch:], heatmap.values[first_patch:], strict=True)
            )
        ]

    def strongest(self, heatmap: Heatmap, count: int = 3) -> str:
        """The tokens with the most, in words."""
        cells = sorted((c for c in self.cells(heatmap) if c[1] == c[1]), key=lambda cell: -cell[1])[:count]
        return ", ".join(
            f"{label if not self.tokens.grid else f'({label})'} {v:.2g}" for label, v, *_ in cells
        )

    def rows(self) -> TableRows:
        """A table for formats without pictures."""
        unit = "patches (row, column)" if self.tokens.grid else "tokens"
        rows: list[tuple[Any, ...]] = [(heatmap.title, self.strongest(heatmap, 6)) for heatmap in self.maps]
        return ("", f"most on these {unit}"), rows


@dataclass(frozen=True)
class AttentionView:
    """Attention between tokens: in a page layer, head and token are chosen, other formats have a table.

    ``layers`` are paths and weights (head, query, key); ``remarks`` has words about each head, in the order
    in which a table lists them.
    """

    tokens: Tokens
    layers: tuple[tuple[str, Any], ...]
    start: tuple[int, int, int | None]  # layer, head and query; None for the mean of all
    remarks: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """For the script: weights as whole numbers of two bytes, on one scale, and the rest as it is."""
        most = max(float(weights.max()) for _, weights in self.layers)
        layers = [
            {
                "path": path,
                "count": len(weights),
                "bytes": b64encode((weights * (65535 / most)).round().astype("<u2").tobytes()).decode(),
            }
            for path, weights in self.layers
        ]
        heads = [
            [self.remarks.get((layer, head), "") for head in range(len(weights))]
            for layer, (_, weights) in enumerate(self.layers)
        ]
        parts = {"labels": self.tokens.labels, "grid": self.tokens.grid, "start": self.start}
        return {**parts, "layers": layers, "heads": heads, "most": most, "picture": self.tokens.picture_url}

    def rows(self) -> TableRows:
        """A table for formats without pictures."""
        rows: list[tuple[Any, ...]] = []
        query = self.start[2]
        for (layer, head), words in list(self.remarks.items())[:8]:
            path, weights = self.layers[layer]
            row = weights[head].mean(0) if query is None else weights[head][query]
            best = (-row).argsort(kind="stable")[:3].tolist()
            looks = ", ".join(f"{self.tokens.labels[i]} {row[i]:.0%}" for i in best)
            rows.append((f"{path}, head {head}", looks, words))
        of = "on average" if query is None else f"from {self.tokens.labels[query]}"
        return ("head", f"attends most to, {of}", "what it does"), rows
