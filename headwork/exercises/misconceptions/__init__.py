"""Known mistakes, each a variation on a mechanism: a name, a sentence, a counter-example and an edit.

To add one, write a function in the file of its subject: it reads the inputs and the steps so far
(``RunView``) and returns what the mistake makes of one step, or of the inputs. Mistakes that are one formula
each stand in tables: the sentences, then the formulas; those of sizes in ``formulas.toml``.
"""

from headwork.exercises.misconceptions import (
    attention,
    convolution,
    counts,
    formulas,
    heads,
    layers,
    recurrence,
)
from headwork.exercises.misconceptions.registry import (
    MISCONCEPTIONS,
    Misconception,
    applicable,
    counter_example,
    run_with_mistakes,
    same,
)
