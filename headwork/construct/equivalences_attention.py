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


@equivalence(
    title="one-hot attention = gather",
    why="""A weight matrix with one 1 in each row selects rows: A V copies them. Attention is a gather whose
    index is soft, so that it has a gradient; what the gather does without any arithmetic costs attention
    two matrix products.""",
    left=one_hot_attention,
    right=gather,
    small={"value": "a1 a2; b1 b2; c1 c2", "picks": (2, 0, 0, 1)},
)
def one_hot_attention_gather(rng: Random) -> dict[str, Any]:
    count, queries, width = integers(rng, 1, 9, 3)
    picks = integers(rng, 0, count, queries)
    return {**normals(rng, value=(count, width)), "picks": picks}


def attention_case(rng: Random) -> dict[str, Any]:
    tokens, width, value_width = integers(rng, 1, 9, 3)
    return normals(rng, query=(tokens, width), key=(tokens, width), value=(tokens, value_width))


@equivalence(
    title="linear attention = recurrence with a matrix state",
    why="""Without the exponential the products can be bracketed the other way: (phi(q) phi(k)^T) v = phi(q)
    (phi(k)^T v). The bracket does not depend on the query, so it is a state to which each token adds one
    outer product: n d^2 instead of n^2 d.""",
    left=registered_side("linear-attention"),
    right=registered_side("linear-attention-recurrent"),
    small={"query": "q1 q2; 1 1", "key": "k1 k2; 1 2", "value": "v1; v2"},
    large={"query": (1024, 16), "key": (1024, 16), "value": (1024, 16)},
)
def linear_attention_recurrence(rng: Random) -> dict[str, Any]:
    mask = "causal" if rng.integers(2) else None
    return {**attention_case(rng), "features": "elu+1", "mask": mask}


@equivalence(
    title="causal linear attention in chunks = step by step",
    why="""Within a chunk the products are taken in parallel, up to the diagonal; what came before the chunk
    is in the state. A larger chunk means more multiplications, but fewer and larger products; no number
    changes.""",
    left=registered_side("linear-attention-chunked"),
    right=registered_side("linear-attention-recurrent"),
    small={"query": "q1; q2; 1", "key": "k1; 2; 1", "value": "v1; v2; v3", "mask": "causal", "chunk": 2},
    large={"query": (1024, 16), "key": (1024, 16), "value": (1024, 16), "mask": "causal", "chunk": 64},
)
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
    stored="scale shift",
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


