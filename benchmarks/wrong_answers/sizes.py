"""Sizes and counts of convolutions: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- sizes ------------------------------------------------------------------------------------------
def outputs(s: Work, size: int, **changed: int) -> int:
    s = Work({**s, **changed})
    return int((size + 2 * s.padding - s.kernel) // s.stride + 1)


def right_size(given: Work) -> Formulas:
    return {
        "span": lambda s: s.size + 2 * s.padding - s.kernel,
        "output": lambda s: s.span // s.stride + 1,
    }


SIZE = [
    m(
        "padding-once",
        "The padding is counted on one side only.",
        "span",
        lambda s: s.size + s.padding - s.kernel,
    ),
    m("padding-forgotten", "The padding is left out.", "span", lambda s: s.size - s.kernel),
    m(
        "padding-subtracted",
        "The padding is subtracted.",
        "span",
        lambda s: s.size - 2 * s.padding - s.kernel,
    ),
    m("kernel-added", "The kernel is added.", "span", lambda s: s.size + 2 * s.padding + s.kernel),
    m("kernel-forgotten", "The kernel is left out.", "span", lambda s: s.size + 2 * s.padding),
    m("span-plus-one", "One too many in the span.", "span", lambda s: s.size + 2 * s.padding - s.kernel + 1),
    m("span-minus-one", "One too few in the span.", "span", lambda s: s.size + 2 * s.padding - s.kernel - 1),
    m(
        "kernel-twice",
        "The kernel is subtracted twice.",
        "span",
        lambda s: s.size + 2 * s.padding - 2 * s.kernel,
    ),
    m(
        "stride-in-span",
        "The span is already divided by the stride.",
        "span",
        lambda s: (s.size + 2 * s.padding - s.kernel) // s.stride,
    ),
    m(
        "padding-and-kernel-halved",
        "Half the kernel is subtracted.",
        "span",
        lambda s: s.size + 2 * s.padding - s.kernel // 2,
    ),
    m(
        "padding-four-times",
        "The padding is counted four times.",
        "span",
        lambda s: s.size + 4 * s.padding - s.kernel,
    ),
    m("output-plus-one-forgotten", "The + 1 is left out.", "output", lambda s: s.span // s.stride),
    m("output-rounded-up", "Rounded up instead of down.", "output", lambda s: -(-s.span // s.stride) + 1),
    m("output-not-rounded", "Not rounded down.", "output", lambda s: s.span / s.stride + 1),
    m("output-stride-forgotten", "The stride is left out.", "output", lambda s: s.span + 1),
    m(
        "output-plus-one-before-dividing",
        "The 1 is added before dividing.",
        "output",
        lambda s: (s.span + 1) // s.stride,
    ),
    m("output-times-stride", "Multiplied by the stride.", "output", lambda s: s.span * s.stride + 1),
    m("output-plus-two", "2 is added instead of 1.", "output", lambda s: s.span // s.stride + 2),
    m(
        "output-over-kernel",
        "Divided by the kernel instead of the stride.",
        "output",
        lambda s: s.span // s.kernel + 1,
    ),
    m(
        "output-minus-stride",
        "The stride is subtracted instead of divided by.",
        "output",
        lambda s: s.span - s.stride + 1,
    ),
]


def right_counts(given: Work) -> Formulas:
    return {
        "output height": lambda s: outputs(s, s.height),
        "output width": lambda s: outputs(s, s.width),
        "filter": lambda s: s.kernel**2 * s.channels,
        "weights": lambda s: s.filters * (s.filter + s.biases),
        "dense": lambda s: (
            s.channels * s.height * s.width * s.filters * s["output height"] * s["output width"]
        ),
    }


def made(s: Work) -> Any:
    return s.filters * s["output height"] * s["output width"]


def each(slug: str, sentence: str, formula: Any) -> list[Any]:
    """A mistake in the output's height, and the same in height and width."""
    down, across = (lambda s: formula(s, s.height)), (lambda s: formula(s, s.width))
    return [
        m(f"{slug}-height", f"{sentence} (height)", "output height", down),
        m(f"{slug}-both", f"{sentence} (height and width)", "output height", down, "output width", across),
    ]


