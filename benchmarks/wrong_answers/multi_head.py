"""Attention with several heads: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import softmax
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- multi-head-attention: queries, keys, values and outputs are token x head x width ---------------
def split(s: Work, matrix: Any) -> Any:
    rows = s.tokens @ matrix.T
    return rows.reshape(len(rows), int(s.heads), -1)


def interleaved(s: Work, matrix: Any) -> Any:
    rows = s.tokens @ matrix.T
    return rows.reshape(len(rows), -1, int(s.heads)).swapaxes(1, 2)


def products(query: Any, key: Any) -> Any:
    return np.einsum("ihd,jhd->hij", query, key)


def scaled(query: Any, key: Any) -> Any:
    return products(query, key) / query.shape[-1] ** 0.5


def mixed(weights: Any, value: Any) -> Any:
    return np.einsum("hij,jhd->ihd", weights, value)


def right_heads(given: Work) -> Formulas:
    return {
        "query": lambda s: split(s, s.W_q),
        "key": lambda s: split(s, s.W_k),
        "value": lambda s: split(s, s.W_v),
        "scores": lambda s: scaled(s.query, s.key),
        "weights": lambda s: softmax(s.scores),
        "per head": lambda s: mixed(s.weights, s.value),
        "joined": lambda s: s["per head"].reshape(len(s["per head"]), -1),
        "output": lambda s: s.joined @ s.W_o.T,
    }


HEADS = [
    m(
        "query-x-times-w",
        "The queries are X W_q: W_q is not transposed.",
        "query",
        lambda s: split(s, s.W_q.T),
    ),
    m(
        "value-x-times-w",
        "The values are X W_v: W_v is not transposed.",
        "value",
        lambda s: split(s, s.W_v.T),
    ),
    m(
        "all-x-times-w",
        "All matrices are applied from the wrong side: X W instead of X W^T.",
        "query",
        lambda s: split(s, s.W_q.T),
        "key",
        lambda s: split(s, s.W_k.T),
        "value",
        lambda s: split(s, s.W_v.T),
        "output",
        lambda s: s.joined @ s.W_o,
    ),
    m("key-by-w-q", "The keys are made with W_q.", "key", lambda s: split(s, s.W_q)),
    m("value-by-w-k", "The values are made with W_k.", "value", lambda s: split(s, s.W_k)),
    m(
        "value-not-projected",
        "The tokens are taken as values, without W_v.",
        "value",
        lambda s: split(s, np.eye(4)),
    ),
    m(
        "query-heads-interleaved",
        "Every other column goes to a head (queries).",
        "query",
        lambda s: interleaved(s, s.W_q),
    ),
    m(
        "all-heads-interleaved",
        "The heads take every other column instead of blocks.",
        "query",
        lambda s: interleaved(s, s.W_q),
        "key",
        lambda s: interleaved(s, s.W_k),
        "value",
        lambda s: interleaved(s, s.W_v),
    ),
    m(
        "key-heads-swapped",
        "The two heads of the keys are exchanged.",
        "key",
        lambda s: split(s, s.W_k)[:, ::-1],
    ),
    m(
        "scale-by-whole-width",
        "The scores are divided by the root of the whole width, not of the head's.",
        "scores",
        lambda s: products(s.query, s.key) / s.tokens.shape[1] ** 0.5,
    ),
    m("beta-forgotten", "The scores are not scaled.", "scores", lambda s: products(s.query, s.key)),
    m(
        "beta-inverted",
        "The scores are multiplied by the root of the width instead of divided.",
        "scores",
        lambda s: products(s.query, s.key) * s.query.shape[-1] ** 0.5,
    ),
    m("scores-k-q", "K Q^T instead of Q K^T in each head.", "scores", lambda s: scaled(s.key, s.query)),
    m("scores-q-v", "Q V^T instead of Q K^T.", "scores", lambda s: scaled(s.query, s.value)),
    m(
        "scores-of-other-head",
        "The queries of one head meet the keys of the other.",
        "scores",
        lambda s: scaled(s.query, s.key[:, ::-1]),
    ),
    m(
        "scores-of-head-0-twice",
        "The scores of head 0 are written for both heads.",
        "scores",
        lambda s: np.repeat(scaled(s.query, s.key)[:1], 2, 0),
    ),
    m(
        "scores-over-all-heads",
        "The dot products run over the whole width: both heads have the same scores.",
        "scores",
        lambda s: np.repeat(scaled(s.query, s.key).sum(0, keepdims=True), 2, 0),
    ),
    m(
        "heads-in-other-order",
        "The scores of head 1 are written first.",
        "scores",
        lambda s: scaled(s.query, s.key)[::-1],
    ),
    m(
        "softmax-over-columns",
        "The softmax is taken over the queries.",
        "weights",
        lambda s: softmax(s.scores, 1),
    ),
    m(
        "softmax-over-heads",
        "The softmax is taken over the heads.",
        "weights",
        lambda s: softmax(s.scores, 0),
    ),
    m(
        "softmax-without-exponential",
        "The scores are divided by their sum, without the exponential.",
        "weights",
        lambda s: s.scores / s.scores.sum(-1, keepdims=True),
    ),
    m(
        "softmax-not-normalised",
        "The exponentials are not divided by their sum.",
        "weights",
        lambda s: np.exp(s.scores),
    ),
    m(
        "softmax-base-two",
        "Powers of 2 are taken instead of powers of e.",
        "weights",
        lambda s: softmax(s.scores * np.log(2)),
    ),
    m(
        "per-head-a-k",
        "The weights mix the keys instead of the values.",
        "per head",
        lambda s: mixed(s.weights, s.key),
    ),
    m(
        "per-head-a-transposed",
        "A^T V instead of A V in each head.",
        "per head",
        lambda s: mixed(s.weights.swapaxes(1, 2), s.value),
    ),
    m(
        "per-head-values-of-other-head",
        "Each head mixes the values of the other head.",
        "per head",
        lambda s: mixed(s.weights, s.value[:, ::-1]),
    ),
    m(
        "joined-in-other-order",
        "The heads are joined in the other order.",
        "joined",
        lambda s: s["per head"][:, ::-1].reshape(len(s.tokens), -1),
    ),
    m(
        "joined-interleaved",
        "The heads are interleaved when they are joined.",
        "joined",
        lambda s: s["per head"].swapaxes(1, 2).reshape(len(s.tokens), -1),
    ),
    m(
        "joined-without-moving-heads",
        "The heads' matrices are reshaped to tokens as they lie, one head after the other.",
        "joined",
        lambda s: s["per head"].swapaxes(0, 1).reshape(len(s.tokens), -1),
    ),
    m(
        "joined-by-mean",
        "The mean of the heads is written for each head.",
        "joined",
        lambda s: np.tile(s["per head"].mean(1), 2),
    ),
    m("w-o-not-transposed", "J W_o instead of J W_o^T.", "output", lambda s: s.joined @ s.W_o),
    m("w-o-forgotten", "W_o is left out.", "output", lambda s: s.joined),
    m("w-v-for-w-o", "W_v is used instead of W_o.", "output", lambda s: s.joined @ s.W_v.T),
    m(
        "output-plus-tokens",
        "The tokens are added to the output.",
        "output",
        lambda s: s.joined @ s.W_o.T + s.tokens,
    ),
    m(
        "output-of-head-0",
        "Only head 0 goes into the output.",
        "output",
        lambda s: s.joined[:, :2] @ s.W_o[:, :2].T,
    ),
]

KINDS = [
    Kind(
        "multi-head-attention",
        right_heads,
        HEADS,
        slips="query, scores, output",
        copied="key",
        misread="query < W_q, output < W_o",
    ),
]
