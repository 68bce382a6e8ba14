"""A trained run, used: evaluated again, and asked for the labels of new images and texts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headwork.data import CATALOG, Tokenizer, read_image
from headwork.data.datasets import normalise
from headwork.data.fetching import Log, to_stderr
from headwork.data.summaries import printable
from headwork.documents import Table
from headwork.errors import InputError, cut
from headwork.models import Model
from headwork.training.evaluation import Evaluation, evaluate, interval, probabilities_of
from headwork.training.examples import DataInfo, Examples, ImageExamples
from headwork.training.folders import RESULT, check_run, load_data_info, load_model, load_run, load_tokenizer
from headwork.training.preparation import PreparedRun, prepare
from headwork.training.recipes import RunConfig, TextRun
from headwork.training.runs import check_data


def evaluate_run(
    folder: str | Path, *, part: str = "", data: str = "", columns: Sequence[str] = (), log: Log = to_stderr
) -> tuple[Evaluation, DataInfo, str]:
    """Evaluate a run again, on its own or other ``data`` of the same classes; the last item names the data.

    The part is "validation" or "test"; unless named it is the test set, but validation for a run that is not
    finished. Of other data it is the test part that came with it, or else all of it.
    """
    path = check_run(folder)
    run, info = load_run(path), load_data_info(path)
    if columns and not (data and isinstance(run, TextRun)):
        raise InputError(
            "--columns are those of other texts: give --data FILE too, to a run that was trained on texts."
        )
    model = load_model(path, log=log)
    tokenizer = load_tokenizer(path) if isinstance(run, TextRun) else None
    prepared = prepare(_with_data(run, info, data, columns) if data else run, tokenizer=tokenizer, log=log)
    parts = [part] if part else []
    # The run's own data stays so when it is named: most of it was trained on.
    if data and prepared.info.digest != info.digest:
        _check_alike(data, prepared.info, info)
        parts = parts or (["test"] if prepared.data.test_given else ["training", "validation", "test"])
    else:
        check_data(path, info, prepared.info)
        finished = (path / RESULT).exists()
        parts = parts or ["test" if finished else "validation"]
        if parts == ["test"] and not finished:
            raise InputError(
                f"{path}: not finished, and the test set is used once, at the end. Ask for --part validation."
            )
    examples = [_examples(prepared, name, info) for name in parts]
    filled = [one for one in examples if len(one.labels)] or examples
    try:
        evaluation = _joined([evaluate(model, one, run.batch_size) for one in filled])
    except InputError as error:
        raise InputError(f"{path}, {' and '.join(parts)}: {error}") from None
    part_name = parts[0] if len(parts) == 1 else f"all {len(evaluation.labels):,}"
    return evaluation, info, f"{part_name} of {prepared.info.name}"


def _with_data(run: RunConfig, info: DataInfo, data: str, columns: Sequence[str]) -> RunConfig:
    """The run with other data: images scaled to its size, columns of a file as its own were unless named."""
    known = data.replace("_", "-").lower() in CATALOG
    changes: dict[str, Any] = {"data": data}
    if isinstance(run, TextRun):
        changes["columns"] = tuple(columns) or (None if known else run.columns)
    else:
        changes["image_size"] = info.size if Path(data).is_dir() and not known else 0
    return replace(run, **changes)


def _check_alike(data: str, other: DataInfo, own: DataInfo) -> None:
    if other.classes != own.classes:
        raise InputError(
            f"{data}: its classes are {', '.join(other.classes)}; the run knows {', '.join(own.classes)}. "
            "Give data of the same classes."
        )
    shapes = [f"{info.channels} x {info.size} x {info.size}" for info in (other, own)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"{data}: images of {shapes[0]} (channel, height, width); the run takes {shapes[1]}."
        )


def _examples(prepared: PreparedRun, part: str, info: DataInfo) -> Examples:
    """A part of the data; images are normalised as the run's own were."""
    examples: Examples = prepared.read_test() if part == "test" else getattr(prepared, part)
    if isinstance(examples, ImageExamples):
        examples.info = info
    return examples


def _joined(parts: list[Evaluation]) -> Evaluation:
    labels = torch.cat([part.labels for part in parts])
    loss = sum(part.loss * len(part.labels) for part in parts) / len(labels)
    return Evaluation(torch.cat([part.probabilities for part in parts]), labels, loss)


