"""Parameters and multiplications: right formulas and ordinary mistakes."""

from __future__ import annotations

from benchmarks.wrong_answers.shapes import head_width
from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- parameters and multiplications -----------------------------------------------------------------
def right_attention(given: Work) -> Formulas:
    return {
        "head width": lambda s: s.width / s.heads,
        "one head": lambda s: s.width * head_width(s),
        "projection": lambda s: s.heads * s["one head"] + s.biases * s.width,
        "total": lambda s: 4 * s.projection,
    }


ATTENTION = [
    m("head-width-whole", "The whole width is given to each head.", "head width", lambda s: s.width),
    m(
        "head-width-times",
        "The width is multiplied by the number of heads.",
        "head width",
        lambda s: s.width * s.heads,
    ),
    m("head-width-is-heads", "The number of heads is given as their width.", "head width", lambda s: s.heads),
    m("one-head-square", "The head's width is squared.", "one head", lambda s: head_width(s) ** 2),
    m("one-head-whole", "The whole width is squared.", "one head", lambda s: s.width**2),
    m("one-head-added", "Width and head width are added.", "one head", lambda s: s.width + head_width(s)),
    m(
        "one-head-biases-counted",
        "The biases of the head are counted too.",
        "one head",
        lambda s: (s.width + 1) * head_width(s),
    ),
    m(
        "one-head-three",
        "Queries, keys and values of one head are counted.",
        "one head",
        lambda s: 3 * s.width * head_width(s),
    ),
    m(
        "projection-one-head",
        "The projection of one head is given for all heads.",
        "projection",
        lambda s: s["one head"] + s.biases * s.width,
    ),
    m(
        "projection-biases-forgotten",
        "The biases are left out.",
        "projection",
        lambda s: s.heads * s["one head"],
    ),
    m(
        "projection-one-bias",
        "A single bias is counted.",
        "projection",
        lambda s: s.heads * s["one head"] + s.biases,
    ),
    m(
        "projection-bias-of-head",
        "The biases of one head only.",
        "projection",
        lambda s: s.heads * s["one head"] + s.biases * head_width(s),
    ),
    m(
        "projection-biases-not-asked",
        "Biases are counted although there are none.",
        "projection",
        lambda s: s.heads * s["one head"] + s.width,
    ),
    m(
        "projection-biases-per-head",
        "The whole width of biases is counted for every head.",
        "projection",
        lambda s: s.heads * (s["one head"] + s.biases * s.width),
    ),
    m(
        "projection-heads-twice",
        "The heads are counted twice.",
        "projection",
        lambda s: s.heads**2 * s["one head"] + s.biases * s.width,
    ),
    m("total-three", "W_o is left out: three projections.", "total", lambda s: 3 * s.projection),
    m(
        "total-times-heads",
        "The total is multiplied by the heads once more.",
        "total",
        lambda s: 4 * s.heads * s.projection,
    ),
    m(
        "total-three-and-weights",
        "The biases of W_o are left out.",
        "total",
        lambda s: 4 * s.projection - s.biases * s.width,
    ),
    m("total-one-head", "Four times one head.", "total", lambda s: 4 * s["one head"]),
    m("total-two", "Two projections.", "total", lambda s: 2 * s.projection),
    m(
        "total-biases-forgotten",
        "The biases are left out of the total.",
        "total",
        lambda s: 4 * s.heads * s["one head"],
    ),
    m("total-five", "Five projections are counted.", "total", lambda s: 5 * s.projection),
]


def right_forward(given: Work) -> Formulas:
    return {
        "first": lambda s: s.width * s.hidden + s.biases * s.hidden,
        "second": lambda s: s.hidden * s.width + s.biases * s.width,
        "total": lambda s: s.first + s.second,
    }


