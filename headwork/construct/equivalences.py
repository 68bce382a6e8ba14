"""The equivalences, in the order in which they are listed: of convolution, then of attention.

Their titles, reasons and cases stand in ``equivalences.toml``, the cards of their sides in ``sides.toml``.
"""

import math
from typing import Any

import numpy as np

from headwork import mechanisms
from headwork.construct.equivalence import equivalence, integers, normals, registered_side, side
from headwork.mechanisms.positions import frequencies
from headwork.mechanisms.recurrence import recurrent_states
from headwork.note import Note, silent
from headwork.numbers import cat, stack

Tensor = Any
Random = np.random.Generator


@equivalence(
    registered_side("convolution-1d", weight_names="kernel"),
    registered_side("toeplitz", weight_names="matrix"),
)
def convolution_toeplitz(rng: Random) -> dict[str, Any]:
    length, size = int(rng.integers(5, 30)), int(rng.integers(1, 6))
    case = normals(rng, signal=length, kernel=size)
    return {**case, "stride": int(rng.integers(1, 4)), "padding": int(rng.integers(0, size))}


@side
def windows_with_own_taps(signal: Tensor, kernels: Tensor, *, stride: int = 1, note: Note = silent) -> Tensor:
    """Each output multiplies its own window by taps of its own."""
    windows = note("windows", signal.unfold(-1, kernels.shape[-1], stride))
    return note("output", (windows * kernels).sum(-1))


