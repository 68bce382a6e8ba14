"""Other ways of writing a right answer: conventions, not mistakes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headwork.exercises.case import Case
from headwork.grading.answers import Entries


def other_forms(case: Case, path: str, typed: Entries) -> Iterator[tuple[str, Entries]]:
    """The answer read under each other convention that is valid here, with what is to be said about it."""
    slug = case.mechanism.slug
    if slug == "sinusoidal-positions" and path == "output":
        # All sines first and then all cosines, instead of in pairs.
        half = typed.shape[-1] // 2
        order = np.arange(2 * half).reshape(2, half).T.reshape(-1)
        yield (
            "written in halves, sines first: as good as in pairs",
            typed.moved(lambda part: part[..., order]),
        )
    if slug == "head-shapes" and path in ("query", "per head"):
        # Heads before tokens is how the numbers lie in memory while attention runs.
        yield (
            "heads before tokens: as good as tokens before heads",
            typed.moved(lambda part: part[[0, 2, 1, 3]]),
        )
