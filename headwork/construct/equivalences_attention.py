"""Equivalences of attention: gather, recurrence, argmax, kernels, permutations; norms and positions."""

import math
from typing import Any

import numpy as np

from headwork.construct.equivalence import equivalence, integers, normals, registered_side, side
from headwork.mechanisms import attention, hardmax, self_attention, sinusoidal_positions
from headwork.mechanisms.positions import frequencies
from headwork.note import Input, Note, Step, get_mechanism, silent, steps_of
from headwork.numbers import stack

Tensor = Any
Random = np.random.Generator

VALUE = Input("value", "V", "key value_width", "one row per value")


def one_hot(like: Tensor, picks: tuple[int, ...], count: int) -> Tensor:
    """A row for each pick with one 1 in it."""
    return like.new_tensor([[int(j == k) for j in range(count)] for k in picks])


@side(
    VALUE,
    Step("query", "Q", r"\text{one-hot: which to take}", "query width"),
    Step("key", "K", r"I", "key width"),
    *steps_of(attention),
)
def one_hot_attention(value: Tensor, *, picks: tuple[int, ...], note: Note = silent) -> Tensor:
    """Hard attention: query i is the one-hot row of the key it takes, the keys are the identity."""
    count = value.shape[-2]
    query = note("query", one_hot(value, picks, count))
    key = note("key", one_hot(value, tuple(range(count)), count))
    return attention(query, key, value, beta=math.inf, note=note)


@side(VALUE, Step("output", "Y", r"V_{p_i}", "query value_width"))
def gather(value: Tensor, *, picks: tuple[int, ...], note: Note = silent) -> Tensor:
    """Row by row, the selected value: nothing is computed."""
    return note("output", stack([value[k] for k in picks], 0))


@equivalence(one_hot_attention, gather)
def one_hot_attention_gather(rng: Random) -> dict[str, Any]:
    count, queries, width = integers(rng, 1, 9, 3)
    picks = integers(rng, 0, count, queries)
    return {**normals(rng, value=(count, width)), "picks": picks}


def attention_case(rng: Random) -> dict[str, Any]:
    tokens, width, value_width = integers(rng, 1, 9, 3)
    return normals(rng, query=(tokens, width), key=(tokens, width), value=(tokens, value_width))


@equivalence(registered_side("linear-attention"), registered_side("linear-attention-recurrent"))
def linear_attention_recurrence(rng: Random) -> dict[str, Any]:
    mask = "causal" if rng.integers(2) else None
    return {**attention_case(rng), "features": "elu+1", "mask": mask}


@equivalence(registered_side("linear-attention-chunked"), registered_side("linear-attention-recurrent"))
def linear_attention_chunks(rng: Random) -> dict[str, Any]:
    case = {**attention_case(rng), "features": "elu+1", "mask": "causal"}
    return {**case, "chunk": int(rng.integers(1, 6))}


@side(
    *get_mechanism("layer-normalisation").inputs,
    Step("projection", "P", r"I - \tfrac{1}{d} 1 1^\top", "width width"),
    Step("projected", "X'", r"X P", "token width"),
    Step("length", r"\ell", r"|x'|", "token one"),
    Step("normalised", "N", r"\sqrt{d}\, X' / \ell", "token width"),
    Step("output", "Y", r"\gamma N + b", "token width"),
    weight_names="scale shift",
)
def projection_and_scaling(tokens: Tensor, scale: Tensor, shift: Tensor, *, note: Note = silent) -> Tensor:
    """Projects each token onto the hyperplane of entries that sum to 0, then scales it to length sqrt(d)."""
    width = tokens.shape[-1]
    identity = one_hot(tokens, tuple(range(width)), width)
    projection = note("projection", identity - tokens.new_ones(width, width) / width)
    projected = note("projected", tokens @ projection)
    length = note("length", (projected * projected).sum(-1, keepdim=True).sqrt())
    normalised = note("normalised", tokens.new_tensor(width).sqrt() * projected / length)
    return note("output", normalised * scale + shift)


@equivalence(registered_side("layer-normalisation", weight_names="scale shift"), projection_and_scaling)
def layer_normalisation_projection(rng: Random) -> dict[str, Any]:
    tokens, width = int(rng.integers(1, 9)), int(rng.integers(2, 12))
    return normals(rng, tokens=(tokens, width), scale=width, shift=width)


POSITIONS = (
    Input("places", "t", "token", "the position of each token"),
    Input("by", "s", "one", "how far to shift"),
)
SINUSOIDS = steps_of(sinusoidal_positions)


@side(*POSITIONS, Step("shifted", "t'", r"t + s", "token"), *SINUSOIDS)
def positions_of_shifted_places(places: Tensor, by: Tensor, *, width: int, note: Note = silent) -> Tensor:
    """The sinusoidal codes of the positions t + s."""
    return sinusoidal_positions(note("shifted", places + by), width=width, note=note)


