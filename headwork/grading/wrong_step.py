"""A wrong step beside what it should be, and what is said about it."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headwork.documents.number_format import number_text
from headwork.exercises.case import Array, Steps
from headwork.grading.answers import Entries, mismatches, tolerance

PARTS, GRID = (1, 2, 3, 4, 6, 8, 12), 2e-3  # numbers that are all thirds or quarters say less
SLIP_BITS = 5.0  # bits of a slip by one, by the sign; by more it is rarer

BUT_FOR_A_SLIP = "but for a slip in"  # of a cause that gives every wrong number except one


@dataclass(frozen=True)
class Cause:
    """Why a step is wrong: a mistake's slug (two joined by `` + ``), a sentence, and the evidence.

    ``edit`` and ``operands`` say how the step was worked out instead. Causes with one ``mistake_id`` are one
    mistake. ``doubt`` is "doubtful" where a slip is as likely, "beside" where an authored mistake says it
    better (``same_as``), "again" where another edit does, "thin" where too much else gives these numbers:
    these are told only if other steps show it.
    ``bits`` says how rare the mistake is, ``evidence_bits`` how unlikely these numbers are without it.
    """

    slug: str
    sentence: str
    evidence: str = ""
    step: str = ""
    edit_slug: str = ""
    operands: tuple[str, ...] = ()
    mistake_id: str = ""
    doubt: str = ""
    bits: float = 0.0
    evidence_bits: float = 0.0
    same_as: str = ""

    @property
    def is_named(self) -> bool:
        """Whether it is told although no other step shows it."""
        return self.doubt not in ("thin", "beside", "again")

    @property
    def name(self) -> str:
        return self.slug.replace("-", " ")


class StartingSteps(NamedTuple):
    """The earlier steps that a student may have continued from: right ones unrounded, or all as written."""

    precise: Steps
    written: Steps


@dataclass(frozen=True)
class WrongStep:
    """A wrong step: the entries, which of them differ from the reference, and the earlier steps.

    ``half_units`` is half a unit of the last digit of each entry of the earlier steps as written.
    """

    path: str
    entries: Entries
    reference: Array
    wrong_mask: Array
    starting_steps: StartingSteps
    half_units: Steps
    digits: int

    @property
    def wrong_positions(self) -> list[tuple[int, ...]]:
        """The indices of the entries that differ."""
        return [tuple(int(i) for i in index) for index in np.argwhere(self.wrong_mask)]

    @property
    def evidence_text(self) -> str:
        """What shows a cause that gives all entries: the number, or how many and the first that is wrong."""
        values = self.entries.values
        if values.size == 1:
            return f"it gives {number_text(values.reshape(-1)[0], self.digits)}, as you have"
        index = (self.wrong_positions or [(0,) * values.ndim])[0]
        example = f"{list(index)} = {number_text(values[index], self.digits)}"
        return f"it gives all {values.size} of your entries, such as {example}"

    @cached_property
    def allowed(self) -> Array:
        """How far each entry may be off."""
        return tolerance(self.entries, self.digits)

    def matches(self, value: Array, slack: Any = 0.0) -> bool:
        """Whether a value is what the student wrote, to the digits written."""
        entries = self.entries.fit(value.shape)
        if entries is None:
            return False
        allowed = (self.allowed if entries is self.entries else tolerance(entries, self.digits)) + slack
        return not (mismatches(entries, value, allowed) & ~entries.blank).any()


class WrittenNumbers:
    """The numbers of a wrong step, ready to be compared with many values."""

    def __init__(self, wrong: WrongStep) -> None:
        self.wrong = wrong
        self.values, self.wrong_mask = wrong.entries.values, wrong.wrong_mask
        self.allowed = wrong.allowed * (1 + 1e-6)
        self.wrong_count = int(wrong.wrong_mask.sum())
        self.written = ~wrong.entries.blank
        self.all_written = bool(self.written.all())
        self.all_equal = self.values.size > 1 and bool((self.values == self.values.flat[0]).all())

    def matches(self, value: Array, slack: Any = 0.0) -> bool:
        if value.shape != self.values.shape:
            return value.size == self.values.size and self.wrong.matches(value, slack)
        return bool(self._near(value, slack).all())

    def _near(self, value: Array, slack: Any = 0.0) -> Array:
        """Which entries are those of a value; numpy's warnings are off where this is called."""
        near = np.abs(self.values - value) <= self.allowed + slack + 1e-12 * np.abs(value)
        finite = np.isfinite(value)
        if not finite.all():
            near = self._near_undefined(value, near & finite, finite)
        return near if self.all_written else near | ~self.written

    def _near_undefined(self, value: Array, near: Array, finite: Array) -> Array:
        """The same where some numbers are infinite or 0/0, which is written as 0."""
        empty: Any = np.isnan(value).all(-1, keepdims=True) & (self.values == 0) if value.ndim > 1 else False
        empty &= value.shape[-1:] != (1,)  # what is left of a row in which all is hidden
        cells = self.wrong_mask
        if cells.shape == value.shape and (cells & finite).sum() > 1:
            empty |= np.isnan(value) & (self.values == 0)
        return near | (value == self.values) | empty

    def matching(self, stack: Array) -> Array:
        """Which values of a stack are these numbers."""
        if stack[0].size != self.values.size:
            return np.zeros(len(stack), bool)
        values, flat = self.values.ravel(), stack.reshape(len(stack), -1)
        near = np.abs(values - flat) <= self.allowed.ravel() + 1e-12 * np.abs(flat)
        near |= (flat == values) | (np.isnan(flat) & (values == 0)) | ~self.written.ravel()
        met: Array = near.all(-1)
        met[met] = [self.matches(value) for value in stack[met]]
        return met

    def partial_match(self, value: Array) -> str:
        """In which rows, columns or heads a value gives the wrong numbers, where all others are right."""
        if not value.shape == self.values.shape == self.wrong_mask.shape or self.wrong_count < 2:
            return ""
        near = self._near(value)
        if near.size - near.sum() == 1 and self.wrong_count > 2 and self.wrong_mask[~near].all():
            return f"{BUT_FOR_A_SLIP} [{','.join(str(int(i)) for i in np.argwhere(~near)[0])}]"
        return next((where for where, cells in self.wrong_regions if near[cells].all()), "")

    @cached_property
    def wrong_regions(self) -> list[tuple[str, Array]]:
        """The sets of rows, columns or heads that hold all wrong numbers and not all of them."""
        cells, found = self.wrong_mask, list[tuple[str, Array]]()
        if cells.shape != self.wrong.reference.shape or cells.sum() < 2:
            return []
        for axis, size in enumerate(cells.shape):
            held = cells.any(tuple(i for i in range(cells.ndim) if i != axis))
            if 0 < held.sum() < size and cells.size > size:
                inside = np.flatnonzero(held) if held.sum() < max(2, size - 1) else np.flatnonzero(~held)
                only = "only in" if inside[0] in np.flatnonzero(held) else "not in"
                shape = [size if i == axis else 1 for i in range(cells.ndim)]
                mask = np.broadcast_to(held.reshape(shape), cells.shape)
                found.append((f"{only} {{axis_{axis}}} {' and '.join(map(str, inside))}", mask))
        if cells.ndim > 1 and cells.shape[-1] == cells.shape[-2]:
            square = np.ones(cells.shape)
            for where, kept in (
                ("on the diagonal", np.tril(np.triu(square))),
                ("above the diagonal", np.triu(square, 1)),
                ("below the diagonal", np.tril(square, -1)),
                ("beside the diagonal", np.triu(square, 1) + np.tril(square, -1)),
            ):
                if not (cells & (kept == 0)).any():
                    found.append((f"only {where}", kept > 0))
        return found

    @cached_property
    def information_bits(self) -> float:
        """How many bits the wrong numbers hold: each different one, by its range and its digits."""
        values, right = self.values, self.wrong.reference
        cells = self.wrong_mask if self.wrong_mask.shape == values.shape else np.ones(values.shape, bool)
        finite = np.concatenate([x[np.isfinite(x)].ravel() for x in (values, right)])
        span = float(np.max(np.abs(finite), initial=0)) + (float(np.ptp(finite)) if values.size > 1 else 0)
        unit = 2 * float(np.max(self.wrong.allowed))
        off = {parts: np.abs(finite * parts - np.round(finite * parts)) for parts in PARTS}
        grid = (1 / parts for parts in PARTS if (off[parts] < GRID).all())
        unit = max(unit, next(grid, 0.0))  # thirds or quarters say less than their digits
        numbers = [round(float(x) / unit) for x in values[cells & self.written] if math.isfinite(x)]
        sparse = len(numbers) > 1 and 0 < 4 * np.count_nonzero(values) < values.size  # much gives zeros
        zeros = numbers.count(0) if sparse else 0
        different = len(set(numbers) - {0} if sparse else set(numbers))
        right_ones = min(int(np.count_nonzero(values[~cells])) if sparse else values.size - len(numbers), 8)
        # The place of a number says something too: the same one again, or that a cell stays right.
        information = different * math.log2(1 + span / unit) + (len(numbers) - zeros - different)
        information += (right_ones + zeros) / 2
        return float(information + (0 if values.shape == right.shape else 6))  # few edits give another shape

    @cached_property
    def slip_probability(self) -> float:
        """The probability of a slip: only one number is wrong, by a digit, by its sign or by little."""
        cells, right = self.wrong_mask, self.wrong.reference
        if cells.sum() != 1 or cells.shape != right.shape or not np.isfinite(self.values[cells][0]):
            return 0.0
        value, meant = float(self.values[cells][0]), float(right[cells][0])
        if value == -meant or any(abs(abs(value - meant) - 10.0**k) < 1e-9 for k in range(-3, 4)):
            return float(2.0**-SLIP_BITS)
        near = float(2.0 ** -(SLIP_BITS - 2) / (1 + abs(value - meant)) ** 2)
        return near if value == round(value) else 0.0
