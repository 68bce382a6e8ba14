"""Mistakes in attention: scaling, softmax, the roles of queries, keys and values."""

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.attention_parts import (
    hardmax,
    masked_scores,
    normalise,
    scale,
    value_rows,
    weighted_rows,
)


# --- scores -------------------------------------------------------------------------------------
def no_scaling(run: RunView) -> Any:
    return run.current / scale(run) if scale(run) != 1 else None


def scaled_by_width(run: RunView) -> Any:
    return None if run.has("beta") else run.current / math.sqrt(run.query.shape[-1])


def scaled_by_whole_width(run: RunView) -> Any:
    head_width, width = run.query.shape[-1], run.tokens.shape[-1]
    if run.has("beta") or head_width == width:
        return None
    return run.current * math.sqrt(head_width / width)


def temperature_for_beta(run: RunView) -> Any:
    return run.current / run.beta**2 if run.has("beta") and run.beta != 1 else None


def limits_exchanged(run: RunView) -> Any:
    scores = run.query @ run.key.T
    return (
        np.full(scores.shape, 1 / scores.shape[-1]) if run.path.startswith("beta oo") else hardmax(scores, -1)
    )


def wrong_sign(run: RunView) -> Any:
    return -run.current


def scores_transposed(run: RunView) -> Any:
    return np.swapaxes(run.current, -1, -2)


def features_compared(run: RunView) -> Any:
    return np.swapaxes(run.query, -1, -2) @ run.key * scale(run)


# --- softmax ------------------------------------------------------------------------------------
def exponential_dropped(run: RunView) -> Any:
    return normalise(_finite_scores(run))


def exp_zero_is_zero(run: RunView) -> Any:
    scores = masked_scores(run)
    return normalise(np.where(scores == 0, 0, np.exp(scores)))


def zero_row_gives_zero(run: RunView) -> Any:
    scores = masked_scores(run)
    return np.where(np.all(scores == 0, axis=-1, keepdims=True), 0, run.current)


def own_token_left_out(run: RunView) -> Any:
    scores = masked_scores(run)
    if scores.shape[-1] != scores.shape[-2]:
        return None
    return normalise(np.exp(np.where(np.eye(scores.shape[-1], dtype=bool), -np.inf, scores)))


def tie_not_shared(run: RunView) -> Any:
    return np.eye(run.current.shape[-1])[np.argmax(run.scores, axis=-1)]


# --- values -------------------------------------------------------------------------------------
def _finite_scores(run: RunView) -> Any:
    """The scores with 0 at hidden keys."""
    return np.where(np.isinf(masked_scores(run)), 0, masked_scores(run))


def keys_and_values_swapped(run: RunView) -> Any:
    first, second = ("W_k", "W_v") if run.has("W_k") else ("key", "value")
    if not run.has(first) or not run.has(second):
        return None
    return {first: getattr(run, second), second: getattr(run, first)}


def keys_and_values_change_places(run: RunView) -> Any:
    if run.path == "scores":
        value = run.value.swapaxes(-3, -2) if run.has("heads") else run.value
        query = run.query.swapaxes(-3, -2) if run.has("heads") else run.query
        return query @ value.swapaxes(-1, -2) * scale(run)
    return weighted_rows(run, run.weights, run.key)


def softmax_forgotten(run: RunView) -> Any:
    return weighted_rows(run, _finite_scores(run), value_rows(run))


def matrix_transposed(run: RunView) -> Any:
    turned = {name: getattr(run, name).T for name in ("W_q", "W_k", "W_v", "W_o") if run.has(name)}
    return turned or None


def queries_and_keys_swapped(run: RunView) -> Any:
    return {"W_q": run.W_k, "W_k": run.W_q} if run.has("W_q") and run.has("W_k") else None


def tokens_and_memory_swapped(run: RunView) -> Any:
    return {"tokens": run.memory, "memory": run.tokens}


def memory_ignored(run: RunView) -> Any:
    return {"memory": run.tokens}


# --- copying --------------------------------------------------------------------------------------
def unit_vectors(run: RunView) -> Any:
    return {"tokens": run.tokens / run.norm, "norm": 1.0} if run.norm != 1 else None
