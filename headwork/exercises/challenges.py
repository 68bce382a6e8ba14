"""Exercises with many right answers: matrices that make attention do something, and counter-examples.

Any answer that works when it is run is right. A challenge has fields to fill in and a verdict that runs them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from headwork.errors import InputError
from headwork.exercises.seeded_random import SeededRandom, matrix_text
from headwork.files import load_package_toml
from headwork.mechanisms import attention
from headwork.numbers import HandTensor

ANSWER = "answer"
TOLERANCE = 0.01  # between the weights and the target
MAX_SIZE = 64
SMALL, LARGE = 0.1, 10.0  # lengths of a perturbation
NOTICEABLE = 0.25  # change of a weight


class Verdict(NamedTuple):
    """Whether an answer works, what shows it, and the cause where it does not."""

    works: bool
    evidence: str
    cause: str = ""


def _works(evidence: str) -> Verdict:
    return Verdict(True, f"it works: {evidence}")


def _fails(cause: str, evidence: str) -> Verdict:
    return Verdict(False, evidence, cause)


NamedArrays = Mapping[str, Any]


@dataclass(frozen=True)
class Challenge:
    """One such exercise. ``fields`` names what is to be filled in, with a description."""

    slug: str
    question: str
    fields: Mapping[str, str]

    def draw(self, random: SeededRandom) -> dict[str, Any]:
        """The inputs: the weights to be reached, where there are some."""
        target = TARGETS.get(self.slug)
        return {"target": matrix_text(target(random))} if target else {}

    def verdict(self, inputs: NamedArrays, answer: NamedArrays) -> Verdict:
        """Run an answer; ``inputs`` are those of the exercise."""
        judge = _reaches_target if self.slug in TARGETS else globals()[self.slug.replace("-", "_")]
        verdict: Verdict = judge(inputs, answer)
        return verdict


LIMITS = {"TOLERANCE": TOLERANCE, "SMALL": SMALL, "LARGE": LARGE, "NOTICEABLE": NOTICEABLE}
CHALLENGES = {
    slug: Challenge(slug, " ".join(entry["question"].split()).format(**LIMITS), entry["fields"])
    for slug, entry in load_package_toml(__file__, "challenges.toml").items()
}


def _weights(query: Any, key: Any, beta: Any) -> Any:
    """The attention weights of an answer, sizes checked."""
    for name, rows in (("query", query), ("key", key)):
        if rows.ndim != 2 or max(rows.shape) > MAX_SIZE:
            raise InputError(f"{name}: expected rows and columns, at most {MAX_SIZE} of each.")
        if not np.isfinite(rows).all():
            raise InputError(f"{name}: only finite numbers; take beta = oo for hard attention.")
    if np.ndim(beta) != 0 or beta == -np.inf:
        raise InputError("beta: a single number is expected, or oo.")
    identity = HandTensor(np.eye(len(key)))  # with these values the output is the weights
    return attention(HandTensor(query), HandTensor(key), identity, beta=float(beta)).array


# --- build --------------------------------------------------------------------------------------------
def _reaches_target(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    target = inputs["target"]
    if len(answer["query"]) != target.shape[0] or len(answer["key"]) != target.shape[1]:
        return _fails("shape", f"{target.shape[0]} queries and {target.shape[1]} keys are needed")
    weights = _weights(answer["query"], answer["key"], answer["beta"])
    error = np.abs(weights - target)
    if error.max() <= TOLERANCE:
        return _works(f"the weights are the target to within {error.max():.2g}")
    row = int(np.argmax(error.max(1)))
    result = f"row {row} of the weights comes out as {' '.join(f'{x:.3f}' for x in weights[row])}"
    if weights.shape == weights.T.shape and np.abs(weights.T - target).max() <= TOLERANCE:
        return _fails(
            "transposed", f"the weights come out transposed: rows are queries, columns keys; {result}"
        )
    largest = target == target.max(1, keepdims=True)
    if np.array_equal(weights >= weights.max(1, keepdims=True) - 1e-9, largest):
        hint = "the right keys have the largest weights, but not by enough (a larger beta, or oo, sharpens)"
        return _fails("not-sharp-enough", f"{hint}; {result}")
    return _fails("unknown", result)


def _identity(random: SeededRandom) -> Any:
    return np.eye(random.integer(3, 5), dtype=int).tolist()


def _permutation(random: SeededRandom) -> Any:
    count = random.integer(3, 5)
    while True:
        matrix = np.eye(count, dtype=int)[random.shuffled(range(count))]
        # An order that is its own inverse cannot tell a matrix from its transpose.
        if not np.array_equal(matrix, matrix.T):
            return matrix.tolist()


def _running_mean(random: SeededRandom) -> Any:
    span, count = random.integer(2, 3), random.integer(2, 3)
    keys = range(count + span - 1)
    return [[f"1/{span}" if i <= j < i + span else "0" for j in keys] for i in range(count)]


def _first_token(random: SeededRandom) -> Any:
    count = random.integer(3, 5)
    return [[1] + [0] * (count - 1)] * count


TARGETS = {
    "construct-identity": _identity,
    "construct-permutation": _permutation,
    "construct-running-mean": _running_mean,
    "construct-first-token": _first_token,
}


# --- refute -------------------------------------------------------------------------------------------
def refute_small_perturbation(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    query, key, beta, delta = (answer[name] for name in ("query", "key", "beta", "delta"))
    if delta.shape != key.shape:
        return _fails("shape", "delta must have the shape of the keys")
    longest = float(np.sqrt((delta**2).sum(-1)).max())
    if longest > SMALL + 1e-9:
        return _fails("not-small", f"a row of delta is {longest:.3g} long; at most {SMALL} counts as small")
    change = np.abs(_weights(query, key + delta, beta) - _weights(query, key, beta)).max()
    result = f"the largest change of a weight is {change:.3g}"
    if change >= NOTICEABLE:
        return _works(result)
    return _fails("no-near-tie", f"{result}: take a near-tie and a larger beta")


def refute_own_token_wins(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    weights = _weights(answer["tokens"], answer["tokens"], answer["beta"])
    for row, own in enumerate(np.diag(weights)):
        if weights[row].max() > own + 1e-9:
            other = int(weights[row].argmax())
            return _works(f"token {row} gives itself {own:.3f} and token {other} {weights[row, other]:.3f}")
    return _fails(
        "own-token-wins-here",
        "here every token gives itself the largest weight: make one token longer, in the same direction",
    )


def refute_mean_of_keys(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    key, value = answer["key"], answer["value"]
    if key.shape != value.shape or key.ndim != 2:
        return _fails("shape", "give keys and values as matrices of one shape")
    output = _weights(key, key, 0.0) @ value
    if np.abs(output - key.mean(0)).max() > TOLERANCE:
        return _works(f"the output is {_row(output[0])}, the mean of the keys {_row(key.mean(0))}")
    return _fails("means-agree", "here the mean of the values is that of the keys")


def refute_permutation_diagonal(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    matrix = answer["matrix"]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not set(matrix.flat) <= {0.0, 1.0}:
        return _fails("no-permutation", "a permutation's matrix is square and holds only 0 and 1")
    if (matrix.sum(0) != 1).any() or (matrix.sum(1) != 1).any():
        return _fails("no-permutation", "every row and every column must hold exactly one 1")
    fixed = np.argwhere(np.diag(matrix) == 1)
    if len(fixed):
        return _works(f"position {int(fixed[0, 0])} stays where it is")
    return _fails("claim-holds-here", "this one has no 1 on its diagonal, so it does not refute the claim")


def refute_large_perturbation(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    delta = answer["delta"]
    if delta.shape != answer["key"].shape or delta.ndim != 2:
        return _fails("shape", "delta must have the shape of the keys")
    lengths = np.sqrt((delta**2).sum(-1))
    if (lengths > 0).sum() != 1 or lengths.max() < LARGE:
        rule = f"exactly one row of delta may differ from zero, and it must be at least {LARGE:g} long"
        return _fails("not-large", rule)
    weights = _weights(answer["query"], answer["key"] + delta, answer["beta"])[:, int(lengths.argmax())]
    if weights.min() < 0.5 - 1e-9:
        return _works(f"query {int(weights.argmin())} gives the moved key only {weights.min():.3f}")
    hint = "here the moved key does dominate: it must move against a query (q . delta < 0)"
    return _fails("claim-holds-here", hint)


def refute_columns(inputs: NamedArrays, answer: NamedArrays) -> Verdict:
    query, key = answer["query"], answer["key"]
    if query.ndim != 2 or query.shape != key.shape:
        return _fails("shape", "give Q and K as matrices of one shape, one column per token")
    width, count = query.shape
    sizes = f"{width} features and {count} tokens"
    if width == count:
        return _fails("square", f"{sizes}: a square cannot show which of them Q K^T compares")
    return _works(
        f"{sizes}, but Q K^T is {width} x {width}: it compares features; K^T Q is {count} x {count}"
    )


def _row(values: Any) -> str:
    return " ".join(f"{x:.4g}" for x in values)
