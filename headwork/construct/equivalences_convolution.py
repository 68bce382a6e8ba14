"""Equivalences of convolution: matrices, pooling, patches, heads, linear recurrence."""

from typing import Any

import numpy as np

from headwork.construct.equivalence import equivalence, integers, normals, registered_side, side
from headwork.mechanisms import convolution_1d, convolution_2d, patches, recurrence
from headwork.mechanisms.recurrence import recurrent_states
from headwork.note import Input, Note, Step, silent, steps_of
from headwork.numbers import cat, stack

Tensor = Any
Random = np.random.Generator

SIGNAL = Input("signal", "x", "position", "one channel")
IMAGE = Input("image", "I", "channel height width", "")


@equivalence(
    registered_side("convolution-1d", weight_names="kernel"),
    registered_side("toeplitz", weight_names="matrix"),
)
def convolution_toeplitz(rng: Random) -> dict[str, Any]:
    length, size = int(rng.integers(5, 30)), int(rng.integers(1, 6))
    case = normals(rng, signal=length, kernel=size)
    return {**case, "stride": int(rng.integers(1, 4)), "padding": int(rng.integers(0, size))}


@side(
    SIGNAL,
    Input("kernels", "k", "output tap", "one row of taps per output", trainable=True),
    Step("windows", "X", r"X_{i,j} = x_{s i + j}", "output tap"),
    Step("output", "y", r"\textstyle\sum_j k_{i,j} X_{i,j}", "output"),
    weight_names="kernels",
)
def windows_with_own_taps(signal: Tensor, kernels: Tensor, *, stride: int = 1, note: Note = silent) -> Tensor:
    """Each output multiplies its own window by taps of its own."""
    windows = note("windows", signal.unfold(-1, kernels.shape[-1], stride))
    return note("output", (windows * kernels).sum(-1))


@equivalence(windows_with_own_taps, registered_side("locally-connected", weight_names="matrix"))
def locally_connected_banded(rng: Random) -> dict[str, Any]:
    length, size, stride = (int(rng.integers(5, 30)), int(rng.integers(1, 6)), int(rng.integers(1, 4)))
    count = (length - size) // stride + 1
    return {**normals(rng, signal=length, kernels=(count, size)), "stride": stride}


@side(
    IMAGE,
    Step("kernel", "K", r"\tfrac{1}{m^2}", "kernel_height kernel_width"),
    Step("output", "Y", r"\textstyle\sum_{a,b} K_{a,b} I_{s i + a,\, s j + b}", "output_height output_width"),
    weight_names="kernel",
)
def mean_filter(image: Tensor, *, size: int, stride: int, note: Note = silent) -> Tensor:
    """A convolution whose kernel is 1/m^2 everywhere."""
    kernel = note("kernel", image.new_ones(size, size) / (size * size))
    return convolution_2d(image, kernel, stride=stride, note=note)


@equivalence(registered_side("average-pooling"), mean_filter)
def average_pooling_mean_filter(rng: Random) -> dict[str, Any]:
    size = int(rng.integers(1, 5))
    height, width = integers(rng, size, size + 9, 2)
    case = normals(rng, image=(height, width))
    return {**case, "size": size, "stride": int(rng.integers(1, size + 1))}


EMBEDDING = Input("W", "W", "width feature", "one row per embedded feature", trainable=True)


