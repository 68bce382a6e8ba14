r"""Attention: softmax(beta Q K^T) V, by itself, with projections, and with several heads.

beta is the hardness, 1/sqrt(d_k) by default (Vaswani et al. 2017, arXiv 1706.03762). beta = 0 gives
the plain mean of the values; beta = infinity gives hard attention, one-hot with ties shared.
A mask has 1 where a query may attend and 0 where it may not; "causal" hides every later key.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from headwork.errors import InputError, format_shape
from headwork.mechanisms.parameters import AttentionParameters, group_parameters, input_cards
from headwork.note import Input, Note, Step, mechanism, silent, steps_of
from headwork.numbers import exponentials_may_overflow

Tensor = Any  # torch.Tensor, HandTensor or ShapeTensor
Scalar = Annotated[Any, "number"]  # a plain number or a tensor of one
Mask = Annotated[Any, "mask"]  # "causal", or a tensor of 0 and 1
Convention = Literal["W x", "x W"]

TIE_TOLERANCE = 1e-12  # scores closer than this, relative to the largest, share the weight of hard attention


@mechanism(
    Input("scores", "S", "key", "one number per key"),
    Step("shifted", "S'", r"S - \max_j S_j", "key", when="large scores"),
    Step("exponentials", "E", r"e^{{shifted|S}}", "key"),
    Step("total", "Z", r"\textstyle\sum_j E_j", "one"),
    Step("weights", "A", r"E / Z", "key"),
)
def softmax(scores: Tensor, *, note: Note = silent) -> Tensor:
    """Positive weights that sum to 1: each exponential over the sum of all.

    >>> softmax(HandTensor(np.array([0.0, 0.0]))).array.tolist()
    [0.5, 0.5]
    """
    if exponentials_may_overflow(scores):
        # The weights stay the same: the shift divides every exponential by the same number.
        scores = note("shifted", scores - scores.amax(-1, keepdim=True))
    exponentials = note("exponentials", scores.exp())
    total = note("total", exponentials.sum(-1, keepdim=True))
    return note("weights", exponentials / total)


def hardmax(scores: Tensor) -> Tensor:
    """The limit of softmax(beta S) for beta -> infinity: the largest score takes all, ties share.

    >>> hardmax(HandTensor(np.array([1.0, 3.0, 3.0]))).array.tolist()
    [0.0, 0.5, 0.5]
    """
    largest = scores.amax(-1, keepdim=True)
    winners = (scores + TIE_TOLERANCE * largest.abs() >= largest).to(scores)
    return winners / winners.sum(-1, keepdim=True)


def causal_mask(scores: Tensor) -> Tensor:
    """1 on and below the diagonal; with fewer queries than keys, the queries are the last ones."""
    queries, keys = scores.shape[-2:]
    return scores.new_ones(queries, keys).tril(keys - queries)


QKV_CARDS = (
    Input("query", "Q", "query width", "one row per query"),
    Input("key", "K", "key width", "one row per key"),
    Input("value", "V", "key value_width", "one row per value"),
)


@mechanism(
    *QKV_CARDS,
    Step("scores", "S", r"\beta\, Q K^\top", "query key", column_formula=r"\beta\, K^\top Q"),
    Step("masked", "S'", r"S \text{ where allowed, else } -\infty", "query key", when="mask"),
    Step("weights", "A", r"\operatorname{softmax}({masked|S}) \text{ over keys}", "query key"),
    Step("output", "Y", r"A V", "query value_width", column_formula=r"V A"),
)
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, beta: Scalar = None, mask: Mask = None, note: Note = silent
) -> Tensor:
    """Each query takes the mean of the values, weighted by how well its keys fit.

    >>> one = HandTensor(np.array([[1.0, 0.0]]))
    >>> attention(one, one, one).array.tolist()
    [[1.0, 0.0]]
    """
    check_attention_shapes(query, key, value, mask)
    hard = isinstance(beta, float) and math.isinf(beta)
    products = query @ key.mT
    if beta is None:
        products = products / products.new_tensor(query.shape[-1]).sqrt()
    elif not hard:
        products = beta * products
    scores = note("scores", products)
    if mask is not None:
        allowed = causal_mask(scores) if isinstance(mask, str) else mask
        scores = note("masked", scores.masked_fill(allowed == 0, -math.inf))
    weights = note("weights", hardmax(scores) if hard else scores.softmax(-1))
    return note("output", weights @ value)


def project(tokens: Tensor, matrix: Tensor | None, name: str, convention: Convention = "W x") -> Tensor:
    """Rows of tokens through one matrix; no matrix is the identity."""
    if matrix is None:
        return tokens
    inner = matrix.shape[-1 if convention == "W x" else -2]
    if inner != tokens.shape[-1]:
        rows = format_shape(tokens.shape, "token width")
        raise InputError(
            f"{name} is {format_shape(matrix.shape, '')} and, applied as {convention}, takes width {inner}; "
            f"the tokens are {rows}. Transpose {name}, set convention to the other of 'W x' and 'x W', "
            "or, if each token is a column, set tokens_as=columns."
        )
    return tokens @ (matrix.mT if convention == "W x" else matrix)


def add_bias(rows: Tensor, bias: Tensor | None, name: str) -> Tensor:
    if bias is None:
        return rows
    if tuple(bias.shape[-1:]) != tuple(rows.shape[-1:]):
        shape = format_shape(bias.shape, "width")
        raise InputError(
            f"{name} is {shape}, but the rows it is added to are {rows.shape[-1]} wide. "
            "Give one number per column."
        )
    return rows + bias


QUERY = Step("query", "Q", r"X {W_q}", "token key_width", column_formula=r"{W_q} X")
ATTENTION_CARDS = input_cards(AttentionParameters)
PROJECTIONS, W_O, BIASES = ATTENTION_CARDS[:3], ATTENTION_CARDS[3], ATTENTION_CARDS[4:]


@mechanism(
    Input("tokens", "X", "token width", "one row per token: these attend"),
    Input("memory", "M", "key width", "one row per token: these are attended to"),
    *PROJECTIONS,
    QUERY,
    Step("key", "K", r"M {W_k}", "key key_width", column_formula=r"{W_k} M"),
    Step("value", "V", r"M {W_v}", "key value_width", column_formula=r"{W_v} M"),
    *steps_of(attention),
)
def cross_attention(
    tokens: Tensor,
    memory: Tensor,
    W_q: Tensor = None,
    W_k: Tensor = None,
    W_v: Tensor = None,
    *,
    beta: Scalar = None,
    mask: Mask = None,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """Tokens of one sequence attend to the tokens of another, the memory."""
    query = note("query", project(tokens, W_q, "W_q", convention))
    key = note("key", project(memory, W_k, "W_k", convention))
    value = note("value", project(memory, W_v, "W_v", convention))
    return attention(query, key, value, beta=beta, mask=mask, note=note)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    *PROJECTIONS,
    QUERY,
    Step("key", "K", r"X {W_k}", "token key_width", column_formula=r"{W_k} X"),
    Step("value", "V", r"X {W_v}", "token value_width", column_formula=r"{W_v} X"),
    *steps_of(attention),
)
def self_attention(
    tokens: Tensor,
    W_q: Tensor = None,
    W_k: Tensor = None,
    W_v: Tensor = None,
    *,
    beta: Scalar = None,
    mask: Mask = None,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """Tokens attend to each other: cross-attention with themselves as the memory."""
    return cross_attention(
        tokens, tokens, W_q, W_k, W_v, beta=beta, mask=mask, convention=convention, note=note
    )


def _split_step(name: str, rows: str, matrix: str, bias: str, axes: str) -> Step:
    formula, columns = (
        rf"\operatorname{{split}}({product} + {bias})" for product in (f"{rows} {matrix}", f"{matrix} {rows}")
    )
    return Step(name, name[0].upper(), formula, axes, columns)


# What every attention with several heads has: its inputs, the split into heads, the joining.
MULTI_HEAD_CARDS: tuple[Input | Step, ...] = (
    Input("tokens", "X", "token width", "one row per token: these attend"),
    *PROJECTIONS,
    W_O,
    Input("memory", "M", "key width", "what is attended to; none is the tokens themselves"),
    *BIASES,
    _split_step("query", "X", "{W_q}", "b_q", "token head head_width"),
    _split_step("key", "{memory}", "{W_k}", "b_k", "key head head_width"),
    _split_step("value", "{memory}", "{W_v}", "b_v", "key head value_width"),
)
JOINED_STEPS = (
    Step("per head", "H", r"A V", "token head value_width", column_formula=r"V A"),
    Step("joined", "J", r"[H_0, H_1, \ldots]", "token joined_width"),
    Step("output", "Y", r"J {W_o} + b_o", "token width", column_formula=r"{W_o} J + b_o"),
)


def steps_per_head(attention: Callable[..., Tensor]) -> tuple[Step, ...]:
    """The steps of this attention for each head, without its output, which joins the others'."""
    steps = steps_of(attention)[:-1]
    return tuple(replace(each, axes=f"head {each.axes}".replace(" width", " head_width")) for each in steps)


