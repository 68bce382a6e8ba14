"""Exercises: a mechanism with numbers, and the mistakes that its numbers can show.

One definition, read once more: the key of an exercise is the recorded trace; a misconception changes one step of it.
"""

from headwork.exercises.exercise import Exercise, exercise_from, read_exercise
from headwork.exercises.kinds import generate, kinds

__all__ = ["Exercise", "exercise_from", "generate", "kinds", "read_exercise"]
