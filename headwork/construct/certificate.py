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

Heads that read their query's content (zero padding, see ``targets``) have weights a_j e^(z v_j) / sum, with
z = slope * x_id for dimension d of the content, and return c sum_j A_j v_j: c times the derivative of the
cumulant function of v under a, so c (k1 + k2 z + k3 z^2 / 2 + rest). For |v| <= 1 the fourth cumulant is at
most 2 in size, under any tilt, so |rest| <= |z|^3 / 3 (two keys with v = 1 and -1 give tanh z). c k2 slope is
then a weight of the token's own content in E; the others are added to the bound.

A key moved by delta changes one score of query i by s = beta q_i . delta, its weight from A to A e^s / (1 + A
(e^s - 1)), by at most tanh(|s|/4), and the output by that times |x_j - mean of the others| <= 2 r.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwork.construct.targets import Array, Head, Indices, NotFound
from headwork.numbers.operations import array_softmax

UNIT_ROUNDOFF = 2.0**-53
LARGEST_BETA = 2.0**40  # a larger beta loses every digit of the scores


@dataclass(frozen=True, eq=False)
class ScoredHead:
    """A head that the positions allow: logits beta * beta_scores + fixed_scores, by W_q and W_k of a beta."""

    head: Head
    beta_scores: Array
    fixed_scores: Array
    magnitude: Array  # |Q| |K|^T, by which rounding of beta_scores is measured
    gamma: float  # the rounding of a score, as a share of its magnitude
    projections_at: Callable[[float], tuple[Array, Array]]  # W_q and W_k over the codes
    fixed_magnitude: Array | float = 0.0  # magnitude of fixed_scores, where not their absolute value
    remark: str = ""

    def logits(self, beta: float) -> Array:
        return beta * self.beta_scores + self.fixed_scores

    def rounding(self, beta: float) -> Array:
        """By how much softmax rows can be off, one number per query."""
        off = self.gamma * (
            beta * self.magnitude + np.maximum(np.abs(self.fixed_scores), self.fixed_magnitude)
        ).max(axis=1)
        return np.asarray(np.expm1(np.minimum(2 * off, 1.0)))


