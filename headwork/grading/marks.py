"""The marks of an exercise and of its steps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from headwork.exercises.case import Array
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import Entries
from headwork.grading.searching import MAX_TIES
from headwork.grading.wording import WORD_TABLES
from headwork.grading.wrong_step import Cause

MIN_JOINT_BITS = 3.0  # bits by which several steps must show what none of them shows by itself
AGAIN_BITS, APART_BITS, UNKNOWN_BITS = (
    0.5,
    -1.0,
    8.0,
)  # bits of a mistake made again, of a second one, of one not known
# bits of the same edit with another operand; of another of one idea; of what a known mistake says better
ALIKE_BITS, ONE_IDEA_BITS, SAID_BETTER_BITS = 2.0, 1.0, 1.5
AS_GOOD_BITS = 1.0  # bits: what explains the same steps is told beside the likeliest
IDEAS = WORD_TABLES["ideas"]  # which causes come from one idea, in different steps
MISREAD = "it-misread"
BY_OPERAND = ("", "a-for-b", "other-formula", "part-copied", "entry-of-it-misread", "entry-of-it-left-out")
State = Literal["right", "wrong", "again", "missing", "unreadable"]
VERDICTS = {"right": "correct", "wrong": "incorrect", "again": "as before"}  # others are their own words


@dataclass(frozen=True)
class StepMark:
    """The mark of one step. ``expected`` is what follows from the student's own earlier numbers."""

    path: str
    state: State
    points: float
    max_points: float
    remark: str = ""
    causes: tuple[Cause, ...] = ()
    wrong_cells: tuple[tuple[int, ...], ...] = ()
    expected: Array = None

    @property
    def right(self) -> bool:
        return self.state == "right"

    @property
    def verdict(self) -> str:
        """The state as a student reads it."""
        partly = self.right and self.points < self.max_points
        return "partly correct" if partly else VERDICTS.get(self.state, self.state)


@dataclass(frozen=True)
class Mark:
    """The mark of one exercise, step by step; ``own_values`` holds the student's values, as far as they fit.

    ``entries`` are what the student wrote, as far as it could be read.
    """

    exercise: Exercise
    steps: tuple[StepMark, ...]
    own_values: Mapping[str, Array] = field(default_factory=dict)
    entries: Mapping[str, Entries] = field(default_factory=dict)

    @property
    def points(self) -> float:
        return sum(step.points for step in self.steps)

    @property
    def max_points(self) -> float:
        return sum(step.max_points for step in self.steps)

    @property
    def first_wrong(self) -> StepMark | None:
        """The first step that is neither the key's nor follows from own numbers; else the first blank one."""
        off = [step for step in self.steps if not step.right]
        return next((step for step in off if step.state != "missing"), off[0] if off else None)

    @property
    def all_right(self) -> bool:
        return self.first_wrong is None

    def step(self, path: str) -> StepMark:
        return next(step for step in self.steps if step.path == path)


# --- one mistake over several steps ---------------------------------------------------------------
def keep_agreeing_causes(steps: list[StepMark]) -> list[StepMark]:
    """Of the causes of each step those that explain several steps as one mistake, charged once.

    One step must show it, or all together; and it must be likelier than as many mistakes apart.
    """
    left = {step.path: step for step in steps if step.state == "wrong"}
    shared: dict[str, tuple[Cause, ...]] = {}
    while left:
        together: dict[str, list[StepMark]] = {}
        for step in left.values():
            for mistake_id in sorted({x for cause in step.causes for x in _mistake_ids(cause)}):
                together.setdefault(mistake_id, []).append(step)
        gains = {x: _joint_gain(x, found) for x, found in together.items() if len(found) > 1}
        likely = [x for x, (gain, _) in gains.items() if gain >= 0]
        best = max(likely, key=lambda x: sum(gains[x]), default="")
        if not best:
            break
        as_good = [x for x in likely if together[x] == together[best]]
        as_good = [x for x in as_good if sum(gains[x]) > sum(gains[best]) - AS_GOOD_BITS]
        for step in together[best]:
            likeliest = list[Cause]()
            for mistake_id in (best, *(x for x in as_good if x != best)):
                found = [cause for cause in step.causes if mistake_id in _mistake_ids(cause)]
                found = [cause for cause in found if cause.is_named] or found * (mistake_id == best)
                likeliest += [x for x in sorted(found, key=lambda x: x.bits) if x not in likeliest]
            shared[step.path] = tuple(replace(cause, mistake_id=best) for cause in likeliest[:MAX_TIES])
            del left[step.path]
    named = [shared.get(step.path) or [c for c in step.causes if c.is_named] for step in steps]
    distinct = [{cause.sentence: cause for cause in causes[::-1]} for causes in named]
    return [
        replace(step, causes=tuple(causes.values())[::-1])
        for step, causes in zip(steps, distinct, strict=True)
    ]


