"""Marking an answer step by step, from the student's own numbers: an error is counted once.

A step is right if it equals the key, or if it follows from the steps that the student wrote before it, to the
digits written. The effect of rounding those earlier numbers is allowed for. The same mistake made again costs
nothing more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from headwork.errors import InputError
from headwork.exercises.case import Array, Case, NotApplicable, Steps
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS, run_with_mistakes
from headwork.grading.answers import Entries, mismatches, read_entries, tolerance
from headwork.grading.challenges import grade_challenge
from headwork.grading.diagnosis import find_causes, rounding_digits
from headwork.grading.marks import Mark, StepMark
from headwork.grading.wrong_step import Cause, WrongStep

PART = 0.5  # of a step's points, where early rounding costs a part


def grade(exercise: Exercise, answers: Mapping[str, str], *, tokens_as: str = "") -> Mark:
    """Mark the text of each step.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"total": 1, "weights": 2})
    >>> mark = grade(exercise, {"total": "3", "weights": "1/2 0.5"})
    >>> mark.points, mark.first_wrong.path
    (2.0, 'total')
    """
    if exercise.challenge:
        return grade_challenge(exercise, answers)
    marker = _Marker(exercise, tokens_as or exercise.tokens_as)
    steps = [
        marker.mark(path, answers.get(path, ""), max_points) for path, max_points in exercise.asked.items()
    ]
    narrowed = [marker.narrow_causes(step, steps) for step in steps]
    return Mark(exercise, tuple(_count_once(_agreeing(narrowed))), marker.own, marker.entries)


class _Marker:
    """Marks one answer from its first step to its last, and remembers what the student has written so far."""

    def __init__(self, exercise: Exercise, tokens_as: str) -> None:
        self.exercise, self.case, self.key = exercise, exercise.case, exercise.key
        self.digits = exercise.digits
        self.transposed = tokens_as != exercise.tokens_as
        self.own: Steps = {}  # every step as written
        self.precise: Steps = {}  # the wrong ones as written, the right ones in full precision
        self.any_wrong = False
        self.unexplained: list[str] = []  # the wrong steps whose cause is not known
        self.half_units: Steps = {}  # how far each entry may be from the number that was meant
        self.entries: dict[str, Entries] = {}
        self.before: dict[str, tuple[Steps, Steps]] = {}

    def mark(self, path: str, text: str, max_points: float) -> StepMark:
        try:
            expected = self.case.run(self.own)[path]
        except NotApplicable:  # nothing follows from infinity, where whole numbers are counted
            self.own, self.precise, expected = {}, {}, self.key[path]
        self.before[path] = (dict(self.precise), dict(self.own))
        shape = self.key[path].shape
        try:
            entries = self._read(path, text, shape)
        except InputError as error:
            return StepMark(
                path, "unreadable", 0.0, max_points, f"cannot be read: {error}", expected=expected
            )
        if entries is None:
            return StepMark(path, "missing", 0.0, max_points, "not filled in", expected=expected)
        fitted = entries.fit(shape)
        self.entries[path] = fitted or entries
        if fitted is None:
            return self._wrong(path, entries, max_points)
        accepted = self._accept(path, fitted, max_points)
        values = np.where(fitted.blank, expected, fitted.values)
        right = accepted is not None and accepted.right
        self.own[path], self.precise[path] = values, self._unrounded(path, fitted) if right else values
        self.any_wrong |= not right
        # The rounding of a number of the key is known; any other may be anything that rounds to it.
        rounded = np.where(fitted.half_unit > 0, fitted.finest, 0.0)
        self.half_units[path] = rounded if self.any_wrong else np.abs(values - self.precise[path])
        return accepted or self._wrong(path, fitted, max_points)

    def _read(self, path: str, text: str, shape: tuple[int, ...]) -> Entries | None:
        step = self.exercise.trace.steps[path]
        layout = tuple(shape[axis] for axis in step.order)
        entries = read_entries(text, shape=layout, axes=step.card.axes)
        if entries is None:
            return None
        fitted = entries.fit(layout)
        if self.transposed and len(layout) == 2 and (fitted is None or "one" not in step.card.axes):
            fitted = (fitted or entries).rearrange(np.transpose).fit(layout)
        if fitted is None:
            return entries
        return fitted.rearrange(lambda array: np.transpose(array, np.argsort(step.order)))

    def _unrounded(self, path: str, entries: Entries) -> Array:
        """A right step before it was rounded."""
        for value in (self.key[path], self.case.run(self.before[path][0])[path]):
            if not mismatches(entries, value, tolerance(entries, self.digits)).any():
                return value
        return entries.values

    # --- is it right? ---------------------------------------------------------------------------

    def _accept(self, path: str, entries: Entries, max_points: float) -> StepMark | None:
        """The mark of a step that is right by the key, by own numbers or by another convention; else None."""
        if entries.blank.any():
            return None
        for convention, read in [("", entries), *_other_conventions(self.case, path, entries)]:
            verdict = self._verdict(path, read)
            if verdict is not None:
                early, reason = verdict
                remark = "; ".join(part for part in (convention, reason) if part)
                return self._award(path, max_points, remark, early)
        return None

    def _verdict(self, path: str, entries: Entries) -> tuple[bool, str] | None:
        """None if it is not right; else whether it was rounded too early, and a remark."""
        allowed = tolerance(entries, self.digits)
        if not mismatches(entries, self.key[path], allowed).any():
            asked = np.full(allowed.shape, 0.5 * 10.0**-self.digits)
            short = (entries.decimals < self.digits) & (entries.significant < self.digits)
            early = (short & mismatches(entries, self.key[path], asked)).any()
            return (True, f"{self.digits} digits are asked for") if early else (False, "")
        remark = f"follows from your {'own' if self.any_wrong else 'rounded'} numbers"
        expected = self.case.run(self.own)[path]
        if self._empty(path, expected):
            return None
        if self.any_wrong and not mismatches(entries, self.case.run(self.precise)[path], allowed).any():
            return False, remark
        if not mismatches(entries, expected, allowed).any():
            return not self.any_wrong, remark
        error = self.case.propagated_error(self.own, self.half_units, path)
        if not mismatches(entries, expected, allowed + error).any():
            return not self.any_wrong, remark
        tried = range(self.digits, (self.digits + 1) // 2 - 1, -1)
        count = rounding_digits(self.case, path, entries, self.digits, self.precise, tried)
        return None if count is None else (True, f"follows from numbers rounded to {count} digits")

    def _empty(self, path: str, expected: Array) -> bool:
        """Whether nothing is left to work out: an unexplained wrong step is all zeros, or all one number, and
        so is what follows from it, where the key's are not.
        """
        return _blank(expected, self.key[path]) and any(
            _blank(self.own[step], self.key[step]) for step in self.unexplained if step in self.own
        )

    def _award(self, path: str, max_points: float, remark: str, early: bool) -> StepMark:
        policy = self.exercise.rounding
        if not early or policy == "free":
            return StepMark(path, "right", max_points, max_points, remark)
        if policy == "part":
            remark = f"{remark}: rounded too early, which costs a part"
            return StepMark(path, "right", max_points * PART, max_points, remark)
        cause = Cause("rounded-too-early", "it was rounded too early", remark)
        return StepMark(path, "wrong", 0.0, max_points, remark, (cause,), (), self.key[path])

    # --- why is it wrong? -------------------------------------------------------------------------

    def _wrong(self, path: str, entries: Entries, max_points: float) -> StepMark:
        wrong = self._wrong_step(path, entries)
        cells, blank = tuple(wrong.positions), int(entries.blank.sum())
        if blank and not (wrong.cells & ~entries.blank).any():
            sentence = "some entries are not filled in"
            cause = Cause("left-open", sentence, f"{blank} of {entries.values.size}")
            return StepMark(path, "missing", 0.0, max_points, sentence, (cause,), cells, wrong.reference)
        causes = tuple(find_causes(self.case, wrong))
        if not any(cause.charge and cause.doubt != "thin" for cause in causes):
            self.unexplained.append(path)
        return StepMark(path, "wrong", 0.0, max_points, "", causes, cells, wrong.reference)

    def _wrong_step(self, path: str, entries: Entries) -> WrongStep:
        """The step beside the reference, of both sets of earlier steps, from which fewer entries differ."""
        bases = self.before[path]
        half_units = {step: self.half_units[step] for step in bases[1]}
        reference = self.case.run(bases[0])[path]
        cells = np.ones(entries.shape, bool)
        if entries.shape == reference.shape:
            allowed = tolerance(entries, self.digits)
            references = [reference, self.case.run(bases[1])[path]]
            candidates = [(mismatches(entries, value, allowed), value) for value in references]
            cells, reference = min(candidates, key=lambda candidate: int(candidate[0].sum()))
        return WrongStep(path, entries, reference, cells, bases, half_units, self.digits)

    def narrow_causes(self, step: StepMark, steps: list[StepMark]) -> StepMark:
        """Of several mistakes that give the numbers of a step, keep those that agree best with the others."""
        others = [other for other in steps if other.path in self.entries and other is not step]
        known = [cause for cause in step.causes if cause.slug in MISCONCEPTIONS]
        rest = [cause for cause in step.causes if cause.slug not in MISCONCEPTIONS]
        if not known or not others:
            return step
        scores = [sum(self._agrees(cause.slug, other.path) for other in others) for cause in known]
        best = [cause for cause, score in zip(known, scores, strict=True) if score == max(scores)]
        # A misunderstanding would show in other steps too; a single wrong number is then more likely a slip.
        slip = len(step.cells) == 1 and sum(other.right for other in others) > max(scores)
        return replace(step, causes=tuple(rest + best if slip else best + rest))

    def _agrees(self, slug: str, path: str) -> bool:
        """Whether another step, too, is what the mistake gives from the student's own numbers."""
        entries, mistake, bases = self.entries[path], MISCONCEPTIONS[slug], self.before[path]
        wrong = WrongStep(path, entries, entries.values, entries.blank, bases, {}, self.digits)
        runs = [run_with_mistakes(self.case, mistake, replacing=base) for base in bases]
        values = [steps[path] for steps in runs if steps is not None]
        if len(values) < len(runs) or any(wrong.matches(value) for value in values):
            return bool(values)
        half_units = {step: self.half_units[step] for step in bases[1]}
        if not any((sizes > 0).any() for sizes in half_units.values()):
            return False
        error = self.case.propagated_error(bases[1], half_units, path, [mistake.edit])
        return wrong.matches(values[-1], error)


