"""Sinusoidal positions and the feed-forward layer: right formulas and ordinary mistakes."""

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
        "feed-forward",
        right_forward,
        FORWARD,
        slips="hidden, activated, output",
        copied="hidden",
        misread="hidden < W_1, output < W_2",
    ),
]