def edit_ids(cause: Cause) -> set[str]:
    """What an edit of one step has in common with the same edit of another."""
    return {cause.mistake_id, cause.edit_slug} - {*BY_OPERAND, MISREAD} if cause.edit_slug else set()


def _mistake_ids(cause: Cause) -> set[str]:
    """What makes two causes one mistake: their mistake_id, an idea, or the same edit."""
    edit_slug = cause.edit_slug if cause.edit_slug != MISREAD else ""  # only as the same number is it one
    alike = {f"{edit_slug} of {operand}" for operand in cause.operands} if edit_slug else set()
    if cause.doubt == "again" and cause.operands:
        return alike  # another edit names it first: only the same operand counts
    alike |= {edit_slug} if edit_slug not in BY_OPERAND else set()
    ideas = {x for x, members in IDEAS.items() if {cause.slug, cause.mistake_id, edit_slug} & {*members}}
    return ({cause.mistake_id} | alike | ideas) - {""}


def _joint_gain(mistake_id: str, steps: list[StepMark]) -> tuple[float, float]:
    """By how many bits one mistake in all steps is likelier than one in each; below 0 if none shows it.

    With it how much less it is to be told than another that explains the same.
    """
    causes = [[cause for cause in step.causes if mistake_id in _mistake_ids(cause)] for step in steps]
    once = max(min(cause.bits for cause in found) for found in causes) + AGAIN_BITS * (len(steps) - 1)
    doubts = [{cause.doubt for cause in found} for found in causes]
    thin = all(x <= {"thin", "again"} for x in doubts)
    # Where another cause is named, the numbers show no more than how rare that one is.
    named_bits = [
        min((x.bits for x in step.causes if x.is_named and x.bits), default=math.inf) for step in steps
    ]
    shown = sum(min(x[0].evidence_bits, bits) for x, bits in zip(causes, named_bits, strict=True))
    if thin and ({"again"} in doubts or shown - once < MIN_JOINT_BITS):
        return -1.0, 0.0
    apart = [
        min((c.bits or UNKNOWN_BITS for c in step.causes if c.is_named), default=UNKNOWN_BITS)
        for step in steps
    ]
    worse = all(x <= {"beside", "again"} for x in doubts)
    same = all(cause.mistake_id == mistake_id for found in causes for cause in found)
    unlike = ONE_IDEA_BITS if mistake_id in IDEAS else 0.0 if same else ALIKE_BITS
    return sum(apart) + APART_BITS * (len(steps) - 1) - once - unlike, -SAID_BETTER_BITS * worse


def count_once(steps: list[StepMark]) -> list[StepMark]:
    """A misunderstanding that comes again was deducted where it first came."""
    seen_ids: set[str] = set()
    said: set[str] = set()
    result = []
    for step in steps:
        mistake_ids = {cause.mistake_id for cause in step.causes if cause.mistake_id}
        if step.state == "wrong" and mistake_ids & seen_ids:
            shared = tuple(cause for cause in step.causes if cause.mistake_id in seen_ids)
            causes = tuple(cause for cause in shared if cause.slug in said) or shared
            remark = "the same mistake again: already deducted above"
            step = replace(step, state="again", points=step.max_points, causes=causes, remark=remark)
        seen_ids |= mistake_ids
        said |= {cause.slug for cause in step.causes}
        result.append(step)
    return result
