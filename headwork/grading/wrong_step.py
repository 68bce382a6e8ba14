"""A wrong step beside what it should be, and what is said about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headwork.exercises.case import Array, Steps
from headwork.grading.answers import Entries, mismatches, tolerance


@dataclass(frozen=True)
class Cause:
    """Why a step is wrong: a mistake's slug (two joined by `` + ``), a sentence, and the evidence.

    ``edit`` and ``operands`` say how the step was worked out instead. Causes with one ``charge`` are one
    mistake. ``doubt`` is "doubtful" where a slip is as likely, "beside" where an authored mistake says it
    better, "thin" where too much else gives these numbers: these two are told only if other steps show it.
    ``bits`` says how rare the mistake is, ``shown`` how unlikely these numbers are without it.
    """

    slug: str
    sentence: str
    evidence: str = ""
    step: str = ""
    edit: str = ""
    operands: tuple[str, ...] = ()
    charge: str = ""
    doubt: str = ""
    bits: float = 0.0
    shown: float = 0.0

    @property
    def is_named(self) -> bool:
        """Whether it is told although no other step shows it."""
        return self.doubt not in ("thin", "beside")

    @property
    def name(self) -> str:
        return self.slug.replace("-", " ")


@dataclass(frozen=True)
class WrongStep:
    """A wrong step: the entries, which of them differ from the reference, and the earlier steps.

    ``bases`` are the two sets of earlier steps that a student may have continued from: the right ones in full
    precision, or all as written; ``half_units`` is half a unit of the last digit of each entry of the latter.
    """

    path: str
    entries: Entries
    reference: Array
    cells: Array
    bases: Sequence[Steps]
    half_units: Steps
    digits: int

    @property
    def positions(self) -> list[tuple[int, ...]]:
        """The indices of the entries that differ."""
        return [tuple(int(i) for i in index) for index in np.argwhere(self.cells)]

    @cached_property
    def allowed(self) -> Array:
        """How far each entry may be off."""
        return tolerance(self.entries, self.digits)

    def matches(self, value: Array, slack: Any = 0.0) -> bool:
        """Whether a value is what the student wrote, to the digits written."""
        entries = self.entries.fit(value.shape)
        if entries is None:
            return False
        allowed = tolerance(entries, self.digits) + slack
        return not (mismatches(entries, value, allowed) & ~entries.blank).any()
