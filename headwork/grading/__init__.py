"""Grading: an answer read, every step marked from the student's own numbers, and the cause of the first mistake."""

from headwork.grading.answers import read_answers
from headwork.grading.diagnosis import Cause
from headwork.grading.feedback import feedback
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, StepMark

__all__ = ["Cause", "Mark", "StepMark", "feedback", "grade", "read_answers"]
