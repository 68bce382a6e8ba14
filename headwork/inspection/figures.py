"""Pictures of a run: curves by epoch, the confusion matrix, images with predictions, where heads attend."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from headwork.data.summaries import plot_label
from headwork.documents import heat_colormap, subplots
from headwork.errors import InputError
from headwork.models import VisionTransformer
from headwork.readings import recorder
from headwork.training.recipes import RunConfig, VisionRunConfig

Metrics = Sequence[Mapping[str, Any]]
MAX_INCHES, MAX_NAMES = 16, 100  # of a side of a picture, which takes memory by its square
CONFUSION_CAPTION = "Rows are the true classes, columns the predicted ones, on the test set."


def finished_epochs(metrics: Metrics) -> list[Mapping[str, Any]]:
    """The lines of finished epochs."""
    return [line for line in metrics if line.get("ended")]


def curves(runs: Mapping[str, Metrics], title: str = "", caption: str = "") -> Any:
    """Loss and accuracy by epoch: of one run in two panels; of several in four, with one line per run."""
    finished = {plot_label(name, 60): finished_epochs(metrics) for name, metrics in runs.items()}
    for name, lines in finished.items():
        if not lines:
            raise InputError(f"{name or 'the run'}: no epoch is finished, so there are no curves yet.")
    several = len(runs) > 1
    groups: dict[str, dict[str, tuple[str, list[Mapping[str, Any]]]]] = {}
    for part, (name, lines) in product(("training", "validation"), finished.items()):
        groups.setdefault(part if several else "", {})[name if several else part] = part, lines
    figure, grid = subplots(
        11, 7 if several else 4.2, 1 + several, 2, sharey="row" if several else "none", squeeze=False
    )
    if title:
        figure.suptitle(plot_label(title, 100))
    if caption:
        figure.supxlabel("\n".join(textwrap.wrap(plot_label(caption, len(caption)), 170)), fontsize=8)
    # A row per measure, on one scale where there are several runs; a single run has them side by side.
    style = "-" if max(map(len, finished.values())) > 25 else "o-"
    for panels, measure in zip(grid if several else grid.T, ("loss", "accuracy"), strict=True):
        unit = 100 if measure == "accuracy" else 1
        for axes, (heading, group) in zip(panels, groups.items(), strict=True):
            for label, (part, lines) in group.items():
                points = [(line["epoch"], unit * line[part][measure]) for line in lines if line.get(part)]
                label += f": {points[-1][1]:.4g} at the end" if points else ": none"
                axes.plot(*np.array(points).reshape(-1, 2).T, style, markersize=3, label=label)
            axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
            quantity = "accuracy in %" if unit == 100 else "loss (cross-entropy)"
            axes.set(xlabel="epoch", ylabel=f"{heading} {quantity}".strip())
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        # Of long runs, the first epoch lies so far off that the rest would be one flat line.
        later_values = [value for axes in panels for line in axes.lines for value in line.get_ydata()[1:]]
        if several and min(map(len, finished.values())) > 5:
            margin = (max(later_values) - min(later_values)) / 20
            panels[0].set_ylim(min(later_values) - margin, max(later_values) + margin)
    return figure


def curves_caption(run: RunConfig) -> str:
    """What the curves show, and why training may lie below validation."""
    measures = "Cross-entropy without label smoothing, and accuracy, by epoch."
    during = "training is measured during the epoch, while the parameters still change"
    dropped = [
        f"{share:.0%} of the {unit}"
        for name, unit in (("dropout", "values"), ("word_dropout", "tokens"))
        if (share := getattr(run.model, name, 0))  # type: ignore[attr-defined]
    ]
    if isinstance(run, VisionRunConfig) and run.augmentation.active:
        words = {"flip": "flipped", "shift": "shifted", "erase": "partly erased"}
        changes = " and ".join(word for name, word in words.items() if getattr(run.augmentation, name))
        below = "Training accuracy may lie below validation's, and that is not a mistake"
        harder, as_is = f"on images that are {changes}, which are harder", "on the images as they are"
    elif dropped:
        below, as_is = "Early on training accuracy may lie below validation's", "without dropout"
        harder = f"and {' and '.join(dropped)} are dropped"
    else:
        return f"{measures} Validation is measured at the end of each epoch; {during}."
    end = f"validation is measured at the end of each epoch {as_is}"
    return f"{measures} {below}: {during}, {harder}; {end}."


def confusion_figure(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> Any:
    """The confusion matrix: true classes are rows, predicted ones columns."""
    side = min(MAX_INCHES, max(3.2, 0.55 * len(classes) + 1.6))
    figure, axes = subplots(side + 0.6, side)
    matrix = np.array(counts)
    shares = matrix / np.maximum(1, matrix.sum(1, keepdims=True))
    image = axes.imshow(shares, cmap=heat_colormap(), vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.7)
    if len(classes) <= 30:
        for (i, j), count in np.ndenumerate(matrix):
            if count:
                axes.text(j, i, f"{count}", ha="center", va="center", fontsize=7)
    shown = range(0, len(classes), -(-len(classes) // MAX_NAMES))
    names = [plot_label(classes[index], 14) for index in shown]
    axes.set(xlabel="predicted", ylabel="true", xticks=shown, yticks=shown)
    axes.set_xticklabels(names, rotation=45, ha="right", fontsize=8)
    axes.set_yticklabels(names, fontsize=8)
    return figure


def image_figure(images: NDArray[Any], captions: Sequence[str], columns: int = 6) -> Any:
    """Images (image, channel, height, width), each under its caption."""
    rows = -(-len(images) // columns)
    figure, panels = subplots(1.8 * columns, 2.05 * rows, rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for axes, image, caption in zip(panels.flat, images, captions, strict=False):
        pixels = image[0] if image.shape[0] == 1 else image.transpose(1, 2, 0)
        axes.imshow(pixels, cmap="gray", interpolation="nearest")
        axes.set_title(caption, fontsize=8)
    return figure


MAX_OFFSET = 3  # patches up, down, left and right


def mean_attention_by_offset(model: VisionTransformer, images: Tensor) -> Tensor:
    """(block, head, down, right): the mean weight on the patch at that offset, over all pairs of patches.

    >>> from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(image_size=8, patch_size=2, depth=2, width=32))
    >>> tuple(mean_attention_by_offset(model, torch.zeros(1, 1, 8, 8)).shape)
    (2, 4, 7, 7)
    """
    steps: dict[str, Tensor] = {}
    with torch.no_grad():
        model.with_backend("plain").eval()(images, note=recorder(steps))
    means = [value.mean(0) for path, value in steps.items() if path.endswith("attention/weights")]
    side = model.config.image_size // model.config.patch_size
    weights = torch.stack(means)[..., -side * side :, -side * side :]
    grid = weights.reshape(*weights.shape[:2], side, side, side, side)
    offsets = range(-MAX_OFFSET, MAX_OFFSET + 1)
    # The pairs of patches at one offset are diagonals: first of the rows, then of the columns.
    pairs = [[grid.diagonal(down, 2, 4).diagonal(right, 2, 3) for right in offsets] for down in offsets]
    averages = [[at.sum((2, 3)) / max(1, at[0, 0].numel()) for at in row] for row in pairs]
    return torch.stack([torch.stack(row, -1) for row in averages], -2)


def attention_figure(untrained: VisionTransformer, trained: VisionTransformer, images: Tensor) -> Any:
    """A picture of all heads, before and after training."""
    models = {"before": untrained, "after": trained}
    panels = {when: mean_attention_by_offset(model, images) for when, model in models.items()}
    blocks, count = panels["before"].shape[:2]
    figure = Figure(figsize=(1.0 * 2 * count + 1.4, 1.0 * blocks + 0.9), layout="constrained")
    subfigures: Any = figure.subfigures(1, 2)
    for part, (name, maps) in zip(subfigures, panels.items(), strict=True):
        part.suptitle(name)
        for block, row in enumerate(part.subplots(blocks, count, squeeze=False)):
            for head, axes in enumerate(row):
                axes.imshow(maps[block, head].numpy(), cmap=heat_colormap(), vmin=0, interpolation="nearest")
                axes.plot(MAX_OFFSET, MAX_OFFSET, marker="+", color="C1", markersize=5)
                axes.set(xticks=[], yticks=[])
                if head == 0:
                    axes.set_ylabel(f"block {block}", fontsize=7)
                if block == 0:
                    axes.set_title(f"head {head}", fontsize=7)
    return figure
