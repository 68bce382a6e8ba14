"""The kinds of exercise, one small function each: how its numbers are drawn, what is asked, the question."""

import json
from typing import Any

from headwork.exercises.generation import InputsAndOptions, kind
from headwork.exercises.seeded_random import SeededRandom, matrix_text

# --- attention --------------------------------------------------------------------------------------
BETA = ("1", "1/2", "2")


def _projections(random: SeededRandom, width: int, names: str = "W_q W_k W_v") -> dict[str, Any]:
    low, high = (-1, 2) if width == 2 else (0, 1)
    return {name: random.matrix(width, width, low, high) for name in names.split()}


def _beta(random: SeededRandom, difficulty: int) -> dict[str, Any]:
    """A given beta at first, 1/sqrt(d_k) later."""
    return {"beta": random.choice(BETA)} if difficulty == 1 else {}


STEPS = "query, key, value, scores, weights, output"


@kind("self-attention", STEPS)
def self_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The tokens attend to each other by softmax(beta Q K^T) V. Work out the queries, keys and values, the
    scores beta Q K^T, the attention weights and the output.
    """
    count = 2 + (difficulty > 0) + (difficulty > 2)
    return {"tokens": random.matrix(count, 2, 0, 2), **_projections(random, 2)}, _beta(random, difficulty)


@kind("cross-attention", STEPS)
def cross_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The tokens X attend to the memory M by softmax(beta Q K^T) V. Work out the queries, keys and values,
    the scores beta Q K^T, the attention weights and the output.
    """
    tokens = {"tokens": random.matrix(2 + (difficulty > 2), 2, 0, 2), "memory": random.matrix(3, 2, 0, 2)}
    return {**tokens, **_projections(random, 2)}, _beta(random, difficulty)


@kind("self-attention", "scores, weights, output")
def masked_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The tokens attend to each other under a mask: 1 means that a query (row) may attend to a key (column),
    0 that it may not; causal means that it may attend to itself and to earlier tokens. Work out the scores
    beta Q K^T before masking, the attention weights and the output.
    """
    count = 3 + (difficulty > 2)
    mask = "causal"
    if random.integer(0, 2) == 0:
        hidden = random.integer(0, count - 1)
        mask = matrix_text([[int(j != hidden) for j in range(count)]])
    inputs = {"tokens": random.matrix(count, 2, 0, 2), **_projections(random, 2)}
    return inputs, {"mask": mask, **_beta(random, difficulty)}


@kind("multi-head-attention", "query, key, value, scores, weights, per head, joined, output")
def multi_head_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Two heads attend side by side: each matrix is cut into two blocks of rows, one for each head; the heads
    are joined and mixed by W_o. Work out every step; the scores are beta Q K^T. Write the queries, keys,
    values and the outputs per head with one row per token, head 0 first; write scores and weights with the
    rows of head 0 above those of head 1.
    """
    count = 2 + (difficulty > 1)
    tokens = random.matrix(count, 4, 0, 1 + (difficulty > 2))
    return {"tokens": tokens, **_projections(random, 4, "W_q W_k W_v W_o")}, {"heads": 2}


