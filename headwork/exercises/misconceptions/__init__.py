"""Known mistakes, each a variation on a mechanism.

``misconceptions.toml`` has the sentence of each, the mechanisms that it is made on, and what it makes of
one step or of the inputs: a formula of the inputs and the steps so far (``RunView``), as those of
``formulas.toml`` are. What takes more than one expression is the function of its name in ``functions.py``.
"""

from headwork.exercises.misconceptions.registry import (
    MISCONCEPTIONS,
    Misconception,
    applicable,
    run_with_mistakes,
    same_values,
)
