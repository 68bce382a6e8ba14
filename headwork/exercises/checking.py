"""Which mistakes an exercise's numbers reveal, hide or confuse, and what change would reveal more."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from headwork.documents import Document, Item, Items, Renderable
from headwork.errors import HeadworkError
from headwork.exercises.case import Steps
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import MISCONCEPTIONS, applicable, run_with_mistakes, same_values
from headwork.readings.notebook_cells import array_text

ENTRY_CHANGES = (1, -1, 2, -2)
MAX_TRIALS = 400  # entries times moves tried


@dataclass(frozen=True)
class Detection:
    """Known mistakes: detected (with the asked step that changes first), undetected, and alike in pairs."""

    detected: dict[str, str]
    undetected: tuple[str, ...]
    indistinguishable: tuple[tuple[str, str], ...]

    @property
    def unrevealed(self) -> tuple[int, int]:
        """How many mistakes are undetected, and how many pairs are alike: less is better."""
        return len(self.undetected), len(self.indistinguishable)


def first_change(exercise: Exercise, steps: Steps, tolerance: float) -> str | None:
    """The first asked step that differs from the key."""
    key = exercise.solution
    present = (path for path in exercise.asked if path in steps)
    return next((path for path in present if not same_values(steps[path], key[path], tolerance)), None)


def detect(exercise: Exercise) -> Detection:
    """What these numbers show of each known mistake.

    >>> from headwork.exercises import generate
    >>> detect(generate("output-size", 1)).undetected
    ()
    """
    tolerance = 2 * 10.0 ** (1 - exercise.digits)  # closer numbers may round alike to a digit less
    detected: dict[str, str] = {}
    undetected: list[str] = []
    runs: dict[str, Steps] = {}
    for mistake in applicable(exercise.case, exercise.solution):
        steps = run_with_mistakes(exercise.case, mistake) if mistake.must_show else None
        if steps is None:
            continue
        path = first_change(exercise, steps, tolerance)
        if path is None or np.isnan(steps[path]).any():
            undetected.append(mistake.slug)
        else:
            detected[mistake.slug], runs[mistake.slug] = path, steps
    indistinguishable = [
        (a, b)
        for a, b in combinations(detected, 2)
        if detected[a] == detected[b]
        and all(same_values(runs[a][path], runs[b][path], tolerance) for path in exercise.asked)
    ]
    return Detection(detected, tuple(undetected), tuple(indistinguishable))


@dataclass(frozen=True)
class EntryChange:
    """One entry changed: the input, its index, both numbers, and what is then still undetected or alike."""

    name: str
    index: tuple[int, ...]
    old: float
    new: float
    detection: Detection

    def __str__(self) -> str:
        entry = f"[{','.join(map(str, self.index))}]" if self.index else ""
        return f"{self.name}{entry} from {self.old:g} to {self.new:g}"


@dataclass(frozen=True)
class NumbersCheck(Renderable):
    """What an exercise's numbers reveal, and the change of one entry that reveals most."""

    exercise: Exercise
    detection: Detection
    change: EntryChange | None

    @property
    def good(self) -> bool:
        return self.detection.unrevealed == (0, 0)

    def document(self) -> Document:
        undetected = (f"{_name(slug)}: {MISCONCEPTIONS[slug].sentence}" for slug in self.detection.undetected)
        indistinguishable = (f"{_name(a)} and {_name(b)}" for a, b in self.detection.indistinguishable)
        parts: list[Any] = [f"{len(self.detection.detected)} known mistakes change an asked step."]
        if self.detection.undetected:
            parts += ["These numbers cannot reveal:", Items(tuple(map(Item, undetected)))]
        if self.detection.indistinguishable:
            parts += ["These numbers cannot tell apart:", Items(tuple(map(Item, indistinguishable)))]
        if self.good:
            parts.append("Every known mistake shows, and each differs from the others.")
        elif self.change is None:
            parts.append("No change of a single entry by 1 or 2 reveals more.")
        else:
            left = [_name(slug) for slug in self.change.detection.undetected]
            left += [f"{_name(a)} = {_name(b)}" for a, b in self.change.detection.indistinguishable]
            remaining = f" Then still hidden: {', '.join(left)}." if left else ""
            parts.append(f"The smallest change that reveals more: {self.change}.{remaining}")
        return Document(self.exercise.title or self.exercise.mechanism, tuple(parts))


def _name(slug: str) -> str:
    return slug.replace("-", " ")


def check(exercise: Exercise) -> NumbersCheck:
    """Look for mistakes that the numbers hide, and for a change of one entry that reveals them.

    >>> own = Exercise("self-attention", {"tokens": "1 0; 0 1", "W_q": "1 0; 0 1"}, {"beta": 1}, {"query": 1})
    >>> "matrix-transposed" in check(own).detection.undetected
    True
    """
    detection = detect(exercise)
    best: EntryChange | None = None
    unrevealed = detection.unrevealed
    if unrevealed != (0, 0):
        for change in _changes(exercise):
            if change.detection.unrevealed < unrevealed:
                best, unrevealed = change, change.detection.unrevealed
                if unrevealed == (0, 0):
                    break
    return NumbersCheck(exercise, detection, best)


def _changes(exercise: Exercise) -> Iterator[EntryChange]:
    tried = 0
    for move in ENTRY_CHANGES:
        for name, value in exercise.trace.inputs.items():
            array = value.tensor.array
            for index in np.ndindex(array.shape):
                tried += 1
                if tried > MAX_TRIALS:
                    return
                moved = array.copy()
                moved[index] += move
                changed = replace(exercise, inputs={**exercise.inputs, name: array_text(moved)})
                try:
                    if all(
                        np.isfinite(changed.solution[path]).all()
                        or not math.isfinite(exercise.solution[path].sum())
                        for path in changed.asked
                    ):
                        yield EntryChange(
                            name, index, float(array[index]), float(moved[index]), detect(changed)
                        )
                except HeadworkError:
                    continue
