"""Mistakes in attention: scaling, softmax, the roles of queries, keys and values."""

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts
from headwork.exercises.misconceptions.registry import SENTENCES, misconception, misconception_formulas

PROJECTED_ATTENTIONS = ("self-attention", "cross-attention", "multi-head-attention")
ATTENTIONS = ("attention", *PROJECTED_ATTENTIONS)
ALL_ATTENTIONS = (*ATTENTIONS, "beta-limits", "sensitivity", "copying")
SELF_ATTENTIONS = ("self-attention", "multi-head-attention", "copying")


# --- scores -------------------------------------------------------------------------------------
misconception_formulas(SENTENCES, on=(*ATTENTIONS, "sensitivity"), counter_example="two-tokens")(
    no_scaling=(
        "scores",
        lambda run: run.current / attention_parts.scale(run) if attention_parts.scale(run) != 1 else None,
    ),
    scaled_by_width=(
        "scores",
        lambda run: None if run.has("beta") else run.current / math.sqrt(run.query.shape[-1]),
    ),
)


@misconception(on=PROJECTED_ATTENTIONS, at="scores", counter_example="two-heads")
def scaled_by_whole_width(run: RunView) -> Any:
    """the scores are divided by the root of the whole width, not of the width of one head"""
    head_width, width = run.query.shape[-1], run.tokens.shape[-1]
    if run.has("beta") or head_width == width:
        return None
    return run.current * math.sqrt(head_width / width)


@misconception(on=(*ATTENTIONS, "sensitivity"), at="scores", counter_example="temperature-for-beta")
def temperature_for_beta(run: RunView) -> Any:
    """beta is taken for a temperature: the scores are divided by it instead of multiplied"""
    return run.current / run.beta**2 if run.has("beta") and run.beta != 1 else None


@misconception(on=("beta-limits",), at="weights", counter_example="limits")
def limits_exchanged(run: RunView) -> Any:
    """the limits are swapped: beta is taken for a temperature"""
    scores = run.query @ run.key.T
    return (
        np.full(scores.shape, 1 / scores.shape[-1])
        if run.path.startswith("beta oo")
        else attention_parts.hardmax(scores, -1)
    )


misconception_formulas(SENTENCES, on=ALL_ATTENTIONS, counter_example="beta-1")(
    wrong_sign=("scores", lambda run: -run.current),
    scores_transposed=("scores", lambda run: np.swapaxes(run.current, -1, -2)),
)


@misconception(on=("attention", "self-attention"), at="scores", counter_example="beta-1")
def features_compared(run: RunView) -> Any:
    """each score compares features, not tokens: Q^T K for Q K^T"""
    return np.swapaxes(run.query, -1, -2) @ run.key * attention_parts.scale(run)


# --- softmax ------------------------------------------------------------------------------------
misconception_formulas(
    SENTENCES, on=ALL_ATTENTIONS, counter_example="beta-1", evidence=attention_parts.row_sums
)(
    softmax_over_columns=("weights", lambda run: attention_parts.softmax_over(run, (-2,))),
    softmax_over_everything=("weights", lambda run: attention_parts.softmax_over(run, (-2, -1))),
)


@misconception(
    on=(*ATTENTIONS, "sensitivity", "copying"),
    at="weights",
    counter_example="beta-1",
    evidence=attention_parts.row_sums,
)
def no_normalisation(run: RunView) -> Any:
    """the exponentials are not divided by their sum"""
    return np.exp(attention_parts.masked_scores(run))


@misconception(on=(*ATTENTIONS, "sensitivity", "copying"), at="weights", counter_example="beta-1")
def exponential_dropped(run: RunView) -> Any:
    """the exponential is left out: each score is divided by the sum of its row"""
    return attention_parts.normalise(_finite_scores(run))


@misconception(on=(*ATTENTIONS, "sensitivity", "copying"), at="weights", counter_example="beta-1")
def exp_zero_is_zero(run: RunView) -> Any:
    """e^0 is taken for 0, but it is 1"""
    scores = attention_parts.masked_scores(run)
    return attention_parts.normalise(np.where(scores == 0, 0, np.exp(scores)))


