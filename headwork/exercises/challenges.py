"""Exercises with many right answers: matrices that make attention do something, and counter-examples.

Whatever works when it is run is right. Each challenge has fields to fill in and a verdict that runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.exercises.draws import Draws, matrix_text
from headwork.mechanisms import attention
from headwork.numbers import HandTensor
from headwork.readings.recording import recorder

Values = Mapping[str, Any]
Verdict = tuple[bool, str, str]  # whether it works, the cause where not, and what shows it
ANSWER = "answer"
CLOSE = 0.01  # how near the weights must come to the target
WIDEST = 64
SMALL, FELT = 0.1, 0.25  # a perturbation that is small, a change of a weight that is not
LARGE = 10.0
PHRASES = {
    "ASK": "Give queries, keys and beta so that the attention weights softmax(beta Q K^T) are the target to within "
    f"{CLOSE}.",
    "REFUTE": "This claim is false. Give a counter-example.",
    "SMALL": SMALL,
    "FELT": FELT,
    "LARGE": LARGE,
}


@dataclass(frozen=True)
class Challenge:
    """One such exercise. ``fields`` names what is to be given, with what it is."""

    slug: str
    question: str
    fields: Mapping[str, str]
    draw: Callable[[Draws], dict[str, Any]]
    verdict: Callable[[Values, Values], Verdict]


CHALLENGES: dict[str, Challenge] = {}
ROWS = {"query": "one row a query", "key": "one row a key, as wide as the queries"}
BUILT = {**ROWS, "beta": "a number, or oo"}


def _challenge(
    fields: Mapping[str, str], draw: Callable[[Draws], dict[str, Any]] = lambda draws: {}
) -> Callable[[Callable[[Values, Values], Verdict]], Any]:
    def register(verdict: Callable[[Values, Values], Verdict]) -> Callable[[Values, Values], Verdict]:
        slug = verdict.__name__.replace("_", "-")
        question = " ".join((verdict.__doc__ or "").split()).format(**PHRASES)
        CHALLENGES[slug] = Challenge(slug, question, fields, draw, verdict)
        return verdict

    return register


def _weights(query: Any, key: Any, beta: Any) -> Any:
    """The attention weights of what was given, sizes checked."""
    for name, rows in (("query", query), ("key", key)):
        if rows.ndim != 2 or max(rows.shape) > WIDEST:
            raise InputError(
                f"{name}: expected rows and columns, at most {WIDEST} of each. A single row is written [[1, 2]]."
            )
        if not np.isfinite(rows).all():
            raise InputError(f"{name}: only finite numbers; take beta = oo for hard attention.")
    if np.ndim(beta) != 0:
        raise InputError("beta: a single number is expected.")
    kept: dict[str, Any] = {}
    rows = HandTensor(np.eye(len(key)))
    attention(HandTensor(query), HandTensor(key), rows, beta=float(beta), note=recorder(kept))
    return kept["weights"].array


# --- build --------------------------------------------------------------------------------------------


def _built(given: Values, values: Values) -> Verdict:
    target = given["target"]
    if len(values["query"]) != target.shape[0] or len(values["key"]) != target.shape[1]:
        return False, "shape", f"{target.shape[0]} queries and {target.shape[1]} keys are needed"
    weights = _weights(values["query"], values["key"], values["beta"])
    off = np.abs(weights - target)
    if off.max() <= CLOSE:
        return True, "", f"it works: the weights are the target to within {off.max():.2g}"
    row = int(np.argmax(off.max(1)))
    told = f"row {row} of the weights comes out as {' '.join(f'{x:.3f}' for x in weights[row])}"
    if weights.shape == weights.T.shape and np.abs(weights.T - target).max() <= CLOSE:
        return False, "transposed", f"the weights come out transposed: rows are queries, columns keys; {told}"
    tall = target == target.max(1, keepdims=True)
    if np.array_equal(weights >= weights.max(1, keepdims=True) - 1e-9, tall):
        return (
            False,
            "not-sharp-enough",
            f"the right keys win, but not clearly enough (a larger beta, or oo, sharpens); {told}",
        )
    return False, "unknown", told


def _square(draws: Draws) -> int:
    return draws.integer(3, 5)


@_challenge(BUILT, lambda draws: {"target": matrix_text(np.eye(_square(draws), dtype=int).tolist())})
def construct_identity(given: Values, values: Values) -> Verdict:
    """Make attention the identity: every token takes its own value. {ASK}"""
    return _built(given, values)


def _turn(draws: Draws) -> dict[str, Any]:
    count = _square(draws)
    while True:
        order = draws.shuffled(range(count))
        matrix = np.eye(count, dtype=int)[order]
        # An order that is its own inverse cannot tell a matrix from its transpose.
        if not np.array_equal(matrix, matrix.T):
            return {"target": matrix_text(matrix.tolist())}


@_challenge(BUILT, _turn)
def construct_permutation(given: Values, values: Values) -> Verdict:
    """Make attention a permutation of the tokens. {ASK}"""
    return _built(given, values)


def _means(draws: Draws) -> dict[str, Any]:
    span, count = draws.integer(2, 3), draws.integer(2, 3)
    rows = [
        [f"1/{span}" if i <= j < i + span else "0" for j in range(count + span - 1)] for i in range(count)
    ]
    return {"target": matrix_text(rows)}


@_challenge(BUILT, _means)
def construct_running_mean(given: Values, values: Values) -> Verdict:
    """Make attention a running mean: each query takes the mean of neighbouring keys. {ASK}"""
    return _built(given, values)


@_challenge(
    BUILT, lambda draws: {"target": matrix_text([[1] + [0] * (n - 1)] * n) if (n := _square(draws)) else ""}
)
def construct_first_token(given: Values, values: Values) -> Verdict:
    """Make every token look at the first one only. {ASK}"""
    return _built(given, values)


# --- refute -------------------------------------------------------------------------------------------


@_challenge({**BUILT, "delta": "one row a key"})
def refute_small_perturbation(given: Values, values: Values) -> Verdict:
    """'A small perturbation of a key is harmless, whatever beta is.' {REFUTE} Delta has one row a key, each row at
    most {SMALL} long; some weight must change by at least {FELT}.
    """
    delta = values["delta"]
    if delta.shape != values["key"].shape:
        return False, "shape", "delta must have the shape of the keys"
    longest = float(np.sqrt((delta**2).sum(-1)).max())
    if longest > SMALL + 1e-9:
        return False, "not-small", f"a row of delta is {longest:.3g} long; at most {SMALL} counts as small"
    if np.isinf(values["beta"]):
        return False, "beta-not-finite", "beta must be a number here"
    change = np.abs(
        _weights(values["query"], values["key"] + delta, values["beta"])
        - _weights(values["query"], values["key"], values["beta"])
    )
    told = f"the largest change of a weight is {change.max():.3g}"
    return (
        (True, "", f"it works: {told}")
        if change.max() >= FELT
        else (False, "no-near-tie", f"{told}: take a near-tie and a larger beta")
    )


@_challenge({"tokens": "one row a token", "beta": "a number, or oo"})
def refute_own_token_wins(given: Values, values: Values) -> Verdict:
    """'In self-attention the own token always gets the largest weight.' {REFUTE} Take q = k = x, no projections."""
    weights = _weights(values["tokens"], values["tokens"], values["beta"])
    for row, own in enumerate(np.diag(weights)):
        if weights[row].max() > own + 1e-9:
            other = int(weights[row].argmax())
            return (
                True,
                "",
                f"it works: token {row} gives itself {own:.3f} and token {other} {weights[row, other]:.3f}",
            )
    return (
        False,
        "own-token-wins-here",
        "here every token gives itself the largest weight: let one token be a longer one in the same direction",
    )


@_challenge({"key": "one row a key", "value": "one row a key, as wide as the keys"})
def refute_mean_of_keys(given: Values, values: Values) -> Verdict:
    """'For beta -> 0 attention averages the keys.' {REFUTE} Keys and values of one shape, whose averages differ."""
    key, value = values["key"], values["value"]
    if key.shape != value.shape or key.ndim != 2:
        return False, "shape", "give keys and values as matrices of one shape"
    output = _weights(key, key, 0.0) @ value
    gap = np.abs(output - key.mean(0)).max()
    if gap > CLOSE:
        return (
            True,
            "",
            f"it works: the output is {_row(output[0])}, the mean of the keys {_row(key.mean(0))}",
        )
    return False, "means-agree", "here the mean of the values is that of the keys"


@_challenge({"matrix": "one 1 in every row and column, else 0"})
def refute_permutation_diagonal(given: Values, values: Values) -> Verdict:
    """'The matrix of a permutation has no 1 on its diagonal.' {REFUTE}"""
    matrix = values["matrix"]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not set(np.unique(matrix)) <= {0.0, 1.0}:
        return False, "no-permutation", "a permutation's matrix is square and holds only 0 and 1"
    if (matrix.sum(0) != 1).any() or (matrix.sum(1) != 1).any():
        return False, "no-permutation", "every row and every column must hold exactly one 1"
    place = np.argwhere(np.diag(matrix) == 1)
    if len(place):
        return True, "", f"it works: place {int(place[0, 0])} stays where it is"
    return False, "claim-holds-here", "this one has no 1 on its diagonal, so it does not refute the claim"


@_challenge({**BUILT, "delta": "one row a key"})
def refute_large_perturbation(given: Values, values: Values) -> Verdict:
    """'A large perturbation of a key makes that key dominate.' {REFUTE} Delta has one row a key; exactly one row is
    not zero, and it is at least {LARGE:g} long; that key must get less than half of some query's weight.
    """
    delta = values["delta"]
    if delta.shape != values["key"].shape or delta.ndim != 2:
        return False, "shape", "delta must have the shape of the keys"
    lengths = np.sqrt((delta**2).sum(-1))
    if (lengths > 0).sum() != 1 or lengths.max() < LARGE:
        return (
            False,
            "not-large",
            f"exactly one row of delta may differ from zero, and it must be at least {LARGE:g} long",
        )
    weights = _weights(values["query"], values["key"] + delta, values["beta"])[:, int(lengths.argmax())]
    if weights.min() < 0.5 - 1e-9:
        return (
            True,
            "",
            f"it works: query {int(weights.argmin())} gives the moved key only {weights.min():.3f}",
        )
    return (
        False,
        "claim-holds-here",
        "here the moved key does dominate: it must move against a query (q . delta < 0)",
    )


@_challenge({"query": "one column a token", "key": "one column a token"})
def refute_columns(given: Values, values: Values) -> Verdict:
    """'With one token a column, Q K^T compares the tokens.' {REFUTE} Give Q and K with one token a column, where the
    shape of Q K^T shows it.
    """
    query, key = values["query"], values["key"]
    if query.ndim != 2 or query.shape != key.shape:
        return False, "shape", "give Q and K as matrices of one shape, one column a token"
    width, count = query.shape
    if width == count:
        return (
            False,
            "square",
            f"{width} features and {count} tokens: a square cannot show which of them Q K^T compares",
        )
    return (
        True,
        "",
        f"it works: {count} tokens, but Q K^T is {width} x {width}: it compares features; K^T Q is {count} x {count}",
    )


def _row(values: Any) -> str:
    return " ".join(f"{x:.4g}" for x in values)
