"""What a kind of exercise is, and how its numbers are chosen.

Numbers are small integers, drawn again until the known mistakes of the exercise change the answer and, where
possible, differ from each other. The same kind, seed and difficulty always give the same exercise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from headwork.errors import InputError, unknown_name
from headwork.exercises import kinds
from headwork.exercises.challenges import ANSWER, CHALLENGES
from headwork.exercises.checking import detect
from headwork.exercises.exercise import Exercise
from headwork.exercises.seeded_random import SeededRandom
from headwork.files import load_package_toml

MAX_DRAWS = 40  # draws at most for one exercise
MAX_DRAWS_WITHOUT_GAIN = 10  # and at most this many without a better one
LARGEST_SCORE = 6  # a larger score leaves weights too small to write
DIFFICULTIES = (1, 2, 3)


@dataclass(frozen=True)
class ExerciseKind:
    """One kind of exercise: its mechanism, how its numbers are drawn, which steps are asked.

    ``phrases`` are what the question says without and with an option.
    """

    slug: str
    mechanism: str
    question: str
    asked: tuple[str, ...]
    phrases: Mapping[str, list[str]] = field(default_factory=dict)

    def draw(self, random: SeededRandom, difficulty: int) -> kinds.InputsAndOptions:
        """Inputs and options, by the function of its name."""
        drawn: kinds.InputsAndOptions = getattr(kinds, self.slug.replace("-", "_"))(random, difficulty)
        return drawn


EXERCISE_KINDS: dict[str, ExerciseKind] = {}
for _slug, _entry in load_package_toml(__file__, "kinds.toml").items():
    _question, _asked = " ".join(_entry.pop("question").split()), tuple(_entry.pop("asked"))
    EXERCISE_KINDS[_slug] = ExerciseKind(_slug, question=_question, asked=_asked, **_entry)


def kind_slugs() -> list[str]:
    """Every kind, challenges last."""
    return [*EXERCISE_KINDS, *CHALLENGES]


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
        inputs = challenge.draw(SeededRandom(slug, seed, difficulty))
        exercise = Exercise(slug, inputs, points={ANSWER: 2}, question=challenge.question)
    elif slug in EXERCISE_KINDS:
        exercise = _choose(EXERCISE_KINDS[slug], seed, difficulty)
    else:
        raise unknown_name("kind of exercise", kind, kind_slugs())
    title = slug.replace("-", " ").capitalize()
    return replace(exercise, kind=slug, title=title, seed=seed, difficulty=difficulty)


def _choose(kind: ExerciseKind, seed: int, difficulty: int) -> Exercise:
    """The drawn exercise whose numbers hide and confuse the fewest mistakes."""
    best: tuple[tuple[int, int], Exercise] | None = None
    without_gain = 0
    for attempt in range(10 * MAX_DRAWS):
        exercise = _draw(kind, seed, difficulty, attempt)
        if not _workable(exercise):
            continue
        score = detect(exercise).unrevealed
        without_gain += 1
        if best is None or score < best[0]:
            best, without_gain = (score, exercise), 0
        if best[0] == (0, 0) or without_gain >= MAX_DRAWS_WITHOUT_GAIN or attempt >= MAX_DRAWS:
            break
    if best is None:
        raise InputError(f"{kind.slug}: seed {seed} gives no workable numbers. Take another seed.")
    return best[1]


def _draw(kind: ExerciseKind, seed: int, difficulty: int, attempt: int) -> Exercise:
    inputs, options = kind.draw(SeededRandom(kind.slug, seed, difficulty, attempt), difficulty)
    phrases = {name: texts[bool(options)] for name, texts in kind.phrases.items()}
    question = kind.question.format(**inputs, **options, **phrases)
    exercise = Exercise(kind.mechanism, inputs, options, question=question)
    steps = exercise.trace.steps.items()
    asked = [path for path, value in steps if path in kind.asked or value.card.name in kind.asked]
    return replace(exercise, points=dict.fromkeys(asked, 1))


def _workable(exercise: Exercise) -> bool:
    """Whether a person can work with the numbers: everything is defined, no exponent is far out."""
    key = exercise.solution
    if not all(np.isfinite(key[path]).all() for path in exercise.asked):
        return False
    scores = [key[path] for path in key if path.endswith("scores") and "weights" in " ".join(key)]
    return all(
        np.abs(s).max() <= LARGEST_SCORE and len(set(np.round(s, 9).flat)) <= 7 for s in scores if s.ndim
    )
