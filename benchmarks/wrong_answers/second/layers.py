"""Ordinary mistakes in the other layers, convolutions and recurrences, a second set."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.banded import banded
from benchmarks.wrong_answers.convolution import slide, slide_2d
from benchmarks.wrong_answers.normalisation import mean, root
from benchmarks.wrong_answers.positions import pairs, woven
from benchmarks.wrong_answers.recurrences import exponents, last, old, read_out
from benchmarks.wrong_answers.solving import Work, m

POSITIONS = [
    m(
        "exponent-without-two",
        "The exponent is i/d, without the 2.",
        "frequencies",
        lambda s: s.base ** (-1.0 * pairs(s) / s.width),
    ),
    m(
        "frequency-inverted",
        "The exponent lacks its minus sign.",
        "frequencies",
        lambda s: s.base ** (2.0 * pairs(s) / s.width),
    ),
    m(
        "degrees",
        "The calculator was set to degrees.",
        "output",
        lambda s: woven(np.sin(np.radians(s.angles)), np.cos(np.radians(s.angles))),
    ),
    m("cosine-first", "Cosine before sine.", "output", lambda s: woven(np.cos(s.angles), np.sin(s.angles))),
    m(
        "sines-then-cosines",
        "First all sines, then all cosines.",
        "output",
        lambda s: np.concatenate([np.sin(s.angles), np.cos(s.angles)], 1),
    ),
    m(
        "positions-from-one",
        "Each position is taken one too large.",
        "angles",
        lambda s: np.outer(s.places + 1, s.frequencies),
    ),
    m(
        "angle-divided",
        "The position is divided by the frequency.",
        "angles",
        lambda s: s.places[:, None] / s.frequencies,
    ),
]
NORM = [
    m(
        "mean-of-columns",
        "The mean of each column is taken.",
        "mean",
        lambda s: np.repeat(s.tokens.mean(), len(s.tokens))[:, None],
    ),
    m("sum-not-mean", "The sum is given as the mean.", "mean", lambda s: s.tokens.sum(-1, keepdims=True)),
    m("variance-for-deviation", "The root is forgotten.", "deviation", lambda s: mean(s.centred**2)),
    m(
        "n-minus-one",
        "Divided by n - 1.",
        "deviation",
        lambda s: root((s.centred**2).sum(-1, keepdims=True) / 3),
    ),
    m("mean-absolute", "The mean absolute deviation.", "deviation", lambda s: mean(np.abs(s.centred))),
    m(
        "not-centred",
        "The tokens, not the centred tokens, are divided.",
        "normalised",
        lambda s: s.tokens / s.deviation,
    ),
    m("scale-forgotten", "The scale is forgotten.", "output", lambda s: s.normalised + s.shift),
    m(
        "shift-first",
        "The shift is added before scaling.",
        "output",
        lambda s: s.scale * (s.normalised + s.shift),
    ),
    m(
        "scale-and-shift-exchanged",
        "Scale and shift are exchanged.",
        "output",
        lambda s: s.shift * s.normalised + s.scale,
    ),
    m("mean-added", "The mean is added.", "centred", lambda s: s.tokens + s.mean),
]
RESIDUAL = [
    m(
        "no-residual",
        "Only F is taken, the residual connection is forgotten.",
        "residual",
        lambda s: s.sublayer,
    ),
    m("difference", "F - X is taken.", "residual", lambda s: s.sublayer - s.tokens),
    m("variance-given", "The variance is given.", "deviation", lambda s: mean((s.residual - s.mean) ** 2)),
    m(
        "deviation-n-minus-one",
        "Divided by n - 1.",
        "deviation",
        lambda s: root(((s.residual - s.mean) ** 2).sum(-1, keepdims=True) / 3),
    ),
    m(
        "deviation-around-zero",
        "The mean is not subtracted before squaring.",
        "deviation",
        lambda s: root(mean(s.residual**2)),
    ),
    m("mean-not-subtracted", "The mean is not subtracted.", "output", lambda s: s.residual / s.deviation),
    m(
        "residual-after",
        "X is added again after the normalisation.",
        "output",
        lambda s: (s.residual - s.mean) / s.deviation + s.tokens,
    ),
    m(
        "only-x-normalised",
        "Mean and deviation are those of F alone.",
        "mean",
        lambda s: mean(s.sublayer),
        "deviation",
        lambda s: root(mean((s.sublayer - s.mean) ** 2)),
    ),
]
FORWARD = [
    m("no-b-1", "b_1 is forgotten.", "hidden", lambda s: s.tokens @ s.W_1),
    m(
        "no-biases",
        "Both biases are forgotten.",
        "hidden",
        lambda s: s.tokens @ s.W_1,
        "output",
        lambda s: s.activated @ s.W_2,
    ),
    m("w-1-transposed", "x W_1^T.", "hidden", lambda s: s.tokens @ s.W_1.T + s.b_1),
    m("relu-absolute", "Negative numbers lose their sign.", "activated", lambda s: np.abs(s.hidden)),
    m("relu-forgotten", "No activation.", "activated", lambda s: s.hidden),
    m("relu-one", "Positive numbers become 1.", "activated", lambda s: (s.hidden > 0) * 1.0),
    m("relu-min", "min(0, x) for max(0, x).", "activated", lambda s: np.minimum(s.hidden, 0)),
    m(
        "relu-at-the-end",
        "The activation is applied to the output as well.",
        "output",
        lambda s: np.maximum(s.activated @ s.W_2 + s.b_2, 0),
    ),
    m(
        "output-from-hidden",
        "W_2 is applied to the numbers before the activation.",
        "output",
        lambda s: s.hidden @ s.W_2 + s.b_2,
    ),
]
ONE = [
    m(
        "flipped",
        "The kernel is flipped: a true convolution.",
        "output",
        lambda s: slide(s, kernel=s.kernel[..., ::-1]),
    ),
    m("no-padding", "The padding is forgotten.", "output", lambda s: slide(s, padding=0)),
    m("no-stride", "The stride is forgotten.", "output", lambda s: slide(s, stride=1)),
    m("padding-on-the-left", "Zeros are put on the left side only.", "output", lambda s: one_sided(s)),
    m("stops-early", "The last position of the kernel is forgotten.", "output", lambda s: slide(s)[..., :-1]),
    m("non-overlapping", "The kernel jumps by its own length.", "output", lambda s: slide(s, stride=3)),
    m("averaged", "The sums are divided by the length of the kernel.", "output", lambda s: slide(s) / 3),
]


def one_sided(s: Work) -> Any:
    pad = [(0, 0)] * (np.ndim(s.signal) - 1) + [(s.padding, 0)]
    return slide(s, signal=np.pad(s.signal, pad), padding=0)


TWO = [
    m(
        "turned-by-180",
        "The kernel is flipped in both directions.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[..., ::-1, ::-1]),
    ),
    m(
        "kernel-transposed",
        "The kernel is transposed.",
        "output",
        lambda s: slide_2d(s, kernel=np.swapaxes(s.kernel, -1, -2)),
    ),
    m("padding-left-out", "The padding is forgotten.", "output", lambda s: slide_2d(s, padding=0)),
    m("stride-one", "The stride is forgotten.", "output", lambda s: slide_2d(s, stride=1)),
    m(
        "upside-down",
        "The kernel's rows are exchanged.",
        "output",
        lambda s: slide_2d(s, kernel=s.kernel[..., ::-1, :]),
    ),
    m(
        "kernel-signs",
        "The minus signs of the kernel are overlooked.",
        "output",
        lambda s: slide_2d(s, kernel=np.abs(s.kernel)),
    ),
    m(
        "output-transposed-2d",
        "The output is transposed.",
        "output",
        lambda s: np.swapaxes(slide_2d(s), -1, -2),
    ),
]
TOEPLITZ = [
    m(
        "flipped-rows",
        "The kernel stands backwards in the rows.",
        "matrix",
        lambda s: banded(s, kernel=s.kernel[::-1]),
    ),
    m(
        "steps-of-one",
        "Each row is shifted by one in spite of the stride.",
        "matrix",
        lambda s: banded(s, stride=1)[: len(banded(s))],
    ),
    m("padding-not-cut", "The columns of the padding are kept.", "matrix", lambda s: with_padding(s)),
    m("for-columns", "The transposed matrix.", "matrix", lambda s: banded(s).T),
    m(
        "kernel-times-signal",
        "The output is computed with the flipped kernel.",
        "output",
        lambda s: banded(s, kernel=s.kernel[::-1]) @ s.signal,
    ),
    m("column-sums", "The columns are added up.", "output", lambda s: s.matrix.sum(0)),
]


def with_padding(s: Work) -> Any:
    if not s.padding:
        raise ValueError("no padding")
    return banded(s, signal=np.pad(s.signal, s.padding), padding=0)


LOCAL = [
    m(
        "first-row-shared",
        "Row 0 of the taps is used everywhere, as in a convolution.",
        "matrix",
        lambda s: banded(s, kernels=np.repeat(s.kernels[:1], len(s.kernels), 0)),
    ),
    m("mirrored-taps", "The taps are mirrored.", "matrix", lambda s: banded(s, kernels=s.kernels[:, ::-1])),
    m(
        "no-shift",
        "The taps are not shifted from row to row.",
        "matrix",
        lambda s: np.pad(s.kernels, ((0, 0), (0, len(s.signal) - s.kernels.shape[1]))),
    ),
    m("taps-given", "The taps themselves are given as the matrix.", "matrix", lambda s: s.kernels),
    m("sum-of-taps", "The taps are added up without the signal.", "output", lambda s: s.matrix.sum(1)),
    m(
        "signal-one-later",
        "The products start one position later in the signal.",
        "output",
        lambda s: s.matrix @ np.append(s.signal[1:], 0),
    ),
]
RECURRENCE = [
    m("old-state-forgotten", "The old state is left out.", "step */state", lambda s, t: s.W_x * s.inputs[t]),
    m(
        "matrices-exchanged",
        "W_x and W_h are exchanged.",
        "step */state",
        lambda s, t: s.W_h * s.inputs[t] + s.W_x * old(s, t),
    ),
    m(
        "start-from-zero",
        "The first state starts from 0 instead of h_0.",
        "step 0/state",
        lambda s: np.atleast_1d(s.W_x * s.inputs[0]),
    ),
    m(
        "input-not-weighted",
        "The input enters without W_x.",
        "step */state",
        lambda s, t: s.inputs[t] + s.W_h * old(s, t),
    ),
    m(
        "state-subtracted",
        "The old state is subtracted.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] - s.W_h * old(s, t),
    ),
    m(
        "state-not-weighted",
        "The old state enters without W_h.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] + old(s, t),
    ),
    m("output-is-state", "The last state is given, without W_y.", "output", lambda s: read_out(s, last(s))),
    m(
        "always-h-0",
        "h_0 is used in place of the state before.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] + s.W_h * s.h_0,
    ),
]
CLOSED = [
    m(
        "powers-ascending",
        "The first input gets the power 0.",
        "powers",
        lambda s: float(s.W_h) ** exponents(s)[::-1],
    ),
    m(
        "power-one-more",
        "Each power is one too high.",
        "powers",
        lambda s: float(s.W_h) ** (exponents(s) + 1),
    ),
    m("exponents-for-powers", "The exponents are given.", "powers", lambda s: exponents(s) * 1.0),
    m("multiples", "W_h times the exponent.", "powers", lambda s: s.W_h * exponents(s) * 1.0),
    m("terms-without-w-x", "W_x is missing in the terms.", "terms", lambda s: s.powers * s.inputs[:, None]),
    m(
        "w-x-to-the-power",
        "W_x is raised to the power too.",
        "terms",
        lambda s: s.powers * float(s.W_x) ** exponents(s) * s.inputs[:, None],
    ),
    m("first-term-missing", "The first term is left out of the sum.", "output", lambda s: s.terms[1:].sum(0)),
    m("last-term-alone", "Only the last term is given.", "output", lambda s: s.terms[-1]),
]
ALTERNATION = [
    m(
        "counted-from-zero",
        "The positions are counted from 0.",
        "odd places",
        lambda s: s.inputs[1::2].sum(),
        "even places",
        lambda s: s.inputs[0::2].sum(),
    ),
    m(
        "odd-numbers",
        "The odd inputs are added, not those at odd positions.",
        "odd places",
        lambda s: s.inputs[s.inputs % 2 == 1].sum(),
    ),
    m("odd-minus-even", "Odd minus even.", "state", lambda s: s["odd places"] - s["even places"]),
    m("sum-of-both", "The two sums are added.", "state", lambda s: s["odd places"] + s["even places"]),
    m("state-as-output", "The state is given as the output.", "output", lambda s: s.state),
    m("step-reversed", "1 where it is negative.", "output", lambda s: float(s.state < 0)),
    m(
        "first-half",
        "The first half is taken for the odd positions.",
        "odd places",
        lambda s: s.inputs[: len(s.inputs) // 2].sum(),
    ),
    m(
        "last-left-out",
        "The last of the even positions is left out.",
        "even places",
        lambda s: s.inputs[1:-1:2].sum(),
    ),
]
MISTAKES = {
    "sinusoidal-positions": POSITIONS,
    "layer-normalisation": NORM,
    "add-and-normalise": RESIDUAL,
    "feed-forward": FORWARD,
    "convolution-1d": ONE,
    "convolution-2d": TWO,
    "toeplitz": TOEPLITZ,
    "locally-connected": LOCAL,
    "recurrence": RECURRENCE,
    "recurrence-closed-form": CLOSED,
    "alternation": ALTERNATION,
}
