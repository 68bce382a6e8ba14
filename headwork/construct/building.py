"""``headwork.build``: a target in, heads with a certificate out."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.construct import codes as position
from headwork.construct.certificate import (
    UNIT,
    Perturbation,
    Scored,
    bound,
    random_contents,
    smallest_beta,
    too_fine,
    worst_content,
    worst_move,
)
from headwork.construct.construction import Construction
from headwork.construct.copying import copy
from headwork.construct.targets import TARGETS, Goal, Head, Impossible, whole
from headwork.errors import InputError, unknown
from headwork.mechanisms import attention
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TOLERANCE = 1e-3
RANDOM_CELLS = 100_000  # random inputs are tried up to so many weights in all


def build(
    target: str,
    /,
    *,
    tolerance: float | None = None,
    positions: str = "one-hot",
    norm: float = 1.0,
    width: int = 2,
    heads: int | None = None,
    position_width: int | None = None,
    delta: float = 0.1,
    **details: Any,
) -> Construction:
    """Heads that do what is asked, with the proof of how well, or the reason why none can.

    ``details`` are the target's own: tokens, order, by, ends, window, causal, taps, kernel, grid, matrix, head_width.
    ``norm`` bounds the content rows, ``width`` is their width, ``heads`` the most that may be used.

    >>> swap = build("permutation", order="2 1", tolerance=0.1)
    >>> swap.beta_exact, round(swap.beta, 3), swap.holds
    ('ln(19)', 2.944, True)
    """
    name = target.replace("_", "-")
    tolerance = None if tolerance is None else _positive(tolerance, "tolerance")
    norm, delta = _positive(norm, "norm"), _positive(delta, "delta")
    if name == "copy":
        _check_details(name, copy, details)
        return copy(tolerance=TOLERANCE if tolerance is None else tolerance, **details)
    if name not in TARGETS:
        raise unknown("target", target, [*TARGETS, "copy"])
    _check_details(name, TARGETS[name], details)
    if name != "matrix":
        tolerance = TOLERANCE if tolerance is None else tolerance
    width = whole(width, "width", 1, 1024)
    try:
        goal = TARGETS[name](**details)
        plan = _Plan(goal, positions, norm, width, position_width, tolerance, heads)
        return plan.construction(delta)
    except Impossible as why:
        return Construction(False, name, reason=str(why), tolerance=tolerance, norm=norm)


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}. Expected a positive number.")
    return float(value)


def _check_details(name: str, function: Any, details: dict[str, Any]) -> None:
    known = [n for n in inspect.signature(function).parameters if n != "tolerance"]
    for given in details:
        if given not in known:
            raise unknown(f"input of {name}", given, known)


def arranged(goal: Goal, kind: str, most: int | None) -> tuple[Head, ...]:
    """Which heads are used: one for each tap, or, over one-hot positions, one for each sign."""
    free = kind == "one-hot"
    chosen = goal.joined if goal.spreads and free else goal.heads
    if not chosen:
        raise Impossible(
            f"a window that shrinks at the ends: with {kind} positions each head here takes one key a query and "
            "counts the same for every query, so the ends cannot weigh fewer tokens more. Use ends clamp, or one-hot "
            "positions."
        )
    if most is None or len(chosen) <= whole(most, "heads", 1, 512):
        return chosen
    if free and len(goal.joined) <= most:
        return goal.joined
    if free:
        raise Impossible(
            "negative weights in one head: softmax weights are positive, and W_o scales all of a head alike, so one "
            "head cannot add some tokens and subtract others. Allow two heads: one for each sign."
        )
    raise Impossible(
        f"a window that needs more heads: with {kind} positions each head here takes one key a query, so "
        f"{len(chosen)} taps need {len(chosen)} heads, and only {most} may be used. Allow more, or use one-hot "
        "positions, where taps of one sign can share a head."
    )


class _Plan:
    """One ask on its way: the codes, each head's scores, then beta, then the matrices."""

    def __init__(
        self,
        goal: Goal,
        kind: str,
        norm: float,
        width: int,
        position_width: int | None,
        tolerance: float | None,
        most: int | None,
    ) -> None:
        self.goal, self.kind, self.norm, self.width, self.tolerance = goal, kind, norm, width, tolerance
        self.code_width = (
            position.DEFAULT_WIDTH
            if position_width is None
            else whole(position_width, "position_width", 2, 1024)
        )
        self.codes = position.position_codes(kind, goal, self.code_width)
        if goal.head_width is not None and kind not in ("one-hot", "none"):
            raise InputError(f"matrix: built over one-hot positions only, not {kind}.")
        self.M = goal.matrix
        if kind == "none":
            position.check_without_positions(goal)
            count = goal.tokens
            self.heads: tuple[Head, ...] = (
                Head(float(self.M.sum(axis=1)[0]), np.full((count, count), 1.0 / count)),
            )
        else:
            self.heads = arranged(goal, kind, most)
        self.scored: list[Scored] = []
        self.fixed = [None if kind == "one-hot" else self._chosen(head) for head in self.heads]

    # --- scores ---------------------------------------------------------------------------------

    def _scored(self, head: Head, W_q: Array, W_k: Array) -> Scored:
        """The scores that these projections really give, in float64."""
        asking = self.codes[list(self.goal.places)] if self.goal.places else self.codes
        query, key = asking @ W_q.T, self.codes @ W_k.T
        sizes = np.abs(asking) @ np.abs(W_q).T, np.abs(self.codes) @ np.abs(W_k).T
        angles = 0
        if self.kind == "rotary":
            query, key = position.turned(query, self.goal.places), position.turned(key, ())
            # A turn mixes the two of a pair, and its angle, up to n radians, is itself rounded.
            sizes = tuple(_paired(size) for size in sizes)  # type: ignore[assignment]
            angles = 16 * self.goal.tokens
        terms = 2 * _most_terms(self.codes) + min(_most_terms(query), _most_terms(key)) + 4 + angles
        return Scored(
            head.coefficient, query @ key.T, np.zeros(self.M.shape), sizes[0] @ sizes[1].T, 4 * terms * UNIT
        )

    def _ideal(self, head: Head) -> Scored:
        """One-hot codes give every score exactly."""
        S, F = position.wanted_scores(head)
        return Scored(head.coefficient, S, F, np.abs(S), 28 * UNIT)

    def _chosen(self, head: Head) -> tuple[Array, Array]:
        """Of the projections within reach the plainest whose margin rounding leaves intact, else the least harmed."""
        options = (
            position.rotary_candidates(self.goal, head, self.code_width)
            if self.kind == "rotary"
            else position.candidates(self.kind, self.codes, self.goal, head)
        )
        tolerance = self.tolerance or TOLERANCE
        scale = 2 * self.norm * sum(abs(other.coefficient) for other in self.heads)
        hardness = math.log(self.goal.tokens * (2 + scale / tolerance))  # about beta times the margin
        harmed: list[tuple[float, int, tuple[Array, Array]]] = []
        for W_q, W_k in options:
            if not W_q.any():
                return W_q, W_k
            scored = self._scored(head, W_q, W_k)
            margin = _margin(scored.S, head.picks)
            lost = scored.gamma * float(scored.size.max())
            if margin > 16 * lost:
                if scale * hardness * lost / margin < tolerance / 4:
                    return W_q, W_k
                harmed.append((lost / margin, len(harmed), (W_q, W_k)))
        if not harmed:
            raise self._out_of_reach()
        return min(harmed)[2]

    def _out_of_reach(self) -> Impossible:
        if self.kind == "rotary":
            return Impossible(
                f"rotary positions of width {self.code_width}: the wanted key is not the one with the highest score "
                "for every query. Take a larger position width or a smaller shift, or use one-hot positions."
            )
        values = np.linalg.svd(self.codes, compute_uv=False)
        rank = int(np.sum(values > 1e-6 * values[0]))
        return Impossible(
            f"a rank too small: sinusoidal codes of width {self.code_width} for {self.goal.tokens} places have rank "
            f"{rank} to six digits, because the slow frequencies hardly differ; the linear map of least squares "
            "does not send every code nearest to its target's. A shift with clamped ends is a rotation and can be "
            "had; for this target use one-hot positions, or a larger position width."
        )

    # --- beta -----------------------------------------------------------------------------------

    def construction(self, delta: float) -> Construction:
        searching = [
            self._ideal(head) if fixed is None else self._scored(head, *fixed)
            for head, fixed in zip(self.heads, self.fixed, strict=True)
        ]
        shares = any(scored.F.any() for scored in searching)
        needs_beta = any(scored.S.any() for scored in searching)
        beta = 1.0
        if needs_beta or not shares:
            goal = TOLERANCE if self.tolerance is None else self.tolerance
            beta = smallest_beta(lambda b: bound(searching, self.M, self.norm, b), goal)
            beta = max(beta, 1.0) if shares else beta
        result = self._at(beta)
        for step in range(36):  # the matrices are rounded where the search was not: give beta what that costs
            if self.tolerance is None or result.bound <= self.tolerance or self._cut_short(beta):
                break
            beta *= 1 + 2.0 ** (step - 50)
            result = self._at(beta)
        if self.tolerance is not None and result.bound > self.tolerance:
            raise self._missed(result)
        return self._measured(result, delta)

    def _cut_short(self, beta: float) -> bool:
        """Whether the head is too narrow for the rank of its scores."""
        return self.goal.head_width is not None and self._rank(beta) > self.goal.head_width

    def _rank(self, beta: float) -> int:
        return position.rank_of(position.centred_factors(_over(self.heads[0], beta))[1])

    def _missed(self, result: Construction) -> Impossible:
        if self._cut_short(result.beta):
            return Impossible(
                f"a rank too small: the row-centred scores of these weights have rank {self._rank(result.beta)}, and "
                f"a head of width {self.goal.head_width} gives at most rank {self.goal.head_width}. The nearest of "
                f"that rank (truncated SVD) misses by {result.bound:.3g}, more than {self.tolerance:g}. Allow a wider "
                "head or a larger tolerance."
            )
        return too_fine(self.tolerance or 0.0, result.bound, 2 * result.bound)

    def _projections(self, beta: float) -> list[tuple[Array, Array]]:
        return [
            position.one_hot_projections(self.goal, _over(head, beta)) if fixed is None else fixed
            for head, fixed in zip(self.heads, self.fixed, strict=True)
        ]

    def _at(self, beta: float) -> Construction:
        """The matrices for this beta, and the bound of what they really do."""
        pairs = self._projections(beta)
        self.scored = [self._scored(head, *pair) for head, pair in zip(self.heads, pairs, strict=True)]
        found = bound(self.scored, self.M, self.norm, beta)
        content = np.zeros((max(W.shape[0] for W, _ in pairs), self.width))
        none = np.zeros((self.width, self.codes.shape[1]))
        exact, why = self._why(beta)
        return Construction(
            True,
            self.goal.words,
            self.goal.tokens,
            W_q=[np.hstack([content[: len(W)], W]) for W, _ in pairs],
            W_k=[np.hstack([content[: len(W)], W]) for _, W in pairs],
            W_v=[np.hstack([np.eye(self.width), none]) for _ in pairs],
            W_o=[head.coefficient * np.eye(self.width) for head in self.heads],
            positions=self.codes,
            beta=beta,
            beta_exact=exact,
            beta_why=why,
            norm=self.norm,
            tolerance=self.tolerance,
            bound=found.value,
            rounding=found.rounding,
            worst_input=worst_content(found, self.norm, self.width),
            matrix=self.M,
            places=self.goal.places,
            rotary=self.kind == "rotary",
            remarks=tuple(self._remarks(beta)),
        )

    def _why(self, beta: float) -> tuple[str, str]:
        """beta in closed form where there is one, and why it is the smallest."""
        if len(self.heads) > 1:
            return (
                "",
                "found by bisection from above; signed heads can cancel, so a smaller one is not ruled out",
            )
        S, F = position.wanted_scores(self.heads[0])
        if not S.any():
            return "", "the scores need no sharpening"
        if self.kind != "one-hot" or self.tolerance is None or F.any():
            return "", "the smallest for these matrices: the error of one head falls with beta"
        count = self.goal.tokens
        least = int(S.sum(axis=1).min())
        exact = Fraction(count - least, least) * (
            2
            * Fraction(str(self.norm))
            * abs(Fraction(str(self.heads[0].coefficient)))
            / Fraction(str(self.tolerance))
            - 1
        )
        closed = (
            f"ln({exact})" if exact > 1 and len(str(exact)) < 40 and beta > 1 else "0" if beta == 0 else ""
        )
        return closed, "the smallest: 2 r p <= tolerance with the leak p = (n-m)/(m e^beta + n - m)"

    def _remarks(self, beta: float) -> list[str]:
        said = []
        if self.goal.head_width is not None and self.kind == "one-hot":
            rank, room = self._rank(beta), self.goal.head_width
            exact = f"exact but for rounding{' and the zeros' if np.any(self.M == 0) else ''}"
            kept = (
                exact
                if rank <= room
                else f"cut to rank {room} by truncated SVD, with the error that is measured"
            )
            said.append(f"the row-centred scores have rank {rank}; the head's width allows {room}: {kept}")
        if np.any(self.M == 0) and position.wanted_scores(self.heads[0])[0].any():
            close = (
                f", here to {TOLERANCE:g}, because no tolerance was given" if self.tolerance is None else ""
            )
            said.append(f"exact zeros need beta = oo or a mask: softmax alone only comes close{close}")
        if self.kind == "rotary":
            said.append(
                "queries and keys are made from a constant 1 behind the content and turned by their places"
            )
        return said

    # --- measuring ------------------------------------------------------------------------------

    def _measured(self, result: Construction, delta: float) -> Construction:
        count, queries = self.goal.tokens, len(self.M)
        cases = max(4, min(200, RANDOM_CELLS // max(1, count * queries * result.heads)))
        contents = random_contents(cases, count, self.width, self.norm, seed=0)
        return replace(
            result,
            measured=result.error(result.worst_input),
            measured_random=result.error(contents),
            random_inputs=cases,
            perturbation=self._moved(result, delta),
        )

    def _moved(self, result: Construction, delta: float) -> Perturbation:
        """The worst move of one key, and what it really does through our attention."""
        tokens = result.input(result.worst_input)
        projected = [result.projected(tokens, head) for head in range(result.heads)]
        lengths = [np.linalg.norm(query.array, axis=1) for query, _, _ in projected]
        move = worst_move(self.scored, lengths, self.norm, result.beta, delta)
        query, key, _ = projected[move.head]
        query = query[move.query : move.query + 1]
        length = lengths[move.head][move.query]
        if length == 0:
            return move
        values = np.full((self.goal.tokens, 1), -self.norm)
        values[move.key] = self.norm
        before = attention(query, key, HandTensor(values), beta=result.beta).array
        changes = []
        for sign in (1, -1):
            moved = key.array.copy()
            moved[move.key] += sign * delta * query.array[0] / length
            after = attention(query, HandTensor(moved), HandTensor(values), beta=result.beta).array
            changes.append(float(np.abs(after - before).max()) * abs(self.heads[move.head].coefficient))
        return replace(move, measured=max(changes))


def _over(head: Head, beta: float) -> Array:
    S, F = position.wanted_scores(head)
    return S + F / beta if F.any() else S


def _paired(size: Array) -> Array:
    both = size[:, 0::2] + size[:, 1::2]
    return np.repeat(both, 2, axis=1)


def _most_terms(rows: Array) -> int:
    return int(np.count_nonzero(rows, axis=1).max(initial=0))


def _margin(scores: Array, picks: Any) -> float:
    """By how much the wanted key leads, at the worst query."""
    if scores.shape[1] == 1:
        return math.inf
    rows = np.arange(len(scores))
    others = scores.copy()
    others[rows, picks] = -math.inf
    return float((scores[rows, picks] - others.max(axis=1)).min())
