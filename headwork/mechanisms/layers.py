r"""Whole layers: attention and feed-forward, each with a residual and a normalisation.

An encoder layer attends to its own tokens; a decoder layer does so causally, then attends to a memory, the
output of the encoder.

"post" normalises after the residual, as published (Vaswani et al. 2017); "pre" normalises what goes into
each part and leaves the residual path free (Xiong et al. 2020, arXiv 2002.04745).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from headwork.mechanisms.attention import Convention, Mask, Number, Tensor, multi_head_attention
from headwork.mechanisms.feedforward import Activation, feed_forward
from headwork.mechanisms.kernels import PLAIN, Kernels
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.mechanisms.parameters import (
    DecoderLayerParameters,
    EncoderLayerParameters,
    NormalisationParameters,
    gather,
    input_cards,
)
from headwork.note import Input, Note, Step, inside, mechanism, silent, steps_of

Placement = Literal["post", "pre"]
OUTPUT = Step("output", "Y", r"\text{the layer's result}", "token width")


def _by_hand(beta: Number, convention: Convention) -> dict[str, Any]:
    """What only the plain attention knows."""
    options: dict[str, Any] = {} if beta is None else {"beta": beta}
    return options if convention == "W x" else options | {"convention": convention}


def _residual(
    tokens: Tensor,
    k: int,
    parameters: NormalisationParameters,
    sublayer: Callable[..., Tensor],
    *,
    placement: Placement,
    epsilon: Number,
    note: Note,
    kernels: Kernels,
    num_outputs: int | None = None,
) -> Tensor:
    """The tokens after sublayer ``k``; with ``num_outputs``, only so many, which still attend to all."""

    def normalise(rows: Tensor) -> Tensor:
        return kernels.normalisation(
            rows, parameters, epsilon=epsilon, note=inside(note, f"normalisation {k}")
        )

    rows = normalise(tokens) if placement == "pre" else tokens
    if num_outputs is None:
        change = sublayer(rows)
    else:
        tokens, change = tokens[..., :num_outputs, :], sublayer(rows[..., :num_outputs, :], rows)
    total = note(f"residual {k}", tokens + kernels.drop(change))
    return normalise(total) if placement == "post" else total


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    *input_cards(EncoderLayerParameters),
    *steps_of(layer_normalisation, scope="normalisation 1"),
    *steps_of(multi_head_attention, scope="attention", memory="X"),
    Step("residual 1", "R_1", r"X + \text{attention}", "token width"),
    *steps_of(layer_normalisation, scope="normalisation 2"),
    *steps_of(feed_forward, scope="feed-forward", always_x_W=True),
    Step("residual 2", "R_2", r"X' + \text{feed-forward}", "token width"),
    OUTPUT,
    gather=partial(gather, EncoderLayerParameters),
)
def encoder_layer(
    tokens: Tensor,
    parameters: EncoderLayerParameters,
    *,
    heads: int,
    beta: Number = None,
    mask: Mask = None,
    normalisation: Placement = "post",
    activation: Activation = "relu",
    epsilon: Number = 0,
    convention: Convention = "W x",
    num_outputs: int | None = None,
    note: Note = silent,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """One layer of a transformer encoder, its normalisation after or before each part."""
    p = parameters
    attend: Any = partial(kernels.attention, heads=heads, **_by_hand(beta, convention))
    residual = partial(_residual, placement=normalisation, epsilon=epsilon, note=note, kernels=kernels)

    def own(rows: Tensor, memory: Tensor = None) -> Tensor:
        return attend(rows, p.attention, memory, mask=mask, note=inside(note, "attention"))

    def feed(rows: Tensor) -> Tensor:
        return kernels.feed_forward(
            rows, p.feed_forward, activation=activation, note=inside(note, "feed-forward")
        )

    tokens = residual(tokens, 1, p.normalisation_1, own, num_outputs=num_outputs)
    return note("output", residual(tokens, 2, p.normalisation_2, feed))


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("memory", "M", "key width", "the output of the encoder, one row per token"),
    *input_cards(DecoderLayerParameters),
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
    gather=partial(gather, DecoderLayerParameters),
)
def decoder_layer(
    tokens: Tensor,
    memory: Tensor,
    parameters: DecoderLayerParameters,
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
    kernels: Kernels = PLAIN,
) -> Tensor:
    """One layer of a transformer decoder: it attends to its own earlier tokens, then to the encoder's."""
    p = parameters
    attend: Any = partial(kernels.attention, heads=heads, **_by_hand(beta, convention))
    residual = partial(_residual, placement=normalisation, epsilon=epsilon, note=note, kernels=kernels)

    def own(rows: Tensor) -> Tensor:
        return attend(rows, p.attention, mask=mask, note=inside(note, "attention"))

    def cross(rows: Tensor) -> Tensor:
        return attend(rows, p.cross_attention, memory, mask=memory_mask, note=inside(note, "cross-attention"))

    def feed(rows: Tensor) -> Tensor:
        return kernels.feed_forward(
            rows, p.feed_forward, activation=activation, note=inside(note, "feed-forward")
        )

    tokens = residual(tokens, 1, p.normalisation_1, own)
    tokens = residual(tokens, 2, p.normalisation_2, cross)
    return note("output", residual(tokens, 3, p.normalisation_3, feed))
