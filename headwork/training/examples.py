"""Examples as the loop takes them: whole sets in memory, batches by index, images and texts alike."""

import torch
from torch import Tensor

from headwork.data import EncodedTexts, ImageSplit, batches, batches_in_order
from headwork.data.datasets import normalise
from headwork.data.splits import Indices
from headwork.training.augmentation import draw, erase, flip_and_shift
from headwork.training.folders import DataInfo
from headwork.training.recipes import Augmentation
from headwork.training.seeds import AUGMENTATION, generator

Batch = tuple[tuple[Tensor, ...], Tensor]
EVERY_ROW = slice(None)


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