FORWARD = [
    m(
        "biases-forgotten-first",
        "The biases of the first layer are left out.",
        "first",
        lambda s: s.width * s.hidden,
    ),
    m(
        "biases-forgotten",
        "The biases are left out of both layers.",
        "first",
        lambda s: s.width * s.hidden,
        "second",
        lambda s: s.width * s.hidden,
    ),
    m(
        "biases-not-asked",
        "Biases are counted although there are none.",
        "first",
        lambda s: (s.width + 1) * s.hidden,
        "second",
        lambda s: (s.hidden + 1) * s.width,
    ),
    m(
        "biases-swapped",
        "The biases have the width of the input, not of the output.",
        "first",
        lambda s: s.width * s.hidden + s.biases * s.width,
        "second",
        lambda s: s.width * s.hidden + s.biases * s.hidden,
    ),
    m(
        "bias-of-input-first",
        "As many biases as inputs in the first layer.",
        "first",
        lambda s: s.width * s.hidden + s.biases * s.width,
    ),
    m(
        "times-tokens-first",
        "The parameters of the first layer are multiplied by the tokens.",
        "first",
        lambda s: s.tokens * (s.width + s.biases) * s.hidden,
    ),
    m(
        "times-tokens",
        "The parameters of both layers are multiplied by the tokens.",
        "first",
        lambda s: s.tokens * (s.width + s.biases) * s.hidden,
        "second",
        lambda s: s.tokens * (s.hidden + s.biases) * s.width,
    ),
    m("square-first", "The width is squared.", "first", lambda s: s.width**2 + s.biases * s.width),
    m(
        "hidden-square-first",
        "The hidden width is squared.",
        "first",
        lambda s: s.hidden**2 + s.biases * s.hidden,
    ),
    m(
        "added-first",
        "Width and hidden width are added.",
        "first",
        lambda s: s.width + s.hidden + s.biases * s.hidden,
    ),
    m("one-bias-first", "A single bias is counted.", "first", lambda s: s.width * s.hidden + s.biases),
    m(
        "tokens-for-width-first",
        "The tokens are taken for the width.",
        "first",
        lambda s: s.tokens * s.hidden + s.biases * s.hidden,
    ),
    m(
        "doubled-first",
        "The first layer is counted twice.",
        "first",
        lambda s: 2 * (s.width + s.biases) * s.hidden,
    ),
    m(
        "biases-forgotten-second",
        "The biases of the second layer are left out.",
        "second",
        lambda s: s.width * s.hidden,
    ),
    m(
        "second-like-first",
        "The biases of the second layer have the hidden width.",
        "second",
        lambda s: s.width * s.hidden + s.biases * s.hidden,
    ),
    m(
        "second-hidden-square",
        "The hidden width is squared.",
        "second",
        lambda s: s.hidden**2 + s.biases * s.width,
    ),
    m("second-square", "The width is squared.", "second", lambda s: s.width**2 + s.biases * s.width),
    m(
        "second-both-biases",
        "The biases of both layers are counted in the second.",
        "second",
        lambda s: s.width * s.hidden + s.biases * (s.width + s.hidden),
    ),
    m("total-product", "The layers are multiplied.", "total", lambda s: s.first * s.second),
    m("total-twice-first", "Twice the first layer.", "total", lambda s: 2 * s.first),
    m(
        "total-times-tokens",
        "The total is multiplied by the tokens.",
        "total",
        lambda s: s.tokens * (s.first + s.second),
    ),
    m("total-first-only", "Only the first layer is counted.", "total", lambda s: s.first),
    m("total-averaged", "The mean of the layers.", "total", lambda s: (s.first + s.second) / 2),
    m(
        "total-biases-again",
        "The biases are added once more.",
        "total",
        lambda s: s.first + s.second + s.biases * (s.width + s.hidden),
    ),
]


def right_work(given: Work) -> Formulas:
    return {
        "projections": lambda s: 3 * s.tokens * s.width**2,
        "scores": lambda s: s.tokens**2 * s.width,
        "mixing": lambda s: s.tokens**2 * s.width,
        "attention": lambda s: s.projections + s.scores + s.mixing,
        "convolution": lambda s: s.tokens * s.kernel * s.width**2,
        "recurrence": lambda s: 2 * s.tokens * s.width**2,
    }


