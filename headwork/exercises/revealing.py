"""Which mistakes an exercise's numbers cannot reveal, and which it cannot tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headwork.exercises.case import Steps
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import applicable, bent
from headwork.exercises.misconceptions.registry import same


@dataclass(frozen=True)
class Revealed:
    """For each mistake that can be made here: the first asked step that it changes, and to what."""

    changed: dict[str, tuple[str, object]]
    hidden: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]


def first_change(exercise: Exercise, steps: Steps, within: float) -> str | None:
    """The first asked step that differs from the key."""
    return next(
        (
            path
            for path in exercise.asked
            if path in steps and not same(steps[path], exercise.key[path], within)
        ),
        None,
    )


def coarse(exercise: Exercise) -> float:
    """Numbers closer than this may look alike once rounded to a digit less than asked."""
    return 2 * 10.0 ** (1 - exercise.digits)


def revealed(exercise: Exercise) -> Revealed:
    """What these numbers show of each known mistake.

    >>> from headwork.exercises import generate
    >>> revealed(generate("output-size", 1)).hidden
    ()
    """
    within = coarse(exercise)
    changed: dict[str, tuple[str, object]] = {}
    hidden: list[str] = []
    made: dict[str, Steps] = {}
    for mistake in applicable(exercise.case, exercise.key):
        steps = bent(exercise.case, mistake)
        if steps is None:
            continue
        path = first_change(exercise, steps, within)
        if path is None or np.isnan(steps[path]).any():
            hidden.append(mistake.slug)
        else:
            changed[mistake.slug] = (path, steps[path])
            made[mistake.slug] = steps
    alike = [
        (a, b)
        for a, b in combinations(changed, 2)
        if changed[a][0] == changed[b][0]
        and all(same(made[a][path], made[b][path], within) for path in exercise.asked)
    ]
    return Revealed(changed, tuple(hidden), tuple(alike))