@kind("beta-limits", "beta 0/weights, beta 0/output, beta oo/weights, beta oo/output")
def beta_limits(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Attention is softmax(beta Q K^T) V. Work out the weights and the output in the limits beta -> 0 and
    beta -> infinity.
    """
    count = 3 + (difficulty > 2)
    low = 0 if difficulty == 1 else -1
    return {name: random.matrix(count, 2, low, 2) for name in ("query", "key", "value")}, {}


@kind("sensitivity", "before/weights, before/output, after/scores, after/weights, change")
def sensitivity(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Attention is softmax(beta Q K^T) V. One key is moved: Delta is added to the keys. Work out the weights
    and the output before, the scores beta Q K^T and the weights after, and the change of the output.
    """
    moved = random.integer(0, 2)
    delta = [random.row(2, -1, 2) if row == moved else [0, 0] for row in range(3)]
    rows = {name: random.matrix(3, 2, 0, high) for name, high in (("query", 2), ("key", 1), ("value", 3))}
    return {**rows, "delta": matrix_text(delta)}, _beta(random, difficulty)


@kind("copying", "norms, scores, weights, output, errors")
def copying(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The vectors a, b, c, d are orthogonal and have norm r = {norm}. Each row of X is a sum of some of them,
    in coordinates along a/r, b/r, c/r, d/r. With q = k = v = x and beta = 1, work out the norms of the
    tokens, the scores X X^T, the weights, the output, and the error |y - x|/r of each token.
    """
    norm = random.choice(("1", "3/2", "2") if difficulty == 1 else ("1/2", "5/4", "7/4"))
    rows = [random.row(4, 0, 1) for _ in range(3)]
    return {"tokens": matrix_text([[norm if x else "0" for x in row] for row in rows])}, {"norm": norm}


def _masked(options: dict[str, Any]) -> dict[str, str]:
    causal = "the scores (0 where the causal mask hides a later key)"
    return {"scores": causal if options else "the scores Q K^T"}


@kind("linear-attention", "scores, sums, weights, output", _masked)
def linear_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Linear attention omits the exponential: the dot products of queries and keys are divided by their sum
    over the keys. Work out {scores}, their sums, the weights and the output.
    """
    rows = {name: random.matrix(3, 2, 0, 2 + (difficulty > 1)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"} if difficulty > 2 else {}


@kind("linear-attention-recurrent", "step */state, step */key sum, output")
def linear_attention_recurrent(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Causal linear attention as a recurrence: the state adds up k_t^T v_t and the key sum adds up k_t, token
    by token; each output is q_t C_t / (q_t . c_t). Work out both after every token (step 0 is the first), and
    the output.
    """
    count = 2 + (difficulty > 1)
    rows = {name: random.matrix(count, 2, 0, 2 + (difficulty > 2)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"}


# --- the rest of the transformer: positions, normalisation, feed-forward, shapes, counts ------------
@kind("sinusoidal-positions", "frequencies, angles, output")
def sinusoidal_positions(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Work out the frequencies, the angles and the sinusoidal encoding (a sine and a cosine for each
    frequency, angles in radians) of the positions t = {places}, width {width}, base {base}.
    """
    count = 2 + (difficulty > 1)
    positions = sorted(random.shuffled(range(6))[:count])
    options = {"width": 4 + 2 * (difficulty > 2), "base": random.choice((16, 100, 10000))}
    return {"places": " ".join(map(str, positions))}, options


# Rows with mean 0 and an integer deviation.
INTEGER_DEVIATION_ROWS = ((-1, -1, 1, 1), (-2, -2, 2, 2), (-3, -3, 3, 3), (-7, -1, 1, 7), (-5, -5, 5, 5))


def _row(random: SeededRandom, difficulty: int) -> list[int]:
    if difficulty > 1:
        return random.row(4, -2, 6)
    middle = random.integer(-2, 5)
    return [middle + x for x in random.shuffled(random.choice(INTEGER_DEVIATION_ROWS))]


@kind("layer-normalisation", "mean, centred, deviation, normalised, output")
def layer_normalisation(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Normalise each token (epsilon = 0). Work out the mean, the centred tokens, the standard deviation, the
    normalised tokens and the output.
    """
    rows = [_row(random, difficulty) for _ in range(2 + (difficulty > 2))]
    affine = {name: random.vector(4, 1, 3) for name in ("scale", "shift")}
    return {"tokens": matrix_text(rows), **affine}, {}


@kind("add-and-normalise", "residual, mean, deviation, output")
def add_and_normalise(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """X is the input of a sublayer and F its output. Add the residual connection and normalise each token
    (epsilon = 0, no scale or shift). Work out the sum, the mean, the standard deviation and the output.
    """
    sums = [_row(random, difficulty) for _ in range(2 + (difficulty > 2))]
    tokens = [random.row(4, -2, 4) for _ in sums]
    rest = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(sums, tokens, strict=True)]
    return {"tokens": matrix_text(tokens), "sublayer": matrix_text(rest)}, {}


@kind("feed-forward", "hidden, activated, output")
def feed_forward(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The feed-forward layer max(0, x W_1 + b_1) W_2 + b_2 is applied to every token. Work out the input of
    the activation, its output, and the output of the layer.
    """
    hidden = 2 + (difficulty > 2)
    return {
        "tokens": random.matrix(2 + (difficulty > 1), 2, -1, 2),
        "W_1": random.matrix(2, hidden, -2, 2),
        "W_2": random.matrix(hidden, 2, -2, 2),
        "b_1": random.vector(hidden, -2, 2),
        "b_2": random.vector(2, -2, 2),
    }, {}


@kind("head-shapes", "head width, query, weights, per head, joined")
def head_shapes(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Multi-head attention with batch {batch}, {tokens} tokens of width {width} and {heads} heads. Give the
    width of one head and the shapes of the queries, of the attention matrices, of the outputs per head and of
    the joined output.
    """
    heads = random.choice((2, 4, 8, 12))
    width = heads * random.choice((16, 32, 64))
    batch, tokens = random.integer(1, 4), random.integer(3, 14)
    return {"batch": batch, "tokens": tokens, "width": width, "heads": heads}, {}


def biases(random: SeededRandom) -> dict[str, int]:
    return {"biases": random.integer(0, 1)}


@kind("attention-parameters", "head width, one head, projection, total")
def attention_parameters(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Multi-head attention over tokens of width {width} with {heads} heads; biases: {biases} (1 with, 0
    without). Give the width of one head, the weights (without biases) of one head's query projection, the
    parameters of the whole query projection, and the parameters of all four projections.
    """
    heads = random.choice((2, 4, 8, 12))
    return {"width": heads * random.choice((8, 16, 32, 64)), "heads": heads}, biases(random)


@kind("feed-forward-parameters", "first, second, total")
def feed_forward_parameters(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A feed-forward layer takes {tokens} tokens of width {width} to hidden width {hidden} and back; biases:
    {biases} (1 with, 0 without). Give the parameters of the first and of the second linear layer, and of
    both.
    """
    width = random.choice((4, 16, 64, 512))
    inputs = {"tokens": random.integer(3, 20), "width": width, "hidden": random.choice((2, 4)) * width}
    return inputs, biases(random)


@kind("complexity", "projections, scores, mixing, attention, convolution, recurrence")
def complexity(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A sequence of {tokens} tokens of width {width}. Count the multiplications of self-attention with one
    head and no W_o: projections to queries, keys and values; scores; weights times values; and their sum.
    Then those of a 1-D convolution with kernel {kernel} from {width} to {width} channels that keeps the
    length, and of a recurrence with W_x and W_h.
    """
    choices = {"tokens": (5, 7, 10, 50, 100), "width": (3, 4, 6, 8, 20, 64), "kernel": (3, 5, 7)}
    return {name: random.choice(numbers) for name, numbers in choices.items()}, {}


# --- patches and convolution ------------------------------------------------------------------------
@kind("patch-counts", "down, across, patches, tokens, numbers")
def patch_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """An image of {height} x {width} with {channels} channels is cut into patches of {patch} x {patch}; class
    token: {class_token} (1 with, 0 without). How many patches are there down, across and in all, how many
    tokens, and how many numbers in one patch?
    """
    patch = random.choice((4, 8, 16))
    down, across = random.integer(2, 14), random.integer(2, 14)
    image = {"height": down * patch, "width": across * patch, "patch": patch}
    return {**image, "channels": random.choice((1, 3, 3, 4))}, {"class_token": random.integer(0, 1)}


def _sliding(random: SeededRandom, difficulty: int) -> dict[str, int]:
    if difficulty == 1:
        return {}
    if difficulty == 2:
        return {"stride": random.integer(1, 2), "padding": random.integer(0, 1)}
    return {"stride": 2, "padding": 1}


@kind("convolution-1d", "output")
def convolution_1d(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Slide the kernel along the signal (cross-correlation: it is not flipped). Work out the output."""
    if difficulty < 3:
        inputs = {"signal": random.vector(6 + difficulty, -1, 4), "kernel": random.vector(3, -2, 2)}
        return inputs, _sliding(random, difficulty)
    kernel = json.dumps([[random.row(3, -1, 2) for _ in range(2)]])
    inputs = {"signal": random.matrix(2, 6, 0, 3), "kernel": kernel}
    return inputs, {"stride": 1, "padding": random.integer(0, 1)}


@kind("convolution-2d", "output")
def convolution_2d(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Slide the kernel over the image (cross-correlation: it is not flipped). Work out the output."""
    if difficulty < 3:
        image, kernel = random.matrix(2 + difficulty, 2 + difficulty, 0, 4), random.matrix(2, 2, -1, 2)
        return {"image": image, "kernel": kernel}, _sliding(random, difficulty)
    image3 = [[random.row(3, 0, 3) for _ in range(3)] for _ in range(2)]
    kernel3 = [[[random.row(2, -1, 2) for _ in range(2)] for _ in range(2)]]
    return {"image": json.dumps(image3), "kernel": json.dumps(kernel3)}, {}


@kind("toeplitz", "matrix, output")
def toeplitz(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """Write the convolution of the signal with the kernel (not flipped) as one matrix, a row for each output,
    and work out the output.
    """
    signal, kernel = random.vector(4 + difficulty, -1, 4), random.vector(2 + (difficulty > 1), -2, 3)
    return {"signal": signal, "kernel": kernel}, _sliding(random, difficulty)


@kind("locally-connected", "matrix, output")
def locally_connected(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A locally connected layer: like a convolution, but without sharing; row i of the taps belongs to output
    i. Write it as one matrix, a row for each output, and work out the output.
    """
    count, taps = 3 + difficulty, 2 + (difficulty > 2)
    signal = random.vector(count, -1, 4)
    return {"signal": signal, "kernels": random.matrix(count - taps + 1, taps, -2, 3)}, {}


@kind("output-size", "span, output")
def output_size(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A convolution with a kernel of {kernel}, stride {stride} and padding {padding} slides along {size}
    positions. Give n + 2p - k and the number of outputs.
    """
    inputs = {"size": random.integer(7, 40 * difficulty), "kernel": random.choice((3, 5, 7))}
    return inputs, {"stride": random.integer(2, 4), "padding": random.integer(1, 3)}


@kind("convolution-counts", "output height, output width, filter, weights, dense")
def convolution_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """{filters} filters of {kernel} x {kernel} slide over an image of {channels} x {height} x {width}
    (channels, height, width) with stride {stride} and padding {padding}; biases: {biases} (1 with, 0
    without). Give the height and width of the output, the weights of one filter, the parameters of the
    convolution, and the weights (without biases) of a dense layer between the same input and output.
    """
    sizes = (8, 12, 16) if difficulty == 1 else (28, 32, 64, 96)
    height, width = random.choice(sizes) + random.integer(0, 3), random.choice(sizes) + random.integer(0, 3)
    image = {"height": height, "width": width, "channels": random.choice((2, 3, 4))}
    inputs = {**image, "filters": random.choice((4, 8, 16, 32)), "kernel": random.choice((3, 5))}
    return inputs, {"stride": random.integer(2, 3), "padding": random.integer(1, 3), **biases(random)}


@kind("sharing-counts", "outputs, shared, unshared, dense")
def sharing_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A kernel of {kernel} slides along {size} positions with stride {stride} and padding {padding}. How many
    outputs are there, and how many weights has the convolution, a locally connected layer with the same
    pattern (every tap counted), and a dense layer?
    """
    inputs = {"size": random.integer(7, 12 * difficulty), "kernel": random.choice((3, 5))}
    return inputs, {"stride": random.integer(2, 3), "padding": random.integer(1, 3)}


# --- recurrence -------------------------------------------------------------------------------------
def _output(options: dict[str, Any]) -> dict[str, str]:
    return {"result": "1 if W_y h_T > 0, else 0" if options else "W_y h_T"}


@kind("recurrence", "step */state, output", _output)
def recurrence(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A recurrence h_t = W_x x_t + W_h h_(t-1) with the state h_0 before the first step reads the inputs one
    by one (step 0 is the first). Work out every state, and the output: {result}.
    """
    inputs = {"inputs": random.vector(3 + (difficulty > 1), -2, 4)}
    choices = {"W_x": (2, 3, -1), "W_h": (-2, -1, 2, 3), "W_y": (2, -1, 3)}
    matrices = {name: str(random.choice(numbers)) for name, numbers in choices.items()}
    options = {"output": "step"} if difficulty > 2 else {}
    return {**inputs, **matrices, "h_0": f"[{random.choice((1, 2, -1))}]"}, options


@kind("recurrence-closed-form", "powers, terms, output")
def recurrence_closed_form(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """The linear recurrence h_t = W_x x_t + W_h h_(t-1) starts from 0. Work out its last state in closed
    form: the power of W_h that each input passes through, each input's term, and their sum. Give one row per
    input.
    """
    inputs = {"inputs": random.vector(3 + (difficulty > 1), -2, 4)}
    return {**inputs, "W_x": str(random.choice((2, 3, -1))), "W_h": str(random.choice((-2, 2, 3)))}, {}


@kind("alternation", "odd places, even places, state, output")
def alternation(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    """A recurrence h_t = x_t - h_(t-1) from 0 reads an even number of inputs. Give the sum of the inputs at
    odd positions and at even positions (counted from 1), the last state, and the output: 1 where it is
    positive, else 0.
    """
    return {"inputs": random.vector(4 + 2 * (difficulty > 1), -3, 6)}, {}
