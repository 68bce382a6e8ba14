"""The numbers of each kind of exercise (``kinds.toml``): inputs and options, drawn by difficulty."""

import json
from typing import Any

from headwork.exercises.seeded_random import SeededRandom, matrix_text

InputsAndOptions = tuple[dict[str, Any], dict[str, Any]]

# --- attention --------------------------------------------------------------------------------------
BETA = ("1", "1/2", "2")


def _projections(random: SeededRandom, width: int, names: str = "W_q W_k W_v") -> dict[str, Any]:
    low, high = (-1, 2) if width == 2 else (0, 1)
    return {name: random.matrix(width, width, low, high) for name in names.split()}


def _beta(random: SeededRandom, difficulty: int) -> dict[str, Any]:
    """A given beta at first, 1/sqrt(d_k) later."""
    return {"beta": random.choice(BETA)} if difficulty == 1 else {}


def self_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 0) + (difficulty > 2)
    return {"tokens": random.matrix(count, 2, 0, 2), **_projections(random, 2)}, _beta(random, difficulty)


def cross_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    tokens = {"tokens": random.matrix(2 + (difficulty > 2), 2, 0, 2), "memory": random.matrix(3, 2, 0, 2)}
    return {**tokens, **_projections(random, 2)}, _beta(random, difficulty)


def masked_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 3 + (difficulty > 2)
    mask = "causal"
    if random.integer(0, 2) == 0:
        hidden = random.integer(0, count - 1)
        mask = matrix_text([[int(j != hidden) for j in range(count)]])
    inputs = {"tokens": random.matrix(count, 2, 0, 2), **_projections(random, 2)}
    return inputs, {"mask": mask, **_beta(random, difficulty)}


def multi_head_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 1)
    tokens = random.matrix(count, 4, 0, 1 + (difficulty > 2))
    return {"tokens": tokens, **_projections(random, 4, "W_q W_k W_v W_o")}, {"heads": 2}


