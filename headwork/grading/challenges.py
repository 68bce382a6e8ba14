"""Challenges: any answer that works when it is run is right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwork.errors import InputError, unknown_name
from headwork.exercises.challenges import ANSWER, CHALLENGES
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import read_entries
from headwork.grading.marks import Mark, State, StepMark
from headwork.grading.wrong_step import Cause


def grade_challenge(exercise: Exercise, answers: Mapping[str, str]) -> Mark:
    """Run the answer and say whether it works."""
    challenge = CHALLENGES[exercise.mechanism]
    for name in answers:
        if name not in challenge.fields:
            raise unknown_name(f"field of {exercise.name}", name, challenge.fields)
    max_points = float(exercise.points.get(ANSWER, 2))

    def mark(state: State, remark: str, causes: tuple[Cause, ...] = ()) -> Mark:
        points = max_points if state == "right" else 0.0
        return Mark(exercise, (StepMark(ANSWER, state, points, max_points, remark, causes),))

    try:
        inputs = {name: _value(str(text), name, row=True) for name, text in exercise.inputs.items()}
        answer = {name: _value(answers.get(name, ""), name, row=name != "beta") for name in challenge.fields}
        missing = [name for name, value in answer.items() if value is None]
        if missing:
            fields = f"{' and '.join(missing)} " if len(missing) < len(answer) else ""
            return mark("missing", f"{fields}not filled in")
        with np.errstate(all="ignore"):
            works, evidence, cause = challenge.verdict(inputs, answer)
    except (InputError, ValueError, IndexError) as error:
        return mark("unreadable", f"cannot be run: {error}")
    return mark("right", evidence) if works else mark("wrong", "", (Cause(cause, evidence),))


def _value(text: str, name: str, *, row: bool = False) -> Any:
    """A number, or a matrix; ``row``: what is no matrix is its only row."""
    try:
        entries = read_entries(text, shape=None if row else ())
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    if entries is None:
        return None
    if entries.blank.any():
        raise InputError(f"{name}: some entries are left blank.")
    return (
        np.atleast_2d(entries.values)
        if row
        else entries.values.reshape(entries.shape if entries.values.size > 1 else ())
    )
