"""What the mistakes in attention look at and work out: scores, masks, shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork.exercises.case import Seen


def sums(student: Any, s: Seen) -> str:
    matrix = student.reshape(-1, *student.shape[-2:])[0]
    rows, columns = matrix.sum(-1), matrix.sum(-2)
    odd = int(np.argmax(np.abs(rows - 1)))
    if np.allclose(columns, 1, atol=0.02):
        return f"column 0 of yours sums to {columns[0]:.3g}, row {odd} to {rows[odd]:.3g}"
    if abs(matrix.sum() - 1) < 0.02:
        return f"all your entries together sum to {matrix.sum():.3g}, row {odd} only to {rows[odd]:.3g}"
    return f"row {odd} of yours sums to {rows[odd]:.4g}, not to 1"


def beta(s: Seen) -> float:
    beta = s.beta
    return 1 / math.sqrt(s.query.shape[-1]) if beta is None else float(beta)


def noted(s: Seen, name: str) -> bool:
    return name in s._kept or f"{s.path.rpartition('/')[0]}/{name}" in s._kept


def logits(s: Seen) -> Any:
    return s.masked if noted(s, "masked") else s.scores


def values(s: Seen) -> Any:
    """The value rows; where there are no projections, the tokens themselves."""
    return s.value if s.has("value") or noted(s, "value") else s.tokens


def heads(s: Seen) -> bool:
    return s.has("heads")


def mixed(s: Seen, weights: Any, rows: Any) -> Any:
    """Weights times rows; with heads, the head stands beside the width in the rows."""
    if not heads(s):
        return weights @ rows
    return (weights @ rows.swapaxes(-3, -2)).swapaxes(-3, -2)


def shares(powers: Any, axis: Any = -1) -> Any:
    """Each number over the sum; nothing at all stays nothing."""
    total = powers.sum(axis, keepdims=True)
    return np.where(total == 0, 0, powers / np.where(total == 0, 1, total))


def hard(scores: Any, axis: Any) -> Any:
    return shares((np.abs(scores - scores.max(axis, keepdims=True)) < 1e-12).astype(float), axis)


def normalised(s: Seen, logits: Any, axis: Any) -> Any:
    return hard(logits, axis) if s.path.startswith("beta oo") else shares(np.exp(logits), axis)


def causal(s: Seen) -> bool:
    return s.has("mask") and isinstance(s.mask, str)


def given_mask(s: Seen) -> bool:
    return s.has("mask") and not isinstance(s.mask, str)


def triangle(s: Seen, diagonal: int) -> Any:
    """1 where the query may look, for as many queries and keys as there are."""
    keys = len(s.key if s.has("key") else s.memory if s.has("memory") else s.tokens)
    queries = len(s.query if s.has("query") else s.tokens)
    return np.tri(queries, keys, diagonal + keys - queries)


def allowed(s: Seen) -> Any:
    mask = s.mask
    if mask is None:
        return None
    return (
        np.tri(s.scores.shape[-2], s.scores.shape[-1], s.scores.shape[-1] - s.scores.shape[-2])
        if isinstance(mask, str)
        else mask
    )


def time(s: Seen) -> int:
    return int(s.path.split("/")[0].removeprefix("step "))


def key_products(s: Seen) -> Any:
    """What the output of the recurrent form was divided by, a row a query."""
    steps = sorted(
        (p for p in s._kept if p.endswith("/key sum")), key=lambda p: int(p.split("/")[0].split()[1])
    )
    sums = [s._kept[p] for p in steps]
    count = len(s.query_features)
    seen = [len(sums) - count + i if s.has("mask") else len(sums) - 1 for i in range(count)]
    return np.array([s.query_features[i] @ sums[j].T for i, j in enumerate(seen)]).reshape(count, 1)
