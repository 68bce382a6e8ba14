"""Known mistakes, each a variation on a mechanism.

``misconceptions.toml`` has the sentence of each, the mechanisms that it is made on and the steps that it
changes; the function of its name, in the file of its subject, reads the inputs and the steps so far
(``RunView``) and returns what the mistake makes of one step, or of the inputs.
"""

from headwork.exercises.misconceptions.registry import (
    MISCONCEPTIONS,
    Misconception,
    applicable,
    run_with_mistakes,
    same_values,
)
