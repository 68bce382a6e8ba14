r"""Small formulas that exercises ask for: counts, shapes and limits, written like every mechanism.

They note their steps, so they are marked, carried forward and diagnosed as attention is. Counts take plain
integers; the others are composed of mechanisms.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from headwork.mechanisms.attention import QKV_CARDS, Scalar, Tensor, attention
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.note import Input, Mechanism, Note, Step, inside, mechanism, silent, steps_of
from headwork.numbers import HandTensor, stack

EXERCISE_MECHANISMS: dict[str, Mechanism] = {}  # only for exercises
exercise_mechanism = partial(mechanism, registry=EXERCISE_MECHANISMS)


# --- counts -----------------------------------------------------------------------------------------
@exercise_mechanism(
    Input("height", "H", "", "of the image"),
    Input("width", "W", "", "of the image"),
    Input("patch", "P", "", "side of a square patch"),
    Input("channels", "C", "", "of the image"),
    Step("down", "n_H", r"H / P", ""),
    Step("across", "n_W", r"W / P", ""),
    Step("patches", "n", r"n_H n_W", ""),
    Step("tokens", "T", r"n + \text{class token}", ""),
    Step("numbers", "d", r"C P^2", ""),
)
def patch_counts(
    height: int, width: int, patch: int, channels: int, *, class_token: int = 1, note: Note = silent
) -> Any:
    """The number of patches of an image, the number of tokens, and the length of each.

    >>> patch_counts(224, 224, 16, 3)
    768
    """
    down = note("down", height / patch)
    across = note("across", width / patch)
    patches = note("patches", down * across)
    note("tokens", patches + class_token)
    return note("numbers", channels * patch * patch)


@exercise_mechanism(
    Input("size", "n", "", "positions of the input"),
    Input("kernel", "k", "", "taps"),
    Step("span", "m", r"n + 2p - k", ""),
    Step("output", "o", r"\lfloor m / s \rfloor + 1", ""),
)
def output_size(size: int, kernel: int, *, stride: int = 1, padding: int = 0, note: Note = silent) -> Any:
    """The number of outputs of a convolution.

    >>> output_size(9, 3, stride=2, padding=1)
    5
    """
    span = note("span", size + 2 * padding - kernel)
    return note("output", math.floor(span / stride) + 1)


@exercise_mechanism(
    Input("height", "H", "", "of the image"),
    Input("width", "W", "", "of the image"),
    Input("channels", "C", "", "of the image"),
    Input("filters", "F", "", "output channels"),
    Input("kernel", "k", "", "side of a filter"),
    Step("output height", "o_H", r"\lfloor (H + 2p - k) / s \rfloor + 1", ""),
    Step("output width", "o_W", r"\lfloor (W + 2p - k) / s \rfloor + 1", ""),
    Step("filter", "f", r"C k^2", ""),
    Step("weights", "w", r"F f \;(+ F \text{ biases})", ""),
    Step("dense", "D", r"(C H W)(F o_H o_W)", ""),
)
def convolution_counts(
    height: int,
    width: int,
    channels: int,
    filters: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    biases: int = 0,
    note: Note = silent,
) -> Any:
    """Output size and weights of a convolution, and the weights of a dense layer for the same map.

    >>> convolution_counts(256, 256, 3, 32, 5, stride=2)
    99883155456
    """
    output_height = note("output height", math.floor((height + 2 * padding - kernel) / stride) + 1)
    output_width = note("output width", math.floor((width + 2 * padding - kernel) / stride) + 1)
    filter_ = note("filter", channels * kernel * kernel)
    note("weights", filters * filter_ + biases * filters)
    return note("dense", (channels * height * width) * (filters * output_height * output_width))


@exercise_mechanism(
    Input("size", "n", "", "positions of the signal"),
    Input("kernel", "k", "", "taps"),
    Step("outputs", "o", r"\lfloor (n + 2p - k) / s \rfloor + 1", ""),
    Step("shared", "w", r"k", ""),
    Step("unshared", "u", r"o\, k", ""),
    Step("dense", "D", r"o\, n", ""),
)
def sharing_counts(size: int, kernel: int, *, stride: int = 1, padding: int = 0, note: Note = silent) -> Any:
    """The weights of a 1-D convolution, of the same pattern without sharing, and of a dense layer.

    >>> sharing_counts(9, 3)
    63
    """
    outputs = note("outputs", math.floor((size + 2 * padding - kernel) / stride) + 1)
    note("shared", kernel)
    note("unshared", outputs * kernel)
    return note("dense", outputs * size)


def _shape(*sizes: Any) -> Any:
    """Sizes side by side: as numbers, or as tensors of which the operation graph is wanted."""
    tensors = [size for size in sizes if isinstance(size, HandTensor)]
    return stack(sizes, 0) if len(tensors) == len(sizes) else np.array(sizes, float)


@exercise_mechanism(
    Input("batch", "B", "", "sequences"),
    Input("tokens", "n", "", "per sequence"),
    Input("width", "d", "", "of a token"),
    Input("heads", "h", "", ""),
    Step("head width", "d_h", r"d / h", ""),
    Step("query", "Q", r"[B, n, h, d_h]", "axis"),
    Step("weights", "A", r"[B, h, n, n]", "axis"),
    Step("per head", "H", r"[B, n, h, d_h]", "axis"),
    Step("joined", "J", r"[B, n, d]", "axis"),
)
def head_shapes(batch: int, tokens: int, width: int, heads: int, *, note: Note = silent) -> Any:
    """The shapes through multi-head attention.

    >>> head_shapes(1, 5, 768, 12).tolist()
    [1.0, 5.0, 768.0]
    """
    head_width = note("head width", width / heads)
    note("query", _shape(batch, tokens, heads, head_width))
    note("weights", _shape(batch, heads, tokens, tokens))
    note("per head", _shape(batch, tokens, heads, head_width))
    return note("joined", _shape(batch, tokens, heads * head_width))


@exercise_mechanism(
    Input("width", "d", "", "of a token"),
    Input("heads", "h", "", ""),
    Step("head width", "d_h", r"d / h", ""),
    Step("one head", "w", r"d\, d_h", ""),
    Step("projection", "p", r"d^2 \;(+ d \text{ biases})", ""),
    Step("total", "t", r"4 p", ""),
)
def attention_parameters(width: int, heads: int, *, biases: int = 0, note: Note = silent) -> Any:
    """The parameters of multi-head attention: W_q, W_k, W_v and W_o.

    >>> attention_parameters(512, 8)
    1048576.0
    """
    head_width = note("head width", width / heads)
    one_head = note("one head", width * head_width)
    projection = note("projection", heads * one_head + biases * width)
    return note("total", 4 * projection)


@exercise_mechanism(
    Input("tokens", "n", "", "in the sequence"),
    Input("width", "d", "", "of a token"),
    Input("hidden", "m", "", "hidden width"),
    Step("first", "w_1", r"d\, m \;(+ m \text{ biases})", ""),
    Step("second", "w_2", r"m\, d \;(+ d \text{ biases})", ""),
    Step("total", "t", r"w_1 + w_2", ""),
)
def feed_forward_parameters(
    tokens: int, width: int, hidden: int, *, biases: int = 1, note: Note = silent
) -> Any:
    """The parameters of a feed-forward layer; the same ones serve every token.

    >>> feed_forward_parameters(10, 512, 2048)
    2099712
    """
    first = note("first", width * hidden + biases * hidden)
    second = note("second", hidden * width + biases * width)
    return note("total", first + second)


@exercise_mechanism(
    Input("tokens", "n", "", "in the sequence"),
    Input("width", "d", "", "of a token"),
    Input("kernel", "k", "", "taps of the convolution"),
    Step("projections", "c_p", r"3 n d^2", ""),
    Step("scores", "c_s", r"n^2 d", ""),
    Step("mixing", "c_m", r"n^2 d", ""),
    Step("attention", "c_a", r"c_p + c_s + c_m", ""),
    Step("convolution", "c_c", r"k\, n d^2", ""),
    Step("recurrence", "c_r", r"2 n d^2", ""),
)
def complexity(tokens: int, width: int, kernel: int, *, note: Note = silent) -> Any:
    """Multiplications in self-attention, a 1-D convolution and a recurrence of one width.

    >>> complexity(10, 4, 3)
    320
    """
    projections = note("projections", 3 * tokens * width * width)
    scores = note("scores", tokens * tokens * width)
    mixing = note("mixing", tokens * tokens * width)
    note("attention", projections + scores + mixing)
    note("convolution", kernel * tokens * width * width)
    return note("recurrence", 2 * tokens * width * width)


# --- composed of mechanisms -------------------------------------------------------------------------
@exercise_mechanism(*QKV_CARDS, *steps_of(attention, scope="beta 0"), *steps_of(attention, scope="beta oo"))
def beta_limits(query: Tensor, key: Tensor, value: Tensor, *, note: Note = silent) -> Tensor:
    """Attention in both limits: beta = 0 takes a plain mean, beta = infinity the best key, ties shared.

    >>> one = HandTensor(np.array([[1.0], [2.0]]))
    >>> beta_limits(one, one, one).array.tolist()
    [[2.0], [2.0]]
    """
    attention(query, key, value, beta=0.0, note=inside(note, "beta 0"))
    return attention(query, key, value, beta=math.inf, note=inside(note, "beta oo"))


@exercise_mechanism(
    *QKV_CARDS,
    Input("delta", r"\Delta", "key width", "added to the keys: one row is not zero"),
    *steps_of(attention, scope="before"),
    *steps_of(attention, scope="after"),
    Step("change", r"\Delta Y", r"Y_{after} - Y_{before}", "query value_width"),
)
def sensitivity(
    query: Tensor, key: Tensor, value: Tensor, delta: Tensor, *, beta: Scalar = None, note: Note = silent
) -> Tensor:
    """The effect of moving one key: one score of every query changes, and so every output.

    >>> one, none = HandTensor(np.array([[1.0]])), HandTensor(np.array([[0.0]]))
    >>> sensitivity(one, one, one, none).array.tolist()
    [[0.0]]
    """
    before = attention(query, key, value, beta=beta, note=inside(note, "before"))
    after = attention(query, key + delta, value, beta=beta, note=inside(note, "after"))
    return note("change", after - before)


@exercise_mechanism(
    Input("tokens", "X", "token width", "coordinates along a, b, c, d"),
    Step("norms", r"\|x\|", r"\sqrt{x \cdot x}", "token one"),
    *steps_of(attention),
    Step("errors", r"\epsilon", r"\|y - x\| / r", "token one"),
)
def copying(tokens: Tensor, *, norm: Scalar, note: Note = silent) -> Tensor:
    """Attention over sums of orthogonal vectors of one norm: the larger the norm, the closer the copy.

    >>> copying(HandTensor(np.eye(2) * 9.0), norm=9.0).array.round(3).tolist()
    [[0.0], [0.0]]
    """
    note("norms", (tokens * tokens).sum(-1, keepdim=True).sqrt())
    output = attention(tokens, tokens, tokens, beta=1.0, note=note)
    error = output - tokens
    return note("errors", (error * error).sum(-1, keepdim=True).sqrt() / norm)


@exercise_mechanism(
    Input("tokens", "X", "token width", "input of the sublayer"),
    Input("sublayer", "F", "token width", "output of the sublayer"),
    Step("residual", "R", r"X + F", "token width"),
    *steps_of(layer_normalisation),
)
def add_and_normalise(
    tokens: Tensor, sublayer: Tensor, *, epsilon: Scalar = 0, note: Note = silent
) -> Tensor:
    """The residual connection and the layer normalisation around a sublayer.

    >>> tokens, sublayer = HandTensor(np.array([[1.0, 3.0]])), HandTensor(np.zeros((1, 2)))
    >>> add_and_normalise(tokens, sublayer).array.tolist()
    [[-1.0, 1.0]]
    """
    return layer_normalisation(note("residual", tokens + sublayer), epsilon=epsilon, note=note)


@exercise_mechanism(
    Input("inputs", "x", "time", "an even number of them"),
    Step("odd places", "o", r"x_1 + x_3 + \ldots", ""),
    Step("even places", "e", r"x_2 + x_4 + \ldots", ""),
    Step("state", "h_T", r"e - o", ""),
    Step("output", "y", r"1 \text{ where } h_T > 0", ""),
)
def alternation(inputs: Tensor, *, note: Note = silent) -> Tensor:
    """The recurrence h_t = x_t - h_(t-1) over an even number of inputs, by positions counted from 1.

    >>> float(alternation(HandTensor(np.array([1.0, 2.0, 3.0, 5.0]))).array)
    1.0
    """
    odd = note("odd places", inputs[0::2].sum(0))
    even = note("even places", inputs[1::2].sum(0))
    state = note("state", even - odd)
    return note("output", (state > 0).to(state))
