"""Mistakes that take more than one expression, each a function of its name in ``misconceptions.toml``."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.attention_parts import masked_scores, normalise, scale
from headwork.exercises.misconceptions.formula_parts import rows
from headwork.mechanisms import convolution_1d, convolution_2d
from headwork.numbers import HandTensor


# --- attention --------------------------------------------------------------------------------------
def own_token_left_out(run: RunView) -> Any:
    scores = masked_scores(run)
    if scores.shape[-1] != scores.shape[-2]:
        return None
    return normalise(np.exp(np.where(np.eye(scores.shape[-1], dtype=bool), -np.inf, scores)))


def row_for_column_changed(run: RunView) -> Any:
    moved = np.any(run.delta != 0, axis=-1)
    if run.current.shape[0] != run.current.shape[1]:
        return None
    before = run.query @ run.key.T
    change = (run.query @ run.delta.T) * scale(run)
    return before * scale(run) + np.where(moved[:, None] & moved[None, :], change, 0)


# --- normalisation ----------------------------------------------------------------------------------
def normalised_over_tokens(run: RunView) -> Any:
    tokens = rows(run)
    steps = {"mean": tokens.mean(-2, keepdims=True), "deviation": tokens.std(-2, keepdims=True)}
    steps["centred"] = tokens - steps["mean"]
    steps["normalised"] = steps["output"] = steps["centred"] / steps["deviation"]
    if run.has("scale"):
        steps["output"] = steps["output"] * run.scale
    if run.has("shift"):
        steps["output"] = steps["output"] + run.shift
    return steps[run.path]


# --- convolutions and their matrices ----------------------------------------------------------------
def channels_not_summed(run: RunView) -> Any:
    return np.concatenate(_by_channel(run))


def first_channel_only(run: RunView) -> Any:
    return _by_channel(run)[0]


def _by_channel(run: RunView) -> list[Any]:
    """The output of each channel by itself: the kernel with all other channels zero."""
    kernel = run.kernel
    if kernel.ndim != (4 if run.has("image") else 3):
        return []
    function, signal = (convolution_2d, run.image) if run.has("image") else (convolution_1d, run.signal)
    outputs = []
    for channel in range(kernel.shape[1]):
        single = np.zeros_like(kernel)
        single[:, channel] = kernel[:, channel]
        output = function(HandTensor(signal), HandTensor(single), stride=run.stride, padding=run.padding)
        outputs.append(output.array)
    return outputs


def toeplitz_without_overlap(run: RunView) -> Any:
    if run.padding or run.stride != 1:
        return None
    taps = run.kernel if run.has("kernel") else run.kernels
    columns, count = run.current.shape[1], taps.shape[-1]
    result = np.zeros_like(run.current)
    for row in range(len(result)):
        start = row * count
        kernel = taps if taps.ndim == 1 else taps[row]
        result[row, start : start + count] = kernel[: max(0, columns - start)]
    return result
