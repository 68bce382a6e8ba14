"""Text models as functions of their parameters: an encoder of tokens, and a classifier.

Token embedding, positions, encoder, pooling over the real tokens, head. With ``embedding_normalisation`` and
``token_types`` the encoder is BERT's (Devlin et al. 2018, arXiv 1810.04805). A recurrence, or a kernel that
slides along the tokens (Kim 2014, arXiv 1408.5882), may take its place; padding stays zero, so it never
counts. A classifier may add the logits of n-grams (single tokens, pairs and triples), as a linear model does
(wide and deep: Cheng et al. 2016, arXiv 1606.07792).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwork.mechanisms import parameters as params
from headwork.mechanisms.attention import Tensor
from headwork.mechanisms.configs import TextClassifierConfig, TextEncoderConfig
from headwork.mechanisms.convolution import convolution_1d
from headwork.mechanisms.definitions import MASK, TOKENS, model
from headwork.mechanisms.images import (
    CELL_KINDS,
    SCORES,
    classifier_head_specs,
    convolution_specs,
    gather_rows,
    recurrent_layer,
    recurrent_layer_specs,
    recurrent_layer_steps,
)
from headwork.mechanisms.kernels import PLAIN, Kernels
from headwork.mechanisms.layers import encoder_steps
from headwork.mechanisms.normalisation import normalisation_steps
from headwork.mechanisms.parameters import Spec, spec_tree, subtree
from headwork.mechanisms.transformer import (
    EMBEDDING,
    TokenParameters,
    add_positions,
    encoder,
    key_mask,
    position_steps,
    stack_steps,
    token_specs,
)
from headwork.note import Input, Step, steps_of

KERNEL_SIZE = 5  # of a convolution along tokens


def _text_encoder_specs(config: TextEncoderConfig) -> TokenParameters:
    specs = token_specs(config)
    if config.token_types:
        types = spec_tree(params.TableParameters, row=config.token_types, width=config.width)
        specs = replace(specs, types=types)
    if config.embedding_normalisation:
        specs = replace(specs, normalisation=spec_tree(params.NormalisationParameters, width=config.width))
    return specs


def _text_encoder_steps(config: TextEncoderConfig) -> tuple[Step, ...]:
    normalised = normalisation_steps("embedding normalisation", "0", "X") * config.embedding_normalisation
    return (EMBEDDING, *position_steps(), *normalised, *stack_steps(encoder_steps, config))


def keep_positions(values: Tensor, positions: Tensor | None) -> Tensor:
    """The values (batch, token, ...) at those positions, or all."""
    return values if values is None or positions is None else gather_rows(values, positions)


@model(
    "text-encoder", _text_encoder_specs, _text_encoder_steps, TOKENS, MASK, Input("types", "u", "batch token")
)
def text_encoder(
    parameters: TokenParameters,
    config: TextEncoderConfig,
    tokens: Tensor,
    mask: Tensor = None,
    types: Tensor = None,
    *,
    kept_positions: Tensor = None,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Tokens (batch, token) in, one vector per token out.

    ``types`` (batch, token) default to 0; ``kept_positions`` (batch, position) leaves out all other tokens.
    """
    p = parameters
    vectors = kernels.embed(p.embedding.table, tokens)
    if p.types is not None:
        vectors = vectors + (p.types.table[0] if types is None else kernels.embed(p.types.table, types))
    vectors = add_positions(kernels.note("embedding", vectors), p.positions.table, kernels=kernels)
    if p.normalisation is not None:
        scoped = kernels.inside("embedding normalisation")
        vectors = scoped.normalisation(vectors, p.normalisation, epsilon=config.epsilon)
    # Only now, so that the tokens that are left have their own positions.
    vectors, mask = keep_positions(vectors, kept_positions), key_mask(keep_positions(mask, kept_positions))
    return encoder(p.transformer, config, kernels.drop(vectors), mask=mask, kernels=kernels)


def token_convolution_specs(width: int, depth: int, taps: int = KERNEL_SIZE) -> params.StackParameters:
    return params.StackParameters((convolution_specs(width, width, taps),) * depth)


