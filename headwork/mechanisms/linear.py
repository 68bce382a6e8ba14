r"""Linear attention: the exponential dropped, dot products normalised instead.

y_i = q_i . (sum_j k_j v_j^T) / (q_i . sum_j k_j), Katharopoulos et al. 2020, arXiv 2006.16236. Raw dot
products can be negative or sum to zero; the feature map elu(x) + 1 makes them positive. The parallel
form shows the weights and costs n^2 d; the recurrent form carries a matrix state and costs n d^2; the
chunked form is parallel within a chunk and recurrent across chunks. A mask is a factor on the scores here.
"""

from functools import partial
from typing import Literal

from headwork.errors import InputError
from headwork.mechanisms.attention import (
    JOINED_STEPS,
    MULTI_HEAD_CARDS,
    QKV_CARDS,
    Convention,
    Mask,
    Tensor,
    attend_per_head,
    causal_mask,
    check_attention_shapes,
    steps_per_head,
)
from headwork.mechanisms.parameters import AttentionParameters, group_parameters
from headwork.note import Note, Step, inside, mechanism, silent
from headwork.numbers import cat, stack

Features = Literal["none", "elu+1"]

FEATURE_CARDS = (
    *QKV_CARDS,
    Step("query features", r"\Phi_Q", r"\phi(Q)", "query width"),
    Step("key features", r"\Phi_K", r"\phi(K)", "key width"),
)


def feature_map(rows: Tensor, features: Features) -> Tensor:
    """The rows as they are, or elu(x) + 1 = max(0, x) + min(1, e^x): positive everywhere."""
    if features == "none":
        return rows
    return rows.relu() + (-((-rows).relu())).exp()


def _note_features(query: Tensor, key: Tensor, features: Features, note: Note) -> tuple[Tensor, Tensor]:
    query = note("query features", feature_map(query, features))
    return query, note("key features", feature_map(key, features))


@mechanism(
    *FEATURE_CARDS,
    Step("scores", "S", r"\Phi_Q \Phi_K^\top", "query key", column_formula=r"\Phi_K^\top \Phi_Q"),
    Step("sums", "z", r"\textstyle\sum_j S_{ij}", "query one"),
    Step("weights", "A", r"S / z", "query key"),
    Step("output", "Y", r"A V", "query value_width", column_formula=r"V A"),
)
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Features = "none",
    mask: Mask = None,
    note: Note = silent,
) -> Tensor:
    """Attention whose weights are dot products divided by their sum, in the form that shows them.

    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> linear_attention(x, x, x).array.tolist()
    [[2.5], [2.5]]
    """
    check_attention_shapes(query, key, value, mask)
    query, key = _note_features(query, key, features, note)
    products = query @ key.mT
    allowed = causal_mask(products) if isinstance(mask, str) else mask
    scores = note("scores", products if mask is None else products * allowed)
    sums = note("sums", scores.sum(-1, keepdim=True))
    weights = note("weights", scores / sums)
    return note("output", weights @ value)


