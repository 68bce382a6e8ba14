"""Mistakes in attention: scaling, softmax, the roles of queries, keys and values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork.exercises.case import Seen
from headwork.exercises.misconceptions.looking import (
    beta,
    hard,
    heads,
    logits,
    mixed,
    normalised,
    shares,
    sums,
    values,
)
from headwork.exercises.misconceptions.registry import misconception

PROJECTED = ("self-attention", "cross-attention", "multi-head-attention")
PLAIN = ("attention", *PROJECTED)
ALL = (*PLAIN, "beta-limits", "sensitivity", "copying")
SELF = ("self-attention", "multi-head-attention", "copying")
LINEAR = ("linear-attention", "linear-attention-recurrent")

TWO = {"mechanism": "attention", "query": "1 0; 0 2", "key": "1 1; 0 1", "value": "1 0; 0 2"}
ONE = {**TWO, "beta": 1}
WIDE = {
    "mechanism": "self-attention",
    "tokens": "1 0; 0 1",
    "W_q": "1 1; 0 1",
    "W_k": "1 0; 2 1",
    "W_v": "0 1; 1 1",
}
HEADS = {
    "mechanism": "multi-head-attention",
    "tokens": "1 0; 0 1",
    "heads": 2,
    "W_q": "1 1; 0 1",
    "W_k": "1 0; 2 1",
    "W_v": "0 1; 1 1",
    "W_o": "1 1; 0 2",
}
CAUSAL = {**ONE, "mask": "causal"}
HIDDEN = {**ONE, "mask": "[[1, 0]]"}
RATIO = {
    "mechanism": "linear-attention-recurrent",
    "query": "1; 2",
    "key": "1; 3",
    "value": "1; 2",
    "mask": "causal",
}


# --- scores -------------------------------------------------------------------------------------


@misconception(on=(*PLAIN, "sensitivity"), at="scores", counter=TWO)
def no_scaling(s: Seen) -> Any:
    """the scores are not scaled: they are Q K^T without beta"""
    return s.now / beta(s) if beta(s) != 1 else None


@misconception(on=(*PLAIN, "sensitivity"), at="scores", counter=TWO)
def scaled_by_width(s: Seen) -> Any:
    """the scores are divided by d_k, not by its square root"""
    return None if s.has("beta") else s.now / math.sqrt(s.query.shape[-1])


@misconception(on=PROJECTED, at="scores", counter=HEADS)
def scaled_by_whole_width(s: Seen) -> Any:
    """the scores are divided by the root of the whole width, not by that of what one head compares"""
    each, whole = s.query.shape[-1], s.tokens.shape[-1]
    return None if s.has("beta") or each == whole else s.now * math.sqrt(each / whole)


@misconception(on=(*PLAIN, "sensitivity"), at="scores", counter={**TWO, "beta": 2})
def temperature_for_beta(s: Seen) -> Any:
    """beta is taken for a temperature: the scores are divided by it instead of multiplied"""
    return s.now / s.beta**2 if s.has("beta") and s.beta != 1 else None


@misconception(on=("beta-limits",), at="weights", counter={**TWO, "mechanism": "beta-limits"})
def limits_exchanged(s: Seen) -> Any:
    """the limits are exchanged: beta is taken for a temperature"""
    scores = s.query @ s.key.T
    return np.full(scores.shape, 1 / scores.shape[-1]) if s.path.startswith("beta oo") else hard(scores, -1)


@misconception(on=ALL, at="scores", counter=ONE)
def wrong_sign(s: Seen) -> Any:
    """the scores have the wrong sign"""
    return -s.now


@misconception(on=ALL, at="scores", counter=ONE)
def scores_transposed(s: Seen) -> Any:
    """the scores are transposed: K Q^T for Q K^T"""
    return np.swapaxes(s.now, -1, -2)


@misconception(on=("attention", "self-attention"), at="scores", counter=ONE)
def features_compared(s: Seen) -> Any:
    """each score compares features, not tokens: Q^T K for Q K^T"""
    return np.swapaxes(s.query, -1, -2) @ s.key * beta(s)


# --- softmax ------------------------------------------------------------------------------------


@misconception(on=ALL, at="weights", counter=ONE, evidence=sums)
def softmax_over_columns(s: Seen) -> Any:
    """the softmax runs down the columns instead of along the rows"""
    return normalised(s, logits(s), (-2,))


@misconception(on=ALL, at="weights", counter=ONE, evidence=sums)
def softmax_over_everything(s: Seen) -> Any:
    """the softmax runs over the whole matrix instead of along each row"""
    return normalised(s, logits(s), (-2, -1))


@misconception(on=(*PLAIN, "sensitivity", "copying"), at="weights", counter=ONE, evidence=sums)
def no_normalisation(s: Seen) -> Any:
    """the exponentials are not divided by their sum"""
    return np.exp(logits(s))


@misconception(on=(*PLAIN, "sensitivity", "copying"), at="weights", counter=ONE)
def exponential_dropped(s: Seen) -> Any:
    """the exponential is left out: each score is divided by the sum of its row"""
    scores = np.where(np.isinf(logits(s)), 0, logits(s))
    return shares(scores)


@misconception(on=(*PLAIN, "sensitivity", "copying"), at="weights", counter=ONE)
def exp_zero_is_zero(s: Seen) -> Any:
    """e^0 is taken for 0, but it is 1"""
    scores = logits(s)
    return shares(np.where(scores == 0, 0, np.exp(scores)))


@misconception(on=ALL, at="weights", counter={**ONE, "query": "0 0; 0 2"})
def zero_row_gives_zero(s: Seen) -> Any:
    """a row of equal scores is given weights 0; softmax gives equal weights"""
    scores = logits(s)
    return np.where(np.all(scores == 0, axis=-1, keepdims=True), 0, s.now)


@misconception(on=SELF, at="weights", counter=WIDE)
def own_token_left_out(s: Seen) -> Any:
    """the own token is left out of the softmax"""
    scores = logits(s)
    if scores.shape[-1] != scores.shape[-2]:
        return None
    return shares(np.exp(np.where(np.eye(scores.shape[-1], dtype=bool), -np.inf, scores)))


@misconception(
    on=("beta-limits",), at="beta oo/weights", counter={**TWO, "mechanism": "beta-limits", "key": "1 1; 1 1"}
)
def tie_not_shared(s: Seen) -> Any:
    """one of several equal winners takes all; ties are shared"""
    return np.eye(s.now.shape[-1])[np.argmax(s.scores, axis=-1)]


# --- values -------------------------------------------------------------------------------------


@misconception(on=(*PLAIN, "beta-limits"), counter=WIDE)
def keys_and_values_swapped(s: Seen) -> Any:
    """keys and values are exchanged"""
    first, second = ("W_k", "W_v") if s.has("W_k") else ("key", "value")
    if not s.has(first) or not s.has(second):
        return None
    return {first: getattr(s, second), second: getattr(s, first)}


@misconception(on=PLAIN, at="scores, output, per head", counter=WIDE)
def keys_and_values_change_places(s: Seen) -> Any:
    """keys and values change places: the queries are compared with the values and the keys are mixed"""
    if s.path == "scores":
        value = s.value.swapaxes(-3, -2) if heads(s) else s.value
        query = s.query.swapaxes(-3, -2) if heads(s) else s.query
        return query @ value.swapaxes(-1, -2) * beta(s)
    return s.now if s.path == "output" and heads(s) else mixed(s, s.weights, s.key)


@misconception(on=(*PLAIN, "beta-limits"), at="output, per head", counter=WIDE)
def keys_for_values(s: Seen) -> Any:
    """the weights are multiplied with the keys, not with the values"""
    if s.path == "output" and heads(s):
        return s.now
    return mixed(s, s.weights, s.key)


@misconception(on=("attention", "self-attention", "cross-attention"), at="output", counter=ONE)
def values_before_softmax(s: Seen) -> Any:
    """the scores are multiplied with V before the softmax, which belongs on the scores alone"""
    return shares(np.exp(s.scores @ s.value))


@misconception(on=(*PLAIN, "copying"), at="output, per head", counter=ONE)
def softmax_forgotten(s: Seen) -> Any:
    """the scores themselves are multiplied with V: there is no softmax"""
    if s.path == "output" and heads(s):
        return s.now
    return mixed(s, np.where(np.isinf(logits(s)), 0, logits(s)), values(s))


@misconception(on=PROJECTED, counter=WIDE)
def matrix_transposed(s: Seen) -> Any:
    """a matrix is applied transposed: x W for W x, or W x for x W"""
    turned = {name: getattr(s, name).T for name in ("W_q", "W_k", "W_v", "W_o") if s.has(name)}
    return turned or None


@misconception(on=PROJECTED, counter=WIDE)
def queries_and_keys_swapped(s: Seen) -> Any:
    """queries and keys are exchanged: W_k makes the queries and W_q the keys"""
    return {"W_q": s.W_k, "W_k": s.W_q} if s.has("W_q") and s.has("W_k") else None


@misconception(
    on=("cross-attention",),
    counter={"mechanism": "cross-attention", "tokens": "1 0; 0 2", "memory": "1 1; 0 1"},
)
def tokens_and_memory_swapped(s: Seen) -> Any:
    """the queries come from the memory and the keys from the tokens"""
    return {"tokens": s.memory, "memory": s.tokens}


@misconception(
    on=("cross-attention",),
    counter={"mechanism": "cross-attention", "tokens": "1 0; 0 2", "memory": "1 1; 0 1"},
)
def memory_ignored(s: Seen) -> Any:
    """the tokens attend to themselves; the keys and values must come from the memory"""
    return {"memory": s.tokens}
