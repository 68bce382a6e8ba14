"""Training with its report: a classifier for scikit-learn and notebooks, and the main job on the digits.

It stands above training because a run that is kept gets its report.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from headwork.data import Images, ImageSplit, Texts, TextSplit
from headwork.data.fetching import Log, to_stderr
from headwork.data.image_files import to_uint8
from headwork.documents import FigureBlock
from headwork.errors import InputError, check_all_known
from headwork.inspection import figures
from headwork.inspection.predictions import image_probabilities, text_probabilities
from headwork.inspection.run_report import write_report
from headwork.training import run_folders
from headwork.training.progress import quiet
from headwork.training.recipes import TextRunConfig, changed, text, vision
from headwork.training.runs import train

CHUNK_SIZE = 256


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from images (image, height, width) or (image, channel, height, width) as bytes, or from texts.

    ``model`` is transformer, cnn, lstm, gru or rnn; any field of the recipe can be set, as in
    ``Classifier(epochs=3, settings=["model.width=32"])``. ``folder`` keeps the run and its report; without it
    nothing is kept.

    >>> import numpy as np
    >>> images = np.zeros((40, 8, 8), np.uint8); images[20:] = 255
    >>> labels = ["dark"] * 20 + ["light"] * 20
    >>> small = "model.width=8 model.hidden=8 model.depth=1 model.patch_size=4 model.heads=2".split()
    >>> small += ["batch_size=8"] + ["augmentation.shift=0", "compiled=false"]
    >>> classifier = Classifier(epochs=8, verbose=False, settings=small)
    >>> classifier.fit(images, labels).predict(images[[0, 39]]).tolist()
    ['dark', 'light']
    """

    def __init__(
        self,
        model: str = "transformer",
        *,
        epochs: int | None = None,
        seed: int = 0,
        settings: Sequence[str] = (),
        folder: str | Path | None = None,
        verbose: bool = True,
    ) -> None:
        self.model, self.epochs, self.seed = model, epochs, seed
        self.settings, self.folder, self.verbose = settings, folder, verbose

    def fit(self, X: Any, y: Sequence[Any]) -> Self:
        """Train; a tenth of the examples, held out by class, is for validation."""
        labels, classes = _number_labels(y, len(X))
        self.classes_ = np.array(classes)
        named = tuple(str(name) for name in classes)
        settings = [f"seed={self.seed}", *self.settings]
        if self.epochs is not None:
            settings.insert(1, f"epochs={self.epochs}")
        data: Images | Texts
        # What a run calls its test set is the validation part here: score is called with other data.
        parts: Any = {"seed": self.seed, "validation": 0.1, "test": lambda: data.validation}
        if len(X) > 0 and isinstance(X[0], str):
            data = Texts.from_training("texts", named, TextSplit([str(item) for item in X], labels), **parts)
            run: Any = changed(text(run_folders.IN_MEMORY, self.model), settings)
        else:
            data = Images.from_training("images", named, ImageSplit(_as_images(X), labels), **parts)
            run = changed(vision(run_folders.IN_MEMORY, self.model), settings)
        log = to_stderr if self.verbose else quiet
        with tempfile.TemporaryDirectory(prefix="headwork-") as temporary:
            folder = Path(self.folder or Path(temporary) / "run")
            self.result_: run_folders.Result = train(run, folder, log=log, data=data)
            if self.folder:
                write_report(self.result_, log=log)
            self.run_, self.info_ = run_folders.load_run_config(folder), run_folders.load_data_info(folder)
            self.model_ = run_folders.load_model(folder)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (example, class), classes in the order of ``classes_``."""
        if not hasattr(self, "model_"):
            raise InputError("this classifier is not fitted yet. Call fit(images, labels) first.")
        if len(X) == 0:
            return np.empty((0, len(self.classes_)))
        inputs, probabilities = X, partial(image_probabilities, info=self.info_)
        if isinstance(self.run_, TextRunConfig):
            probabilities = partial(text_probabilities, run=self.run_)
        else:
            inputs = _as_images(X)
        chunks = (inputs[i : i + CHUNK_SIZE] for i in range(0, len(inputs), CHUNK_SIZE))
        return np.concatenate([probabilities(self.model_, chunk) for chunk in chunks])

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of each."""
        best = self.predict_proba(X).argmax(-1)  # first: it refuses a classifier that is not fitted
        return np.asarray(self.classes_[best])

    def set_params(self, **changes: Any) -> Self:
        check_all_known("parameter", changes, self.get_params())
        super().set_params(**changes)
        return self


def _as_images(X: Any) -> NDArray[np.uint8]:
    return to_uint8(np.asarray(X), "images", any_channels=True)


def _number_labels(y: Sequence[Any], count: int) -> tuple[NDArray[np.int64], list[Any]]:
    if len(y) != count:
        raise InputError(f"fit: {count:,} examples but {len(y):,} labels. Give one label per example.")
    classes, labels = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise InputError("fit: every label is the same. A classifier needs at least two classes.")
    return labels.astype(np.int64), classes.tolist()


COUNT = 12  # images with their predictions


def train_digits(out_folder: str | Path, *, log: Log = to_stderr) -> tuple[run_folders.Result, FigureBlock]:
    """Train on the digits into ``out_folder``/digits, write its report, and draw predictions."""
    run = vision("digits")
    data: Any = run_folders.load_data(run, log=log)
    folder = Path(out_folder) / "digits"
    result = train(run, folder, log=log, data=data)
    log("writing its report ...")
    write_report(result, log=log)
    return result, predictions_figure(folder, data)


def predictions_figure(folder: Path, data: Images) -> FigureBlock:
    """The first test images with their predictions, and a caption."""
    images, labels = data.test.images[:COUNT], data.test.labels[:COUNT]
    info = run_folders.load_data_info(folder)
    probabilities = image_probabilities(run_folders.load_model(folder), images, info)
    predicted = probabilities.argmax(-1)
    captions = []
    for row, label, choice in zip(probabilities, labels, predicted, strict=True):
        true = "" if choice == label else f", true: {info.classes[label]}"
        captions.append(f"{info.classes[choice]} ({row[choice]:.0%}){true}")
    correct = int((predicted == labels).sum())
    caption = f"The first {COUNT} test images with their predictions: {correct} are correct."
    return FigureBlock(figures.image_figure(images, captions), "test images and predictions", caption)
