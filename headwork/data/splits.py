"""Indices of held-out examples and of batches: pure functions of a seed, the same on every machine.

Random numbers come from NumPy's RandomState, whose stream is frozen: a newer NumPy draws the same split.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError

Indices = NDArray[np.int64]

# Number of batches sorted by length together: few enough to keep the order random, enough to save padding.
BATCHES_PER_BUCKET = 50
TEST_SEED = 2017  # the same whatever the run's seed, so that no run trains on what another is tested with
VALIDATION_STREAM, BATCH_STREAM = 1, 2  # what a draw is for: the same seed draws differently for each


def permutation(count: int, *seeds: int) -> Indices:
    """The numbers below ``count`` in an order that the seeds decide.

    >>> sorted(permutation(4, 0).tolist()), bool((permutation(9, 0) == permutation(9, 0)).all())
    ([0, 1, 2, 3], True)
    """
    if any(seed < 0 for seed in seeds):
        raise InputError(f"seed {min(seeds)}: expected a whole number, 0 or more.")
    rng = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(list(seeds))))
    return rng.permutation(count).astype(np.int64)


def hold_out(
    labels: NDArray[np.int64], share: float, *seeds: int, what: str = "validation", contiguous: bool = False
) -> tuple[Indices, Indices]:
    """The other indices and those held out, both shuffled: of each class the share, rounded, at least one.

    With ``contiguous`` those held out of a class are neighbours: for files in which similar examples are.

    >>> labels = np.array([0] * 8 + [1] * 4)
    >>> rest, held = hold_out(labels, 0.25, 0)
    >>> len(rest), sorted(labels[held].tolist())
    (9, [0, 0, 1])
    """
    if not 0 <= share < 1:
        raise InputError(f"{what} {share}: expected a share from 0 up to but not including 1, such as 0.1.")
    order = permutation(len(labels), *seeds)
    if share == 0:
        return order, order[:0]
    held = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        if contiguous:
            members = members[np.argsort((members - members[0]) % len(labels))]
        held[members[: min(max(1, int(share * len(members) + 0.5)), len(members) - 1)]] = True
    if not held.any():
        raise InputError(
            f"{what}: {len(labels)} examples, one of each class, leave none to hold out. "
            "Give three or more of each."
        )
    # Drawn anew: in the first order the rest would begin with the class that was complete first.
    order = permutation(len(labels), *seeds, 1)
    return order[~held[order]], order[held[order]]


def batches(
    count: int, size: int, *, seed: int, epoch: int, lengths: NDArray[np.int64] | Sequence[int] | None = None
) -> list[Indices]:
    """The batches of one epoch as indices into the split; the last may be smaller.

    With ``lengths`` a batch holds texts of similar length, which saves padding; which texts share a batch,
    and the order of the batches, stay random.

    >>> [len(batch) for batch in batches(5, 2, seed=0, epoch=0)]
    [2, 2, 1]
    """
    order = permutation(count, seed, BATCH_STREAM, epoch)
    if lengths is None:
        return _chunks(order, size)
    sizes = np.asarray(lengths)
    _chunks(order[:0], size)  # refuses a size that is none, before it is multiplied
    cut = [
        batch
        for bucket in _chunks(order, size * BATCHES_PER_BUCKET)
        for batch in _chunks(bucket[np.argsort(sizes[bucket], kind="stable")], size)
    ]
    return [cut[index] for index in permutation(len(cut), seed, BATCH_STREAM, epoch, 1)]


def batches_in_order(
    count: int, size: int, lengths: NDArray[np.int64] | Sequence[int] | None = None
) -> list[Indices]:
    """The batches of an evaluation: in order, or from short to long.

    >>> [batch.tolist() for batch in batches_in_order(3, 2, [9, 1, 5])]
    [[1, 2], [0]]
    """
    order = np.arange(count) if lengths is None else np.argsort(np.asarray(lengths), kind="stable")
    return _chunks(order.astype(np.int64), size)


def _chunks(order: Indices, size: int) -> list[Indices]:
    if size < 1:
        raise InputError(f"batch size {size}: expected at least 1.")
    return [order[start : start + size] for start in range(0, len(order), size)]
