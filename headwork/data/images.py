"""Images in memory: uint8 (image, channel, height, width), with labels, split into train, validation and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headwork.data.splits import Indices
from headwork.errors import InputError, sizes_in_words

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ImageSplit:
    """One part of a set: images (image, channel, height, width) and their labels (image).

    >>> split = ImageSplit(np.zeros((3, 1, 8, 8), np.uint8), np.array([0, 1, 1]))
    >>> len(split), len(split.at(np.array([2, 0])))
    (3, 2)
    """

    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, places: Indices) -> ImageSplit:
        """The images at those places, in that order."""
        return ImageSplit(self.images[places], self.labels[places])

    def tensors(self) -> tuple[Tensor, Tensor]:
        """The whole part as torch tensors, uint8 and int64, that share its memory."""
        import torch

        return torch.from_numpy(self.images), torch.from_numpy(self.labels)


@dataclass(frozen=True)
class Images:
    """A set of images. ``test`` is read when it is first touched: leave it until the end."""

    name: str
    classes: tuple[str, ...]
    train: ImageSplit
    validation: ImageSplit
    read_test: Callable[[], ImageSplit] = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()  # how the parts were made
    test_given: bool = True  # or held out of what was given

    @cached_property
    def test(self) -> ImageSplit:
        return self.read_test()

    @property
    def channels(self) -> int:
        return int(self.train.images.shape[1])

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.train.images.shape[2]), int(self.train.images.shape[3])

    @cached_property
    def _moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        # By the counts of the 256 values: exact, and without a float copy of the whole set.
        values = np.arange(256) / 255
        means, deviations = [], []
        for channel in range(self.channels):
            counts = np.bincount(self.train.images[:, channel].ravel(), minlength=256)
            share = counts / counts.sum()
            mean = float(share @ values)
            means.append(mean)
            deviations.append(float(np.sqrt(share @ (values - mean) ** 2)))
        return tuple(means), tuple(deviations)

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of each channel over the training images, of values from 0 to 1."""
        return self._moments[0]

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation of each channel over the training images, of values from 0 to 1."""
        return self._moments[1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is trained and validated on: the same data and split has the same one."""
        found = sha256("\n".join(self.classes).encode())
        for split in (self.train, self.validation):
            found.update(str(split.images.shape).encode())
            found.update(np.ascontiguousarray(split.images).data)
            found.update(np.ascontiguousarray(split.labels).data)
        return found.hexdigest()

    def normalised(self, images: Tensor) -> Tensor:
        """A batch of uint8 images as float32 with mean 0 and deviation 1, by the training images' moments."""
        return normalised(images, self.mean, self.std)


def normalised(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """uint8 images (batch, channel, height, width) as float32 with these moments taken out.

    >>> import torch
    >>> normalised(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), (0.5,), (0.25,)).item()
    2.0
    """
    import torch

    # A channel that never changes has no deviation: it becomes 0.
    shift = torch.tensor(mean, device=images.device).view(-1, 1, 1)
    scale = torch.tensor([value or 1.0 for value in std], device=images.device).view(-1, 1, 1)
    return (images.float() / 255 - shift) / scale


def check_images(name: str, classes: tuple[str, ...], split: ImageSplit, *, several: bool = True) -> None:
    """Images and labels that belong together: as many of each, every label a class, of several classes."""
    images, labels = split.images, split.labels
    if images.ndim != 4 or images.dtype != np.uint8 or 0 in images.shape:
        raise InputError(
            f"{name}: images are {sizes_in_words(images.shape, 'image channel height width')} of {images.dtype}. "
            "Expected bytes, four axes, none empty."
        )
    if labels.shape != images.shape[:1]:
        raise InputError(
            f"{name}: {len(images):,} images but {labels.size:,} labels. Expected one label an image."
        )
    if int(labels.min()) < 0 or int(labels.max()) >= len(classes):
        raise InputError(
            f"{name}: labels run from {labels.min()} to {labels.max()}; there are {len(classes)} classes."
        )
    if several and len(np.unique(labels)) < 2:
        only = classes[int(labels[0])]
        raise InputError(f"{name}: every image is of one class, '{only}'. A classifier needs at least two.")
