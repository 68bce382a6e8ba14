"""Shapes of heads and counts of patches: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- head-shapes ------------------------------------------------------------------------------------
def head_width(s: Work) -> Any:
    return s["head width"]


def right_shapes(given: Work) -> Formulas:
    return {
        "head width": lambda s: s.width / s.heads,
        "query": lambda s: np.array([s.batch, s.tokens, s.heads, head_width(s)]),
        "weights": lambda s: np.array([s.batch, s.heads, s.tokens, s.tokens]),
        "per head": lambda s: np.array([s.batch, s.tokens, s.heads, head_width(s)]),
        "joined": lambda s: np.array([s.batch, s.tokens, s.heads * head_width(s)]),
    }


SHAPES = [
    m("head-width-whole", "The whole width is given to each head.", "head width", lambda s: s.width),
    m(
        "head-width-times",
        "The width is multiplied by the number of heads.",
        "head width",
        lambda s: s.width * s.heads,
    ),
    m(
        "head-width-over-batch",
        "The width is divided by heads and batch.",
        "head width",
        lambda s: s.width / s.heads / s.batch,
    ),
    m(
        "head-width-three",
        "The width is divided among queries, keys and values too.",
        "head width",
        lambda s: s.width / s.heads / 3,
    ),
    m("head-width-is-heads", "The number of heads is given as their width.", "head width", lambda s: s.heads),
    m(
        "query-not-split",
        "The queries keep the whole width in each head.",
        "query",
        lambda s: np.array([s.batch, s.tokens, s.heads, s.width]),
    ),
    m(
        "query-without-batch",
        "The batch is left out of the queries.",
        "query",
        lambda s: np.array([s.tokens, s.heads, head_width(s)]),
    ),
    m(
        "query-heads-and-width-swapped",
        "Heads and their width are exchanged.",
        "query",
        lambda s: np.array([s.batch, s.tokens, head_width(s), s.heads]),
    ),
    m(
        "query-without-heads",
        "The heads are left out of the queries.",
        "query",
        lambda s: np.array([s.batch, s.tokens, head_width(s)]),
    ),
    m(
        "query-batch-last",
        "The batch stands last.",
        "query",
        lambda s: np.array([s.tokens, s.heads, head_width(s), s.batch]),
    ),
    m(
        "query-tokens-squared",
        "The queries get the shape of the attention matrices.",
        "query",
        lambda s: np.array([s.batch, s.heads, s.tokens, s.tokens]),
    ),
    m(
        "weights-by-width",
        "The attention matrices are tokens x head width.",
        "weights",
        lambda s: np.array([s.batch, s.heads, s.tokens, head_width(s)]),
    ),
    m(
        "weights-width-by-width",
        "The attention matrices are head width x head width.",
        "weights",
        lambda s: np.array([s.batch, s.heads, head_width(s), head_width(s)]),
    ),
    m(
        "weights-one-head",
        "One attention matrix for all heads.",
        "weights",
        lambda s: np.array([s.batch, 1, s.tokens, s.tokens]),
    ),
    m(
        "weights-without-heads",
        "The heads are left out of the attention matrices.",
        "weights",
        lambda s: np.array([s.batch, s.tokens, s.tokens]),
    ),
    m(
        "weights-without-batch",
        "The batch is left out of the attention matrices.",
        "weights",
        lambda s: np.array([s.heads, s.tokens, s.tokens]),
    ),
    m(
        "weights-heads-by-heads",
        "The attention matrices are heads x heads.",
        "weights",
        lambda s: np.array([s.batch, s.tokens, s.heads, s.heads]),
    ),
    m(
        "per-head-like-weights",
        "The outputs per head get the shape of the attention matrices.",
        "per head",
        lambda s: np.array([s.batch, s.heads, s.tokens, s.tokens]),
    ),
    m(
        "per-head-whole-width",
        "The outputs per head have the whole width.",
        "per head",
        lambda s: np.array([s.batch, s.tokens, s.heads, s.width]),
    ),
    m(
        "per-head-without-batch",
        "The batch is left out of the outputs per head.",
        "per head",
        lambda s: np.array([s.tokens, s.heads, head_width(s)]),
    ),
    m(
        "joined-head-width",
        "The joined output has the width of one head.",
        "joined",
        lambda s: np.array([s.batch, s.tokens, head_width(s)]),
    ),
    m(
        "joined-times-heads",
        "The joined output has heads times the whole width.",
        "joined",
        lambda s: np.array([s.batch, s.tokens, s.heads * s.width]),
    ),
    m(
        "joined-along-tokens",
        "The heads are joined along the tokens.",
        "joined",
        lambda s: np.array([s.batch, s.heads * s.tokens, head_width(s)]),
    ),
    m(
        "joined-without-batch",
        "The batch is left out of the joined output.",
        "joined",
        lambda s: np.array([s.tokens, s.width]),
    ),
    m(
        "joined-width-first",
        "Width before tokens.",
        "joined",
        lambda s: np.array([s.batch, s.width, s.tokens]),
    ),
    m(
        "batch-left-out",
        "The batch is left out of every shape.",
        "query",
        lambda s: np.array([s.tokens, s.heads, head_width(s)]),
        "weights",
        lambda s: np.array([s.heads, s.tokens, s.tokens]),
        "per head",
        lambda s: np.array([s.tokens, s.heads, head_width(s)]),
        "joined",
        lambda s: np.array([s.tokens, s.heads * head_width(s)]),
    ),
]


# --- patches and convolution ------------------------------------------------------------------------
def right_patches(given: Work) -> Formulas:
    return {
        "down": lambda s: s.height / s.patch,
        "across": lambda s: s.width / s.patch,
        "patches": lambda s: s.down * s.across,
        "tokens": lambda s: s.patches + s.class_token,
        "numbers": lambda s: s.patch**2 * s.channels,
    }


PATCHES = [
    m(
        "down-sliding",
        "H - P + 1: overlapping patches are counted.",
        "down",
        lambda s: s.height - s.patch + 1,
    ),
    m(
        "both-sliding",
        "Overlapping patches are counted down and across.",
        "down",
        lambda s: s.height - s.patch + 1,
        "across",
        lambda s: s.width - s.patch + 1,
    ),
    m(
        "height-and-width-exchanged",
        "Height and width are exchanged.",
        "down",
        lambda s: s.width / s.patch,
        "across",
        lambda s: s.height / s.patch,
    ),
    m("down-of-width", "The width is divided instead of the height.", "down", lambda s: s.width / s.patch),
    m(
        "across-of-height",
        "The height is divided instead of the width.",
        "across",
        lambda s: s.height / s.patch,
    ),
    m("down-one-more", "One too many down.", "down", lambda s: s.height / s.patch + 1),
    m(
        "both-one-more",
        "One too many down and across.",
        "down",
        lambda s: s.height / s.patch + 1,
        "across",
        lambda s: s.width / s.patch + 1,
    ),
    m("across-one-less", "One too few across.", "across", lambda s: s.width / s.patch - 1),
    m("down-over-area", "Divided by the area of a patch.", "down", lambda s: s.height / s.patch**2),
    m("across-not-divided", "The width in pixels.", "across", lambda s: s.width),
    m("patches-added", "Down and across are added.", "patches", lambda s: s.down + s.across),
    m(
        "patches-times-channels",
        "The patches are multiplied by the channels.",
        "patches",
        lambda s: s.down * s.across * s.channels,
    ),
    m("patches-over-patch", "H W / P: divided by P once.", "patches", lambda s: s.down * s.across * s.patch),
    m("patches-square-of-down", "The square of the number down.", "patches", lambda s: s.down**2),
    m("tokens-class-forgotten", "The class token is left out.", "tokens", lambda s: s.patches),
    m(
        "tokens-class-not-asked",
        "A class token is counted although there is none.",
        "tokens",
        lambda s: s.patches + 1,
    ),
    m(
        "tokens-class-subtracted",
        "The class token is subtracted.",
        "tokens",
        lambda s: s.patches - s.class_token,
    ),
    m(
        "tokens-times-channels",
        "The tokens are multiplied by the channels.",
        "tokens",
        lambda s: s.patches * s.channels + s.class_token,
    ),
    m("numbers-without-channels", "The channels are left out.", "numbers", lambda s: s.patch**2),
    m("numbers-not-squared", "P C instead of P^2 C.", "numbers", lambda s: s.patch * s.channels),
    m(
        "numbers-doubled-not-squared",
        "2 P C instead of P^2 C.",
        "numbers",
        lambda s: 2 * s.patch * s.channels,
    ),
    m("numbers-channels-added", "The channels are added.", "numbers", lambda s: s.patch**2 + s.channels),
    m(
        "numbers-of-image",
        "The numbers of the whole image.",
        "numbers",
        lambda s: s.height * s.width * s.channels,
    ),
    m("numbers-cubed", "P^3.", "numbers", lambda s: s.patch**3),
]

KINDS = [
    Kind("head-shapes", right_shapes, SHAPES),
    Kind("patch-counts", right_patches, PATCHES, slips="patches, numbers", defaults={"class_token": 0}),
]
