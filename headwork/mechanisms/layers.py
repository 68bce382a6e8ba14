"""Whole layers: attention and feed-forward, each with a residual and a normalisation.

An encoder layer attends to its own tokens; a decoder layer does so causally, then attends to a memory, the
output of the encoder.

"post" normalises after the residual, as published (Vaswani et al. 2017); "pre" normalises what goes into
each part and leaves the residual path free (Xiong et al. 2020, arXiv 2002.04745).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from headwork.mechanisms.attention import (
    BIASES,
    PROJECTIONS,
    W_O,
    Convention,
    Mask,
    Number,
    Tensor,
    multi_head_attention,
)
from headwork.mechanisms.feedforward import Activation, feed_forward
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.note import Input, Note, Step, inside, mechanism, silent, steps_of

Placement = Literal["post", "pre"]


ATTENTION = (*PROJECTIONS, W_O, *BIASES)
FEED_FORWARD = (
    Input("W_1", "W_1", "width hidden", "feed-forward, applied as x W; none is the identity", trained=True),
    Input("W_2", "W_2", "hidden width", "feed-forward, applied as x W; none is the identity", trained=True),
    Input("b_1", "b_1", "hidden", "none is 0", trained=True),
    Input("b_2", "b_2", "width", "none is 0", trained=True),
)
OUTPUT = Step("output", "Y", r"\text{the layer's result}", "token width")


def _renamed(cards: tuple[Input, ...], prefix: str) -> tuple[Input, ...]:
    """The cards of the same parameters for a second attention."""
    return tuple(
        replace(c, name=f"{prefix}_{c.name}", symbol=rf"{c.symbol[0]}_{{{prefix[0]}{c.name[-1]}}}")
        for c in cards
    )


def _normalisations(count: int) -> tuple[Input, ...]:
    """The scale and shift of each normalisation."""
    return tuple(
        Input(f"{name}_{k}", rf"{symbol}_{k}", "width", f"of normalisation {k}; none is {none}", trained=True)
        for k in range(1, count + 1)
        for name, symbol, none in (("scale", r"\gamma", 1), ("shift", r"\beta", 0))
    )


class Sublayer(NamedTuple):
    """One part of a layer: a mechanism with its scope, and the scale and shift of its normalisation."""

    scope: str
    function: Callable[..., Tensor]
    parameters: tuple[Tensor, ...]
    options: dict[str, Any]
    scale: Tensor
    shift: Tensor


def _apply_sublayers(
    tokens: Tensor, parts: tuple[Sublayer, ...], placement: Placement, epsilon: Number, note: Note
) -> Tensor:
    """The parts of a layer, each with its residual and its normalisation."""
    for k, (scope, function, parameters, options, scale, shift) in enumerate(parts, 1):
        at = inside(note, f"normalisation {k}")
        normalise = partial(layer_normalisation, scale=scale, shift=shift, epsilon=epsilon, note=at)
        rows = normalise(tokens) if placement == "pre" else tokens
        result = function(rows, *parameters, note=inside(note, scope), **options)
        tokens = note(f"residual {k}", tokens + result)
        tokens = normalise(tokens) if placement == "post" else tokens
    return note("output", tokens)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    *PROJECTIONS,
    W_O,
    *FEED_FORWARD,
    *_normalisations(2),
    *BIASES,
    *steps_of(layer_normalisation, scope="normalisation 1"),
    *steps_of(multi_head_attention, scope="attention", memory="X"),
    Step("residual 1", "R_1", r"X + \text{attention}", "token width"),
    *steps_of(layer_normalisation, scope="normalisation 2"),
    *steps_of(feed_forward, scope="feed-forward", always_x_W=True),
    Step("residual 2", "R_2", r"X' + \text{feed-forward}", "token width"),
    OUTPUT,
)
def encoder_layer(
    tokens: Tensor,
    W_q: Tensor = None,
    W_k: Tensor = None,
    W_v: Tensor = None,
    W_o: Tensor = None,
    W_1: Tensor = None,
    W_2: Tensor = None,
    b_1: Tensor = None,
    b_2: Tensor = None,
    scale_1: Tensor = None,
    shift_1: Tensor = None,
    scale_2: Tensor = None,
    shift_2: Tensor = None,
    b_q: Tensor = None,
    b_k: Tensor = None,
    b_v: Tensor = None,
    b_o: Tensor = None,
    *,
    heads: int,
    beta: Number = None,
    mask: Mask = None,
    normalisation: Placement = "post",
    activation: Activation = "relu",
    epsilon: Number = 0,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """One layer of a transformer encoder, its normalisation after or before each part."""
    own = (W_q, W_k, W_v, W_o, None, b_q, b_k, b_v, b_o)
    own_options = {"heads": heads, "beta": beta, "mask": mask, "convention": convention}
    feed = (W_1, W_2, b_1, b_2), {"activation": activation}
    parts = (
        Sublayer("attention", multi_head_attention, own, own_options, scale_1, shift_1),
        Sublayer("feed-forward", feed_forward, *feed, scale_2, shift_2),
    )
    return _apply_sublayers(tokens, parts, normalisation, epsilon, note)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("memory", "M", "key width", "the output of the encoder, one row per token"),
    *ATTENTION,
    *_renamed(ATTENTION, "cross"),
    *FEED_FORWARD,
    *_normalisations(3),
    *steps_of(layer_normalisation, scope="normalisation 1"),
    *steps_of(multi_head_attention, scope="attention", memory="X"),
    Step("residual 1", "R_1", r"X + \text{attention}", "token width"),
    *steps_of(layer_normalisation, scope="normalisation 2"),
    *(
        replace(step, when=step.when and "memory_mask")
        for step in steps_of(multi_head_attention, scope="cross-attention", memory="M")
    ),
    Step("residual 2", "R_2", r"X' + \operatorname{cross\_attention}", "token width"),
    *steps_of(layer_normalisation, scope="normalisation 3"),
    *steps_of(feed_forward, scope="feed-forward", always_x_W=True),
    Step("residual 3", "R_3", r"X'' + \text{feed-forward}", "token width"),
    OUTPUT,
)
def decoder_layer(
    tokens: Tensor,
    memory: Tensor,
    W_q: Tensor = None,
    W_k: Tensor = None,
    W_v: Tensor = None,
    W_o: Tensor = None,
    b_q: Tensor = None,
    b_k: Tensor = None,
    b_v: Tensor = None,
    b_o: Tensor = None,
    cross_W_q: Tensor = None,
    cross_W_k: Tensor = None,
    cross_W_v: Tensor = None,
    cross_W_o: Tensor = None,
    cross_b_q: Tensor = None,
    cross_b_k: Tensor = None,
    cross_b_v: Tensor = None,
    cross_b_o: Tensor = None,
    W_1: Tensor = None,
    W_2: Tensor = None,
    b_1: Tensor = None,
    b_2: Tensor = None,
    scale_1: Tensor = None,
    shift_1: Tensor = None,
    scale_2: Tensor = None,
    shift_2: Tensor = None,
    scale_3: Tensor = None,
    shift_3: Tensor = None,
    *,
    heads: int,
    beta: Number = None,
    mask: Mask = "causal",
    memory_mask: Mask = None,
    normalisation: Placement = "post",
    activation: Activation = "relu",
    epsilon: Number = 0,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """One layer of a transformer decoder: it attends to its own earlier tokens, then to the encoder's.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> one = HandTensor(np.array([[1.0, 3.0]]))
    >>> decoder_layer(one, one, heads=1).array.tolist()
    [[-1.0, 1.0]]
    """
    own = (W_q, W_k, W_v, W_o, None, b_q, b_k, b_v, b_o)
    cross = (cross_W_q, cross_W_k, cross_W_v, cross_W_o, memory, cross_b_q, cross_b_k, cross_b_v, cross_b_o)
    own_options = {"heads": heads, "beta": beta, "mask": mask, "convention": convention}
    cross_options = {**own_options, "mask": memory_mask}
    feed = (W_1, W_2, b_1, b_2), {"activation": activation}
    parts = (
        Sublayer("attention", multi_head_attention, own, own_options, scale_1, shift_1),
        Sublayer("cross-attention", multi_head_attention, cross, cross_options, scale_2, shift_2),
        Sublayer("feed-forward", feed_forward, *feed, scale_3, shift_3),
    )
    return _apply_sublayers(tokens, parts, normalisation, epsilon, note)
