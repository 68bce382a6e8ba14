"""Mistakes in convolutions and their matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwork.exercises.case import Seen
from headwork.exercises.misconceptions.registry import misconception

ONE = ("convolution-1d", "toeplitz")
BOTH = ("convolution-1d", "convolution-2d", "toeplitz")
MATRIX = ("toeplitz", "locally-connected")

SIGNAL = {"mechanism": "convolution-1d", "signal": "1 2 4 3", "kernel": "1 2"}
CHANNELS = {"mechanism": "convolution-1d", "signal": "1 2 4; 0 1 3", "kernel": "[[[1, 2], [1, -1]]]"}
SHIFTED = {"mechanism": "toeplitz", "signal": "1 2 4 3", "kernel": "1 2"}


@misconception(on=BOTH, counter=SIGNAL)
def kernel_flipped(s: Seen) -> Any:
    """the kernel is flipped; what every framework calls convolution does not flip it"""
    kernel = s.kernel
    return {"kernel": np.flip(kernel, (-1, -2)) if s.has("image") else np.flip(kernel, -1)}


@misconception(
    on=("convolution-2d",),
    counter={"mechanism": "convolution-2d", "image": "1 2 0; 0 1 3; 1 1 2", "kernel": "1 2; 0 1"},
)
def kernel_transposed(s: Seen) -> Any:
    """the kernel's rows and columns are exchanged"""
    return {"kernel": np.swapaxes(s.kernel, -1, -2)}


@misconception(on=BOTH, at="output", counter=CHANNELS)
def channels_not_summed(s: Seen) -> Any:
    """the channels are kept apart; each output sums over all of them"""
    return np.concatenate(_by_channel(s))


@misconception(on=BOTH, at="output", counter=CHANNELS)
def first_channel_only(s: Seen) -> Any:
    """only the first channel is used; each output sums over all of them"""
    return _by_channel(s)[0]


@misconception(on=(*BOTH, "locally-connected"), counter={**SIGNAL, "padding": 1})
def padding_forgotten(s: Seen) -> Any:
    """the padding is left out"""
    return {"padding": 0} if s.padding else None


@misconception(on=BOTH, counter={**SIGNAL, "stride": 2})
def stride_forgotten(s: Seen) -> Any:
    """the stride is left out: the kernel moves by more than one place"""
    return {"stride": 1} if s.stride != 1 else None


@misconception(
    on=("convolution-1d", "convolution-2d"),
    counter={**SIGNAL, "kernel": "[[[1, 2]]]", "signal": "[[1, 2, 4]]", "bias": "[1]"},
)
def convolution_bias_forgotten(s: Seen) -> Any:
    """the bias is left out"""
    return {"bias": None} if s.has("bias") else None


@misconception(on=MATRIX, at="matrix", counter=SHIFTED)
def toeplitz_transposed(s: Seen) -> Any:
    """the matrix is transposed: one row an output, one column an input"""
    return s.now.T


@misconception(on=MATRIX, at="matrix", counter=SHIFTED)
def toeplitz_upside_down(s: Seen) -> Any:
    """the kernel moves the wrong way: from row to row it shifts to the right"""
    return s.now[::-1]


@misconception(on=MATRIX, at="matrix", counter=SHIFTED)
def toeplitz_without_overlap(s: Seen) -> Any:
    """the windows do not overlap: the kernel moves by one place, not by its own length"""
    if s.padding or s.stride != 1:
        return None
    taps = s.kernel if s.has("kernel") else s.kernels
    wide, count = s.now.shape[1], taps.shape[-1]
    result = np.zeros_like(s.now)
    for row in range(len(result)):
        start = row * count
        kernel = taps if taps.ndim == 1 else taps[row]
        result[row, start : start + count] = kernel[: max(0, wide - start)]
    return result


@misconception(
    on=("locally-connected",),
    counter={"mechanism": "locally-connected", "signal": "1 2 4", "kernels": "1 2; 3 1"},
)
def taps_shared(s: Seen) -> Any:
    """every row has the same taps; without sharing each output has taps of its own"""
    return {"kernels": np.repeat(s.kernels[:1], len(s.kernels), axis=0)}


def _by_channel(s: Seen) -> list[Any]:
    """The output of each channel by itself: the kernel with all other channels zero."""
    kernel = s.kernel
    if (not s.has("image") and kernel.ndim != 3) or (s.has("image") and kernel.ndim != 4):
        return []
    from headwork.mechanisms import convolution_1d, convolution_2d
    from headwork.numbers import HandTensor

    function, given = (convolution_2d, s.image) if s.has("image") else (convolution_1d, s.signal)
    results = []
    for channel in range(kernel.shape[1]):
        alone = np.zeros_like(kernel)
        alone[:, channel] = kernel[:, channel]
        out = function(HandTensor(given), HandTensor(alone), stride=s.stride, padding=s.padding)
        results.append(out.array)
    return results
