"""Numbers worked by hand, typed in, joined, and counted."""

from headwork.numbers.hand import HandTensor
from headwork.numbers.shapes import OperationCount, ShapeTensor, cat, exponentials_may_overflow, stack
