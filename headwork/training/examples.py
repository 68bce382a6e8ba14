"""Examples as the loop takes them: whole sets in memory, batches by index, images and texts alike."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwork.data import EncodedTexts, ImageSplit, batches, batches_in_order
from headwork.data.datasets import normalise
from headwork.data.splits import Indices
from headwork.errors import InputError
from headwork.training.augmentation import Augmentation, draw, erase, flip_and_shift
from headwork.training.seeds import AUGMENTATION, generator

Batch = tuple[tuple[Tensor, ...], Tensor]
EVERY_ROW = slice(None)
MAX_SIDE = 4096  # pixels


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """What a run records about its data, in ``data.json``: enough to use the model without the data."""

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
    def read(cls, data: Any, where: str | Path) -> "DataInfo":
        """The content of a data.json."""
        with as_written(where):
            kinds: dict[str, Any] = {"classes": str, "notes": str, "mean": float, "std": float}
            lists: Any = {name: tuple(map(kind, data.get(name, ()))) for name, kind in kinds.items()}
            info = cls(**{**data, **lists})
            if not (0 <= info.size <= MAX_SIDE and info.channels == len(info.mean) == len(info.std) <= 3):
                raise ValueError("channels, size, mean and std do not belong together")
        return info


@contextmanager
def as_written(where: str | Path) -> Iterator[None]:
    """Whoever uses a file of a run finds what a run writes, or this error: anybody may have edited it."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: not what a run writes there ({type(error).__name__}: {error})."
        ) from error
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: {error}.") from error


class Examples:
    """One part of the data; by their ``lengths`` texts of about one length share a batch."""

    labels: Tensor
    lengths: Indices | None = None

    def shuffled_batches(self, size: int, seed: int, epoch: int) -> list[Indices]:
        return batches(len(self.labels), size, seed=seed, epoch=epoch, lengths=self.lengths)

    def sequential_batches(self, size: int) -> list[Indices]:
        return batches_in_order(len(self.labels), size, self.lengths)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, seed: tuple[int, int] | None = None) -> Batch:
        """Inputs and labels at these indices, or a ``part``; augmented by (seed, step) if given."""
        raise NotImplementedError


class ImageExamples(Examples):
    """Images as bytes, normalised when a batch is taken."""

    def __init__(self, split: ImageSplit, info: DataInfo, augmentation: Augmentation, precision: str) -> None:
        self.images, self.labels = split.tensors()
        self.info, self.augmentation, self.dtype = info, augmentation, getattr(torch, precision)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, seed: tuple[int, int] | None = None) -> Batch:
        rows = torch.from_numpy(indices[part])
        images = self.images[rows]
        mean, std = self.info.mean, self.info.std
        if seed is None or not self.augmentation.active:
            inputs = normalise(images, mean, std)
        else:
            drawn = draw(self.augmentation, len(indices), generator(AUGMENTATION, *seed))
            drawn = {name: values[part] for name, values in drawn.items()}
            images = flip_and_shift(images, drawn, self.augmentation)
            inputs = erase(normalise(images, mean, std), drawn, self.augmentation)
        return (inputs.to(self.dtype),), self.labels[rows]


class TextExamples(Examples):
    """Texts as tokens; padding is masked."""

    def __init__(self, encoded: EncodedTexts) -> None:
        self.encoded, self.lengths = encoded, encoded.lengths
        self.labels = torch.from_numpy(encoded.labels)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, seed: tuple[int, int] | None = None) -> Batch:
        tokens, mask, labels = self.encoded.tensors(indices[part])
        return (tokens, mask), labels
