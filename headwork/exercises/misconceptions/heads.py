"""Mistakes around attention: masks, heads, moved keys, copying, linear attention."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts
from headwork.exercises.misconceptions.attention import ATTENTIONS
from headwork.exercises.misconceptions.registry import SENTENCES, misconception, misconception_formulas

LINEAR_ATTENTIONS = ("linear-attention", "linear-attention-recurrent")


# --- masks --------------------------------------------------------------------------------------
@misconception(on=ATTENTIONS, at="weights", counter_example="causal-mask", evidence=attention_parts.row_sums)
def mask_after_softmax(run: RunView) -> Any:
    """the mask is applied after the softmax, so the rows no longer sum to 1"""
    return (
        attention_parts.normalise(np.exp(run.scores)) * attention_parts.visible_keys(run)
        if run.has("mask")
        else None
    )


misconception_formulas(SENTENCES, on=ATTENTIONS, counter_example="causal-mask")(
    mask_with_zero=("masked", lambda run: np.where(attention_parts.visible_keys(run) == 1, run.scores, 0)),
    mask_sees_one_more=(
        "inputs",
        lambda run: (
            {"mask": attention_parts.causal_mask(run, diagonal=1)} if attention_parts.is_causal(run) else None
        ),
    ),
)


@misconception(on=ATTENTIONS, at="masked, weights", counter_example="causal-mask")
def mask_hides_own_token(run: RunView) -> Any:
    """the mask is one position too strict: it hides the token itself"""
    visible = attention_parts.causal_mask(run, diagonal=-1) == 1
    return attention_parts.apply_mask(run, visible) if attention_parts.is_causal(run) else None


@misconception(on=ATTENTIONS, counter_example="causal-mask")
def mask_upside_down(run: RunView) -> Any:
    """the mask is upside down: it hides the earlier keys instead of the later ones"""
    return {"mask": attention_parts.causal_mask(run).T} if attention_parts.is_causal(run) else None


@misconception(on=ATTENTIONS, at="masked, weights", counter_example="padding-mask")
def mask_inverted(run: RunView) -> Any:
    """the mask is inverted: 1 means visible, 0 means hidden"""
    inverted = run.has("mask") and not attention_parts.is_causal(run)
    return attention_parts.apply_mask(run, run.mask == 0) if inverted else None


@misconception(on=ATTENTIONS, at="masked, weights", counter_example="padding-mask")
def mask_on_queries(run: RunView) -> Any:
    """the mask hides queries (rows); it must hide keys (columns)"""
    if not run.has("mask") or run.scores.shape[-1] != run.scores.shape[-2]:
        return None
    visible = np.broadcast_to(attention_parts.visible_keys(run), run.scores.shape).swapaxes(-1, -2) == 1
    return attention_parts.apply_mask(run, visible)


@misconception(on=ATTENTIONS, at="masked", counter_example="causal-mask")
def mask_forgotten(run: RunView) -> Any:
    """the mask is not applied"""
    return run.scores


# --- heads --------------------------------------------------------------------------------------
misconception_formulas(SENTENCES, on=("multi-head-attention",), counter_example="two-heads")(
    heads_averaged=("joined", lambda run: run.per_head.mean(-2)),
    heads_added=("joined", lambda run: run.per_head.sum(-2)),
    join_without_transpose=("joined", lambda run: run.per_head.swapaxes(0, 1).reshape(run.current.shape)),
    output_projection_forgotten=("output", lambda run: run.joined if run.has("W_o") else None),
)


@misconception(on=("multi-head-attention",), at="query, key, value", counter_example="two-heads")
def split_without_transpose(run: RunView) -> Any:
    """the rows are split into heads by reshaping alone: tokens and heads are mixed up, swap their axes"""
    count, heads, width = run.current.shape
    return run.current.reshape(heads, count, width).swapaxes(0, 1)


# --- sensitivity and copying --------------------------------------------------------------------
@misconception(on=("sensitivity",), at="after/scores", counter_example="sensitivity")
def row_for_column_changed(run: RunView) -> Any:
    """only one query's scores are changed; a moved key changes one score of every query"""
    moved = np.any(run.delta != 0, axis=-1)
    if run.current.shape[0] != run.current.shape[1]:
        return None
    before = run.query @ run.key.T
    change = (run.query @ run.delta.T) * attention_parts.scale(run)
    return before * attention_parts.scale(run) + np.where(moved[:, None] & moved[None, :], change, 0)


@misconception(on=("sensitivity",), at="after/scores", counter_example="difference-for-sum")
def difference_for_sum(run: RunView) -> Any:
    """the moved key is replaced by the difference; the difference must be added to it"""
    moved = np.any(run.delta != 0, axis=-1)[:, None]
    return run.query @ np.where(moved, run.delta, run.key).T * attention_parts.scale(run)


@misconception(on=("sensitivity",), at="change", counter_example="sensitivity")
def change_backwards(run: RunView) -> Any:
    """the change has the wrong sign: before minus after"""
    return -run.current


misconception_formulas(SENTENCES, on=("copying",), counter_example="copy")(
    norm_without_root=("norms", lambda run: run.current**2),
    norm_as_sum=("norms", lambda run: run.tokens.sum(-1, keepdims=True)),
    error_not_relative=("errors", lambda run: run.current * run.norm),
)


# --- linear attention ---------------------------------------------------------------------------
@misconception(on=LINEAR_ATTENTIONS, counter_example="recurrent")
def total_for_prefix_sums(run: RunView) -> Any:
    """every query uses the total over all keys; under a causal mask it sees none after its own position"""
    return {"mask": None} if run.has("mask") else None


@misconception(on=LINEAR_ATTENTIONS, at="weights, output", counter_example="recurrent")
def linear_without_normalisation(run: RunView) -> Any:
    """the sums are not divided out"""
    if run.path == "weights":
        return run.scores
    return run.current if run.has_step("weights") else run.current * attention_parts.divisors(run)


@misconception(on=("linear-attention",), at="weights", counter_example="linear")
def exponential_kept(run: RunView) -> Any:
    """the exponential is still there; linear attention takes the dot products themselves"""
    hidden = attention_parts.causal_mask(run) == 0 if run.has("mask") else False
    return attention_parts.normalise(np.exp(np.where(hidden, -np.inf, run.scores)))


@misconception(on=("linear-attention",), at="sums", counter_example="linear")
def column_sums(run: RunView) -> Any:
    """the dot products are divided by the sums of the columns, not of the rows"""
    return run.scores.sum(-2)[:, None]


@misconception(on=("linear-attention-recurrent",), at="state, key sum", counter_example="recurrent")
def state_not_carried(run: RunView) -> Any:
    """each state holds only the newest product; it must be added to the state before"""
    key = run.key_features[run.time_step]
    return key[None, :] if run.path.endswith("key sum") else np.outer(key, run.value[run.time_step])