def beta_limits(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 3 + (difficulty > 2)
    low = 0 if difficulty == 1 else -1
    return {name: random.matrix(count, 2, low, 2) for name in ("query", "key", "value")}, {}


def sensitivity(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    moved = random.integer(0, 2)
    delta = [random.row(2, -1, 2) if row == moved else [0, 0] for row in range(3)]
    rows = {name: random.matrix(3, 2, 0, high) for name, high in (("query", 2), ("key", 1), ("value", 3))}
    return {**rows, "delta": matrix_text(delta)}, _beta(random, difficulty)


def copying(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    norm = random.choice(("1", "3/2", "2") if difficulty == 1 else ("1/2", "5/4", "7/4"))
    rows = [random.row(4, 0, 1) for _ in range(3)]
    return {"tokens": matrix_text([[norm if x else "0" for x in row] for row in rows])}, {"norm": norm}


def linear_attention(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    rows = {name: random.matrix(3, 2, 0, 2 + (difficulty > 1)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"} if difficulty > 2 else {}


def linear_attention_recurrent(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 1)
    rows = {name: random.matrix(count, 2, 0, 2 + (difficulty > 2)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"}


# --- the rest of the transformer: positions, normalisation, feed-forward, shapes, counts ------------
def sinusoidal_positions(random: SeededRandom, difficulty: int) -> InputsAndOptions:
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


def layer_normalisation(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    rows = [_row(random, difficulty) for _ in range(2 + (difficulty > 2))]
    affine = {name: random.vector(4, 1, 3) for name in ("scale", "shift")}
    return {"tokens": matrix_text(rows), **affine}, {}


def add_and_normalise(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    sums = [_row(random, difficulty) for _ in range(2 + (difficulty > 2))]
    tokens = [random.row(4, -2, 4) for _ in sums]
    sublayer = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(sums, tokens, strict=True)]
    return {"tokens": matrix_text(tokens), "sublayer": matrix_text(sublayer)}, {}


def feed_forward(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    hidden = 2 + (difficulty > 2)
    return {
        "tokens": random.matrix(2 + (difficulty > 1), 2, -1, 2),
        "W_1": random.matrix(2, hidden, -2, 2),
        "W_2": random.matrix(hidden, 2, -2, 2),
        "b_1": random.vector(hidden, -2, 2),
        "b_2": random.vector(2, -2, 2),
    }, {}


def head_shapes(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    heads = random.choice((2, 4, 8, 12))
    width = heads * random.choice((16, 32, 64))
    batch, tokens = random.integer(1, 4), random.integer(3, 14)
    return {"batch": batch, "tokens": tokens, "width": width, "heads": heads}, {}


def biases(random: SeededRandom) -> dict[str, int]:
    return {"biases": random.integer(0, 1)}


def attention_parameters(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    heads = random.choice((2, 4, 8, 12))
    return {"width": heads * random.choice((8, 16, 32, 64)), "heads": heads}, biases(random)


def feed_forward_parameters(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    width = random.choice((4, 16, 64, 512))
    inputs = {"tokens": random.integer(3, 20), "width": width, "hidden": random.choice((2, 4)) * width}
    return inputs, biases(random)


def complexity(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    choices = {"tokens": (5, 7, 10, 50, 100), "width": (3, 4, 6, 8, 20, 64), "kernel": (3, 5, 7)}
    return {name: random.choice(numbers) for name, numbers in choices.items()}, {}


# --- patches and convolution ------------------------------------------------------------------------
def patch_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
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


def convolution_1d(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    if difficulty < 3:
        inputs = {"signal": random.vector(6 + difficulty, -1, 4), "kernel": random.vector(3, -2, 2)}
        return inputs, _sliding(random, difficulty)
    kernel = json.dumps([[random.row(3, -1, 2) for _ in range(2)]])
    inputs = {"signal": random.matrix(2, 6, 0, 3), "kernel": kernel}
    return inputs, {"stride": 1, "padding": random.integer(0, 1)}


def convolution_2d(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    if difficulty < 3:
        image, kernel = random.matrix(2 + difficulty, 2 + difficulty, 0, 4), random.matrix(2, 2, -1, 2)
        return {"image": image, "kernel": kernel}, _sliding(random, difficulty)
    image3 = [[random.row(3, 0, 3) for _ in range(3)] for _ in range(2)]
    kernel3 = [[[random.row(2, -1, 2) for _ in range(2)] for _ in range(2)]]
    return {"image": json.dumps(image3), "kernel": json.dumps(kernel3)}, {}


def toeplitz(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    signal, kernel = random.vector(4 + difficulty, -1, 4), random.vector(2 + (difficulty > 1), -2, 3)
    return {"signal": signal, "kernel": kernel}, _sliding(random, difficulty)


def locally_connected(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    count, taps = 3 + difficulty, 2 + (difficulty > 2)
    signal = random.vector(count, -1, 4)
    return {"signal": signal, "kernels": random.matrix(count - taps + 1, taps, -2, 3)}, {}


def output_size(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"size": random.integer(7, 40 * difficulty), "kernel": random.choice((3, 5, 7))}
    return inputs, {"stride": random.integer(2, 4), "padding": random.integer(1, 3)}


def convolution_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    sizes = (8, 12, 16) if difficulty == 1 else (28, 32, 64, 96)
    height, width = random.choice(sizes) + random.integer(0, 3), random.choice(sizes) + random.integer(0, 3)
    image = {"height": height, "width": width, "channels": random.choice((2, 3, 4))}
    inputs = {**image, "filters": random.choice((4, 8, 16, 32)), "kernel": random.choice((3, 5))}
    return inputs, {"stride": random.integer(2, 3), "padding": random.integer(1, 3), **biases(random)}


def sharing_counts(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"size": random.integer(7, 12 * difficulty), "kernel": random.choice((3, 5))}
    return inputs, {"stride": random.integer(2, 3), "padding": random.integer(1, 3)}


# --- recurrence -------------------------------------------------------------------------------------


def recurrence(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"inputs": random.vector(3 + (difficulty > 1), -2, 4)}
    choices = {"W_x": (2, 3, -1), "W_h": (-2, -1, 2, 3), "W_y": (2, -1, 3)}
    matrices = {name: str(random.choice(numbers)) for name, numbers in choices.items()}
    options = {"output": "step"} if difficulty > 2 else {}
    return {**inputs, **matrices, "h_0": f"[{random.choice((1, 2, -1))}]"}, options


def recurrence_closed_form(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"inputs": random.vector(3 + (difficulty > 1), -2, 4)}
    return {**inputs, "W_x": str(random.choice((2, 3, -1))), "W_h": str(random.choice((-2, 2, 3)))}, {}


def alternation(random: SeededRandom, difficulty: int) -> InputsAndOptions:
    return {"inputs": random.vector(4 + 2 * (difficulty > 1), -3, 6)}, {}
