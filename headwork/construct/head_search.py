r"""Which weights heads over given positions can have: closed forms first, then a search; and which never.

Proofs that a target is out of reach hold for every choice of weights. Heads may read content and positions in
scores and in values; an error up to the tolerance epsilon is allowed on all contents of norm at most r.

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

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

from headwork.construct import certificate, fitting, position_codes
from headwork.construct.certificate import (
    UNIT_ROUNDOFF,
    ContentReadingHeads,
    ScoredHead,
    max_nonzeros,
    pair_sums,
)
from headwork.construct.position_codes import closed_form_projections
from headwork.construct.targets import Array, Head, Impossible, NotFound, Target, merge_by_sign
from headwork.errors import InputError

TOLERANCE = 1e-3


@dataclass(eq=False)
class HeadSearch:
    """What is asked of heads over some positions."""

    target: Target
    position_kind: str
    norm: float
    width: int
    code_width: int
    tolerance: float | None

    def __post_init__(self) -> None:
        self.codes = position_codes.position_codes(self.position_kind, self.target, self.code_width)
        if self.target.head_width is not None and self.position_kind not in ("one-hot", "none"):
            raise InputError(f"matrix: built over one-hot positions only, not {self.position_kind}.")
        self.matrix = self.target.matrix
        self.max_error = TOLERANCE if self.tolerance is None else self.tolerance
        self.basis = cache(self._basis)

    def strategies(self) -> Iterator[Callable[[], list[ScoredHead]]]:
        """Functions that find heads which give the target, the simplest first."""
        heads, merged = self.target.heads, merge_by_sign(self.target.heads)
        if self.position_kind == "none":
            mean = np.full(self.matrix.shape, 1.0 / self.target.tokens)
            heads = merged = (Head(float(self.matrix.sum(axis=1).mean()), mean),)
        elif self.too_narrow():
            yield from self._narrow_searches()
            return
        head_sets = [heads, merged] if len(merged) < len(heads) else [heads]
        if self.target.prefers_merged and self.position_kind == "one-hot":
            head_sets.reverse()
        yield from (partial(self._find_heads, one) for one in head_sets)
        if self.position_kind not in ("one-hot", "none"):
            if self.position_kind == "grid":
                yield lambda: self._find_heads(
                    [part for head in heads for part in self._split_grid_rows(head)]
                )
            yield from (partial(self._random_mixture, cutoff) for cutoff in fitting.CUTOFFS[:2])

    def _find_heads(self, heads: Sequence[Head]) -> list[ScoredHead]:
        scale = 2 * self.norm * sum(abs(head.coefficient) for head in heads)
        return [self._find_head(head, scale) for head in heads]

    def score(self, head: Head, W_q: Array, W_k: Array) -> ScoredHead:
        """The scores that these projections really give, in float64."""
        rows = self.codes[self.target.query_positions]
        query, key = rows @ W_q.T, self.codes @ W_k.T
        query_size, key_size = np.abs(rows) @ np.abs(W_q).T, np.abs(self.codes) @ np.abs(W_k).T
        rotation_terms = 0
        if self.position_kind == "rotary":
            query, key = position_codes.rotate(query, self.target.queries), position_codes.rotate(key, ())
            # A rotation mixes the two of a pair, and its angle, up to n radians, is itself rounded.
            query_size, key_size = pair_sums(query_size), pair_sums(key_size)
            rotation_terms = 16 * self.target.tokens
        error_terms = 2 * max_nonzeros(self.codes) + min(map(max_nonzeros, (query, key))) + 4 + rotation_terms
        size, zero_scores = query_size @ key_size.T, np.zeros(self.matrix.shape)
        gamma = 4 * error_terms * UNIT_ROUNDOFF
        return ScoredHead(head, query @ key.T, zero_scores, size, gamma, lambda beta: (W_q, W_k))

    def _find_head(self, head: Head, scale: float) -> ScoredHead:
        """The simplest projections whose weights survive rounding, or else those that lose least.

        ``scale`` is by how much an error of the weights changes the output.
        """
        if self.position_kind == "one-hot":  # every score is possible
            S, F = position_codes.target_scores(head)
            projections_at = partial(position_codes.one_hot_projections, self.target, S, F)
            return ScoredHead(head, S, F, np.abs(S), 28 * UNIT_ROUNDOFF, projections_at)
        log_scale = math.log(self.target.tokens * (2 + scale / self.max_error))  # about beta times the margin
        imprecise: list[tuple[float, int, ScoredHead]] = []
        for pair, sharpened_by_beta in self._candidates(head, min(0.4, self.max_error / (scale + 1e-300))):
            scored = self._scored(head, pair, sharpened_by_beta)
            if not pair[0].any():
                return scored
            margin = certificate.margin(scored.beta_scores, head.target_keys) if sharpened_by_beta else 1.0
            rounding = scored.gamma * float((scored.magnitude + scored.fixed_magnitude).max())
            if margin > 16 * rounding:
                if scale * (log_scale if sharpened_by_beta else 4) * rounding / margin < self.max_error / 4:
                    return scored
                imprecise.append((rounding / margin, len(imprecise), scored))
        if not imprecise:
            width = self.code_width if self.position_kind == "rotary" else self.codes.shape[1]
            raise NotFound(
                "a head for each tap or sign, by Newton's method on a convex loss: "
                f"no scores over {self.position_kind} positions of width {width} give its weights"
            )
        return min(imprecise)[2]

    def _scored(self, head: Head, pair: tuple[Array, Array], sharpened_by_beta: bool) -> ScoredHead:
        """Scores that beta sharpens, or that are meant as they are, whatever beta is."""
        scored, (W_q, W_k) = self.score(head, *pair), pair
        if sharpened_by_beta:
            return scored
        none, divided = np.zeros_like(scored.beta_scores), lambda beta: (W_q / beta, W_k)
        fixed: dict[str, Any] = {"fixed_scores": scored.beta_scores, "fixed_magnitude": scored.magnitude}
        return replace(scored, beta_scores=none, magnitude=none, projections_at=divided, **fixed)

    def _basis(self, cutoff: float) -> fitting.Basis | None:
        rows = self.target.query_positions
        if self.position_kind == "rotary":
            return fitting.rotary_score_basis(rows, self.target.tokens, self.code_width, cutoff)
        return fitting.code_score_basis(self.codes[rows], self.codes, cutoff)

    def _candidates(self, head: Head, accuracy: float) -> Iterator[tuple[tuple[Array, Array], bool]]:
        """Projections, and whether beta sharpens them: closed forms first, then what a search finds."""
        closed = closed_form_projections(self.position_kind, self.codes, self.target, head, self.code_width)
        yield from ((pair, True) for pair in closed)
        target_keys = head.target_keys
        for cutoff in fitting.CUTOFFS:
            if (basis := self.basis(cutoff)) is None:
                continue
            theta = fitting.fit(basis.features, head.weights, accuracy if target_keys is None else 4e-2)
            if theta is not None:
                scores = basis.features @ theta
                margin = 1.0 if target_keys is None else certificate.margin(scores, target_keys)
                yield basis.project(theta / margin), target_keys is not None

    def _split_grid_rows(self, head: Head) -> list[Head]:
        """T = sum_g T_g - (rows - 1) T_0, for one key per query of T: T_0 takes key 0 for every query.

        T_g has the rows of T in row g of the grid, and else those of T_0.
        """
        closed_form = closed_form_projections("grid", self.codes, self.target, head, self.code_width)
        if head.target_keys is None or any(closed_form):
            return [head]
        (rows, columns), count = self.target.grid or (1, 1), self.target.tokens
        all_to_first, row = np.eye(count)[[0] * count], np.arange(count)[:, None] // columns
        parts = [np.where(row == k, head.weights, all_to_first) for k in range(rows)]
        heads = [Head(head.coefficient, part) for part in parts]
        return [*heads, Head(head.coefficient * (1 - rows), all_to_first)]

    def _random_mixture(self, cutoff: float) -> list[ScoredHead]:
        """Random heads that add up to the target."""
        basis = self.basis(cutoff)
        excess = 0.0 if self.target.self_excess is None else np.diag(self.target.self_excess)
        mixed = fitting.sum_of_random_heads(basis.features, self.matrix + excess) if basis is not None else []
        if basis is None or not mixed:
            raise NotFound(f"sums of {fitting.RANDOM_HEADS} random heads that each take one key per query")
        heads = []
        for factor, theta, target_keys in mixed:
            pair = basis.project(theta / certificate.margin(basis.features @ theta, target_keys))
            heads.append(self._scored(Head(factor, np.eye(self.target.tokens)[target_keys]), pair, True))
        return heads

    # --- a head that is too narrow for its scores -----------------------------------------------

    def too_narrow(self) -> bool:
        return self.target.head_width is not None and self.rank() > self.target.head_width

    def rank(self) -> int:
        scores = np.add(*position_codes.target_scores(self.target.heads[0]))
        return position_codes.numerical_rank(position_codes.centred_factors(scores)[1])

    def _narrow_searches(self) -> Iterator[Callable[[], list[ScoredHead]]]:
        (head,), width, tokens = self.target.heads, self.target.head_width or 1, self.target.tokens
        rank = f"the row-centred scores have rank {self.rank()}; the head's width allows {width}: "
        yield lambda: [replace(self._find_head(head, 1.0), remark=f"{rank}reduced to it by truncated SVD")]
        if (
            head.target_keys is None
            or (pair := fitting.separated_keys(head.target_keys, tokens, width)) is None
        ):
            return
        W_q = np.zeros((width, tokens))
        W_q[:, self.target.query_positions] = pair[0].T
        remark = f"{rank}keys lie apart, on axes or on a circle, and each query points at its own"
        yield lambda: [replace(self.score(head, W_q, pair[1].T), remark=remark)]

    # --- the own content, which zero padding takes away -----------------------------------------

    def content_heads(self) -> list[ContentReadingHeads]:
        """Heads for what is too much of the own content: for all tokens at once, or for one each."""
        excess = self.target.self_excess
        if excess is None:
            return []
        try:
            return [self._read_content(excess, 1)]
        except NotFound:
            rows = np.flatnonzero(excess)
            own = np.arange(len(excess))
            return [self._read_content(np.where(own == i, excess, 0), len(rows)) for i in rows]

    def _read_content(self, amounts: Array, parts: int) -> ContentReadingHeads:
        """Two keys with values 1 and -1 at least, whose scores move apart with the query's content."""
        top, tokens, r = float(amounts.max()), self.target.tokens, self.norm
        shares, budget = amounts / top, self.max_error / (16 * parts)
        keys = [(0, 1, 2), (0, 1, 0), (0, 1, 1), (0, tokens - 1, 1)]
        for (positive, negative, idle), cutoff in product([k for k in keys if max(k) < tokens], (1e-6, 1e-2)):
            wanted, weights = np.zeros(tokens), np.zeros((tokens, tokens))
            wanted[[positive, negative]] = 1, -1
            value_projection = np.linalg.pinv(self.codes, rcond=cutoff) @ wanted
            value_projection /= np.abs(self.codes @ value_projection).max()
            values = self.codes @ value_projection
            for key, part in ((positive, shares / 2), (negative, shares / 2), (idle, 1 - shares)):
                weights[:, key] += part
            centred = values - (weights @ values)[:, None]
            k2, k3 = ((weights * centred**k).sum(axis=1) for k in (2, 3))
            largest, skew = float(k2[np.argmax(shares)]), float(np.abs(k3).max())
            if largest < 1e-3 or np.abs(k2 - shares * largest).max() > 1e-9 or not 1e-100 < r < 1e100:
                continue
            z = min(0.5, math.sqrt(3 * budget * largest / (2 * top * r)))
            z = z if skew < 1e-9 else min(z, budget * largest / (top * skew * r))
            slope, c = z / r, -top * r / (z * largest)
            size = abs(c) * math.sqrt(self.width)
            subtracts_mean = bool(size * np.abs(weights @ values).max() > budget / 4)
            rounding = 4 * max_nonzeros(self.codes) * UNIT_ROUNDOFF
            rounding *= float((np.abs(self.codes) @ np.abs(value_projection)).max())
            if size * rounding > budget:
                continue
            try:
                base = self._find_head(Head(c, weights), abs(c) * z if subtracts_mean else 4 * size)
            except NotFound:
                continue
            return ContentReadingHeads(
                base, value_projection, values, slope, self.width, subtracts_mean, rounding
            )
        raise NotFound(
            "heads that read their query's content, for zero padding: no two keys whose weights "
            f"the {self.position_kind} positions keep equal at the ends and nowhere else"
        )


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
                "exponentials over their sum, so they are positive. Two heads can do it: "
                "the positive part less the negative part, scaled by W_o."
            )
        raise Impossible(
            f"rows that do not sum to 1: row {i} sums to {A[i].sum():.6g}, but softmax divides by the sum of "
            "its row, so whatever the scores are each row sums to 1. "
            "Divide the row by its sum, or scale all rows alike by W_o."
        )
    weights = np.maximum(A, 0) / positive[:, None] if missed.max() > ROW_SUM_TOLERANCE else A
    return replace(target, heads=(replace(head, weights=weights),), requested=A)


