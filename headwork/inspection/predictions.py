"""The labels that a trained run predicts for new images and texts, without torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headwork.data import Tokenizer, read_image
from headwork.data.datasets import normalise
from headwork.data.fetching import Log, to_stderr
from headwork.data.summaries import printable
from headwork.documents import Table
from headwork.errors import InputError, truncate
from headwork.inspection.model_on_input import Array, ArrayModel
from headwork.loading import NumpyModel
from headwork.loading.model import probabilities_of
from headwork.training import run_folders
from headwork.training.recipes import TextRunConfig
from headwork.training.run_folders import DataInfo


def predict(
    folder: str | Path, *, images: Sequence[str | Path] = (), texts: Sequence[str] = (), log: Log = to_stderr
) -> Table:
    """The labels that a run predicts for images or texts, with their probabilities.

    A model of the package has images of its own, whose true labels are known.
    """
    path = run_folders.check_run_folder(run_folders.find_run(folder))
    run, info = run_folders.load_run_config(path), run_folders.load_data_info(path)
    if isinstance(run, TextRunConfig) and images:
        raise InputError(f"{path} was trained on texts: give --text, not --image.")
    if not isinstance(run, TextRunConfig) and texts:
        raise InputError(f"{path} was trained on images: give --image, not --text.")
    model = NumpyModel(run_folders.saved_model(path, log=log))
    if not images and not texts:
        if not (path / run_folders.IMAGES_FOLDER).exists():
            raise InputError("predict: no input given. Give --image FILE or --text WORDS.")
        own = run_folders.example_images(path)
        names = [f"{n}: {info.classes[label]}" for n, label in zip(own.indices, own.labels, strict=True)]
        return prediction_table(names, image_probabilities(model, own.images, info), info.classes)
    if images:
        size = (info.size, info.size)
        pixels = np.stack([read_image(image, channels=info.channels, size=size) for image in images])
        probabilities = image_probabilities(model, pixels, info, images)
    else:
        assert isinstance(run, TextRunConfig)
        probabilities = text_probabilities(model, texts, run)
    return prediction_table([str(item) for item in (images or texts)], probabilities, info.classes)


def prediction_table(inputs: Sequence[str], probabilities: Array, classes: tuple[str, ...]) -> Table:
    """The most probable class of each input, and the runners-up."""
    rows: list[tuple[Any, ...]] = []
    for item, row in zip(inputs, probabilities, strict=True):
        best = (-row).argsort(kind="stable")[:3].tolist()
        others = ", ".join(f"{printable(classes[i])} {row[i]:.1%}" for i in best[1:])
        rows.append((printable(item, 60), printable(classes[best[0]]), f"{row[best[0]]:.1%}", others))
    columns, former = ("input", "prediction", "probability", "runners-up"), ("given", "said", "sure", "next")
    more = {
        "rows": with_former_names(columns, former, rows),
        "probabilities": [dict(zip(classes, row.tolist(), strict=True)) for row in probabilities],
    }
    return Table("", columns, rows, extra_data=more)


def with_former_names(
    columns: Sequence[str], former: Sequence[str], rows: Sequence[Sequence[Any]]
) -> list[dict[str, Any]]:
    """Rows for the JSON, under the names of today and of before."""
    return [dict(zip((*columns, *former), (*row, *row), strict=True)) for row in rows]


def image_probabilities(model: Any, images: Array, info: DataInfo, names: Sequence[Any] = ()) -> Array:
    """Probabilities (image, class) of images as bytes (image, channel, height, width)."""
    names = names or [f"image {number}" for number in range(len(images))]
    return _probabilities(model, {"images": normalise(images, info.mean, info.std)}, names)


def text_probabilities(model: Any, texts: Sequence[str], run: TextRunConfig) -> Array:
    """Probabilities (text, class)."""
    for text in texts:
        if not text.strip():
            raise InputError("predict: an empty text. Give at least one word.")
    encoded = Tokenizer(model.tokenizer, run.max_length).encode(list(texts))
    tokens, mask = encoded.pad(np.arange(len(texts)))
    return _probabilities(
        model, {"tokens": tokens, "mask": mask}, [repr(truncate(text, 60)) for text in texts]
    )


def _probabilities(model: Any, inputs: Mapping[str, Array], names: Sequence[Any]) -> Array:
    """The probabilities that a model, on numpy or on torch, gives the classes."""
    own = ArrayModel(model)
    logits = own(inputs)
    return probabilities_of(logits.astype(np.float64) if own.on_torch else logits, names)