def token_convolutions(
    parameters: params.StackParameters, vectors: Tensor, mask: Tensor = None, *, kernels: Kernels = PLAIN
) -> Tensor:
    """Vectors (batch, token, width) in, as many out. Padding stays zero."""
    real = None if mask is None else mask[..., None, :].to(vectors)
    maps = vectors.mT if real is None else vectors.mT * real
    for i, block in enumerate(parameters.blocks):
        maps = kernels.inside(f"block {i}").convolution_relu(maps, block)
        maps = maps if real is None else maps * real
    return maps.mT


@dataclass(frozen=True)
class SequenceEncoderParameters:
    embedding: params.TableParameters = subtree("embedding")
    body: Any = subtree("")


@dataclass(frozen=True)
class TextClassifierParameters:
    encoder: Any = subtree("")
    head: params.ClassifierHeadParameters = subtree("head")
    ngrams: params.NGramParameters | None = subtree("n-grams")


def _text_classifier_specs(config: TextClassifierConfig) -> TextClassifierParameters:
    width, both = config.width, config.bidirectional
    encoder_specs: Any = _text_encoder_specs(config)
    if config.encoder != "transformer":
        body: Any = token_convolution_specs(width, config.depth)
        if config.encoder != "convolution":
            body = recurrent_layer_specs(width, width, config.encoder, both)
        encoder_specs = SequenceEncoderParameters(encoder_specs.embedding, body)
    doubled = both and config.encoder in CELL_KINDS.values()
    shape = config.ngrams, config.classes
    ngrams = params.NGramParameters(Spec(shape), Spec(shape, "ones", trainable=False))
    head = classifier_head_specs(2 * width if doubled else width, config.classes)
    return TextClassifierParameters(encoder_specs, head, ngrams if config.ngrams else None)


def _text_classifier_steps(config: TextClassifierConfig) -> tuple[Step, ...]:
    if config.encoder == "transformer":
        steps = _text_encoder_steps(config)
    elif config.encoder == "convolution":
        output = Step("block */output", "F", r"\max(0, Y)", "output_channel output")
        symbols = {"x": "{block </output,embedding|x}", "y": "Y", "k": "K"}
        steps = (EMBEDDING, *steps_of(convolution_1d, scope="block */convolution", symbols=symbols), output)
    else:
        steps = (EMBEDDING, *recurrent_layer_steps(config.encoder, config.bidirectional))
    pooled = Step("pooled", "p", r"\text{the mean of the tokens, or the first}", "width")
    if not config.ngrams:
        return (*steps, pooled, SCORES)
    new_ngrams = r"v \in \{x_t,\ x_{t-1} x_t,\ x_{t-2} x_{t-1} x_t\} \text{, new}"
    ngrams = Step("n-grams", "U", rf"\sum_{{{new_ngrams}}} r_v u_v", "token class")
    total = Step("scores", "z", r"W p + b_z + \frac{1}{\sqrt{\sum_v r_v^2}} \sum_t U_t", "class")
    return (*steps, pooled, ngrams, total)


# --- n-grams: whole numbers, hashed outside of what is computed ------------------------------------
FACTORS, PRIME = (1_540_483_477, 1_103_515_245), 2**31 - 1  # below 2^31, so that no product leaves 64 bits


def hash_pair(earlier: Any, token: Any) -> Any:
    return (earlier * FACTORS[0] + token * FACTORS[1]) % PRIME


def hashed_ngrams(config: TextClassifierConfig, tokens: Any, mask: Any = None) -> dict[str, Any]:
    """The argument ``ngrams`` of ``text_classifier``, from arrays; on torch
    ``TextClassifier.ngrams_of`` makes it.

    >>> rows, new = hashed_ngrams(TextClassifierConfig(ngrams=100), np.array([[7, 7]]))["ngrams"]
    >>> rows.shape, new.tolist()
    ((1, 2, 3), [[[1, 1, 0], [0, 1, 1]]])
    """
    if not config.ngrams:
        return {}
    real = np.ones_like(tokens) if mask is None else mask != 0
    before = np.pad(tokens * real, ((0, 0), (2, 0)))
    earlier, before = before[:, :-2], before[:, 1:-1]
    firsts = (np.full_like(tokens, config.vocabulary), before, hash_pair(earlier, before))
    ngram_rows = np.stack([hash_pair(first, tokens) for first in firsts], -1) % config.ngrams
    is_first = np.zeros((len(ngram_rows), ngram_rows[0].size), np.int64)
    by_text = (is_first, ngram_rows.reshape(is_first.shape), np.repeat(real, 3, -1))
    for row, seen, count in zip(*by_text, strict=True):
        row[np.unique(np.where(count, seen, -1), return_index=True)[1]] = 1
    return {"ngrams": (ngram_rows, is_first.reshape(ngram_rows.shape) * real[..., None])}