@dataclass(frozen=True, eq=False)
class ContentReadingHeads:
    """Heads that read their query's content, one for each of ``width`` dimensions; base is without it."""

    base: ScoredHead  # its coefficient is c
    value_projection: Array  # what values read of a position code
    values: Array  # that is v, at most 1 in size
    slope: float
    width: int
    subtracts_mean: bool  # whether one more head takes c k1 away
    value_rounding: float

    def error_terms(self, norm: float, beta: float) -> tuple[Array, Array, Array]:
        """Per query: the weight of its own content, what is left over, and rounding."""
        weights, c, z = array_softmax(self.base.logits(beta)), self.base.head.coefficient, self.slope * norm
        mean = weights @ self.values
        centred = self.values - mean[:, None]
        k2, k3 = (weights * centred**2).sum(axis=1), (weights * centred**3).sum(axis=1)
        dimensions = math.sqrt(self.width)
        mean_size = 0.0 * mean if self.subtracts_mean else dimensions * np.abs(mean)
        rounding = self.base.rounding(beta) + 2 * (1 + z) * (self.value_rounding + 16 * UNIT_ROUNDOFF)
        rounding = (1 + self.subtracts_mean) * dimensions * rounding
        rest = mean_size + np.abs(k3) * z**2 / 2 + z**3 / 3
        return c * self.slope * k2, abs(c) * rest, abs(c) * rounding


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The proved bound, the part of it for rounding, and the row of E that attains it."""

    value: float
    rounding: float
    errors: Array


def bound(
    heads: Sequence[ScoredHead],
    M: Array,
    norm: float,
    beta: float,
    readers: Sequence[ContentReadingHeads] = (),
) -> ErrorBound:
    """r max_i sum_j |E_ij|, and what rounding and the content that is read in scores add."""
    E = np.sum([h.head.coefficient * array_softmax(h.logits(beta)) for h in heads], axis=0) - M
    scale = sum(abs(h.head.coefficient) for h in heads)
    rounding_terms = 4 * M.shape[1] + 2 * len(heads) + 32
    rounding = norm * np.sum([abs(h.head.coefficient) * h.rounding(beta) for h in heads], axis=0)
    rounding = rounding + norm * scale * rounding_terms * UNIT_ROUNDOFF
    remainders = np.zeros(len(E))
    for reader in readers:
        weight, remainder, rounded = reader.error_terms(norm, beta)
        E[np.diag_indices(len(E))] += weight
        remainders, rounding = remainders + remainder, rounding + rounded
        rounding += abs(reader.base.head.coefficient) * rounding_terms * reader.width * UNIT_ROUNDOFF
    rows = norm * np.abs(E).sum(axis=1) + remainders + rounding
    row = int(np.argmax(rows))
    return ErrorBound(float(rows[row]), float(rounding[row]), E[row])


def smallest_beta(bound_at: Callable[[float], ErrorBound], tolerance: float) -> float:
    """The beta from which on the bound holds, by doubling and bisection; always a beta at which it does."""
    if bound_at(0.0).value <= tolerance:
        return 0.0
    low, high = 0.0, 1.0
    while bound_at(high).value > tolerance:
        low, high = high, 2 * high
        if high > LARGEST_BETA:
            best = min((bound_at(2.0**k) for k in range(41)), key=lambda b: b.value)
            raise missed_tolerance(tolerance, best.value, best.rounding)
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if bound_at(middle).value <= tolerance:
            high = middle
        else:
            low = middle
    return high


class ToleranceTooSmall(NotFound):
    """The tolerance is below what float64 can hold here; names one that can be promised."""

    def __init__(self, tolerance: float, rounding: float, promised: float) -> None:
        super().__init__(
            "epsilon below what the number format can hold: float64 keeps 53 binary digits, and rounding "
            f"alone can change an output of this attention by {rounding:.1e}. "
            f"A tolerance of {tolerance:g} cannot be promised; {promised:.1e} can."
        )


def missed_tolerance(tolerance: float, bound: float, rounding: float) -> NotFound:
    """Why the tolerance was missed: by rounding, or by weights that do not come nearer."""
    if rounding < bound / 4:
        return NotFound(f"weights that miss by {bound:.3g} at best")
    return ToleranceTooSmall(tolerance, rounding, 2 * bound)


def worst_content(bound: ErrorBound, norm: float, width: int) -> Array:
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


def worst_key_shift(
    logits: Sequence[Array], lengths: Sequence[Array], scales: Sequence[float], beta: float, delta: float
) -> Perturbation:
    """Which key of which head, moved by delta along or against which query, changes an output most."""
    moves = []
    for number, (head, length, scale) in enumerate(zip(logits, lengths, scales, strict=True)):
        shift = beta * length[:, None] * delta
        odds = log_odds(head)
        change = np.maximum(*(np.abs(sigmoid(odds + sign * shift) - sigmoid(odds)) for sign in (1, -1)))
        i, j = np.unravel_index(int(np.argmax(change)), change.shape)
        most = scale * math.tanh(float(shift.max()) / 4)
        moves.append(Perturbation(delta, number, int(i), int(j), most, float(scale * change[i, j])))
    worst = max(reversed(moves), key=lambda move: move.change)
    return replace(worst, bound=max(move.bound for move in moves))


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def log_odds(logits: Array) -> Array:
    """ln A - ln(1 - A) for every weight, without losing what lies near 0 and 1."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    others = powers.sum(axis=1, keepdims=True) - powers
    top = np.arange(len(logits)), np.argmax(logits, axis=1)
    powers[top] = 0  # added up without the largest: one less it would be rounding
    others[top] = powers.sum(axis=1)
    return np.asarray(shifted - np.log(np.maximum(others, 1e-320)))


def pair_sums(size: Array) -> Array:
    """Both entries of each pair replaced by their sum."""
    return np.repeat(size[:, 0::2] + size[:, 1::2], 2, axis=1)


def max_nonzeros(rows: Array) -> int:
    """The most nonzero entries in a row."""
    return int(np.count_nonzero(rows, axis=1).max(initial=0))


def margin(scores: Array, target_keys: Indices | None) -> float:
    """By how much the target key leads, at the worst query."""
    if scores.shape[1] == 1:
        return math.inf
    rows = np.arange(len(scores))
    competitors = scores.copy()
    competitors[rows, target_keys] = -math.inf
    return float((scores[rows, target_keys] - competitors.max(axis=1)).min())
