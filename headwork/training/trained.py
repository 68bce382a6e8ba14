"""A trained run, used: measured again, asked about new images and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from headwork.data import KNOWN, read_image
from headwork.data.images import normalised
from headwork.data.sheets import printable
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
    folder: str | Path,
    *,
    part: Part | None = None,
    data: str = "",
    columns: Sequence[str] = (),
    say: Say = tell,
) -> tuple[Evaluation, Facts, str]:
    """Measure a run again: on its own data, or on other ``data`` of the same classes; and say on what.

    Unless named, the part is the test, but validation for a run that is not finished. Of other data it is the
    test part that came with it, or else all of it.
    """
    place = check_run(folder)
    run, facts = load_run(place), load_facts(place)
    if columns and not (data and isinstance(run, TextRun)):
        raise InputError(
            "--columns are those of other texts: give --data FILE too, to a run that was trained on texts."
        )
    model = load_model(place, say=say)
    prepared = _again(_with_data(run, facts, data, columns) if data else run, place, say)
    parts: list[str] = [part] if part else []
    # Its own data is that also when it is named: most of it was trained on.
    if data and prepared.facts.digest != facts.digest:
        _check_alike(data, prepared.facts, facts)
        parts = parts or (["test"] if prepared.shown.test_given else ["training", "validation", "test"])
    else:
        check_facts(place, facts, prepared.facts)
        finished = (place / RESULT).exists()
        parts = parts or ["test" if finished else "validation"]
        if parts == ["test"] and not finished:
            raise InputError(
                f"{place}: not finished, and the test set is touched once, at the end. Ask for --part validation."
            )
    found = _together([evaluate(model, _examples(prepared, name, facts), run.batch) for name in parts])
    told = parts[0] if len(parts) == 1 else f"all {len(found.labels):,}"
    return found, facts, f"{told} of {prepared.facts.name}"


def _again(run: Run, place: Path, say: Say) -> Prepared:
    kept = (place / TOKENIZER).read_bytes() if isinstance(run, TextRun) else None
    return prepare(run, tokenizer=kept, say=say)


def _with_data(run: Run, facts: Facts, data: str, columns: Sequence[str]) -> Run:
    """The run with other data: pictures scaled to its size, columns of a file as its own were unless named."""
    known = data.replace("_", "-").lower() in KNOWN
    changes: dict[str, Any] = {"data": data}
    if isinstance(run, TextRun):
        changes["columns"] = tuple(columns) or (None if known else run.columns)
    else:
        changes["size"] = facts.size if Path(data).is_dir() and not known else 0
    return replace(run, **changes)


def _check_alike(data: str, other: Facts, own: Facts) -> None:
    if other.classes != own.classes:
        told = f"{', '.join(other.classes)}; the run knows {', '.join(own.classes)}"
        raise InputError(f"{data}: its classes are {told}. Give data of the same classes.")
    shapes = [f"{facts.channels} x {facts.size} x {facts.size}" for facts in (other, own)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"{data}: images of {shapes[0]} (channel, height, width); the run takes {shapes[1]}."
        )


def _examples(prepared: Prepared, part: str, facts: Facts) -> Examples:
    """A part of the data; images are normalised as the run's own were."""
    if part == "test":
        found: Any = prepared.read_test()
    else:
        found = prepared.training if part == "training" else prepared.validation
    if hasattr(found, "facts"):
        found.facts = facts
    return found  # type: ignore[no-any-return]


def _together(found: list[Evaluation]) -> Evaluation:
    labels = torch.cat([one.labels for one in found])
    loss = sum(one.loss * len(one.labels) for one in found) / len(labels)
    return Evaluation(torch.cat([one.probabilities for one in found]), labels, loss)


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
        others = ", ".join(f"{printable(classes[i])} {row[i]:.1%}" for i in best[1:])
        shown = printable(given)
        shown = shown if len(shown) <= 60 else shown[:59] + "…"
        rows.append((shown, printable(classes[best[0]]), f"{row[best[0]]:.1%}", others))
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
