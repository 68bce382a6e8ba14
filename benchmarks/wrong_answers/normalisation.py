"""Normalisation: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


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

KINDS = [
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
]
