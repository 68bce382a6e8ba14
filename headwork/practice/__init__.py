"""Exercises, and a wrong answer explained.

One definition, read once more: an exercise is a mechanism with numbers, its key the recorded trace; a student's own
steps replace those of the key to mark what follows from them; a misconception bends a step to see whether that
explains what was written.
"""

from headwork.practice.answers import read_answers
from headwork.practice.diagnosis import Cause
from headwork.practice.exercise import Exercise, exercise_from, read_exercise
from headwork.practice.feedback import feedback
from headwork.practice.grading import Mark, StepMark, grade
from headwork.practice.kinds import generate, kinds

__all__ = [
    "Cause",
    "Exercise",
    "Mark",
    "StepMark",
    "exercise_from",
    "feedback",
    "generate",
    "grade",
    "kinds",
    "read_answers",
    "read_exercise",
]
