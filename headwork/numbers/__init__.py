"""Numbers worked by hand, typed in, joined, and counted."""

from headwork.numbers.hand import HandTensor
from headwork.numbers.joining import cat, stack
from headwork.numbers.shapes import ShapeTensor, Work

__all__ = ["HandTensor", "ShapeTensor", "Work", "cat", "stack"]
