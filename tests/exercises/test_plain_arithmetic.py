"""Wrong answers computed here by plain arithmetic, without the edits that recognise them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headwork.exercises import Exercise
from headwork.grading import grade

X = np.array([[1.0, 2], [2, 0], [0, 1]])
Q, K, V = np.array([[1.0, 1], [0, 1]]), np.array([[1.0, 0], [2, 1]]), np.array([[2.0, 1], [0, 1]])
ROOT = math.sqrt(2)
GIVEN = {"tokens": "1 2; 2 0; 0 1", "W_q": "1 1; 0 1", "W_k": "1 0; 2 1", "W_v": "2 1; 0 1"}
CAUSAL = np.tri(3)


def softmax(scores: Any, axis: Any = -1) -> Any:
    powers = np.exp(scores)
    return powers / powers.sum(axis, keepdims=True)


def attention(
    q: Any = None, k: Any = None, v: Any = None, scores: Any = None, weights: Any = None, output: Any = None
) -> dict[str, Any]:
    """Every step, from those that are given."""
    q = X @ Q.T if q is None else q
    k = X @ K.T if k is None else k
    v = X @ V.T if v is None else v
    scores = q @ k.T / ROOT if scores is None else scores
    weights = softmax(scores) if weights is None else weights
    output = weights @ v if output is None else output
    return {"query": q, "key": k, "value": v, "scores": scores, "weights": weights, "output": output}


RIGHT = attention()
S, A = RIGHT["scores"], RIGHT["weights"]
POWERS = np.exp(S)
HIDDEN = np.where(CAUSAL == 1, S, -np.inf)

SELF: list[tuple[str, str, dict[str, Any]]] = [
    ("no-scaling", "scores", attention(scores=S * ROOT)),
    ("scaled-by-width", "scores", attention(scores=S / ROOT)),
    ("wrong-sign", "scores", attention(scores=-S)),
    ("scores-transposed", "scores", attention(scores=S.T)),
    ("softmax-over-columns", "weights", attention(weights=softmax(S, 0))),
    ("softmax-over-everything", "weights", attention(weights=POWERS / POWERS.sum())),
    ("no-normalisation", "weights", attention(weights=POWERS)),
    ("exponential-dropped", "weights", attention(weights=S / S.sum(1, keepdims=True))),
    ("own-token-left-out", "weights", attention(weights=softmax(np.where(np.eye(3) == 1, -np.inf, S)))),
    ("keys-for-values", "output", attention(output=A @ RIGHT["key"])),
    ("values-before-softmax", "output", attention(output=softmax(S @ RIGHT["value"]))),
    ("softmax-forgotten", "output", attention(output=S @ RIGHT["value"])),
    ("matrix-transposed", "query", attention(q=X @ Q, k=X @ K, v=X @ V)),
    ("matrix-transposed", "key", attention(k=X @ K)),
    ("keys-and-values-swapped", "key", attention(k=X @ V.T, v=X @ K.T)),
    ("value-for-key", "scores", attention(scores=RIGHT["query"] @ RIGHT["value"].T / ROOT)),
    ("queries-and-keys-swapped", "query", attention(q=X @ K.T, k=X @ Q.T)),
]
MASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("mask-after-softmax", "weights", attention(weights=A * CAUSAL)),
    ("mask-with-zero", "weights", attention(weights=softmax(S * CAUSAL))),
    ("mask-forgotten", "weights", attention()),
    ("mask-upside-down", "weights", attention(weights=softmax(np.where(CAUSAL.T == 1, S, -np.inf)))),
    ("mask-sees-one-more", "weights", attention(weights=softmax(np.where(np.tri(3, k=1) == 1, S, -np.inf)))),
]


def text(value: Any, digits: int) -> str:
    return str(np.asarray(value).round(digits).tolist())


@pytest.mark.parametrize("digits", [3, 4, 9])
@pytest.mark.parametrize(("cause", "step", "steps"), SELF, ids=[case[0] + case[1] for case in SELF])
def test_attention(cause: str, step: str, steps: dict[str, Any], digits: int) -> None:
    mark = grade(
        Exercise("self-attention", GIVEN), {path: text(value, digits) for path, value in steps.items()}
    )
    assert mark.first_wrong is not None
    assert mark.first_wrong.path == step
    assert cause in [c.slug for c in mark.first_wrong.causes]
    assert mark.points == mark.max_points - 1


@pytest.mark.parametrize(("cause", "step", "steps"), MASKED, ids=[case[0] for case in MASKED])
def test_masks(cause: str, step: str, steps: dict[str, Any]) -> None:
    exercise = Exercise("self-attention", GIVEN, {"mask": "causal"}, {"scores": 1, "weights": 1, "output": 1})
    right = attention(weights=softmax(HIDDEN))
    assert grade(exercise, {path: text(right[path], 4) for path in exercise.asked}).all_right
    mark = grade(exercise, {path: text(steps[path], 4) for path in exercise.asked})
    assert mark.first_wrong is not None
    assert (mark.first_wrong.path, mark.points) == (step, 2)
    assert cause in [c.slug for c in mark.first_wrong.causes]


ROWS = np.array([[1.0, 5, 2, 0], [2, 4, 4, 6], [3, 0, 1, 8]])


def normalised(rows: Any, mean: Any, deviation: Any) -> dict[str, Any]:
    return {"mean": mean, "deviation": deviation, "normalised": (rows - mean) / deviation}


@pytest.mark.parametrize(
    ("cause", "step", "steps"),
    [
        (
            "variance-for-deviation",
            "deviation",
            normalised(ROWS, ROWS.mean(1, keepdims=True), ROWS.var(1, keepdims=True)),
        ),
        (
            "sample-deviation",
            "deviation",
            normalised(ROWS, ROWS.mean(1, keepdims=True), ROWS.std(1, keepdims=True, ddof=1)),
        ),
        ("normalised-over-tokens", "mean", normalised(ROWS, ROWS.mean(0), ROWS.std(0))),
    ],
)
def test_normalisation(cause: str, step: str, steps: dict[str, Any]) -> None:
    points = {"mean": 1, "deviation": 1, "normalised": 1}
    exercise = Exercise("layer-normalisation", {"tokens": "1 5 2 0; 2 4 4 6; 3 0 1 8"}, points=points)
    mark = grade(exercise, {path: text(value, 4) for path, value in steps.items()})
    assert mark.first_wrong is not None
    assert (mark.first_wrong.path, mark.points) == (step, 2)
    assert mark.first_wrong.causes[0].slug == cause


SIZE = {"size": 20, "kernel": 3}
SLIDE = {"stride": 4, "padding": 2}


@pytest.mark.parametrize(
    ("cause", "outputs"),
    [
        ("plus-one-forgotten", lambda: (20 + 4 - 3) // 4),
        ("ceiling-for-floor", lambda: math.ceil((20 + 4 - 3) / 4) + 1),
        ("floor-forgotten", lambda: (20 + 4 - 3) / 4 + 1),
    ],
)
def test_output_size(cause: str, outputs: Callable[[], float]) -> None:
    mark = grade(Exercise("output-size", SIZE, SLIDE), {"span": "21", "output": str(outputs())})
    assert mark.first_wrong is not None
    assert cause in [c.slug for c in mark.first_wrong.causes]


def test_recurrence() -> None:
    exercise = Exercise("recurrence-closed-form", {"inputs": "1 2 4", "W_x": "2", "W_h": "3"})
    assert grade(exercise, {"powers": "9 3 1", "terms": "18 12 8", "output": "38"}).all_right
    for powers, cause in (
        ("1 3 9", "powers-reversed"),
        ("3 9 27", "powers-by-time"),
        ("27 9 3", "powers-one-too-high"),
    ):
        terms = [int(p) * 2 * x for p, x in zip(powers.split(), (1, 2, 4), strict=True)]
        mark = grade(
            exercise, {"powers": powers, "terms": " ".join(map(str, terms)), "output": str(sum(terms))}
        )
        assert mark.first_wrong is not None
        assert (mark.first_wrong.path, mark.points) == ("powers", 2)
        assert cause in [c.slug for c in mark.first_wrong.causes]
