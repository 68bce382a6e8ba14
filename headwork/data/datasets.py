"""Data sets in memory: images or texts with their labels, split into train, validation and test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwork.data.splits import TEST_SEED, VALIDATION_STREAM, Indices, hold_out
from headwork.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

COUNTED_AT_ONCE = 2**20  # pixels


@dataclass(frozen=True)
class ImageSplit:
    """One part of a set: images, uint8 (image, channel, height, width), and their labels (image).

    >>> split = ImageSplit(np.zeros((3, 1, 8, 8), np.uint8), np.array([0, 1, 1]))
    >>> len(split), len(split.select(np.array([2, 0])))
    (3, 2)
    """

    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, indices: Indices) -> "ImageSplit":
        """The images at those indices, in that order."""
        return ImageSplit(self.images[indices], self.labels[indices])

    def content(self) -> Iterator[Any]:
        """The bytes of the images."""
        yield str(self.images.shape).encode()
        yield np.ascontiguousarray(self.images).data

    def tensors(self) -> "tuple[Tensor, Tensor]":
        """The whole part as torch tensors, uint8 and int64, that share its memory."""
        import torch

        return torch.from_numpy(self.images), torch.from_numpy(self.labels)


@dataclass(frozen=True)
class TextSplit:
    """One part of a set: texts and their labels.

    >>> split = TextSplit(["good", "bad"], np.array([1, 0]))
    >>> len(split), split.select(np.array([1])).texts
    (2, ['bad'])
    """

    texts: Sequence[str] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def select(self, indices: Indices) -> "TextSplit":
        """The texts at those indices, in that order."""
        return TextSplit([self.texts[index] for index in indices], self.labels[indices])

    def content(self) -> Iterator[Any]:
        """The bytes of the texts, each after its length."""
        for text in self.texts:
            data = text.encode("utf-8", "surrogatepass")
            yield len(data).to_bytes(8, "little") + data


Split = TypeVar("Split", ImageSplit, TextSplit)


@dataclass(frozen=True)
class Dataset(Generic[Split]):
    """Labelled examples. ``test`` is read when it is first used: leave it until the end."""

    noun: ClassVar[str]  # what the examples are called

    name: str
    classes: tuple[str, ...]
    train: Split
    validation: Split
    read_test: Callable[[], Split] = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()  # how the parts were made
    has_test_part: bool = True  # or it was held out of the training part

    @classmethod
    def from_training(
        cls,
        name: str,
        classes: tuple[str, ...],
        training: Split,
        *,
        seed: int,
        validation: float | Split,
        test: float | Callable[[], Split] = 0.1,
        contiguous: bool = False,
        notes: Sequence[str] = (),
    ) -> Self:
        """The set with the parts that were given; others are shares of the training part, held out by class.

        Validation is drawn by the seed, test by a fixed one, the same for every run. With ``contiguous``
        validation is one run of neighbours in each class.
        """
        remarks = list(notes)
        has_test_part = callable(test)
        if not callable(test):
            total = len(training.labels)
            kept, held = hold_out(training.labels, test, TEST_SEED, what="test")
            test_part = training.select(held)
            training, test = training.select(kept), lambda: test_part
            part = f"{len(held):,} of the {total:,} {cls.noun}"
            remarks.append(f"test: {part}, held out by class, the same for every seed")
        if isinstance(validation, float | int):
            total = len(training.labels)
            kept, held = hold_out(training.labels, validation, seed, VALIDATION_STREAM, contiguous=contiguous)
            validation, training = training.select(held), training.select(kept)
            part = f"{len(held):,} of the {total:,} training {cls.noun}, held out by class"
            how = ", in one stretch each with" if contiguous else " with"
            remarks.append(f"validation: {part}{how} seed {seed}" if len(held) else "validation: none")
        return cls(name, classes, training, validation, test, tuple(remarks), has_test_part)

    @cached_property
    def test(self) -> Split:
        return self.read_test()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is trained and validated on: the same data and split has the same one."""
        total = sha256("\n".join(self.classes).encode())
        for split in (self.train, self.validation):
            for piece in split.content():
                total.update(piece)
            total.update(np.ascontiguousarray(split.labels).data)
        return total.hexdigest()


class Texts(Dataset[TextSplit]):
    """A set of texts."""

    noun = "texts"


class Images(Dataset[ImageSplit]):
    """A set of images."""

    noun = "images"

    @property
    def channels(self) -> int:
        return int(self.train.images.shape[1])

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.train.images.shape[2]), int(self.train.images.shape[3])

    @cached_property
    def _moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        # By the counts of the 256 values: exact, without a float copy of the whole set. Few are counted at a
        # time, because bincount takes eight bytes for each.
        values = np.arange(256) / 255
        means, deviations = [], []
        for channel in range(self.channels):
            flat = np.ascontiguousarray(self.train.images[:, channel]).ravel()
            pieces = np.array_split(flat, -(-flat.size // COUNTED_AT_ONCE))
            counts = np.sum([np.bincount(piece, minlength=256) for piece in pieces], axis=0)
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

    def normalise(self, images: "Tensor") -> "Tensor":
        """A batch of uint8 images as float32 with mean 0 and deviation 1, by the training images' moments."""
        tensor: Tensor = normalise(images, self.mean, self.std)
        return tensor


def normalise(images: Any, mean: tuple[float, ...], std: tuple[float, ...]) -> Any:
    """uint8 images (batch, channel, height, width), an array or a tensor, as float32 without these moments.

    >>> normalise(np.full((1, 1, 1, 1), 255, np.uint8), (0.5,), (0.25,)).item()
    2.0
    """
    # A channel that never changes has no deviation: it becomes 0.
    moments: Any = [np.array(m, np.float32).reshape(-1, 1, 1) for m in (mean, [s or 1.0 for s in std])]
    if isinstance(images, np.ndarray):
        decimals: Any = images.astype(np.float32)
    else:
        import torch

        decimals, moments = images.float(), [torch.from_numpy(m).to(images.device) for m in moments]
    return (decimals / 255 - moments[0]) / moments[1]


def check_images(name: str, classes: tuple[str, ...], split: ImageSplit, *, several: bool = True) -> None:
    """Images and labels that belong together: as many of each, every label a class, of several classes."""
    images, labels = split.images, split.labels
    if labels.shape != images.shape[:1]:
        raise InputError(
            f"{name}: {len(images):,} images but {labels.size:,} labels. Expected one label per image."
        )
    if int(labels.min()) < 0 or int(labels.max()) >= len(classes):
        low, high = labels.min(), labels.max()
        raise InputError(f"{name}: labels run from {low} to {high}; there are {len(classes)} classes.")
    if several and len(np.unique(labels)) < 2:
        raise InputError(
            f"{name}: every image is of one class, '{classes[int(labels[0])]}'. "
            "A classifier needs at least two."
        )