def check_possible(search: HeadSearch, max_heads: int | None) -> None:
    """Raise the first proof that applies to this target over these positions."""
    M, count, position_kind = search.matrix, search.target.tokens, search.position_kind
    allowed = search.max_error / search.norm
    queries = search.target.query_positions
    sums, is_own = M.sum(axis=1), np.eye(count, dtype=bool)[queries]
    largest, smallest = (np.where(is_own, side, M) for side in (-np.inf, np.inf))
    spread = largest.max(axis=1) - smallest.min(axis=1) if count > 2 else 0.0 * sums
    low, high = int(np.argmin(sums)), int(np.argmax(sums))
    if position_kind == "none" and max(spread.max(), np.ptp(sums) / 2) > allowed:
        raise Impossible(
            "no positions: attention without positions commutes with every permutation: "
            "permute the tokens, and the outputs are permuted alike. This target tells positions apart, "
            "so such heads cannot do it. Give the tokens positions."
        )
    other_sums, share = np.where(is_own, 0.0, M).sum(axis=1), max(count - 1, 1) / count
    least = max(sums.max() - allowed, (other_sums.max() - allowed) / share)
    if (
        position_kind == "none"
        and count > 1
        and least > min(sums.min() + allowed, (other_sums.min() + allowed) / share)
    ):
        raise Impossible(
            "no positions: a token of content 0 has score 0 with every key, so the heads give it the plain "
            "mean of the values, with the factors that they also give to tokens that are all alike; "
            "this target asks for something else. Give the tokens positions."
        )
    if position_kind == "rotary" and np.ptp(sums) > 2 * allowed:
        raise Impossible(
            "rotary positions turn queries and keys, not values: give every token the same content, "
            "and each head returns the same row for every query. "
            f"Here row {queries[low]} sums to {sums[low]:g} and row {queries[high]} to {sums[high]:g}. "
            "Use positions that values can read (one-hot, sinusoidal, grid), or other ends."
        )
    both = (largest.max(axis=1) > allowed) & (smallest.min(axis=1) < -allowed)
    if max_heads == 1 and search.width >= (3 if position_kind == "rotary" else 2) and both.any():
        raise Impossible(
            f"negative weights in one head: output {queries[np.argmax(both)]} adds one token and subtracts "
            "another. Softmax weights are positive, and W_o scales all of a head alike. (Nor can its scores "
            "help: across the one direction of a key's content that they see, that content enters "
            "with its weight alone.) Allow two heads: one for each sign."
        )
