"""Parts of a data set and the order of its batches: pure functions of a seed, the same on every machine.

Random numbers come from NumPy's RandomState, whose stream is frozen: a newer NumPy draws the same split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError

Indices = NDArray[np.int64]

# Batches that are sorted by length together: few enough to leave the order random, many enough to save padding.
BUCKET = 50
TEST_SEED = 2017  # of the held-out test part: the same whatever the run's seed, so that no run trains on another's test
VALIDATION, BATCHES = 1, 2  # what a draw is for: the same seed draws differently for each


def shuffled(count: int, *seeds: int) -> Indices:
    """The numbers below ``count`` in an order that the seeds decide.

    >>> sorted(shuffled(4, 0).tolist()), bool((shuffled(9, 0) == shuffled(9, 0)).all())
    ([0, 1, 2, 3], True)
    """
    if any(seed < 0 for seed in seeds):
        raise InputError(f"seed {min(seeds)}: expected a whole number, 0 or more.")
    draw = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(list(seeds))))
    return draw.permutation(count).astype(np.int64)


def held_out(
    labels: NDArray[np.int64], share: float, *seeds: int, what: str = "validation", neighbours: bool = False
) -> tuple[Indices, Indices]:
    """The places kept and the places held out, both shuffled: of each class the share, rounded, at least one.

    With ``neighbours`` those held out of a class stand together: for files in which what is alike stands together.

    >>> labels = np.array([0] * 8 + [1] * 4)
    >>> kept, held = held_out(labels, 0.25, 0)
    >>> len(kept), sorted(labels[held].tolist())
    (9, [0, 0, 1])
    """
    if not 0 <= share < 1:
        raise InputError(f"{what} {share}: expected a share from 0 up to, not with, 1, such as 0.1.")
    order = shuffled(len(labels), *seeds)
    if share == 0:
        return order, order[:0]
    held = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        if neighbours:
            members = members[np.argsort((members - members[0]) % len(labels))]
        held[members[: min(max(1, int(share * len(members) + 0.5)), len(members) - 1)]] = True
    if not held.any():
        raise InputError(
            f"{what}: {len(labels)} examples, one of each class, leave none to hold out. Give three or more of each."
        )
    # Drawn anew: in the first order the class that was complete first would open what is kept.
    order = shuffled(len(labels), *seeds, 1)
    return order[~held[order]], order[held[order]]


class Part(Protocol):
    """What can be carved up: labelled examples."""

    @property
    def labels(self) -> NDArray[np.int64]: ...

    def at(self, places: Indices, /) -> Self: ...


Some = TypeVar("Some", bound=Part)


def parts(
    training: Some,
    what: str,
    *,
    seed: int,
    validation: float,
    given: Some | None = None,
    read_test: Callable[[], Some] | None = None,
    test: float = 0.1,
    neighbours: bool = False,
    notes: tuple[str, ...] = (),
) -> tuple[Some, Some, Callable[[], Some], tuple[str, ...], bool]:
    """Train, validation, the reader of test, how they were made, and whether test was given.

    Validation is carved out by the seed unless one is given; so is test, but by a fixed seed, where none is given.
    With ``neighbours`` validation is a stretch of each class.
    """
    told = list(notes)
    test_given = read_test is not None
    if read_test is None:
        total = len(training.labels)
        kept, held = held_out(training.labels, test, TEST_SEED, what="test")
        tested = training.at(held)
        training, read_test = training.at(kept), lambda: tested
        told.append(
            f"test: {len(held):,} of the {total:,} {what}, held out by class, the same for every seed"
        )
    if given is None:
        total = len(training.labels)
        kept, held = held_out(training.labels, validation, seed, VALIDATION, neighbours=neighbours)
        given, training = training.at(held), training.at(kept)
        how = ", in one stretch each" if neighbours else ""
        told.append(
            f"validation: {len(held):,} of the {total:,} training {what}, held out by class{how} with seed {seed}"
        )
    return training, given, read_test, tuple(told), test_given


def batches(
    count: int, size: int, *, seed: int, epoch: int, lengths: NDArray[np.int64] | Sequence[int] | None = None
) -> list[Indices]:
    """The batches of one epoch as places in the split; the last may be smaller.

    With ``lengths`` a batch holds texts of about one length, which saves padding; which texts meet and
    which batch comes when stay random.

    >>> [len(batch) for batch in batches(5, 2, seed=0, epoch=0)]
    [2, 2, 1]
    """
    _check_size(size)
    order = shuffled(count, seed, BATCHES, epoch)
    if lengths is None:
        return _cut(order, size)
    measured = np.asarray(lengths)
    bucketed = [
        _cut(bucket[np.argsort(measured[bucket], kind="stable")], size)
        for bucket in _cut(order, size * BUCKET)
    ]
    cut = [batch for bucket in bucketed for batch in bucket]
    return [cut[place] for place in shuffled(len(cut), seed, BATCHES, epoch, 1)]


def batches_in_order(
    count: int, size: int, lengths: NDArray[np.int64] | Sequence[int] | None = None
) -> list[Indices]:
    """The batches of an evaluation: in order, or from short to long.

    >>> [batch.tolist() for batch in batches_in_order(3, 2, [9, 1, 5])]
    [[1, 2], [0]]
    """
    _check_size(size)
    order = (
        np.arange(count, dtype=np.int64)
        if lengths is None
        else np.argsort(np.asarray(lengths), kind="stable")
    )
    return _cut(order.astype(np.int64), size)


def _check_size(size: int) -> None:
    if size < 1:
        raise InputError(f"batch size {size}: expected at least 1.")


def _cut(order: Indices, size: int) -> list[Indices]:
    return [order[start : start + size] for start in range(0, len(order), size)]
