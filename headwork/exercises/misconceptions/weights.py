"""Rarer mistakes in scores and attention weights, and in linear attention."""

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


def _over(left: Any, right: Any) -> Any:
    """A quotient, 0 where it is divided by 0."""
    return np.where(right == 0, 0, left / np.where(right == 0, 1, right))


# --- softmax ----------------------------------------------------------------------------------------


def scores_over_column_sums(run: RunView) -> Any:
    return attention_parts.normalise(_finite(run), -2)


def exponentials_over_sum_of_scores(run: RunView) -> Any:
    return _over(_exponentials(run), _finite(run).sum(-1, keepdims=True))


def exponential_of_the_sum_below(run: RunView) -> Any:
    return _exponentials(run) / np.exp(_finite(run).sum(-1, keepdims=True))


def one_plus_score(run: RunView) -> Any:
    return attention_parts.normalise(_visible(run) * (1 + _finite(run)))


def sum_of_the_first_row(run: RunView) -> Any:
    return _over(_exponentials(run), _exponentials(run)[..., :1, :].sum(-1, keepdims=True))


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
        _over(rows, np.sqrt((rows**2).sum(-1, keepdims=True)))
        for rows in (_heads_first(run, run.query), _heads_first(run, run.key))
    )
    return query @ key.swapaxes(-1, -2)


def _heads_first(run: RunView, rows: Any) -> Any:
    return rows.swapaxes(-3, -2) if run.has("heads") else rows


def hidden_keys_weighted(run: RunView) -> Any:
    return None if _visible(run).all() else np.full_like(run.current, 1 / run.current.shape[-1])


def masked_after_softmax(run: RunView) -> Any:
    return None if _visible(run).all() else attention_parts.normalise(np.exp(run.scores)) * _visible(run)


# --- linear attention -------------------------------------------------------------------------------


def _sums(run: RunView) -> Any:
    return run.scores.sum(-1, keepdims=True)


def hidden_keys_added_up(run: RunView) -> Any:
    return (run.query @ run.key.T).sum(-1, keepdims=True) if run.has("mask") else None


def own_score_not_added(run: RunView) -> Any:
    return _sums(run) - np.diagonal(run.scores)[:, None]


def keys_counted(run: RunView) -> Any:
    return (run.scores != 0).sum(-1, keepdims=True)


def exponentials_masked(run: RunView) -> Any:
    return _exponentials_of_products(run)


def queries_added_up(run: RunView) -> Any:
    return run.query.sum(-1, keepdims=True)


def keys_added_up(run: RunView) -> Any:
    return run.key.sum(-1, keepdims=True)


def length_for_sum(run: RunView) -> Any:
    return np.sqrt((run.scores**2).sum(-1, keepdims=True))


def quotient_backwards_by_sums(run: RunView) -> Any:
    return _over(run.sums, run.scores)


def divided_by_the_others(run: RunView) -> Any:
    return _over(run.scores, run.sums - run.scores)


def divided_by_the_visible(run: RunView) -> Any:
    return run.scores / attention_parts.causal_mask(run).sum(-1, keepdims=True) if run.has("mask") else None


def values_over_sums(run: RunView) -> Any:
    return _over(run.value, run.sums)


def _exponentials_of_products(run: RunView) -> Any:
    visible = attention_parts.causal_mask(run) if run.has("mask") else 1.0
    return np.exp(run.query @ run.key.T) * visible


def _outer(run: RunView, left: str, right: str, back: tuple[int, int] = (0, 0)) -> Any:
    """The product of a column and a row at this token, or of earlier ones."""
    now = run.time_step
    places = [now - steps for steps in back]
    if min(places) < 0:
        return None
    return np.outer(getattr(run, left)[places[0]], getattr(run, right)[places[1]])


def _with_state(run: RunView, product: Any) -> Any:
    """A product added to the state before."""
    before = run.recorded.get(f"step {run.time_step - 1}/state", 0.0)
    return run.current if product is None else before + product


def _with_sum(run: RunView, row: Any) -> Any:
    """A row added to the key sum before."""
    return run.recorded.get(f"step {run.time_step - 1}/key sum", np.zeros((1, len(row)))) + row


def _prefix(run: RunView, rows: Any) -> Any:
    """The rows up to this token."""
    return rows[: run.time_step + 1]


def _later(run: RunView, value: Any) -> Any:
    """A value, from the second token on."""
    return value if run.time_step > 0 else run.current


def value_times_key(run: RunView) -> Any:
    return _with_state(run, _outer(run, "value", "key"))


def key_times_query(run: RunView) -> Any:
    return _with_state(run, _outer(run, "key", "query"))


def query_times_value(run: RunView) -> Any:
    return _with_state(run, _outer(run, "query", "value"))


def value_of_the_token_before(run: RunView) -> Any:
    return _with_state(run, _outer(run, "key", "value", (0, 1)))


def key_of_the_token_before(run: RunView) -> Any:
    return _with_state(run, _outer(run, "key", "value", (1, 0)))


