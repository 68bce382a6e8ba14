"""Grading: reading an answer, marking every step from the student's own numbers, naming the causes."""

from headwork.grading.answers import read_answers
from headwork.grading.feedback import feedback
from headwork.grading.marking import grade
from headwork.grading.marks import Mark, StepMark
from headwork.grading.wrong_step import Cause
