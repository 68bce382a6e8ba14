"""A run and its data made ready: ``prepare`` loads what the run names and completes the run by it.

The data decides image size, channels, classes and vocabulary.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headwork.data.catalog import CATALOG, get_entry
from headwork.data.datasets import Images, ImageSplit, Texts, TextSplit
from headwork.data.fetching import Log, fetch
from headwork.data.tokens import Tokenizer, parse_tokenizer, read_tokenizer, train_tokenizer
from headwork.errors import InputError, TooLarge, unknown_name
from headwork.loading.model import count_step_values
from headwork.mechanisms.configs import TextClassifierConfig, VisionTransformerConfig
from headwork.mechanisms.definitions import classifier_definition
from headwork.models import Model, TextClassifier, TextEncoder, VisionTransformer
from headwork.models.model import build_classifier
from headwork.training import initialisation
from headwork.training.examples import Examples, ImageExamples, TextExamples
from headwork.training.recipes import RunConfig, TextRunConfig, VisionRunConfig
from headwork.training.run_folders import DataInfo, load_data
from headwork.training.seeds import INITIALISATION_STREAM, derive_seed

MAX_BATCH_VALUES = 2**29  # numbers in all steps on a batch: some 3 GB
Data = Images | Texts


@dataclass(frozen=True)
class PreparedRun:
    """A run with its data, ready to begin."""

    run: RunConfig
    info: DataInfo
    training: Examples
    validation: Examples
    read_test: Callable[[], Examples]
    data: Data
    tokenizer: Tokenizer | None = None
    encoder: TextEncoder | None = None

    def new_model(self) -> Model:
        """A new model, initialised by the seed; on a pretrained encoder where the run names one."""
        config: Any = self.run.model  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(INITIALISATION_STREAM, self.run.seed))
            if self.encoder is None:
                model = build_classifier(config)
                if getattr(self.run, "initialisation", "random") == "convolution":
                    assert isinstance(model, VisionTransformer)
                    initialisation.initialise_as_convolution(model)
            else:
                model = TextClassifier.on(self.encoder, classes=config.classes, pooling=config.pooling)
                model = TextClassifier(config, model.encoder)
        if isinstance(model, TextClassifier) and model.ngrams is not None:
            initialisation.set_log_ratios(model, self.training)
        return self.fit_to_run(model)

    def fit_to_run(self, model: Model) -> Model:
        """The model in the run's precision, with its tokenizer."""
        model = model.to(getattr(torch, self.run.precision))
        if self.tokenizer is not None:
            model.tokenizer = self.tokenizer.inner
        return model


def prepare(
    run: RunConfig, *, tokenizer: bytes | None = None, log: Log, data: Data | None = None
) -> PreparedRun:
    """Load the data and complete the run by it. ``tokenizer`` is the one that a resumed run began with."""
    if data is None:
        run = replace(run, data=_absolute_path(run.data))
    loaded: Any = data or load_data(run, log=log)
    if isinstance(run, VisionRunConfig):
        return _prepare_images(run, loaded, log)
    assert isinstance(run, TextRunConfig)
    return _prepare_texts(run, loaded, tokenizer, log)


def _absolute_path(name: str) -> str:
    """A path in full, so that the run can be resumed from any folder; a known name as it is."""
    # os.path.exists is False for a name that is too long, too
    return name if get_entry(name) or not os.path.exists(name) else str(Path(name).resolve())


def _prepare_images(run: VisionRunConfig, data: Images, log: Log) -> PreparedRun:
    height, width = data.size
    if height != width:
        raise InputError(
            f"{data.name}: images of {height} x {width} (height, width). The models take square ones: "
            "scale the images of a folder with --set image_size=32, or crop those of an .npz to squares."
        )
    info = _data_info(data, channels=data.channels, size=height, mean=data.mean, std=data.std)
    config = replace(run.model, image_size=height, channels=data.channels, classes=len(data.classes))
    values = count_step_values(classifier_definition(config), config, data.name)
    if values * min(run.batch_size, len(data.train.labels)) > MAX_BATCH_VALUES:
        raise TooLarge(
            f"{data.name}: {run.batch_size:,} images of side {height:,} at once would fill the memory. Take "
            f"smaller batches: --set batch_size={MAX_BATCH_VALUES // values}"
        )
    run = replace(run, model=config)
    built = config if run.initialisation == "convolution" else None
    unsupported_reason = initialisation.convolution_unsupported_reason
    if isinstance(built, VisionTransformerConfig) and (reason := unsupported_reason(built)):
        log(f"! the heads start at random, not as a convolution: {reason}.")
        run = replace(run, initialisation="random")

    def examples(split: ImageSplit) -> ImageExamples:
        return ImageExamples(split, info, run.augmentation, run.precision)

    parts = examples(data.train), examples(data.validation), lambda: examples(data.test)
    return PreparedRun(run, info, *parts, data)


def _prepare_texts(run: TextRunConfig, data: Texts, saved_tokenizer: bytes | None, log: Log) -> PreparedRun:
    pretrained = None
    if saved_tokenizer is not None:
        tokenizer = parse_tokenizer(saved_tokenizer, run.max_length)
    elif run.encoder:
        run = replace(run, encoder=_absolute_path(run.encoder))
        pretrained, folder = _load_encoder(run, log)
        tokenizer = read_tokenizer(folder / "tokenizer.json", max_length=run.max_length)
        own_choices = {name: getattr(run.model, name) for name in ("dropout", "pooling", "backend")}
        sizes = {**asdict(pretrained.config), **own_choices, "classes": len(data.classes)}
        run = replace(run, model=TextClassifierConfig(**sizes))
    else:
        log(f"training a tokenizer on the {len(data.train):,} training texts ...")
        tokenizer = train_tokenizer(
            data.train.texts, vocabulary=run.model.vocabulary, max_length=run.max_length
        )
        sizes = {"vocabulary": tokenizer.vocabulary_size, "max_length": run.max_length}
        run = replace(run, model=replace(run.model, **sizes, classes=len(data.classes)))
    info = _data_info(data, tokenizer=hashlib.sha256(tokenizer.to_bytes()).hexdigest())

    def examples(split: TextSplit) -> TextExamples:
        return TextExamples(tokenizer.encode(split))

    parts = examples(data.train), examples(data.validation), lambda: examples(data.test)
    return PreparedRun(run, info, *parts, data, tokenizer, pretrained)


def _data_info(data: Data, **more: Any) -> DataInfo:
    counts = {"training": len(data.train), "validation": len(data.validation)}
    return DataInfo(
        name=data.name, classes=data.classes, digest=data.digest, notes=data.notes, counts=counts, **more
    )


def _load_encoder(run: TextRunConfig, log: Log) -> tuple[TextEncoder, Path]:
    """The pretrained encoder that a run names: a known one, or a folder of the transformers library."""
    from headwork.models.pretrained import from_transformers

    encoder_names = [name for name, entry in CATALOG.items() if entry.kind == "encoder"]
    folder = Path(run.encoder)
    if run.encoder in encoder_names:
        folder = fetch(run.encoder, log=log)
    elif not folder.is_dir():
        raise unknown_name("encoder (and no such folder)", run.encoder, encoder_names)
    encoder = from_transformers(folder)
    if not isinstance(encoder, TextEncoder):
        raise InputError(
            f"--encoder {run.encoder}: a {type(encoder).__name__}. Expected an encoder of texts."
        )
    most = encoder.config.max_length
    if run.max_length > most:
        raise InputError(f"max_length {run.max_length}: the encoder has positions for {most} tokens only.")
    return encoder, folder
