"""What a misconception is, and how a case is bent by one or two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.exercises.case import Bend, Case, Inapplicable, Seen, Steps

Evidence = Callable[[Any, Seen], str]  # the student's step and what was seen -> a sentence, or nothing


@dataclass(frozen=True)
class Misconception:
    """One known mistake. ``counter`` is a small problem, mechanism first, that shows it."""

    slug: str
    sentence: str
    on: tuple[str, ...]
    bend: Bend
    counter: Mapping[str, Any]
    evidence: Evidence | None = None

    @property
    def name(self) -> str:
        return self.slug.replace("-", " ")


MISCONCEPTIONS: dict[str, Misconception] = {}
Change = Callable[[Seen], Any]


def misconception(
    *,
    on: tuple[str, ...],
    at: str = "inputs",
    counter: Mapping[str, Any],
    evidence: Evidence | None = None,
    also: Mapping[str, Change] | None = None,
) -> Callable[[Change], Change]:
    """Register a mistake under its function's name; the docstring says what was done.

    ``at`` is the step that it bends, or the inputs; ``also`` holds what it does to further steps.
    """

    def register(change: Change) -> Change:
        slug, sentence = change.__name__.replace("_", "-"), " ".join((change.__doc__ or "").split())
        steps = dict(also or {})
        if at != "inputs":
            steps |= dict.fromkeys(at.split(", "), change)
        bend = Bend(change if at == "inputs" else None, steps)
        MISCONCEPTIONS[slug] = Misconception(slug, sentence, on, bend, counter, evidence)
        return change

    return register


def applicable(case: Case, steps: Iterable[str]) -> list[Misconception]:
    """The mistakes that are known for a case's mechanism and bend something that it has."""
    paths = list(steps)
    known = [m for m in MISCONCEPTIONS.values() if case.mechanism.slug in m.on]
    return [m for m in known if m.bend.inputs or any(m.bend.at(path) for path in paths)]


def bent(case: Case, *mistakes: Misconception, swaps: Mapping[str, Any] | None = None) -> Steps | None:
    """The steps as these mistakes make them, or None where they cannot be made."""
    try:
        return case.run(swaps, [m.bend for m in mistakes])
    except Inapplicable:
        return None


def same(left: Any, right: Any, within: float = 1e-9) -> bool:
    """Whether two steps have the same shape and the same numbers; what is undefined differs from everything."""
    if left.shape != right.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(((np.abs(left - right) <= within + 1e-12 * np.abs(right)) | (left == right)).all())


def counter_example(mistake: Misconception) -> tuple[str, Any, Any]:
    """The first step of the counter-example that the mistake changes, what it is, and what the mistake makes of it."""
    from headwork.exercises.exercise import Exercise

    given = dict(mistake.counter)
    case = Exercise(given.pop("mechanism"), given).case
    right, wrong = case.run(), bent(case, mistake)
    if wrong is None:
        raise ValueError(f"{mistake.slug} cannot be made in its counter-example")
    return next((p, right[p], wrong[p]) for p in right if p in wrong and not same(right[p], wrong[p]))