WORK = [
    m("one-projection", "Only one projection is counted.", "projections", lambda s: s.tokens * s.width**2),
    m("four-projections", "W_o is counted too.", "projections", lambda s: 4 * s.tokens * s.width**2),
    m(
        "projections-width-once",
        "The width is counted once.",
        "projections",
        lambda s: 3 * s.tokens * s.width,
    ),
    m(
        "projections-without-tokens",
        "The tokens are left out: parameters, not multiplications.",
        "projections",
        lambda s: 3 * s.width**2,
    ),
    m(
        "projections-tokens-squared",
        "n^2 d instead of n d^2.",
        "projections",
        lambda s: 3 * s.tokens**2 * s.width,
    ),
    m("projections-cubed", "d^3 instead of d^2.", "projections", lambda s: 3 * s.tokens * s.width**3),
    m("scores-without-width", "The width is left out of the scores.", "scores", lambda s: s.tokens**2),
    m("scores-width-squared", "n d^2 instead of n^2 d.", "scores", lambda s: s.tokens * s.width**2),
    m("scores-linear", "n d instead of n^2 d.", "scores", lambda s: s.tokens * s.width),
    m(
        "scores-half",
        "Each pair of tokens is counted once.",
        "scores",
        lambda s: s.tokens * (s.tokens + 1) / 2 * s.width,
    ),
    m("scores-both-squared", "n^2 d^2.", "scores", lambda s: s.tokens**2 * s.width**2),
    m("mixing-without-width", "The width is left out.", "mixing", lambda s: s.tokens**2),
    m("mixing-width-squared", "n d^2 instead of n^2 d.", "mixing", lambda s: s.tokens * s.width**2),
    m("mixing-linear", "n d instead of n^2 d.", "mixing", lambda s: s.tokens * s.width),
    m(
        "width-left-out",
        "The width is left out of scores and mixing.",
        "scores",
        lambda s: s.tokens**2,
        "mixing",
        lambda s: s.tokens**2,
    ),
    m(
        "width-squared-twice",
        "n d^2 instead of n^2 d, in scores and mixing.",
        "scores",
        lambda s: s.tokens * s.width**2,
        "mixing",
        lambda s: s.tokens * s.width**2,
    ),
    m(
        "attention-without-mixing",
        "The mixing is left out of the sum.",
        "attention",
        lambda s: s.projections + s.scores,
    ),
    m(
        "attention-without-projections",
        "The projections are left out of the sum.",
        "attention",
        lambda s: s.scores + s.mixing,
    ),
    m(
        "attention-product",
        "Scores and mixing are multiplied.",
        "attention",
        lambda s: s.projections + s.scores * s.mixing,
    ),
    m(
        "attention-projections-tripled",
        "The projections are multiplied by three again.",
        "attention",
        lambda s: 3 * s.projections + s.scores + s.mixing,
    ),
    m(
        "convolution-width-once",
        "One channel: d instead of d^2.",
        "convolution",
        lambda s: s.tokens * s.kernel * s.width,
    ),
    m(
        "convolution-without-tokens",
        "The positions are left out.",
        "convolution",
        lambda s: s.kernel * s.width**2,
    ),
    m(
        "convolution-kernel-squared",
        "k^2 instead of k.",
        "convolution",
        lambda s: s.tokens * s.kernel**2 * s.width**2,
    ),
    m(
        "convolution-no-padding",
        "Only n - k + 1 positions are counted.",
        "convolution",
        lambda s: (s.tokens - s.kernel + 1) * s.kernel * s.width**2,
    ),
    m(
        "convolution-without-kernel",
        "The kernel is left out.",
        "convolution",
        lambda s: s.tokens * s.width**2,
    ),
    m(
        "recurrence-one-matrix",
        "Only one of W_x and W_h is counted.",
        "recurrence",
        lambda s: s.tokens * s.width**2,
    ),
    m("recurrence-three", "Three matrices are counted.", "recurrence", lambda s: 3 * s.tokens * s.width**2),
    m("recurrence-without-tokens", "The steps are left out.", "recurrence", lambda s: 2 * s.width**2),
    m("recurrence-width-once", "d instead of d^2.", "recurrence", lambda s: 2 * s.tokens * s.width),
    m(
        "recurrence-tokens-squared",
        "n^2 d instead of n d^2.",
        "recurrence",
        lambda s: 2 * s.tokens**2 * s.width,
    ),
]

KINDS = [
    Kind(
        "attention-parameters",
        right_attention,
        ATTENTION,
        slips="one head, projection, total",
        defaults={"biases": 0},
    ),
    Kind("feed-forward-parameters", right_forward, FORWARD, slips="first, total", defaults={"biases": 0}),
    Kind("complexity", right_work, WORK, slips="scores, attention"),
]
