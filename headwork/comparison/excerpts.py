"""Parts of the comparison that take seconds, for the problems A3, B8, G3 and G8 of the problem book.

Each function returns sentences, tables and figures in the order to show them. ``headwork compare`` runs all.
"""

from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork.comparison import complexity, long_range, parallelism
from headwork.comparison.accuracy import changes_sentence, leaders_sentence, mean_accuracy
from headwork.comparison.experiment import Settings
from headwork.comparison.families import FAMILIES, CountedKernels, Layer, flops
from headwork.comparison.inductive_bias import circular_convolution_error, train_on_images
from headwork.comparison.section import table, words

TIMED_FAMILIES, LENGTHS = ("cnn", "lstm", "transformer", "linear"), (1024, 2048, 4096, 8192, 16384)
GAP, STEPS, IMAGES = 24, 100, 250
SEE_ALSO = words("excerpts/see_also")


def torch_flops(name: str, n: int, d: int) -> int:
    """The FLOPs of a family's definition by torch's own counter.

    >>> torch_flops("transformer", 16, 4) == flops("transformer")(n=16, d=4)
    True
    """
    layer = Layer(FAMILIES[name], d, kernels=CountedKernels)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(layer.inputs(n))
    return int(counter.get_total_flops())


@cache
def measure_times() -> dict[str, Any]:
    """Times against n in a few rounds, measured once per process."""
    return complexity.times_by_n(TIMED_FAMILIES, LENGTHS, max_rounds=6)


def work_and_time() -> list[Any]:
    """A3: the FLOPs, the exponent of n in the time, and the longest chain of each family."""
    laws = complexity.fit_times(measure_times())
    names = Settings().families
    chains = parallelism.chain_formulas(parallelism.chains(names))
    rows = [
        (name, str(flops(name)), str(laws[name]) if name in laws else "", str(chains[name])) for name in names
    ]
    measured = table("excerpts/work", rows, width=complexity.WIDTH, longest=LENGTHS[-1])
    figure = complexity.time_figure(measure_times(), laws, "n", wide=True)
    return [measured, complexity.growth_sentence(laws), figure, SEE_ALSO]


def attention_time() -> list[Any]:
    """B8: the exponent of n in attention's time."""
    law = complexity.fit_times(measure_times())["transformer"]
    sentence = (
        f"Measured: the time of attention grows as {law.describe('n')} from n = {law.start:,.0f} to "
        f"{law.end:,.0f} at d = {complexity.WIDTH}."
    )
    return [sentence, SEE_ALSO]


def recall_over_a_gap() -> list[Any]:
    """G3: gradients over a gap before training, and which family learns to predict the first symbol."""
    parameters = long_range.PARAMETERS[False]
    accuracies, rows = {}, []
    for name in ("lstm", "transformer"):
        result = long_range.train_on_gap(name, GAP, 0, steps=STEPS, parameters=parameters)
        accuracies[name] = mean_accuracy([result["accuracy"]], long_range.TEST_SEQUENCES)
        rows.append((name, f"{result['before'][0] / result['before'][-2]:.2g}", str(accuracies[name])))
    measured = table("excerpts/gap", rows, gap=GAP, steps=STEPS, chance=long_range.CHANCE)
    sentence = (
        f"With this budget, at predicting the first of {GAP + 1} symbols, {leaders_sentence(accuracies)}."
    )
    sweep = long_range.sweep_recurrent_weight((0.8, 0.9, 1.0, 1.1, 1.2), 50)
    figure = long_range.recurrent_weight_plot(sweep, wide=True)
    return [measured, sentence, figure, SEE_ALSO]


def image_shifts() -> list[Any]:
    """G8: the effect of a shift on a convolutional network and on a vision transformer."""
    results = {
        name: train_on_images(name, IMAGES, 0, steps=STEPS, full=False) for name in ("cnn", "transformer")
    }
    accuracies, shifted = (
        {name: mean_accuracy([result[field]], result["tested"]) for name, result in results.items()}
        for field in ("accuracy", "shifted")
    )
    circular = circular_convolution_error()["error"]
    rows: list[tuple[Any, ...]] = [("circular convolution", f"{circular:.1e}", "", "", "")]
    for name, result in results.items():
        errors = (f"{result[f'error {when}']:.2f}" for when in ("before", "after"))
        rows.append((name, *errors, str(accuracies[name]), str(shifted[name])))
    measured = table("excerpts/shift", rows, images=IMAGES, steps=STEPS)
    return [measured, f"Two rows lower, {changes_sentence(accuracies, shifted)}.", SEE_ALSO]
