"""Mistakes in the limits of beta, in the change of a key, and in copying."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts


def _products(run: RunView) -> Any:
    return run.query @ run.key.T


def _winners(run: RunView) -> Any:
    products = _products(run)
    return (np.abs(products - products.max(-1, keepdims=True)) < 1e-9).astype(float)


def _shared(chosen: Any) -> Any:
    return attention_parts.normalise(np.asarray(chosen, float))


def _for_all(row: Any, run: RunView) -> Any:
    """One row of output for every query."""
    return np.tile(row, (len(run.query), 1))


# --- beta -> 0 and beta -> infinity -----------------------------------------------------------------


def _last_winner(winners: Any) -> Any:
    columns = winners.shape[-1]
    return np.eye(columns)[columns - 1 - winners[:, ::-1].argmax(-1)]


# --- a key that moves -------------------------------------------------------------------------------


def _before(run: RunView, factor: float) -> Any:
    """The weights before the move, of Q K^T times a factor."""
    return attention_parts.normalise(np.exp(factor * (run.query @ run.key.T)))


def _scores_with(run: RunView, moved: Any) -> Any:
    """The scores of the queries with these changes of the keys."""
    return attention_parts.scale(run) * (run.query @ (run.key + moved).T)


def _is_moved(run: RunView) -> Any:
    """Which keys are moved."""
    return np.any(run.delta != 0, axis=-1)


def _keys_averaged(run: RunView) -> Any:
    """The keys in place of the values: as they are before, and moved after."""
    if run.path == "before/output":
        return run.recorded["before/weights"] @ run.key
    return run.recorded["after/weights"] @ (run.key + run.delta) - run.recorded["before/output"]


def _change_of(run: RunView, before: Any, after: Any) -> Any:
    """The change with other rows for the values, where the output before was right."""
    weights, output = run.recorded["before/weights"], run.recorded["before/output"]
    if not np.allclose(output, weights @ run.value, atol=2e-3):
        return None
    return run.recorded["after/weights"] @ after - weights @ before


# --- copying ----------------------------------------------------------------------------------------


def _counts(run: RunView) -> Any:
    """How many of the orthogonal vectors each token is the sum of."""
    return (run.tokens != 0).sum(-1, keepdims=True).astype(float)


def _lengths(rows: Any) -> Any:
    return np.sqrt((rows**2).sum(-1, keepdims=True))


def _errors(run: RunView) -> Any:
    return run.output - run.tokens
