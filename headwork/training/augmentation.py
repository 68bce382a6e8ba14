"""Augmentation of images by batch: flips, shifts, random erasing (Zhong et al. 2017, arXiv 1708.04896).

The random draws depend on (seed, step) only, and are made for the whole batch even where a process holds a
part of it: so a resumed run, or one on many machines, sees the same images.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwork.errors import InputError

LARGEST_ERASED = 0.4  # of a side
Draws = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """``flip`` left and right, ``shift`` by up to so many pixels, ``erase`` a rectangle in some images."""

    flip: bool = True
    shift: int = 1
    erase: float = 0.2

    def __post_init__(self) -> None:
        if not isinstance(self.flip, bool):
            raise InputError(f"augmentation: flip is {self.flip!r}. Give true or false.")
        if not isinstance(self.shift, int) or not 0 <= self.shift < 10_000:
            raise InputError(f"augmentation: shift is {self.shift!r}. Give whole pixels, at least 0.")
        if not isinstance(self.erase, (int, float)) or not 0 <= self.erase <= 1:
            raise InputError(f"augmentation: erase is {self.erase!r}. Give a share from 0 to 1.")

    @property
    def active(self) -> bool:
        return bool(self.flip or self.shift or self.erase)


def draw(augmentation: Augmentation, count: int, source: torch.Generator) -> Draws:
    """What happens to each image of a batch, one row per image."""
    return {
        "flip": torch.rand(count, generator=source) < (0.5 if augmentation.flip else 0.0),
        "shift": torch.randint(-augmentation.shift, augmentation.shift + 1, (count, 2), generator=source),
        "erase": torch.rand(count, generator=source) < augmentation.erase,
        "rectangle": torch.rand(count, 4, generator=source),
    }


def flip_and_shift(images: Tensor, drawn: Draws, augmentation: Augmentation) -> Tensor:
    """Flips and shifts of images as bytes; pixels from outside are 0, the background.

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
    >>> drawn = {"flip": torch.tensor([True]), "shift": torch.tensor([[1, 0]])}
    >>> flip_and_shift(image, drawn, Augmentation(shift=1)).tolist()
    [[[[0, 0], [2, 1]]]]
    """
    if augmentation.flip:
        images = torch.where(drawn["flip"][:, None, None, None], images.flip(-1), images)
    if augmentation.shift:
        edge, (height, width) = augmentation.shift, images.shape[-2:]
        padded = torch.nn.functional.pad(images, (edge, edge, edge, edge))
        down, right = (drawn["shift"][:, k, None] for k in (0, 1))
        rows = torch.arange(edge, edge + height) - down
        columns = torch.arange(edge, edge + width) - right
        number = torch.arange(len(images))[:, None, None, None]
        channel = torch.arange(images.shape[1])[None, :, None, None]
        images = padded[number, channel, rows[:, None, :, None], columns[:, None, None, :]]
    return images


def erase(images: Tensor, drawn: Draws, augmentation: Augmentation) -> Tensor:
    """A rectangle of some images set to 0, which is the mean where they are normalised."""
    if not augmentation.erase:
        return images
    share, where = drawn["rectangle"][:, :2], drawn["rectangle"][:, 2:]
    sides = torch.tensor(images.shape[-2:])
    size = (0.1 + (LARGEST_ERASED - 0.1) * share) * sides
    start = where * (sides - size)
    inside = []
    for axis in (0, 1):
        pixels = torch.arange(int(sides[axis])) + 0.5
        first, length = start[:, axis, None], size[:, axis, None]
        inside.append((pixels >= first) & (pixels < first + length))
    mask = drawn["erase"][:, None, None] & inside[0][:, :, None] & inside[1][:, None, :]
    return images.masked_fill(mask[:, None], 0.0)
