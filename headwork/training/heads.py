"""Where the heads of a vision transformer look: the mean weight by how far away the other patch lies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwork.models import VisionTransformer

REACH = 3  # patches up, down, left and right that are shown


def looks(model: VisionTransformer, images: Tensor) -> Tensor:
    """(block, head, down, right): the mean weight on the patch so far away, over all pairs that there are.

    >>> from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(image=8, patch=2, depth=2, width=32))
    >>> tuple(looks(model, torch.zeros(1, 1, 8, 8)).shape)
    (2, 4, 7, 7)
    """
    kept: list[Tensor] = []

    def keep(name: str, value: Any, /) -> Any:
        if name.endswith("attention/weights"):
            kept.append(value.mean(0))
        return value

    with torch.no_grad():
        model.with_kernel("plain").eval()(images, note=keep)
    side = model.config.image // model.config.patch
    weights = torch.stack(kept)[..., -side * side :, -side * side :]
    grid = weights.reshape(*weights.shape[:2], side, side, side, side)
    return torch.stack(
        [torch.stack([_mean_at(grid, down, right) for right in _reach()], -1) for down in _reach()], -2
    )


def _reach() -> range:
    return range(-REACH, REACH + 1)


def _mean_at(grid: Tensor, down: int, right: int) -> Tensor:
    """The mean over pairs of patches at that distance; ``grid`` is (block, head, row, column, row, column)."""
    side = grid.shape[-1]
    rows = [row for row in range(side) if 0 <= row + down < side]
    columns = [column for column in range(side) if 0 <= column + right < side]
    pairs = [grid[..., row, column, row + down, column + right] for row in rows for column in columns]
    return torch.stack(pairs).mean(0) if pairs else grid.new_zeros(grid.shape[:2])


def heads(start: VisionTransformer, end: VisionTransformer, images: Tensor) -> Any:
    """A picture of all heads, at the start and at the end of training."""
    from matplotlib.figure import Figure

    found = {"start": looks(start, images), "end": looks(end, images)}
    blocks, count = found["start"].shape[:2]
    picture = Figure(figsize=(1.0 * 2 * count + 1.4, 1.0 * blocks + 0.9), layout="constrained")
    halves: Any = picture.subfigures(1, 2)
    for part, (name, maps) in zip(halves, found.items(), strict=True):
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
