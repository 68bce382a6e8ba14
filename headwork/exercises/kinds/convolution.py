"""Patches and convolution: outputs, matrices, sizes, counts."""

from __future__ import annotations

import json

from headwork.exercises.draws import Draws
from headwork.exercises.kinds.registry import Problem, kind
from headwork.exercises.kinds.transformer import biases


@kind("patch-counts", "down, across, patches, tokens, numbers")
def patch_counts(draws: Draws, difficulty: int) -> Problem:
    """An image of {height} x {width} with {channels} channels is cut into patches of {patch} x {patch}; class
    token: {class_token} (1 with, 0 without). How many patches are there down, across and in all, how many
    tokens, and how many numbers in one patch?
    """
    patch = draws.choice((4, 8, 16))
    down, across = draws.integer(2, 14), draws.integer(2, 14)
    image = {"height": down * patch, "width": across * patch, "patch": patch}
    return {**image, "channels": draws.choice((1, 3, 3, 4))}, {"class_token": draws.integer(0, 1)}


def _sliding(draws: Draws, difficulty: int) -> dict[str, int]:
    if difficulty == 1:
        return {}
    if difficulty == 2:
        return {"stride": draws.integer(1, 2), "padding": draws.integer(0, 1)}
    return {"stride": 2, "padding": 1}


@kind("convolution-1d", "output")
def convolution_1d(draws: Draws, difficulty: int) -> Problem:
    """Slide the kernel along the signal (cross-correlation: it is not flipped). Work out the output."""
    if difficulty < 3:
        inputs = {"signal": draws.vector(6 + difficulty, -1, 4), "kernel": draws.vector(3, -2, 2)}
        return inputs, _sliding(draws, difficulty)
    kernel = json.dumps([[draws.row(3, -1, 2) for _ in range(2)]])
    inputs = {"signal": draws.matrix(2, 6, 0, 3), "kernel": kernel}
    return inputs, {"stride": 1, "padding": draws.integer(0, 1)}


@kind("convolution-2d", "output")
def convolution_2d(draws: Draws, difficulty: int) -> Problem:
    """Slide the kernel over the image (cross-correlation: it is not flipped). Work out the output."""
    if difficulty < 3:
        image, kernel = draws.matrix(2 + difficulty, 2 + difficulty, 0, 4), draws.matrix(2, 2, -1, 2)
        return {"image": image, "kernel": kernel}, _sliding(draws, difficulty)
    image3 = [[draws.row(3, 0, 3) for _ in range(3)] for _ in range(2)]
    kernel3 = [[[draws.row(2, -1, 2) for _ in range(2)] for _ in range(2)]]
    return {"image": json.dumps(image3), "kernel": json.dumps(kernel3)}, {}


@kind("toeplitz", "matrix, output")
def toeplitz(draws: Draws, difficulty: int) -> Problem:
    """Write the convolution of the signal with the kernel (not flipped) as one matrix, a row for each output,
    and work out the output.
    """
    signal, kernel = draws.vector(4 + difficulty, -1, 4), draws.vector(2 + (difficulty > 1), -2, 3)
    return {"signal": signal, "kernel": kernel}, _sliding(draws, difficulty)


@kind("locally-connected", "matrix, output")
def locally_connected(draws: Draws, difficulty: int) -> Problem:
    """A locally connected layer: like a convolution, but without sharing; row i of the taps belongs to output
    i. Write it as one matrix, a row for each output, and work out the output.
    """
    count, taps = 3 + difficulty, 2 + (difficulty > 2)
    signal = draws.vector(count, -1, 4)
    return {"signal": signal, "kernels": draws.matrix(count - taps + 1, taps, -2, 3)}, {}


@kind("output-size", "span, output")
def output_size(draws: Draws, difficulty: int) -> Problem:
    """A convolution with a kernel of {kernel}, stride {stride} and padding {padding} slides along {size}
    positions. Give n + 2p - k and the number of outputs.
    """
    inputs = {"size": draws.integer(7, 40 * difficulty), "kernel": draws.choice((3, 5, 7))}
    return inputs, {"stride": draws.integer(2, 4), "padding": draws.integer(1, 3)}


@kind("convolution-counts", "output height, output width, filter, weights, dense")
def convolution_counts(draws: Draws, difficulty: int) -> Problem:
    """{filters} filters of {kernel} x {kernel} slide over an image of {channels} x {height} x {width}
    (channels, height, width) with stride {stride} and padding {padding}; biases: {biases} (1 with, 0
    without). Give the height and width of the output, the weights of one filter, the parameters of the
    convolution, and the weights (without biases) of a dense layer between the same input and output.
    """
    sizes = (8, 12, 16) if difficulty == 1 else (28, 32, 64, 96)
    height, width = draws.choice(sizes) + draws.integer(0, 3), draws.choice(sizes) + draws.integer(0, 3)
    image = {"height": height, "width": width, "channels": draws.choice((2, 3, 4))}
    inputs = {**image, "filters": draws.choice((4, 8, 16, 32)), "kernel": draws.choice((3, 5))}
    return inputs, {"stride": draws.integer(2, 3), "padding": draws.integer(1, 3), **biases(draws)}


@kind("sharing-counts", "outputs, shared, unshared, dense")
def sharing_counts(draws: Draws, difficulty: int) -> Problem:
    """A kernel of {kernel} slides along {size} positions with stride {stride} and padding {padding}. How many
    outputs are there, and how many weights has the convolution, a locally connected layer with the same
    pattern (every tap counted), and a dense layer?
    """
    inputs = {"size": draws.integer(7, 12 * difficulty), "kernel": draws.choice((3, 5))}
    return inputs, {"stride": draws.integer(2, 3), "padding": draws.integer(1, 3)}