@side(
    *POSITIONS,
    Step("codes", "P", r"P(t)", "token width"),
    Step(
        "rotation",
        "R",
        r"\text{blocks } (\cos s\omega_k, \sin s\omega_k; -\sin s\omega_k, \cos s\omega_k)",
        "width width",
    ),
    Step("output", "P'", r"P R^\top", "token width"),
)
def rotated_positions(places: Tensor, by: Tensor, *, width: int, note: Note = silent) -> Tensor:
    """The codes of the positions t, each pair rotated by the angle s w_k: one matrix for all."""
    codes = note("codes", sinusoidal_positions(places, width=width))
    angles = (by * frequencies(places, width, 10000)).unsqueeze(0)
    pair = np.eye(width // 2, dtype=int)
    same, across = (
        places.new_tensor(np.einsum("kp,kq,ij->kpiqj", pair, pair, block).reshape(width // 2, -1))
        for block in ([[1, 0], [0, 1]], [[0, 1], [-1, 0]])
    )
    rotation = note("rotation", (angles.cos() @ same + angles.sin() @ across).reshape(width, width))
    return note("output", codes @ rotation.mT)


@equivalence(positions_of_shifted_places, rotated_positions)
def sinusoidal_rotation(rng: Random) -> dict[str, Any]:
    count = int(rng.integers(1, 30))
    return {
        "places": np.arange(float(count)),
        "by": np.array(float(rng.integers(-9, 10))),
        "width": 2 * int(rng.integers(1, 9)),
    }


SCORES = Input("scores", "S", "query key", "one row per query")


@side(
    SCORES,
    Input("beta", r"\beta", "one", "the hardness"),
    Step("scaled", r"\beta S", r"\beta\, S", "query key"),
    Step("weights", "A", r"\operatorname{softmax}(\beta S)", "query key"),
)
def softmax_of_beta(scores: Tensor, beta: Tensor, *, note: Note = silent) -> Tensor:
    """softmax(beta S), row by row."""
    return note("weights", note("scaled", beta * scores).softmax(-1))


@side(SCORES, Step("weights", "A", r"1 \text{ where largest, ties share}", "query key"))
def argmax(scores: Tensor, *, note: Note = silent) -> Tensor:
    """One-hot on the largest score of each row; equal ones share."""
    return note("weights", hardmax(scores))


@equivalence(softmax_of_beta, argmax, limit=("beta", "oo"))
def softmax_argmax(rng: Random) -> dict[str, Any]:
    rows, columns = integers(rng, 1, 9, 2)
    return {"scores": rng.integers(-5, 6, size=(rows, columns)).astype(float), "beta": np.array(100.0)}


SMOOTHING_INPUTS = (*get_mechanism("attention").inputs, Input("beta", r"\beta", "one", "the hardness"))


@side(*SMOOTHING_INPUTS, *steps_of(attention))
def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *, note: Note = silent
) -> Tensor:
    """softmax(beta Q K^T) V."""
    return attention(query, key, value, beta=beta, note=note)


@side(
    *SMOOTHING_INPUTS,
    Step("distances", "D", r"|q_i - k_j|^2", "query key"),
    Step("kernel", "G", r"e^{-\beta D / 2}", "query key"),
    Step("output", "Y", r"\textstyle\sum_j G_{ij} v_j / \sum_j G_{ij}", "query value_width"),
)
def kernel_smoothing(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *, note: Note = silent
) -> Tensor:
    """The mean of the values, weighted by a Gaussian kernel of the distance from query to key."""
    differences = query.unsqueeze(-2) - key.unsqueeze(-3)
    distances = note("distances", (differences * differences).sum(-1))
    kernel = note("kernel", (-(beta * distances) / 2).exp())
    return note("output", (kernel @ value) / kernel.sum(-1, keepdim=True))


@equivalence(dot_product_attention, kernel_smoothing)
def attention_kernel_smoothing(rng: Random) -> dict[str, Any]:
    case = attention_case(rng)
    case["key"] /= np.linalg.norm(case["key"], axis=-1, keepdims=True)
    return {**case, "beta": np.array(rng.uniform(0.1, 2.0))}


TOKENS = get_mechanism("self-attention").inputs


@side(
    *TOKENS,
    *steps_of(self_attention),
    Step("permuted", "P Y", r"\text{rows of } Y \text{ in another order}", "token width"),
    weight_names="W_q W_k W_v",
)
def attention_then_permutation(
    tokens: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, *, order: tuple[int, ...], note: Note = silent
) -> Tensor:
    """Self-attention, then its rows in another order."""
    output = self_attention(tokens, W_q, W_k, W_v, note=note)
    return note("permuted", stack([output[k] for k in order], 0))


@side(
    *TOKENS,
    Step("permuted", "P X", r"\text{rows of } X \text{ in another order}", "token width"),
    *steps_of(self_attention),
    weight_names="W_q W_k W_v",
)
def permutation_then_attention(
    tokens: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, *, order: tuple[int, ...], note: Note = silent
) -> Tensor:
    """The tokens in another order, then self-attention."""
    permuted = note("permuted", stack([tokens[k] for k in order], 0))
    return self_attention(permuted, W_q, W_k, W_v, note=note)


@equivalence(attention_then_permutation, permutation_then_attention)
def attention_permutation(rng: Random) -> dict[str, Any]:
    tokens, width, key_width = integers(rng, 1, 9, 3)
    matrices = normals(rng, **dict.fromkeys(("W_q", "W_k", "W_v"), (key_width, width)))
    order = tuple(int(k) for k in rng.permutation(tokens))
    return {**normals(rng, tokens=(tokens, width)), **matrices, "order": order}
