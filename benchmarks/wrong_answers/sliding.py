"""Convolutions, as sums, as matrices and counted: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m

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


# --- as a matrix ------------------------------------------------------------------------------------
def banded(s: Work, **changed: Any) -> Any:
    """Row i holds ``taps(i)`` from position stride * i - padding on."""
    s = Work({**s, **changed})
    size, shared = len(s.signal), "kernel" in s
    taps = len(s.kernel) if shared else s.kernels.shape[1]
    rows = (size + 2 * s.padding - taps) // s.stride + 1
    matrix = np.zeros((rows, size))
    for i in range(rows):
        for j in range(taps):
            position = s.stride * i + j - s.padding + s.get("late", 0)
            if 0 <= position < size:
                matrix[i, position] = s.kernel[j] if shared else s.kernels[i, j]
    return matrix


def right_banded(given: Work) -> Formulas:
    return {"matrix": banded, "output": lambda s: s.matrix @ s.signal}


def wrapped(s: Work) -> Any:
    """As many rows as positions; taps that reach over the end come back at the start."""
    row = np.zeros(len(s.signal))
    row[: len(s.kernel)] = s.kernel
    return np.array([np.roll(row, i) for i in range(len(s.signal))])


BANDED_OUTPUT = [
    m(
        "output-first-column-dropped",
        "The first position is left out of the sums.",
        "output",
        lambda s: s.matrix[:, 1:] @ s.signal[1:],
    ),
    m(
        "output-last-column-dropped",
        "The last position is left out of the sums.",
        "output",
        lambda s: s.matrix[:, :-1] @ s.signal[:-1],
    ),
    m(
        "output-signs-lost",
        "The minus signs are overlooked in the products.",
        "output",
        lambda s: np.abs(s.matrix) @ np.abs(s.signal),
    ),
    m(
        "output-of-reversed-signal",
        "The signal is read from the end.",
        "output",
        lambda s: s.matrix @ s.signal[::-1],
    ),
    m(
        "output-averaged",
        "The sums are divided by the number of positions.",
        "output",
        lambda s: s.matrix @ s.signal / len(s.signal),
    ),
    m("output-row-sums", "The rows are summed, without the signal.", "output", lambda s: s.matrix.sum(1)),
    m(
        "output-shifted",
        "The signal is shifted by one position.",
        "output",
        lambda s: s.matrix @ np.roll(s.signal, -1),
    ),
    m(
        "output-reversed",
        "The outputs are in the reverse order.",
        "output",
        lambda s: (s.matrix @ s.signal)[::-1],
    ),
]
TOEPLITZ = [
    m("kernel-flipped", "The kernel is flipped.", "matrix", lambda s: banded(s, kernel=s.kernel[::-1])),
    m("stride-forgotten", "The stride is ignored.", "matrix", lambda s: banded(s, stride=1)),
    m("padding-forgotten", "The padding is ignored.", "matrix", lambda s: banded(s, padding=0)),
    m("shifted-late", "Each row starts one position too late.", "matrix", lambda s: banded(s, late=1)),
    m(
        "rows-not-shifted",
        "The kernel stands at the same position in every row.",
        "matrix",
        lambda s: np.repeat(banded(s)[:1], len(banded(s)), 0),
    ),
    m("rows-from-below", "The rows are in the reverse order.", "matrix", lambda s: banded(s)[::-1]),
    m(
        "band-upwards",
        "The kernel moves to the left from row to row.",
        "matrix",
        lambda s: banded(s)[:, ::-1],
    ),
    m("matrix-transposed", "The matrix is transposed.", "matrix", lambda s: banded(s).T),
    m("square-wrapped", "A square matrix whose rows wrap around.", "matrix", wrapped),
    m(
        "last-tap-dropped",
        "The last tap is left out.",
        "matrix",
        lambda s: banded(s, kernel=dropped(s.kernel, -1)),
    ),
    m(
        "first-tap-dropped",
        "The first tap is left out.",
        "matrix",
        lambda s: banded(s, kernel=dropped(s.kernel, 0)),
    ),
    m(
        "minus-signs-lost",
        "The minus signs of the kernel are overlooked.",
        "matrix",
        lambda s: banded(s, kernel=np.abs(s.kernel)),
    ),
    m(
        "signal-in-matrix",
        "The matrix already holds the products with the signal.",
        "matrix",
        lambda s: banded(s) * s.signal,
    ),
    m("last-row-missing", "The last row is missing.", "matrix", lambda s: banded(s)[:-1]),
    *BANDED_OUTPUT,
]
LOCAL = [
    m(
        "taps-shared",
        "The taps of output 0 are used for every output.",
        "matrix",
        lambda s: banded(s, kernels=np.repeat(s.kernels[:1], len(s.kernels), 0)),
    ),
    m(
        "last-taps-shared",
        "The taps of the last output are used for every output.",
        "matrix",
        lambda s: banded(s, kernels=np.repeat(s.kernels[-1:], len(s.kernels), 0)),
    ),
    m("taps-flipped", "The taps are flipped.", "matrix", lambda s: banded(s, kernels=s.kernels[:, ::-1])),
    m(
        "taps-from-below",
        "The rows of taps are taken from the last to the first.",
        "matrix",
        lambda s: banded(s, kernels=s.kernels[::-1]),
    ),
    m(
        "taps-one-late",
        "Each output takes the taps of the output before.",
        "matrix",
        lambda s: banded(s, kernels=np.roll(s.kernels, 1, 0)),
    ),
    m(
        "not-shifted",
        "All taps stand at the first positions.",
        "matrix",
        lambda s: np.pad(s.kernels, ((0, 0), (0, len(s.signal) - s.kernels.shape[1]))),
    ),
    m("shifted-late", "Each row starts one position too late.", "matrix", lambda s: banded(s, late=1)),
    m("matrix-transposed", "The matrix is transposed.", "matrix", lambda s: banded(s).T),
    m("band-upwards", "The taps move to the left from row to row.", "matrix", lambda s: banded(s)[:, ::-1]),
    m(
        "rows-from-below",
        "The rows of the matrix are in the reverse order.",
        "matrix",
        lambda s: banded(s)[::-1],
    ),
    m(
        "minus-signs-lost",
        "The minus signs of the taps are overlooked.",
        "matrix",
        lambda s: banded(s, kernels=np.abs(s.kernels)),
    ),
    m(
        "last-tap-dropped",
        "The last tap of each row is left out.",
        "matrix",
        lambda s: banded(s, kernels=dropped(s.kernels, -1)),
    ),
    m(
        "signal-in-matrix",
        "The matrix already holds the products with the signal.",
        "matrix",
        lambda s: banded(s) * s.signal,
    ),
    m(
        "stride-two",
        "A stride of 2 is used although none is asked.",
        "matrix",
        lambda s: np.array(
            [
                np.roll(np.pad(k, (0, len(s.signal) - len(k))), min(2 * i, len(s.signal) - len(k)))
                for i, k in enumerate(s.kernels)
            ]
        ),
    ),
    *BANDED_OUTPUT,
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
    Kind(
        "toeplitz",
        right_banded,
        TOEPLITZ,
        slips="matrix, output",
        copied="matrix",
        misread="matrix < kernel, output < signal",
        defaults=PLAIN,
    ),
    Kind(
        "locally-connected",
        right_banded,
        LOCAL,
        slips="matrix, output",
        copied="matrix",
        misread="matrix < kernels, output < signal",
        defaults=PLAIN,
    ),
]