COUNTS = [
    *each(
        "padding-once",
        "The padding is counted on one side only.",
        lambda s, n: (n + s.padding - s.kernel) // s.stride + 1,
    ),
    *each("padding-forgotten", "The padding is left out.", lambda s, n: outputs(s, n, padding=0)),
    *each("stride-forgotten", "The stride is left out.", lambda s, n: outputs(s, n, stride=1)),
    *each("plus-one-forgotten", "The + 1 is left out.", lambda s, n: outputs(s, n) - 1),
    *each(
        "rounded-up",
        "Rounded up instead of down.",
        lambda s, n: -(-(n + 2 * s.padding - s.kernel) // s.stride) + 1,
    ),
    *each(
        "kernel-forgotten", "The kernel is not subtracted.", lambda s, n: (n + 2 * s.padding) // s.stride + 1
    ),
    m(
        "height-and-width-exchanged",
        "Height and width are exchanged.",
        "output height",
        lambda s: outputs(s, s.width),
        "output width",
        lambda s: outputs(s, s.height),
    ),
    m(
        "width-like-height",
        "The width is taken equal to the height.",
        "output width",
        lambda s: s["output height"],
    ),
    m("filter-without-channels", "The channels are left out of the filter.", "filter", lambda s: s.kernel**2),
    m("filter-not-squared", "k C instead of k^2 C.", "filter", lambda s: s.kernel * s.channels),
    m(
        "filter-with-bias",
        "The bias is counted among the weights of the filter.",
        "filter",
        lambda s: s.kernel**2 * s.channels + 1,
    ),
    m(
        "filter-with-filters",
        "The number of filters is counted in one filter.",
        "filter",
        lambda s: s.kernel**2 * s.channels * s.filters,
    ),
    m(
        "filter-by-filters",
        "The filters are taken for the channels.",
        "filter",
        lambda s: s.kernel**2 * s.filters,
    ),
    m("weights-biases-forgotten", "The biases are left out.", "weights", lambda s: s.filters * s.filter),
    m(
        "weights-one-bias",
        "A single bias for all filters.",
        "weights",
        lambda s: s.filters * s.filter + s.biases,
    ),
    m(
        "weights-biases-not-asked",
        "Biases are counted although there are none.",
        "weights",
        lambda s: s.filters * (s.filter + 1),
    ),
    m("weights-one-filter", "Only one filter is counted.", "weights", lambda s: s.filter + s.biases),
    m(
        "weights-at-every-position",
        "The weights are counted at every position.",
        "weights",
        lambda s: s.filters * s.filter * s["output height"] * s["output width"] + s.biases * s.filters,
    ),
    m(
        "weights-times-channels",
        "The channels are counted again.",
        "weights",
        lambda s: s.filters * (s.filter * s.channels + s.biases),
    ),
    m(
        "weights-bias-per-channel",
        "As many biases as channels.",
        "weights",
        lambda s: s.filters * s.filter + s.biases * s.channels,
    ),
    m(
        "dense-without-filters",
        "The filters are left out of the output.",
        "dense",
        lambda s: s.channels * s.height * s.width * s["output height"] * s["output width"],
    ),
    m(
        "dense-without-channels",
        "The channels are left out of the input.",
        "dense",
        lambda s: s.height * s.width * made(s),
    ),
    m(
        "dense-added",
        "Input and output are added.",
        "dense",
        lambda s: s.channels * s.height * s.width + made(s),
    ),
    m(
        "dense-biases-counted",
        "The biases are counted.",
        "dense",
        lambda s: (s.channels * s.height * s.width + 1) * made(s),
    ),
    m("dense-input-squared", "Input times input.", "dense", lambda s: (s.channels * s.height * s.width) ** 2),
    m("dense-output-squared", "Output times output.", "dense", lambda s: made(s) ** 2),
    m(
        "dense-by-one-filter",
        "The weights of one filter for each output.",
        "dense",
        lambda s: s.filter * made(s),
    ),
]


def right_sharing(given: Work) -> Formulas:
    return {
        "outputs": lambda s: outputs(s, s.size),
        "shared": lambda s: s.kernel,
        "unshared": lambda s: s.outputs * s.kernel,
        "dense": lambda s: s.outputs * s.size,
    }


SHARING = [
    m(
        "outputs-padding-once",
        "The padding is counted on one side only.",
        "outputs",
        lambda s: (s.size + s.padding - s.kernel) // s.stride + 1,
    ),
    m(
        "outputs-padding-forgotten",
        "The padding is left out.",
        "outputs",
        lambda s: outputs(s, s.size, padding=0),
    ),
    m(
        "outputs-stride-forgotten",
        "The stride is left out.",
        "outputs",
        lambda s: outputs(s, s.size, stride=1),
    ),
    m("outputs-plus-one-forgotten", "The + 1 is left out.", "outputs", lambda s: outputs(s, s.size) - 1),
    m(
        "outputs-rounded-up",
        "Rounded up instead of down.",
        "outputs",
        lambda s: -(-(s.size + 2 * s.padding - s.kernel) // s.stride) + 1,
    ),
    m(
        "outputs-kernel-forgotten",
        "The kernel is not subtracted.",
        "outputs",
        lambda s: (s.size + 2 * s.padding) // s.stride + 1,
    ),
    m(
        "shared-per-output",
        "The shared kernel is counted for every output.",
        "shared",
        lambda s: s.outputs * s.kernel,
    ),
    m("shared-one", "One weight.", "shared", lambda s: 1),
    m("shared-squared", "The kernel is squared.", "shared", lambda s: s.kernel**2),
    m("shared-with-bias", "A bias is counted.", "shared", lambda s: s.kernel + 1),
    m("shared-is-size", "The size of the input.", "shared", lambda s: s.size),
    m(
        "shared-and-unshared-exchanged",
        "Shared and unshared are exchanged.",
        "shared",
        lambda s: s.outputs * s.kernel,
        "unshared",
        lambda s: s.kernel,
    ),
    m("unshared-like-shared", "One kernel for all outputs.", "unshared", lambda s: s.kernel),
    m("unshared-per-input", "A kernel for every input position.", "unshared", lambda s: s.size * s.kernel),
    m("unshared-added", "Outputs and kernel are added.", "unshared", lambda s: s.outputs + s.kernel),
    m(
        "unshared-with-biases",
        "A bias for each output is counted.",
        "unshared",
        lambda s: s.outputs * (s.kernel + 1),
    ),
    m("dense-squared-input", "Input times input.", "dense", lambda s: s.size**2),
    m("dense-squared-output", "Output times output.", "dense", lambda s: s.outputs**2),
    m(
        "dense-with-padding",
        "The padded positions are counted as inputs.",
        "dense",
        lambda s: s.outputs * (s.size + 2 * s.padding),
    ),
    m("dense-times-kernel", "The kernel is counted too.", "dense", lambda s: s.outputs * s.size * s.kernel),
    m("dense-added", "Inputs and outputs are added.", "dense", lambda s: s.outputs + s.size),
    m("dense-with-biases", "A bias for each output is counted.", "dense", lambda s: s.outputs * (s.size + 1)),
]

KINDS = [
    Kind("output-size", right_size, SIZE, slips="span"),
    Kind("convolution-counts", right_counts, COUNTS, slips="filter, weights", defaults={"biases": 0}),
    Kind("sharing-counts", right_sharing, SHARING, slips="outputs, dense"),
]
