"""The limits of beta: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import softmax
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- beta-limits ------------------------------------------------------------------------------------
def products_of(s: Work) -> Any:
    return s.query @ s.key.T


def largest(scores: Any, axis: int = -1) -> Any:
    best = scores == scores.max(axis, keepdims=True)
    return best / best.sum(axis, keepdims=True)


def first_largest(s: Work) -> Any:
    return np.eye(len(s.key))[products_of(s).argmax(-1)]


def equal(s: Work) -> Any:
    return np.full((len(s.query), len(s.key)), 1 / len(s.key))


def right_limits(given: Work) -> Formulas:
    return {
        "beta 0/weights": equal,
        "beta 0/output": lambda s: s["beta 0/weights"] @ s.value,
        "beta oo/weights": lambda s: largest(products_of(s)),
        "beta oo/output": lambda s: s["beta oo/weights"] @ s.value,
    }


LIMITS = [
    m("zero-all-zero", "At beta = 0 all weights are called 0.", "beta 0/weights", lambda s: 0 * equal(s)),
    m(
        "zero-all-one",
        "At beta = 0 the exponentials 1 are not divided by their sum.",
        "beta 0/weights",
        lambda s: equal(s) ** 0,
    ),
    m(
        "zero-identity",
        "At beta = 0 each token is said to attend to itself.",
        "beta 0/weights",
        lambda s: np.eye(len(s.key)),
    ),
    m(
        "zero-beta-one",
        "The weights at beta = 1 are given for beta = 0.",
        "beta 0/weights",
        lambda s: softmax(products_of(s)),
    ),
    m(
        "zero-over-width",
        "One over the width instead of one over the number of keys.",
        "beta 0/weights",
        lambda s: equal(s) ** 0 / 2,
    ),
    m(
        "limits-exchanged",
        "The two limits are exchanged.",
        "beta 0/weights",
        lambda s: largest(products_of(s)),
        "beta oo/weights",
        equal,
    ),
    m(
        "zero-output-sum",
        "The values are added, not averaged.",
        "beta 0/output",
        lambda s: s["beta 0/weights"] ** 0 @ s.value,
    ),
    m(
        "zero-output-of-keys",
        "The mean of the keys is taken.",
        "beta 0/output",
        lambda s: s["beta 0/weights"] @ s.key,
    ),
    m(
        "zero-output-values",
        "The values themselves are given as the output.",
        "beta 0/output",
        lambda s: s.value,
    ),
    m(
        "zero-output-query-mean",
        "The mean of the queries is taken.",
        "beta 0/output",
        lambda s: s["beta 0/weights"] @ s.query,
    ),
    m(
        "both-outputs-of-keys",
        "The keys are mixed instead of the values.",
        "beta 0/output",
        lambda s: s["beta 0/weights"] @ s.key,
        "beta oo/output",
        lambda s: s["beta oo/weights"] @ s.key,
    ),
    m(
        "infinite-beta-one",
        "The weights at beta = 1 are given for infinity.",
        "beta oo/weights",
        lambda s: softmax(products_of(s)),
    ),
    m(
        "infinite-smallest",
        "All weight goes to the smallest score.",
        "beta oo/weights",
        lambda s: largest(-products_of(s)),
    ),
    m(
        "infinite-over-columns",
        "The largest is searched in each column.",
        "beta oo/weights",
        lambda s: largest(products_of(s), 0),
    ),
    m(
        "infinite-first-of-ties",
        "Of equal largest scores only the first gets weight.",
        "beta oo/weights",
        first_largest,
    ),
    m(
        "infinite-ties-not-split",
        "Each of several largest scores gets weight 1.",
        "beta oo/weights",
        lambda s: np.ceil(largest(products_of(s))),
    ),
    m(
        "infinite-identity",
        "Each token is said to attend to itself.",
        "beta oo/weights",
        lambda s: np.eye(len(s.key)),
    ),
    m("infinite-scores", "The raw scores are given as weights.", "beta oo/weights", products_of),
    m(
        "infinite-longest-key",
        "All weight goes to the longest key.",
        "beta oo/weights",
        lambda s: largest(np.tile((s.key**2).sum(1), (len(s.query), 1))),
    ),
    m(
        "infinite-transposed",
        "The weights are transposed.",
        "beta oo/weights",
        lambda s: largest(products_of(s)).T,
    ),
    m(
        "infinite-output-transposed",
        "A^T V instead of A V.",
        "beta oo/output",
        lambda s: s["beta oo/weights"].T @ s.value,
    ),
    m(
        "infinite-output-of-keys",
        "The winning keys are given instead of their values.",
        "beta oo/output",
        lambda s: s["beta oo/weights"] @ s.key,
    ),
    m(
        "infinite-output-largest-value",
        "The largest value of each column is given.",
        "beta oo/output",
        lambda s: np.tile(s.value.max(0), (len(s.query), 1)),
    ),
    m(
        "infinite-output-ties-added",
        "The values of equal scores are added, not averaged.",
        "beta oo/output",
        lambda s: np.ceil(s["beta oo/weights"]) @ s.value,
    ),
]

KINDS = [
    Kind(
        "beta-limits",
        right_limits,
        LIMITS,
        slips="beta 0/output, beta oo/output",
        copied="beta oo/weights",
        misread="beta oo/weights < key, beta oo/output < value",
    ),
]
