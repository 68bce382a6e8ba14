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


def not_divided_by_width(run: RunView) -> Any:
    return _rows(run).sum(-1, keepdims=True) / len(_rows(run))


def mean_absolute_deviation(run: RunView) -> Any:
    return np.abs(run.centred).mean(-1, keepdims=True)


def deviations_not_squared(run: RunView) -> Any:
    return run.centred.sum(-1, keepdims=True)


def deviation_of_all_tokens(run: RunView) -> Any:
    return np.full_like(run.current, _rows(run).std())


def squares_over_tokens(run: RunView) -> Any:
    return np.sqrt((run.centred**2).sum(-1, keepdims=True) / len(run.centred))


def sum_of_squares(run: RunView) -> Any:
    return (run.centred**2).sum(-1, keepdims=True)


def root_of_sum_over_width(run: RunView) -> Any:
    return np.sqrt((run.centred**2).sum(-1, keepdims=True)) / run.centred.shape[-1]


def squares_not_centred(run: RunView) -> Any:
    return np.sqrt((_rows(run) ** 2).mean(-1, keepdims=True))


def divided_by_length(run: RunView) -> Any:
    return run.centred / np.sqrt((run.centred**2).sum(-1, keepdims=True))


def zeros_not_counted(run: RunView) -> Any:
    return _rows(run).sum(-1, keepdims=True) / (_rows(run) != 0).sum(-1, keepdims=True)


def median_for_mean(run: RunView) -> Any:
    return _each(lambda rows: np.median(rows, -1))(run)


def middle_for_mean(run: RunView) -> Any:
    return _each(lambda rows: (rows.max(-1) + rows.min(-1)) / 2)(run)


def largest_for_mean(run: RunView) -> Any:
    return _each(lambda rows: rows.max(-1))(run)


def absolute_deviations_added(run: RunView) -> Any:
    return np.abs(run.centred).sum(-1, keepdims=True)


def mean_of_squares_less_mean(run: RunView) -> Any:
    return np.sqrt(np.abs((_rows(run) ** 2).mean(-1, keepdims=True) - run.mean))


def largest_deviation(run: RunView) -> Any:
    return np.abs(run.centred).max(-1, keepdims=True)


def range_for_deviation(run: RunView) -> Any:
    return _each(lambda rows: np.ptp(rows, -1))(run)


def half_range_for_deviation(run: RunView) -> Any:
    return _each(lambda rows: np.ptp(rows, -1) / 2)(run)


def scale_for_each_token(run: RunView) -> Any:
    return (
        run.normalised * run.scale[: len(run.tokens), None] + run.shift[: len(run.tokens), None]
        if run.has("scale") and run.has("shift") and (len(run.tokens) <= len(run.scale))
        else None
    )


def mean_for_shift(run: RunView) -> Any:
    return run.normalised * run.scale + run.mean if run.has("scale") else None


def difference_of_sublayer(run: RunView) -> Any:
    return run.tokens - run.sublayer


def mean_of_both(run: RunView) -> Any:
    return (run.tokens + run.sublayer) / 2


def sublayer_normalised(run: RunView) -> Any:
    return run.tokens + _normalised(run.sublayer)


def input_normalised(run: RunView) -> Any:
    return _normalised(run.tokens) + run.sublayer


def _normalised(rows: Any) -> Any:
    deviations = rows.std(-1, keepdims=True)
    return (rows - rows.mean(-1, keepdims=True)) / np.where(deviations == 0, 1, deviations)


def clipped_before_the_bias(run: RunView) -> Any:
    return np.maximum(run.tokens @ run.W_1, 0) + (run.b_1 if run.has("b_1") else 0)


def bias_down_the_columns(run: RunView) -> Any:
    return _bias_per_token(run, run.tokens @ run.W_1, run.b_1)


def second_bias_down_the_columns(run: RunView) -> Any:
    return _bias_per_token(run, run.activated @ run.W_2, run.b_2)


def output_clipped_before_the_bias(run: RunView) -> Any:
    return np.maximum(run.activated @ run.W_2, 0) + (run.b_2 if run.has("b_2") else 0)


def activation_not_used(run: RunView) -> Any:
    return run.hidden @ run.W_2 + (run.b_2 if run.has("b_2") else 0)


def tokens_clipped(run: RunView) -> Any:
    return np.maximum(run.tokens, 0) @ run.W_1 + (run.b_1 if run.has("b_1") else 0)


def bias_summed(run: RunView) -> Any:
    return run.tokens @ run.W_1 + run.b_1.sum()


def second_bias_summed(run: RunView) -> Any:
    return run.activated @ run.W_2 + run.b_2.sum()


def only_the_largest_kept(run: RunView) -> Any:
    return np.where(run.hidden == run.hidden.max(-1, keepdims=True), run.current, 0)


def clipped_at_one(run: RunView) -> Any:
    return np.maximum(run.hidden, 1)


def negative_as_one(run: RunView) -> Any:
    return np.where(run.hidden < 0, 1, run.hidden)


def negative_as_minus_one(run: RunView) -> Any:
    return np.where(run.hidden < 0, -1, run.hidden)


def _bias_per_token(run: RunView, products: Any, bias: Any) -> Any:
    """The bias added down the columns, which needs as many tokens as it has numbers, or fewer."""
    return products + bias[: len(products), None] if len(products) <= len(bias) else None
