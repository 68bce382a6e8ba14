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
from headwork.construct.targets import WORDS, Impossible, Target

REASONS = WORDS["impossible"]
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
            raise Impossible(REASONS["negative"].format(row=i, column=j, entry=A[i, j]))
        raise Impossible(REASONS["sums"].format(row=i, total=A[i].sum()))
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
        raise Impossible(REASONS["no_positions"])
    rest, share = np.where(own, 0.0, M).sum(axis=1), max(count - 1, 1) / count
    least = max(sums.max() - allowed, (rest.max() - allowed) / share)
    if (
        positions == "none"
        and count > 1
        and least > min(sums.min() + allowed, (rest.min() + allowed) / share)
    ):
        raise Impossible(REASONS["plain_mean"])
    if positions == "rotary" and np.ptp(sums) > 2 * allowed:
        rows = {"low": queries[low], "low_sum": sums[low], "high": queries[high], "high_sum": sums[high]}
        raise Impossible(REASONS["rotary"].format(**rows))
    both = (largest.max(axis=1) > allowed) & (smallest.min(axis=1) < -allowed)
    if max_heads == 1 and search.width >= (3 if positions == "rotary" else 2) and both.any():
        raise Impossible(REASONS["both_signs"].format(query=queries[np.argmax(both)]))
