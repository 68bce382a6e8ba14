"""Challenges: whatever works when it is run is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.exercises.challenges import ANSWER, CHALLENGES
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import read_entries
from headwork.grading.diagnosis import Cause
from headwork.grading.marks import Mark, StepMark


def grade_challenge(exercise: Exercise, answers: Mapping[str, str]) -> Mark:
    """Run what was given and say whether it works."""
    what = CHALLENGES[exercise.mechanism]
    full = float(exercise.points.get(ANSWER, 2))

    def marked(state: Any, points: float, remark: str, causes: tuple[Cause, ...] = ()) -> Mark:
        return Mark(exercise, (StepMark(ANSWER, state, points, full, remark, causes),))

    try:
        given = {name: _value(str(text), name) for name, text in exercise.inputs.items()}
        values = {name: _value(answers.get(name, ""), name) for name in what.fields}
        missing = [name for name, value in values.items() if value is None]
        if len(missing) == len(values):
            return marked("missing", 0.0, "not filled in")
        if missing:
            return marked("missing", 0.0, f"{' and '.join(missing)} not filled in")
        with np.errstate(all="ignore"):
            works, cause, evidence = what.verdict(given, values)
    except (InputError, ValueError, IndexError) as error:
        return marked("unreadable", 0.0, f"cannot be run: {error}")
    if works:
        return marked("right", full, evidence)
    return marked("wrong", 0.0, "", (Cause(cause, evidence, ""),))


def _value(text: str, name: str) -> Any:
    try:
        found = read_entries(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if found is None:
        return None
    if found.open.any():
        raise InputError(f"{name}: some entries are left open.")
    return found.values
