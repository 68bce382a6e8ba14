"""The kinds of exercise, one small function each: how its numbers are drawn, what is asked, the question."""

from headwork.exercises.kinds import attention, convolution, recurrence, transformer
from headwork.exercises.kinds.registry import KINDS, Kind, generate, kind_slugs
