"""Transformers as functions of their parameters: encoder, decoder, both together, a language model.

Blocks are the mechanisms ``encoder_layer`` and ``decoder_layer`` with dropout after each sublayer (Vaswani
et al. 2017, arXiv 1706.03762). "post" normalises after each residual, as published; "pre" before each
sublayer and once at the end. The base model (width 512, hidden 2048, 8 heads, 6 + 6 layers) has 44,138,496
parameters and 512 for each word of its vocabulary, which source, target and output share.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headwork.errors import InputError
from headwork.mechanisms import configs
from headwork.mechanisms import parameters as params
from headwork.mechanisms.attention import Mask, Tensor, multi_head_attention
from headwork.mechanisms.definitions import MASK, TOKENS, VECTORS, check_tokens, model
from headwork.mechanisms.kernels import PLAIN, Kernels
from headwork.mechanisms.layers import decoder_layer, decoder_steps, encoder_layer, encoder_steps
from headwork.mechanisms.linear import multi_head_linear_attention
from headwork.mechanisms.normalisation import normalisation_steps
from headwork.mechanisms.parameters import Spec, spec_tree, subtree
from headwork.mechanisms.positions import learned_positions, sinusoidal_positions
from headwork.note import Input, Step, inside, steps_of

EMBEDDING = Step("embedding", "E", r"T_{x}", "token width")


# --- parameters -------------------------------------------------------------------------------------
def position_specs(kind: configs.PositionKind, count: int, width: int) -> params.TableParameters:
    """One row per position, learned, or of sinusoids."""
    if kind == "learned":
        return params.TableParameters(Spec((count, width), "small"))

    def rows(like: Tensor) -> Tensor:
        return sinusoidal_positions(like.new_tensor(list(range(count))), width=width)

    return params.TableParameters(Spec((count, width), trainable=False, constant=rows))


def stack_specs(kind: type, config: configs.TransformerConfig) -> params.StackParameters:
    layer: Any = spec_tree(kind, width=config.width, hidden=config.hidden)
    last = spec_tree(params.NormalisationParameters, width=config.width) if config.ends_normalised else None
    return params.StackParameters((layer,) * config.depth, last)


encoder_specs = partial(stack_specs, params.EncoderLayerParameters)
decoder_specs = partial(stack_specs, params.DecoderLayerParameters)


# --- cards of the steps -----------------------------------------------------------------------------
def stack_steps(
    layer: Callable[..., tuple[Step, ...]], config: configs.TransformerConfig, scope: str = ""
) -> tuple[Step, ...]:
    """The cards of a stack's steps, with those of linear attention where that is what runs."""
    attention = multi_head_linear_attention if config.attention == "linear" else multi_head_attention

    def within(step: Step) -> Step:
        before = ",positions/output,embedding normalisation/output,block </output|X}"
        formula, columns = (text.replace("|X}", before) for text in (step.formula, step.column_formula))
        return replace(step, name=f"{scope}block */{step.name}", formula=formula, column_formula=columns)

    steps = tuple(map(within, layer(attention)))
    rows = f"{{block {config.depth - 1}/output|X}}"
    return steps + normalisation_steps(f"{scope}normalisation", "f", rows) * config.ends_normalised


def position_steps(scope: str = "", rows: str = "E") -> tuple[Step, ...]:
    """The cards of adding positions to these rows: then they are what the first block takes."""
    symbols = {"X": rows, "Y": "X", "T": "T'"}
    return steps_of(learned_positions, scope=f"{scope}positions", symbols=symbols)


def stack_output_symbol(config: configs.TransformerConfig, scope: str = "") -> str:
    """The symbol of what comes out of a stack, in a formula."""
    return f"{{{scope}block {config.depth - 1}/output,{scope}normalisation/output|Y}}"


# --- stacks -----------------------------------------------------------------------------------------
def _stack(
    layer: Callable[..., Tensor],
    parameters: params.StackParameters,
    config: configs.TransformerConfig,
    tokens: Tensor,
    *memory: Tensor,
    output_tokens: int | None = None,
    kernels: Kernels,
    **masks: Mask,
) -> Tensor:
    """Blocks one after another, and a normalisation at the end where the config has one."""
    kernels = kernels.with_attention(config.attention)
    for i, block in enumerate(parameters.blocks):
        last = output_tokens is not None and i == len(parameters.blocks) - 1
        tokens = kernels.inside(f"block {i}").call(
            layer,
            tokens,
            *memory,
            block,
            heads=config.heads,
            normalisation=config.normalisation,
            activation=config.activation,
            epsilon=config.epsilon,
            kernels=kernels,
            **masks,
            **({"output_tokens": output_tokens} if last else {}),
        )
    if parameters.normalisation is None:
        return tokens
    scoped = kernels.inside("normalisation")
    return scoped.normalisation(tokens, parameters.normalisation, epsilon=config.epsilon)


