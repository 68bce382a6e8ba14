"""Data sets in memory: images or texts with their labels, split into train, validation and test."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwork.data.splits import TEST_SEED, VALIDATION_STREAM, Indices, hold_out, words
from headwork.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ImageSplit:
    """One part of a set: images, uint8 (image, channel, height, width), and their labels (image).

    >>> split = ImageSplit(np.zeros((3, 1, 8, 8), np.uint8), np.array([0, 1, 1]))
    >>> len(split), len(split.at(np.array([2, 0])))
    (3, 2)
    """

    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, indices: Indices) -> "ImageSplit":
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
    >>> len(split), split.at(np.array([1])).texts
    (2, ['bad'])
    """

    texts: Sequence[str] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def at(self, indices: Indices) -> "TextSplit":
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
    def split(
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
            rest, held = hold_out(training.labels, test, TEST_SEED, what="test")
            test_part = training.at(held)
            training, test = training.at(rest), lambda: test_part
            remarks.append(words("split/test", count=len(held), total=total, noun=cls.noun))
        if isinstance(validation, float | int):
            total = len(training.labels)
            rest, held = hold_out(training.labels, validation, seed, VALIDATION_STREAM, contiguous=contiguous)
            validation, training = training.at(held), training.at(rest)
            how = ("contiguous" if contiguous else "drawn") if len(held) else "none"
            sizes = {"count": len(held), "total": total, "noun": cls.noun}
            remarks.append(words(f"split/held/{how}", seed=seed, **sizes))
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
        raise InputError(words("images/counts", name=name, images=len(images), labels=labels.size))
    if int(labels.min()) < 0 or int(labels.max()) >= len(classes):
        limits = {"low": labels.min(), "high": labels.max(), "classes": len(classes)}
        raise InputError(words("images/labels", name=name, **limits))
    if several and len(np.unique(labels)) < 2:
        raise InputError(words("images/one_class", name=name, only=classes[int(labels[0])]))
