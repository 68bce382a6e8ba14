"""Mistakes in counts: patches, output sizes, shapes, parameters, cost."""

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import SENTENCES, misconception, misconception_formulas

SIZES = ("output-size", "convolution-counts", "sharing-counts")
WITH_BIASES = ("convolution-counts", "attention-parameters", "feed-forward-parameters")
FEED_FORWARD = ("feed-forward-parameters",)


# --- patches ----------------------------------------------------------------------------------------
@misconception(on=("patch-counts",), at="tokens", counter_example="class-token-added")
def class_token_added(run: RunView) -> Any:
    """a class token is counted that is not there"""
    return None if run.class_token else run.patches + 1


misconception_formulas(SENTENCES, on=("patch-counts",), counter_example="patch")(
    class_token_forgotten=("tokens", lambda run: run.patches if run.class_token else None),
    patch_channels_forgotten=("numbers", lambda run: run.patch * run.patch),
    patch_side_for_area=("numbers", lambda run: run.channels * run.patch),
    patches_of_one_side=("patches", lambda run: run.down),
    patches_added=("patches", lambda run: run.down + run.across),
    patches_per_channel=("patches", lambda run: run.current * run.channels),
    pixels_over_side=("patches", lambda run: run.height * run.width / run.patch),
)


# --- output sizes -----------------------------------------------------------------------------------
OUTPUTS = "output, outputs, output height, output width"
misconception_formulas(SENTENCES, on=SIZES, counter_example="size")(
    plus_one_forgotten=(OUTPUTS, lambda run: run.current - 1),
    floor_forgotten=(OUTPUTS, lambda run: _span(run) / run.stride + 1),
    ceiling_for_floor=(OUTPUTS, lambda run: math.ceil(_span(run) / run.stride) + 1),
    size_without_padding=("inputs", lambda run: {"padding": 0} if run.padding else None),
    padding_once=("inputs", lambda run: {"padding": run.padding / 2} if run.padding else None),
    size_without_stride=("inputs", lambda run: {"stride": 1} if run.stride != 1 else None),
)


@misconception(on=SIZES, at=f"span, {OUTPUTS}", counter_example="size")
def kernel_not_subtracted(run: RunView) -> Any:
    """the kernel is not subtracted"""
    if run.path == "span":
        return run.size + 2 * run.padding
    return run.current if run.path == "output" else math.floor((_span(run) + run.kernel) / run.stride) + 1


def _span(run: RunView) -> float:
    if run.path == "output":
        return float(run.span)
    size = {"output height": "height", "output width": "width"}.get(run.path, "size")
    return float(getattr(run, size) + 2 * run.padding - run.kernel)


# --- weights of convolutions ------------------------------------------------------------------------
@misconception(on=WITH_BIASES, counter_example="filters")
def biases_counted(run: RunView) -> Any:
    """the biases are counted, but none are asked for"""
    return None if run.biases else {"biases": 1}


@misconception(on=WITH_BIASES, counter_example="biases-not-counted")
def biases_not_counted(run: RunView) -> Any:
    """the biases are not counted"""
    return {"biases": 0} if run.biases else None


misconception_formulas(SENTENCES, on=("convolution-counts",), counter_example="filters")(
    input_channels_forgotten=("filter", lambda run: run.kernel * run.kernel),
    filter_side_for_area=("filter", lambda run: run.channels * run.kernel),
    one_filter_counted=("weights", lambda run: run.filter),
    weights_not_shared=("weights", lambda run: run.current * run.output_height * run.output_width),
    dense_without_channels=(
        "dense",
        lambda run: run.height * run.width * run.output_height * run.output_width,
    ),
    dense_added=(
        "dense",
        lambda run: (
            run.channels * run.height * run.width + run.filters * run.output_height * run.output_width
        ),
    ),
)

misconception_formulas(SENTENCES, on=("sharing-counts",), counter_example="sharing")(
    shared_counted_again=("shared", lambda run: run.outputs * run.kernel),
    unshared_counted_once=("unshared", lambda run: run.kernel),
    inputs_for_outputs=("unshared", lambda run: run.size * run.kernel),
)


# --- shapes and parameters of attention ---------------------------------------------------------------
misconception_formulas(SENTENCES, on=("head-shapes",), counter_example="shape")(
    width_not_divided=("head width", lambda run: run.width),
    feature_attention_shape=(
        "weights",
        lambda run: np.array([run.batch, run.heads, run.head_width, run.head_width]),
    ),
    one_matrix_for_all_heads=("weights", lambda run: np.array([run.batch, run.tokens, run.tokens])),
    tokens_by_features=("weights", lambda run: np.array([run.batch, run.heads, run.tokens, run.head_width])),
    joined_as_average=("joined", lambda run: np.array([run.batch, run.tokens, run.head_width])),
)

misconception_formulas(SENTENCES, on=("attention-parameters",), counter_example="parameters")(
    whole_width_per_head=("projection", lambda run: run.heads * run.width**2 + run.biases * run.width),
    head_with_whole_width=("one head", lambda run: run.width**2),
    one_head_counted=("projection", lambda run: run.one_head + run.biases * run.width),
    three_projections=("total", lambda run: 3 * run.projection),
)


@misconception(on=FEED_FORWARD, at="first, second, total", counter_example="small-layer-2")
def counted_per_token(run: RunView) -> Any:
    """the weights are counted once for each token; all tokens share them"""
    counted = run.path == "total" and run.first != run.width * run.hidden + run.biases * run.hidden
    return run.current if counted else run.tokens * run.current


@misconception(on=FEED_FORWARD, at="total", counter_example="small-layer-2")
def one_layer_counted(run: RunView) -> Any:
    """only one of the two layers is counted"""
    return run.first


@misconception(on=FEED_FORWARD, at="first, second", counter_example="small-layer-2")
def bias_widths_swapped(run: RunView) -> Any:
    """the biases of the two layers are swapped: b_1 has the hidden width, b_2 the token's"""
    biases = run.biases * (run.width if run.path == "first" else run.hidden)
    return run.width * run.hidden + biases if biases else None


# --- cost -------------------------------------------------------------------------------------------
misconception_formulas(SENTENCES, on=("complexity",), counter_example="cost")(
    projections_forgotten=("attention", lambda run: run.scores + run.mixing),
    tokens_and_width_swapped=("scores, mixing", lambda run: run.tokens * run.width**2),
    one_projection_counted=("projections", lambda run: run.tokens * run.width**2),
    depthwise_for_full=("convolution", lambda run: run.kernel * run.tokens * run.width),
    one_recurrence_matrix=("recurrence", lambda run: run.tokens * run.width**2),
)