@model("encoder", encoder_specs, partial(stack_steps, encoder_steps), VECTORS)
def encoder(
    parameters: params.StackParameters,
    config: configs.TransformerConfig,
    tokens: Tensor,
    *,
    mask: Mask = None,
    output_tokens: int | None = None,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """A stack of encoder blocks: vectors in (batch, token, width), as many vectors out.

    With ``output_tokens``, only that many come out: the last block does not compute the others, which saves
    most of its time. A trace shows all of them, and needs ``output_tokens`` to be None.
    """
    return _stack(
        encoder_layer, parameters, config, tokens, mask=mask, output_tokens=output_tokens, kernels=kernels
    )


@model(
    "decoder",
    decoder_specs,
    partial(stack_steps, decoder_steps),
    VECTORS,
    Input("memory", "M", "batch key width"),
)
def decoder(
    parameters: params.StackParameters,
    config: configs.TransformerConfig,
    tokens: Tensor,
    memory: Tensor,
    *,
    memory_mask: Mask = None,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """A stack of decoder blocks: each token attends to itself, the tokens before it, and the memory."""
    masks = {"memory_mask": memory_mask}
    return _stack(decoder_layer, parameters, config, tokens, memory, kernels=kernels, **masks)


# --- tokens as vectors ------------------------------------------------------------------------------
def add_positions(vectors: Tensor, table: Tensor, *, start: int = 0, kernels: Kernels = PLAIN) -> Tensor:
    """Adds to each token the row of its position."""
    end = start + vectors.shape[-2]
    if end > table.shape[0]:
        raise InputError(
            f"a sequence of {end} tokens, but there are positions for {table.shape[0]}. "
            "Shorten it, or build the model with a larger 'max_length'."
        )
    return learned_positions(vectors, table[start:], note=inside(kernels.note, "positions"))


def key_mask(mask: Tensor | None) -> Tensor | None:
    """Padding (batch, token) as a mask on the keys, the same for every head and query."""
    return None if mask is None else mask[..., None, None, :]


@dataclass(frozen=True)
class TokenParameters:
    """Of a stack over the tokens of a vocabulary; types and a first normalisation are BERT's."""

    embedding: params.TableParameters = subtree("embedding")
    positions: params.TableParameters = subtree("positions")
    types: params.TableParameters | None = subtree("types")
    normalisation: params.NormalisationParameters | None = subtree("embedding normalisation")
    transformer: params.StackParameters = subtree("")


def token_specs(config: configs.TokensConfig) -> TokenParameters:
    return TokenParameters(
        embedding=spec_tree(params.TableParameters, row=config.vocabulary, width=config.width),
        positions=position_specs(config.positions, config.max_length, config.width),
        transformer=encoder_specs(config),
    )


def _language_model_steps(config: configs.LanguageModelConfig) -> tuple[Step, ...]:
    scores = Step("scores", "z", rf"{stack_output_symbol(config)} T^\top", "token word")
    return (EMBEDDING, *position_steps(), *stack_steps(encoder_steps, config), scores)


@model("language", token_specs, _language_model_steps, TOKENS)
def language_model(
    parameters: TokenParameters,
    config: configs.LanguageModelConfig,
    tokens: Tensor,
    *,
    start: int = 0,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Scores for the next token after each one, from it and those before it; ``start`` precede the first."""
    p = parameters
    vectors = kernels.note("embedding", kernels.embed(p.embedding.table, tokens))
    vectors = kernels.drop(add_positions(vectors, p.positions.table, start=start, kernels=kernels))
    vectors = encoder(p.transformer, config, vectors, mask="causal", kernels=kernels)
    return kernels.note("scores", kernels.linear(vectors, p.embedding.table))


@dataclass(frozen=True)
class EncoderDecoderParameters:
    embedding: params.TableParameters = subtree("embedding")
    positions: params.TableParameters = subtree("positions")
    encoder: params.StackParameters = subtree("encoder")
    decoder: params.StackParameters = subtree("decoder")


def _encoder_decoder_specs(config: configs.EncoderDecoderConfig) -> EncoderDecoderParameters:
    return EncoderDecoderParameters(
        spec_tree(params.TableParameters, row=config.vocabulary, width=config.width),
        position_specs("sinusoidal", config.max_length, config.width),
        encoder_specs(config),
        decoder_specs(config),
    )


def _encoder_decoder_steps(config: configs.EncoderDecoderConfig) -> tuple[Step, ...]:
    letters = {"encoder/": "s", "decoder/": "t"}
    memory = stack_output_symbol(config, "encoder/")
    decoder = stack_steps(decoder_steps, config, "decoder/")
    return (
        *(
            Step(f"{side}embedding", "E", rf"\sqrt{{d}}\, T_{{{x}}}", "token width")
            for side, x in letters.items()
        ),
        *(step for side in letters for step in position_steps(side)),
        *stack_steps(encoder_steps, config, "encoder/"),
        *(replace(step, formula=re.sub(r"\bM\b", lambda _: memory, step.formula)) for step in decoder),
        Step("scores", "z", rf"{stack_output_symbol(config, 'decoder/')} T^\top", "token word"),
    )


def _check_pair(
    name: str, config: Any, source: Tensor, target: Tensor, mask: Tensor = None, *, check_values: bool = True
) -> None:
    check_tokens("source", config, source, mask, check_values=check_values)
    check_tokens("target", config, target, check_values=check_values)


@model(
    "encoder-decoder",
    _encoder_decoder_specs,
    _encoder_decoder_steps,
    Input("source", "s", "batch token"),
    Input("target", "t", "batch token"),
    MASK,
    check=_check_pair,
)
def encoder_decoder(
    parameters: EncoderDecoderParameters,
    config: configs.EncoderDecoderConfig,
    source: Tensor,
    target: Tensor,
    mask: Tensor = None,
    *,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """The transformer as published: source and target tokens in, a score for each next token out."""
    p = parameters

    def embed(tokens: Tensor, side: Kernels) -> Tensor:
        rows = side.embed(p.embedding.table, tokens)
        vectors = side.note("embedding", rows * rows.new_tensor(config.width).sqrt())
        return side.drop(add_positions(vectors, p.positions.table, kernels=side))

    source_mask = key_mask(mask)
    side = kernels.inside("encoder")
    memory = encoder(p.encoder, config, embed(source, side), mask=source_mask, kernels=side)
    side = kernels.inside("decoder")
    vectors = decoder(p.decoder, config, embed(target, side), memory, memory_mask=source_mask, kernels=side)
    return kernels.note("scores", kernels.linear(vectors, p.embedding.table))
