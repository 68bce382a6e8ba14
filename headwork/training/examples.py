"""Examples as the loop takes them: whole sets in memory, batches by place, images and texts alike.

``prepare`` loads what a run names and completes the run by it: image size, channels, classes, vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from headwork.data import (
    KNOWN,
    Encoded,
    Images,
    ImageSplit,
    Texts,
    TextSplit,
    Tokenizer,
    batches,
    batches_in_order,
    fetch,
    load_images,
    load_texts,
    read_tokenizer,
    train_tokenizer,
)
from headwork.data.images import normalised
from headwork.data.splits import Indices
from headwork.errors import InputError, unknown
from headwork.models import (
    Model,
    TextClassifier,
    TextClassifierConfig,
    TextEncoder,
    VisionTransformer,
    VisionTransformerConfig,
)
from headwork.models.registry import build_classifier
from headwork.training.augmentation import Augmentation, draws, erased, moved
from headwork.training.counting import start_with_counts
from headwork.training.recipes import Run, TextRun, VisionRun
from headwork.training.seeds import AUGMENTATION, INITIALISATION, generator, mix
from headwork.training.starting import cannot_start, start_as_convolution

IN_MEMORY = "given in memory"  # in the place of the data's name
Batch = tuple[tuple[Tensor, ...], Tensor]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What there is to know of the data later on, without the data: kept beside the model."""

    name: str
    classes: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    channels: int = 0
    size: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    tokenizer: str = ""  # SHA-256

    @classmethod
    def read(cls, data: Any) -> Facts:
        lists = ("classes", "notes", "mean", "std")
        read: dict[str, Any] = {
            name: tuple(value) if name in lists else value for name, value in data.items()
        }
        return cls(**read)

    def as_data(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }


class Examples(Protocol):
    """One part of the data."""

    labels: Tensor

    def order(self, size: int, seed: int, epoch: int) -> list[Indices]: ...

    def in_order(self, size: int) -> list[Indices]: ...

    def batch(self, chosen: Indices, *, part: slice = ..., drawn_by: tuple[int, int] | None = None) -> Batch:
        """The inputs and labels at those places, or a ``part`` of them; augmented by (seed, step) where asked."""
        ...


class ImageExamples:
    """Images as bytes, normalised when a batch is taken."""

    def __init__(self, split: ImageSplit, facts: Facts, augmentation: Augmentation, precision: str) -> None:
        self.images, self.labels = split.tensors()
        self.facts, self.augmentation, self.dtype = facts, augmentation, getattr(torch, precision)

    def order(self, size: int, seed: int, epoch: int) -> list[Indices]:
        return batches(len(self.labels), size, seed=seed, epoch=epoch)

    def in_order(self, size: int) -> list[Indices]:
        return batches_in_order(len(self.labels), size)

    def batch(
        self, chosen: Indices, *, part: slice = slice(None), drawn_by: tuple[int, int] | None = None
    ) -> Batch:
        places = torch.from_numpy(chosen[part])
        images = self.images[places]
        mean, std = self.facts.mean, self.facts.std
        if drawn_by is None or not self.augmentation.active:
            inputs = normalised(images, mean, std)
        else:
            drawn = draws(self.augmentation, len(chosen), generator(AUGMENTATION, *drawn_by))
            drawn = {name: rows[part] for name, rows in drawn.items()}
            inputs = erased(
                normalised(moved(images, drawn, self.augmentation), mean, std), drawn, self.augmentation
            )
        return (inputs.to(self.dtype),), self.labels[places]


class TextExamples:
    """Texts as tokens; a batch holds texts of about one length, and what pads them is masked."""

    def __init__(self, encoded: Encoded) -> None:
        self.encoded, self.labels = encoded, torch.from_numpy(encoded.labels)

    def order(self, size: int, seed: int, epoch: int) -> list[Indices]:
        return batches(len(self.labels), size, seed=seed, epoch=epoch, lengths=self.encoded.lengths)

    def in_order(self, size: int) -> list[Indices]:
        return batches_in_order(len(self.labels), size, self.encoded.lengths)

    def batch(
        self, chosen: Indices, *, part: slice = slice(None), drawn_by: tuple[int, int] | None = None
    ) -> Batch:
        tokens, mask, labels = self.encoded.tensors(chosen[part])
        return (tokens, mask), labels


@dataclass(frozen=True)
class Prepared:
    """A run with its data, ready to begin."""

    run: Run
    facts: Facts
    training: Examples
    validation: Examples
    read_test: Callable[[], Examples]
    shown: Images | Texts  # for pictures and sentences in reports
    tokenizer: Tokenizer | None = None
    encoder: TextEncoder | None = None

    def model(self) -> Model:
        """A new model, its random start decided by the seed; on a pretrained encoder where the run names one."""
        config: Any = self.run.model  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(INITIALISATION, self.run.seed))
            if self.encoder is None:
                model = build_classifier(config)
                if getattr(self.run, "start", "random") == "convolution":
                    assert isinstance(model, VisionTransformer)
                    start_as_convolution(model)
            else:
                model = TextClassifier.on(self.encoder, classes=config.classes, pooling=config.pooling)
                model = TextClassifier(config, model.encoder)
        if isinstance(model, TextClassifier) and model.ngrams is not None:
            start_with_counts(model, self.training)
        return self.tokenized(model)

    def tokenized(self, model: Model) -> Model:
        """The model in the run's precision, with its tokenizer."""
        model = model.to(getattr(torch, self.run.precision))
        if self.tokenizer is not None:
            model.tokenizer = self.tokenizer.inner
        return model


