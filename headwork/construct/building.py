"""``headwork.build``: a target in, heads with a certificate out."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from headwork.construct import certificate
from headwork.construct import position_codes as codes
from headwork.construct.certificate import UNIT_ROUNDOFF, ScoredHead, most_terms, pair_sums
from headwork.construct.construction import Construction
from headwork.construct.copying import copy
from headwork.construct.targets import TARGETS, Array, Goal, Head, Impossible, whole_number
from headwork.errors import InputError, unknown
from headwork.mechanisms import attention
from headwork.numbers import HandTensor

TOLERANCE = 1e-3
RANDOM_CELLS = 100_000  # the most attention weights over all random inputs


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
    """Heads for a target, with the proof of how well they do, or the reason why none can.

    ``details`` are the target's own: tokens, order, by, ends, window, causal, taps, kernel, grid, matrix,
    head_width. ``norm`` bounds the content rows, ``width`` is their width, ``heads`` the most that may be
    used.

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
    width = whole_number(width, "width", 1, 1024)
    try:
        goal = TARGETS[name](**details)
        code_width = codes.DEFAULT_WIDTH if position_width is None else position_width
        code_width = whole_number(code_width, "position_width", 2, 1024)
        return _Plan(goal, positions, norm, width, code_width, tolerance, heads).construct(delta)
    except Impossible as reason:
        return Construction(False, name, reason=str(reason), tolerance=tolerance, norm=norm)


def target_list() -> str:
    """Every target with its inputs.

    >>> print(target_list().splitlines()[0])
    identity        Every token keeps its own content: y_i = x_i. [tokens, grid]
    """
    functions: dict[str, Any] = {**TARGETS, "copy": copy}
    return "\n".join(
        f"{name:<15} {(inspect.getdoc(function) or '').splitlines()[0]} [{', '.join(_inputs(function))}]"
        for name, function in functions.items()
    )


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}. Expected a positive number.")
    return float(value)


def _inputs(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "tolerance"]


def _check_details(target: str, function: Any, details: dict[str, Any]) -> None:
    for name in details:
        if name not in _inputs(function):
            raise unknown(f"input of {target}", name, _inputs(function))


def choose_heads(goal: Goal, kind: str, most: int | None) -> tuple[Head, ...]:
    """One head for each tap, or, over one-hot positions, one for each sign."""
    free = kind == "one-hot"
    chosen = goal.joined if goal.spreads and free else goal.heads
    if not chosen:
        raise Impossible(
            f"a window that shrinks at the ends: with {kind} positions each head here takes one key per "
            "query and counts the same for every query, so the ends cannot weigh fewer tokens more. Use "
            "ends clamp, or one-hot positions."
        )
    if most is None or len(chosen) <= whole_number(most, "heads", 1, 512):
        return chosen
    if free and len(goal.joined) <= most:
        return goal.joined
    if free:
        raise Impossible(
            "negative weights in one head: softmax weights are positive, and W_o scales all of a head "
            "alike, so one head cannot add some tokens and subtract others. Allow two heads: one for each "
            "sign."
        )
    raise Impossible(
        f"a window that needs more heads: with {kind} positions each head here takes one key per query, so "
        f"{len(chosen)} taps need {len(chosen)} heads, and only {most} may be used. Allow more, or use "
        "one-hot positions, where taps of one sign can share a head."
    )


