"""Mistakes in convolutions and their matrices."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import misconception
from headwork.mechanisms import convolution_1d, convolution_2d
from headwork.numbers import HandTensor

CONVOLUTIONS = ("convolution-1d", "convolution-2d", "toeplitz")
CONVOLUTIONS_AS_MATRICES = ("toeplitz", "locally-connected")

CONVOLUTION_EXAMPLE = {"mechanism": "convolution-1d", "signal": "1 2 4 3", "kernel": "1 2"}
CHANNELS_EXAMPLE = {"mechanism": "convolution-1d", "signal": "1 2 4; 0 1 3", "kernel": "[[[1, 2], [1, -1]]]"}
TOEPLITZ_EXAMPLE = {"mechanism": "toeplitz", "signal": "1 2 4 3", "kernel": "1 2"}


@misconception(on=CONVOLUTIONS, counter_example=CONVOLUTION_EXAMPLE)
def kernel_flipped(run: RunView) -> Any:
    """the kernel is flipped; a convolution, as every framework defines it, does not flip it"""
    kernel = run.kernel
    return {"kernel": np.flip(kernel, (-1, -2)) if run.has("image") else np.flip(kernel, -1)}


@misconception(
    on=("convolution-2d",),
    counter_example={"mechanism": "convolution-2d", "image": "1 2 0; 0 1 3; 1 1 2", "kernel": "1 2; 0 1"},
)
def kernel_transposed(run: RunView) -> Any:
    """the kernel's rows and columns are swapped"""
    return {"kernel": np.swapaxes(run.kernel, -1, -2)}


@misconception(on=CONVOLUTIONS, at="output", counter_example=CHANNELS_EXAMPLE)
def channels_not_summed(run: RunView) -> Any:
    """the channels are kept separate; each output sums over all of them"""
    return np.concatenate(_by_channel(run))


@misconception(on=CONVOLUTIONS, at="output", counter_example=CHANNELS_EXAMPLE)
def first_channel_only(run: RunView) -> Any:
    """only the first channel is used; each output sums over all of them"""
    return _by_channel(run)[0]


@misconception(on=(*CONVOLUTIONS, "locally-connected"), counter_example={**CONVOLUTION_EXAMPLE, "padding": 1})
def padding_forgotten(run: RunView) -> Any:
    """the padding is left out"""
    return {"padding": 0} if run.padding else None


@misconception(on=CONVOLUTIONS, counter_example={**CONVOLUTION_EXAMPLE, "stride": 2})
def stride_forgotten(run: RunView) -> Any:
    """the stride is left out: the kernel moves by more than one position"""
    return {"stride": 1} if run.stride != 1 else None


@misconception(
    on=("convolution-1d", "convolution-2d"),
    counter_example={**CONVOLUTION_EXAMPLE, "kernel": "[[[1, 2]]]", "signal": "[[1, 2, 4]]", "bias": "[1]"},
)
def convolution_bias_forgotten(run: RunView) -> Any:
    """the bias is left out"""
    return {"bias": None} if run.has("bias") else None


@misconception(on=CONVOLUTIONS_AS_MATRICES, at="matrix", counter_example=TOEPLITZ_EXAMPLE)
def toeplitz_transposed(run: RunView) -> Any:
    """the matrix is transposed: one row per output, one column per input"""
    return run.current.T


@misconception(on=CONVOLUTIONS_AS_MATRICES, at="matrix", counter_example=TOEPLITZ_EXAMPLE)
def toeplitz_upside_down(run: RunView) -> Any:
    """the kernel moves the wrong way: from row to row it shifts to the right"""
    return run.current[::-1]


@misconception(on=CONVOLUTIONS_AS_MATRICES, at="matrix", counter_example=TOEPLITZ_EXAMPLE)
def toeplitz_without_overlap(run: RunView) -> Any:
    """the windows do not overlap: the kernel moves by one position, not by its own length"""
    if run.padding or run.stride != 1:
        return None
    taps = run.kernel if run.has("kernel") else run.kernels
    wide, count = run.current.shape[1], taps.shape[-1]
    result = np.zeros_like(run.current)
    for row in range(len(result)):
        start = row * count
        kernel = taps if taps.ndim == 1 else taps[row]
        result[row, start : start + count] = kernel[: max(0, wide - start)]
    return result


@misconception(
    on=("locally-connected",),
    counter_example={"mechanism": "locally-connected", "signal": "1 2 4", "kernels": "1 2; 3 1"},
)
def taps_shared(run: RunView) -> Any:
    """every row has the same taps; without sharing each output has taps of its own"""
    return {"kernels": np.repeat(run.kernels[:1], len(run.kernels), axis=0)}


def _by_channel(run: RunView) -> list[Any]:
    """The output of each channel by itself: the kernel with all other channels zero."""
    kernel = run.kernel
    if kernel.ndim != (4 if run.has("image") else 3):
        return []
    function, signal = (convolution_2d, run.image) if run.has("image") else (convolution_1d, run.signal)
    outputs = []
    for channel in range(kernel.shape[1]):
        single = np.zeros_like(kernel)
        single[:, channel] = kernel[:, channel]
        output = function(HandTensor(signal), HandTensor(single), stride=run.stride, padding=run.padding)
        outputs.append(output.array)
    return outputs
