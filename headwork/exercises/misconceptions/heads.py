"""Mistakes around attention: masks, heads, moved keys, copying, linear attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.attention import (
    CAUSAL,
    COPY,
    HEADS,
    HIDDEN,
    LINEAR,
    MOVED,
    PLAIN,
    RATIO,
    RECURRENT,
)
from headwork.exercises.misconceptions.registry import misconception
from headwork.exercises.misconceptions.softmax import (
    causal_mask,
    divisors,
    has_typed_mask,
    is_causal,
    mask,
    masked_weights,
    normalise,
    query_and_key_counts,
    row_sums,
    scale,
    time_step,
)

# --- masks --------------------------------------------------------------------------------------


@misconception(on=PLAIN, at="weights", counter=CAUSAL, evidence=row_sums)
def mask_after_softmax(run: RunView) -> Any:
    """the mask is applied after the softmax, so the rows no longer sum to 1"""
    return normalise(np.exp(run.scores)) * mask(run) if run.has("mask") else None


@misconception(on=PLAIN, at="masked", counter=CAUSAL)
def mask_with_zero(run: RunView) -> Any:
    """hidden scores are set to 0 instead of minus infinity, and e^0 = 1 still takes weight"""
    return np.where(mask(run) == 1, run.scores, 0)


@misconception(on=PLAIN, counter={**CAUSAL, "query": "1 0; 0 2"})
def mask_sees_one_more(run: RunView) -> Any:
    """the mask is one position too generous: each query sees the next key too"""
    return {"mask": causal_mask(*query_and_key_counts(run), diagonal=1)} if is_causal(run) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=CAUSAL,
    also={"weights": lambda run: masked_weights(run) if is_causal(run) else None},
)
def mask_hides_own_token(run: RunView) -> Any:
    """the mask is one position too strict: it hides the token itself"""
    queries, keys = run.scores.shape[-2:]
    visible = causal_mask(queries, keys, diagonal=-1) == 1
    return np.where(visible, run.scores, -np.inf) if is_causal(run) else None


@misconception(on=PLAIN, counter=CAUSAL)
def mask_upside_down(run: RunView) -> Any:
    """the mask is upside down: it hides the earlier keys instead of the later ones"""
    return {"mask": causal_mask(*query_and_key_counts(run)).T} if is_causal(run) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=HIDDEN,
    also={"weights": lambda run: masked_weights(run) if has_typed_mask(run) else None},
)
def mask_inverted(run: RunView) -> Any:
    """the mask is inverted: 1 means visible, 0 means hidden"""
    return np.where(mask(run) == 0, run.scores, -np.inf) if has_typed_mask(run) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=HIDDEN,
    also={"weights": lambda run: masked_weights(run) if run.has("mask") else None},
)
def mask_on_queries(run: RunView) -> Any:
    """the mask hides queries (rows); it must hide keys (columns)"""
    if not run.has("mask") or run.scores.shape[-1] != run.scores.shape[-2]:
        return None
    return np.where(np.broadcast_to(mask(run), run.scores.shape).swapaxes(-1, -2) == 1, run.scores, -np.inf)


@misconception(on=PLAIN, at="masked", counter=CAUSAL)
def mask_forgotten(run: RunView) -> Any:
    """the mask is not applied"""
    return run.scores


# --- heads --------------------------------------------------------------------------------------


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def heads_averaged(run: RunView) -> Any:
    """the heads are averaged; they must be put side by side"""
    return run.per_head.mean(-2)


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def heads_added(run: RunView) -> Any:
    """the heads are added; they must be put side by side"""
    return run.per_head.sum(-2)


@misconception(on=("multi-head-attention",), at="query, key, value", counter=HEADS)
def split_without_transpose(run: RunView) -> Any:
    """the rows are cut into heads by reshaping alone: tokens and heads are mixed up, the axes must be swapped"""
    count, heads, width = run.current.shape
    return run.current.reshape(heads, count, width).swapaxes(0, 1)


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def join_without_transpose(run: RunView) -> Any:
    """the heads are joined by reshaping alone: tokens and heads are mixed up, the axes must be swapped"""
    return run.per_head.swapaxes(0, 1).reshape(run.current.shape)


@misconception(on=("multi-head-attention",), at="output", counter=HEADS)
def output_projection_forgotten(run: RunView) -> Any:
    """W_o is left out"""
    return run.joined if run.has("W_o") else None


# --- sensitivity and copying --------------------------------------------------------------------


@misconception(on=("sensitivity",), at="after/scores", counter=MOVED)
def row_for_column_changed(run: RunView) -> Any:
    """only one query's scores are changed; a moved key changes one score of every query"""
    moved = np.any(run.delta != 0, axis=-1)
    if run.current.shape[0] != run.current.shape[1]:
        return None
    before = run.query @ run.key.T
    change = (run.query @ run.delta.T) * scale(run)
    return before * scale(run) + np.where(moved[:, None] & moved[None, :], change, 0)


@misconception(on=("sensitivity",), at="after/scores", counter={**MOVED, "delta": "0 0; 1 2"})
def difference_for_sum(run: RunView) -> Any:
    """the moved key is replaced by the difference; the difference must be added to it"""
    moved = np.any(run.delta != 0, axis=-1)[:, None]
    return run.query @ np.where(moved, run.delta, run.key).T * scale(run)


@misconception(on=("sensitivity",), at="change", counter=MOVED)
def change_backwards(run: RunView) -> Any:
    """the change is taken the wrong way round: before minus after"""
    return -run.current


@misconception(on=("copying",), at="norms", counter=COPY)
def norm_without_root(run: RunView) -> Any:
    """the squared length is given; its root is the norm"""
    return run.current**2


@misconception(on=("copying",), at="norms", counter=COPY)
def norm_as_sum(run: RunView) -> Any:
    """the coordinates are added up; the norm is the root of the sum of their squares"""
    return run.tokens.sum(-1, keepdims=True)


@misconception(on=("copying",), at="errors", counter=COPY)
def error_not_relative(run: RunView) -> Any:
    """the error is not divided by r"""
    return run.current * run.norm


# --- linear attention ---------------------------------------------------------------------------


@misconception(on=LINEAR, counter=RECURRENT)
def total_for_prefix_sums(run: RunView) -> Any:
    """every query uses the total over all keys; under a causal mask it sees only those up to its own position"""
    return {"mask": None} if run.has("mask") else None


@misconception(on=LINEAR, at="weights, output", counter=RECURRENT)
def linear_without_normalisation(run: RunView) -> Any:
    """the sums are not divided out"""
    if run.path == "weights":
        return run.scores
    return run.current if run.has_step("weights") else run.current * divisors(run)


@misconception(on=("linear-attention",), at="weights", counter=RATIO)
def exponential_kept(run: RunView) -> Any:
    """the exponential is still there; linear attention takes the dot products themselves"""
    hidden = causal_mask(*run.scores.shape) == 0 if run.has("mask") else False
    return normalise(np.exp(np.where(hidden, -np.inf, run.scores)))


@misconception(on=("linear-attention",), at="sums", counter=RATIO)
def column_sums(run: RunView) -> Any:
    """the dot products are divided by the sums of the columns, not of the rows"""
    return run.scores.sum(-2)[:, None]


@misconception(
    on=("linear-attention-recurrent",),
    at="state",
    counter=RECURRENT,
    also={"key sum": lambda run: run.key_features[time_step(run)][None, :]},
)
def state_not_carried(run: RunView) -> Any:
    """each state holds only the newest product; it must be added to the state before"""
    return np.outer(run.key_features[time_step(run)], run.value[time_step(run)])
