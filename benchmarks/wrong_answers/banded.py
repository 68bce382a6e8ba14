"""Convolutions as one matrix: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.convolution import PLAIN, dropped
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


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
