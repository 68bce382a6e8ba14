"""Texts in memory with their labels, split into train, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from headwork.data.splits import Indices


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

    def at(self, places: Indices) -> TextSplit:
        """The texts at those places, in that order."""
        return TextSplit([self.texts[place] for place in places], self.labels[places])


@dataclass(frozen=True)
class Texts:
    """A set of texts. ``test`` is read when it is first touched: leave it until the end."""

    name: str
    classes: tuple[str, ...]
    train: TextSplit
    validation: TextSplit
    read_test: Callable[[], TextSplit] = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()  # how the parts were made
    test_given: bool = True  # or held out of what was given

    @cached_property
    def test(self) -> TextSplit:
        return self.read_test()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what is trained and validated on: the same data and split has the same one."""
        found = sha256("\n".join(self.classes).encode())
        for split in (self.train, self.validation):
            for text in split.texts:
                written = text.encode("utf-8", "surrogatepass")
                found.update(len(written).to_bytes(8, "little") + written)
            found.update(np.ascontiguousarray(split.labels).data)
        return found.hexdigest()
