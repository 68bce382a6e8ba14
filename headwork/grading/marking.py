"""Marking an answer step by step, from the student's own numbers: an error is counted once.

A step is right if it equals the key, or if it follows from the steps that the student wrote before it, to the
digits written. The effect of rounding those earlier numbers is allowed for. The same mistake made again costs
nothing more.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headwork.errors import InputError, unknown_name
from headwork.exercises.case import Array, Case, NotApplicable, Steps
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS, run_with_mistakes
from headwork.grading.answers import (
    CONVENTIONS,
    Entries,
    as_counts,
    mismatches,
    one_unit_tolerance,
    read_entries,
    tolerance,
)
from headwork.grading.challenges import grade_challenge
from headwork.grading.diagnosis import find_causes, rounding_digits
from headwork.grading.marks import Mark, StepMark, count_once, edit_ids, keep_agreeing_causes
from headwork.grading.no_work import is_constant, needs_no_work
from headwork.grading.wrong_step import Cause, StartingSteps, WrongStep
from headwork.readings.assembling import token_axis
from headwork.readings.trace import TraceValue

LAST_DIGIT = "the last digit is off by one, as when digits are cut off instead of rounded: it costs nothing"
# Bits of agreeing with more of the other steps; where few bits are held (with the rest that is added to them)
# one step by itself is as likely; those that are closer than the last are as likely.
AGREES, AGREES_IF_FEW, FEW_BITS, AS_LIKELY = 3.0, 1.0, 10.0, 1.1
PART = 0.5  # of a step's points, where early rounding costs a part


def grade(exercise: Exercise, answers: Mapping[str, str], *, tokens_as: str = "") -> Mark:
    """Mark the text of each step.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"total": 1, "weights": 2})
    >>> mark = grade(exercise, {"total": "3", "weights": "1/2 0.5"})
    >>> mark.points, mark.first_wrong.path
    (2.0, 'total')
    """
    if tokens_as not in ("", *CONVENTIONS["tokens_as"]):
        raise unknown_name("tokens_as", tokens_as, CONVENTIONS["tokens_as"])
    if exercise.is_challenge:
        return grade_challenge(exercise, answers)
    for path in answers:
        if path not in exercise.trace.steps:
            raise unknown_name(f"step of {exercise.name}", path, exercise.asked)
    marker = Marker(exercise, answers, tokens_as or exercise.tokens_as)
    steps = marker.mark_all()
    if marker.made_before and any(map(marker.is_constant, marker.unexplained)):
        # numbers that are all alike explain nothing by themselves: what a later step shows may explain them
        marker = Marker(exercise, answers, marker.tokens_as, marker.made_before)
        steps = marker.mark_all()
    narrowed = [marker.narrow_causes(step, steps) for step in steps]
    values = {path: x for path, x in marker.own_steps.items() if x.shape == exercise.solution[path].shape}
    return Mark(exercise, tuple(count_once(keep_agreeing_causes(narrowed))), values, marker.entries)


class Marker:
    """Marks one answer from its first step to its last, and remembers what the student has written so far."""

    def __init__(
        self,
        exercise: Exercise,
        answers: Mapping[str, str],
        tokens_as: str,
        made_before: Collection[str] = (),
    ) -> None:
        self.exercise, self.case, self.solution = exercise, exercise.case, exercise.solution
        self.answers, self.tokens_as, self.digits = answers, tokens_as, exercise.digits
        self.own_steps: Steps = {}  # every step as written
        self.precise: Steps = {}  # the wrong ones as written, the right ones in full precision
        self.any_wrong = False
        self.unexplained: list[str] = []  # the wrong steps whose cause is not known, and those of zeros
        self.mistake_ids: dict[str, set[str]] = {}  # of the wrong steps
        self.made_before, self.steps_without_work = {*made_before}, set[str]()  # edits, and steps
        self.half_units: Steps = {}  # how far each entry may be from the number that was meant
        self.entries: dict[str, Entries] = {}
        self.starting_steps: dict[str, StartingSteps] = {}

    def mark_all(self) -> list[StepMark]:
        """Every asked step by itself, with all causes that give its numbers, the thin ones too."""
        return [self.mark(path, points) for path, points in self.exercise.asked.items()]

    def is_constant(self, path: str) -> bool:
        """Whether the student wrote the same number, or row, everywhere."""
        return path in self.own_steps and is_constant(self.own_steps[path])

    def mark(self, path: str, max_points: float) -> StepMark:
        try:
            expected = self.case.run(self.own_steps)[path]
        except NotApplicable:  # nothing follows from infinity, where whole numbers are counted
            self.own_steps, self.precise, expected = {}, {}, self.solution[path]
        if expected.ndim != self.solution[path].ndim:  # from a step of another shape, it has lost an axis
            expected = self.solution[path]
        self.starting_steps[path] = StartingSteps(dict(self.precise), dict(self.own_steps))
        try:
            readings = self._read(path, expected.shape)
            if readings and readings[0].shape != expected.shape:  # it may be the key's all the same
                readings = self._read(path, self.solution[path].shape)
                expected = self.solution[path] if readings[0].shape == self.solution[path].shape else expected
        except InputError as error:
            return StepMark(
                path, "unreadable", 0.0, max_points, f"cannot be read: {error}", expected=expected
            )
        if not readings:
            return StepMark(path, "missing", 0.0, max_points, "not filled in", expected=expected)
        self.entries[path] = entries = readings[0]
        if entries.shape != expected.shape:
            mark = self._wrong(path, entries, max_points)
            if not entries.blank.any() and self._can_follow(path, entries.values):
                self._continue_from(path, entries, entries.values, right=False)
            return mark
        accepted: StepMark | None = None
        for reading in readings:
            if accepted is None and (found := self._accept(path, reading, max_points)):
                accepted, entries = found
        remark = ""
        if accepted is None:  # another convention, where it makes half of the wrong entries right
            wrong = [
                (int(self._wrong_step(path, read).wrong_mask.sum()), convention, read)
                for convention, read in [("", entries), *_other_conventions(self.case, path, entries)]
            ]
            _, remark, entries = min(wrong, key=lambda x: 2 * x[0] - 0.5 if x[1] else x[0])
        self.entries[path] = entries
        values = np.where(entries.blank, expected, entries.values)
        self._continue_from(path, entries, values, right=accepted is not None and accepted.right)
        return accepted or replace(self._wrong(path, entries, max_points), remark=remark)

    def _can_follow(self, path: str, value: Array) -> bool:
        """Whether later steps can be worked out from numbers of another shape, of as many axes."""
        own = {**self.own_steps, path: value}
        steps = self.case.run(own) if value.ndim == self.solution[path].ndim else {}
        return any(steps[path].shape != self.solution[path].shape for path in steps if path not in own)

    def _continue_from(self, path: str, entries: Entries, values: Array, *, right: bool) -> None:
        """Later steps follow from these numbers."""
        self.own_steps[path], self.precise[path] = values, self._unrounded(path, entries) if right else values
        self.any_wrong |= not right
        # The rounding of a number of the key is known; any other may be anything that rounds to it.
        rounded = np.where(entries.half_unit > 0, entries.smallest_half_unit, 0.0)
        self.half_units[path] = rounded if self.any_wrong else np.abs(values - self.precise[path])

    def _read(self, path: str, shape: tuple[int, ...]) -> list[Entries]:
        """The answer to a step with the axes of the key: one reading, or two where tokens are turned."""
        step = self.exercise.trace.steps[path]
        orders = [step.order]
        if self.tokens_as != self.exercise.tokens_as and len(shape) > 1:
            orders = [written_order(step, self.tokens_as, side_by_side=x) for x in (False, True)]
        layouts = [tuple(shape[axis] for axis in order) for order in orders]
        entries = read_entries(self.answers.get(path, ""), shape=layouts[0], axes=step.card.axes)
        if entries is None:
            return []
        if self.exercise.is_counting:
            entries = as_counts(entries, about=self.exercise.asks_approximately)
        fitted = [
            (entries.fit(layout), np.argsort(order)) for order, layout in zip(orders, layouts, strict=True)
        ]
        turned = [e.rearrange(partial(np.transpose, axes=axes)) for e, axes in fitted if e is not None]
        return turned or [entries]

    def _unrounded(self, path: str, entries: Entries) -> Array:
        """A right step before it was rounded."""
        for value in (self.solution[path], self.case.run(self.starting_steps[path].precise)[path]):
            if self._near(entries, value) or self._near(entries, value, one_unit=True):
                return value
        return entries.values

    # --- is it right? ---------------------------------------------------------------------------

    def _near(self, entries: Entries, value: Array, slack: Any = 0.0, *, one_unit: bool = False) -> bool:
        """Whether the entries are the value to the digits written, or to one unit of the last."""
        if entries.shape != value.shape:
            return False
        allowed = tolerance(entries, self.digits)
        if one_unit:
            allowed = np.maximum(allowed, one_unit_tolerance(entries, value, self.digits))
        off_by = mismatches(entries, value, allowed + slack)
        if self.exercise.is_counting and not self.exercise.asks_approximately:
            off_by |= (value == np.round(value)) & (entries.values != np.round(entries.values))
        return not off_by.any()

    def _accept(self, path: str, entries: Entries, max_points: float) -> tuple[StepMark, Entries] | None:
        """The mark of a step that is right by the key, by own numbers or in another form; else None.

        With it the entries, in the form that was asked for.
        """
        if entries.blank.any():
            return None
        for convention, read in [("", entries), *_other_conventions(self.case, path, entries)]:
            verdict = self._verdict(path, read)
            if verdict is not None:
                early, reason = verdict
                remark = "; ".join(part for part in (convention, reason) if part)
                return self._award(path, max_points, remark, early), read
        for remark, value in self._other_forms(path):
            if self._near(entries, value) or self._near(entries, value, one_unit=True):
                asked = replace(entries, values=self.case.run(self.precise)[path])
                return StepMark(path, "right", max_points, max_points, remark), asked
        return None

    def _verdict(self, path: str, entries: Entries) -> tuple[bool, str] | None:
        """None if it is not right; else whether it was rounded too early, and a remark."""
        remark = f"follows from your {'own' if self.any_wrong else 'rounded'} numbers"
        for one_unit in (False, True):
            if self._near(entries, self.solution[path], one_unit=one_unit):
                asked = np.full(entries.shape, (1.5 if one_unit else 0.5) * 10.0**-self.digits)
                short = (entries.decimal_places < self.digits) & (entries.significant < self.digits)
                early = bool((short & mismatches(entries, self.solution[path], asked)).any())
                few = f"{self.digits} digits are asked for" if early else ""
                return early, "; ".join(part for part in (few, LAST_DIGIT if one_unit else "") if part)
        expected = self.case.run(self.own_steps)[path]
        precise = self.case.run(self.precise)[path]
        for one_unit in (False, True):
            if self.any_wrong and self._near(entries, precise, one_unit=one_unit):
                return self._followed(path, False, remark)
            if self._near(entries, expected, one_unit=one_unit):
                return self._followed(path, not self.any_wrong, remark)
        error = self.case.propagated_error(self.own_steps, self.half_units, path)
        if self._near(entries, expected, error) or self._near(entries, expected, error, one_unit=True):
            return self._followed(path, not self.any_wrong, remark)
        if self.exercise.is_counting and not self.any_wrong:
            return None
        tried = range(self.digits, (self.digits + 1) // 2 - 1, -1)
        count = rounding_digits(self.case, path, entries, self.digits, self.precise, tried)
        if count is None:
            return None
        return self._followed(path, True, f"follows from numbers rounded to {count} digits")

    def _followed(self, path: str, early: bool, remark: str) -> tuple[bool, str] | None:
        """The verdict on what follows from own numbers; None if the step then follows without any work."""
        shown = set().union(*(x for step, x in self.mistake_ids.items() if step not in self.unexplained))
        doubted = [x for x in self.unexplained if x in self.own_steps and not self.mistake_ids[x] & shown]
        numbers = (self.case, self.solution, self.own_steps)
        if not any(needs_no_work(path, x, *numbers, self.starting_steps[x].written) for x in doubted):
            return early, remark
        self.steps_without_work.add(path)
        return None

    def _other_forms(self, path: str) -> Iterator[tuple[str, Array]]:
        """Scores written without beta, masked or not yet masked, from own numbers: where that is clear.

        Masked scores show their -oo. Of the others the weights must show that they were worked out from the
        scores as asked: otherwise beta or the mask may have been forgotten.
        """
        if path.rpartition("/")[2] != "scores":
            return
        scope = path.removesuffix("scores")
        options, masked, weights = self.case.options, f"{scope}masked", f"{scope}weights"
        run = self.case.run(self.precise)
        if weights not in run:
            return
        if masked in run:
            yield "written with the mask", run[masked]
        remark, changed = "written without beta", {**options, **({"beta": 1.0} if "beta" in options else {})}
        if "sums" in run:
            remark, changed = "written before masking", {**options, "mask": None}
        changed_steps = replace(self.case, options=changed).run(self.precise)
        if masked in changed_steps:
            yield f"{remark}, with the mask", changed_steps[masked]
        with suppress(InputError):
            value = run[weights]
            if any(self._near(x, value, one_unit=True) for x in self._read(weights, value.shape)):
                yield remark, changed_steps[path]

    def _award(self, path: str, max_points: float, remark: str, early: bool) -> StepMark:
        policy = self.exercise.rounding
        if not early or policy == "free":
            return StepMark(path, "right", max_points, max_points, remark)
        if policy == "part":
            remark = f"{remark}: rounded too early, which costs a part"
            return StepMark(path, "right", max_points * PART, max_points, remark)
        cause = Cause("rounded-too-early", "it was rounded too early", remark)
        return StepMark(path, "wrong", 0.0, max_points, remark, (cause,), (), self.solution[path])

    # --- why is it wrong? -------------------------------------------------------------------------

    def _wrong(self, path: str, entries: Entries, max_points: float) -> StepMark:
        wrong = self._wrong_step(path, entries)
        cells, blank = tuple(wrong.wrong_positions), int(entries.blank.sum())
        if blank and not (wrong.wrong_mask & ~entries.blank).any():
            sentence = "some entries are not filled in"
            cause = Cause("left-open", sentence, f"{blank} of {entries.values.size}")
            return StepMark(path, "missing", 0.0, max_points, sentence, (cause,), cells, wrong.reference)
        if path in self.steps_without_work:
            cause = Cause("needs-no-work", "this step follows without any work, so it earns no points")
            return StepMark(path, "wrong", 0.0, max_points, "", (cause,), (), wrong.reference)
        causes = tuple(find_causes(self.case, wrong, self.made_before))
        known = [
            cause
            for cause in causes
            if cause.mistake_id and cause.slug != "unknown"
            if cause.doubt != "thin" or edit_ids(cause) & self.made_before
        ]
        self.made_before |= set().union(*map(edit_ids, causes))
        self.mistake_ids[path] = {x for cause in known for x in (cause.mistake_id, *edit_ids(cause))}
        zeros = not np.any(np.nan_to_num(entries.values))  # what gives zeros by chance explains nothing
        if not known or (zeros and not any(cause.slug in MISCONCEPTIONS for cause in known)):
            self.unexplained.append(path)
        return StepMark(path, "wrong", 0.0, max_points, "", causes, cells, wrong.reference)

    def _wrong_step(self, path: str, entries: Entries) -> WrongStep:
        """The step beside the reference, of both sets of earlier steps, from which fewer entries differ."""
        starts = self.starting_steps[path]
        half_units = {step: self.half_units[step] for step in starts.written}
        reference = self.case.run(starts.precise)[path]
        wrong_mask = np.ones(entries.shape, bool)
        if entries.shape == reference.shape:
            allowed = tolerance(entries, self.digits)
            own = self.case.run(starts.written)[path]
            candidates = [(mismatches(entries, value, allowed), value) for value in (reference, own)]
            if self.any_wrong and 1 < min(int(cells.sum()) for cells, _ in candidates) < wrong_mask.size:
                allowed = allowed + self.case.propagated_error(starts.written, half_units, path)
                candidates.append((mismatches(entries, own, allowed), own))
            wrong_mask, reference = min(candidates, key=lambda candidate: int(candidate[0].sum()))
        return WrongStep(path, entries, reference, wrong_mask, starts, half_units, self.digits)

    def narrow_causes(self, step: StepMark, steps: list[StepMark]) -> StepMark:
        """Of several mistakes that give the numbers of a step, keep those that agree best with the others."""
        others = [x for x in steps if x.path in self.entries and x is not step]
        authored = [cause for cause in step.causes if cause.slug in MISCONCEPTIONS]
        searched = [cause for cause in step.causes if cause.slug not in MISCONCEPTIONS]
        if not authored or not others:
            return step
        scores = [sum(self._agrees(cause.slug, x.path) for x in others) for cause in authored]
        agrees = AGREES if authored[0].evidence_bits > FEW_BITS else AGREES_IF_FEW
        bits = [x.bits + agrees * (score < max(scores)) for x, score in zip(authored, scores, strict=True)]
        rated = list(zip(authored, bits, strict=True))
        best = [cause for cause, rarity in rated if rarity <= min(bits) + AS_LIKELY]
        dropped = [replace(x, doubt="thin", bits=rarity) for x, rarity in rated if x not in best]
        if not any(cause.is_named for cause in best):
            best = [replace(cause, doubt=authored[0].doubt) for cause in best]
        near = [x.slug for x in authored if x.bits <= best[0].bits + AS_LIKELY]
        precise = [replace(x, doubt="") for x in searched if x.same_as in near and x.edit_slug == "a-for-b"]
        changed = [x.right and not self._agrees(best[0].slug, x.path) for x in others]
        if len(best) == 1 and precise and any(changed):
            best = precise[:1]  # the mistake as it is known would have changed a step that is right
            searched = [cause for cause in searched if cause.doubt != "beside"]
        # A misunderstanding would show in other steps too; a single wrong number is then more likely a slip.
        size = self.entries[step.path].values.size + self.case.counts_sizes
        slip = len(step.wrong_cells) == 1 < size and sum(x.right for x in others) > max(scores)
        slip &= not (self.case.counts_sizes and [cause.slug for cause in searched[:1]] == ["slip"])
        return replace(step, causes=(*(searched + best if slip else best + searched), *dropped))

    def _agrees(self, slug: str, path: str) -> bool:
        """Whether another step, too, is what the mistake gives from the student's own numbers."""
        entries, mistake, starts = self.entries[path], MISCONCEPTIONS[slug], self.starting_steps[path]
        wrong = WrongStep(path, entries, entries.values, entries.blank, starts, {}, self.digits)
        runs = [run_with_mistakes(self.case, mistake, replacing=start) for start in starts]
        values = [steps[path] for steps in runs if steps is not None]
        if len(values) < len(runs) or any(wrong.matches(value) for value in values):
            return bool(values)
        half_units = {step: self.half_units[step] for step in starts.written}
        if not any((sizes > 0).any() for sizes in half_units.values()):
            return False
        error = self.case.propagated_error(starts.written, half_units, path, [mistake.edit])
        return wrong.matches(values[-1], error)


def written_order(step: TraceValue, tokens_as: str, *, side_by_side: bool = False) -> tuple[int, ...]:
    """The axes of a step as they are written with tokens as rows or columns; heads may stand side by side."""
    axes = list(range(len(step.order)))
    if side_by_side:
        return tuple(reversed(step.order)) if len(axes) == 2 else (axes[-1], *axes[:-1])
    axis = token_axis(step.card, step.raw)
    if axis is not None and tokens_as == "columns":
        axes.append(axes.pop(axis))
    return tuple(axes)


def _other_conventions(case: Case, path: str, entries: Entries) -> Iterator[tuple[str, Entries]]:
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
