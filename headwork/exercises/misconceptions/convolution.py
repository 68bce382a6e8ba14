"""Mistakes in convolutions and their matrices."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.mechanisms import convolution_1d, convolution_2d
from headwork.numbers import HandTensor


def kernel_flipped(run: RunView) -> Any:
    kernel = run.kernel
    return {"kernel": np.flip(kernel, (-1, -2)) if run.has("image") else np.flip(kernel, -1)}


def kernel_transposed(run: RunView) -> Any:
    return {"kernel": np.swapaxes(run.kernel, -1, -2)}


def channels_not_summed(run: RunView) -> Any:
    return np.concatenate(_by_channel(run))


def first_channel_only(run: RunView) -> Any:
    return _by_channel(run)[0]


def padding_forgotten(run: RunView) -> Any:
    return {"padding": 0} if run.padding else None


def stride_forgotten(run: RunView) -> Any:
    return {"stride": 1} if run.stride != 1 else None


def convolution_bias_forgotten(run: RunView) -> Any:
    return {"bias": None} if run.has("bias") else None


def window_over_the_end(run: RunView) -> Any:
    ends = [(0, 0)] * (run.signal.ndim - 1) + [(0, run.stride)]
    return {"signal": np.pad(run.signal, ends)}


def last_tap_unread(run: RunView) -> Any:
    return {"kernel": run.kernel[..., :-1]} if run.kernel.shape[-1] > 2 else None


def moved_by_its_length(run: RunView) -> Any:
    return {"stride": run.kernel.shape[-1]} if run.stride != run.kernel.shape[-1] else None


def toeplitz_transposed(run: RunView) -> Any:
    return run.current.T


def toeplitz_upside_down(run: RunView) -> Any:
    return run.current[::-1]


def toeplitz_without_overlap(run: RunView) -> Any:
    if run.padding or run.stride != 1:
        return None
    taps = run.kernel if run.has("kernel") else run.kernels
    columns, count = run.current.shape[1], taps.shape[-1]
    result = np.zeros_like(run.current)
    for row in range(len(result)):
        start = row * count
        kernel = taps if taps.ndim == 1 else taps[row]
        result[row, start : start + count] = kernel[: max(0, columns - start)]
    return result


def taps_shared(run: RunView) -> Any:
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
