r"""The certificate: how far the output can be from the target, proved, and then measured.

With content rows |x_j| <= r and weights A_h the error of output row i is sum_j E_ij x_j, E = sum_h c_h A_h -
M. So

    |error_i| <= r sum_j |E_ij|,    and x_j = r sign(E_ij) u with any unit vector u attains it.

The bound r max_i sum_j |E_ij| is therefore not only safe but exact, for any number of heads with any signs,
and the worst input comes with it. A head that spreads evenly over m of n keys, with scores 1 on them and 0
elsewhere, leaks p = (n - m) / (m e^beta + n - m), and its row of |E| sums to 2 p: the leak is missing inside
and appears outside. 2 r c p <= epsilon gives the smallest beta,

    beta = ln( (n - m)/m * (2 r c / epsilon - 1) ),

m = 1 for the identity and for permutations. In general the row sums are computed and beta is found by
bisection; for one head they fall as beta grows, so the result is the smallest. Signed heads can cancel, so
for several it is a beta that suffices, found from above.

Rounding is part of the bound: in float64 (unit u) a score made by dot products of k nonzero terms is off by
at most gamma |Q| |K|^T, gamma ~ k u; a softmax row whose scores are off by d is off by e^(2d) - 1 in sum;
sums of n terms add n u. An epsilon below that is refused.

A key moved by delta changes one score of query i by s = beta q_i . delta, its weight from A to A e^s / (1 + A
(e^s - 1)), by at most tanh(|s|/4), and the output by that times |x_j - mean of the others| <= 2 r.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwork.construct.targets import Array, Impossible, Indices

UNIT_ROUNDOFF = 2.0**-53
LARGEST_BETA = 2.0**40  # a larger beta loses every digit of the scores


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ScoredHead:
    """One head as the certificate sees it: logits beta S + F, their largest partial sums, and its factor."""

    coefficient: float
    S: Array
    F: Array
    size: Array  # |Q| |K|^T, what rounding of S is measured by
    gamma: float  # rounding of a score, as a share of its size

    def logits(self, beta: float) -> Array:
        return beta * self.S + self.F

    def rounding(self, beta: float) -> Array:
        """By how much softmax rows can be off, one number per query."""
        off = self.gamma * (beta * self.size + np.abs(self.F)).max(axis=1)
        return np.asarray(np.expm1(np.minimum(2 * off, 1.0)))


@dataclass(frozen=True, eq=False)
class Bound:
    """The proved bound, the part of it for rounding, and the row of E that attains it."""

    value: float
    rounding: float
    errors: Array


def bound(heads: Sequence[ScoredHead], M: Array, norm: float, beta: float) -> Bound:
    """r max_i sum_j |E_ij|, and what rounding adds."""
    E = np.sum([h.coefficient * softmax(h.logits(beta)) for h in heads], axis=0) - M
    scale = sum(abs(h.coefficient) for h in heads)
    sums = 4 * M.shape[1] + 2 * len(heads) + 32
    rounding = (
        np.sum([abs(h.coefficient) * h.rounding(beta) for h in heads], axis=0) + scale * sums * UNIT_ROUNDOFF
    )
    rows = norm * (np.abs(E).sum(axis=1) + rounding)
    row = int(np.argmax(rows))
    return Bound(float(rows[row]), float(norm * rounding[row]), E[row])


def smallest_beta(bound_at: Callable[[float], Bound], tolerance: float) -> float:
    """The beta from which on the bound holds, by doubling and bisection; always a beta at which it does."""
    if bound_at(0.0).value <= tolerance:
        return 0.0
    low, high = 0.0, 1.0
    while bound_at(high).value > tolerance:
        low, high = high, 2 * high
        if high > LARGEST_BETA:
            best = min((bound_at(2.0**k) for k in range(41)), key=lambda b: b.value)
            raise too_fine(tolerance, best.rounding, 2 * best.value)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if bound_at(middle).value <= tolerance:
            high = middle
        else:
            low = middle
    return high


def too_fine(tolerance: float, rounding: float, promised: float) -> Impossible:
    """The tolerance is below what float64 can hold here; names one that can be promised."""
    return Impossible(
        "epsilon below what the number format can hold: float64 keeps 53 binary digits, and rounding alone "
        f"can change an output of this attention by {rounding:.1e}. A tolerance of {tolerance:g} cannot be "
        f"promised; {promised:.1e} can."
    )


def worst_content(bound: Bound, norm: float, width: int) -> Array:
    """The content that attains the bound: r sign(E_ij) along one direction."""
    content = np.zeros((len(bound.errors), width))
    content[:, 0] = np.where(bound.errors >= 0, norm, -norm)
    return content


def random_contents(cases: int, tokens: int, width: int, norm: float, seed: int) -> Array:
    """Content rows spread over the ball of radius ``norm``."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(cases, tokens, width))
    rows /= np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-300)
    return np.asarray(rows * norm * random.uniform(size=(cases, tokens, 1)) ** (1 / width))


@dataclass(frozen=True)
class Perturbation:
    """The effect of moving one key by delta: the most over all inputs, and where it is largest here."""

    delta: float
    head: int
    query: int
    key: int
    bound: float  # 2 r |c| tanh(beta |q| delta / 4)
    change: float  # 2 r |c| |dA|, with the weights of this construction
    measured: float = 0.0


def worst_move(
    heads: Sequence[ScoredHead], lengths: Sequence[Array], norm: float, beta: float, delta: float
) -> Perturbation:
    """Which key of which head, moved by delta along or against which query, changes an output most."""
    moves = []
    for number, (head, length) in enumerate(zip(heads, lengths, strict=True)):
        moved = beta * length[:, None] * delta
        odds = log_odds(head.logits(beta))
        before = sigmoid(odds)
        change = np.maximum(np.abs(sigmoid(odds + moved) - before), np.abs(sigmoid(odds - moved) - before))
        i, j = np.unravel_index(int(np.argmax(change)), change.shape)
        scale = 2 * norm * abs(head.coefficient)
        most = scale * math.tanh(float(moved.max()) / 4)
        moves.append(Perturbation(delta, number, int(i), int(j), most, float(scale * change[i, j])))
    worst = max(reversed(moves), key=lambda move: move.change)
    return replace(worst, bound=max(move.bound for move in moves))


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def log_odds(logits: Array) -> Array:
    """ln A - ln(1 - A) for every weight, without losing what lies near 0 and 1."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    rows = np.arange(len(logits))
    top = np.argmax(logits, axis=1)
    others = powers.copy()
    others[rows, top] = 0
    rest = others.sum(axis=1, keepdims=True)
    sums = powers[rows, top][:, None] + rest - others
    sums[rows, top] = rest[:, 0]
    return np.asarray(shifted - np.log(np.maximum(sums, 1e-320)))


def pair_sums(size: Array) -> Array:
    """Both entries of each pair replaced by their sum."""
    return np.repeat(size[:, 0::2] + size[:, 1::2], 2, axis=1)


def most_terms(rows: Array) -> int:
    """The most nonzero entries in a row."""
    return int(np.count_nonzero(rows, axis=1).max(initial=0))


def margin(scores: Array, picks: Indices | None) -> float:
    """By how much the target key leads, at the worst query."""
    if scores.shape[1] == 1:
        return math.inf
    rows = np.arange(len(scores))
    others = scores.copy()
    others[rows, picks] = -math.inf
    return float((scores[rows, picks] - others.max(axis=1)).min())
