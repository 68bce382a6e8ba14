"""The main job's training: a vision transformer on the embedded digits, in well under a minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwork.data import Images, load_images
from headwork.training import figures
from headwork.training.folders import Result, load_facts, load_model
from headwork.training.progress import tell
from headwork.training.recipes import vision
from headwork.training.runs import train
from headwork.training.trained import image_probabilities

SHOWN = 12


@dataclass(frozen=True)
class DigitsJob:
    """What the main report shows: two matplotlib figures with their captions, and the accuracy."""

    result: Result
    curves: Any
    curves_caption: str
    predictions: Any
    predictions_caption: str

    @property
    def test_accuracy(self) -> float:
        return self.result.test_accuracy


def digits_job(out_folder: str | Path, *, say: Any = tell) -> DigitsJob:
    """Train on the digits into ``out_folder``/digits and show how it went."""
    run = vision("digits")
    data = load_images("digits", seed=run.seed, validation=run.validation)
    folder = Path(out_folder) / "digits"
    result = train(run, folder, say=say, data=data)
    picture, caption = predictions(folder, data)
    told = figures.curves_caption(run)
    return DigitsJob(result, figures.curves({"digits": result.metrics}), told, picture, caption)


def predictions(folder: Path, data: Images) -> tuple[Any, str]:
    """The first test images with what the model says of them."""
    images, labels = data.test.images[:SHOWN], data.test.labels[:SHOWN]
    facts = load_facts(folder)
    rows = image_probabilities(load_model(folder), images, facts).numpy()
    said = rows.argmax(-1)
    captions = [
        f"{facts.classes[s]} ({rows[i, s]:.0%})"
        + ("" if s == labels[i] else f", is {facts.classes[labels[i]]}")
        for i, s in enumerate(said)
    ]
    right = int(np.sum(said == labels))
    return figures.pictures(
        images, captions
    ), f"The first {SHOWN} test images and what is said of them: {right} are right."
