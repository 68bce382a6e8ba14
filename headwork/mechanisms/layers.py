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

from headwork.mechanisms import parameters as params
from headwork.mechanisms.attention import Convention, Mask, Scalar, Tensor, multi_head_attention
from headwork.mechanisms.feedforward import Activation, feed_forward
from headwork.mechanisms.kernels import PLAIN, Kernels
from headwork.mechanisms.normalisation import normalisation_steps
from headwork.note import Input, Note, Step, mechanism, silent, steps_of

NormalisationPlacement = Literal["post", "pre"]


def _sublayer_steps(
    k: int, name: str, steps: Callable[..., tuple[Step, ...]], memory: str = "", **symbols: str
) -> tuple[Step, ...]:
    """Sublayer ``k`` with its residual and its normalisation, which may come before or after it.

    The input of each is whichever of the named steps was noted last.
    """
    rows = f"{{normalisation {k - 1}/output,normalisation {k}/output|X}}"
    stream = f"{{residual {k - 1},normalisation {k - 1}/output|X}}"
    return (
        *steps(scope=name, memory=memory or rows, symbols={"X": rows, **symbols}),
        Step(f"residual {k}", f"R_{k}", f"{stream} + {symbols['Y']}", "token width"),
        *normalisation_steps(f"normalisation {k}", str(k), f"{{residual {k - 1},residual {k}|X}}"),
    )


FEED_FORWARD = partial(steps_of, feed_forward, always_x_W=True)
PRIMED_SYMBOLS = "Q K V S A H J z W_q W_k W_v W_o b_q b_k b_v b_o"  # of attention to the memory


def encoder_steps(attention: Callable[..., Tensor] = multi_head_attention) -> tuple[Step, ...]:
    """The cards of an encoder layer with this kind of attention."""
    return (
        *_sublayer_steps(1, "attention", partial(steps_of, attention), Y="Z"),
        *_sublayer_steps(2, "feed-forward", FEED_FORWARD, H="G", Y="U"),
        _output(2),
    )


def decoder_steps(attention: Callable[..., Tensor] = multi_head_attention) -> tuple[Step, ...]:
    """The cards of a decoder layer with this kind of attention."""
    attend, primed = partial(steps_of, attention), {symbol: f"{symbol}'" for symbol in PRIMED_SYMBOLS.split()}
    symbols = {"S'": "S_m'", **primed, "Y": "Z'"}
    cross = _sublayer_steps(2, "cross-attention", attend, memory="M", **symbols)
    return (
        *_sublayer_steps(1, "attention", attend, **{"S'": "S_m", "Y": "Z"}),
        *(replace(step, when=step.when and "memory_mask") for step in cross),
        *_sublayer_steps(3, "feed-forward", FEED_FORWARD, H="G", Y="U"),
        _output(3),
    )


def _output(k: int) -> Step:
    return Step("output", "Y", f"{{residual {k},normalisation {k}/output|L_{k}}}", "token width")


def _attend(kernels: Kernels, heads: int, beta: Scalar, convention: Convention) -> Any:
    """The attention of a layer; only the plain one knows these options, which are left out by default."""
    options: dict[str, Any] = {} if beta is None else {"beta": beta}
    options |= {} if convention == "W x" else {"convention": convention}
    return partial(kernels.attention, heads=heads, **options)


def _residual(
    tokens: Tensor,
    k: int,
    parameters: params.NormalisationParameters,
    sublayer: Callable[..., Tensor],
    *,
    placement: NormalisationPlacement,
    epsilon: Scalar,
    kernels: Kernels,
    output_tokens: int | None = None,
) -> Tensor:
    """The tokens after sublayer ``k``; with ``output_tokens``, only so many, which still attend to all."""

    def normalise(rows: Tensor) -> Tensor:
        return kernels.inside(f"normalisation {k}").normalisation(rows, parameters, epsilon=epsilon)

    rows = normalise(tokens) if placement == "pre" else tokens
    if output_tokens is None:
        change = sublayer(rows)
    else:
        tokens, change = tokens[..., :output_tokens, :], sublayer(rows[..., :output_tokens, :], memory=rows)
    total = kernels.note(f"residual {k}", tokens + kernels.drop(change))
    return normalise(total) if placement == "post" else total


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    *params.input_cards(params.EncoderLayerParameters),
    *encoder_steps(),
    build_parameters=partial(params.group_parameters, params.EncoderLayerParameters),
)
def encoder_layer(
    tokens: Tensor,
    parameters: params.EncoderLayerParameters,
    *,
    heads: int,
    beta: Scalar = None,
    mask: Mask = None,
    normalisation: NormalisationPlacement = "post",
    activation: Activation = "relu",
    epsilon: Scalar = 0,
    convention: Convention = "W x",
    output_tokens: int | None = None,
    note: Note = silent,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """One layer of a transformer encoder, its normalisation after or before each part."""
    p, kernels = parameters, kernels.with_note(note)
    attend = _attend(kernels.inside("attention"), heads, beta, convention)
    feed = partial(kernels.inside("feed-forward").feed_forward, p=p.feed_forward, activation=activation)
    residual = partial(_residual, placement=normalisation, epsilon=epsilon, kernels=kernels)
    attend_self = partial(attend, p=p.attention, mask=mask)
    tokens = residual(tokens, 1, p.normalisation_1, attend_self, output_tokens=output_tokens)
    tokens = residual(tokens, 2, p.normalisation_2, feed)
    return note("output", tokens)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("memory", "M", "key width", "the output of the encoder, one row per token"),
    *params.input_cards(params.DecoderLayerParameters),
    *decoder_steps(),
    build_parameters=partial(params.group_parameters, params.DecoderLayerParameters),
)
def decoder_layer(
    tokens: Tensor,
    memory: Tensor,
    parameters: params.DecoderLayerParameters,
    *,
    heads: int,
    beta: Scalar = None,
    mask: Mask = "causal",
    memory_mask: Mask = None,
    normalisation: NormalisationPlacement = "post",
    activation: Activation = "relu",
    epsilon: Scalar = 0,
    convention: Convention = "W x",
    note: Note = silent,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """One layer of a transformer decoder: it attends to its own earlier tokens, then to the encoder's."""
    p, kernels = parameters, kernels.with_note(note)
    attend = _attend(kernels.inside("attention"), heads, beta, convention)
    cross = _attend(kernels.inside("cross-attention"), heads, beta, convention)
    feed = partial(kernels.inside("feed-forward").feed_forward, p=p.feed_forward, activation=activation)
    residual = partial(_residual, placement=normalisation, epsilon=epsilon, kernels=kernels)
    attend_memory = partial(cross, p=p.cross_attention, memory=memory, mask=memory_mask)
    tokens = residual(tokens, 1, p.normalisation_1, partial(attend, p=p.attention, mask=mask))
    tokens = residual(tokens, 2, p.normalisation_2, attend_memory)
    tokens = residual(tokens, 3, p.normalisation_3, feed)
    return note("output", tokens)
