"""Rarer mistakes in scores, attention weights and heads."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts


def _visible(run: RunView) -> Any:
    """1 where a key may be seen."""
    return np.isfinite(attention_parts.masked_scores(run)).astype(float)


def _finite(run: RunView) -> Any:
    """The scores, 0 where a key is hidden."""
    return np.where(_visible(run) > 0, attention_parts.masked_scores(run), 0)


def _exponentials(run: RunView) -> Any:
    return np.exp(attention_parts.masked_scores(run))


# --- softmax ----------------------------------------------------------------------------------------


def _cosines(run: RunView) -> Any:
    """The products of queries and keys of length 1."""
    query, key = (
        attention_parts.quotient(rows, np.sqrt((rows**2).sum(-1, keepdims=True)))
        for rows in (_heads_first(run, run.query), _heads_first(run, run.key))
    )
    return query @ key.swapaxes(-1, -2)


def _heads_first(run: RunView, rows: Any) -> Any:
    return rows.swapaxes(-3, -2) if run.has("heads") else rows


# --- heads ------------------------------------------------------------------------------------------
def _side_by_side(rows: Any) -> Any:
    """The heads of each token joined to one row."""
    return rows.reshape(len(rows), -1)


def _dealt_out(run: RunView, rows: Any) -> Any:
    """Heads that take every second (third ...) column instead of a block of them; heads first."""
    heads = run.query.shape[-2]
    return np.stack([_side_by_side(rows)[:, head::heads] for head in range(heads)])


def columns_dealt_out(run: RunView) -> Any:
    if run.path == "scores":
        query, key = _dealt_out(run, run.query), _dealt_out(run, run.key)
        return attention_parts.scale(run) * query @ key.swapaxes(-1, -2)
    return (run.weights @ _dealt_out(run, run.value)).swapaxes(0, 1)


def product_over_the_whole_width(run: RunView) -> Any:
    query, key = _side_by_side(run.query), _side_by_side(run.key)
    product = query @ key.T / np.sqrt(query.shape[-1])
    return np.broadcast_to(product, run.current.shape)


def interleaved_before_projection(run: RunView) -> Any:
    interleaved = run.per_head.swapaxes(-1, -2).reshape(run.joined.shape)
    return interleaved @ run.W_o.T if run.has("W_o") else None
