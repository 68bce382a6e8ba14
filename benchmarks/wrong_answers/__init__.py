"""Wrong answers of students, worked out in plain numpy: a benchmark of diagnosis that knows no diagnosis.

The mistakes were written by a teacher's judgement, from the questions alone, without the package's own
misconceptions; only drawing an exercise and marking an answer use the package.
"""

from benchmarks.wrong_answers import (
    attention,
    counts,
    kernels_of_attention,
    layers,
    many_heads,
    sizes_and_states,
    sliding,
)

MODULES = (attention, many_heads, kernels_of_attention, layers, counts, sliding, sizes_and_states)
KINDS = {kind.name: kind for module in MODULES for kind in module.KINDS}
