"""Judging without reading: a cause is the author's mistake if it gives the author's numbers elsewhere, too.

The mistake is made again in other draws of the same kind and difficulty. Every cause that gives the numbers
there is collected, whether it would be told or not. What fitted the first time by chance is not among them.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.wrong_answers.making import UNUSABLE, Row
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, given_numbers, solve, type_in
from headwork.exercises import Exercise, generate
from headwork.grading.diagnosis import CERTAIN_SLIPS
from headwork.grading.marking import Marker

SEEDS = range(41, 49)
ENOUGH = 4  # draws that must agree; two are enough where no more show the mistake


@cache
def _drawn(kind: str, seed: int, difficulty: int) -> Exercise:
    return generate(kind, seed=seed, difficulty=difficulty)


def _formulas(kind: Kind, row: Row, given: Work) -> Formulas:
    known = kind.repeated(given) if row["group"] == "each time" else kind.singles(given)
    known = {**kind.singles(given), **known}
    return {step: f for x in row["mistakes"] if x in known for step, f in known[x].wrong.items()}


def causes_elsewhere(kind: Kind, row: Row, path: str) -> list[set[str]]:
    """The slugs of all causes that give the author's numbers of a step, in each of some other draws."""
    found: list[set[str]] = []
    for seed in SEEDS:
        if len(found) == ENOUGH:
            break
        exercise = _drawn(kind.name, seed, row["answer"][2])
        asked, given = list(exercise.asked), given_numbers(kind, exercise.inputs, exercise.options)
        wrong = _formulas(kind, row, given)
        if path not in asked or path not in wrong:
            continue
        try:
            work = solve(kind, given, wrong, asked)
        except UNUSABLE:
            continue
        typed = {step: type_in(step, np.round(work[step], 9), "9 digits") for step in asked}
        steps = Marker(exercise, typed, exercise.tokens_as).mark_all()
        slugs = {cause.slug for step in steps if step.path == path for cause in step.causes}
        if slugs and not slugs & set(CERTAIN_SLIPS):
            found.append(slugs)
    return found


def agrees(slug: str, elsewhere: list[set[str]]) -> bool:
    """Whether a cause that was named gives the author's numbers in nearly all other draws, at least two."""
    held = sum(slug in slugs for slugs in elsewhere)
    return held > 1 and held >= len(elsewhere) - 1
