"""Mistakes in normalisation, residuals and the feed-forward layer."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView


# --- normalisation ----------------------------------------------------------------------------------
def _rows(run: RunView) -> Any:
    return run.residual if run.has_step("residual") else run.tokens


def normalised_over_tokens(run: RunView) -> Any:
    rows = _rows(run)
    steps = {"mean": rows.mean(-2, keepdims=True), "deviation": rows.std(-2, keepdims=True)}
    steps["centred"] = rows - steps["mean"]
    steps["normalised"] = steps["output"] = steps["centred"] / steps["deviation"]
    if run.has("scale"):
        steps["output"] = steps["output"] * run.scale
    if run.has("shift"):
        steps["output"] = steps["output"] + run.shift
    return steps[run.path]


def variance_for_deviation(run: RunView) -> Any:
    return run.current**2


def sample_deviation(run: RunView) -> Any:
    return run.current * np.sqrt(run.centred.shape[-1] / (run.centred.shape[-1] - 1))


def mean_not_subtracted(run: RunView) -> Any:
    return _rows(run) / run.deviation


def deviation_of_sum(run: RunView) -> Any:
    return run.current * np.sqrt(run.centred.shape[-1])


def scale_and_shift_swapped(run: RunView) -> Any:
    return {"scale": run.shift, "shift": run.scale} if run.has("scale") and run.has("shift") else None


def affine_forgotten(run: RunView) -> Any:
    return run.normalised if run.has("scale") or run.has("shift") else None


def residual_forgotten(run: RunView) -> Any:
    return run.sublayer


def added_after_normalising(run: RunView) -> Any:
    rows = run.tokens
    return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True) + run.sublayer


# --- feed-forward -----------------------------------------------------------------------------------
def feed_forward_transposed(run: RunView) -> Any:
    return {"W_1": run.W_1.T, "W_2": run.W_2.T}


def activation_forgotten(run: RunView) -> Any:
    return run.hidden


def absolute_for_positive(run: RunView) -> Any:
    return np.abs(run.hidden)


def first_bias_forgotten(run: RunView) -> Any:
    return {"b_1": None} if run.has("b_1") else None


def second_bias_forgotten(run: RunView) -> Any:
    return {"b_2": None} if run.has("b_2") else None


def output_activated(run: RunView) -> Any:
    return np.maximum(run.current, 0)


def _each(function: Any) -> Any:
    """A function of each row of what is normalised."""
    return lambda run: function(_rows(run))[:, None]


def _normalised(rows: Any) -> Any:
    deviations = rows.std(-1, keepdims=True)
    return (rows - rows.mean(-1, keepdims=True)) / np.where(deviations == 0, 1, deviations)


def _bias_per_token(run: RunView, products: Any, bias: Any) -> Any:
    """The bias added down the columns, which needs as many tokens as it has numbers, or fewer."""
    return products + bias[: len(products), None] if len(products) <= len(bias) else None
