"""Mistakes in positions, normalisation, residuals and the feed-forward layer."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import SENTENCES, misconception, misconception_formulas

POSITIONS = ("sinusoidal-positions",)
NORMALISED = ("layer-normalisation", "add-and-normalise")
FEED_FORWARD = ("feed-forward",)


# --- positions --------------------------------------------------------------------------------------
misconception_formulas(SENTENCES, on=POSITIONS, counter_example="position")(
    sine_and_cosine_swapped=(
        "output",
        lambda run: run.current.reshape(len(run.current), -1, 2)[..., ::-1].reshape(run.current.shape),
    ),
    exponent_without_two=("frequencies", lambda run: run.current**0.5),
    column_for_pair=("frequencies", lambda run: run.current**2),
    frequencies_rising=("frequencies", lambda run: 1 / run.current),
    positions_from_one=("inputs", lambda run: {"places": run.places + 1}),
)


@misconception(on=POSITIONS, at="output", counter_example="position")
def degrees_for_radians(run: RunView) -> Any:
    """the angles are taken in degrees; they must be in radians"""
    angles = np.deg2rad(run.angles)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(run.current.shape)


# --- normalisation ----------------------------------------------------------------------------------
def _rows(run: RunView) -> Any:
    return run.residual if run.has_step("residual") else run.tokens


@misconception(on=NORMALISED, at="mean, centred, deviation, normalised, output", counter_example="two-rows")
def normalised_over_tokens(run: RunView) -> Any:
    """the mean is taken over the tokens; layer normalisation works on each token by itself"""
    rows = _rows(run)
    steps = {"mean": rows.mean(-2, keepdims=True), "deviation": rows.std(-2, keepdims=True)}
    steps["centred"] = rows - steps["mean"]
    steps["normalised"] = steps["output"] = steps["centred"] / steps["deviation"]
    if run.has("scale"):
        steps["output"] = steps["output"] * run.scale
    if run.has("shift"):
        steps["output"] = steps["output"] + run.shift
    return steps[run.path]


misconception_formulas(SENTENCES, on=NORMALISED, counter_example="two-rows")(
    variance_for_deviation=("deviation", lambda run: run.current**2),
    sample_deviation=(
        "deviation",
        lambda run: run.current * np.sqrt(run.centred.shape[-1] / (run.centred.shape[-1] - 1)),
    ),
    mean_not_subtracted=("normalised", lambda run: _rows(run) / run.deviation),
    deviation_of_sum=("deviation", lambda run: run.current * np.sqrt(run.centred.shape[-1])),
)

misconception_formulas(SENTENCES, on=("layer-normalisation",), counter_example="scale-and-shift-swapped")(
    scale_and_shift_swapped=(
        "inputs",
        lambda run: (
            {"scale": run.shift, "shift": run.scale} if run.has("scale") and run.has("shift") else None
        ),
    ),
    affine_forgotten=("output", lambda run: run.normalised if run.has("scale") or run.has("shift") else None),
)


@misconception(on=("add-and-normalise",), at="residual", counter_example="added")
def residual_forgotten(run: RunView) -> Any:
    """the residual is left out: the input must be added to the output of the sublayer"""
    return run.sublayer


@misconception(on=("add-and-normalise",), at="output", counter_example="added")
def added_after_normalising(run: RunView) -> Any:
    """the input is normalised before the sublayer's output is added; here the sum is normalised"""
    rows = run.tokens
    return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True) + run.sublayer


# --- feed-forward -----------------------------------------------------------------------------------
@misconception(on=FEED_FORWARD, counter_example="feed-forward-transposed")
def feed_forward_transposed(run: RunView) -> Any:
    """a matrix is applied transposed: W x for x W"""
    return {"W_1": run.W_1.T, "W_2": run.W_2.T}


misconception_formulas(SENTENCES, on=FEED_FORWARD, counter_example="small-layer")(
    activation_forgotten=("activated", lambda run: run.hidden),
    absolute_for_positive=("activated", lambda run: np.abs(run.hidden)),
    first_bias_forgotten=("inputs", lambda run: {"b_1": None} if run.has("b_1") else None),
    second_bias_forgotten=("inputs", lambda run: {"b_2": None} if run.has("b_2") else None),
)


@misconception(on=FEED_FORWARD, at="output", counter_example="output-activated")
def output_activated(run: RunView) -> Any:
    """the output is clipped at 0 too; the activation stands only between the two layers"""
    return np.maximum(run.current, 0)
