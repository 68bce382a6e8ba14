"""What a kind of exercise is, and how its numbers are chosen.

Numbers are small integers, drawn again until the known mistakes of the exercise change the answer and, where
possible, differ from each other. The same kind, seed and difficulty always give the same exercise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwork.errors import InputError, unknown_name
from headwork.exercises.challenges import ANSWER, CHALLENGES
from headwork.exercises.checking import detect
from headwork.exercises.draws import Draws
from headwork.exercises.exercise import Exercise

InputsAndOptions = tuple[dict[str, Any], dict[str, Any]]  # inputs, options
Draw = Callable[[Draws, int], InputsAndOptions]  # from a stream of numbers and a difficulty
TRIES = 40  # draws at most for one exercise
PATIENCE = 10  # and at most this many without a better one
LARGEST_SCORE = 6  # a larger score leaves weights too small to write
DIFFICULTIES = (1, 2, 3)


@dataclass(frozen=True)
class Kind:
    """One kind of exercise: its mechanism, how its numbers are drawn, which steps are asked."""

    slug: str
    mechanism: str
    question: str
    asked: tuple[str, ...]
    draw: Draw
    phrases: Callable[[dict[str, Any]], dict[str, str]]  # from the options: what the question says of them


KINDS: dict[str, Kind] = {}


def kind(
    mechanism: str, asked: str, phrases: Callable[[dict[str, Any]], dict[str, str]] = lambda options: {}
) -> Callable[[Draw], Draw]:
    """Register the draw of a kind under its function's name; its docstring is the question."""

    def register(draw: Draw) -> Draw:
        slug = draw.__name__.replace("_", "-")
        question = " ".join((draw.__doc__ or "").split())
        KINDS[slug] = Kind(slug, mechanism, question, tuple(asked.split(", ")), draw, phrases)
        return draw

    return register


def kind_slugs() -> list[str]:
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
        challenge = CHALLENGES[slug]
        inputs = challenge.draw(Draws(slug, seed, difficulty))
        exercise = Exercise(slug, inputs, points={ANSWER: 2}, question=challenge.question)
    elif slug in KINDS:
        exercise = _choose(KINDS[slug], seed, difficulty)
    else:
        raise unknown_name("kind of exercise", kind, kind_slugs())
    title = slug.replace("-", " ").capitalize()
    return replace(exercise, kind=slug, title=title, seed=seed, difficulty=difficulty)


def _choose(kind: Kind, seed: int, difficulty: int) -> Exercise:
    """The drawn exercise whose numbers hide and confuse the fewest mistakes."""
    best: tuple[tuple[int, int], Exercise] | None = None
    waited = 0
    for attempt in range(10 * TRIES):
        exercise = _draw(kind, seed, difficulty, attempt)
        if not _workable(exercise):
            continue
        score = detect(exercise).score
        waited += 1
        if best is None or score < best[0]:
            best, waited = (score, exercise), 0
        if best[0] == (0, 0) or waited >= PATIENCE or attempt >= TRIES:
            break
    if best is None:
        raise InputError(f"{kind.slug}: seed {seed} gives no workable numbers. Take another seed.")
    return best[1]


def _draw(kind: Kind, seed: int, difficulty: int, attempt: int) -> Exercise:
    inputs, options = kind.draw(Draws(kind.slug, seed, difficulty, attempt), difficulty)
    question = kind.question.format(**inputs, **options, **kind.phrases(options))
    exercise = Exercise(kind.mechanism, inputs, options, question=question)
    steps = exercise.trace.steps.items()
    asked = [path for path, value in steps if path in kind.asked or value.card.name in kind.asked]
    return replace(exercise, points=dict.fromkeys(asked, 1))


def _workable(exercise: Exercise) -> bool:
    """Whether a person can work with the numbers: everything is defined, no exponent is far out."""
    key = exercise.key
    if not all(np.isfinite(key[path]).all() for path in exercise.asked):
        return False
    scores = [key[path] for path in key if path.endswith("scores") and "weights" in " ".join(key)]
    return all(
        np.abs(s).max() <= LARGEST_SCORE and len(set(np.round(s, 9).flat)) <= 7 for s in scores if s.ndim
    )
