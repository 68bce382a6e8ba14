"""Mistakes around attention: masks, heads, moved keys, copying, linear attention."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.attention_parts import (
    apply_mask,
    causal_mask,
    divisors,
    is_causal,
    normalise,
    scale,
    visible_keys,
)


# --- masks --------------------------------------------------------------------------------------
def mask_after_softmax(run: RunView) -> Any:
    return normalise(np.exp(run.scores)) * visible_keys(run) if run.has("mask") else None


def mask_with_zero(run: RunView) -> Any:
    return np.where(visible_keys(run) == 1, run.scores, 0)


def mask_sees_one_more(run: RunView) -> Any:
    return {"mask": causal_mask(run, diagonal=1)} if is_causal(run) else None


def mask_hides_own_token(run: RunView) -> Any:
    visible = causal_mask(run, diagonal=-1) == 1
    return apply_mask(run, visible) if is_causal(run) else None


def mask_upside_down(run: RunView) -> Any:
    return {"mask": causal_mask(run).T} if is_causal(run) else None


def mask_inverted(run: RunView) -> Any:
    inverted = run.has("mask") and not is_causal(run)
    return apply_mask(run, run.mask == 0) if inverted else None


def mask_on_queries(run: RunView) -> Any:
    if not run.has("mask") or run.scores.shape[-1] != run.scores.shape[-2]:
        return None
    visible = np.broadcast_to(visible_keys(run), run.scores.shape).swapaxes(-1, -2) == 1
    return apply_mask(run, visible)


def mask_forgotten(run: RunView) -> Any:
    return run.scores


# --- heads --------------------------------------------------------------------------------------
def heads_averaged(run: RunView) -> Any:
    return run.per_head.mean(-2)


def heads_added(run: RunView) -> Any:
    return run.per_head.sum(-2)


def join_without_transpose(run: RunView) -> Any:
    return run.per_head.swapaxes(0, 1).reshape(run.current.shape)


def output_projection_forgotten(run: RunView) -> Any:
    return run.joined if run.has("W_o") else None


def split_without_transpose(run: RunView) -> Any:
    count, heads, width = run.current.shape
    return run.current.reshape(heads, count, width).swapaxes(0, 1)


# --- sensitivity and copying --------------------------------------------------------------------
def row_for_column_changed(run: RunView) -> Any:
    moved = np.any(run.delta != 0, axis=-1)
    if run.current.shape[0] != run.current.shape[1]:
        return None
    before = run.query @ run.key.T
    change = (run.query @ run.delta.T) * scale(run)
    return before * scale(run) + np.where(moved[:, None] & moved[None, :], change, 0)


def difference_for_sum(run: RunView) -> Any:
    moved = np.any(run.delta != 0, axis=-1)[:, None]
    return run.query @ np.where(moved, run.delta, run.key).T * scale(run)


def change_backwards(run: RunView) -> Any:
    return -run.current


def norm_without_root(run: RunView) -> Any:
    return run.current**2


def norm_as_sum(run: RunView) -> Any:
    return run.tokens.sum(-1, keepdims=True)


def error_not_relative(run: RunView) -> Any:
    return run.current * run.norm


# --- linear attention ---------------------------------------------------------------------------
def total_for_prefix_sums(run: RunView) -> Any:
    return {"mask": None} if run.has("mask") else None


def linear_without_normalisation(run: RunView) -> Any:
    if run.path == "weights":
        return run.scores
    return run.current if run.has_step("weights") else run.current * divisors(run)


def exponential_kept(run: RunView) -> Any:
    hidden = causal_mask(run) == 0 if run.has("mask") else False
    return normalise(np.exp(np.where(hidden, -np.inf, run.scores)))


def column_sums(run: RunView) -> Any:
    return run.scores.sum(-2)[:, None]


def state_not_carried(run: RunView) -> Any:
    key = run.key_features[run.time_step]
    return key[None, :] if run.path.endswith("key sum") else np.outer(key, run.value[run.time_step])
