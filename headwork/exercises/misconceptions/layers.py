"""Mistakes in positions, normalisation, residuals and the feed-forward layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwork.exercises.case import Seen
from headwork.exercises.misconceptions.registry import misconception

POSITIONS = ("sinusoidal-positions",)
NORMALISED = ("layer-normalisation", "add-and-normalise")
FEED = ("feed-forward",)

PLACES = {"mechanism": "sinusoidal-positions", "places": "1 2", "width": 4}
ROWS = {"mechanism": "layer-normalisation", "tokens": "1 5; 2 4"}
ADDED = {"mechanism": "add-and-normalise", "tokens": "1 5; 2 4", "sublayer": "1 0; 0 3"}
LAYER = {
    "mechanism": "feed-forward",
    "tokens": "[[1, 2]]",
    "W_1": "1 -1; 0 -1",
    "W_2": "1 2; 3 1",
    "b_1": "1 -1",
    "b_2": "1 0",
}


# --- positions --------------------------------------------------------------------------------------


@misconception(on=POSITIONS, at="output", counter=PLACES)
def sine_and_cosine_swapped(s: Seen) -> Any:
    """sine and cosine are exchanged: the sine stands first in each pair"""
    return s.now.reshape(len(s.now), -1, 2)[..., ::-1].reshape(s.now.shape)


@misconception(on=POSITIONS, at="frequencies", counter=PLACES)
def exponent_without_two(s: Seen) -> Any:
    """the exponent lacks its 2: w_k = base^(-2k/d) for pair k"""
    return s.now**0.5


@misconception(on=POSITIONS, at="frequencies", counter=PLACES)
def column_for_pair(s: Seen) -> Any:
    """the exponent takes the column 2k for the pair k: w_k = base^(-2k/d)"""
    return s.now**2


@misconception(on=POSITIONS, at="frequencies", counter=PLACES)
def frequencies_rising(s: Seen) -> Any:
    """the exponent has the wrong sign: frequencies fall from pair to pair"""
    return 1 / s.now


@misconception(on=POSITIONS, counter=PLACES)
def positions_from_one(s: Seen) -> Any:
    """the places are counted from 1; they count from 0"""
    return {"places": s.places + 1}


@misconception(on=POSITIONS, at="output", counter=PLACES)
def degrees_for_radians(s: Seen) -> Any:
    """the angles are taken in degrees; they are in radians"""
    angles = np.deg2rad(s.angles)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(s.now.shape)


# --- normalisation ----------------------------------------------------------------------------------


def _rows(s: Seen) -> Any:
    return s.residual if "residual" in s._kept else s.tokens


def _over_tokens(s: Seen) -> tuple[Any, Any]:
    rows = _rows(s)
    return rows.mean(-2, keepdims=True), rows.std(-2, keepdims=True)


@misconception(
    on=NORMALISED,
    at="mean",
    counter=ROWS,
    also={
        "centred": lambda s: _rows(s) - _over_tokens(s)[0],
        "deviation": lambda s: _over_tokens(s)[1],
        "normalised": lambda s: (_rows(s) - _over_tokens(s)[0]) / _over_tokens(s)[1],
        "output": lambda s: _affine(s, (_rows(s) - _over_tokens(s)[0]) / _over_tokens(s)[1]),
    },
)
def normalised_over_tokens(s: Seen) -> Any:
    """the mean is taken over the tokens; layer normalisation works on each token by itself"""
    return _over_tokens(s)[0]


def _affine(s: Seen, normalised: Any) -> Any:
    scaled = normalised * s.scale if s.has("scale") else normalised
    return scaled + s.shift if s.has("shift") else scaled


@misconception(on=NORMALISED, at="deviation", counter=ROWS)
def variance_for_deviation(s: Seen) -> Any:
    """the variance is taken for the standard deviation: the root is missing"""
    return s.now**2


@misconception(on=NORMALISED, at="deviation", counter=ROWS)
def sample_deviation(s: Seen) -> Any:
    """the squares are divided by d - 1; layer normalisation divides by d"""
    width = s.centred.shape[-1]
    return s.now * np.sqrt(width / (width - 1))


@misconception(on=NORMALISED, at="normalised", counter=ROWS)
def mean_not_subtracted(s: Seen) -> Any:
    """the mean is not subtracted"""
    return _rows(s) / s.deviation


@misconception(on=NORMALISED, at="deviation", counter=ROWS)
def deviation_of_sum(s: Seen) -> Any:
    """the squares are not divided by d: the deviation is the root of their mean"""
    return s.now * np.sqrt(s.centred.shape[-1])


@misconception(on=("layer-normalisation",), counter={**ROWS, "scale": "2 1", "shift": "1 3"})
def scale_and_shift_swapped(s: Seen) -> Any:
    """scale and shift are exchanged"""
    return {"scale": s.shift, "shift": s.scale} if s.has("scale") and s.has("shift") else None


@misconception(on=("layer-normalisation",), at="output", counter={**ROWS, "scale": "2 1", "shift": "1 3"})
def affine_forgotten(s: Seen) -> Any:
    """scale and shift are left out"""
    return s.normalised if s.has("scale") or s.has("shift") else None


@misconception(on=("add-and-normalise",), at="residual", counter=ADDED)
def residual_forgotten(s: Seen) -> Any:
    """the residual is left out: what went in must be added to what the sublayer gave"""
    return s.sublayer


@misconception(on=("add-and-normalise",), at="output", counter=ADDED)
def added_after_normalising(s: Seen) -> Any:
    """what went in is normalised before the sublayer's part is added; here the sum is normalised"""
    rows = s.tokens
    return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True) + s.sublayer


# --- feed-forward -----------------------------------------------------------------------------------


@misconception(on=FEED, counter={**LAYER, "W_1": "1 -1; 2 -1"})
def feed_forward_transposed(s: Seen) -> Any:
    """a matrix is applied transposed: W x for x W"""
    return {"W_1": s.W_1.T, "W_2": s.W_2.T}


@misconception(on=FEED, at="activated", counter=LAYER)
def activation_forgotten(s: Seen) -> Any:
    """the activation is left out: negative numbers must become 0"""
    return s.hidden


@misconception(on=FEED, at="activated", counter=LAYER)
def absolute_for_positive(s: Seen) -> Any:
    """the absolute value is taken; negative numbers must become 0"""
    return np.abs(s.hidden)


@misconception(on=FEED, counter=LAYER)
def first_bias_forgotten(s: Seen) -> Any:
    """the first bias b_1 is left out"""
    return {"b_1": None} if s.has("b_1") else None


@misconception(on=FEED, counter=LAYER)
def second_bias_forgotten(s: Seen) -> Any:
    """the second bias b_2 is left out"""
    return {"b_2": None} if s.has("b_2") else None


@misconception(on=FEED, at="output", counter={**LAYER, "W_2": "1 -2; 3 1"})
def output_activated(s: Seen) -> Any:
    """the output is cut off at 0 too; the activation stands only between the two layers"""
    return np.maximum(s.now, 0)
