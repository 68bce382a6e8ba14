r"""Normalisation, and whole layers: attention and feed-forward, each with a residual and a normalisation.

Layer normalisation (Ba et al. 2016, arXiv 1607.06450): y = scale (x - mean) / deviation + shift, with the
population deviation (divided by the width, not by the width less one). RMS normalisation (Zhang & Sennrich
2019, arXiv 1910.07467) has neither mean nor shift: y = scale x / sqrt(mean of x^2). By hand epsilon is 0;
models use 1e-5.

An encoder layer attends to its own tokens; a decoder layer does so causally, then attends to a memory, the
output of the encoder.

"post" normalises after the residual, as published (Vaswani et al. 2017); "pre" normalises what goes into
each part and leaves the residual path free (Xiong et al. 2020, arXiv 2002.04745).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from headwork.errors import unknown
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
from headwork.note import Input, Note, Step, inside, mechanism, silent, steps_of

Placement = Literal["post", "pre"]


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("scale", r"\gamma", "width", "none is 1", trained=True),
    Input("shift", r"b", "width", "none is 0", trained=True),
    Step("mean", r"\mu", r"\tfrac{1}{d} \textstyle\sum_j x_j", "token one"),
    Step("centred", "C", r"X - \mu", "token width"),
    Step("deviation", r"\sigma", r"\sqrt{\tfrac{1}{d} \textstyle\sum_j c_j^2 + \epsilon}", "token one"),
    Step("normalised", "N", r"C / \sigma", "token width"),
    Step("output", "Y", r"\gamma N + b", "token width"),
)
def layer_normalisation(
    tokens: Tensor, scale: Tensor = None, shift: Tensor = None, *, epsilon: Number = 0, note: Note = silent
) -> Tensor:
    """Mean 0 and deviation 1 for each token over its width, then scale and shift.

    >>> layer_normalisation(HandTensor(np.array([[1.0, 3.0]]))).array.tolist()
    [[-1.0, 1.0]]
    """
    mean = note("mean", tokens.mean(-1, keepdim=True))
    centred = note("centred", tokens - mean)
    deviation = note("deviation", ((centred * centred).mean(-1, keepdim=True) + epsilon).sqrt())
    normalised = note("normalised", centred / deviation)
    scaled = normalised if scale is None else normalised * scale
    return note("output", scaled if shift is None else scaled + shift)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("scale", r"\gamma", "width", "none is 1", trained=True),
    Step("size", r"\rho", r"\sqrt{\tfrac{1}{d} \textstyle\sum_j x_j^2 + \epsilon}", "token one"),
    Step("normalised", "N", r"X / \rho", "token width"),
    Step("output", "Y", r"\gamma N", "token width"),
)
def rms_normalisation(
    tokens: Tensor, scale: Tensor = None, *, epsilon: Number = 0, note: Note = silent
) -> Tensor:
    """Each token over the root of its mean square, then a scale; no mean is subtracted.

    >>> rms_normalisation(HandTensor(np.array([[1.0, 7.0]]))).array.tolist()
    [[0.2, 1.4]]
    """
    size = note("size", ((tokens * tokens).mean(-1, keepdim=True) + epsilon).sqrt())
    normalised = note("normalised", tokens / size)
    return note("output", normalised if scale is None else normalised * scale)


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
    """One part of a layer: its scope, its mechanism with options, and its parameters by their cards."""

    scope: str
    function: Callable[..., Tensor]
    options: dict[str, Any]
    cards: tuple[Input, ...]
    prefix: str = ""  # of the parameters' names in the layer


def _apply_sublayers(
    tokens: Tensor,
    parts: tuple[Sublayer, ...],
    parameters: Mapping[str, Tensor],
    placement: Placement,
    epsilon: Number,
    note: Note,
) -> Tensor:
    """The parts of a layer, each with its residual and normalisation; no parameter is the identity, or 0."""
    left = dict(parameters)
    for k, (scope, function, options, cards, prefix) in enumerate(parts, 1):
        scale, shift = (left.pop(f"{name}_{k}", None) for name in ("scale", "shift"))
        own = {card.name: left.pop(prefix + card.name, None) for card in cards}
        at = inside(note, f"normalisation {k}")
        normalise = partial(layer_normalisation, scale=scale, shift=shift, epsilon=epsilon, note=at)
        rows = normalise(tokens) if placement == "pre" else tokens
        result = function(rows, **own, **options, note=inside(note, scope))
        tokens = note(f"residual {k}", tokens + result)
        tokens = normalise(tokens) if placement == "post" else tokens
    for name in left:
        known = [f"{part.prefix}{card.name}" for part in parts for card in part.cards]
        raise unknown("parameter of a layer", name, [*known, "scale_1", "shift_1"])
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
    *,
    heads: int,
    beta: Number = None,
    mask: Mask = None,
    normalisation: Placement = "post",
    activation: Activation = "relu",
    epsilon: Number = 0,
    convention: Convention = "W x",
    note: Note = silent,
    **parameters: Tensor,
) -> Tensor:
    """One layer of a transformer encoder, its normalisation after or before each part."""
    options = {"heads": heads, "beta": beta, "mask": mask, "convention": convention}
    parts = (
        Sublayer("attention", multi_head_attention, options, ATTENTION),
        Sublayer("feed-forward", feed_forward, {"activation": activation}, FEED_FORWARD),
    )
    return _apply_sublayers(tokens, parts, parameters, normalisation, epsilon, note)


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
    **parameters: Tensor,
) -> Tensor:
    """One layer of a transformer decoder: it attends to its own earlier tokens, then to the encoder's.

    >>> one = HandTensor(np.array([[1.0, 3.0]]))
    >>> decoder_layer(one, one, heads=1).array.tolist()
    [[-1.0, 1.0]]
    """
    options = {"heads": heads, "beta": beta, "mask": mask, "convention": convention}
    across = {**options, "memory": memory, "mask": memory_mask}
    parts = (
        Sublayer("attention", multi_head_attention, options, ATTENTION),
        Sublayer("cross-attention", multi_head_attention, across, ATTENTION, "cross_"),
        Sublayer("feed-forward", feed_forward, {"activation": activation}, FEED_FORWARD),
    )
    return _apply_sublayers(tokens, parts, parameters, normalisation, epsilon, note)
