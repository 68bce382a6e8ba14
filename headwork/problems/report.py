"""The report of the main job: a page to start from, with the whole book by hand-out."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from headwork.documents import Block, Details, Document, FigureBlock, Heading, Item, Items, Link, Prose
from headwork.documents.blocks import Inline
from headwork.documents.plots import heat_colormap, subplots
from headwork.files import unused_path, write_atomic
from headwork.problems.book import Solution, all_problems, summary
from headwork.problems.by_hand import A2
from headwork.problems.handouts import HANDOUTS, questions
from headwork.readings import explain

BETAS = ("0", "0.5", "1", "2", "10", "oo")
DIGITS_REPORT, LAB_FILE = "digits/report.html", "lab.html"  # beside the report, where there is one
WEIGHTS = "Each row sums to 1. Row 2 has four equal scores: it never sharpens."
ABOUT = (
    "Attention, transformers, convolution and recurrence: every question of five hand-outs, solved by the "
    "same few functions that you can call yourself. Published values that are wrong stand only beside the "
    "correct one, with the reason."
)


def weights_figure() -> Any:
    """The weights of A2 for several beta, side by side."""
    figure, panels = subplots(11, 2.3, 1, len(BETAS))
    for axes, beta in zip(panels, BETAS, strict=True):
        weights = explain("self-attention", **{**A2, "beta": beta})["weights"].values
        image = axes.imshow(weights, cmap=heat_colormap(), vmin=0, vmax=1)
        for i, j in np.ndindex(weights.shape):
            axes.text(j, i, f"{weights[i, j]:.2f}", ha="center", va="center", fontsize=7)
        title = f"beta = {beta.replace('oo', '∞')}"
        axes.set(title=title, xticks=range(4), yticks=range(4), xlabel="key")
    panels[0].set_ylabel("query")
    figure.colorbar(image, ax=panels, label="weight")
    return figure


def new_folder(parent: Path) -> Path:
    """A folder that does not exist yet: report-2026-11-15, then report-2026-11-15-2."""
    return unused_path(parent / f"report-{date.today().isoformat()}")


def report(solutions: dict[str, Solution], folder: Path, trained: Any = None, lab: bool = False) -> Path:
    """Write report.html and return its path; ``trained`` is the result on the digits, with a picture.

    ``lab`` says that the lab stands beside it, so that questions lead to their pages there.
    """
    weights = FigureBlock(weights_figure(), "weights of A2 for several beta", WEIGHTS)
    parts: list[Any] = [_starting_points(trained, lab), *_questions(solutions, lab)]
    parts += [Heading("The weights of A2 for several beta"), weights]
    parts += [Heading("Every answer at a glance"), Details("The short table", (summary(solutions),))]
    if trained is not None:
        result, picture = trained
        accuracy = f"Test accuracy {result.test_accuracy:.1%}; the test set was used once, at the end. "
        words = Prose((accuracy, Link("Its report", DIGITS_REPORT), " has curves, heads and mistakes."))
        parts += [Heading("A vision transformer trained on digits", anchor="digits"), words, picture]
    document = Document("Headwork: the problem book", tuple(parts), about=ABOUT)
    return write_atomic(folder / "report.html", document.to_html())


def _starting_points(trained: Any, lab: bool) -> Items:
    """Where a reader may begin."""
    handouts = [part for name in HANDOUTS for part in (", ", Link(name, f"#{name}"))][1:]
    model: Inline = "headwork run without --book-only trains one on digits."
    if trained is not None:
        model = (
            Link("its report", DIGITS_REPORT),
            " says what it learned of digits, and where it goes wrong.",
        )
    change = (
        (Link("the lab", LAB_FILE), " has them to change.") if lab else ("headwork lab has them to change.",)
    )
    example = (Link("four tokens by hand", "#A2"), ": point at a number, see what it comes from; ", *change)
    points = ("Look up a question:", "See attention at work:", "Look at a model:")
    return Items(tuple(map(Item, (tuple(handouts), example, model), points)))


def _questions(solutions: dict[str, Solution], lab: bool) -> Iterator[Block]:
    """The book by hand-out, question by question; a problem is folded below the first that it answers."""
    left = dict(solutions)
    for name, handout in HANDOUTS.items():
        yield Heading(f"{name}: {handout['about']}", anchor=name)
        for number, question in handout["questions"].items():
            asked = questions()[f"{name}/{number}"]
            shown_above = [slug for slug in question["problems"] if slug in solutions and slug not in left]
            link_items = [Link(f"{slug}. {all_problems()[slug].title}", f"#{slug}") for slug in shown_above]
            link_items += [Link("Change its numbers in the lab", f"{LAB_FILE}#/problems/{asked.name}")] * lab
            links = [Prose((lead,)) for lead in link_items]
            yield Details(f"{asked.name}: {asked.asks}", (*asked.blocks(work=False), *links), asked.name)
            for slug in (slug for slug in question["problems"] if slug in left):
                summary = f"{slug}. {all_problems()[slug].title}: {solutions[slug].short_answer}"
                yield Details(summary, all_problems()[slug].document(left.pop(slug)).blocks, slug)
