"""What formulas are made of, beside numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.attention_parts import heads_first, masked_scores, quotient, scale


# --- attention --------------------------------------------------------------------------------------
def winners(run: RunView) -> Any:
    """1 at the largest product of each row."""
    products = run.query @ run.key.T
    return (np.abs(products - products.max(-1, keepdims=True)) < 1e-9).astype(float)


def change_of(run: RunView, before: Any, after: Any) -> Any:
    """The change with other rows for the values, where the output before was right."""
    weights, output = run.recorded["before/weights"], run.recorded["before/output"]
    right = np.allclose(output, weights @ run.value, atol=2e-3)
    return run.recorded["after/weights"] @ after - weights @ before if right else None


def shift_of(run: RunView) -> Any:
    """By how much the scores change when a key is moved."""
    return run.recorded["after/scores"] - scale(run) * run.query @ run.key.T


def states(run: RunView) -> Any:
    """The states of a recurrence, in order."""
    return np.array([np.ravel(x)[0] for path, x in run.recorded.items() if path.endswith("/state")])


def lengths(rows: Any) -> Any:
    """The length of each row: the root of the sum of its squares."""
    return np.sqrt((rows**2).sum(-1, keepdims=True))


def visible(run: RunView) -> Any:
    """1 where a key may be seen."""
    return np.isfinite(masked_scores(run)).astype(float)


def finite_scores(run: RunView) -> Any:
    """The scores, 0 where a key is hidden."""
    return np.where(visible(run) > 0, masked_scores(run), 0)


def exponentials(run: RunView) -> Any:
    return np.exp(masked_scores(run))


def cosines(run: RunView) -> Any:
    """The products of queries and keys of length 1."""
    both = heads_first(run, run.query), heads_first(run, run.key)
    query, key = (quotient(rows, lengths(rows)) for rows in both)
    return query @ key.swapaxes(-1, -2)


def side_by_side(rows: Any) -> Any:
    """The heads of each token joined to one row."""
    return rows.reshape(len(rows), -1)


def dealt_out(run: RunView, rows: Any) -> Any:
    """Heads that take every second (third ...) column instead of a block of them; heads first."""
    heads = run.query.shape[-2]
    return np.stack([side_by_side(rows)[:, head::heads] for head in range(heads)])


# --- linear attention as a recurrence ---------------------------------------------------------------
def with_state(run: RunView, product: Any) -> Any:
    """A product added to the state before."""
    before = run.recorded.get(f"step {run.time_step - 1}/state", 0.0)
    return run.current if product is None else before + product


def with_sum(run: RunView, row: Any) -> Any:
    """A row added to the key sum before."""
    return run.recorded.get(f"step {run.time_step - 1}/key sum", np.zeros((1, len(row)))) + row


def key_sum(run: RunView, token: int) -> Any:
    return run.recorded[f"step {token}/key sum"][0]


def state(run: RunView, token: int) -> Any:
    return run.recorded[f"step {token}/state"]


def own_divisors(run: RunView) -> Any:
    """q_t . c_t of every token, as a column."""
    return np.array([row @ key_sum(run, token) for token, row in enumerate(run.query)])[:, None]


def outputs(run: RunView, divisor: Callable[[int], Any]) -> Any:
    """q_t C_t of every token over something of that token."""
    products = [row @ state(run, t) for t, row in enumerate(run.query)]
    over = [divisor(t) for t in range(len(products))]
    return quotient(np.array(products), np.array(over).reshape(len(products), -1))


def queried(run: RunView, query: Callable[[int], Any], *, last: bool = False) -> Any:
    """The outputs with another query, or with the last state, at every token."""
    rows = []
    for token in range(len(run.query)):
        at, row = len(run.query) - 1 if last else token, query(token)
        rows.append(quotient(row @ state(run, at), row @ key_sum(run, at)))
    return np.array(rows)


# --- positions and layers ---------------------------------------------------------------------------
def in_pairs(sines: Any, cosines: Any) -> Any:
    """Columns of sines and of cosines in turn."""
    return np.stack([sines, cosines], -1).reshape(len(sines), -1)


def pairs(run: RunView) -> Any:
    """The numbers of the pairs: 0, 1, 2."""
    return np.arange(run.width // 2)


def rows(run: RunView) -> Any:
    """What is normalised."""
    return run.residual if run.has_step("residual") else run.tokens


def normalised_rows(rows: Any) -> Any:
    deviations = rows.std(-1, keepdims=True)
    return (rows - rows.mean(-1, keepdims=True)) / np.where(deviations == 0, 1, deviations)


def bias_per_token(run: RunView, products: Any, bias: Any) -> Any:
    """The bias added down the columns, which needs as many tokens as it has numbers, or fewer."""
    return products + bias[: len(products), None] if len(products) <= len(bias) else None
