"""Rarer mistakes in linear attention and its recurrence."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts


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
    return attention_parts.quotient(run.sums, run.scores)


def divided_by_the_others(run: RunView) -> Any:
    return attention_parts.quotient(run.scores, run.sums - run.scores)


def divided_by_the_visible(run: RunView) -> Any:
    return run.scores / attention_parts.causal_mask(run).sum(-1, keepdims=True) if run.has("mask") else None


def values_over_sums(run: RunView) -> Any:
    return attention_parts.quotient(run.value, run.sums)


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
    return attention_parts.quotient(np.array(products), np.array(over).reshape(len(products), -1))


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
    return attention_parts.quotient(
        run.query @ run.recorded[f"step {_last(run)}/state"],
        np.array([row @ _key_sum(run, t) for t, row in enumerate(run.query)])[:, None],
    )


def states_without_queries(run: RunView) -> Any:
    return _queried(run, lambda t: np.ones_like(run.query[t]))


def newest_product_alone(run: RunView) -> Any:
    return attention_parts.quotient(
        (run.query * run.key).sum(-1, keepdims=True) * run.value,
        np.array([row @ _key_sum(run, t) for t, row in enumerate(run.query)])[:, None],
    )


def _queried(run: RunView, query: Any, *, last: bool = False) -> Any:
    """The outputs with another query, or with the last state, at every token."""
    rows = []
    for token in range(len(run.query)):
        at, row = _last(run) if last else token, query(token)
        rows.append(attention_parts.quotient(row @ run.recorded[f"step {at}/state"], row @ _key_sum(run, at)))
    return np.array(rows)


def later_keys_hidden(run: RunView) -> Any:
    return None if run.has("mask") else np.tril(run.weights) @ run.value
