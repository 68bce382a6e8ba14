"""Masked attention: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.attention import (
    OUTPUT,
    PROJECTIONS,
    SCORES,
    allowed,
    beta,
    right,
    softmax,
)
from benchmarks.wrong_answers.solving import Kind, Work, m


def masked_softmax(scores: Any, mask: Any) -> Any:
    """A row that may attend to nothing stays 0."""
    return np.nan_to_num(softmax(np.where(mask, scores, -np.inf)))


def one_later(s: Work) -> Any:
    if not isinstance(s.mask, str):
        raise ValueError("this mask knows no later tokens")
    return np.tri(len(s.tokens), k=1) > 0


MASKED = [
    m("mask-ignored", "The mask is ignored.", "weights", lambda s: softmax(s.scores)),
    m(
        "masked-scores-zero",
        "Hidden scores are set to 0 before the softmax instead of minus infinity.",
        "weights",
        lambda s: softmax(np.where(allowed(s), s.scores, 0)),
    ),
    m(
        "masked-after-softmax",
        "Hidden weights are set to 0 after the softmax; the rows no longer sum to 1.",
        "weights",
        lambda s: softmax(s.scores) * allowed(s),
    ),
    m(
        "mask-transposed",
        "The mask is transposed: later tokens are seen, earlier ones hidden.",
        "weights",
        lambda s: masked_softmax(s.scores, allowed(s).T),
    ),
    m(
        "mask-hides-own",
        "The own token is hidden too.",
        "weights",
        lambda s: masked_softmax(s.scores, allowed(s) & ~np.eye(len(s.scores), dtype=bool)),
    ),
    m(
        "mask-one-too-many",
        "The mask is shifted by one: the next token is seen too.",
        "weights",
        lambda s: masked_softmax(s.scores, one_later(s)),
    ),
    m(
        "mask-inverted",
        "1 and 0 of the mask are exchanged.",
        "weights",
        lambda s: masked_softmax(s.scores, ~allowed(s)),
    ),
    m(
        "masked-softmax-over-columns",
        "The masked softmax is taken over each column.",
        "weights",
        lambda s: np.nan_to_num(softmax(np.where(allowed(s), s.scores, -np.inf), 0)),
    ),
    m(
        "masked-uniform",
        "Equal weights for all keys that may be seen.",
        "weights",
        lambda s: allowed(s) / allowed(s).sum(-1, keepdims=True),
    ),
    m(
        "masked-not-normalised",
        "The exponentials that may be seen are not divided by their sum.",
        "weights",
        lambda s: np.exp(s.scores) * allowed(s),
    ),
    m(
        "masked-without-exponential",
        "The scores that may be seen are divided by their sum, without the exponential.",
        "weights",
        lambda s: s.scores * allowed(s) / (s.scores * allowed(s)).sum(-1, keepdims=True),
    ),
    m(
        "scores-multiplied-by-mask",
        "The scores are multiplied by the mask already in the scores asked before masking.",
        "scores",
        lambda s: beta(s) * s.query @ s.key.T * allowed(s),
    ),
    m(
        "mask-in-output-only",
        "The mask is used only when the values are mixed, on weights of all keys.",
        "weights",
        lambda s: softmax(s.scores),
        "output",
        lambda s: (s.weights * allowed(s)) @ s.value,
    ),
]


def chosen(mistakes: list[Any], *slugs: str) -> list[Any]:
    return [mistake for mistake in mistakes if mistake.slug in slugs]


KINDS = [
    Kind(
        "masked-attention",
        right,
        MASKED
        + chosen(PROJECTIONS, "query-x-times-w", "value-x-times-w", "all-x-times-w", "w-q-and-w-k-swapped")
        + chosen(PROJECTIONS, "value-not-projected", "key-not-projected", "value-by-w-k")
        + chosen(
            SCORES, "beta-forgotten", "beta-inverted", "scores-k-q", "scores-q-v", "scores-of-raw-tokens"
        )
        + chosen(OUTPUT, "output-a-k", "output-a-transposed", "output-of-tokens", "output-plus-tokens"),
        slips="scores, weights, output",
        misread="scores < W_q",
    ),
]
