"""The marks of an exercise and of its steps."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from headwork.exercises.case import Array
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import Entries
from headwork.grading.wrong_step import Cause

JOINTLY = 1.0  # bits by which several steps must show what none of them shows by itself
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
    cells: tuple[tuple[int, ...], ...] = ()
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
    """The mark of one exercise, step by step; ``own`` holds the student's values, as far as they fit.

    ``entries`` are what the student wrote, as far as it could be read.
    """

    exercise: Exercise
    steps: tuple[StepMark, ...]
    own: Mapping[str, Array] = field(default_factory=dict)
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
def agreeing(steps: list[StepMark]) -> list[StepMark]:
    """Of the causes of each step those that explain most steps, charged as one.

    One step must show it, or all together. What a step shows clearly by itself stays its cause.
    """
    wrong = [step for step in steps if step.state == "wrong"]
    fitting = Counter(x for step in wrong for x in {c.charge for c in step.causes} if x)
    together = {x: [c for step in wrong for c in step.causes if c.charge == x] for x in fitting}
    shown = {x for x, causes in together.items() if any(c.doubt != "thin" for c in causes)}
    shown |= {x for x, causes in together.items() if _jointly(causes) > JOINTLY}
    result = []
    for step in steps:
        certain = tuple(cause for cause in step.causes if cause.doubt not in ("thin", "beside"))
        named = [cause for cause in certain if cause.charge]
        charges = {cause.charge for cause in step.causes if cause.charge}
        spread = {x: fitting[x] for x in charges if fitting[x] > 1 and x in shown}
        most = max(spread.values(), default=0)
        shared = tuple(cause for cause in step.causes if spread.get(cause.charge) == most > 1)
        if shared and named and (most == 2 or len(step.cells) > 1):
            kept = tuple(cause for cause in named if cause in shared)
            shared = kept or tuple(replace(cause, charge=shared[0].charge) for cause in named)
        result.append(replace(step, causes=shared or certain))
    return result


def _jointly(causes: list[Cause]) -> float:
    """How much the steps together show one cause, in bits beyond how rare it is."""
    steps = {cause.step: cause.shown for cause in causes}
    return sum(steps.values()) - max(cause.bits for cause in causes)


def count_once(steps: list[StepMark]) -> list[StepMark]:
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