@mechanism(
    *MULTI_HEAD_CARDS,
    *steps_per_head(attention),
    *JOINED_STEPS,
    build_parameters=partial(group_parameters, AttentionParameters),
)
def multi_head_attention(
    tokens: Tensor,
    parameters: AttentionParameters,
    memory: Tensor = None,
    *,
    heads: int,
    beta: Scalar = None,
    mask: Mask = None,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """Several heads attend side by side; each matrix is split into as many blocks as there are heads."""
    attend = partial(attention, beta=beta, mask=mask)
    return attend_per_head(tokens, parameters, memory, attend, heads=heads, convention=convention, note=note)


def attend_per_head(
    tokens: Tensor,
    parameters: AttentionParameters,
    memory: Tensor,
    attend: Callable[..., Tensor],
    *,
    heads: int,
    convention: Convention,
    note: Note,
) -> Tensor:
    """Any attention with several heads: project and split, attend head by head, join and mix."""
    memory, p = tokens if memory is None else memory, parameters

    def affine(rows: Tensor, matrix: Tensor, bias: Tensor, letter: str) -> Tensor:
        return add_bias(project(rows, matrix, f"W_{letter}", convention), bias, f"b_{letter}")

    query = note("query", split_heads(affine(tokens, p.W_q, p.b_q, "q"), heads))
    key = note("key", split_heads(affine(memory, p.W_k, p.b_k, "k"), heads))
    value = note("value", split_heads(affine(memory, p.W_v, p.b_v, "v"), heads))

    def note_without_output(name: str, value: Any, /) -> Any:
        # The attention of each head puts the head first; outside, it stands beside the width.
        return value if name == "output" else note(name, value)

    heads_first = (part.transpose(-3, -2) for part in (query, key, value))
    outputs = attend(*heads_first, note=silent if note is silent else note_without_output)
    stacked = note("per head", outputs.transpose(-3, -2))
    joined = note("joined", stacked.reshape(*stacked.shape[:-2], stacked.shape[-2] * stacked.shape[-1]))
    return note("output", affine(joined, p.W_o, p.b_o, "o"))


def check_heads(where: str, width: int, heads: int) -> None:
    """Refuse a number of heads that does not divide the width, and name the nearest ones that do."""
    if remainder := width % heads if heads > 0 else width:
        divisors = [h for h in range(1, min(width, 1024) + 1) if width % h == 0]
        nearest = sorted(sorted(divisors, key=lambda h: abs(h - heads))[:3])
        raise InputError(
            f"{where}: width {width} cannot be cut into {heads} heads of one size (remainder {remainder}). "
            f"Choose a number of heads that divides {width}, such as {str(nearest)[1:-1]}; "
            f"or the width {width - remainder + max(heads, 1)}."
        )


def split_heads(rows: Tensor, heads: int) -> Tensor:
    """Rows of width heads * head_width, split into heads."""
    width = rows.shape[-1]
    check_heads("multi-head attention", width, heads)
    return rows.reshape(*rows.shape[:-1], heads, width // heads)


def check_attention_shapes(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> None:
    axes = {"query": "query width", "key": "key width", "value": "key value_width"}
    tensors = {"query": query, "key": key, "value": value}
    shapes = {name: format_shape(tensor.shape, axes[name]) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if len(tensor.shape) < 2:
            raise InputError(
                f"attention: {name} is {shapes[name]}, but rows and columns are needed. "
                "A single row is written [[1, 2]]."
            )
    if query.shape[-1] != key.shape[-1]:
        raise InputError(
            f"attention: key width {key.shape[-1]} differs from query width {query.shape[-1]}. "
            f"query is {shapes['query']}; key is {shapes['key']}. Project both to one width first."
        )
    if key.shape[-2] != value.shape[-2]:
        raise InputError(
            f"attention: {key.shape[-2]} keys but {value.shape[-2]} values. "
            f"key is {shapes['key']}; value is {shapes['value']}. Each key needs one value."
        )
    rows, columns = query.shape[-2], key.shape[-2]
    if isinstance(mask, str):
        if mask != "causal":
            raise InputError(f"attention: mask '{mask}' is not known. Give causal, or a matrix of 0 and 1.")
    elif mask is not None and tuple(mask.shape[-2:]) not in ((rows, columns), (1, columns)):
        shape = format_shape(mask.shape, "query key")
        raise InputError(
            f"attention: the mask is {shape}, but there are {rows} queries and {columns} keys. "
            "Give one row per query and one column per key."
        )
