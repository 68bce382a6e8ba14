"""Wrong answers of students, worked out in plain numpy: a benchmark of diagnosis that knows no diagnosis.

The mistakes were written by a teacher's judgement, from the questions alone, without the package's own
misconceptions; only drawing an exercise and marking an answer use the package.
"""

from benchmarks.wrong_answers import (
    attention,
    banded,
    convolution,
    limits,
    linear,
    masked,
    multi_head,
    normalisation,
    parameters,
    positions,
    recurrences,
    sensitivity,
    shapes,
    sizes,
)

MODULES = (
    *(attention, masked, multi_head, limits, sensitivity, linear, positions, normalisation),
    *(shapes, parameters, convolution, banded, sizes, recurrences),
)
KINDS = {kind.name: kind for module in MODULES for kind in module.KINDS}
