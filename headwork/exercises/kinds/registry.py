"""What a kind of exercise is, and how its numbers are chosen.

Numbers are small whole ones, drawn again until the known mistakes of the exercise change the answer and,
where that is possible, differ from each other. The same kind, seed and difficulty always give the same exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.errors import InputError, unknown
from headwork.exercises.challenges import ANSWER, CHALLENGES
from headwork.exercises.draws import Draws
from headwork.exercises.exercise import Exercise
from headwork.exercises.revealing import revealed

Drawn = tuple[dict[str, Any], dict[str, Any]]  # inputs, options
Draw = Callable[[Draws, int], Drawn]  # from a stream of numbers and a difficulty
TRIES = 40  # numbers drawn at most for one exercise
PATIENCE = 10  # and at most so many without a better one
LARGEST_SCORE = 6  # a score beyond this leaves weights that cannot be read
DIFFICULTIES = (1, 2, 3)


@dataclass(frozen=True)
class Kind:
    """One kind of exercise: what is worked, how its numbers are drawn, which steps are asked."""

    slug: str
    mechanism: str
    question: str
    asked: tuple[str, ...]
    draw: Draw

    @property
    def title(self) -> str:
        return self.slug.replace("-", " ").capitalize()


KINDS: dict[str, Kind] = {}


def kind(mechanism: str, asked: str) -> Callable[[Draw], Draw]:
    """Register the draw of a kind under its function's name; its docstring is the question."""

    def register(draw: Draw) -> Draw:
        slug = draw.__name__.replace("_", "-")
        question = " ".join((draw.__doc__ or "").split())
        KINDS[slug] = Kind(slug, mechanism, question, tuple(asked.split(", ")), draw)
        return draw

    return register


def kinds() -> list[str]:
    """Every kind, challenges last."""
    return [*KINDS, *CHALLENGES]


def generate(kind: str, seed: int = 0, difficulty: int = 1) -> Exercise:
    """The exercise of that kind, seed and difficulty (1 to 3).

    >>> generate("self-attention", 7) == generate("self-attention", 7)
    True
    """
    slug = kind.replace("_", "-")
    if difficulty not in DIFFICULTIES:
        raise InputError(f"difficulty {difficulty}: expected 1, 2 or 3.")
    if slug in CHALLENGES:
        return challenge(slug, seed, difficulty)
    if slug not in KINDS:
        raise unknown("kind of exercise", kind, kinds())
    return _best(KINDS[slug], seed, difficulty)


def challenge(slug: str, seed: int, difficulty: int) -> Exercise:
    """The exercise of a challenge."""
    what = CHALLENGES[slug]
    return Exercise(
        mechanism=slug,
        inputs=what.draw(Draws(slug, seed, difficulty)),
        points={ANSWER: 2},
        kind=slug,
        title=slug.replace("-", " ").capitalize(),
        question=what.question,
        seed=seed,
        difficulty=difficulty,
    )


def _best(kind: Kind, seed: int, difficulty: int) -> Exercise:
    best: tuple[tuple[int, int], Exercise] | None = None
    waited = 0
    for attempt in range(10 * TRIES):
        exercise = _drawn(kind, seed, difficulty, attempt)
        if not _workable(exercise):
            continue
        shown = revealed(exercise)
        score = (len(shown.hidden), len(shown.alike))
        waited += 1
        if best is None or score < best[0]:
            best, waited = (score, exercise), 0
        if best[0] == (0, 0) or waited >= PATIENCE or attempt >= TRIES:
            break
    if best is None:
        raise InputError(f"{kind.slug}: seed {seed} gives no numbers that can be worked. Take another seed.")
    return best[1]


def _drawn(kind: Kind, seed: int, difficulty: int, attempt: int) -> Exercise:
    inputs, options = kind.draw(Draws(kind.slug, seed, difficulty, attempt), difficulty)
    words: Mapping[str, Any] = {**inputs, **options}
    exercise = Exercise(
        mechanism=kind.mechanism,
        inputs=inputs,
        options=options,
        kind=kind.slug,
        title=kind.title,
        question=kind.question.format(**words),
        seed=seed,
        difficulty=difficulty,
    )
    steps = [
        path
        for path, noted in exercise.trace.steps.items()
        if path in kind.asked or noted.card.name in kind.asked
    ]
    object.__setattr__(exercise, "points", dict.fromkeys(steps, 1))
    return exercise


def _workable(exercise: Exercise) -> bool:
    """Whether a person can work the numbers: everything is defined, no exponent is far out."""
    key = exercise.key
    if not all(np.isfinite(key[path]).all() for path in exercise.asked):
        return False
    scores = [key[path] for path in key if path.endswith("scores") and "weights" in " ".join(key)]
    return all(
        np.abs(s).max() <= LARGEST_SCORE and len(np.unique(np.round(s, 9))) <= 7 for s in scores if s.ndim
    )
