"""Rarer mistakes in linear attention and its recurrence."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts


def _sums(run: RunView) -> Any:
    return run.scores.sum(-1, keepdims=True)


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


def _outputs(run: RunView, divisor: Any) -> Any:
    """q_t C_t of every token over something of that token."""
    products = [row @ run.recorded[f"step {t}/state"] for t, row in enumerate(run.query)]
    over = [divisor(t) for t in range(len(products))]
    return attention_parts.quotient(np.array(products), np.array(over).reshape(len(products), -1))


def _key_sum(run: RunView, token: int) -> Any:
    return run.recorded[f"step {token}/key sum"][0]


def _last(run: RunView) -> int:
    return len(run.query) - 1


def _queried(run: RunView, query: Any, *, last: bool = False) -> Any:
    """The outputs with another query, or with the last state, at every token."""
    rows = []
    for token in range(len(run.query)):
        at, row = _last(run) if last else token, query(token)
        rows.append(attention_parts.quotient(row @ run.recorded[f"step {at}/state"], row @ _key_sum(run, at)))
    return np.array(rows)
