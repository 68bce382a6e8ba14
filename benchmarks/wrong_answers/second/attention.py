"""Ordinary mistakes in the kinds of attention, a second set."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import beta, memory, softmax
from benchmarks.wrong_answers.limits import largest, products_of
from benchmarks.wrong_answers.masked import masked_softmax
from benchmarks.wrong_answers.multi_head import mixed, products, split
from benchmarks.wrong_answers.solving import Work, m


def plain(s: Work) -> Any:
    return s.query @ s.key.T


SELF = [
    m("q-from-v-matrix", "Q is computed with W_v.", "query", lambda s: s.tokens @ s.W_v.T),
    m("w-times-x-transposed", "V = W_v X^T, left as it came out.", "value", lambda s: s.W_v @ s.tokens.T),
    m("scale-by-d", "Divided by d_k instead of its square root.", "scores", lambda s: plain(s) / 2),
    m("beta-added", "beta is added to the dot products.", "scores", lambda s: plain(s) + beta(s)),
    m(
        "scores-without-w-k",
        "X is used for the keys in the scores.",
        "scores",
        lambda s: beta(s) * s.query @ memory(s).T,
    ),
    m(
        "softmax-of-unscaled",
        "The softmax is taken of the scores divided by beta again.",
        "weights",
        lambda s: softmax(s.scores / beta(s)),
    ),
    m(
        "largest-subtracted-no-exponential",
        "The largest of the row is subtracted, then the differences are divided by their sum, without exp.",
        "weights",
        lambda s: (
            (s.scores - s.scores.max(-1, keepdims=True) + 1e-15)
            / (s.scores - s.scores.max(-1, keepdims=True)).sum(-1, keepdims=True)
        ),
    ),
    m(
        "value-times-weights",
        "V^T A^T is written down instead of A V.",
        "output",
        lambda s: (s.weights @ s.value).T,
    ),
    m(
        "output-sum-of-values",
        "All values are added with weight one.",
        "output",
        lambda s: np.ones_like(s.weights) @ s.value,
    ),
    m(
        "first-query-for-all",
        "The weights of token 0 are used for every token.",
        "weights",
        lambda s: np.repeat(softmax(s.scores)[:1], len(s.scores), 0),
    ),
    m("x-for-keys-and-values", "X itself is taken for keys and values.", "key", memory, "value", memory),
]
CROSS = [
    m("everything-from-memory", "Queries too come from the memory.", "query", lambda s: s.memory @ s.W_q.T),
    m(
        "scores-queries-with-memory",
        "The queries are multiplied with M instead of K.",
        "scores",
        lambda s: beta(s) * s.query @ s.memory.T,
    ),
    m(
        "output-of-memory",
        "The weights are applied to M instead of V.",
        "output",
        lambda s: s.weights @ s.memory,
    ),
    m("v-equals-k", "The values are taken equal to the keys.", "value", lambda s: s.key),
    m(
        "k-from-x",
        "Keys and values are computed from X.",
        "key",
        lambda s: s.tokens @ s.W_k.T,
        "value",
        lambda s: s.tokens @ s.W_v.T,
    ),
    m("beta-squared", "The factor beta is squared.", "scores", lambda s: beta(s) ** 2 * plain(s)),
    m(
        "exp-and-row-max",
        "exp is divided by the largest exp of the row.",
        "weights",
        lambda s: np.exp(s.scores) / np.exp(s.scores).max(-1, keepdims=True),
    ),
    m(
        "column-softmax",
        "Each column of the weights adds up to 1.",
        "weights",
        lambda s: softmax(s.scores, 0),
    ),
]
MASKED = [
    m("mask-ignored", "The mask is ignored.", "weights", lambda s: softmax(s.scores)),
    m(
        "masked-score-zero",
        "Hidden scores are set to 0 before the softmax.",
        "weights",
        lambda s: softmax(np.where(allowed(s), s.scores, 0)),
    ),
    m(
        "masked-after",
        "The softmax is taken of all keys, then hidden weights are set to 0.",
        "weights",
        lambda s: softmax(s.scores) * allowed(s),
    ),
    m(
        "mask-upside-down",
        "Hidden and visible keys are exchanged.",
        "weights",
        lambda s: masked_softmax(s.scores, ~allowed(s)),
    ),
    m(
        "mask-transposed",
        "The mask is transposed: later tokens are seen.",
        "weights",
        lambda s: masked_softmax(s.scores, allowed(s).T),
    ),
    m(
        "mask-without-self",
        "A token does not see itself.",
        "weights",
        lambda s: masked_softmax(s.scores, allowed(s) & ~np.eye(len(s.scores), dtype=bool)),
    ),
    m(
        "output-unmasked",
        "The output is computed with unmasked weights.",
        "output",
        lambda s: softmax(s.scores) @ s.value,
    ),
    m(
        "equal-visible",
        "All visible keys get the same weight.",
        "weights",
        lambda s: masked_softmax(0 * s.scores, allowed(s)),
    ),
]


def allowed(s: Work) -> Any:
    count = len(s.scores)
    if isinstance(s.mask, str):
        return np.tri(count) > 0
    return np.broadcast_to(np.asarray(s.mask) > 0, (count, count))


HEADS = [
    m(
        "scaled-by-whole-width",
        "The scores are divided by the root of the whole width 4.",
        "scores",
        lambda s: products(s.query, s.key) / 2,
    ),
    m(
        "unscaled",
        "The scores are not divided by the root of the head width.",
        "scores",
        lambda s: products(s.query, s.key),
    ),
    m(
        "heads-swapped",
        "Head 1 is written before head 0 in the joined matrix.",
        "joined",
        lambda s: s["per head"][:, ::-1].reshape(len(s.tokens), -1),
    ),
    m(
        "heads-interleaved",
        "The heads are interleaved when they are joined.",
        "joined",
        lambda s: s["per head"].swapaxes(1, 2).reshape(len(s.tokens), -1),
    ),
    m("w-o-forgotten", "W_o is forgotten.", "output", lambda s: s.joined),
    m("w-o-not-transposed", "W_o is applied from the wrong side.", "output", lambda s: s.joined @ s.W_o),
    m(
        "same-weights",
        "Both heads use the weights of head 0.",
        "per head",
        lambda s: mixed(np.repeat(s.weights[:1], 2, 0), s.value),
    ),
    m(
        "other-heads-values",
        "Each head mixes the values of the other head.",
        "per head",
        lambda s: mixed(s.weights, s.value[:, ::-1]),
    ),
    m("columns-cut", "The matrix W_q is cut into columns: X W_q.", "query", lambda s: split(s, s.W_q.T)),
    m(
        "all-columns-cut",
        "All projections are X W instead of X W^T.",
        "query",
        lambda s: split(s, s.W_q.T),
        "key",
        lambda s: split(s, s.W_k.T),
        "value",
        lambda s: split(s, s.W_v.T),
    ),
    m(
        "keys-for-values-per-head",
        "The weights are applied to the keys.",
        "per head",
        lambda s: mixed(s.weights, s.key),
    ),
    m(
        "scores-column-softmax",
        "The softmax runs down the columns of each head.",
        "weights",
        lambda s: softmax(s.scores, -2),
    ),
]
LIMITS = [
    m(
        "identity-for-zero",
        "For beta -> 0 each token attends to itself.",
        "beta 0/weights",
        lambda s: np.eye(len(s.query)),
    ),
    m(
        "zero-for-zero",
        "For beta -> 0 all weights are 1 (exp 0), not divided.",
        "beta 0/weights",
        lambda s: np.ones((len(s.query), len(s.key))),
    ),
    m(
        "smallest-taken",
        "For beta -> infinity the smallest score takes all.",
        "beta oo/weights",
        lambda s: largest(-products_of(s)),
    ),
    m(
        "largest-of-columns",
        "The largest of each column is taken.",
        "beta oo/weights",
        lambda s: largest(products_of(s), 0),
    ),
    m(
        "softmax-for-infinity",
        "The ordinary softmax with beta 1 is given.",
        "beta oo/weights",
        lambda s: softmax(products_of(s)),
    ),
    m(
        "ties-both-one",
        "Equal largest scores get weight 1 each.",
        "beta oo/weights",
        lambda s: (products_of(s) == products_of(s).max(-1, keepdims=True)) * 1.0,
    ),
    m(
        "sum-of-values",
        "The values are added, not averaged.",
        "beta 0/output",
        lambda s: np.repeat(s.value.sum(0)[None], len(s.query), 0),
    ),
    m(
        "keys-mixed",
        "The keys are mixed instead of the values.",
        "beta 0/output",
        lambda s: s["beta 0/weights"] @ s.key,
        "beta oo/output",
        lambda s: s["beta oo/weights"] @ s.key,
    ),
]
MISTAKES = {
    "self-attention": SELF,
    "cross-attention": CROSS,
    "masked-attention": MASKED,
    "multi-head-attention": HEADS,
    "beta-limits": LIMITS,
}
