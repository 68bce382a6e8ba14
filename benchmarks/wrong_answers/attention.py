"""Self-attention and cross-attention: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


def softmax(scores: Any, axis: int = -1) -> Any:
    return np.exp(scores) / np.exp(scores).sum(axis, keepdims=True)


def beta(s: Work) -> float:
    return float(s.get("beta") or s.W_q.shape[0] ** -0.5)


def memory(s: Work) -> Any:
    return s.get("memory", s.tokens)


def allowed(s: Work) -> Any:
    count = len(s.tokens)
    if "mask" not in s:
        return np.ones((count, len(memory(s))), bool)
    return (
        np.tri(count, dtype=bool) if isinstance(s.mask, str) else np.broadcast_to(s.mask > 0, (count, count))
    )


def right(given: Work) -> Formulas:
    return {
        "query": lambda s: s.tokens @ s.W_q.T,
        "key": lambda s: memory(s) @ s.W_k.T,
        "value": lambda s: memory(s) @ s.W_v.T,
        "scores": lambda s: beta(s) * s.query @ s.key.T,
        "weights": lambda s: softmax(np.where(allowed(s), s.scores, -np.inf)),
        "output": lambda s: s.weights @ s.value,
    }


def hardmax(scores: Any) -> Any:
    return (scores == scores.max(-1, keepdims=True)).astype(float)


PROJECTIONS = [
    m(
        "query-x-times-w",
        "The queries are X W_q: W_q is not transposed.",
        "query",
        lambda s: s.tokens @ s.W_q,
    ),
    m("key-x-times-w", "The keys are X W_k: W_k is not transposed.", "key", lambda s: memory(s) @ s.W_k),
    m(
        "value-x-times-w",
        "The values are X W_v: W_v is not transposed.",
        "value",
        lambda s: memory(s) @ s.W_v,
    ),
    m(
        "all-x-times-w",
        "All three matrices are applied from the wrong side: X W instead of X W^T.",
        "query",
        lambda s: s.tokens @ s.W_q,
        "key",
        lambda s: memory(s) @ s.W_k,
        "value",
        lambda s: memory(s) @ s.W_v,
    ),
    m("query-not-projected", "The tokens are taken as queries, without W_q.", "query", lambda s: s.tokens),
    m("key-not-projected", "The tokens are taken as keys, without W_k.", "key", memory),
    m("value-not-projected", "The tokens are taken as values, without W_v.", "value", memory),
    m(
        "nothing-projected",
        "The tokens themselves are taken as queries, keys and values.",
        "query",
        lambda s: s.tokens,
        "key",
        memory,
        "value",
        memory,
    ),
    m("query-by-w-k", "The queries are made with W_k.", "query", lambda s: s.tokens @ s.W_k.T),
    m("key-by-w-q", "The keys are made with W_q.", "key", lambda s: memory(s) @ s.W_q.T),
    m("key-by-w-v", "The keys are made with W_v.", "key", lambda s: memory(s) @ s.W_v.T),
    m("value-by-w-k", "The values are made with W_k.", "value", lambda s: memory(s) @ s.W_k.T),
    m(
        "w-q-and-w-k-swapped",
        "W_q and W_k are exchanged.",
        "query",
        lambda s: s.tokens @ s.W_k.T,
        "key",
        lambda s: memory(s) @ s.W_q.T,
    ),
    m("value-from-keys", "The values are made from the keys: K W_v^T.", "value", lambda s: s.key @ s.W_v.T),
    m("query-twice-projected", "W_q is applied twice.", "query", lambda s: s.tokens @ s.W_q.T @ s.W_q.T),
    m(
        "query-minus-signs-lost",
        "The minus signs of W_q are overlooked.",
        "query",
        lambda s: s.tokens @ np.abs(s.W_q).T,
    ),
    m(
        "key-term-dropped",
        "Only the first term of each sum is taken for the keys.",
        "key",
        lambda s: np.outer(memory(s)[:, 0], s.W_k[:, 0]),
    ),
]
SCORES = [
    m(
        "beta-forgotten",
        "The scores are not scaled: beta is left out.",
        "scores",
        lambda s: s.query @ s.key.T,
    ),
    m(
        "beta-inverted",
        "The scores are divided by beta instead of multiplied (times sqrt(d)).",
        "scores",
        lambda s: s.query @ s.key.T / beta(s),
    ),
    m("beta-twice", "The scores are scaled twice.", "scores", lambda s: beta(s) ** 2 * s.query @ s.key.T),
    m(
        "scale-by-token-count",
        "The scores are divided by the root of the number of keys.",
        "scores",
        lambda s: s.query @ s.key.T / len(s.key) ** 0.5,
    ),
    m("scores-k-q", "K Q^T instead of Q K^T.", "scores", lambda s: beta(s) * s.key @ s.query.T),
    m(
        "scores-q-q",
        "The queries are multiplied with themselves.",
        "scores",
        lambda s: beta(s) * s.query @ s.query.T,
    ),
    m(
        "scores-k-k",
        "The keys are multiplied with themselves.",
        "scores",
        lambda s: beta(s) * s.key @ s.key.T,
    ),
    m("scores-q-v", "Q V^T instead of Q K^T.", "scores", lambda s: beta(s) * s.query @ s.value.T),
    m(
        "scores-of-raw-tokens",
        "The scores are dot products of the tokens, without queries and keys.",
        "scores",
        lambda s: beta(s) * s.tokens @ memory(s).T,
    ),
    m(
        "scores-term-dropped",
        "Only the first component of queries and keys enters the dot products.",
        "scores",
        lambda s: beta(s) * np.outer(s.query[:, 0], s.key[:, 0]),
    ),
    m(
        "scores-summed-absolutely",
        "The products are added without their signs.",
        "scores",
        lambda s: beta(s) * np.abs(s.query) @ np.abs(s.key).T,
    ),
]
WEIGHTS = [
    m(
        "softmax-over-columns",
        "The softmax is taken over each column (the queries).",
        "weights",
        lambda s: softmax(s.scores, 0),
    ),
    m(
        "softmax-over-everything",
        "The exponentials are divided by the sum over the whole matrix.",
        "weights",
        lambda s: np.exp(s.scores) / np.exp(s.scores).sum(),
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
    m("softmax-minus", "e^(-s) is taken instead of e^s.", "weights", lambda s: softmax(-s.scores)),
    m(
        "softmax-over-maximum",
        "The exponentials are divided by the largest of the row, not by the sum.",
        "weights",
        lambda s: np.exp(s.scores - s.scores.max(-1, keepdims=True)),
    ),
    m("softmax-twice", "The softmax is applied twice.", "weights", lambda s: softmax(softmax(s.scores))),
    m("hard-maximum", "All weight is given to the largest score.", "weights", lambda s: hardmax(s.scores)),
    m(
        "softmax-over-count",
        "The exponentials are divided by the number of keys.",
        "weights",
        lambda s: np.exp(s.scores) / s.scores.shape[-1],
    ),
    m(
        "beta-again-in-softmax",
        "beta is applied again in the softmax.",
        "weights",
        lambda s: softmax(beta(s) * s.scores),
    ),
    m(
        "own-term-missing-in-sum",
        "The sum below does not contain the own term.",
        "weights",
        lambda s: np.exp(s.scores) / (np.exp(s.scores).sum(-1, keepdims=True) - np.exp(s.scores)),
    ),
    m(
        "softmax-of-squares",
        "Squares are taken instead of exponentials.",
        "weights",
        lambda s: s.scores**2 / (s.scores**2).sum(-1, keepdims=True),
    ),
]
OUTPUT = [
    m(
        "output-a-k",
        "The weights are multiplied with the keys instead of the values.",
        "output",
        lambda s: s.weights @ s.key,
    ),
    m("output-a-transposed", "A^T V instead of A V.", "output", lambda s: s.weights.T @ s.value),
    m(
        "output-of-tokens",
        "The weights are multiplied with the tokens instead of the values.",
        "output",
        lambda s: s.weights @ memory(s),
    ),
    m(
        "output-s-v",
        "The scores instead of the weights mix the values.",
        "output",
        lambda s: s.scores @ s.value,
    ),
    m(
        "output-over-count",
        "The output is divided by the number of keys once more.",
        "output",
        lambda s: s.weights @ s.value / len(s.value),
    ),
    m(
        "output-of-largest-weight",
        "The value with the largest weight is taken instead of the weighted mean.",
        "output",
        lambda s: s.value[s.weights.argmax(-1)],
    ),
    m(
        "output-plus-tokens",
        "The tokens are added to the output.",
        "output",
        lambda s: s.weights @ s.value + s.tokens,
    ),
    m(
        "output-w-v-again",
        "W_v is applied again to the output.",
        "output",
        lambda s: s.weights @ s.value @ s.W_v.T,
    ),
    m(
        "output-last-key-dropped",
        "The last value is left out of the weighted sum.",
        "output",
        lambda s: s.weights[:, :-1] @ s.value[:-1],
    ),
]
CROSS = [
    m("queries-from-memory", "The queries are made from the memory.", "query", lambda s: s.memory @ s.W_q.T),
    m("keys-from-tokens", "The keys are made from the tokens X.", "key", lambda s: s.tokens @ s.W_k.T),
    m("values-from-tokens", "The values are made from the tokens X.", "value", lambda s: s.tokens @ s.W_v.T),
    m(
        "keys-and-values-from-tokens",
        "Keys and values are made from the tokens X: self-attention.",
        "key",
        lambda s: s.tokens @ s.W_k.T,
        "value",
        lambda s: s.tokens @ s.W_v.T,
    ),
]

KINDS = [
    Kind(
        "self-attention",
        right,
        PROJECTIONS + SCORES + WEIGHTS + OUTPUT,
        slips="query, scores, weights, output",
        copied="key, weights",
        misread="query < W_q, value < tokens",
    ),
    Kind(
        "cross-attention",
        right,
        [
            x
            for x in PROJECTIONS + SCORES + WEIGHTS + OUTPUT
            if x.slug not in ("query-twice-projected", "softmax-of-squares")
        ]
        + CROSS,
        slips="key, scores, output",
        copied="value",
        misread="key < memory, value < W_v",
    ),
]