@dataclass(eq=False)
class _Plan:
    """The steps from a goal to heads: the codes, each head's scores, then beta, then the matrices."""

    goal: Goal
    kind: str
    norm: float
    width: int
    code_width: int
    tolerance: float | None
    most: int | None

    def __post_init__(self) -> None:
        goal, kind = self.goal, self.kind
        self.codes = codes.position_codes(kind, goal, self.code_width)
        if goal.head_width is not None and kind not in ("one-hot", "none"):
            raise InputError(f"matrix: built over one-hot positions only, not {kind}.")
        self.M = goal.matrix
        if kind == "none":
            codes.check_without_positions(goal)
            mean = np.full((goal.tokens, goal.tokens), 1.0 / goal.tokens)
            self.heads: tuple[Head, ...] = (Head(float(self.M.sum(axis=1)[0]), mean),)
        else:
            self.heads = choose_heads(goal, kind, self.most)
        self.scored: list[ScoredHead] = []
        self.fixed = [None if kind == "one-hot" else self._choose(head) for head in self.heads]

    # --- scores ---------------------------------------------------------------------------------

    def _score(self, head: Head, W_q: Array, W_k: Array) -> ScoredHead:
        """The scores that these projections really give, in float64."""
        rows = self.goal.query_rows(self.codes)
        query, key = rows @ W_q.T, self.codes @ W_k.T
        query_size, key_size = np.abs(rows) @ np.abs(W_q).T, np.abs(self.codes) @ np.abs(W_k).T
        angles = 0
        if self.kind == "rotary":
            query, key = codes.rotate(query, self.goal.queries), codes.rotate(key, ())
            # A rotation mixes the two of a pair, and its angle, up to n radians, is itself rounded.
            query_size, key_size = pair_sums(query_size), pair_sums(key_size)
            angles = 16 * self.goal.tokens
        terms = 2 * most_terms(self.codes) + min(most_terms(query), most_terms(key)) + 4 + angles
        size, no_shares = query_size @ key_size.T, np.zeros(self.M.shape)
        return ScoredHead(head.coefficient, query @ key.T, no_shares, size, 4 * terms * UNIT_ROUNDOFF)

    def _ideal(self, head: Head) -> ScoredHead:
        """One-hot codes give every score exactly."""
        S, F = codes.target_scores(head)
        return ScoredHead(head.coefficient, S, F, np.abs(S), 28 * UNIT_ROUNDOFF)

    def _choose(self, head: Head) -> tuple[Array, Array]:
        """The simplest projections whose margin survives rounding, or else those that lose least."""
        options = (
            codes.rotary_candidates(self.goal, head, self.code_width)
            if self.kind == "rotary"
            else codes.candidates(self.kind, self.codes, self.goal, head)
        )
        tolerance = self.tolerance or TOLERANCE
        scale = 2 * self.norm * sum(abs(other.coefficient) for other in self.heads)
        hardness = math.log(self.goal.tokens * (2 + scale / tolerance))  # about beta times the margin
        worse: list[tuple[float, int, tuple[Array, Array]]] = []
        for W_q, W_k in options:
            if not W_q.any():
                return W_q, W_k
            scored = self._score(head, W_q, W_k)
            lead = certificate.margin(scored.S, head.picks)
            lost = scored.gamma * float(scored.size.max())
            if lead > 16 * lost:
                if scale * hardness * lost / lead < tolerance / 4:
                    return W_q, W_k
                worse.append((lost / lead, len(worse), (W_q, W_k)))
        if not worse:
            raise self._out_of_reach()
        return min(worse)[2]

    def _out_of_reach(self) -> Impossible:
        if self.kind == "rotary":
            return Impossible(
                f"rotary positions of width {self.code_width}: the target key does not have the highest "
                "score for every query. Take a larger position width or a smaller shift, or use one-hot "
                "positions."
            )
        values = np.linalg.svd(self.codes, compute_uv=False)
        rank = int(np.sum(values > 1e-6 * values[0]))
        return Impossible(
            f"a rank too small: sinusoidal codes of width {self.code_width} for {self.goal.tokens} "
            f"positions have rank {rank} to six digits, because the slow frequencies hardly differ; the "
            "least-squares map does not send every code nearest to its target's. A shift with clamped ends "
            "is a rotation and works; for this target use one-hot positions, or a larger position width."
        )

    # --- beta -----------------------------------------------------------------------------------

    def construct(self, delta: float) -> Construction:
        ideal = [
            self._ideal(head) if fixed is None else self._score(head, *fixed)
            for head, fixed in zip(self.heads, self.fixed, strict=True)
        ]
        shares = any(scored.F.any() for scored in ideal)
        needs_beta = any(scored.S.any() for scored in ideal)
        beta = 1.0
        if needs_beta or not shares:
            goal = TOLERANCE if self.tolerance is None else self.tolerance
            beta = certificate.smallest_beta(lambda b: certificate.bound(ideal, self.M, self.norm, b), goal)
            beta = max(beta, 1.0) if shares else beta
        result = self._at(beta)
        for step in range(36):  # the matrices are rounded where the search was not: give beta what that costs
            if self.tolerance is None or result.bound <= self.tolerance or self._too_narrow(beta):
                break
            beta *= 1 + 2.0 ** (step - 50)
            result = self._at(beta)
        if self.tolerance is not None and result.bound > self.tolerance:
            raise self._out_of_tolerance(result)
        cells = self.M.size * result.heads
        cases = max(4, min(200, RANDOM_CELLS // cells))
        contents = certificate.random_contents(cases, self.goal.tokens, self.width, self.norm, seed=0)
        return replace(
            result,
            measured=result.error(result.worst_input),
            measured_random=result.error(contents),
            random_inputs=cases,
            perturbation=self._perturb(result, delta),
        )

    def _too_narrow(self, beta: float) -> bool:
        """Whether the head is too narrow for the rank of its scores."""
        return self.goal.head_width is not None and self._rank(beta) > self.goal.head_width

    def _rank(self, beta: float) -> int:
        return codes.numerical_rank(codes.centred_factors(_scores_at(self.heads[0], beta))[1])

    def _out_of_tolerance(self, result: Construction) -> Impossible:
        if self._too_narrow(result.beta):
            return Impossible(
                "a rank too small: the row-centred scores of these weights have rank "
                f"{self._rank(result.beta)}, and a head of width {self.goal.head_width} gives at most rank "
                f"{self.goal.head_width}. The nearest of that rank (truncated SVD) misses by "
                f"{result.bound:.3g}, more than {self.tolerance:g}. Allow a wider head or a larger "
                "tolerance."
            )
        return certificate.too_fine(self.tolerance or 0.0, result.bound, 2 * result.bound)

    def _at(self, beta: float) -> Construction:
        """The matrices for this beta, and the bound on what they really do."""
        pairs = [
            codes.one_hot_projections(self.goal, _scores_at(head, beta)) if fixed is None else fixed
            for head, fixed in zip(self.heads, self.fixed, strict=True)
        ]
        self.scored = [self._score(head, *pair) for head, pair in zip(self.heads, pairs, strict=True)]
        proved = certificate.bound(self.scored, self.M, self.norm, beta)
        content = np.zeros((max(W.shape[0] for W, _ in pairs), self.width))
        none = np.zeros((self.width, self.codes.shape[1]))
        exact, why = self._why(beta)
        return Construction(
            True,
            self.goal.title,
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
            bound=proved.value,
            rounding=proved.rounding,
            worst_input=certificate.worst_content(proved, self.norm, self.width),
            matrix=self.M,
            queries=self.goal.queries,
            rotary=self.kind == "rotary",
            remarks=tuple(self._remarks(beta)),
        )

    def _why(self, beta: float) -> tuple[str, str]:
        """beta in closed form where there is one, and why it is the smallest."""
        if len(self.heads) > 1:
            why = "found by bisection from above; signed heads can cancel, so a smaller one is not ruled out"
            return "", why
        S, F = codes.target_scores(self.heads[0])
        if not S.any():
            return "", "the scores need no sharpening"
        if self.kind != "one-hot" or self.tolerance is None or F.any():
            return "", "the smallest for these matrices: the error of one head falls as beta grows"
        norm, scale, tolerance = (
            Fraction(str(x)) for x in (self.norm, abs(self.heads[0].coefficient), self.tolerance)
        )
        fewest = int(S.sum(axis=1).min())
        exact = Fraction(self.goal.tokens - fewest, fewest) * (2 * norm * scale / tolerance - 1)
        closed = "0" if beta == 0 else ""
        if exact > 1 and len(str(exact)) < 40 and beta > 1:
            closed = f"ln({exact})"
        return closed, "the smallest: 2 r p <= tolerance with the leak p = (n-m)/(m e^beta + n - m)"

    def _remarks(self, beta: float) -> list[str]:
        remarks = []
        if self.goal.head_width is not None and self.kind == "one-hot":
            rank, room = self._rank(beta), self.goal.head_width
            effect = f"reduced to rank {room} by truncated SVD, with the measured error"
            if rank <= room:
                effect = f"exact except for rounding{' and the zeros' if np.any(self.M == 0) else ''}"
            remarks.append(
                f"the row-centred scores have rank {rank}; the head's width allows {room}: {effect}"
            )
        if np.any(self.M == 0) and codes.target_scores(self.heads[0])[0].any():
            default = f", here to {TOLERANCE:g}, the default" if self.tolerance is None else ""
            remarks.append(
                f"exact zeros need beta = ∞ or a mask: softmax alone only approaches them{default}"
            )
        if self.kind == "rotary":
            remarks.append(
                "queries and keys are made from a constant 1 after the content and rotated by their positions"
            )
        return remarks

    def _perturb(self, result: Construction, delta: float) -> certificate.Perturbation:
        """The worst move of one key, and its measured effect through our attention."""
        tokens = result.input(result.worst_input)
        projected = [result.project(tokens, head) for head in range(result.heads)]
        lengths = [np.linalg.norm(query.array, axis=1) for query, _, _ in projected]
        move = certificate.worst_move(self.scored, lengths, self.norm, result.beta, delta)
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


def _scores_at(head: Head, beta: float) -> Array:
    S, F = codes.target_scores(head)
    return S + F / beta if F.any() else S
