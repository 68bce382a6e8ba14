"""The rest of the transformer: positions, normalisation, feed-forward, shapes, counts."""

from __future__ import annotations

from headwork.exercises.draws import Draws, matrix_text
from headwork.exercises.kinds.registry import Problem, kind


@kind("sinusoidal-positions", "frequencies, angles, output")
def sinusoidal_positions(draws: Draws, difficulty: int) -> Problem:
    """Work out the frequencies, the angles and the sinusoidal encoding (a sine and a cosine for each
    frequency, angles in radians) of the positions t = {places}, width {width}, base {base}.
    """
    count = 2 + (difficulty > 1)
    positions = sorted(draws.shuffled(range(6))[:count])
    options = {"width": 4 + 2 * (difficulty > 2), "base": draws.choice((16, 100, 10000))}
    return {"places": " ".join(map(str, positions))}, options


# Rows with mean 0 and an integer deviation.
INTEGER_DEVIATION_ROWS = ((-1, -1, 1, 1), (-2, -2, 2, 2), (-3, -3, 3, 3), (-7, -1, 1, 7), (-5, -5, 5, 5))


def _row(draws: Draws, difficulty: int) -> list[int]:
    if difficulty > 1:
        return draws.row(4, -2, 6)
    middle = draws.integer(-2, 5)
    return [middle + x for x in draws.shuffled(draws.choice(INTEGER_DEVIATION_ROWS))]


@kind("layer-normalisation", "mean, centred, deviation, normalised, output")
def layer_normalisation(draws: Draws, difficulty: int) -> Problem:
    """Normalise each token (epsilon = 0). Work out the mean, the centred tokens, the standard deviation, the
    normalised tokens and the output.
    """
    rows = [_row(draws, difficulty) for _ in range(2 + (difficulty > 2))]
    affine = {name: draws.vector(4, 1, 3) for name in ("scale", "shift")}
    return {"tokens": matrix_text(rows), **affine}, {}


@kind("add-and-normalise", "residual, mean, deviation, output")
def add_and_normalise(draws: Draws, difficulty: int) -> Problem:
    """X is the input of a sublayer and F its output. Add the residual connection and normalise each token
    (epsilon = 0, no scale or shift). Work out the sum, the mean, the standard deviation and the output.
    """
    sums = [_row(draws, difficulty) for _ in range(2 + (difficulty > 2))]
    tokens = [draws.row(4, -2, 4) for _ in sums]
    rest = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(sums, tokens, strict=True)]
    return {"tokens": matrix_text(tokens), "sublayer": matrix_text(rest)}, {}


@kind("feed-forward", "hidden, activated, output")
def feed_forward(draws: Draws, difficulty: int) -> Problem:
    """The feed-forward layer max(0, x W_1 + b_1) W_2 + b_2 is applied to every token. Work out the input of
    the activation, its output, and the output of the layer.
    """
    hidden = 2 + (difficulty > 2)
    return {
        "tokens": draws.matrix(2 + (difficulty > 1), 2, -1, 2),
        "W_1": draws.matrix(2, hidden, -2, 2),
        "W_2": draws.matrix(hidden, 2, -2, 2),
        "b_1": draws.vector(hidden, -2, 2),
        "b_2": draws.vector(2, -2, 2),
    }, {}


@kind("head-shapes", "head width, query, weights, per head, joined")
def head_shapes(draws: Draws, difficulty: int) -> Problem:
    """Multi-head attention with batch {batch}, {tokens} tokens of width {width} and {heads} heads. Give the
    width of one head and the shapes of the queries, of the attention matrices, of the outputs per head and of
    the joined output.
    """
    heads = draws.choice((2, 4, 8, 12))
    width = heads * draws.choice((16, 32, 64))
    batch, tokens = draws.integer(1, 4), draws.integer(3, 14)
    return {"batch": batch, "tokens": tokens, "width": width, "heads": heads}, {}


def biases(draws: Draws) -> dict[str, int]:
    return {"biases": draws.integer(0, 1)}


@kind("attention-parameters", "head width, one head, projection, total")
def attention_parameters(draws: Draws, difficulty: int) -> Problem:
    """Multi-head attention over tokens of width {width} with {heads} heads; biases: {biases} (1 with, 0
    without). Give the width of one head, the weights (without biases) of one head's query projection, the
    parameters of the whole query projection, and the parameters of all four projections.
    """
    heads = draws.choice((2, 4, 8, 12))
    return {"width": heads * draws.choice((8, 16, 32, 64)), "heads": heads}, biases(draws)


@kind("feed-forward-parameters", "first, second, total")
def feed_forward_parameters(draws: Draws, difficulty: int) -> Problem:
    """A feed-forward layer takes {tokens} tokens of width {width} to hidden width {hidden} and back; biases:
    {biases} (1 with, 0 without). Give the parameters of the first and of the second linear layer, and of
    both.
    """
    width = draws.choice((4, 16, 64, 512))
    inputs = {"tokens": draws.integer(3, 20), "width": width, "hidden": draws.choice((2, 4)) * width}
    return inputs, biases(draws)


@kind("complexity", "projections, scores, mixing, attention, convolution, recurrence")
def complexity(draws: Draws, difficulty: int) -> Problem:
    """A sequence of {tokens} tokens of width {width}. Count the multiplications of self-attention with one
    head and no W_o: projections to queries, keys and values; scores; weights times values; and their sum.
    Then those of a 1-D convolution with kernel {kernel} from {width} to {width} channels that keeps the
    length, and of a recurrence with W_x and W_h.
    """
    choices = {"tokens": (5, 7, 10, 50, 100), "width": (3, 4, 6, 8, 20, 64), "kernel": (3, 5, 7)}
    return {name: draws.choice(numbers) for name, numbers in choices.items()}, {}
