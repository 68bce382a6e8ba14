"""A moved key, and tokens that copy themselves: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import softmax
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- sensitivity ------------------------------------------------------------------------------------
def beta(s: Work) -> float:
    return float(s.get("beta") or s.query.shape[1] ** -0.5)


def before(s: Work) -> Any:
    return beta(s) * s.query @ s.key.T


def after(s: Work) -> Any:
    return beta(s) * s.query @ (s.key + s.delta).T


def right_sensitivity(given: Work) -> Formulas:
    return {
        "before/scores": before,
        "before/weights": lambda s: softmax(s["before/scores"]),
        "before/output": lambda s: s["before/weights"] @ s.value,
        "after/scores": after,
        "after/weights": lambda s: softmax(s["after/scores"]),
        "change": lambda s: s["after/weights"] @ s.value - s["before/output"],
    }


def ratio(scores: Any) -> Any:
    return scores / scores.sum(-1, keepdims=True)


SENSITIVITY = [
    m(
        "beta-forgotten-before",
        "beta is left out in the weights before.",
        "before/scores",
        lambda s: s.query @ s.key.T,
    ),
    m(
        "beta-forgotten",
        "beta is left out, before and after.",
        "before/scores",
        lambda s: s.query @ s.key.T,
        "after/scores",
        lambda s: s.query @ (s.key + s.delta).T,
    ),
    m(
        "beta-inverted-before",
        "Divided by beta before.",
        "before/scores",
        lambda s: s.query @ s.key.T / beta(s),
    ),
    m(
        "softmax-over-columns-before",
        "The softmax before is taken over each column.",
        "before/weights",
        lambda s: softmax(s["before/scores"], 0),
    ),
    m(
        "softmax-over-columns",
        "The softmax is taken over each column, before and after.",
        "before/weights",
        lambda s: softmax(s["before/scores"], 0),
        "after/weights",
        lambda s: softmax(s["after/scores"], 0),
    ),
    m(
        "softmax-not-normalised",
        "The exponentials are not divided by their sum, before and after.",
        "before/weights",
        lambda s: np.exp(s["before/scores"]),
        "after/weights",
        lambda s: np.exp(s["after/scores"]),
    ),
    m(
        "softmax-base-two-before",
        "Powers of 2 instead of powers of e before.",
        "before/weights",
        lambda s: softmax(s["before/scores"] * np.log(2)),
    ),
    m(
        "weights-without-exponential",
        "The scores are divided by their sum, without the exponential.",
        "before/weights",
        lambda s: ratio(s["before/scores"]),
    ),
    m("before-k-q", "K Q^T instead of Q K^T before.", "before/scores", lambda s: before(s).T),
    m(
        "before-output-of-keys",
        "The keys are mixed instead of the values.",
        "before/output",
        lambda s: s["before/weights"] @ s.key,
    ),
    m(
        "before-output-transposed",
        "A^T V instead of A V.",
        "before/output",
        lambda s: s["before/weights"].T @ s.value,
    ),
    m(
        "delta-subtracted",
        "Delta is subtracted from the keys.",
        "after/scores",
        lambda s: beta(s) * s.query @ (s.key - s.delta).T,
    ),
    m(
        "delta-to-queries",
        "Delta is added to the queries.",
        "after/scores",
        lambda s: beta(s) * (s.query + s.delta) @ s.key.T,
    ),
    m(
        "delta-alone",
        "Only Q Delta^T is worked out.",
        "after/scores",
        lambda s: beta(s) * s.query @ s.delta.T,
    ),
    m(
        "beta-forgotten-after",
        "beta is left out after the move.",
        "after/scores",
        lambda s: s.query @ (s.key + s.delta).T,
    ),
    m(
        "beta-not-on-delta",
        "beta is left out on the part of Delta.",
        "after/scores",
        lambda s: before(s) + s.query @ s.delta.T,
    ),
    m(
        "delta-on-next-key",
        "Delta is added to the next key.",
        "after/scores",
        lambda s: beta(s) * s.query @ (s.key + np.roll(s.delta, 1, 0)).T,
    ),
    m(
        "delta-twice",
        "Delta is added twice.",
        "after/scores",
        lambda s: beta(s) * s.query @ (s.key + 2 * s.delta).T,
    ),
    m("delta-not-added", "The scores before are given for after.", "after/scores", before),
    m("after-k-q", "The scores after are transposed.", "after/scores", lambda s: after(s).T),
    m(
        "delta-replaces-key",
        "The moved key is replaced by Delta.",
        "after/scores",
        lambda s: beta(s) * s.query @ np.where(s.delta.any(1, keepdims=True), s.delta, s.key).T,
    ),
    m(
        "softmax-over-columns-after",
        "The softmax after is taken over each column.",
        "after/weights",
        lambda s: softmax(s["after/scores"], 0),
    ),
    m(
        "other-weights-kept",
        "Only the weight of the moved key is changed, the others are kept.",
        "after/weights",
        lambda s: np.where(s.delta.any(1), softmax(s["after/scores"]), s["before/weights"]),
    ),
    m(
        "old-sum-below",
        "The new exponentials are divided by the old sums.",
        "after/weights",
        lambda s: np.exp(s["after/scores"]) / np.exp(before(s)).sum(-1, keepdims=True),
    ),
    m(
        "change-reversed",
        "Before minus after.",
        "change",
        lambda s: s["before/output"] - s["after/weights"] @ s.value,
    ),
    m(
        "change-is-output-after",
        "The output after is given as the change.",
        "change",
        lambda s: s["after/weights"] @ s.value,
    ),
    m(
        "change-without-sign",
        "The change is given without its sign.",
        "change",
        lambda s: abs(s["after/weights"] @ s.value - s["before/output"]),
    ),
    m(
        "change-of-moved-values",
        "Delta is added to the values too.",
        "change",
        lambda s: s["after/weights"] @ (s.value + s.delta) - s["before/output"],
    ),
    m(
        "change-of-keys",
        "The change of the weights is multiplied with the keys.",
        "change",
        lambda s: (s["after/weights"] - s["before/weights"]) @ s.key,
    ),
    m(
        "change-transposed",
        "The change of the weights is transposed.",
        "change",
        lambda s: (s["after/weights"] - s["before/weights"]).T @ s.value,
    ),
]


# --- copying ----------------------------------------------------------------------------------------
def length(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(-1, keepdims=True))


def right_copying(given: Work) -> Formulas:
    return {
        "norms": lambda s: length(s.tokens),
        "scores": lambda s: s.tokens @ s.tokens.T,
        "weights": lambda s: softmax(s.scores),
        "output": lambda s: s.weights @ s.tokens,
        "errors": lambda s: length(s.output - s.tokens) / s.norm,
    }


COPYING = [
    m("norm-squared", "The root is left out of the norms.", "norms", lambda s: length(s.tokens) ** 2),
    m(
        "norm-sum",
        "The entries are added instead of the root of their squares.",
        "norms",
        lambda s: s.tokens.sum(-1, keepdims=True),
    ),
    m(
        "norm-without-r",
        "The factor r is left out of the norms.",
        "norms",
        lambda s: length(s.tokens) / s.norm,
    ),
    m(
        "norm-largest",
        "The largest entry is given as the norm.",
        "norms",
        lambda s: s.tokens.max(-1, keepdims=True),
    ),
    m("norm-mean-square", "The root of the mean square is taken.", "norms", lambda s: length(s.tokens) / 2),
    m(
        "norm-r-times-count",
        "r times the number of vectors, without the root.",
        "norms",
        lambda s: (s.tokens > 0).sum(-1, keepdims=True) * s.norm + 0,
    ),
    m(
        "scores-scaled",
        "The scores are divided by the root of the width.",
        "scores",
        lambda s: s.tokens @ s.tokens.T / 2,
    ),
    m(
        "scores-without-r",
        "Shared vectors are counted, without r^2.",
        "scores",
        lambda s: s.tokens @ s.tokens.T / s.norm**2,
    ),
    m(
        "scores-with-one-r",
        "r instead of r^2 for each shared vector.",
        "scores",
        lambda s: s.tokens @ s.tokens.T / s.norm,
    ),
    m(
        "scores-product-of-norms",
        "The product of the norms is taken as the score.",
        "scores",
        lambda s: s.norms @ s.norms.T,
    ),
    m(
        "scores-diagonal-norms",
        "The diagonal holds the norms, not their squares.",
        "scores",
        lambda s: s.tokens @ s.tokens.T - np.diag((s.norms**2 - s.norms)[:, 0]),
    ),
    m(
        "scores-own-zero",
        "The score of a token with itself is left 0.",
        "scores",
        lambda s: s.tokens @ s.tokens.T * (1 - np.eye(len(s.tokens))),
    ),
    m(
        "softmax-over-columns",
        "The softmax is taken over each column.",
        "weights",
        lambda s: softmax(s.scores, 0),
    ),
    m(
        "softmax-without-exponential",
        "The scores are divided by their sum.",
        "weights",
        lambda s: ratio(s.scores),
    ),
    m(
        "softmax-not-normalised",
        "The exponentials are not divided by their sum.",
        "weights",
        lambda s: np.exp(s.scores),
    ),
    m(
        "softmax-base-two",
        "Powers of 2 instead of powers of e.",
        "weights",
        lambda s: softmax(s.scores * np.log(2)),
    ),
    m("softmax-minus", "e^(-s) instead of e^s.", "weights", lambda s: softmax(-s.scores)),
    m("output-transposed", "A^T X instead of A X.", "output", lambda s: s.weights.T @ s.tokens),
    m(
        "output-in-units-of-r",
        "The output is given in units of r.",
        "output",
        lambda s: s.weights @ s.tokens / s.norm,
    ),
    m(
        "output-largest-weight",
        "The token with the largest weight is copied.",
        "output",
        lambda s: s.tokens[s.weights.argmax(-1)],
    ),
    m(
        "output-s-x",
        "The scores mix the tokens instead of the weights.",
        "output",
        lambda s: s.scores @ s.tokens,
    ),
    m("errors-not-over-r", "The error is not divided by r.", "errors", lambda s: length(s.output - s.tokens)),
    m(
        "errors-squared",
        "The root is left out of the error.",
        "errors",
        lambda s: (length(s.output - s.tokens) / s.norm) ** 2,
    ),
    m(
        "errors-sum",
        "The differences are added without squares.",
        "errors",
        lambda s: np.abs(s.output - s.tokens).sum(-1, keepdims=True) / s.norm,
    ),
    m(
        "errors-over-own-norm",
        "The error is divided by the token's own norm.",
        "errors",
        lambda s: length(s.output - s.tokens) / s.norms,
    ),
    m(
        "errors-of-norms",
        "The difference of the norms is taken.",
        "errors",
        lambda s: abs(length(s.output) - length(s.tokens)) / s.norm,
    ),
    m(
        "errors-times-r",
        "The error is multiplied by r.",
        "errors",
        lambda s: length(s.output - s.tokens) * s.norm,
    ),
    m(
        "errors-largest",
        "The largest difference is taken.",
        "errors",
        lambda s: np.abs(s.output - s.tokens).max(-1, keepdims=True) / s.norm,
    ),
]

KINDS = [
    Kind(
        "sensitivity",
        right_sensitivity,
        SENSITIVITY,
        slips="before/weights, after/scores, change",
        copied="before/output",
        misread="after/scores < delta, before/output < value",
    ),
    Kind("copying", right_copying, COPYING, slips="norms, scores, output", misread="scores < tokens"),
]
