"""The marks of an exercise and of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headwork.exercises.case import Array
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import Entries
from headwork.grading.wrong_step import Cause

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