def state_of_all_tokens(run: RunView) -> Any:
    return run.key.T @ run.value


def key_sum_of_all_tokens(run: RunView) -> Any:
    return run.key.sum(0, keepdims=True)


def sums_multiplied(run: RunView) -> Any:
    return _later(run, np.outer(_prefix(run, run.key).sum(0), _prefix(run, run.value).sum(0)))


def queries_summed(run: RunView) -> Any:
    return _with_sum(run, run.query[run.time_step])


def values_summed(run: RunView) -> Any:
    return _with_sum(run, run.value[run.time_step]) if run.value.shape == run.key.shape else None


def coordinates_summed(run: RunView) -> Any:
    return np.full_like(run.current, run.current.sum())


def diagonal_products(run: RunView) -> Any:
    return _with_state(run, np.diag(run.key[run.time_step] * run.value[run.time_step]))


def scalar_product_added(run: RunView) -> Any:
    return _with_state(run, run.key[run.time_step] @ run.value[run.time_step] + 0 * run.current)


def states_averaged(run: RunView) -> Any:
    return _later(run, _prefix(run, run.key).T @ _prefix(run, run.value) / (run.time_step + 1))


def keys_averaged(run: RunView) -> Any:
    return _later(run, _prefix(run, run.key).mean(0, keepdims=True))


def state_added_up(run: RunView) -> Any:
    return run.state.sum(-1)[None]


def started_with_ones(run: RunView) -> Any:
    return run.current + (run.time_step == 0)


def _outputs(run: RunView, divisor: Any) -> Any:
    """q_t C_t of every token over something of that token."""
    products = [row @ run.recorded[f"step {t}/state"] for t, row in enumerate(run.query)]
    over = [divisor(t) for t in range(len(products))]
    return _over(np.array(products), np.array(over).reshape(len(products), -1))


def _key_sum(run: RunView, token: int) -> Any:
    return run.recorded[f"step {token}/key sum"][0]


def _last(run: RunView) -> int:
    return len(run.query) - 1


def divided_by_own_key(run: RunView) -> Any:
    return _outputs(run, lambda t: run.query[t] @ run.key[t])


def divided_by_the_key_sum(run: RunView) -> Any:
    return _outputs(run, lambda t: _key_sum(run, t))


def divided_by_the_total(run: RunView) -> Any:
    return _outputs(run, lambda t: _key_sum(run, t).sum())


def divided_by_the_tokens(run: RunView) -> Any:
    return _outputs(run, lambda t: t + 1.0)


def divided_by_all_tokens(run: RunView) -> Any:
    return _outputs(run, lambda t: len(run.query) * 1.0)


def last_key_sum_each_time(run: RunView) -> Any:
    return _outputs(run, lambda t: run.query[t] @ _key_sum(run, _last(run)))


def first_query_each_time(run: RunView) -> Any:
    return _queried(run, lambda t: run.query[0])


def last_query_each_time(run: RunView) -> Any:
    return _queried(run, lambda t: run.query[_last(run)])


def keys_for_queries(run: RunView) -> Any:
    return _queried(run, lambda t: run.key[t])


def last_state_each_time(run: RunView) -> Any:
    return _queried(run, lambda t: run.query[t], last=True)


def softmax_for_linear(run: RunView) -> Any:
    return attention_parts.normalise(np.exp(run.query @ run.key.T) * np.tri(len(run.query))) @ run.value


def divided_by_the_query(run: RunView) -> Any:
    return _outputs(run, lambda t: run.query[t].sum())


def divided_by_the_squared_query(run: RunView) -> Any:
    return _outputs(run, lambda t: run.query[t] @ run.query[t])


def divided_by_its_own_sum(run: RunView) -> Any:
    return _outputs(run, lambda t: (run.query[t] @ run.recorded[f"step {t}/state"]).sum())


def divided_by_the_length(run: RunView) -> Any:
    return _outputs(run, lambda t: np.linalg.norm(_key_sum(run, t)))


def last_state_own_key_sum(run: RunView) -> Any:
    return _over(
        run.query @ run.recorded[f"step {_last(run)}/state"],
        np.array([row @ _key_sum(run, t) for t, row in enumerate(run.query)])[:, None],
    )


def states_without_queries(run: RunView) -> Any:
    return _queried(run, lambda t: np.ones_like(run.query[t]))


def newest_product_alone(run: RunView) -> Any:
    return _over(
        (run.query * run.key).sum(-1, keepdims=True) * run.value,
        np.array([row @ _key_sum(run, t) for t, row in enumerate(run.query)])[:, None],
    )


def _queried(run: RunView, query: Any, *, last: bool = False) -> Any:
    """The outputs with another query, or with the last state, at every token."""
    rows = []
    for token in range(len(run.query)):
        at, row = _last(run) if last else token, query(token)
        rows.append(_over(row @ run.recorded[f"step {at}/state"], row @ _key_sum(run, at)))
    return np.array(rows)


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


def later_keys_hidden(run: RunView) -> Any:
    return None if run.has("mask") else np.tril(run.weights) @ run.value
