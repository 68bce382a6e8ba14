"""Other conventions for writing a correct answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwork.exercises.case import Case
from headwork.grading.answers import Entries


def other_conventions(case: Case, path: str, entries: Entries) -> Iterator[tuple[str, Entries]]:
    """The answer read under each other convention that is valid here, with a remark."""
    slug = case.mechanism.slug
    if slug == "sinusoidal-positions" and path == "output":
        # All sines first and then all cosines, instead of in pairs.
        half = entries.shape[-1] // 2
        order = np.arange(2 * half).reshape(2, half).T.reshape(-1)
        yield "written in halves, sines first, instead of pairs", entries.rearrange(lambda a: a[..., order])
    if slug == "head-shapes" and path in ("query", "per head"):
        # Heads before tokens is the layout in memory while attention runs.
        yield "heads before tokens", entries.rearrange(lambda a: a[[0, 2, 1, 3]])
