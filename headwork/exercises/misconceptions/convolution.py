"""Mistakes in convolutions and their matrices."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import SENTENCES, formulas, misconception
from headwork.mechanisms import convolution_1d, convolution_2d
from headwork.numbers import HandTensor

CONVOLUTIONS = ("convolution-1d", "convolution-2d", "toeplitz")
CONVOLUTIONS_AS_MATRICES = ("toeplitz", "locally-connected")


@misconception(on=CONVOLUTIONS, counter_example="convolution")
def kernel_flipped(run: RunView) -> Any:
    """the kernel is flipped; a convolution, as every framework defines it, does not flip it"""
    kernel = run.kernel
    return {"kernel": np.flip(kernel, (-1, -2)) if run.has("image") else np.flip(kernel, -1)}


@misconception(
    on=("convolution-2d",),
    counter_example="kernel-transposed",
)
def kernel_transposed(run: RunView) -> Any:
    """the kernel's rows and columns are swapped"""
    return {"kernel": np.swapaxes(run.kernel, -1, -2)}


formulas(SENTENCES, on=CONVOLUTIONS, counter_example="channels")(
    channels_not_summed=("output", lambda run: np.concatenate(_by_channel(run))),
    first_channel_only=("output", lambda run: _by_channel(run)[0]),
)


@misconception(on=(*CONVOLUTIONS, "locally-connected"), counter_example="padding-forgotten")
def padding_forgotten(run: RunView) -> Any:
    """the padding is left out"""
    return {"padding": 0} if run.padding else None


@misconception(on=CONVOLUTIONS, counter_example="stride-forgotten")
def stride_forgotten(run: RunView) -> Any:
    """the stride is left out: the kernel moves by more than one position"""
    return {"stride": 1} if run.stride != 1 else None


@misconception(
    on=("convolution-1d", "convolution-2d"),
    counter_example="convolution-bias-forgotten",
)
def convolution_bias_forgotten(run: RunView) -> Any:
    """the bias is left out"""
    return {"bias": None} if run.has("bias") else None


@misconception(on=("convolution-1d",), counter_example="convolution", chosen_for=False)
def window_over_the_end(run: RunView) -> Any:
    """there is one window too many: the last one reaches over the end, as if a zero came there"""
    ends = [(0, 0)] * (run.signal.ndim - 1) + [(0, run.stride)]
    return {"signal": np.pad(run.signal, ends)}


@misconception(on=("convolution-1d", "toeplitz"), counter_example="three-taps", chosen_for=False)
def last_tap_unread(run: RunView) -> Any:
    """the kernel is read without its last tap, as if it were shorter, so there are more windows"""
    return {"kernel": run.kernel[..., :-1]} if run.kernel.shape[-1] > 2 else None


@misconception(on=("convolution-1d", "toeplitz"), counter_example="toeplitz-stride", chosen_for=False)
def moved_by_its_length(run: RunView) -> Any:
    """the kernel moves by its own length, so that windows do not overlap; it moves by the stride"""
    return {"stride": run.kernel.shape[-1]} if run.stride != run.kernel.shape[-1] else None


formulas(SENTENCES, on=CONVOLUTIONS_AS_MATRICES, counter_example="toeplitz")(
    toeplitz_transposed=("matrix", lambda run: run.current.T),
    toeplitz_upside_down=("matrix", lambda run: run.current[::-1]),
)


@misconception(on=CONVOLUTIONS_AS_MATRICES, at="matrix", counter_example="toeplitz")
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
    counter_example="taps-shared",
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
