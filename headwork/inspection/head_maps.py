"""Where the heads of a vision transformer attend: the mean weight by the offset to the other patch."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from headwork.models import VisionTransformer

REACH = 3  # patches up, down, left and right


def mean_weights(model: VisionTransformer, images: Tensor) -> Tensor:
    """(block, head, down, right): the mean weight on the patch at that offset, over all pairs of patches.

    >>> from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(image_size=8, patch_size=2, depth=2, width=32))
    >>> tuple(mean_weights(model, torch.zeros(1, 1, 8, 8)).shape)
    (2, 4, 7, 7)
    """
    recorded: list[Tensor] = []

    def record(name: str, value: Any, /) -> Any:
        if name.endswith("attention/weights"):
            recorded.append(value.mean(0))
        return value

    with torch.no_grad():
        model.with_backend("plain").eval()(images, note=record)
    side = model.config.image_size // model.config.patch_size
    weights = torch.stack(recorded)[..., -side * side :, -side * side :]
    grid = weights.reshape(*weights.shape[:2], side, side, side, side)
    offsets = range(-REACH, REACH + 1)
    maps = [torch.stack([_mean_at(grid, down, right) for right in offsets], -1) for down in offsets]
    return torch.stack(maps, -2)


def _mean_at(grid: Tensor, down: int, right: int) -> Tensor:
    """The mean over pairs of patches at that offset; ``grid`` is (block, head, row, column, row, column)."""
    side = grid.shape[-1]
    rows = [row for row in range(side) if 0 <= row + down < side]
    columns = [column for column in range(side) if 0 <= column + right < side]
    pairs = [grid[..., row, column, row + down, column + right] for row in rows for column in columns]
    return torch.stack(pairs).mean(0) if pairs else grid.new_zeros(grid.shape[:2])


def attention_figure(start: VisionTransformer, end: VisionTransformer, images: Tensor) -> Any:
    """A picture of all heads, before and after training."""
    panels = {"before": mean_weights(start, images), "after": mean_weights(end, images)}
    blocks, count = panels["before"].shape[:2]
    picture = Figure(figsize=(1.0 * 2 * count + 1.4, 1.0 * blocks + 0.9), layout="constrained")
    halves: Any = picture.subfigures(1, 2)
    for part, (name, maps) in zip(halves, panels.items(), strict=True):
        part.suptitle(name)
        for block, row in enumerate(part.subplots(blocks, count, squeeze=False)):
            for head, axes in enumerate(row):
                axes.imshow(maps[block, head].numpy(), cmap="Blues", vmin=0, interpolation="nearest")
                axes.plot(REACH, REACH, marker="+", color="C1", markersize=5)
                axes.set(xticks=[], yticks=[])
                if head == 0:
                    axes.set_ylabel(f"block {block}", fontsize=7)
                if block == 0:
                    axes.set_title(f"head {head}", fontsize=7)
    return picture