@misconception(on=ALL_ATTENTIONS, at="weights", counter_example="zero-row-gives-zero")
def zero_row_gives_zero(run: RunView) -> Any:
    """a row of equal scores is given weights 0; softmax gives equal weights"""
    scores = attention_parts.masked_scores(run)
    return np.where(np.all(scores == 0, axis=-1, keepdims=True), 0, run.current)


@misconception(on=SELF_ATTENTIONS, at="weights", counter_example="projected-tokens")
def own_token_left_out(run: RunView) -> Any:
    """the token itself is left out of the softmax"""
    scores = attention_parts.masked_scores(run)
    if scores.shape[-1] != scores.shape[-2]:
        return None
    return attention_parts.normalise(np.exp(np.where(np.eye(scores.shape[-1], dtype=bool), -np.inf, scores)))


@misconception(on=("beta-limits",), at="beta oo/weights", counter_example="tie-not-shared")
def tie_not_shared(run: RunView) -> Any:
    """one of several equal best keys takes all the weight; ties are shared"""
    return np.eye(run.current.shape[-1])[np.argmax(run.scores, axis=-1)]


# --- values -------------------------------------------------------------------------------------
def _finite_scores(run: RunView) -> Any:
    """The scores with 0 at hidden keys."""
    return np.where(np.isinf(attention_parts.masked_scores(run)), 0, attention_parts.masked_scores(run))


@misconception(on=(*ATTENTIONS, "beta-limits"), counter_example="projected-tokens")
def keys_and_values_swapped(run: RunView) -> Any:
    """keys and values are swapped"""
    first, second = ("W_k", "W_v") if run.has("W_k") else ("key", "value")
    if not run.has(first) or not run.has(second):
        return None
    return {first: getattr(run, second), second: getattr(run, first)}


@misconception(on=ATTENTIONS, at="scores, output, per head", counter_example="projected-tokens")
def keys_and_values_change_places(run: RunView) -> Any:
    """keys and values change places: the queries are compared with the values, and the keys are averaged"""
    if run.path == "scores":
        value = run.value.swapaxes(-3, -2) if run.has("heads") else run.value
        query = run.query.swapaxes(-3, -2) if run.has("heads") else run.query
        return query @ value.swapaxes(-1, -2) * attention_parts.scale(run)
    return attention_parts.weighted_rows(run, run.weights, run.key)


@misconception(on=(*ATTENTIONS, "beta-limits"), at="output, per head", counter_example="projected-tokens")
def keys_for_values(run: RunView) -> Any:
    """the weights are multiplied by the keys, not by the values"""
    return attention_parts.weighted_rows(run, run.weights, run.key)


@misconception(on=("attention", "self-attention", "cross-attention"), at="output", counter_example="beta-1")
def values_before_softmax(run: RunView) -> Any:
    """the scores are multiplied by V before the softmax, which belongs on the scores alone"""
    return attention_parts.normalise(np.exp(run.scores @ run.value))


@misconception(on=(*ATTENTIONS, "copying"), at="output, per head", counter_example="beta-1")
def softmax_forgotten(run: RunView) -> Any:
    """the scores themselves are multiplied by V: there is no softmax"""
    return attention_parts.weighted_rows(run, _finite_scores(run), attention_parts.value_rows(run))


@misconception(on=PROJECTED_ATTENTIONS, counter_example="projected-tokens")
def matrix_transposed(run: RunView) -> Any:
    """a matrix is applied transposed: x W for W x, or W x for x W"""
    turned = {name: getattr(run, name).T for name in ("W_q", "W_k", "W_v", "W_o") if run.has(name)}
    return turned or None


@misconception(on=PROJECTED_ATTENTIONS, counter_example="projected-tokens")
def queries_and_keys_swapped(run: RunView) -> Any:
    """queries and keys are swapped: W_k makes the queries and W_q the keys"""
    return {"W_q": run.W_k, "W_k": run.W_q} if run.has("W_q") and run.has("W_k") else None


misconception_formulas(SENTENCES, on=("cross-attention",), counter_example="cross")(
    tokens_and_memory_swapped=("inputs", lambda run: {"tokens": run.memory, "memory": run.tokens}),
    memory_ignored=("inputs", lambda run: {"memory": run.tokens}),
)
