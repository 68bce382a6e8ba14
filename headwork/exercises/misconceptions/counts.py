"""Mistakes in counts: patches, output sizes, shapes, parameters, work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork.exercises.case import Seen
from headwork.exercises.misconceptions.registry import misconception

PATCHES = ("patch-counts",)
SIZES = ("output-size", "convolution-counts", "sharing-counts")
CONVOLUTION = ("convolution-counts",)
SHAPES = ("head-shapes",)
HEADS = ("attention-parameters",)
FEED = ("feed-forward-parameters",)
WORK = ("complexity",)

IMAGE = {"mechanism": "patch-counts", "height": 8, "width": 6, "patch": 2, "channels": 3}
SIZE = {"mechanism": "output-size", "size": 8, "kernel": 3, "stride": 2, "padding": 1}
FILTERS = {
    "mechanism": "convolution-counts",
    "height": 6,
    "width": 7,
    "channels": 3,
    "filters": 2,
    "kernel": 3,
    "stride": 2,
    "padding": 1,
}
SHARING = {"mechanism": "sharing-counts", "size": 8, "kernel": 3}
SHAPE = {"mechanism": "head-shapes", "batch": 1, "tokens": 5, "width": 8, "heads": 2}
PARAMETERS = {"mechanism": "attention-parameters", "width": 8, "heads": 2}
LAYER = {"mechanism": "feed-forward-parameters", "tokens": 3, "width": 4, "hidden": 8}
COST = {"mechanism": "complexity", "tokens": 5, "width": 4, "kernel": 3}


# --- patches ----------------------------------------------------------------------------------------


@misconception(on=PATCHES, at="tokens", counter=IMAGE)
def class_token_forgotten(s: Seen) -> Any:
    """the class token is forgotten (196 for 197)"""
    return s.patches if s.class_token else None


@misconception(on=PATCHES, at="tokens", counter={**IMAGE, "class_token": 0})
def class_token_added(s: Seen) -> Any:
    """a class token is counted that is not there"""
    return None if s.class_token else s.patches + 1


@misconception(on=PATCHES, at="numbers", counter=IMAGE)
def patch_channels_forgotten(s: Seen) -> Any:
    """the channels of a patch are forgotten"""
    return s.patch * s.patch


@misconception(on=PATCHES, at="numbers", counter=IMAGE)
def patch_side_for_area(s: Seen) -> Any:
    """only one side of the patch is counted: a patch has P x P places"""
    return s.channels * s.patch


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_of_one_side(s: Seen) -> Any:
    """only the patches along one side are counted"""
    return s.down


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_added(s: Seen) -> Any:
    """the patches down and across are added; they are multiplied"""
    return s.down + s.across


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def patches_per_channel(s: Seen) -> Any:
    """the patches are counted once for each channel"""
    return s.now * s.channels


@misconception(on=PATCHES, at="patches", counter=IMAGE)
def pixels_over_side(s: Seen) -> Any:
    """the pixels are divided by the side of a patch, not by its area"""
    return s.height * s.width / s.patch


# --- output sizes -----------------------------------------------------------------------------------


PLACES = "output, outputs, output height, output width"


@misconception(on=SIZES, at=PLACES, counter=SIZE)
def plus_one_forgotten(s: Seen) -> Any:
    """the + 1 is forgotten"""
    return s.now - 1


@misconception(on=SIZES, at=PLACES, counter=SIZE)
def floor_forgotten(s: Seen) -> Any:
    """the quotient is not rounded down: there are only whole outputs"""
    return _span(s) / s.stride + 1


@misconception(on=SIZES, at=PLACES, counter=SIZE)
def ceiling_for_floor(s: Seen) -> Any:
    """the quotient is rounded up; it is rounded down"""
    return math.ceil(_span(s) / s.stride) + 1


@misconception(on=SIZES, counter=SIZE)
def size_without_padding(s: Seen) -> Any:
    """the padding is forgotten"""
    return {"padding": 0} if s.padding else None


@misconception(on=SIZES, counter=SIZE)
def padding_once(s: Seen) -> Any:
    """the padding is counted on one side only: p for 2p"""
    return {"padding": s.padding / 2} if s.padding else None


@misconception(on=SIZES, counter=SIZE)
def size_without_stride(s: Seen) -> Any:
    """the stride is forgotten"""
    return {"stride": 1} if s.stride != 1 else None


@misconception(on=SIZES, at=PLACES, counter=SIZE, also={"span": lambda s: s.size + 2 * s.padding})
def kernel_not_subtracted(s: Seen) -> Any:
    """the kernel is not subtracted"""
    return s.now if s.path == "output" else math.floor((_span(s) + s.kernel) / s.stride) + 1


def _span(s: Seen) -> float:
    if s.path == "output":
        return float(s.span)
    size = {"output height": "height", "output width": "width"}.get(s.path, "size")
    return float(getattr(s, size) + 2 * s.padding - s.kernel)


# --- weights of convolutions ------------------------------------------------------------------------


@misconception(on=CONVOLUTION, at="filter", counter=FILTERS)
def input_channels_forgotten(s: Seen) -> Any:
    """the input channels are forgotten: a filter reads all of them"""
    return s.kernel * s.kernel


@misconception(on=CONVOLUTION, at="filter", counter=FILTERS)
def filter_side_for_area(s: Seen) -> Any:
    """only one side of the filter is counted: it has k x k places"""
    return s.channels * s.kernel


@misconception(on=CONVOLUTION + HEADS + FEED, counter=FILTERS)
def biases_counted(s: Seen) -> Any:
    """the biases are counted, but none are asked for"""
    return None if s.biases else {"biases": 1}


@misconception(on=CONVOLUTION + HEADS + FEED, counter={**FILTERS, "biases": 1})
def biases_not_counted(s: Seen) -> Any:
    """the biases are not counted"""
    return {"biases": 0} if s.biases else None


@misconception(on=CONVOLUTION, at="weights", counter=FILTERS)
def one_filter_counted(s: Seen) -> Any:
    """only one filter is counted"""
    return s.filter


@misconception(on=CONVOLUTION, at="weights", counter=FILTERS)
def weights_not_shared(s: Seen) -> Any:
    """the weights are counted at every output place; a convolution shares them"""
    return s.now * s.output_height * s.output_width


@misconception(on=CONVOLUTION, at="dense", counter=FILTERS)
def dense_without_channels(s: Seen) -> Any:
    """the dense layer forgets the channels: it joins every input number with every output number"""
    return s.height * s.width * s.output_height * s.output_width


@misconception(on=CONVOLUTION, at="dense", counter=FILTERS)
def dense_added(s: Seen) -> Any:
    """the inputs and outputs of the dense layer are added; each input is joined with each output"""
    return s.channels * s.height * s.width + s.filters * s.output_height * s.output_width


@misconception(on=("sharing-counts",), at="shared", counter=SHARING)
def shared_counted_again(s: Seen) -> Any:
    """a shared kernel is counted once for each output"""
    return s.outputs * s.kernel


@misconception(on=("sharing-counts",), at="unshared", counter=SHARING)
def unshared_counted_once(s: Seen) -> Any:
    """without sharing each output has taps of its own: they are counted once for each output"""
    return s.kernel


@misconception(on=("sharing-counts",), at="unshared", counter=SHARING)
def inputs_for_outputs(s: Seen) -> Any:
    """taps are counted at every input place; there is a set for every output"""
    return s.size * s.kernel


# --- shapes and parameters of attention ---------------------------------------------------------------


@misconception(on=SHAPES, at="head width", counter=SHAPE)
def width_not_divided(s: Seen) -> Any:
    """the width is not divided among the heads"""
    return s.width


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def feature_attention_shape(s: Seen) -> Any:
    """the attention matrix compares features, not tokens: Q K^T with tokens as columns"""
    return np.array([s.batch, s.heads, s.head_width, s.head_width])


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def one_matrix_for_all_heads(s: Seen) -> Any:
    """there is one attention matrix for all heads; each head has its own"""
    return np.array([s.batch, s.tokens, s.tokens])


@misconception(on=SHAPES, at="weights", counter=SHAPE)
def tokens_by_features(s: Seen) -> Any:
    """the attention matrix has a column for each feature; it has one for each token"""
    return np.array([s.batch, s.heads, s.tokens, s.head_width])


@misconception(on=SHAPES, at="joined", counter=SHAPE)
def joined_as_average(s: Seen) -> Any:
    """the heads are averaged; joined side by side they give the whole width again"""
    return np.array([s.batch, s.tokens, s.head_width])


@misconception(on=HEADS, at="projection", counter=PARAMETERS)
def whole_width_per_head(s: Seen) -> Any:
    """each head is given the whole width, so a projection has h d^2 weights; the heads share d^2"""
    return s.heads * s.width**2 + s.biases * s.width


@misconception(on=HEADS, at="one head", counter=PARAMETERS)
def head_with_whole_width(s: Seen) -> Any:
    """each head is given the whole width: d^2 weights a head"""
    return s.width**2


@misconception(on=HEADS, at="projection", counter=PARAMETERS)
def one_head_counted(s: Seen) -> Any:
    """only one head is counted"""
    return s.one_head + s.biases * s.width


@misconception(on=HEADS, at="total", counter=PARAMETERS)
def three_projections(s: Seen) -> Any:
    """W_o is forgotten: there are four projections"""
    return 3 * s.projection


@misconception(on=FEED, at="first, second, total", counter=LAYER)
def counted_per_token(s: Seen) -> Any:
    """the weights are counted once for each token; all tokens share them"""
    counted = s.path == "total" and s.first != s.width * s.hidden + s.biases * s.hidden
    return s.now if counted else s.tokens * s.now


@misconception(on=FEED, at="total", counter=LAYER)
def one_layer_counted(s: Seen) -> Any:
    """only one of the two layers is counted"""
    return s.first


@misconception(
    on=FEED, at="first", counter=LAYER, also={"second": lambda s: s.hidden * s.width + s.biases * s.hidden}
)
def bias_widths_swapped(s: Seen) -> Any:
    """the biases of the two layers are exchanged: b_1 has the hidden width, b_2 the token's"""
    return s.width * s.hidden + s.biases * s.width if s.biases else None


# --- work -------------------------------------------------------------------------------------------


@misconception(on=WORK, at="attention", counter=COST)
def projections_forgotten(s: Seen) -> Any:
    """the projections are forgotten: attention costs n d^2 as well as n^2 d"""
    return s.scores + s.mixing


@misconception(on=WORK, at="scores", counter=COST, also={"mixing": lambda s: s.tokens * s.width**2})
def tokens_and_width_swapped(s: Seen) -> Any:
    """tokens and width are exchanged: n d^2 for n^2 d"""
    return s.tokens * s.width**2


@misconception(on=WORK, at="projections", counter=COST)
def one_projection_counted(s: Seen) -> Any:
    """only one projection is counted; queries, keys and values have one each"""
    return s.tokens * s.width**2


@misconception(on=WORK, at="convolution", counter=COST)
def depthwise_for_full(s: Seen) -> Any:
    """the convolution is counted as depthwise, k n d; a full one joins all channels, k n d^2"""
    return s.kernel * s.tokens * s.width


@misconception(on=WORK, at="recurrence", counter=COST)
def one_recurrence_matrix(s: Seen) -> Any:
    """only one of W_x and W_h is counted at each step"""
    return s.tokens * s.width**2
