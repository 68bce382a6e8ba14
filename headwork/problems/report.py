"""The report of the main job: the whole book on one offline page, with plots."""

import itertools
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from headwork.documents import Document, Figure, Heading
from headwork.files import write_atomic
from headwork.problems.attention_by_hand import A2
from headwork.problems.book import Solution, book
from headwork.readings import explain

BETAS = ("0", "0.5", "1", "2", "10", "oo")


def weights_figure() -> Any:
    """The weights of A2 for several beta, side by side."""
    from matplotlib.figure import Figure

    plot = Figure(figsize=(11, 2.3), layout="constrained")
    for axes, beta in zip(plot.subplots(1, len(BETAS)), BETAS, strict=True):
        weights = explain("self-attention", **{**A2, "beta": beta})["weights"].values
        axes.imshow(weights, cmap="viridis", vmin=0, vmax=1)
        for i, j in np.ndindex(weights.shape):
            colour = "black" if weights[i, j] > 0.6 else "white"
            axes.text(j, i, f"{weights[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=7)
        title = f"beta = {beta.replace('oo', '∞')}"
        axes.set(title=title, xticks=range(4), yticks=range(4), xlabel="key")
    plot.axes[0].set_ylabel("query")
    return plot


def new_folder(parent: Path) -> Path:
    """A folder that does not exist yet: report-2026-11-15, then report-2026-11-15-2."""
    name = f"report-{date.today().isoformat()}"
    names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    return next(folder for name in names if not (folder := parent / name).exists())


def report(solutions: dict[str, Solution], folder: Path, trained: Any = None) -> Path:
    """Write report.html and return its path; ``trained`` has the plots of a model, with captions."""
    summary, *problems = book(solutions).blocks
    weights = Figure(
        weights_figure(), "weights of A2 for several beta", "Row 2 has four equal scores: it never sharpens."
    )
    parts: list[Any] = [summary, Heading("The weights of A2 for several beta"), weights]
    if trained is not None:
        parts += [
            Heading("A vision transformer trained on the embedded digits", anchor="digits"),
            "8 x 8 digits in patches of 2 x 2, 6 layers, 4 heads. Test accuracy "
            f"{trained.result.test_accuracy:.1%}; the test set was used once, at the end.",
            Figure(trained.curves, "loss and accuracy by epoch", trained.curves_caption),
            Figure(trained.predictions, "test images and predictions", trained.predictions_caption),
        ]
    about = (
        "Every problem of the book, solved by the same few functions that you can call yourself. Published "
        "values that are wrong stand only beside the correct one, with the reason."
    )
    document = Document("Headwork: the problem book", (*parts, *problems), about=about)
    return write_atomic(folder / "report.html", document.to_html())
