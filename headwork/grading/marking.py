"""Marking an answer step by step, from the student's own numbers: an error is paid for once.

A step is right if it is the key's, or if it follows from the steps that the student wrote before it, to the digits
written. What rounding own earlier numbers may do is allowed for. The same mistake made again costs nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.exercises.case import propagated_error
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS, run_with_mistakes
from headwork.grading.answers import Entries, has_enough_digits, mismatches, read_entries, tolerance
from headwork.grading.challenges import grade_challenge
from headwork.grading.conventions import other_forms
from headwork.grading.diagnosis import Cause, Wrong, causes, gives, rounded_early
from headwork.grading.marks import Mark, StepMark

Array = Any
PART = 0.5  # of a step's points, where early rounding costs a part


def grade(exercise: Exercise, answers: Mapping[str, str], *, tokens_as: str = "") -> Mark:
    """Mark what was typed for each step.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"total": 1, "weights": 2})
    >>> mark = grade(exercise, {"total": "3", "weights": "1/2 0.5"})
    >>> mark.points, mark.first_wrong.path
    (2.0, 'total')
    """
    if exercise.challenge:
        return grade_challenge(exercise, answers)
    walk = _Marker(exercise, tokens_as or exercise.tokens_as)
    steps = [walk.mark(path, answers.get(path, ""), full) for path, full in exercise.asked.items()]
    return Mark(exercise, tuple(_paid_once(walk.narrowed(steps))), walk.own)


class _Marker:
    """One answer read from its first step to its last; remembers what the student has written so far."""

    def __init__(self, exercise: Exercise, tokens_as: str) -> None:
        self.exercise, self.case, self.key = exercise, exercise.case, exercise.key
        self.digits = exercise.digits
        self.turned = tokens_as != exercise.tokens_as
        self.own: dict[str, Array] = {}  # every step as written
        self.full: dict[str, Array] = {}  # the wrong ones as written, the right ones in full precision
        self.astray = False  # whether a step was wrong
        self.half_units: dict[str, Array] = {}  # how far each entry may be from what was meant
        self.typed: dict[str, Entries] = {}
        self.before: dict[str, tuple[dict[str, Array], dict[str, Array]]] = {}

    def mark(self, path: str, text: str, full: float) -> StepMark:
        self.before[path] = (dict(self.full), dict(self.own))
        carried = self.case.run(self.own)[path]
        shape = self.key[path].shape
        try:
            typed = self._read(path, text, shape)
        except InputError as error:
            return StepMark(path, "unreadable", 0.0, full, f"cannot be read: {error}", expected=carried)
        if typed is None:
            return StepMark(path, "missing", 0.0, full, "not filled in", expected=carried)
        fitted = typed.fitted(shape)
        self.typed[path] = fitted or typed
        result = self._judged(path, fitted, full) if fitted is not None else None
        if fitted is not None:
            values = np.where(fitted.open, carried, fitted.values)
            right = result is not None and result.right
            self.own[path], self.full[path] = values, self._precise(path, fitted) if right else values
            self.astray |= not right
            # How far a number of the key was rounded is known; any other may have been all that rounds to it.
            rounded = np.where(fitted.half_unit > 0, fitted.finest, 0.0)
            self.half_units[path] = rounded if self.astray else np.abs(values - self.full[path])
        return result or self._wrong(path, fitted or typed, full)

    def _read(self, path: str, text: str, shape: tuple[int, ...]) -> Entries | None:
        noted = self.exercise.trace.steps[path]
        shown = tuple(shape[axis] for axis in noted.order)
        typed = read_entries(text, shape=shown, axes=noted.card.axes)
        if typed is None:
            return None
        fitted = typed.fitted(shown)
        if self.turned and fitted is None and len(shown) == 2:
            fitted = typed.moved(np.transpose).fitted(shown)
        elif self.turned and fitted is not None and len(shown) == 2 and "one" not in noted.card.axes:
            fitted = fitted.moved(np.transpose).fitted(shown)
        return (
            typed
            if fitted is None
            else fitted.moved(lambda part: np.transpose(part, np.argsort(noted.order)))
        )

    def _precise(self, path: str, typed: Entries) -> Array:
        """A right step before it was rounded."""
        for value in (self.key[path], self.case.run(self.before[path][0])[path]):
            if not mismatches(typed, value, tolerance(typed, self.digits)).any():
                return value
        return typed.values

    # --- is it right? ---------------------------------------------------------------------------

    def _judged(self, path: str, typed: Entries, full: float) -> StepMark | None:
        """The mark of a step that is right, from the key, from own numbers or in another form; else None."""
        if typed.open.any():
            return None
        for remark, form in [("", typed), *other_forms(self.case, path, typed)]:
            verdict = self._accepted(path, form)
            if verdict is not None:
                early, why = verdict
                told = "; ".join(part for part in (remark, why) if part)
                return self._paid(path, full, told, early)
        return None

    def _accepted(self, path: str, typed: Entries) -> tuple[bool, str] | None:
        """Whether it is right, and if so whether it was rounded too early and what is to be said."""
        allowed = tolerance(typed, self.digits)
        if not mismatches(typed, self.key[path], allowed).any():
            few = ~has_enough_digits(typed, self.digits) & mismatches(
                typed, self.key[path], np.full(allowed.shape, 0.5 * 10.0**-self.digits)
            )
            return (True, f"{self.digits} digits are asked for") if few.any() else (False, "")
        carried = "follows from your own numbers" if self.astray else ""
        if self.astray and not mismatches(typed, self.case.run(self.full)[path], allowed).any():
            return False, carried
        early = "" if self.astray else "follows from your rounded numbers"
        if not mismatches(typed, self.case.run(self.own)[path], allowed).any():
            return bool(early), carried or early
        if not mismatches(
            typed,
            self.case.run(self.own)[path],
            allowed + propagated_error(self.case, self.own, self.half_units, path),
        ).any():
            return bool(early), carried or early
        least = (self.digits + 1) // 2
        end = rounded_early(self.case, path, typed, self.digits, self.full, range(self.digits, least - 1, -1))
        return None if end is None else (True, f"follows from numbers rounded to {end} digits")

    def _paid(self, path: str, full: float, remark: str, early: bool) -> StepMark:
        policy = self.exercise.rounding
        if not early or policy == "free":
            return StepMark(path, "right", full, full, remark)
        if policy == "part":
            return StepMark(
                path, "right", full * PART, full, f"{remark}: rounded too early, which costs a part"
            )
        cause = Cause("rounded-too-early", "it was rounded too early", remark)
        return StepMark(path, "wrong", 0.0, full, remark, (cause,), (), self.key[path])

    # --- why is it wrong? -------------------------------------------------------------------------

    def _wrong(self, path: str, typed: Entries, full: float) -> StepMark:
        wrong = self._as_wrong(path, typed)
        places = tuple(tuple(int(i) for i in place) for place in np.argwhere(wrong.cells))
        if typed.open.any():
            left = Cause(
                "left-open",
                "some entries are not filled in",
                f"{int(typed.open.sum())} of {typed.values.size}",
            )
            if not (wrong.cells & ~typed.open).any():
                return StepMark(path, "missing", 0.0, full, left.sentence, (left,), places, wrong.reference)
        return StepMark(
            path, "wrong", 0.0, full, "", tuple(causes(self.case, wrong)), places, wrong.reference
        )

    def _as_wrong(self, path: str, typed: Entries) -> Wrong:
        bases = self.before[path]
        references = [self.case.run(base)[path] for base in bases]
        half_units = {step: self.half_units[step] for step in bases[1]}
        if typed.shape != references[0].shape:
            return Wrong(
                path, typed, references[0], np.ones(typed.shape, bool), bases, half_units, self.digits
            )
        allowed = tolerance(typed, self.digits)
        cells = [mismatches(typed, reference, allowed) for reference in references]
        fewest = int(np.argmin([c.sum() for c in cells]))
        return Wrong(path, typed, references[fewest], cells[fewest], bases, half_units, self.digits)

    def narrowed(self, steps: list[StepMark]) -> list[StepMark]:
        """Where several mistakes give the numbers of a step, keep those that agree best with the other steps."""
        return [
            self._narrowed(step, [s for s in steps if s.path in self.typed and s is not step])
            for step in steps
        ]

    def _narrowed(self, step: StepMark, others: list[StepMark]) -> StepMark:
        known = [c for c in step.causes if c.slug in MISCONCEPTIONS]
        rest = [c for c in step.causes if c.slug not in MISCONCEPTIONS]
        if not known or not others:
            return step
        scores = [sum(self._agrees(cause.slug, other.path) for other in others) for cause in known]
        kept = [cause for cause, score in zip(known, scores, strict=True) if score == max(scores)]
        # A misunderstanding would have shown elsewhere, too; one wrong number alone is then rather a slip.
        alone = len(step.cells) == 1 and sum(other.right for other in others) > max(scores)
        return replace(step, causes=tuple(rest + kept if alone else kept + rest))

    def _agrees(self, slug: str, path: str) -> bool:
        """Whether another step, too, is what the mistake gives from the student's own numbers."""
        typed, edit = self.typed[path], MISCONCEPTIONS[slug].edit
        wrong = Wrong(path, typed, typed.values, typed.open, self.before[path], {}, self.digits)
        made = [
            run_with_mistakes(self.case, MISCONCEPTIONS[slug], replacing=base) for base in self.before[path]
        ]
        values = [steps[path] for steps in made if steps is not None]
        if len(values) < len(made) or any(gives(wrong, value) for value in values):
            return bool(values)
        half_units = {step: self.half_units[step] for step in self.before[path][1]}
        rounded = any((half_unit > 0).any() for half_unit in half_units.values())
        return rounded and gives(
            wrong, values[-1], propagated_error(self.case, self.before[path][1], half_units, path, [edit])
        )


def _paid_once(steps: list[StepMark]) -> list[StepMark]:
    """A misunderstanding that comes again was paid for where it first came."""
    seen: set[str] = set()
    result = []
    for step in steps:
        named = {cause.slug for cause in step.causes if cause.slug in MISCONCEPTIONS}
        if step.state == "wrong" and named & seen:
            again = tuple(c for c in step.causes if c.slug in seen)
            step = replace(
                step,
                state="again",
                points=step.full,
                causes=again,
                remark="the same mistake again: paid for already",
            )
        seen |= named
        result.append(step)
    return result
