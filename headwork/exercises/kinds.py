"""The numbers of each kind of exercise (``kinds.toml``): inputs and options, drawn by difficulty."""

import json
from typing import Any

from headwork.exercises.seeded_random import SeededRandom, matrix_text

InputsAndOptions = tuple[dict[str, Any], dict[str, Any]]

# --- attention --------------------------------------------------------------------------------------
BETA = ("1", "1/2", "2")


def _projections(rng: SeededRandom, width: int, names: str = "W_q W_k W_v") -> dict[str, Any]:
    low, high = (-1, 2) if width == 2 else (0, 1)
    return {name: rng.matrix_text(width, width, low, high) for name in names.split()}


def _beta(rng: SeededRandom, difficulty: int) -> dict[str, Any]:
    """A given beta at first, 1/sqrt(d_k) later."""
    return {"beta": rng.choice(BETA)} if difficulty == 1 else {}


def self_attention(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 0) + (difficulty > 2)
    return {"tokens": rng.matrix_text(count, 2, 0, 2), **_projections(rng, 2)}, _beta(rng, difficulty)


def cross_attention(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    tokens, memory = rng.matrix_text(2 + (difficulty > 2), 2, 0, 2), rng.matrix_text(3, 2, 0, 2)
    return {"tokens": tokens, "memory": memory, **_projections(rng, 2)}, _beta(rng, difficulty)


def masked_attention(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 3 + (difficulty > 2)
    mask = "causal"
    if rng.integer(0, 2) == 0:
        hidden = rng.integer(0, count - 1)
        mask = matrix_text([[int(j != hidden) for j in range(count)]])
    inputs = {"tokens": rng.matrix_text(count, 2, 0, 2), **_projections(rng, 2)}
    return inputs, {"mask": mask, **_beta(rng, difficulty)}


def multi_head_attention(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 1)
    tokens = rng.matrix_text(count, 4, 0, 1 + (difficulty > 2))
    return {"tokens": tokens, **_projections(rng, 4, "W_q W_k W_v W_o")}, {"heads": 2}


def beta_limits(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 3 + (difficulty > 2)
    low = 0 if difficulty == 1 else -1
    return {name: rng.matrix_text(count, 2, low, 2) for name in ("query", "key", "value")}, {}


def sensitivity(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    moved = rng.integer(0, 2)
    delta = [rng.row(2, -1, 2) if row == moved else [0, 0] for row in range(3)]
    rows = {name: rng.matrix_text(3, 2, 0, high) for name, high in (("query", 2), ("key", 1), ("value", 3))}
    return {**rows, "delta": matrix_text(delta)}, _beta(rng, difficulty)


def copying(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    norm = rng.choice(("1", "3/2", "2") if difficulty == 1 else ("1/2", "5/4", "7/4"))
    rows = [rng.row(4, 0, 1) for _ in range(3)]
    return {"tokens": matrix_text([[norm if x else "0" for x in row] for row in rows])}, {"norm": norm}


def linear_attention(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    rows = {name: rng.matrix_text(3, 2, 0, 2 + (difficulty > 1)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"} if difficulty > 2 else {}


def linear_attention_recurrent(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 1)
    rows = {name: rng.matrix_text(count, 2, 0, 2 + (difficulty > 2)) for name in ("query", "key", "value")}
    return rows, {"mask": "causal"}


# --- the rest of the transformer: positions, normalisation, feed-forward, shapes, counts ------------
def sinusoidal_positions(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count = 2 + (difficulty > 1)
    positions = sorted(rng.shuffled(range(6))[:count])
    options = {"width": 4 + 2 * (difficulty > 2), "base": rng.choice((16, 100, 10000))}
    return {"places": " ".join(map(str, positions))}, options


# Rows with mean 0 and an integer deviation.
INTEGER_DEVIATION_ROWS = ((-1, -1, 1, 1), (-2, -2, 2, 2), (-3, -3, 3, 3), (-7, -1, 1, 7), (-5, -5, 5, 5))


def _row(rng: SeededRandom, difficulty: int) -> list[int]:
    if difficulty > 1:
        return rng.row(4, -2, 6)
    middle = rng.integer(-2, 5)
    return [middle + x for x in rng.shuffled(rng.choice(INTEGER_DEVIATION_ROWS))]


def layer_normalisation(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    rows = [_row(rng, difficulty) for _ in range(2 + (difficulty > 2))]
    affine = {name: rng.vector_text(4, 1, 3) for name in ("scale", "shift")}
    return {"tokens": matrix_text(rows), **affine}, {}


def add_and_normalise(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    sums = [_row(rng, difficulty) for _ in range(2 + (difficulty > 2))]
    tokens = [rng.row(4, -2, 4) for _ in sums]
    sublayer = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(sums, tokens, strict=True)]
    return {"tokens": matrix_text(tokens), "sublayer": matrix_text(sublayer)}, {}


def feed_forward(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    hidden = 2 + (difficulty > 2)
    return {
        "tokens": rng.matrix_text(2 + (difficulty > 1), 2, -1, 2),
        "W_1": rng.matrix_text(2, hidden, -2, 2),
        "W_2": rng.matrix_text(hidden, 2, -2, 2),
        "b_1": rng.vector_text(hidden, -2, 2),
        "b_2": rng.vector_text(2, -2, 2),
    }, {}


def head_shapes(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    heads = rng.choice((2, 4, 8, 12))
    width = heads * rng.choice((16, 32, 64))
    batch, tokens = rng.integer(1, 4), rng.integer(3, 14)
    return {"batch": batch, "tokens": tokens, "width": width, "heads": heads}, {}


def _biases(rng: SeededRandom) -> dict[str, int]:
    return {"biases": rng.integer(0, 1)}


def attention_parameters(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    heads = rng.choice((2, 4, 8, 12))
    return {"width": heads * rng.choice((8, 16, 32, 64)), "heads": heads}, _biases(rng)


def feed_forward_parameters(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    width = rng.choice((4, 16, 64, 512))
    inputs = {"tokens": rng.integer(3, 20), "width": width, "hidden": rng.choice((2, 4)) * width}
    return inputs, _biases(rng)


def complexity(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    choices = {"tokens": (5, 7, 10, 50, 100), "width": (3, 4, 6, 8, 20, 64), "kernel": (3, 5, 7)}
    return {name: rng.choice(numbers) for name, numbers in choices.items()}, {}


# --- patches and convolution ------------------------------------------------------------------------
def patch_counts(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    patch = rng.choice((4, 8, 16))
    down, across = rng.integer(2, 14), rng.integer(2, 14)
    image = {"height": down * patch, "width": across * patch, "patch": patch}
    return {**image, "channels": rng.choice((1, 3, 3, 4))}, {"class_token": rng.integer(0, 1)}


def _sliding(rng: SeededRandom, difficulty: int) -> dict[str, int]:
    if difficulty == 1:
        return {}
    if difficulty == 2:
        return {"stride": rng.integer(1, 2), "padding": rng.integer(0, 1)}
    return {"stride": 2, "padding": 1}


def convolution_1d(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    if difficulty < 3:
        inputs = {"signal": rng.vector_text(6 + difficulty, -1, 4), "kernel": rng.vector_text(3, -2, 2)}
        return inputs, _sliding(rng, difficulty)
    kernel = json.dumps([[rng.row(3, -1, 2) for _ in range(2)]])
    inputs = {"signal": rng.matrix_text(2, 6, 0, 3), "kernel": kernel}
    return inputs, {"stride": 1, "padding": rng.integer(0, 1)}


def convolution_2d(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    if difficulty < 3:
        size = 2 + difficulty
        image, kernel = rng.matrix_text(size, size, 0, 4), rng.matrix_text(2, 2, -1, 2)
        return {"image": image, "kernel": kernel}, _sliding(rng, difficulty)
    image3 = [[rng.row(3, 0, 3) for _ in range(3)] for _ in range(2)]
    kernel3 = [[[rng.row(2, -1, 2) for _ in range(2)] for _ in range(2)]]
    return {"image": json.dumps(image3), "kernel": json.dumps(kernel3)}, {}


def toeplitz(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    signal = rng.vector_text(4 + difficulty, -1, 4)
    kernel = rng.vector_text(2 + (difficulty > 1), -2, 3)
    return {"signal": signal, "kernel": kernel}, _sliding(rng, difficulty)


def locally_connected(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    count, taps = 3 + difficulty, 2 + (difficulty > 2)
    signal = rng.vector_text(count, -1, 4)
    return {"signal": signal, "kernels": rng.matrix_text(count - taps + 1, taps, -2, 3)}, {}


def output_size(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"size": rng.integer(7, 40 * difficulty), "kernel": rng.choice((3, 5, 7))}
    return inputs, {"stride": rng.integer(2, 4), "padding": rng.integer(1, 3)}


def convolution_counts(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    sizes = (8, 12, 16) if difficulty == 1 else (28, 32, 64, 96)
    height, width = rng.choice(sizes) + rng.integer(0, 3), rng.choice(sizes) + rng.integer(0, 3)
    image = {"height": height, "width": width, "channels": rng.choice((2, 3, 4))}
    inputs = {**image, "filters": rng.choice((4, 8, 16, 32)), "kernel": rng.choice((3, 5))}
    return inputs, {"stride": rng.integer(2, 3), "padding": rng.integer(1, 3), **_biases(rng)}


def sharing_counts(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"size": rng.integer(7, 12 * difficulty), "kernel": rng.choice((3, 5))}
    return inputs, {"stride": rng.integer(2, 3), "padding": rng.integer(1, 3)}


# --- recurrence -------------------------------------------------------------------------------------


def recurrence(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"inputs": rng.vector_text(3 + (difficulty > 1), -2, 4)}
    choices = {"W_x": (2, 3, -1), "W_h": (-2, -1, 2, 3), "W_y": (2, -1, 3)}
    matrices = {name: str(rng.choice(numbers)) for name, numbers in choices.items()}
    options = {"output": "step"} if difficulty > 2 else {}
    return {**inputs, **matrices, "h_0": f"[{rng.choice((1, 2, -1))}]"}, options


def recurrence_closed_form(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    inputs = {"inputs": rng.vector_text(3 + (difficulty > 1), -2, 4)}
    return {**inputs, "W_x": str(rng.choice((2, 3, -1))), "W_h": str(rng.choice((-2, 2, 3)))}, {}


def alternation(rng: SeededRandom, difficulty: int) -> InputsAndOptions:
    return {"inputs": rng.vector_text(4 + 2 * (difficulty > 1), -3, 6)}, {}
