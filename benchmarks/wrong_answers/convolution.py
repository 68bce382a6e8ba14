"""Convolutions in one and two dimensions: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Kind, Work, m

PLAIN = {"stride": 1, "padding": 0}


# --- one dimension ----------------------------------------------------------------------------------
def slide(s: Work, **changed: Any) -> Any:
    """Channel x position under channel x tap; one output channel."""
    s = Work({**s, **changed})
    signal, kernel = np.atleast_2d(s.signal), np.asarray(s.kernel).reshape(-1, np.shape(s.kernel)[-1])
    padded, taps = np.pad(signal, ((0, 0), (s.padding, s.padding))), kernel.shape[1]
    starts = range(0, padded.shape[1] - taps + 1, s.stride)
    output = np.array([(padded[:, i : i + taps] * kernel).sum() for i in starts])
    return output if np.ndim(s.signal) == 1 else output[None]


def largest_product(s: Work) -> Any:
    padded = np.pad(s.signal, s.padding)
    return np.array([(padded[i : i + 3] * s.kernel).max() for i in range(0, len(padded) - 2, s.stride)])


def dropped(kernel: Any, tap: int) -> Any:
    kernel = kernel.copy()
    kernel[..., tap] = 0
    return kernel


def of_channel(s: Work, channel: int) -> Any:
    if np.ndim(s.signal) == 1:
        raise ValueError("one channel")
    return slide(s, signal=s.signal[channel : channel + 1], kernel=s.kernel[:, channel : channel + 1])


ONE = [
    m("kernel-flipped", "The kernel is flipped.", "output", lambda s: slide(s, kernel=s.kernel[..., ::-1])),
    m("stride-forgotten", "The stride is ignored.", "output", lambda s: slide(s, stride=1)),
    m("stride-too-large", "The stride is one too large.", "output", lambda s: slide(s, stride=s.stride + 1)),
    m("padding-forgotten", "The padding is ignored.", "output", lambda s: slide(s, padding=0)),
    m(
        "padding-not-asked",
        "A zero is added at each end although none is asked.",
        "output",
        lambda s: slide(s, padding=s.padding + 1),
    ),
    m(
        "padding-left-only",
        "The signal is padded on the left only.",
        "output",
        lambda s: slide(
            s, signal=np.pad(s.signal, ((0, 0),) * (np.ndim(s.signal) - 1) + ((s.padding, 0),)), padding=0
        ),
    ),
    m(
        "first-tap-dropped",
        "The first tap is left out.",
        "output",
        lambda s: slide(s, kernel=dropped(s.kernel, 0)),
    ),
    m(
        "last-tap-dropped",
        "The last tap is left out.",
        "output",
        lambda s: slide(s, kernel=dropped(s.kernel, -1)),
    ),
    m(
        "shifted-by-one",
        "The windows start one position too late; the last reaches over the end.",
        "output",
        lambda s: slide(s, signal=np.concatenate([s.signal[..., 1:], 0 * s.signal[..., :1]], -1)),
    ),
    m(
        "wraps-around",
        "The windows start one position early, around the end.",
        "output",
        lambda s: slide(s, signal=np.roll(s.signal, 1, -1)),
    ),
    m(
        "minus-signs-lost",
        "The minus signs of the kernel are overlooked.",
        "output",
        lambda s: slide(s, kernel=np.abs(s.kernel)),
    ),
    m(
        "signal-signs-lost",
        "The minus signs of the signal are overlooked.",
        "output",
        lambda s: slide(s, signal=np.abs(s.signal)),
    ),
    m(
        "averaged",
        "The sums are divided by the number of taps.",
        "output",
        lambda s: slide(s) / np.shape(s.kernel)[-1],
    ),
    m("largest-product", "The largest product is taken instead of the sum.", "output", largest_product),
    m("last-output-missing", "The last output is missing.", "output", lambda s: slide(s)[..., :-1]),
    m("kernel-negated", "The products are subtracted.", "output", lambda s: -slide(s)),
    m(
        "kernel-rotated",
        "The kernel starts at its second tap.",
        "output",
        lambda s: slide(s, kernel=np.roll(s.kernel, -1, -1)),
    ),
    m(
        "signal-reversed",
        "The signal is read from the end.",
        "output",
        lambda s: slide(s, signal=s.signal[..., ::-1]),
    ),
    m("running-sum", "Each output is added to the one before.", "output", lambda s: slide(s).cumsum(-1)),
    m("first-channel-only", "Only channel 0 is summed.", "output", lambda s: of_channel(s, 0)),
    m("second-channel-only", "Only channel 1 is summed.", "output", lambda s: of_channel(s, 1)),
    m(
        "channels-exchanged",
        "The taps of the two channels are exchanged.",
        "output",
        lambda s: slide(s, kernel=s.kernel[:, ::-1]),
    ),
    m(
        "first-taps-for-both",
        "The taps of channel 0 are used for both channels.",
        "output",
        lambda s: slide(s, kernel=s.kernel[:, [0, 0]]),
    ),
    m(
        "channels-subtracted",
        "Channel 1 is subtracted.",
        "output",
        lambda s: of_channel(s, 0) - of_channel(s, 1),
    ),
    m(
        "channels-averaged",
        "The mean over the channels instead of the sum.",
        "output",
        lambda s: (of_channel(s, 0) + of_channel(s, 1)) / 2,
    ),
]


# --- two dimensions ---------------------------------------------------------------------------------
def slide_2d(s: Work, **changed: Any) -> Any:
    s = Work({**s, **changed})
    image = s.image if np.ndim(s.image) == 3 else s.image[None]
    kernel = np.asarray(s.kernel).reshape(-1, *np.shape(s.kernel)[-2:])
    padded = np.pad(image, ((0, 0), (s.padding, s.padding), (s.padding, s.padding)))
    tall, wide = kernel.shape[1:]
    across = s.get("across", s.stride)
    output = np.array(
        [
            [
                (padded[:, i : i + tall, j : j + wide] * kernel).sum()
                for j in range(0, padded.shape[2] - wide + 1, across)
            ]
            for i in range(0, padded.shape[1] - tall + 1, s.stride)
        ]
    )
    return output if np.ndim(s.image) == 2 else output[None]


def cell_dropped(s: Work, row: int, column: int) -> Any:
    kernel = s.kernel.copy()
    kernel[..., row, column] = 0
    return slide_2d(s, kernel=kernel)


def of_channel_2d(s: Work, channel: int) -> Any:
    if np.ndim(s.image) == 2:
        raise ValueError("one channel")
    return slide_2d(s, image=s.image[channel : channel + 1], kernel=s.kernel[:, channel : channel + 1])


TWO = [
    m(
        "kernel-flipped",
        "The kernel is flipped in both directions.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[..., ::-1, ::-1]),
    ),
    m(
        "kernel-flipped-across",
        "The kernel is flipped left to right.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[..., ::-1]),
    ),
    m(
        "kernel-flipped-down",
        "The kernel is flipped top to bottom.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[..., ::-1, :]),
    ),
    m(
        "kernel-transposed",
        "The kernel is transposed.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel.swapaxes(-1, -2)),
    ),
    m(
        "image-transposed",
        "The image is transposed.",
        "output",
        lambda s: slide_2d(s, image=s.image.swapaxes(-1, -2)),
    ),
    m("output-transposed", "The output is transposed.", "output", lambda s: slide_2d(s).swapaxes(-1, -2)),
    m("stride-forgotten", "The stride is ignored.", "output", lambda s: slide_2d(s, stride=1)),
    m("stride-down-only", "The stride is used downwards only.", "output", lambda s: slide_2d(s, across=1)),
    m("padding-forgotten", "The padding is ignored.", "output", lambda s: slide_2d(s, padding=0)),
    m(
        "padding-not-asked",
        "A border of zeros is added although none is asked.",
        "output",
        lambda s: slide_2d(s, padding=s.padding + 1),
    ),
    m("patches-not-overlapping", "The windows do not overlap.", "output", lambda s: slide_2d(s, stride=2)),
    m(
        "corner-dropped",
        "The lower right entry of the kernel is left out.",
        "output",
        lambda s: cell_dropped(s, 1, 1),
    ),
    m(
        "first-entry-dropped",
        "The upper left entry of the kernel is left out.",
        "output",
        lambda s: cell_dropped(s, 0, 0),
    ),
    m(
        "lower-row-dropped",
        "The lower row of the kernel is left out.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel * np.array([[1], [0]])),
    ),
    m(
        "minus-signs-lost",
        "The minus signs of the kernel are overlooked.",
        "output",
        lambda s: slide_2d(s, kernel=np.abs(s.kernel)),
    ),
    m(
        "averaged",
        "The sums are divided by the number of entries of the kernel.",
        "output",
        lambda s: slide_2d(s) / 4,
    ),
    m(
        "kernel-rotated",
        "The kernel is turned by a quarter.",
        "output",
        lambda s: slide_2d(s, kernel=np.rot90(s.kernel, axes=(-2, -1))),
    ),
    m(
        "shifted-right",
        "The windows lie one column too far right.",
        "output",
        lambda s: slide_2d(s, image=np.concatenate([s.image[..., 1:], 0 * s.image[..., :1]], -1)),
    ),
    m("first-channel-only", "Only channel 0 is summed.", "output", lambda s: of_channel_2d(s, 0)),
    m(
        "channels-exchanged",
        "The kernels of the two channels are exchanged.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[:, ::-1]),
    ),
    m(
        "first-kernel-for-both",
        "The kernel of channel 0 is used for both channels.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[:, [0, 0]]),
    ),
    m(
        "channels-averaged",
        "The mean over the channels instead of the sum.",
        "output",
        lambda s: (of_channel_2d(s, 0) + of_channel_2d(s, 1)) / 2,
    ),
    m(
        "channels-not-summed",
        "The channels are kept apart, one below the other.",
        "output",
        lambda s: np.concatenate([of_channel_2d(s, 0), of_channel_2d(s, 1)]),
    ),
    m(
        "channels-subtracted",
        "Channel 1 is subtracted.",
        "output",
        lambda s: of_channel_2d(s, 0) - of_channel_2d(s, 1),
    ),
]

KINDS = [
    Kind(
        "convolution-1d",
        lambda given: {"output": slide},
        ONE,
        slips="output",
        misread="output < signal, output < kernel",
        defaults=PLAIN,
    ),
    Kind(
        "convolution-2d",
        lambda given: {"output": slide_2d},
        TWO,
        slips="output",
        misread="output < image, output < kernel",
        defaults=PLAIN,
    ),
]