def _blank(value: Array, key: Array) -> bool:
    """All zeros, or many times the same number, where the key is not."""

    def plain(array: Array) -> bool:
        return bool((array == 0).all() or (array.size > 1 and (array == array.flat[0]).all()))

    return value.shape == key.shape and plain(value) and not plain(key)


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


def _agreeing(steps: list[StepMark]) -> list[StepMark]:
    """Of the causes of each step those that explain most steps, charged as one.

    One step must show it, or three must fit. What a step shows clearly by itself stays its cause.
    """
    wrong = [step for step in steps if step.state == "wrong"]
    shown = {cause.charge for step in wrong for cause in step.causes if cause.doubt != "thin"}
    fitting = Counter(x for step in wrong for x in {c.charge for c in step.causes} if x)
    result = []
    for step in steps:
        certain = tuple(cause for cause in step.causes if cause.doubt not in ("thin", "beside"))
        named = [cause for cause in certain if cause.charge]
        charges = {cause.charge for cause in step.causes if cause.charge}
        spread = {x: fitting[x] for x in charges if fitting[x] > (1 if x in shown else 2)}
        most = max(spread.values(), default=0)
        shared = tuple(cause for cause in step.causes if spread.get(cause.charge) == most > 1)
        if shared and named and (most == 2 or len(step.cells) > 1):
            kept = tuple(cause for cause in named if cause in shared)
            shared = kept or tuple(replace(cause, charge=shared[0].charge) for cause in named)
        result.append(replace(step, causes=shared or certain))
    return result


def _count_once(steps: list[StepMark]) -> list[StepMark]:
    """A misunderstanding that comes again was deducted where it first came."""
    known: set[str] = set()
    result = []
    for step in steps:
        charges = {cause.charge for cause in step.causes if cause.charge}
        if step.state == "wrong" and charges & known:
            causes = tuple(cause for cause in step.causes if cause.charge in known)
            remark = "the same mistake again: already deducted above"
            step = replace(step, state="again", points=step.max_points, causes=causes, remark=remark)
        known |= charges
        result.append(step)
    return result
