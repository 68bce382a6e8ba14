"""A trained run, used: measured again, asked about new images and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from headwork.data import read_image
from headwork.data.images import normalised
from headwork.errors import InputError
from headwork.models import Model
from headwork.pages import Table
from headwork.training.evaluation import Evaluation, evaluate
from headwork.training.examples import Examples, Facts, Prepared, Say, prepare
from headwork.training.folders import RESULT, TOKENIZER, check_run, load_facts, load_model, load_run
from headwork.training.progress import tell
from headwork.training.recipes import Run, TextRun
from headwork.training.runs import check_facts

Part = Literal["validation", "test"]


def evaluate_run(
    folder: str | Path, *, part: Part | None = None, data: str = "", say: Say = tell
) -> tuple[Evaluation, Facts, str]:
    """Measure a run again: on its own data, or on other ``data`` of the same classes.

    Unless named, the part is the test, but validation for a run that is not finished.
    """
    place = check_run(folder)
    run, facts = load_run(place), load_facts(place)
    chosen: Part = part or ("test" if (place / RESULT).exists() else "validation")
    if chosen == "test" and not (place / RESULT).exists():
        raise InputError(
            f"{place}: not finished, and the test set is touched once, at the end. Ask for --part validation."
        )
    model = load_model(place, say=say)
    prepared = _again(replace(run, data=data) if data else run, place, say)
    if data:
        if prepared.facts.classes != facts.classes:
            told = f"{', '.join(prepared.facts.classes)}; the run knows {', '.join(facts.classes)}"
            raise InputError(f"{data}: its classes are {told}. Give data of the same classes.")
        prepared = _with_facts(prepared, facts)
    else:
        check_facts(place, facts, prepared.facts)
    examples: Examples = prepared.validation if chosen == "validation" else prepared.read_test()
    return evaluate(model, examples, run.batch), facts, f"{chosen} of {prepared.facts.name}"


def _again(run: Run, place: Path, say: Say) -> Prepared:
    kept = (place / TOKENIZER).read_bytes() if isinstance(run, TextRun) else None
    return prepare(run, tokenizer=kept, say=say)


def _with_facts(prepared: Prepared, facts: Facts) -> Prepared:
    """Other images are normalised as the run's own were."""

    def own(examples: Any) -> Examples:
        if hasattr(examples, "facts"):
            examples.facts = facts
        return examples  # type: ignore[no-any-return]

    return replace(prepared, validation=own(prepared.validation), read_test=lambda: own(prepared.read_test()))


def predict(
    folder: str | Path, *, images: Sequence[str | Path] = (), texts: Sequence[str] = (), say: Say = tell
) -> Table:
    """What a run says of pictures or of texts, with how sure it is."""
    place = check_run(folder)
    run, facts = load_run(place), load_facts(place)
    if isinstance(run, TextRun) and images:
        raise InputError(f"{place} was trained on texts: give --text, not --image.")
    if not isinstance(run, TextRun) and texts:
        raise InputError(f"{place} was trained on images: give --image, not --text.")
    if not images and not texts:
        raise InputError("predict: of what? Give --image FILE or --text WORDS.")
    model = load_model(place, say=say)
    if images:
        size = (facts.size, facts.size)
        pixels = np.stack([read_image(path, channels=facts.channels, size=size) for path in images])
        probabilities = image_probabilities(model, pixels, facts)
    else:
        assert isinstance(run, TextRun)
        probabilities = text_probabilities(model, texts, run)
    return answers([str(given) for given in (images or texts)], probabilities, facts.classes)


def answers(asked: Sequence[str], probabilities: Tensor, classes: tuple[str, ...]) -> Table:
    """The likeliest class of each, and the runners-up."""
    rows: list[tuple[Any, ...]] = []
    for given, row in zip(asked, probabilities, strict=True):
        best = row.argsort(descending=True)[:3].tolist()
        others = ", ".join(f"{classes[i]} {row[i]:.1%}" for i in best[1:])
        rows.append((given if len(given) <= 60 else given[:59] + "…", classes[best[0]], f"{row[best[0]]:.1%}", others))
    more = {"probabilities": [dict(zip(classes, row.tolist(), strict=True)) for row in probabilities]}
    return Table("", ("given", "said", "sure", "next"), rows, more=more)


@torch.no_grad()
def image_probabilities(model: Model, images: Any, facts: Facts) -> Tensor:
    """Probabilities (image, class) of images as bytes (image, channel, height, width)."""
    kind = next(model.parameters()).dtype
    found: Tensor = model(normalised(torch.from_numpy(images), facts.mean, facts.std).to(kind)).softmax(-1)
    return found


@torch.no_grad()
def text_probabilities(model: Model, texts: Sequence[str], run: TextRun) -> Tensor:
    """Probabilities (text, class)."""
    for text in texts:
        if not text.strip():
            raise InputError("predict: an empty text. Give at least one word.")
    from headwork.data import Tokenizer

    encoded = Tokenizer(model.tokenizer, run.longest).encoded(list(texts))
    tokens, mask, _ = encoded.tensors(np.arange(len(texts)))
    found: Tensor = model(tokens, mask).softmax(-1)
    return found
