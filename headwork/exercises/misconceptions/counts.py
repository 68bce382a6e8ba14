"""Mistakes in counts: patches, output sizes, shapes, parameters, cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import misconception

PATCHES = ("patch-counts",)
SIZES = ("output-size", "convolution-counts", "sharing-counts")
CONVOLUTION = ("convolution-counts",)
SHAPES = ("head-shapes",)
HEADS = ("attention-parameters",)
FEED = ("feed-forward-parameters",)
COSTS = ("complexity",)

IMAGE = {"mechanism": "patch-counts", "height": 8, "width": 6, "patch": 2, "channels": 3}
SLIDING = {"kernel": 3, "stride": 2, "padding": 1}
FILTERS = {"mechanism": "convolution-counts", "height": 6, "width": 7, "channels": 3, "filters": 2, **SLIDING}
SIZE = {"mechanism": "output-size", "size": 8, **SLIDING}
SHARING = {"mechanism": "sharing-counts", "size": 8, "kernel": 3}
SHAPE = {"mechanism": "head-shapes", "batch": 1, "tokens": 5, "width": 8, "heads": 2}
PARAMETERS = {"mechanism": "attention-parameters", "width": 8, "heads": 2}
LAYER = {"mechanism": "feed-forward-parameters", "tokens": 3, "width": 4, "hidden": 8}
COST = {"mechanism": "complexity", "tokens": 5, "width": 4, "kernel": 3}


# --- patches ----------------------------------------------------------------------------------------


@misconception(on=PATCHES, at="tokens", counter=IMAGE)
def class_token_forgotten(run: RunView) -> Any:
    """the class token is forgotten (196 for 197)"""
    return run.patches if run.class_token else None


@misconception(on=PATCHES, at="tokens", counter={**IMAGE, "class_token": 0})
def class_token_added(run: RunView) -> Any:
    """a class token is counted that is not there"""
    return None if run.class_token else run.patches + 1


@misconception(on=PATCHES, at="numbers", counter=IMAGE)
def patch_channels_forgotten(run: RunView) -> Any:
    """the channels of a patch are forgotten"""
    return run.patch * run.patch


@misconception(on=PATCHES, at="numbers", counter=IMAGE)
def patch_side_for_area(run: RunView) -> Any:
    """only one side of the patch is counted: a patch has P x P pixels"""
    return run.channels * run.patch


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_of_one_side(run: RunView) -> Any:
    """only the patches along one side are counted"""
    return run.down


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_added(run: RunView) -> Any:
    """the patches down and across are added; they must be multiplied"""
    return run.down + run.across


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_per_channel(run: RunView) -> Any:
    """the patches are counted once for each channel"""
    return run.current * run.channels


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def pixels_over_side(run: RunView) -> Any:
    """the pixels are divided by the side of a patch, not by its area"""
    return run.height * run.width / run.patch


# --- output sizes -----------------------------------------------------------------------------------


OUTPUTS = "output, outputs, output height, output width"


@misconception(on=SIZES, at=OUTPUTS, counter=SIZE)
def plus_one_forgotten(run: RunView) -> Any:
    """the + 1 is forgotten"""
    return run.current - 1


@misconception(on=SIZES, at=OUTPUTS, counter=SIZE)
def floor_forgotten(run: RunView) -> Any:
    """the quotient is not rounded down: the number of outputs is an integer"""
    return _span(run) / run.stride + 1


@misconception(on=SIZES, at=OUTPUTS, counter=SIZE)
def ceiling_for_floor(run: RunView) -> Any:
    """the quotient is rounded up; it must be rounded down"""
    return math.ceil(_span(run) / run.stride) + 1


@misconception(on=SIZES, counter=SIZE)
def size_without_padding(run: RunView) -> Any:
    """the padding is forgotten"""
    return {"padding": 0} if run.padding else None


@misconception(on=SIZES, counter=SIZE)
def padding_once(run: RunView) -> Any:
    """the padding is counted on one side only: p for 2p"""
    return {"padding": run.padding / 2} if run.padding else None


@misconception(on=SIZES, counter=SIZE)
def size_without_stride(run: RunView) -> Any:
    """the stride is forgotten"""
    return {"stride": 1} if run.stride != 1 else None


@misconception(on=SIZES, at=f"span, {OUTPUTS}", counter=SIZE)
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


@misconception(on=CONVOLUTION, at="filter", counter=FILTERS)
def input_channels_forgotten(run: RunView) -> Any:
    """the input channels are forgotten: a filter reads all of them"""
    return run.kernel * run.kernel


@misconception(on=CONVOLUTION, at="filter", counter=FILTERS)
def filter_side_for_area(run: RunView) -> Any:
    """only one side of the filter is counted: it has k x k taps"""
    return run.channels * run.kernel


@misconception(on=CONVOLUTION + HEADS + FEED, counter=FILTERS)
def biases_counted(run: RunView) -> Any:
    """the biases are counted, but none are asked for"""
    return None if run.biases else {"biases": 1}


@misconception(on=CONVOLUTION + HEADS + FEED, counter={**FILTERS, "biases": 1})
def biases_not_counted(run: RunView) -> Any:
    """the biases are not counted"""
    return {"biases": 0} if run.biases else None


@misconception(on=CONVOLUTION, at="weights", counter=FILTERS)
def one_filter_counted(run: RunView) -> Any:
    """only one filter is counted"""
    return run.filter


@misconception(on=CONVOLUTION, at="weights", counter=FILTERS)
def weights_not_shared(run: RunView) -> Any:
    """the weights are counted at every output position; a convolution shares them"""
    return run.current * run.output_height * run.output_width


@misconception(on=CONVOLUTION, at="dense", counter=FILTERS)
def dense_without_channels(run: RunView) -> Any:
    """the channels are left out of the dense layer: it connects every input with every output"""
    return run.height * run.width * run.output_height * run.output_width


@misconception(on=CONVOLUTION, at="dense", counter=FILTERS)
def dense_added(run: RunView) -> Any:
    """the inputs and outputs of the dense layer are added; each input is connected with each output"""
    return run.channels * run.height * run.width + run.filters * run.output_height * run.output_width


@misconception(on=("sharing-counts",), at="shared", counter=SHARING)
def shared_counted_again(run: RunView) -> Any:
    """a shared kernel is counted once for each output"""
    return run.outputs * run.kernel


@misconception(on=("sharing-counts",), at="unshared", counter=SHARING)
def unshared_counted_once(run: RunView) -> Any:
    """without sharing each output has taps of its own: they are counted once for each output"""
    return run.kernel


@misconception(on=("sharing-counts",), at="unshared", counter=SHARING)
def inputs_for_outputs(run: RunView) -> Any:
    """taps are counted at every input position; each output has one set"""
    return run.size * run.kernel


# --- shapes and parameters of attention ---------------------------------------------------------------


@misconception(on=SHAPES, at="head width", counter=SHAPE)
def width_not_divided(run: RunView) -> Any:
    """the width is not divided among the heads"""
    return run.width


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def feature_attention_shape(run: RunView) -> Any:
    """the attention matrix compares features, not tokens: Q K^T with tokens as columns"""
    return np.array([run.batch, run.heads, run.head_width, run.head_width])


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def one_matrix_for_all_heads(run: RunView) -> Any:
    """all heads share one attention matrix; each head must have its own"""
    return np.array([run.batch, run.tokens, run.tokens])


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def tokens_by_features(run: RunView) -> Any:
    """the attention matrix has a column for each feature; it has one for each token"""
    return np.array([run.batch, run.heads, run.tokens, run.head_width])


@misconception(on=SHAPES, at="joined", counter=SHAPE)
def joined_as_average(run: RunView) -> Any:
    """the heads are averaged; joined side by side they give the whole width again"""
    return np.array([run.batch, run.tokens, run.head_width])


@misconception(on=HEADS, at="projection", counter=PARAMETERS)
def whole_width_per_head(run: RunView) -> Any:
    """each head is given the whole width, so a projection has h d^2 weights; the heads share d^2"""
    return run.heads * run.width**2 + run.biases * run.width


@misconception(on=HEADS, at="one head", counter=PARAMETERS)
def head_with_whole_width(run: RunView) -> Any:
    """each head is given the whole width: d^2 weights per head"""
    return run.width**2


@misconception(on=HEADS, at="projection", counter=PARAMETERS)
def one_head_counted(run: RunView) -> Any:
    """only one head is counted"""
    return run.one_head + run.biases * run.width


@misconception(on=HEADS, at="total", counter=PARAMETERS)
def three_projections(run: RunView) -> Any:
    """W_o is forgotten: there are four projections"""
    return 3 * run.projection


@misconception(on=FEED, at="first, second, total", counter=LAYER)
def counted_per_token(run: RunView) -> Any:
    """the weights are counted once for each token; all tokens share them"""
    counted = run.path == "total" and run.first != run.width * run.hidden + run.biases * run.hidden
    return run.current if counted else run.tokens * run.current


@misconception(on=FEED, at="total", counter=LAYER)
def one_layer_counted(run: RunView) -> Any:
    """only one of the two layers is counted"""
    return run.first


@misconception(on=FEED, at="first, second", counter=LAYER)
def bias_widths_swapped(run: RunView) -> Any:
    """the biases of the two layers are swapped: b_1 has the hidden width, b_2 the token's"""
    biases = run.biases * (run.width if run.path == "first" else run.hidden)
    return run.width * run.hidden + biases if biases else None


# --- cost -------------------------------------------------------------------------------------------


@misconception(on=COSTS, at="attention", counter=COST)
def projections_forgotten(run: RunView) -> Any:
    """the projections are forgotten: attention costs n d^2 as well as n^2 d"""
    return run.scores + run.mixing


@misconception(on=COSTS, at="scores, mixing", counter=COST)
def tokens_and_width_swapped(run: RunView) -> Any:
    """tokens and width are swapped: n d^2 for n^2 d"""
    return run.tokens * run.width**2


@misconception(on=COSTS, at="projections", counter=COST)
def one_projection_counted(run: RunView) -> Any:
    """only one projection is counted; queries, keys and values have one each"""
    return run.tokens * run.width**2


@misconception(on=COSTS, at="convolution", counter=COST)
def depthwise_for_full(run: RunView) -> Any:
    """the convolution is counted as depthwise, k n d; a full one connects all channels, k n d^2"""
    return run.kernel * run.tokens * run.width


@misconception(on=COSTS, at="recurrence", counter=COST)
def one_recurrence_matrix(run: RunView) -> Any:
    """only one of W_x and W_h is counted at each step"""
    return run.tokens * run.width**2
