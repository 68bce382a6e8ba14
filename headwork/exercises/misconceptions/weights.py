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


def scores_over_column_sums(run: RunView) -> Any:
    return attention_parts.normalise(_finite(run), -2)


def exponentials_over_sum_of_scores(run: RunView) -> Any:
    return attention_parts.quotient(_exponentials(run), _finite(run).sum(-1, keepdims=True))


def exponential_of_the_sum_below(run: RunView) -> Any:
    return _exponentials(run) / np.exp(_finite(run).sum(-1, keepdims=True))


def one_plus_score(run: RunView) -> Any:
    return attention_parts.normalise(_visible(run) * (1 + _finite(run)))


def sum_of_the_first_row(run: RunView) -> Any:
    return attention_parts.quotient(_exponentials(run), _exponentials(run)[..., :1, :].sum(-1, keepdims=True))


def e_times_score(run: RunView) -> Any:
    return np.e * _finite(run)


def absolute_scores_over_their_sum(run: RunView) -> Any:
    return attention_parts.normalise(np.abs(_finite(run)))


def cosines(run: RunView) -> Any:
    return _cosines(run)


def scaled_cosines(run: RunView) -> Any:
    return attention_parts.scale(run) * _cosines(run)


def _cosines(run: RunView) -> Any:
    """The products of queries and keys of length 1."""
    query, key = (
        attention_parts.quotient(rows, np.sqrt((rows**2).sum(-1, keepdims=True)))
        for rows in (_heads_first(run, run.query), _heads_first(run, run.key))
    )
    return query @ key.swapaxes(-1, -2)


def _heads_first(run: RunView, rows: Any) -> Any:
    return rows.swapaxes(-3, -2) if run.has("heads") else rows


def hidden_keys_weighted(run: RunView) -> Any:
    return None if _visible(run).all() else np.full_like(run.current, 1 / run.current.shape[-1])


def masked_after_softmax(run: RunView) -> Any:
    return None if _visible(run).all() else attention_parts.normalise(np.exp(run.scores)) * _visible(run)


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


def whole_width_in_each_head(run: RunView) -> Any:
    query, key = _side_by_side(run.query), _side_by_side(run.key)
    product = query @ key.T / np.sqrt(query.shape[-1])
    return np.broadcast_to(product, run.current.shape)


def softmax_over_all_heads(run: RunView) -> Any:
    return attention_parts.normalise(_exponentials(run), (-3, -2, -1))


def softmax_across_heads(run: RunView) -> Any:
    return attention_parts.normalise(_exponentials(run), (-3, -1))


def scaled_too_early(run: RunView) -> Any:
    return run.current / np.sqrt(run.current.shape[-1]) if run.beta is None else None


def tokens_added_to_projection(run: RunView) -> Any:
    return run.current + run.tokens.reshape(run.current.shape)


def interleaved_before_projection(run: RunView) -> Any:
    interleaved = run.per_head.swapaxes(-1, -2).reshape(run.joined.shape)
    return interleaved @ run.W_o.T if run.has("W_o") else None
