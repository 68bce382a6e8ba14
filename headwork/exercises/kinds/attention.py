"""Attention: by itself, masked, with heads, in its limits, and without the exponential."""

from __future__ import annotations

from typing import Any

from headwork.exercises.draws import Draws, matrix_text
from headwork.exercises.kinds.registry import Problem, kind

BETA = ("1", "1/2", "2")


def _projections(draws: Draws, width: int, names: str = "W_q W_k W_v") -> dict[str, Any]:
    low, high = (-1, 2) if width == 2 else (0, 1)
    return {name: draws.matrix(width, width, low, high) for name in names.split()}


def _beta(draws: Draws, difficulty: int) -> dict[str, Any]:
    """A given beta at first, 1/sqrt(d_k) later."""
    return {"beta": draws.choice(BETA)} if difficulty == 1 else {}


STEPS = "query, key, value, scores, weights, output"


@kind("self-attention", STEPS)
def self_attention(draws: Draws, difficulty: int) -> Problem:
    """The tokens attend to each other by softmax(beta Q K^T) V. Work out the queries, keys and values, the
    scores, the attention weights and the output.
    """
    count = 2 + (difficulty > 0) + (difficulty > 2)
    return {"tokens": draws.matrix(count, 2, 0, 2), **_projections(draws, 2)}, _beta(draws, difficulty)


@kind("cross-attention", STEPS)
def cross_attention(draws: Draws, difficulty: int) -> Problem:
    """The tokens X attend to the memory M by softmax(beta Q K^T) V. Work out the queries, keys and values,
    the scores, the attention weights and the output.
    """
    tokens = {"tokens": draws.matrix(2 + (difficulty > 2), 2, 0, 2), "memory": draws.matrix(3, 2, 0, 2)}
    return {**tokens, **_projections(draws, 2)}, _beta(draws, difficulty)


@kind("self-attention", "scores, weights, output")
def masked_attention(draws: Draws, difficulty: int) -> Problem:
    """The tokens attend to each other under a mask: 1 means that a query (row) may attend to a key (column),
    0 that it may not; causal means that it may attend to itself and to earlier tokens. Work out the scores
    before masking, the attention weights and the output.
    """
    count = 3 + (difficulty > 2)
    mask = "causal"
    if draws.integer(0, 2) == 0:
        hidden = draws.integer(0, count - 1)
        mask = matrix_text([[int(j != hidden) for j in range(count)]])
    inputs = {"tokens": draws.matrix(count, 2, 0, 2), **_projections(draws, 2)}
    return inputs, {"mask": mask, **_beta(draws, difficulty)}


@kind("multi-head-attention", "query, key, value, scores, weights, per head, joined, output")
def multi_head_attention(draws: Draws, difficulty: int) -> Problem:
    """Two heads attend side by side: each matrix is cut into two blocks of rows, one for each head; the heads
    are joined and mixed by W_o. Work out every step. Write the queries, keys, values and the outputs per head
    with one row per token, head 0 first; write scores and weights with the rows of head 0 above those of head
    1.
    """
    count = 2 + (difficulty > 1)
    tokens = draws.matrix(count, 4, 0, 1 + (difficulty > 2))
    return {"tokens": tokens, **_projections(draws, 4, "W_q W_k W_v W_o")}, {"heads": 2}


@kind("beta-limits", "beta 0/weights, beta 0/output, beta oo/weights, beta oo/output")
def beta_limits(draws: Draws, difficulty: int) -> Problem:
    """Attention is softmax(beta Q K^T) V. Work out the weights and the output in the limits beta -> 0 and
    beta -> infinity.
    """
    count = 3 + (difficulty > 2)
    low = 0 if difficulty == 1 else -1
    return {name: draws.matrix(count, 2, low, 2) for name in ("query", "key", "value")}, {}


@kind("sensitivity", "before/weights, before/output, after/scores, after/weights, change")
def sensitivity(draws: Draws, difficulty: int) -> Problem:
    """One key is moved: Delta is added to the keys. Work out the weights and the output before, the scores
    and the weights after, and the change of the output.
    """
    moved = draws.integer(0, 2)
    delta = [draws.row(2, -1, 2) if row == moved else [0, 0] for row in range(3)]
    rows = {name: draws.matrix(3, 2, 0, high) for name, high in (("query", 2), ("key", 1), ("value", 3))}
    return {**rows, "delta": matrix_text(delta)}, _beta(draws, difficulty)


@kind("copying", "norms, scores, weights, output, errors")
def copying(draws: Draws, difficulty: int) -> Problem:
    """The vectors a, b, c, d are orthogonal and have norm r = {norm}. Each row of X is a sum of some of them,
    in coordinates along a/r, b/r, c/r, d/r. With q = k = v = x and beta = 1, work out the norms of the
    tokens, the scores, the weights, the output, and the error |y - x|/r of each token.
    """
    norm = draws.choice(("1", "3/2", "2") if difficulty == 1 else ("1/2", "5/4", "7/4"))
    rows = [draws.row(4, 0, 1) for _ in range(3)]
    return {"tokens": matrix_text([[norm if x else "0" for x in row] for row in rows])}, {"norm": norm}


@kind("linear-attention", "scores, sums, weights, output")
def linear_attention(draws: Draws, difficulty: int) -> Problem:
    """Linear attention omits the exponential: the dot products of queries and keys are divided by their sum
    over the keys. Work out the scores, their sums, the weights and the output.
    """
    rows = {name: draws.matrix(3, 2, 0, 2 + (difficulty > 1)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"} if difficulty > 2 else {}


@kind("linear-attention-recurrent", "step */state, step */key sum, output")
def linear_attention_recurrent(draws: Draws, difficulty: int) -> Problem:
    """Causal linear attention as a recurrence: the state adds up k_t^T v_t and the key sum adds up k_t, token
    by token; each output is q_t C_t / (q_t . c_t). Work out both after every token (step 0 is the first), and
    the output.
    """
    count = 2 + (difficulty > 1)
    rows = {name: draws.matrix(count, 2, 0, 2 + (difficulty > 2)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"}
