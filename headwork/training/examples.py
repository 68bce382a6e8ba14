"""Examples as the loop takes them: whole sets in memory, batches by index, images and texts alike.

Images are augmented by batch: flips, shifts, random erasing (Zhong et al. 2017, arXiv 1708.04896). The random
draws depend on (seed, step) only, and are made for the whole batch even where a process holds a part of it:
so a resumed run, or one on many machines, sees the same images.
"""

import torch
from torch import Tensor

from headwork.data import EncodedTexts, ImageSplit, batches, batches_in_order
from headwork.data.datasets import normalise
from headwork.data.splits import Indices
from headwork.training.recipes import Augmentation
from headwork.training.run_folders import DataInfo
from headwork.training.seeds import AUGMENTATION_STREAM, generator

Batch = tuple[tuple[Tensor, ...], Tensor]
EVERY_ROW = slice(None)
MAX_ERASED = 0.4  # of a side
Draws = dict[str, Tensor]
Seed = tuple[int, int] | None  # (seed, step)


class Examples:
    """One part of the data; by their ``lengths`` texts of about one length share a batch."""

    labels: Tensor
    lengths: Indices | None = None

    def shuffled_batches(self, size: int, seed: int, epoch: int) -> list[Indices]:
        return batches(len(self.labels), size, seed=seed, epoch=epoch, lengths=self.lengths)

    def sequential_batches(self, size: int) -> list[Indices]:
        return batches_in_order(len(self.labels), size, self.lengths)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, augmentation_seed: Seed = None) -> Batch:
        """Inputs and labels at these indices, or a ``part``; augmented by (seed, step) if given."""
        raise NotImplementedError


class ImageExamples(Examples):
    """Images as bytes, normalised when a batch is taken."""

    def __init__(self, split: ImageSplit, info: DataInfo, augmentation: Augmentation, precision: str) -> None:
        self.images, self.labels = split.tensors()
        self.info, self.augmentation, self.dtype = info, augmentation, getattr(torch, precision)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, augmentation_seed: Seed = None) -> Batch:
        rows = torch.from_numpy(indices[part])
        images, mean, std = self.images[rows], self.info.mean, self.info.std
        if augmentation_seed is None or not self.augmentation.active:
            inputs = normalise(images, mean, std)
        else:
            source = generator(AUGMENTATION_STREAM, *augmentation_seed)
            draws = draw_augmentation(self.augmentation, len(indices), source)
            draws = {name: values[part] for name, values in draws.items()}
            images = flip_and_shift(images, draws, self.augmentation)
            inputs = erase(normalise(images, mean, std), draws, self.augmentation)
        return (inputs.to(self.dtype),), self.labels[rows]


class TextExamples(Examples):
    """Texts as tokens; padding is masked."""

    def __init__(self, encoded: EncodedTexts) -> None:
        self.encoded, self.lengths = encoded, encoded.lengths
        self.labels = torch.from_numpy(encoded.labels)

    def batch(self, indices: Indices, part: slice = EVERY_ROW, augmentation_seed: Seed = None) -> Batch:
        tokens, mask, labels = self.encoded.tensors(indices[part])
        return (tokens, mask), labels


# --- augmentation -------------------------------------------------------------------------------
def draw_augmentation(augmentation: Augmentation, count: int, source: torch.Generator) -> Draws:
    """What happens to each image of a batch, one row per image."""
    return {
        "flip": torch.rand(count, generator=source) < (0.5 if augmentation.flip else 0.0),
        "shift": torch.randint(-augmentation.shift, augmentation.shift + 1, (count, 2), generator=source),
        "erase": torch.rand(count, generator=source) < augmentation.erase,
        "rectangle": torch.rand(count, 4, generator=source),
    }


def flip_and_shift(images: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    """Flips and shifts of images as bytes; pixels from outside are 0, the background.

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
    >>> draws = {"flip": torch.tensor([True]), "shift": torch.tensor([[1, 0]])}
    >>> flip_and_shift(image, draws, Augmentation(shift=1)).tolist()
    [[[[0, 0], [2, 1]]]]
    """
    if augmentation.flip:
        images = torch.where(draws["flip"][:, None, None, None], images.flip(-1), images)
    if augmentation.shift:
        edge, (height, width) = augmentation.shift, images.shape[-2:]
        padded = torch.nn.functional.pad(images, (edge, edge, edge, edge))
        down, right = (draws["shift"][:, k, None] for k in (0, 1))
        rows = torch.arange(edge, edge + height) - down
        columns = torch.arange(edge, edge + width) - right
        number = torch.arange(len(images))[:, None, None, None]
        channel = torch.arange(images.shape[1])[None, :, None, None]
        images = padded[number, channel, rows[:, None, :, None], columns[:, None, None, :]]
    return images


def erase(images: Tensor, draws: Draws, augmentation: Augmentation) -> Tensor:
    """A rectangle of some images set to 0, which is the mean where they are normalised."""
    if not augmentation.erase:
        return images
    share, where = draws["rectangle"][:, :2], draws["rectangle"][:, 2:]
    sides = torch.tensor(images.shape[-2:])
    size = (0.1 + (MAX_ERASED - 0.1) * share) * sides
    start = where * (sides - size)
    inside = []
    for axis in (0, 1):
        pixels = torch.arange(int(sides[axis])) + 0.5
        first, length = start[:, axis, None], size[:, axis, None]
        inside.append((pixels >= first) & (pixels < first + length))
    mask = draws["erase"][:, None, None] & inside[0][:, :, None] & inside[1][:, None, :]
    return images.masked_fill(mask[:, None], 0.0)
