"""Known mistakes, each a variation on a mechanism: a name, a sentence, a counter-example and a bend.

To add one, write a function in the file of its subject: it looks at what is given and at the steps so far
(``Seen``) and returns what the mistake makes of one step, or of the inputs.
"""

from headwork.exercises.misconceptions import attention, convolution, counts, heads, layers, recurrence  # noqa: F401
from headwork.exercises.misconceptions.registry import (
    MISCONCEPTIONS,
    Misconception,
    applicable,
    bent,
    counter_example,
)

__all__ = ["MISCONCEPTIONS", "Misconception", "applicable", "bent", "counter_example"]