@equivalence(windows_with_own_taps, registered_side("locally-connected", weight_names="matrix"))
def locally_connected_banded(rng: Random) -> dict[str, Any]:
    length, size, stride = (int(rng.integers(5, 30)), int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    count = (length - size) // stride + 1
    return {**normals(rng, signal=length, kernels=(count, size)), "stride": stride}


@side
def mean_filter(image: Tensor, *, size: int, stride: int, note: Note = silent) -> Tensor:
    """A convolution whose kernel is 1/m^2 everywhere."""
    kernel = note("kernel", image.new_ones(size, size) / (size * size))
    return mechanisms.convolution_2d(image, kernel, stride=stride, note=note)


@equivalence(registered_side("average-pooling"), mean_filter)
def average_pooling_mean_filter(rng: Random) -> dict[str, Any]:
    size = int(rng.integers(1, 5))
    height, width = integers(rng, size, size + 9, 2)
    case = normals(rng, image=(height, width))
    return {**case, "size": size, "stride": int(rng.integers(1, size + 1))}


@side
def patch_embedding(image: Tensor, W: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """Cuts the image into patches, lays each out as a row, and projects it."""
    rows = note("patches", mechanisms.patches(image, size=size))
    return note("output", rows @ W.mT)


@side
def convolution_with_stride(image: Tensor, W: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """A convolution whose stride is its kernel size, read position by position."""
    kernel = note("kernel", W.reshape(W.shape[0], image.shape[0], size, size))
    features = note("map", mechanisms.convolution_2d(image, kernel, stride=size))
    return note("output", features.reshape(W.shape[0], features.shape[-2] * features.shape[-1]).mT)


@equivalence(patch_embedding, convolution_with_stride)
def patch_embedding_convolution(rng: Random) -> dict[str, Any]:
    size, channels, width = integers(rng, 1, 5, 3)
    rows, columns = integers(rng, 1, 5, 2)
    shapes = {"image": (channels, rows * size, columns * size), "W": (width, channels * size * size)}
    return {**normals(rng, **shapes), "size": size}


@side
def joined_values(tokens: Tensor, W_v: Tensor, blocks: Tensor, *, heads: int, note: Note = silent) -> Tensor:
    """Each head projects the tokens; the results are joined. Then again with heads that read only a slice."""
    rows_per_head, slice_width = W_v.shape[0] // heads, tokens.shape[-1] // heads
    full_values, sliced_values = [], []
    for h in range(heads):
        rows = slice(h * rows_per_head, (h + 1) * rows_per_head)
        full_values.append(note(f"head {h}/value", tokens @ W_v[rows].mT))
        sliced_values.append(
            note(f"head {h}/slice", tokens[:, h * slice_width : (h + 1) * slice_width] @ blocks[rows].mT)
        )
    joined, slices = note("joined", cat(full_values, -1)), note("joined slices", cat(sliced_values, -1))
    return note("output", cat([joined, joined, slices], -1))


@side
def convolution_of_kernel_1(
    tokens: Tensor, W_v: Tensor, blocks: Tensor, *, heads: int, note: Note = silent
) -> Tensor:
    """Convolutions of kernel size 1: without groups, with groups on the repeated input, with groups."""
    signal, kernel = tokens.mT, W_v.unsqueeze(-1)
    plain = note("plain", mechanisms.convolution_1d(signal, kernel))
    repeated = note("repeated", mechanisms.convolution_1d(cat([signal] * heads, 0), kernel, groups=heads))
    grouped = note("grouped", mechanisms.convolution_1d(signal, blocks.unsqueeze(-1), groups=heads))
    return note("output", cat([plain, repeated, grouped], 0).mT)


@equivalence(joined_values, convolution_of_kernel_1)
def heads_convolution(rng: Random) -> dict[str, Any]:
    heads, value_width, slice_width, tokens = integers(rng, 1, 5, 4)
    rows, width = heads * value_width, heads * slice_width
    return {
        **normals(rng, tokens=(tokens, width), W_v=(rows, width), blocks=(rows, slice_width)),
        "heads": heads,
    }


@side
def linear_recurrence(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """h_t = w_x x_t + w_h h_(t-1), step by step; every state is recorded."""
    states = recurrent_states(inputs, W_x, W_h, None, None, "linear", note)
    return note("output", stack(states, 0).squeeze(-1))


@side
def convolution_with_powers(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """One causal convolution: an input t steps ago has the weight w_x w_h^t."""
    length = inputs.shape[-1]
    taps = [W_x]
    for _ in range(length - 1):
        taps.append(taps[-1] * W_h)
    kernel = note("kernel", stack(taps[::-1], 0))
    padded = note("padded", cat([inputs.new_zeros(length - 1), inputs], 0) if length > 1 else inputs)
    return mechanisms.convolution_1d(padded, kernel, note=note)


@equivalence(linear_recurrence, convolution_with_powers)
def linear_rnn_convolution(rng: Random) -> dict[str, Any]:
    return {
        "inputs": rng.normal(size=int(rng.integers(1, 25))),
        "W_x": np.array(rng.normal()),
        "W_h": np.array(rng.uniform(-1.2, 1.2)),
    }


def one_hot(like: Tensor, picks: tuple[int, ...], count: int) -> Tensor:
    """A row for each pick with one 1 in it."""
    return like.new_tensor([[int(j == k) for j in range(count)] for k in picks])


@side
def one_hot_attention(value: Tensor, *, picks: tuple[int, ...], note: Note = silent) -> Tensor:
    """Hard attention: query i is the one-hot row of the key it takes, the keys are the identity."""
    count = value.shape[-2]
    query = note("query", one_hot(value, picks, count))
    key = note("key", one_hot(value, tuple(range(count)), count))
    return mechanisms.attention(query, key, value, beta=math.inf, note=note)


@side
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


@side
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


@side
def positions_of_shifted_places(places: Tensor, by: Tensor, *, width: int, note: Note = silent) -> Tensor:
    """The sinusoidal codes of the positions t + s."""
    return mechanisms.sinusoidal_positions(note("shifted", places + by), width=width, note=note)


@side
def rotated_positions(places: Tensor, by: Tensor, *, width: int, note: Note = silent) -> Tensor:
    """The codes of the positions t, each pair rotated by the angle s w_k: one matrix for all."""
    codes = note("codes", mechanisms.sinusoidal_positions(places, width=width))
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


@side
def softmax_of_beta(scores: Tensor, beta: Tensor, *, note: Note = silent) -> Tensor:
    """softmax(beta S), row by row."""
    return note("weights", note("scaled", beta * scores).softmax(-1))


@side
def argmax(scores: Tensor, *, note: Note = silent) -> Tensor:
    """One-hot on the largest score of each row; equal ones share."""
    return note("weights", mechanisms.hardmax(scores))


@equivalence(softmax_of_beta, argmax, limit=("beta", "oo"))
def softmax_argmax(rng: Random) -> dict[str, Any]:
    rows, columns = integers(rng, 1, 9, 2)
    return {"scores": rng.integers(-5, 6, size=(rows, columns)).astype(float), "beta": np.array(100.0)}


@side
def dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, *, note: Note = silent
) -> Tensor:
    """softmax(beta Q K^T) V."""
    return mechanisms.attention(query, key, value, beta=beta, note=note)


@side
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


@side
def attention_then_permutation(
    tokens: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, *, order: tuple[int, ...], note: Note = silent
) -> Tensor:
    """Self-attention, then its rows in another order."""
    output = mechanisms.self_attention(tokens, W_q, W_k, W_v, note=note)
    return note("permuted", stack([output[k] for k in order], 0))


@side
def permutation_then_attention(
    tokens: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, *, order: tuple[int, ...], note: Note = silent
) -> Tensor:
    """The tokens in another order, then self-attention."""
    permuted = note("permuted", stack([tokens[k] for k in order], 0))
    return mechanisms.self_attention(permuted, W_q, W_k, W_v, note=note)


@equivalence(attention_then_permutation, permutation_then_attention)
def attention_permutation(rng: Random) -> dict[str, Any]:
    tokens, width, key_width = integers(rng, 1, 9, 3)
    matrices = normals(rng, **dict.fromkeys(("W_q", "W_k", "W_v"), (key_width, width)))
    order = tuple(int(k) for k in rng.permutation(tokens))
    return {**normals(rng, tokens=(tokens, width)), **matrices, "order": order}
