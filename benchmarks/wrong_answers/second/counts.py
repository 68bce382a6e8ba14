"""Ordinary mistakes in shapes, sizes and counts, a second set."""

from __future__ import annotations

import numpy as np

from benchmarks.wrong_answers.sizes import made, outputs
from benchmarks.wrong_answers.solving import m

SHAPES = [
    m("width-of-all", "The width is not divided by the number of heads.", "head width", lambda s: s.width),
    m(
        "heads-before-tokens",
        "Heads before tokens.",
        "query",
        lambda s: np.array([s.batch, s.heads, s.tokens, s["head width"]]),
    ),
    m(
        "one-matrix",
        "The heads are forgotten in the weights.",
        "weights",
        lambda s: np.array([s.batch, s.tokens, s.tokens]),
    ),
    m(
        "weights-by-width",
        "tokens x head width for the attention matrices.",
        "weights",
        lambda s: np.array([s.batch, s.heads, s.tokens, s["head width"]]),
    ),
    m(
        "joined-one-head",
        "The joined output has the width of one head.",
        "joined",
        lambda s: np.array([s.batch, s.tokens, s["head width"]]),
    ),
    m(
        "batch-forgotten",
        "The batch is forgotten everywhere.",
        "query",
        lambda s: np.array([s.tokens, s.heads, s["head width"]]),
        "weights",
        lambda s: np.array([s.heads, s.tokens, s.tokens]),
        "per head",
        lambda s: np.array([s.tokens, s.heads, s["head width"]]),
        "joined",
        lambda s: np.array([s.tokens, s.heads * s["head width"]]),
    ),
    m("head-width-times", "Multiplied instead of divided.", "head width", lambda s: s.width * s.heads),
]
PARAMETERS = [
    m("three-projections", "W_o is not counted.", "total", lambda s: 3 * s.projection),
    m("square-of-head", "One head: head width squared.", "one head", lambda s: s["head width"] ** 2),
    m("one-head-whole", "One head has the whole matrix.", "one head", lambda s: s.width**2),
    m("bias-forgotten", "The bias is not counted.", "projection", lambda s: s.heads * s["one head"]),
    m(
        "bias-always",
        "A bias is counted although there is none.",
        "projection",
        lambda s: s.heads * s["one head"] + s.width,
    ),
    m(
        "bias-of-one",
        "One number is counted for the bias.",
        "projection",
        lambda s: s.heads * s["one head"] + s.biases,
    ),
    m(
        "total-times-heads",
        "The total is multiplied by the heads again.",
        "total",
        lambda s: 4 * s.projection * s.heads,
    ),
]
FORWARD = [
    m(
        "times-tokens",
        "Multiplied by the number of tokens.",
        "first",
        lambda s: s.tokens * (s.width * s.hidden + s.biases * s.hidden),
    ),
    m(
        "first-bias-width",
        "The first bias has the size of the width.",
        "first",
        lambda s: s.width * s.hidden + s.width * s.biases,
    ),
    m(
        "no-bias-anywhere",
        "The biases are not counted.",
        "first",
        lambda s: s.width * s.hidden,
        "second",
        lambda s: s.hidden * s.width,
    ),
    m(
        "second-square",
        "The second layer is hidden x hidden.",
        "second",
        lambda s: s.hidden**2 + s.biases * s.width,
    ),
    m("widths-added", "The widths are added.", "first", lambda s: s.width + s.hidden + s.biases * s.hidden),
    m("total-twice-first", "The total is twice the first.", "total", lambda s: 2 * s.first),
    m(
        "second-bias-hidden",
        "The second bias has the size of hidden.",
        "second",
        lambda s: s.hidden * s.width + s.biases * s.hidden,
    ),
]
WORK = [
    m("one-projection", "One projection instead of three.", "projections", lambda s: s.tokens * s.width**2),
    m("w-o-counted", "Four projections.", "projections", lambda s: 4 * s.tokens * s.width**2),
    m("width-squared-scores", "n d^2 for n^2 d.", "scores", lambda s: s.tokens * s.width**2),
    m("scores-without-width", "n^2.", "scores", lambda s: s.tokens**2, "mixing", lambda s: s.tokens**2),
    m(
        "mixing-not-added",
        "The mixing is forgotten in the sum.",
        "attention",
        lambda s: s.projections + s.scores,
    ),
    m(
        "convolution-one-channel",
        "One channel of output.",
        "convolution",
        lambda s: s.tokens * s.kernel * s.width,
    ),
    m(
        "convolution-shorter",
        "The length shrinks: n - k + 1 positions.",
        "convolution",
        lambda s: (s.tokens - s.kernel + 1) * s.kernel * s.width**2,
    ),
    m("recurrence-one-matrix", "Only W_h is counted.", "recurrence", lambda s: s.tokens * s.width**2),
]
PATCHES = [
    m("patches-added", "Down plus across.", "patches", lambda s: s.down + s.across),
    m("class-token-forgotten", "The class token is forgotten.", "tokens", lambda s: s.patches),
    m(
        "class-token-in-spite",
        "A class token is added although there is none.",
        "tokens",
        lambda s: s.patches + 1,
    ),
    m("no-channels", "The channels are forgotten.", "numbers", lambda s: s.patch**2),
    m("patch-not-squared", "p c instead of p^2 c.", "numbers", lambda s: s.patch * s.channels),
    m(
        "sliding",
        "The patches overlap: H - p + 1.",
        "down",
        lambda s: s.height - s.patch + 1,
        "across",
        lambda s: s.width - s.patch + 1,
    ),
    m("one-less", "One patch too few.", "down", lambda s: s.height / s.patch - 1),
    m(
        "width-first",
        "Height and width are exchanged.",
        "down",
        lambda s: s.width / s.patch,
        "across",
        lambda s: s.height / s.patch,
    ),
]
SIZE = [
    m("padding-once", "The padding is counted on one side.", "span", lambda s: s.size + s.padding - s.kernel),
    m("kernel-added", "k is added.", "span", lambda s: s.size + 2 * s.padding + s.kernel),
    m("padding-left-out-size", "No padding.", "span", lambda s: s.size - s.kernel),
    m("plus-one-forgotten", "+ 1 is forgotten.", "output", lambda s: s.span // s.stride),
    m("rounded-up-size", "Rounded up.", "output", lambda s: -(-s.span // s.stride) + 1),
    m("not-divided-size", "The stride is forgotten.", "output", lambda s: s.span + 1),
    m("plus-one-before", "1 is added before the division.", "output", lambda s: (s.span + 1) // s.stride),
]
COUNTS = [
    m(
        "one-sided-padding",
        "The padding is counted once.",
        "output height",
        lambda s: (s.height + s.padding - s.kernel) // s.stride + 1,
        "output width",
        lambda s: (s.width + s.padding - s.kernel) // s.stride + 1,
    ),
    m("channels-forgotten", "The channels are forgotten.", "filter", lambda s: s.kernel**2),
    m("kernel-not-squared", "k c.", "filter", lambda s: s.kernel * s.channels),
    m("one-bias", "One bias for all filters.", "weights", lambda s: s.filters * s.filter + s.biases),
    m("bias-left-out", "The biases are forgotten.", "weights", lambda s: s.filters * s.filter),
    m(
        "dense-without-filters",
        "The filters are forgotten in the dense layer.",
        "dense",
        lambda s: made(s) // s.filters * s.channels * s.height * s.width,
    ),
    m(
        "dense-one-channel",
        "The channels are forgotten in the dense layer.",
        "dense",
        lambda s: made(s) * s.height * s.width,
    ),
    m("dense-output-alone", "The number of outputs is given.", "dense", made),
    m(
        "width-from-height",
        "The height is used again for the width.",
        "output width",
        lambda s: outputs(s, s.height),
    ),
]
SHARING = [
    m(
        "shared-times-outputs",
        "The kernel is counted for every output.",
        "shared",
        lambda s: s.outputs * s.kernel,
    ),
    m(
        "unshared-as-shared",
        "The locally connected layer is not more than the kernel.",
        "unshared",
        lambda s: s.kernel,
    ),
    m(
        "dense-padded",
        "The padded positions are counted.",
        "dense",
        lambda s: s.outputs * (s.size + 2 * s.padding),
    ),
    m("dense-square", "n times n.", "dense", lambda s: s.size**2),
    m("outputs-no-stride", "The stride is forgotten.", "outputs", lambda s: outputs(s, s.size, stride=1)),
    m("outputs-no-one", "+ 1 is forgotten.", "outputs", lambda s: outputs(s, s.size) - 1),
    m("unshared-by-size", "Positions times kernel.", "unshared", lambda s: s.size * s.kernel),
]
MISTAKES = {
    "head-shapes": SHAPES,
    "attention-parameters": PARAMETERS,
    "feed-forward-parameters": FORWARD,
    "complexity": WORK,
    "patch-counts": PATCHES,
    "output-size": SIZE,
    "convolution-counts": COUNTS,
    "sharing-counts": SHARING,
}