def format_accuracy(share: float, count: int) -> str:
    """An accuracy with its interval.

    >>> format_accuracy(1.0, 100)
    '100.00% of 100 (95% interval 96.30% to 100.00%)'
    """
    lower, upper = interval(share, count)
    return f"{share:.2%} of {count:,} (95% interval {lower:.2%} to {upper:.2%})"


def class_table(evaluation: Evaluation, classes: tuple[str, ...], title: str) -> Table:
    """Recall and precision of each class."""

    def share(part: int, whole: int) -> str:
        return f"{part / whole:.1%}" if whole else "none"

    confusion = evaluation.confusion
    rows: list[tuple[Any, ...]] = []
    for number, name in enumerate(classes):
        correct, true = confusion[number][number], sum(confusion[number])
        predicted = sum(row[number] for row in confusion)
        rows.append((name, true, share(correct, true), share(correct, predicted)))
    accuracy = format_accuracy(evaluation.accuracy, len(evaluation.labels))
    notes = [f"accuracy {accuracy}, loss {evaluation.loss:.4f}"]
    columns = ("class", "examples", "recall", "precision")
    former = ("class", "examples", "found", "right when said")
    more = {**evaluation.summary(), "rows": _with_former_names(columns, former, rows)}
    return Table(title, columns, rows, notes, more)


def _with_former_names(
    columns: Sequence[str], former: Sequence[str], rows: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    """Rows for the JSON, under the names of today and of before."""
    names = (*columns, *former)
    return [dict(zip(names, (*row, *row), strict=True)) for row in rows]


def predict(
    folder: str | Path, *, images: Sequence[str | Path] = (), texts: Sequence[str] = (), log: Log = to_stderr
) -> Table:
    """The labels that a run predicts for images or texts, with their probabilities."""
    path = check_run(folder)
    run, info = load_run(path), load_data_info(path)
    if isinstance(run, TextRun) and images:
        raise InputError(f"{path} was trained on texts: give --text, not --image.")
    if not isinstance(run, TextRun) and texts:
        raise InputError(f"{path} was trained on images: give --image, not --text.")
    if not images and not texts:
        raise InputError("predict: for what? Give --image FILE or --text WORDS.")
    model = load_model(path, log=log)
    if images:
        size = (info.size, info.size)
        pixels = np.stack([read_image(image, channels=info.channels, size=size) for image in images])
        probabilities = image_probabilities(model, pixels, info, images)
    else:
        assert isinstance(run, TextRun)
        probabilities = text_probabilities(model, texts, run)
    return prediction_table([str(item) for item in (images or texts)], probabilities, info.classes)


def prediction_table(inputs: Sequence[str], probabilities: Tensor, classes: tuple[str, ...]) -> Table:
    """The most probable class of each input, and the runners-up."""
    rows: list[tuple[Any, ...]] = []
    for item, row in zip(map(printable, inputs), probabilities, strict=True):
        best = row.argsort(descending=True)[:3].tolist()
        others = ", ".join(f"{printable(classes[i])} {row[i]:.1%}" for i in best[1:])
        short = item if len(item) <= 60 else item[:59] + "…"
        rows.append((short, printable(classes[best[0]]), f"{row[best[0]]:.1%}", others))
    columns, former = ("input", "prediction", "probability", "runners-up"), ("given", "said", "sure", "next")
    more = {
        "rows": _with_former_names(columns, former, rows),
        "probabilities": [dict(zip(classes, row.tolist(), strict=True)) for row in probabilities],
    }
    return Table("", columns, rows, more=more)


@torch.no_grad()
def image_probabilities(model: Model, images: Any, info: DataInfo, names: Sequence[Any] = ()) -> Tensor:
    """Probabilities (image, class) of images as bytes (image, channel, height, width)."""
    kind = next(model.parameters()).dtype
    logits: Tensor = model(normalise(torch.from_numpy(images), info.mean, info.std).to(kind))
    return probabilities_of(logits, names or [f"image {number}" for number in range(len(images))])


@torch.no_grad()
def text_probabilities(model: Model, texts: Sequence[str], run: TextRun) -> Tensor:
    """Probabilities (text, class)."""
    for text in texts:
        if not text.strip():
            raise InputError("predict: an empty text. Give at least one word.")
    encoded = Tokenizer(model.tokenizer, run.max_length).encode(list(texts))
    tokens, mask, _ = encoded.tensors(np.arange(len(texts)))
    logits: Tensor = model(tokens, mask)
    return probabilities_of(logits, [repr(cut(text, 60)) for text in texts])