@mechanism(
    *FEATURE_CARDS,
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

    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> linear_attention_recurrent(x, x, x).array.tolist()
    [[2.5], [2.5]]
    """
    check_attention_shapes(query, key, value, mask)
    query, key = _note_features(query, key, features, note)
    states, key_sums = _running_sums(key, value, 1, "step", note)
    rows = []
    for i in range(query.shape[-2]):
        last = len(states) - 1 if mask is None else len(states) - query.shape[-2] + i
        one = query[..., i, :].unsqueeze(-2)
        rows.append(((one @ states[last]) / (one @ key_sums[last].mT)).squeeze(-2))
    return note("output", stack(rows, -2))


@mechanism(
    *FEATURE_CARDS,
    Step("chunk */state", "C_t", r"C_{t-1} + \Phi_{K,t}^\top V_t", "width value_width"),
    Step("chunk */key sum", "c_t", r"c_{t-1} + \textstyle\sum_{j \in t} \phi(k_j)", "one width"),
    Step(
        "chunk */scores",
        "S_t",
        r"\Phi_{Q,t} \Phi_{K,t}^\top \text{ up to the diagonal}",
        "query key",
        when="mask",
    ),
    Step("chunk */sums", "z_t", r"\Phi_{Q,t}\, c_{t-1} + \textstyle\sum_j S_{t,ij}", "query one"),
    Step("chunk */output", "Y_t", r"(\Phi_{Q,t}\, C_{t-1} + S_t V_t) / z_t", "query value_width"),
    Step("output", "Y", r"[Y_0; Y_1; \ldots]", "query value_width"),
)
def linear_attention_chunked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Features = "none",
    mask: Literal["causal"] | None = None,
    chunk: int = 64,
    note: Note = silent,
) -> Tensor:
    """The same numbers as linear-attention, chunk by chunk: a state carries the chunks before.

    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> linear_attention_chunked(x, x, x, chunk=1).array.tolist()
    [[2.5], [2.5]]
    """
    check_attention_shapes(query, key, value, mask)
    check_chunks(query, key, mask, chunk)
    query, key = _note_features(query, key, features, note)
    states, key_sums = _running_sums(key, value, chunk, "chunk", note)
    rows = []
    for t, start in enumerate(range(0, query.shape[-2], chunk)):
        scoped = inside(note, f"chunk {t}")
        queries = query[..., start : start + chunk, :]
        if mask is None:
            numerators, sums = queries @ states[-1], queries @ key_sums[-1].mT
        else:
            products = queries @ key[..., start : start + chunk, :].mT
            scores = scoped("scores", products * causal_mask(products))
            numerators, sums = scores @ value[..., start : start + chunk, :], scores.sum(-1, keepdim=True)
            if t:
                numerators, sums = queries @ states[t - 1] + numerators, queries @ key_sums[t - 1].mT + sums
        rows.append(scoped("output", numerators / scoped("sums", sums)))
    return note("output", cat(rows, -2))


def _running_sums(
    key: Tensor, value: Tensor, chunk: int, scope: str, note: Note
) -> tuple[list[Tensor], list[Tensor]]:
    """The state and the sum of the keys after each chunk of tokens."""
    states: list[Tensor] = []
    key_sums: list[Tensor] = []
    for t, start in enumerate(range(0, key.shape[-2], chunk)):
        scoped = inside(note, f"{scope} {t}")
        keys, values = key[..., start : start + chunk, :], value[..., start : start + chunk, :]
        new, total = keys.mT @ values, keys if chunk == 1 else keys.sum(-2, keepdim=True)
        states.append(scoped("state", states[-1] + new if states else new))
        key_sums.append(scoped("key sum", key_sums[-1] + total if key_sums else total))
    return states, key_sums


def check_chunks(query: Tensor, key: Tensor, mask: Mask, chunk: int) -> None:
    if chunk < 1:
        raise InputError(f"linear attention: chunks of {chunk}. Give at least 1 token per chunk.")
    if isinstance(mask, str) and query.shape[-2] != key.shape[-2]:
        raise InputError(
            f"linear attention: causal in chunks, but {query.shape[-2]} queries and {key.shape[-2]} keys. "
            "Give as many queries as keys, or take linear-attention."
        )


@mechanism(
    *MULTI_HEAD_CARDS,
    *steps_per_head(linear_attention),
    *JOINED_STEPS,
    build_parameters=partial(group_parameters, AttentionParameters),
)
def multi_head_linear_attention(
    tokens: Tensor,
    parameters: AttentionParameters,
    memory: Tensor = None,
    *,
    heads: int,
    features: Features = "elu+1",
    mask: Mask = None,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """Several heads of linear attention side by side, split and joined as in multi-head attention.

    >>> x = HandTensor(np.array([[1.0], [3.0]]))
    >>> multi_head_linear_attention(x, AttentionParameters(), heads=1, features="none").array.tolist()
    [[2.5], [2.5]]
    """
    attend = partial(linear_attention, features=features, mask=mask)
    return attend_per_head(tokens, parameters, memory, attend, heads=heads, convention=convention, note=note)
