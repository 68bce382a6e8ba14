"""Ordinary mistakes in sensitivity, copying and linear attention, a second set."""

from __future__ import annotations

import numpy as np

from benchmarks.wrong_answers.attention import beta, softmax
from benchmarks.wrong_answers.linear import dot, key_sum, read_out, seen, state, turns
from benchmarks.wrong_answers.sensitivity import after, before, length
from benchmarks.wrong_answers.solving import m

SENSITIVITY = [
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
        "The keys are replaced by Delta.",
        "after/scores",
        lambda s: beta(s) * s.query @ s.delta.T,
    ),
    m("no-beta-after", "beta is forgotten after the move.", "after/scores", lambda s: after(s) / beta(s)),
    m("old-scores", "The scores of before are copied.", "after/scores", before),
    m(
        "change-backwards",
        "Before minus after.",
        "change",
        lambda s: s["before/output"] - s["after/weights"] @ s.value,
    ),
    m(
        "new-output-given",
        "The output after is given, not the change.",
        "change",
        lambda s: s["after/weights"] @ s.value,
    ),
    m(
        "change-of-weights",
        "The change of the weights is given.",
        "change",
        lambda s: s["after/weights"] - s["before/weights"],
    ),
    m(
        "no-softmax-both",
        "The scores are normalised without the exponential, before and after.",
        "before/weights",
        lambda s: s["before/scores"] / s["before/scores"].sum(-1, keepdims=True),
        "after/weights",
        lambda s: s["after/scores"] / s["after/scores"].sum(-1, keepdims=True),
    ),
]
COPYING = [
    m("square-norms", "The squared norm, without the root.", "norms", lambda s: length(s.tokens) ** 2),
    m("norm-by-adding", "The entries are added up.", "norms", lambda s: s.tokens.sum(-1, keepdims=True)),
    m(
        "scores-scaled",
        "The scores are divided by the root of the width.",
        "scores",
        lambda s: s.tokens @ s.tokens.T / 2,
    ),
    m(
        "cosines",
        "The scores are divided by the norms: cosines.",
        "scores",
        lambda s: s.tokens @ s.tokens.T / (s.norms @ s.norms.T),
    ),
    m("error-not-over-r", "The division by r is forgotten.", "errors", lambda s: length(s.output - s.tokens)),
    m(
        "error-squared",
        "The squared distance over r.",
        "errors",
        lambda s: length(s.output - s.tokens) ** 2 / s.norm,
    ),
    m(
        "error-of-norms",
        "The difference of the norms over r.",
        "errors",
        lambda s: np.abs(length(s.output) - s.norms) / s.norm,
    ),
    m(
        "error-absolute-sum",
        "The absolute differences are added up.",
        "errors",
        lambda s: np.abs(s.output - s.tokens).sum(-1, keepdims=True) / s.norm,
    ),
    m(
        "exponent-doubled",
        "The exponents are doubled: beta is taken as 2.",
        "weights",
        lambda s: softmax(2 * s.scores),
    ),
]
LINEAR = [
    m(
        "exp-in-spite",
        "The exponential is taken all the same.",
        "weights",
        lambda s: (
            np.where(seen(s) > 0, np.exp(s.scores), 0)
            / np.where(seen(s) > 0, np.exp(s.scores), 0).sum(-1, keepdims=True)
        ),
    ),
    m("sums-of-columns", "The columns are added up.", "sums", lambda s: s.scores.sum(0)[:, None]),
    m(
        "not-divided",
        "The output is not normalised: scores times values.",
        "output",
        lambda s: s.scores @ s.value,
    ),
    m(
        "divided-twice",
        "The output is divided by the sums once more.",
        "output",
        lambda s: s.weights @ s.value / s.sums,
    ),
    m(
        "root-of-two",
        "The dot products are divided by the root of 2.",
        "scores",
        lambda s: s.query @ s.key.T * seen(s) / 2**0.5,
    ),
    m("keys-mixed-linear", "The keys are mixed.", "output", lambda s: s.weights @ s.key),
    m("scores-with-values", "Queries times values.", "scores", lambda s: s.query @ s.value.T * seen(s)),
]
RECURRENT = [
    m(
        "outer-backwards",
        "v_t^T k_t is added to the state.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.value[t], s.key[t]),
    ),
    m(
        "state-not-accumulated",
        "Only the token's own product is the state.",
        "step */state",
        lambda s, t: np.outer(s.key[t], s.value[t]),
    ),
    m(
        "key-sum-of-values",
        "The values are added up instead of the keys.",
        "step */key sum",
        lambda s, t: key_sum(s, t - 1) + s.value[t],
    ),
    m(
        "state-with-queries",
        "q_t^T v_t is added.",
        "step */state",
        lambda s, t: state(s, t - 1) + np.outer(s.query[t], s.value[t]),
    ),
    m(
        "key-sum-not-accumulated",
        "The key sum is the token's key alone.",
        "step */key sum",
        lambda s, t: s.key[t][None],
    ),
    m(
        "output-undivided",
        "The division is left out.",
        "output",
        lambda s: np.array([s.query[t] @ state(s, t) for t in turns(s)]),
    ),
    m(
        "output-last-state",
        "Every token reads the last state and key sum.",
        "output",
        lambda s: np.array(
            [
                s.query[t] @ state(s, len(s.query) - 1) / (s.query[t] @ key_sum(s, len(s.query) - 1)[0])
                for t in turns(s)
            ]
        ),
    ),
    m(
        "output-transposed-state",
        "q_t C_t^T is taken.",
        "output",
        lambda s: read_out(s, lambda t: state(s, t) @ s.query[t], lambda t: dot(s, t)),
    ),
]
MISTAKES = {
    "sensitivity": SENSITIVITY,
    "copying": COPYING,
    "linear-attention": LINEAR,
    "linear-attention-recurrent": RECURRENT,
}
