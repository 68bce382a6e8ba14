"""Mistakes round attention: masks, heads, moved keys, copying, linear attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwork.exercises.case import Seen
from headwork.exercises.misconceptions.attention import CAUSAL, HEADS, HIDDEN, LINEAR, PLAIN, RATIO, TWO
from headwork.exercises.misconceptions.looking import (
    allowed,
    beta,
    causal,
    given_mask,
    key_products,
    noted,
    shares,
    sums,
    time,
    triangle,
)
from headwork.exercises.misconceptions.registry import misconception

# --- masks --------------------------------------------------------------------------------------


@misconception(on=PLAIN, at="weights", counter=CAUSAL, evidence=sums)
def mask_after_softmax(s: Seen) -> Any:
    """the mask is applied after the softmax, so the rows no longer sum to 1"""
    return shares(np.exp(s.scores)) * allowed(s) if s.has("mask") else None


@misconception(on=PLAIN, at="masked", counter=CAUSAL)
def mask_with_zero(s: Seen) -> Any:
    """hidden scores are set to 0 instead of minus infinity, and e^0 = 1 still takes weight"""
    return np.where(allowed(s) == 1, s.scores, 0)


@misconception(on=PLAIN, counter={**CAUSAL, "query": "1 0; 0 2"})
def mask_sees_one_more(s: Seen) -> Any:
    """the mask is one place too generous: each query sees the next key too"""
    return {"mask": triangle(s, 1)} if causal(s) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=CAUSAL,
    also={"weights": lambda s: shares(np.exp(s.masked)) if causal(s) else None},
)
def mask_hides_own_token(s: Seen) -> Any:
    """the mask is one place too strict: it hides the own token"""
    if not causal(s):
        return None
    count = s.scores.shape[-1]
    return np.where(
        np.tri(s.scores.shape[-2], count, -1 + count - s.scores.shape[-2]) == 1, s.scores, -np.inf
    )


@misconception(on=PLAIN, counter=CAUSAL)
def mask_upside_down(s: Seen) -> Any:
    """the mask is upside down: it hides the earlier keys instead of the later ones"""
    return {"mask": triangle(s, 0).T} if causal(s) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=HIDDEN,
    also={"weights": lambda s: shares(np.exp(s.masked)) if given_mask(s) else None},
)
def mask_inverted(s: Seen) -> Any:
    """the mask is turned round: 1 means may look, 0 means hidden"""
    return np.where(allowed(s) == 0, s.scores, -np.inf) if given_mask(s) else None


@misconception(
    on=PLAIN,
    at="masked",
    counter=HIDDEN,
    also={"weights": lambda s: shares(np.exp(s.masked)) if s.has("mask") else None},
)
def mask_on_queries(s: Seen) -> Any:
    """the mask hides queries (rows); it must hide keys (columns)"""
    if not s.has("mask") or s.scores.shape[-1] != s.scores.shape[-2]:
        return None
    return np.where(np.broadcast_to(allowed(s), s.scores.shape).swapaxes(-1, -2) == 1, s.scores, -np.inf)


@misconception(on=PLAIN, at="masked", counter=CAUSAL)
def mask_forgotten(s: Seen) -> Any:
    """the mask is not applied"""
    return s.scores


# --- heads --------------------------------------------------------------------------------------


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def heads_averaged(s: Seen) -> Any:
    """the heads are averaged; they must be put side by side"""
    return s.per_head.mean(-2)


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def heads_added(s: Seen) -> Any:
    """the heads are added; they must be put side by side"""
    return s.per_head.sum(-2)


@misconception(on=("multi-head-attention",), at="query, key, value", counter=HEADS)
def split_without_transpose(s: Seen) -> Any:
    """the rows are cut into heads by reshaping alone, so tokens and heads are mixed up (the axes must be exchanged)"""
    count, heads, width = s.now.shape
    return s.now.reshape(heads, count, width).swapaxes(0, 1)


@misconception(on=("multi-head-attention",), at="joined", counter=HEADS)
def join_without_transpose(s: Seen) -> Any:
    """the heads are joined by reshaping alone, so tokens and heads are mixed up (the axes must be exchanged)"""
    return s.per_head.swapaxes(0, 1).reshape(s.now.shape)


@misconception(on=("multi-head-attention",), at="output", counter=HEADS)
def output_projection_forgotten(s: Seen) -> Any:
    """W_o is left out"""
    return s.joined if s.has("W_o") else None


# --- sensitivity and copying --------------------------------------------------------------------


@misconception(
    on=("sensitivity",), at="after/scores", counter={**TWO, "mechanism": "sensitivity", "delta": "0 0; 1 1"}
)
def row_for_column_changed(s: Seen) -> Any:
    """only one query's scores are changed; a moved key changes one score of EVERY query"""
    moved = np.any(s.delta != 0, axis=-1)
    if s.now.shape[0] != s.now.shape[1]:
        return None
    before = s.query @ s.key.T
    change = (s.query @ s.delta.T) * beta(s)
    return before * beta(s) + np.where(moved[:, None] & moved[None, :], change, 0)


