"""Scores, masks and softmax as the mistakes in attention work them out again."""

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView


def row_sums(student: Any, run: RunView) -> str:
    """What the sums of the student's weights show."""
    matrix = student.reshape(-1, *student.shape[-2:])[0]
    rows, columns = matrix.sum(-1), matrix.sum(-2)
    worst = int(np.argmax(np.abs(rows - 1)))
    if np.allclose(columns, 1, atol=0.02):
        return f"column 0 of yours sums to {columns[0]:.3g}, row {worst} to {rows[worst]:.3g}"
    if abs(matrix.sum() - 1) < 0.02:
        return f"all your entries together sum to {matrix.sum():.3g}, row {worst} only to {rows[worst]:.3g}"
    return f"row {worst} of yours sums to {rows[worst]:.4g}, not to 1"


def scale(run: RunView) -> float:
    """The beta of the run: 1/sqrt(d_k) unless one is given."""
    return 1 / math.sqrt(run.query.shape[-1]) if run.beta is None else float(run.beta)


def masked_scores(run: RunView) -> Any:
    """The scores that go into the softmax."""
    return run.masked if run.has_step("masked") else run.scores


def value_rows(run: RunView) -> Any:
    """The value rows; where there are no projections, the tokens themselves."""
    return run.value if run.has("value") or run.has_step("value") else run.tokens


def heads_first(run: RunView, rows: Any) -> Any:
    """The rows of each head, where there are heads."""
    return rows.swapaxes(-3, -2) if run.has("heads") else rows


def weighted_rows(run: RunView, weights: Any, rows: Any) -> Any:
    """Weights times rows; with heads, per head, and the output after W_o stays as it is."""
    if not run.has("heads"):
        return weights @ rows
    if run.path == "output":
        return run.current
    return (weights @ rows.swapaxes(-3, -2)).swapaxes(-3, -2)


def normalise(numbers: Any, axis: Any = -1) -> Any:
    """Each number over the sum; all zeros stay zeros."""
    total = numbers.sum(axis, keepdims=True)
    return np.where(total == 0, 0, numbers / np.where(total == 0, 1, total))


def hardmax(scores: Any, axis: Any) -> Any:
    """1 at the largest score, ties shared."""
    return normalise((np.abs(scores - scores.max(axis, keepdims=True)) < 1e-12).astype(float), axis)


def softmax_over(run: RunView, axis: Any) -> Any:
    """The softmax of the scores over any axes, in the limit beta = infinity where that is asked."""
    scores = masked_scores(run)
    return hardmax(scores, axis) if run.path.startswith("beta oo") else normalise(np.exp(scores), axis)


def is_causal(run: RunView) -> bool:
    return run.has("mask") and isinstance(run.mask, str)


def causal_mask(run: RunView, diagonal: int = 0) -> Any:
    """1 where a query may attend: the last query sees every key; ``diagonal`` moves the edge."""
    queries = len(run.query if run.has("query") else run.tokens)
    keys = len(run.key if run.has("key") else run.memory if run.has("memory") else run.tokens)
    return np.tri(queries, keys, diagonal + keys - queries)


def visible_keys(run: RunView) -> Any:
    """1 where a query may attend, 0 where the key is hidden."""
    return causal_mask(run) if isinstance(run.mask, str) else run.mask


def apply_mask(run: RunView, visible: Any) -> Any:
    """The masked scores, or the weights that follow from them; a row without any key is all zeros."""
    if run.path.endswith("weights"):
        return normalise(np.exp(run.masked))
    return np.where(visible, run.scores, -np.inf)


def divisors(run: RunView) -> Any:
    """What the output of recurrent linear attention was divided by, one row per query."""
    sums = [value for path, value in run.recorded.items() if path.endswith("/key sum")]
    count = len(run.query_features)
    last = [len(sums) - count + i if run.has("mask") else len(sums) - 1 for i in range(count)]
    return np.array([run.query_features[i] @ sums[j].T for i, j in enumerate(last)]).reshape(count, 1)


def quotient(left: Any, right: Any) -> Any:
    """Each number over another, 0 where that is 0."""
    return np.where(right == 0, 0, left / np.where(right == 0, 1, right))
