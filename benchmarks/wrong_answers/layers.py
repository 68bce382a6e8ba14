"""Positions, normalisation and feed-forward: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- sinusoidal-positions ---------------------------------------------------------------------------
def pairs(s: Work) -> Any:
    return np.arange(s.width // 2)


def woven(even: Any, odd: Any) -> Any:
    return np.stack([even, odd], -1).reshape(len(even), -1)


def right_positions(given: Work) -> Formulas:
    return {
        "frequencies": lambda s: s.base ** (-2.0 * pairs(s) / s.width),
        "angles": lambda s: np.outer(s.places, s.frequencies),
        "output": lambda s: woven(np.sin(s.angles), np.cos(s.angles)),
    }


POSITIONS = [
    m(
        "exponent-not-doubled",
        "The exponent is -k/d instead of -2k/d.",
        "frequencies",
        lambda s: s.base ** (-1.0 * pairs(s) / s.width),
    ),
    m(
        "exponent-doubled-again",
        "The exponent is -4k/d.",
        "frequencies",
        lambda s: s.base ** (-4.0 * pairs(s) / s.width),
    ),
    m(
        "exponent-positive",
        "The exponent has the wrong sign.",
        "frequencies",
        lambda s: s.base ** (2.0 * pairs(s) / s.width),
    ),
    m(
        "pairs-from-one",
        "The pairs are counted from 1.",
        "frequencies",
        lambda s: s.base ** (-2.0 * (pairs(s) + 1) / s.width),
    ),
    m("base-e", "e is taken as the base.", "frequencies", lambda s: np.exp(-2.0 * pairs(s) / s.width)),
    m(
        "pairs-from-the-end",
        "The frequencies are in the reverse order.",
        "frequencies",
        lambda s: s.base ** (-2.0 * pairs(s)[::-1] / s.width),
    ),
    m(
        "over-width-minus-two",
        "Divided by d - 2 in the exponent: the last pair gets 1/base.",
        "frequencies",
        lambda s: s.base ** (-2.0 * pairs(s) / (s.width - 2)),
    ),
    m(
        "power-as-product",
        "1/(1 + base * 2k/d): a product instead of a power.",
        "frequencies",
        lambda s: 1 / (1 + s.base * 2 * pairs(s) / s.width),
    ),
    m(
        "exponent-not-over-width",
        "The exponent is not divided by d.",
        "frequencies",
        lambda s: s.base ** (-2.0 * pairs(s)),
    ),
    m(
        "base-ten-thousand",
        "The usual base 10000 is taken instead of the given one.",
        "frequencies",
        lambda s: 10000 ** (-2.0 * pairs(s) / s.width),
    ),
    m(
        "angles-divided",
        "The position is divided by the frequency.",
        "angles",
        lambda s: np.divide.outer(s.places, s.frequencies),
    ),
    m(
        "positions-from-one",
        "The positions are counted one higher.",
        "angles",
        lambda s: np.outer(s.places + 1, s.frequencies),
    ),
    m(
        "row-number-for-position",
        "The row number is taken instead of the position.",
        "angles",
        lambda s: np.outer(np.arange(len(s.places)), s.frequencies),
    ),
    m(
        "angles-with-two-pi",
        "A factor 2 pi too many in the angles.",
        "angles",
        lambda s: 2 * np.pi * np.outer(s.places, s.frequencies),
    ),
    m(
        "angles-added",
        "Position and frequency are added.",
        "angles",
        lambda s: np.add.outer(s.places, s.frequencies),
    ),
    m(
        "angles-power",
        "The frequency is raised to the position.",
        "angles",
        lambda s: s.frequencies ** s.places[:, None],
    ),
    m("angles-halved", "The angles are halved.", "angles", lambda s: np.outer(s.places, s.frequencies) / 2),
    m(
        "cosine-first",
        "The cosine stands before the sine.",
        "output",
        lambda s: woven(np.cos(s.angles), np.sin(s.angles)),
    ),
    m(
        "degrees",
        "The calculator was set to degrees.",
        "output",
        lambda s: woven(np.sin(np.radians(s.angles)), np.cos(np.radians(s.angles))),
    ),
    m("sines-only", "Only sines are taken.", "output", lambda s: woven(np.sin(s.angles), np.sin(s.angles))),
    m(
        "cosines-only",
        "Only cosines are taken.",
        "output",
        lambda s: woven(np.cos(s.angles), np.cos(s.angles)),
    ),
    m(
        "of-frequencies",
        "Sine and cosine of the position alone, for every pair.",
        "output",
        lambda s: woven(np.sin(s.places[:, None] + 0 * s.angles), np.cos(s.places[:, None] + 0 * s.angles)),
    ),
    m(
        "cosine-negative",
        "The cosine has the wrong sign.",
        "output",
        lambda s: woven(np.sin(s.angles), -np.cos(s.angles)),
    ),
    m(
        "angles-not-sines",
        "The angles are written without taking sine and cosine.",
        "output",
        lambda s: woven(s.angles, s.angles),
    ),
    m(
        "sine-of-first-pair-everywhere",
        "The first pair is repeated for every frequency.",
        "output",
        lambda s: np.tile(woven(np.sin(s.angles), np.cos(s.angles))[:, :2], s.width // 2),
    ),
]


# --- layer-normalisation, add-and-normalise ---------------------------------------------------------
def mean(rows: Any) -> Any:
    return rows.mean(-1, keepdims=True)


def root(rows: Any) -> Any:
    return np.sqrt(rows)


def right_norm(given: Work) -> Formulas:
    return {
        "mean": lambda s: mean(s.tokens),
        "centred": lambda s: s.tokens - s.mean,
        "deviation": lambda s: root(mean(s.centred**2)),
        "normalised": lambda s: s.centred / s.deviation,
        "output": lambda s: s.scale * s.normalised + s.shift,
    }


NORM = [
    m(
        "mean-is-sum",
        "The sum is given, not divided by the width.",
        "mean",
        lambda s: s.tokens.sum(-1, keepdims=True),
    ),
    m(
        "mean-over-width-minus-one",
        "The sum is divided by d - 1.",
        "mean",
        lambda s: s.tokens.sum(-1, keepdims=True) / 3,
    ),
    m("mean-is-median", "The median is taken.", "mean", lambda s: np.median(s.tokens, -1, keepdims=True)),
    m("mean-of-absolutes", "The signs are ignored in the mean.", "mean", lambda s: mean(np.abs(s.tokens))),
    m(
        "mean-of-everything",
        "One mean over all tokens.",
        "mean",
        lambda s: 0 * mean(s.tokens) + s.tokens.mean(),
    ),
    m("mean-over-tokens", "The mean over the tokens of each column.", "mean", lambda s: s.tokens.mean(0)),
    m(
        "mean-of-range",
        "The middle between the smallest and the largest.",
        "mean",
        lambda s: (s.tokens.max(-1, keepdims=True) + s.tokens.min(-1, keepdims=True)) / 2,
    ),
    m("centred-reversed", "Mean minus token.", "centred", lambda s: s.mean - s.tokens),
    m("centred-plus", "The mean is added.", "centred", lambda s: s.tokens + s.mean),
    m("not-centred", "The mean is not subtracted.", "centred", lambda s: s.tokens),
    m(
        "centred-by-first-mean",
        "The mean of the first token is subtracted everywhere.",
        "centred",
        lambda s: s.tokens - s.mean[0],
    ),
    m(
        "variance-for-deviation",
        "The variance is given: the root is left out.",
        "deviation",
        lambda s: mean(s.centred**2),
    ),
    m(
        "deviation-of-sample",
        "Divided by d - 1.",
        "deviation",
        lambda s: root((s.centred**2).sum(-1, keepdims=True) / 3),
    ),
    m(
        "deviation-mean-absolute",
        "The mean of the absolute differences.",
        "deviation",
        lambda s: mean(np.abs(s.centred)),
    ),
    m(
        "deviation-not-divided",
        "The root of the sum of squares, not divided by d.",
        "deviation",
        lambda s: root((s.centred**2).sum(-1, keepdims=True)),
    ),
    m(
        "deviation-divided-after-root",
        "Divided by d after the root.",
        "deviation",
        lambda s: root((s.centred**2).sum(-1, keepdims=True)) / 4,
    ),
    m(
        "deviation-not-centred",
        "The squares of the tokens themselves are averaged.",
        "deviation",
        lambda s: root(mean(s.tokens**2)),
    ),
    m(
        "deviation-largest",
        "The largest difference from the mean.",
        "deviation",
        lambda s: np.abs(s.centred).max(-1, keepdims=True),
    ),
    m(
        "normalised-by-variance",
        "Divided by the variance.",
        "normalised",
        lambda s: s.centred / s.deviation**2,
    ),
    m("normalised-times", "Multiplied by the deviation.", "normalised", lambda s: s.centred * s.deviation),
    m(
        "normalised-not-centred",
        "The tokens themselves are divided by the deviation.",
        "normalised",
        lambda s: s.tokens / s.deviation,
    ),
    m(
        "normalised-root-of-deviation",
        "Divided by the root of the deviation.",
        "normalised",
        lambda s: s.centred / root(s.deviation),
    ),
    m(
        "normalised-by-first-deviation",
        "Divided by the deviation of the first token everywhere.",
        "normalised",
        lambda s: s.centred / s.deviation[0],
    ),
    m("scale-forgotten", "The scale is left out.", "output", lambda s: s.normalised + s.shift),
    m("shift-forgotten", "The shift is left out.", "output", lambda s: s.scale * s.normalised),
    m(
        "scale-and-shift-swapped",
        "Scale and shift are exchanged.",
        "output",
        lambda s: s.shift * s.normalised + s.scale,
    ),
    m(
        "shift-before-scale",
        "The shift is added before scaling.",
        "output",
        lambda s: s.scale * (s.normalised + s.shift),
    ),
    m(
        "scale-added",
        "The scale is added instead of multiplied.",
        "output",
        lambda s: s.scale + s.normalised + s.shift,
    ),
    m("shift-subtracted", "The shift is subtracted.", "output", lambda s: s.scale * s.normalised - s.shift),
    m(
        "scale-of-centred",
        "The centred tokens are scaled, not the normalised ones.",
        "output",
        lambda s: s.scale * s.centred + s.shift,
    ),
    m("scale-divided", "Divided by the scale.", "output", lambda s: s.normalised / s.scale + s.shift),
]


def right_residual(given: Work) -> Formulas:
    return {
        "residual": lambda s: s.tokens + s.sublayer,
        "mean": lambda s: mean(s.residual),
        "deviation": lambda s: root(mean((s.residual - s.mean) ** 2)),
        "output": lambda s: (s.residual - s.mean) / s.deviation,
    }


def centred(s: Work) -> Any:
    return s.residual - s.mean


RESIDUAL = [
    m("residual-subtracted", "F is subtracted from X.", "residual", lambda s: s.tokens - s.sublayer),
    m("residual-reversed", "X is subtracted from F.", "residual", lambda s: s.sublayer - s.tokens),
    m("residual-forgotten", "X is not added: F alone.", "residual", lambda s: s.sublayer),
    m("residual-input-alone", "F is not added: X alone.", "residual", lambda s: s.tokens),
    m("residual-multiplied", "X and F are multiplied.", "residual", lambda s: s.tokens * s.sublayer),
    m(
        "residual-averaged",
        "The mean of X and F instead of their sum.",
        "residual",
        lambda s: (s.tokens + s.sublayer) / 2,
    ),
    m("residual-twice", "X is added twice.", "residual", lambda s: 2 * s.tokens + s.sublayer),
    m(
        "mean-is-sum",
        "The sum is given, not divided by the width.",
        "mean",
        lambda s: s.residual.sum(-1, keepdims=True),
    ),
    m("mean-of-tokens", "The mean of X instead of that of the sum.", "mean", lambda s: mean(s.tokens)),
    m("mean-of-sublayer", "The mean of F instead of that of the sum.", "mean", lambda s: mean(s.sublayer)),
    m(
        "mean-of-everything",
        "One mean over all tokens.",
        "mean",
        lambda s: 0 * mean(s.residual) + s.residual.mean(),
    ),
    m(
        "mean-over-width-minus-one",
        "The sum is divided by d - 1.",
        "mean",
        lambda s: s.residual.sum(-1, keepdims=True) / 3,
    ),
    m(
        "variance-for-deviation",
        "The variance is given: the root is left out.",
        "deviation",
        lambda s: mean(centred(s) ** 2),
    ),
    m(
        "deviation-of-sample",
        "Divided by d - 1.",
        "deviation",
        lambda s: root((centred(s) ** 2).sum(-1, keepdims=True) / 3),
    ),
    m(
        "deviation-mean-absolute",
        "The mean of the absolute differences.",
        "deviation",
        lambda s: mean(np.abs(centred(s))),
    ),
    m(
        "deviation-not-divided",
        "The root of the sum of squares, not divided by d.",
        "deviation",
        lambda s: root((centred(s) ** 2).sum(-1, keepdims=True)),
    ),
    m(
        "deviation-not-centred",
        "The squares of the sum itself are averaged.",
        "deviation",
        lambda s: root(mean(s.residual**2)),
    ),
    m("deviation-of-tokens", "The deviation of X.", "deviation", lambda s: s.tokens.std(-1, keepdims=True)),
    m("output-not-centred", "The mean is not subtracted.", "output", lambda s: s.residual / s.deviation),
    m("output-not-divided", "Not divided by the deviation.", "output", centred),
    m("output-times", "Multiplied by the deviation.", "output", lambda s: centred(s) * s.deviation),
    m("output-by-variance", "Divided by the variance.", "output", lambda s: centred(s) / s.deviation**2),
    m("output-reversed", "Mean minus the sum.", "output", lambda s: -centred(s) / s.deviation),
    m(
        "output-residual-again",
        "X is added once more after normalising.",
        "output",
        lambda s: centred(s) / s.deviation + s.tokens,
    ),
    m(
        "output-of-sublayer",
        "F is normalised with this mean and deviation.",
        "output",
        lambda s: (s.sublayer - s.mean) / s.deviation,
    ),
    m(
        "output-root-of-deviation",
        "Divided by the root of the deviation.",
        "output",
        lambda s: centred(s) / root(s.deviation),
    ),
    m(
        "output-mean-after-dividing",
        "Divided first, then the mean is subtracted.",
        "output",
        lambda s: s.residual / s.deviation - s.mean,
    ),
]


# --- feed-forward -----------------------------------------------------------------------------------
def right_forward(given: Work) -> Formulas:
    return {
        "hidden": lambda s: s.tokens @ s.W_1 + s.b_1,
        "activated": lambda s: np.maximum(s.hidden, 0),
        "output": lambda s: s.activated @ s.W_2 + s.b_2,
    }


FORWARD = [
    m("w-1-transposed", "W_1 is transposed.", "hidden", lambda s: s.tokens @ s.W_1.T + s.b_1),
    m("w-2-for-w-1", "W_2 is used instead of W_1.", "hidden", lambda s: s.tokens @ s.W_2 + s.b_1),
    m("b-1-forgotten", "b_1 is left out.", "hidden", lambda s: s.tokens @ s.W_1),
    m(
        "both-biases-forgotten",
        "Both biases are left out.",
        "hidden",
        lambda s: s.tokens @ s.W_1,
        "output",
        lambda s: s.activated @ s.W_2,
    ),
    m(
        "both-transposed",
        "Both matrices are transposed.",
        "hidden",
        lambda s: s.tokens @ s.W_1.T + s.b_1,
        "output",
        lambda s: s.activated @ s.W_2.T + s.b_2,
    ),
    m(
        "biases-swapped",
        "b_1 and b_2 are exchanged.",
        "hidden",
        lambda s: s.tokens @ s.W_1 + s.b_2,
        "output",
        lambda s: s.activated @ s.W_2 + s.b_1,
    ),
    m(
        "both-biases-subtracted",
        "Both biases are subtracted.",
        "hidden",
        lambda s: s.tokens @ s.W_1 - s.b_1,
        "output",
        lambda s: s.activated @ s.W_2 - s.b_2,
    ),
    m("b-1-subtracted", "b_1 is subtracted.", "hidden", lambda s: s.tokens @ s.W_1 - s.b_1),
    m("b-2-for-b-1", "b_2 is added instead of b_1.", "hidden", lambda s: s.tokens @ s.W_1 + s.b_2),
    m("b-1-twice", "b_1 is added twice.", "hidden", lambda s: s.tokens @ s.W_1 + 2 * s.b_1),
    m(
        "b-1-before-w-1",
        "b_1 is added to the tokens before W_1.",
        "hidden",
        lambda s: (s.tokens + s.b_1) @ s.W_1,
    ),
    m(
        "b-1-only-first-token",
        "b_1 is added to the first token only.",
        "hidden",
        lambda s: s.tokens @ s.W_1 + s.b_1 * (np.arange(len(s.tokens)) == 0)[:, None],
    ),
    m(
        "hidden-term-dropped",
        "Only the first term of each sum is taken.",
        "hidden",
        lambda s: np.outer(s.tokens[:, 0], s.W_1[0]) + s.b_1,
    ),
    m("no-activation", "max(0, .) is left out.", "activated", lambda s: s.hidden),
    m("activation-absolute", "The absolute value is taken.", "activated", lambda s: np.abs(s.hidden)),
    m(
        "activation-minimum",
        "min(0, .) instead of max(0, .).",
        "activated",
        lambda s: np.minimum(s.hidden, 0),
    ),
    m(
        "activation-step",
        "1 for positive numbers, 0 for others.",
        "activated",
        lambda s: (s.hidden > 0) * 1.0,
    ),
    m("activation-sigmoid", "The sigmoid is taken.", "activated", lambda s: 1 / (1 + np.exp(-s.hidden))),
    m("activation-tanh", "tanh is taken.", "activated", lambda s: np.tanh(s.hidden)),
    m(
        "activation-leaky",
        "Negative numbers are multiplied by 0.01 instead of set to 0.",
        "activated",
        lambda s: np.where(s.hidden > 0, s.hidden, 0.01 * s.hidden),
    ),
    m(
        "activation-of-whole-rows",
        "A row with a negative entry is set to 0 as a whole.",
        "activated",
        lambda s: s.hidden * (s.hidden >= 0).all(-1, keepdims=True),
    ),
    m("w-2-transposed", "W_2 is transposed.", "output", lambda s: s.activated @ s.W_2.T + s.b_2),
    m("w-1-for-w-2", "W_1 is used instead of W_2.", "output", lambda s: s.activated @ s.W_1 + s.b_2),
    m("b-2-forgotten", "b_2 is left out.", "output", lambda s: s.activated @ s.W_2),
    m("b-2-subtracted", "b_2 is subtracted.", "output", lambda s: s.activated @ s.W_2 - s.b_2),
    m("b-1-for-b-2", "b_1 is added instead of b_2.", "output", lambda s: s.activated @ s.W_2 + s.b_1),
    m(
        "output-of-hidden",
        "The second layer is applied to the numbers before the activation.",
        "output",
        lambda s: s.hidden @ s.W_2 + s.b_2,
    ),
    m(
        "output-activated",
        "max(0, .) is applied to the output too.",
        "output",
        lambda s: np.maximum(s.activated @ s.W_2 + s.b_2, 0),
    ),
    m(
        "output-plus-tokens",
        "The tokens are added to the output.",
        "output",
        lambda s: s.activated @ s.W_2 + s.b_2 + s.tokens,
    ),
    m("b-2-before-w-2", "b_2 is added before W_2.", "output", lambda s: (s.activated + s.b_2) @ s.W_2),
]

KINDS = [
    Kind("sinusoidal-positions", right_positions, POSITIONS, slips="angles, output", copied="output"),
    Kind(
        "layer-normalisation",
        right_norm,
        NORM,
        slips="mean, centred, output",
        copied="normalised",
        misread="centred < tokens, output < scale",
    ),
    Kind(
        "add-and-normalise",
        right_residual,
        RESIDUAL,
        slips="residual, mean, output",
        copied="residual",
        misread="residual < sublayer",
    ),
    Kind(
        "feed-forward",
        right_forward,
        FORWARD,
        slips="hidden, activated, output",
        copied="hidden",
        misread="hidden < W_1, output < W_2",
    ),
]