def prepare(
    run: Run, *, tokenizer: bytes | None = None, say: Say, data: Images | Texts | None = None
) -> Prepared:
    """Load the data and complete the run by it. ``tokenizer`` is the one that the run began with, to resume."""
    if data is None and run.data == IN_MEMORY:
        raise InputError(
            "the run's data was given in memory (Classifier.fit), so it cannot be loaded again. "
            "Use what holds that data: fit, predict and score; or evaluate with --data FILE."
        )
    if data is None:
        run = replace(run, data=_found(run.data, KNOWN))
    if isinstance(run, VisionRun):
        images = data or load_images(
            run.data, seed=run.seed, validation=run.validation, size=run.size or None, say=say
        )
        assert isinstance(images, Images)
        return _with_images(run, images, say)
    assert isinstance(run, TextRun)
    texts = data or load_texts(
        run.data, seed=run.seed, validation=run.validation, columns=run.columns, say=say
    )
    assert isinstance(texts, Texts)
    return _with_texts(run, texts, tokenizer, say)


def _found(name: str, known: Mapping[str, Any]) -> str:
    """A path in full, so that the run can be resumed from any folder; a known name as it is."""
    slug = name.replace("_", "-").lower()
    return str(Path(name).resolve()) if slug not in known and Path(name).exists() else name


def _with_images(run: VisionRun, data: Images, say: Say) -> Prepared:
    height, width = data.size
    if height != width:
        raise InputError(
            f"{data.name}: images of {height} x {width} (height, width). The models take square ones: "
            "have a folder's pictures scaled with --set size=32, or cut those of an .npz square."
        )
    facts = Facts(
        name=data.name,
        classes=data.classes,
        digest=data.digest,
        notes=data.notes,
        counts=_counts(data),
        channels=data.channels,
        size=height,
        mean=data.mean,
        std=data.std,
    )
    config = replace(run.model, image=height, channels=data.channels, classes=len(data.classes))
    run = replace(run, model=config)
    reason = cannot_start(config) if isinstance(config, VisionTransformerConfig) else ""
    if run.start == "convolution" and reason:
        say(f"! the heads start at random, not as a convolution: {reason}.")
        run = replace(run, start="random")

    def examples(split: ImageSplit) -> ImageExamples:
        return ImageExamples(split, facts, run.augmentation, run.precision)

    return Prepared(
        run, facts, examples(data.train), examples(data.validation), lambda: examples(data.test), data
    )


def _with_texts(run: TextRun, data: Texts, kept: bytes | None, say: Say) -> Prepared:
    pretrained = None
    if kept is not None:
        tokenizer = tokenizer_from(kept, run.longest)
    elif run.encoder:
        run = replace(run, encoder=_found(run.encoder, KNOWN))
        pretrained, folder = _encoder(run, say)
        tokenizer = read_tokenizer(folder / "tokenizer.json", max_length=run.longest)
        run = replace(run, model=_on_encoder(run, pretrained, len(data.classes)))
    else:
        say(f"training a tokenizer on the {len(data.train):,} training texts ...")
        tokenizer = train_tokenizer(data.train.texts, vocabulary=run.model.vocabulary, max_length=run.longest)
        config = replace(
            run.model, vocabulary=tokenizer.vocabulary, max_length=run.longest, classes=len(data.classes)
        )
        run = replace(run, model=config)
    facts = Facts(
        name=data.name,
        classes=data.classes,
        digest=data.digest,
        notes=data.notes,
        counts=_counts(data),
        tokenizer=tokenizer_digest(tokenizer),
    )

    def examples(split: TextSplit) -> TextExamples:
        return TextExamples(tokenizer.encoded(split))

    return Prepared(
        run,
        facts,
        examples(data.train),
        examples(data.validation),
        lambda: examples(data.test),
        data,
        tokenizer,
        pretrained,
    )


def _counts(data: Images | Texts) -> dict[str, int]:
    return {"training": len(data.train), "validation": len(data.validation)}


def _encoder(run: TextRun, say: Say) -> tuple[TextEncoder, Path]:
    """The pretrained encoder that a run names: a known one, or a folder in the transformers library's form."""
    from headwork.models.pretrained import from_transformers

    known = [name for name, entry in KNOWN.items() if entry.kind == "encoder"]
    folder = Path(run.encoder)
    if run.encoder in known:
        folder = fetch(run.encoder, say=say)
    elif not folder.is_dir():
        raise unknown("encoder (and no such folder)", run.encoder, known)
    encoder = from_transformers(folder)
    if not isinstance(encoder, TextEncoder):
        raise InputError(
            f"--encoder {run.encoder}: a {type(encoder).__name__}. Expected an encoder of texts."
        )
    if run.longest > encoder.config.max_length:
        raise InputError(
            f"longest {run.longest}: the encoder has positions for {encoder.config.max_length} tokens only."
        )
    return encoder, folder


def _on_encoder(run: TextRun, encoder: TextEncoder, classes: int) -> TextClassifierConfig:
    chosen = {
        "classes": classes,
        "dropout": run.model.dropout,
        "pooling": run.model.pooling,
        "kernel": run.model.kernel,
    }
    return TextClassifierConfig(**{**asdict(encoder.config), **chosen})


def tokenizer_from(data: bytes, max_length: int) -> Tokenizer:
    """A tokenizer of its bytes."""
    from headwork.models.checkpoints import tokenizer_of

    return Tokenizer(tokenizer_of(data, Path("tokenizer.json")), max_length)


def tokenizer_bytes(tokenizer: Tokenizer) -> bytes:
    return str(tokenizer.inner.to_str(pretty=True)).encode()


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(tokenizer_bytes(tokenizer)).hexdigest()