@equivalence(
    title="layer normalisation = projection and scaling",
    why="""Subtracting the mean is the projection I - 11^T/d; the standard deviation is the length of the
    rest, divided by sqrt(d). So every token lands on a sphere of radius sqrt(d) in a hyperplane, and only
    its direction is kept. (The projection is fixed: it is no weight.)""",
    left=registered_side("layer-normalisation", stored="scale shift"),
    right=projection_and_scaling,
    small={"tokens": "1 2 6; x 0 0", "scale": "a1 a2 a3", "shift": "b1 b2 b3"},
)
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
    pairs = range(width // 2)
    same = [[[int(i == j and i // 2 == k) for j in range(width)] for i in range(width)] for k in pairs]

    def entry(i: int, j: int, k: int) -> int:
        return (i // 2 == j // 2 == k) * ((j == i + 1) - (i == j + 1))

    across = [[[entry(i, j, k) for j in range(width)] for i in range(width)] for k in pairs]
    flat = [places.new_tensor(part).reshape(width // 2, width * width) for part in (same, across)]
    rotation = note("rotation", (angles.cos() @ flat[0] + angles.sin() @ flat[1]).reshape(width, width))
    return note("output", codes @ rotation.mT)


@equivalence(
    title="sinusoidal shift = rotation of each pair",
    why="""sin(a + b) and cos(a + b) are combinations of sin a and cos a with cos b and sin b. So moving
    every token by s multiplies its code by one matrix that does not depend on the position: a head can
    attend at an offset with a fixed W_q.""",
    left=positions_of_shifted_places,
    right=rotated_positions,
    small={"places": "0 1 t", "by": "s", "width": 4},
)
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


@equivalence(
    title="softmax with beta -> infinity = argmax",
    why="""Divide numerator and denominator by the largest exponential: every other term is e^(-beta gap)
    and vanishes. A tie has gap 0 and never sharpens. The random cases have whole-number scores and beta =
    100, so the other terms are below e^(-100).""",
    left=softmax_of_beta,
    right=argmax,
    small={"scores": "1 3 2; 0 2 2; 1 1 1", "beta": "beta"},
    limit=("beta", "oo"),
)
def softmax_argmax(rng: Random) -> dict[str, Any]:
    rows, columns = integers(rng, 1, 9, 2)
    return {"scores": rng.integers(-5, 6, size=(rows, columns)).astype(float), "beta": np.array(100.0)}


SMOOTHED = (*get_mechanism("attention").inputs, Input("beta", r"\beta", "one", "the hardness"))


@side(*SMOOTHED, *steps_of(attention))
def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *, note: Note = silent
) -> Tensor:
    """softmax(beta Q K^T) V."""
    return attention(query, key, value, beta=beta, note=note)


@side(
    *SMOOTHED,
    Step("distances", "D", r"|q_i - k_j|^2", "query key"),
    Step("kernel", "G", r"e^{-\beta D / 2}", "query key"),
    Step("output", "Y", r"\textstyle\sum_j G_{ij} v_j / \sum_j G_{ij}", "query value_width"),
)
def kernel_smoothing(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *, note: Note = silent
) -> Tensor:
    """The mean of the values, weighted by a Gaussian kernel of the distance from query to key."""
    apart = query.unsqueeze(-2) - key.unsqueeze(-3)
    distances = note("distances", (apart * apart).sum(-1))
    kernel = note("kernel", (-(beta * distances) / 2).exp())
    return note("output", (kernel @ value) / kernel.sum(-1, keepdim=True))


@equivalence(
    title="attention = kernel smoothing (Nadaraya-Watson)",
    why="""|q - k|^2 = |q|^2 + |k|^2 - 2 q.k. Where all keys have the same norm the first two terms are the
    same for every key of a query and cancel, so the Gaussian of the distance, with variance 1/beta, gives
    the softmax weights. (Keys of different norms are weighted by e^(beta |k|^2 / 2) as well.)""",
    left=dot_product_attention,
    right=kernel_smoothing,
    small={"query": "1 0; 1 2", "key": "1 0; 0 1; -1 0", "value": "v1; v2; v3", "beta": "1"},
)
def attention_kernel_smoothing(rng: Random) -> dict[str, Any]:
    case = attention_case(rng)
    case["key"] /= np.linalg.norm(case["key"], axis=-1, keepdims=True)
    return {**case, "beta": np.array(rng.uniform(0.1, 2.0))}


TOKENS = get_mechanism("self-attention").inputs


@side(
    *TOKENS,
    *steps_of(self_attention),
    Step("permuted", "P Y", r"\text{rows of } Y \text{ in another order}", "token width"),
    stored="W_q W_k W_v",
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
    stored="W_q W_k W_v",
)
def permutation_then_attention(
    tokens: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, *, order: tuple[int, ...], note: Note = silent
) -> Tensor:
    """The tokens in another order, then self-attention."""
    permuted = note("permuted", stack([tokens[k] for k in order], 0))
    return self_attention(permuted, W_q, W_k, W_v, note=note)


@equivalence(
    title="self-attention without positions commutes with permutations",
    why="""With P X the queries, keys and values are permuted alike, the scores become P S P^T, softmax
    works row by row, and (P A P^T)(P V) = P A V. So such a layer cannot know the order: sets need no
    positions, sequences do.""",
    left=attention_then_permutation,
    right=permutation_then_attention,
    small={
        "tokens": "1 2; 2 0; 0 1",
        "W_q": "1 1; 0 1",
        "W_k": "1 0; 2 1",
        "W_v": "1 3; 0 1",
        "order": (2, 0, 1),
    },
)
def attention_permutation(rng: Random) -> dict[str, Any]:
    tokens, width, key_width = integers(rng, 1, 9, 3)
    matrices = normals(rng, **dict.fromkeys(("W_q", "W_k", "W_v"), (key_width, width)))
    order = tuple(int(k) for k in rng.permutation(tokens))
    return {**normals(rng, tokens=(tokens, width)), **matrices, "order": order}
