"""``practice check``: which mistakes an exercise's numbers cannot reveal or tell apart, and what change would."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headwork.errors import HeadworkError
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS
from headwork.exercises.revealing import Revealed, revealed
from headwork.readings.notebook import array_text

STEPS = (1, -1, 2, -2)
MOST_CHANGES = 400  # entries times steps tried


@dataclass(frozen=True)
class Change:
    """One entry changed: the input, its place, the new number, and what is then still hidden or alike."""

    name: str
    place: tuple[int, ...]
    old: float
    new: float
    exercise: Exercise
    shown: Revealed

    def __str__(self) -> str:
        where = f"[{','.join(map(str, self.place))}]" if self.place else ""
        return f"{self.name}{where} from {self.old:g} to {self.new:g}"


@dataclass(frozen=True)
class Check:
    """What an exercise's numbers show, and the change of one entry that shows most."""

    exercise: Exercise
    shown: Revealed
    change: Change | None

    @property
    def good(self) -> bool:
        return not self.shown.hidden and not self.shown.alike

    def to_text(self) -> str:
        name = self.exercise.title or self.exercise.mechanism
        lines = [f"{name}: {len(self.shown.changed)} known mistakes change an asked step."]
        if self.shown.hidden:
            lines.append("These numbers cannot reveal:")
            lines += [
                f"  {slug.replace('-', ' ')}: {MISCONCEPTIONS[slug].sentence}" for slug in self.shown.hidden
            ]
        if self.shown.alike:
            lines.append("These numbers cannot tell apart:")
            lines += [f"  {a.replace('-', ' ')} and {b.replace('-', ' ')}" for a, b in self.shown.alike]
        if self.good:
            lines.append("Every known mistake shows, and each differs from the others.")
        elif self.change is None:
            lines.append("No change of a single entry by 1 or 2 shows more.")
        else:
            left = [s.replace("-", " ") for s in self.change.shown.hidden] + [
                f"{a.replace('-', ' ')} = {b.replace('-', ' ')}" for a, b in self.change.shown.alike
            ]
            lines.append(
                f"The smallest change that shows more: {self.change}."
                + (f" Then still hidden: {', '.join(left)}." if left else "")
            )
        return "\n".join(lines) + "\n"


def check(exercise: Exercise) -> Check:
    """Look for mistakes that the numbers hide, and for a change that brings them out.

    >>> own = Exercise("self-attention", {"tokens": "1 0; 0 1", "W_q": "1 0; 0 1"}, {"beta": 1}, {"query": 1})
    >>> "matrix-transposed" in check(own).shown.hidden
    True
    """
    shown = revealed(exercise)
    best: Change | None = None
    score = _score(shown)
    if score != (0, 0):
        for change in _changes(exercise):
            if _score(change.shown) < (score if best is None else _score(best.shown)):
                best = change
                if _score(change.shown) == (0, 0):
                    break
    return Check(exercise, shown, best)


def _score(shown: Revealed) -> tuple[int, int]:
    return len(shown.hidden), len(shown.alike)


def _changes(exercise: Exercise) -> Iterator[Change]:
    tried = 0
    for step in STEPS:
        for name, noted in exercise.trace.inputs.items():
            array = noted.tensor.array
            for place in np.ndindex(array.shape):
                tried += 1
                if tried > MOST_CHANGES:
                    return
                moved = array.copy()
                moved[place] += step
                other = replace(exercise, inputs={**exercise.inputs, name: array_text(moved)})
                try:
                    if all(
                        np.isfinite(other.key[path]).all() or not math.isfinite(exercise.key[path].sum())
                        for path in other.asked
                    ):
                        yield Change(
                            name, place, float(array[place]), float(moved[place]), other, revealed(other)
                        )
                except HeadworkError:
                    continue
