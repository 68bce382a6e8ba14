"""The kinds of exercise, one small function each: how its numbers are drawn, what is asked, how the question is put."""

from headwork.exercises.kinds import attention, convolution, recurrence, transformer  # noqa: F401
from headwork.exercises.kinds.registry import KINDS, Kind, generate, kinds

__all__ = ["KINDS", "Kind", "generate", "kinds"]
