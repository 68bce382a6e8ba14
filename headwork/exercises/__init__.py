"""Exercises: a mechanism with numbers, and the mistakes that its numbers reveal.

The key of an exercise is the recorded trace; a misconception is an edit of one step of it.
"""

from headwork.exercises.exercise import Exercise
from headwork.exercises.exercise_files import exercise_from, read_exercise
from headwork.exercises.generation import generate, kind_slugs