@model(
    "text",
    _text_classifier_specs,
    _text_classifier_steps,
    TOKENS,
    MASK,
    derived_inputs=hashed_ngrams,
    architectures={
        name: {"encoder": kind}
        for name, kind in {"transformer": "transformer", "cnn": "convolution", **CELL_KINDS}.items()
    },
    old_parameters={"phrases.": "ngrams.", "encoder.reading.": "encoder.body."},
)
def text_classifier(
    parameters: TextClassifierParameters,
    config: TextClassifierConfig,
    tokens: Tensor,
    mask: Tensor = None,
    *,
    ngrams: tuple[Tensor, Tensor] | None = None,
    kept_positions: Tensor = None,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Tokens (batch, token) in, a logit for each class out.

    ``ngrams`` are the rows (batch, token, 3) of the n-grams that each token ends, and 1 for those that occur
    for the first time; ``kept_positions`` (batch, position) leaves out all other tokens.
    """
    p, real = parameters, keep_positions(mask, kept_positions)
    if config.encoder == "transformer":
        vectors = text_encoder(
            p.encoder, config, tokens, mask, kept_positions=kept_positions, kernels=kernels
        )
    else:
        vectors = kernels.embed(p.encoder.embedding.table, keep_positions(tokens, kept_positions))
        vectors = kernels.drop(kernels.note("embedding", vectors))
        if config.encoder == "convolution":
            vectors = token_convolutions(p.encoder.body, vectors, real, kernels=kernels)
        else:
            vectors = recurrent_layer(p.encoder.body, vectors, real, cell=config.encoder, kernels=kernels)
    first = config.pooling == "first"
    pooled = kernels.note("pooled", vectors[..., 0, :] if first else mean_of_tokens(vectors, real))
    scores = kernels.linear(kernels.drop(pooled), p.head.matrix, p.head.bias)
    if p.ngrams is not None and ngrams is not None:
        ngram_rows, is_first = (keep_positions(value, kept_positions) for value in ngrams)
        by_token, norm = ngram_logits(p.ngrams, ngram_rows, is_first, kernels)
        scores = scores + kernels.note("n-grams", by_token).sum(-2) / norm
    return kernels.note("scores", scores)


def ngram_logits(
    parameters: params.NGramParameters, ngram_rows: Tensor, is_first: Tensor, kernels: Kernels = PLAIN
) -> tuple[Tensor, Tensor]:
    """The logits of the n-grams that each token ends (batch, token, class), and the divisor of their sum.

    The divisor (batch, class) is the norm of the text's ratios: long texts get no larger logits.
    """
    weights = kernels.embed(parameters.ratios, ngram_rows) * is_first[..., None].to(parameters.ratios)
    by_token = (kernels.embed(parameters.table, ngram_rows) * weights).sum(-2)
    squares = (weights * weights).reshape(*weights.shape[:-3], -1, weights.shape[-1])
    return by_token, squares.sum(-2).sqrt() + 1e-6


def mean_of_tokens(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real tokens.

    >>> two, mask = HandTensor(np.array([[[2.0], [9.0]]])), HandTensor(np.array([[1.0, 0.0]]))
    >>> mean_of_tokens(two, mask).array.tolist()
    [[2.0]]
    """
    if mask is None:
        return vectors.mean(-2)
    real = (1 - (mask == 0).to(vectors)).unsqueeze(-1)
    return (vectors * real).sum(-2) / real.sum(-2)