@side(
    IMAGE,
    EMBEDDING,
    Step("patches", "X", r"\text{one row per patch}", "patch feature"),
    Step("output", "Y", r"X W^\top", "patch width"),
    weight_names="W",
)
def patch_embedding(image: Tensor, W: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """Cuts the image into patches, lays each out as a row, and projects it."""
    rows = note("patches", patches(image, size=size))
    return note("output", rows @ W.mT)


@side(
    IMAGE,
    EMBEDDING,
    Step(
        "kernel",
        "K",
        r"\text{each row of } W \text{ as a patch}",
        "output_channel channel kernel_height kernel_width",
    ),
    Step("map", "F", r"I * K,\; \text{stride} = \text{kernel}", "output_channel output_height output_width"),
    Step("output", "Y", r"\text{one row per position}", "patch width"),
    weight_names="kernel",
)
def convolution_with_stride(image: Tensor, W: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """A convolution whose stride is its kernel size, read position by position."""
    kernel = note("kernel", W.reshape(W.shape[0], image.shape[0], size, size))
    features = note("map", convolution_2d(image, kernel, stride=size))
    return note("output", features.reshape(W.shape[0], features.shape[-2] * features.shape[-1]).mT)


@equivalence(patch_embedding, convolution_with_stride)
def patch_embedding_convolution(rng: Random) -> dict[str, Any]:
    size, channels, width = integers(rng, 1, 5, 3)
    rows, columns = integers(rng, 1, 5, 2)
    shapes = {"image": (channels, rows * size, columns * size), "W": (width, channels * size * size)}
    return {**normals(rng, **shapes), "size": size}


HEAD_INPUTS = (
    Input("tokens", "X", "token width", "one row per token"),
    Input("W_v", "W_v", "joined_width width", "value projections of all heads, stacked", trainable=True),
    Input(
        "blocks",
        "B",
        "joined_width slice",
        "projections that read only their head's slice of the width",
        trainable=True,
    ),
)


@side(
    *HEAD_INPUTS,
    Step("head */value", "V_h", r"X W_{v,h}^\top", "token value_width"),
    Step("head */slice", "V'_h", r"X_h B_h^\top", "token value_width"),
    Step("joined", "J", r"[V_0, V_1, \ldots]", "token joined_width"),
    Step("joined slices", "J'", r"[V'_0, V'_1, \ldots]", "token joined_width"),
    Step("output", "Y", r"[J, J, J']", "token all"),
    weight_names="W_v blocks",
)
def joined_values(tokens: Tensor, W_v: Tensor, blocks: Tensor, *, heads: int, note: Note = silent) -> Tensor:
    """Each head projects the tokens; the results are joined. Then again with heads that read only a slice."""
    rows_per_head, slice_width = W_v.shape[0] // heads, tokens.shape[-1] // heads
    whole, sliced = [], []
    for h in range(heads):
        rows = slice(h * rows_per_head, (h + 1) * rows_per_head)
        whole.append(note(f"head {h}/value", tokens @ W_v[rows].mT))
        sliced.append(
            note(f"head {h}/slice", tokens[:, h * slice_width : (h + 1) * slice_width] @ blocks[rows].mT)
        )
    joined, slices = note("joined", cat(whole, -1)), note("joined slices", cat(sliced, -1))
    return note("output", cat([joined, joined, slices], -1))


@side(
    *HEAD_INPUTS,
    Step("plain", "C", r"X^\top * W_v,\; \text{kernel } 1,\; \text{no groups}", "joined_width token"),
    Step("repeated", "C_h", r"[X^\top; X^\top; \ldots] * W_v,\; \text{groups} = h", "joined_width token"),
    Step("grouped", "C'", r"X^\top * B,\; \text{groups} = h", "joined_width token"),
    Step("output", "Y", r"[C; C_h; C']^\top", "token all"),
    weight_names="W_v blocks",
)
def convolution_of_kernel_1(
    tokens: Tensor, W_v: Tensor, blocks: Tensor, *, heads: int, note: Note = silent
) -> Tensor:
    """Convolutions of kernel size 1: without groups, with groups on the repeated input, with groups."""
    signal, kernel = tokens.mT, W_v.unsqueeze(-1)
    plain = note("plain", convolution_1d(signal, kernel))
    repeated = note("repeated", convolution_1d(cat([signal] * heads, 0), kernel, groups=heads))
    grouped = note("grouped", convolution_1d(signal, blocks.unsqueeze(-1), groups=heads))
    return note("output", cat([plain, repeated, grouped], 0).mT)


@equivalence(joined_values, convolution_of_kernel_1)
def heads_convolution(rng: Random) -> dict[str, Any]:
    heads, value_width, slice_width, tokens = integers(rng, 1, 5, 4)
    rows, width = heads * value_width, heads * slice_width
    return {
        **normals(rng, tokens=(tokens, width), W_v=(rows, width), blocks=(rows, slice_width)),
        "heads": heads,
    }


RECURRENCE = (
    Input("inputs", "x", "time", "one number per step"),
    Input("W_x", "w_x", "one", "weight of the input", trainable=True),
    Input("W_h", "w_h", "one", "weight of the state", trainable=True),
)


@side(
    *RECURRENCE,
    *(s for s in steps_of(recurrence) if s.name != "output"),
    Step("output", "h", r"h_1, h_2, \ldots", "time"),
    weight_names="W_x W_h",
)
def linear_recurrence(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """h_t = w_x x_t + w_h h_(t-1), step by step; every state is recorded."""
    states = recurrent_states(inputs, W_x, W_h, None, None, "linear", note)
    return note("output", stack(states, 0).squeeze(-1))


@side(
    *RECURRENCE,
    Step("kernel", "k", r"w_x w_h^{T-1}, \ldots, w_x w_h, w_x", "tap"),
    Step("padded", "x'", r"T - 1 \text{ zeros, then } x", "position"),
    Step("output", "h", r"x' * k", "time"),
    weight_names="kernel",
)
def convolution_with_powers(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """One causal convolution: an input t steps ago has the weight w_x w_h^t."""
    length = inputs.shape[-1]
    taps = [W_x]
    for _ in range(length - 1):
        taps.append(taps[-1] * W_h)
    kernel = note("kernel", stack(taps[::-1], 0))
    padded = note("padded", cat([inputs.new_zeros(length - 1), inputs], 0) if length > 1 else inputs)
    return convolution_1d(padded, kernel, note=note)


@equivalence(linear_recurrence, convolution_with_powers)
def linear_rnn_convolution(rng: Random) -> dict[str, Any]:
    return {
        "inputs": rng.normal(size=int(rng.integers(1, 25))),
        "W_x": np.array(rng.normal()),
        "W_h": np.array(rng.uniform(-1.2, 1.2)),
    }
