r"""Why some targets are out of reach of softmax attention: proofs that hold for every choice of weights.

Heads may read content and positions in scores and in values; an error up to the tolerance epsilon is allowed
on all contents of norm at most r. Each check raises ``Impossible`` with its proof, or says nothing.

- Weights of one head (``matrix``): positive, each row sums to 1. A row with positive part P and negative part
  N misses every such row by at least N + |P - 1| in the sum of absolute differences.
- No positions: exchange the contents r u and -r u of two other tokens j and k, and query i sees no
  difference: |M_ij - M_ik| r <= epsilon. Give all tokens one content x, and every row is C x with C = sum_h
  W_o W_v; give query i the content 0 and the others y, and its scores are 0, so its row is C y (n-1)/n. With
  c = u^T C u: |c - sum_j M_ij| r <= epsilon and |c (n-1)/n - sum_(j != i) M_ij| r <= epsilon, for all i.
- Rotary positions turn queries and keys, not values. All tokens of one content have one value, so all rows of
  the output are alike: the sums of two rows of M differ by at most 2 epsilon / r.
- One head, content of width 2 or more (3 with rotary positions, which turn keys j and k differently): for
  x_i = 0 the score of key j depends on x_j through one direction. Move x_j from -r w to r w with w orthogonal
  to it: no weight changes, and row i moves by 2 r A_ij C w. So A_ij w^T C w is within epsilon/r of M_ij, for
  all other j. A_ij > 0, so M_ij > epsilon / r and M_ik < -epsilon / r exclude each other.
"""

from dataclasses import replace

import numpy as np

from headwork.construct.head_search import HeadSearch
from headwork.construct.targets import Impossible, Target

ROW_SUM_TOLERANCE = 1e-9  # how far the sum of a typed row may miss 1 by rounding


def as_softmax_weights(target: Target, tolerance: float | None, norm: float) -> Target:
    """The target with rows that are weights; rows that miss this within the tolerance are rounded to some."""
    (head,) = target.heads
    A = head.weights
    positive, negative = np.maximum(A, 0).sum(axis=1), np.maximum(-A, 0)
    allowed = max(ROW_SUM_TOLERANCE, (tolerance or 0.0) / norm)
    missed = negative.sum(axis=1) + np.abs(positive - 1)
    if missed.max() > allowed:
        i = int(np.argmax(missed))
        if negative[i].any():
            j = int(np.argmax(negative[i]))
            raise Impossible(
                f"negative weights in one head: entry [{i},{j}] is {A[i, j]:g}, but softmax weights are "
                "exponentials over their sum, so they are positive. Two heads can do it: the positive part "
                "less the negative part, scaled by W_o."
            )
        raise Impossible(
            f"rows that do not sum to 1: row {i} sums to {A[i].sum():.6g}, but softmax divides by the sum of "
            "its row, so whatever the scores are each row sums to 1. Divide the row by its sum, or scale "
            "all rows alike by W_o."
        )
    weights = np.maximum(A, 0) / positive[:, None] if missed.max() > ROW_SUM_TOLERANCE else A
    return replace(target, heads=(replace(head, weights=weights),), requested=A)


def check(search: HeadSearch, max_heads: int | None) -> None:
    """Raise the first proof that applies to this target over these positions."""
    M, count, positions = search.matrix, search.target.tokens, search.positions
    allowed = search.max_error / search.norm
    queries = search.target.query_positions
    sums, own = M.sum(axis=1), np.eye(count, dtype=bool)[queries]
    largest, smallest = (np.where(own, side, M) for side in (-np.inf, np.inf))
    spread = largest.max(axis=1) - smallest.min(axis=1) if count > 2 else 0.0 * sums
    low, high = int(np.argmin(sums)), int(np.argmax(sums))
    if positions == "none" and max(spread.max(), np.ptp(sums) / 2) > allowed:
        raise Impossible(
            "no positions: attention without positions commutes with every permutation: permute the tokens, "
            "and the outputs are permuted alike. This target tells positions apart, so such heads cannot do "
            "it. Give the tokens positions."
        )
    rest, share = np.where(own, 0.0, M).sum(axis=1), max(count - 1, 1) / count
    least = max(sums.max() - allowed, (rest.max() - allowed) / share)
    if (
        positions == "none"
        and count > 1
        and least > min(sums.min() + allowed, (rest.min() + allowed) / share)
    ):
        raise Impossible(
            "no positions: a token of content 0 has score 0 with every key, so the heads give it the plain "
            "mean of the values, with the factors that they also give to tokens that are all alike; this "
            "target asks for something else. Give the tokens positions."
        )
    if positions == "rotary" and np.ptp(sums) > 2 * allowed:
        raise Impossible(
            "rotary positions turn queries and keys, not values: give every token the same content, and each "
            f"head returns the same row for every query. Here row {queries[low]} sums to {sums[low]:g} and "
            f"row {queries[high]} to {sums[high]:g}. Use positions that values can read (one-hot, "
            "sinusoidal, grid), or other ends."
        )
    both = (largest.max(axis=1) > allowed) & (smallest.min(axis=1) < -allowed)
    if max_heads == 1 and search.width >= (3 if positions == "rotary" else 2) and both.any():
        raise Impossible(
            f"negative weights in one head: output {queries[np.argmax(both)]} adds one token and subtracts "
            "another. Softmax weights are positive, and W_o scales all of a head alike. (Nor can its scores "
            "help: across the one direction of a key's content that they see, that content enters with its "
            "weight alone.) Allow two heads: one for each sign."
        )
