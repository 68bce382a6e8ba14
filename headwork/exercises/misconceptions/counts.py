"""Mistakes in counts: patches, output sizes, shapes, parameters, cost."""

import math
from typing import Any

import numpy as np

from headwork.exercises.case import RunView


# --- patches ----------------------------------------------------------------------------------------
def class_token_added(run: RunView) -> Any:
    return None if run.class_token else run.patches + 1


def class_token_forgotten(run: RunView) -> Any:
    return run.patches if run.class_token else None


def patch_channels_forgotten(run: RunView) -> Any:
    return run.patch * run.patch


def patch_side_for_area(run: RunView) -> Any:
    return run.channels * run.patch


def patches_of_one_side(run: RunView) -> Any:
    return run.down


def patches_added(run: RunView) -> Any:
    return run.down + run.across


def patches_per_channel(run: RunView) -> Any:
    return run.current * run.channels


def pixels_over_side(run: RunView) -> Any:
    return run.height * run.width / run.patch


# --- output sizes -----------------------------------------------------------------------------------


def plus_one_forgotten(run: RunView) -> Any:
    return run.current - 1


def floor_forgotten(run: RunView) -> Any:
    return _span(run) / run.stride + 1


def ceiling_for_floor(run: RunView) -> Any:
    return math.ceil(_span(run) / run.stride) + 1


def size_without_padding(run: RunView) -> Any:
    return {"padding": 0} if run.padding else None


def padding_once(run: RunView) -> Any:
    return {"padding": run.padding / 2} if run.padding else None


def size_without_stride(run: RunView) -> Any:
    return {"stride": 1} if run.stride != 1 else None


def kernel_not_subtracted(run: RunView) -> Any:
    if run.path == "span":
        return run.size + 2 * run.padding
    return run.current if run.path == "output" else math.floor((_span(run) + run.kernel) / run.stride) + 1


def _span(run: RunView) -> float:
    if run.path == "output":
        return float(run.span)
    size = {"output height": "height", "output width": "width"}.get(run.path, "size")
    return float(getattr(run, size) + 2 * run.padding - run.kernel)


# --- weights of convolutions ------------------------------------------------------------------------
def biases_counted(run: RunView) -> Any:
    return None if run.biases else {"biases": 1}


def biases_not_counted(run: RunView) -> Any:
    return {"biases": 0} if run.biases else None


def input_channels_forgotten(run: RunView) -> Any:
    return run.kernel * run.kernel


def filter_side_for_area(run: RunView) -> Any:
    return run.channels * run.kernel


def one_filter_counted(run: RunView) -> Any:
    return run.filter


def weights_not_shared(run: RunView) -> Any:
    return run.current * run.output_height * run.output_width


def dense_without_channels(run: RunView) -> Any:
    return run.height * run.width * run.output_height * run.output_width


def dense_added(run: RunView) -> Any:
    return run.channels * run.height * run.width + run.filters * run.output_height * run.output_width


def shared_counted_again(run: RunView) -> Any:
    return run.outputs * run.kernel


def unshared_counted_once(run: RunView) -> Any:
    return run.kernel


def inputs_for_outputs(run: RunView) -> Any:
    return run.size * run.kernel


# --- shapes and parameters of attention ---------------------------------------------------------------
def width_not_divided(run: RunView) -> Any:
    return run.width


def feature_attention_shape(run: RunView) -> Any:
    return np.array([run.batch, run.heads, run.head_width, run.head_width])


def one_matrix_for_all_heads(run: RunView) -> Any:
    return np.array([run.batch, run.tokens, run.tokens])


def tokens_by_features(run: RunView) -> Any:
    return np.array([run.batch, run.heads, run.tokens, run.head_width])


def joined_as_average(run: RunView) -> Any:
    return np.array([run.batch, run.tokens, run.head_width])


def whole_width_per_head(run: RunView) -> Any:
    return run.heads * run.width**2 + run.biases * run.width


def head_with_whole_width(run: RunView) -> Any:
    return run.width**2


def one_head_counted(run: RunView) -> Any:
    return run.one_head + run.biases * run.width


def three_projections(run: RunView) -> Any:
    return 3 * run.projection


def counted_per_token(run: RunView) -> Any:
    counted = run.path == "total" and run.first != run.width * run.hidden + run.biases * run.hidden
    return run.current if counted else run.tokens * run.current


def one_layer_counted(run: RunView) -> Any:
    return run.first


def bias_widths_swapped(run: RunView) -> Any:
    biases = run.biases * (run.width if run.path == "first" else run.hidden)
    return run.width * run.hidden + biases if biases else None


# --- cost -------------------------------------------------------------------------------------------
def projections_forgotten(run: RunView) -> Any:
    return run.scores + run.mixing


def tokens_and_width_swapped(run: RunView) -> Any:
    return run.tokens * run.width**2


def one_projection_counted(run: RunView) -> Any:
    return run.tokens * run.width**2


def depthwise_for_full(run: RunView) -> Any:
    return run.kernel * run.tokens * run.width


def one_recurrence_matrix(run: RunView) -> Any:
    return run.tokens * run.width**2
