r"""Linear attention: the exponential dropped, dot products normalised instead.

y_i = q_i . (sum_j k_j v_j^T) / (q_i . sum_j k_j), Katharopoulos et al. 2020, arXiv 2006.16236. Raw dot
products can be negative or sum to zero; the feature map elu(x) + 1 makes them positive. The parallel
form shows the weights and costs n^2 d; the recurrent form carries a matrix state and costs n d^2.
"""

from __future__ import annotations

from typing import Literal

from headwork.mechanisms.attention import Tensor, _check, causal
from headwork.note import Given, Note, Step, inside, mechanism, silent
from headwork.numbers import stack

Features = Literal["none", "elu+1"]

INPUTS = (
    Given("query", "Q", "query width", "one row a query"),
    Given("key", "K", "key width", "one row a key"),
    Given("value", "V", "key value_width", "one row a value"),
)
FEATURES = (
    Step("query features", r"\Phi_Q", r"\phi(Q)", "query width"),
    Step("key features", r"\Phi_K", r"\phi(K)", "key width"),
)


def feature_map(rows: Tensor, features: Features) -> Tensor:
    """The rows as they are, or elu(x) + 1 = max(0, x) + min(1, e^x): positive everywhere."""
    if features == "none":
        return rows
    return rows.relu() + (-((-rows).relu())).exp()


@mechanism(
    *INPUTS,
    *FEATURES,
    Step("scores", "S", r"\Phi_Q \Phi_K^\top", "query key", columns=r"\Phi_K^\top \Phi_Q"),
    Step("sums", "z", r"\textstyle\sum_j S_{ij}", "query one"),
    Step("weights", "A", r"S / z", "query key"),
    Step("output", "Y", r"A V", "query value_width", columns=r"V A"),
)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Features = "none",
    mask: Literal["causal"] | None = None,
    note: Note = silent,
) -> Tensor:
    """Attention whose weights are dot products divided by their sum; shown with its weights.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> linear_attention(x, x, x).array.tolist()
    [[2.5], [2.5]]
    """
    _check(query, key, value, mask)
    query = note("query features", feature_map(query, features))
    key = note("key features", feature_map(key, features))
    products = query @ key.mT
    scores = note("scores", products if mask is None else products * causal(products))
    sums = note("sums", scores.sum(-1, keepdim=True))
    weights = note("weights", scores / sums)
    return note("output", weights @ value)


@mechanism(
    *INPUTS,
    *FEATURES,
    Step("step */state", "C_t", r"C_{t-1} + \phi(k_t)^\top v_t", "width value_width"),
    Step("step */key sum", "c_t", r"c_{t-1} + \phi(k_t)", "one width"),
    Step("output", "Y", r"\phi(q_i)\, C / (\phi(q_i) \cdot c)", "query value_width"),
)
def linear_attention_recurrent(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Features = "none",
    mask: Literal["causal"] | None = None,
    note: Note = silent,
) -> Tensor:
    """The same numbers as linear-attention, token by token, from a state of fixed size.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> linear_attention_recurrent(x, x, x).array.tolist()
    [[2.5], [2.5]]
    """
    _check(query, key, value, mask)
    query = note("query features", feature_map(query, features))
    key = note("key features", feature_map(key, features))
    states, key_sums = [], []
    for t in range(key.shape[-2]):
        at = inside(note, f"step {t}")
        new = key[..., t : t + 1, :].mT @ value[..., t : t + 1, :]
        states.append(at("state", states[-1] + new if states else new))
        here = key[..., t : t + 1, :]
        key_sums.append(at("key sum", key_sums[-1] + here if key_sums else here))
    rows = []
    for i in range(query.shape[-2]):
        seen = len(states) - 1 if mask is None else len(states) - query.shape[-2] + i
        one = query[..., i, :].unsqueeze(-2)
        rows.append(((one @ states[seen]) / (one @ key_sums[seen].mT)).squeeze(-2))
    return note("output", stack(rows, -2))