@misconception(
    on=("sensitivity",), at="after/scores", counter={**TWO, "mechanism": "sensitivity", "delta": "0 0; 1 2"}
)
def difference_for_sum(s: Seen) -> Any:
    """the moved key is replaced by the difference; the difference must be added to it"""
    moved = np.any(s.delta != 0, axis=-1)[:, None]
    return s.query @ np.where(moved, s.delta, s.key).T * beta(s)


@misconception(
    on=("sensitivity",), at="change", counter={**TWO, "mechanism": "sensitivity", "delta": "0 0; 1 1"}
)
def change_backwards(s: Seen) -> Any:
    """the change is taken the wrong way round: before minus after"""
    return -s.now


@misconception(on=("copying",), at="norms", counter={"mechanism": "copying", "tokens": "2 2; 2 0", "norm": 2})
def norm_without_root(s: Seen) -> Any:
    """the squared length is given; its root is the norm"""
    return s.now**2


@misconception(on=("copying",), at="norms", counter={"mechanism": "copying", "tokens": "2 2; 2 0", "norm": 2})
def norm_as_sum(s: Seen) -> Any:
    """the coordinates are added up; the norm is the root of the sum of their squares"""
    return s.tokens.sum(-1, keepdims=True)


@misconception(
    on=("copying",), at="errors", counter={"mechanism": "copying", "tokens": "2 2; 2 0", "norm": 2}
)
def error_not_relative(s: Seen) -> Any:
    """the error is not divided by r"""
    return s.now * s.norm


# --- linear attention ---------------------------------------------------------------------------


@misconception(on=LINEAR, counter=RATIO)
def total_for_prefix_sums(s: Seen) -> Any:
    """every query uses the total over all keys; with a causal mask it may use only those up to its own place"""
    return {"mask": None} if s.has("mask") else None


@misconception(on=LINEAR, at="weights, output", counter=RATIO)
def linear_without_normalisation(s: Seen) -> Any:
    """the sums are not divided out"""
    if s.path == "weights":
        return s.scores
    return s.now if noted(s, "weights") else s.now * key_products(s)


@misconception(on=("linear-attention",), at="weights", counter={**RATIO, "mechanism": "linear-attention"})
def exponential_kept(s: Seen) -> Any:
    """the exponential is still there; linear attention takes the dot products themselves"""
    hidden = (
        np.tri(s.scores.shape[0], s.scores.shape[1], s.scores.shape[-1] - s.scores.shape[-2]) == 0
        if s.has("mask")
        else False
    )
    return shares(np.exp(np.where(hidden, -np.inf, s.scores)))


@misconception(
    on=("linear-attention",), at="sums", counter={**RATIO, "mechanism": "linear-attention"}, evidence=None
)
def column_sums(s: Seen) -> Any:
    """the dot products are divided by the sums of the columns, not of the rows"""
    return s.scores.sum(-2)[:, None]


@misconception(
    on=("linear-attention-recurrent",),
    at="state",
    counter=RATIO,
    also={"key sum": lambda s: s.key_features[time(s)][None, :]},
)
def state_not_carried(s: Seen) -> Any:
    """each state holds only the newest product; it must be added to the state before"""
    return np.outer(s.key_features[time(s)], s.value[time(s)])
