"""Transformers: encoder, decoder, and both together.

Blocks are the mechanisms ``encoder_layer`` and ``decoder_layer`` with dropout after each sublayer (Vaswani
et al. 2017, arXiv 1706.03762). "post" normalises after each residual, as published; "pre" before each
sublayer and once at the end. The base model (width 512, hidden 2048, 8 heads, 6 + 6 layers) has 44,138,496
parameters and 512 for each word of its vocabulary, which source, target and output share.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError, sizes_in_words
from headwork.mechanisms import (
    decoder_layer,
    encoder_layer,
    layer_normalisation,
    learned_positions,
    multi_head_linear_attention,
)
from headwork.mechanisms.attention import Mask
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.layers import Placement
from headwork.models.layers import Attention, Cache, FeedForward, Normalisation, Positions, TokenEmbedding
from headwork.models.model import MASK, VECTORS, AttentionKind, Config, Model, check_tokens
from headwork.note import Input, Note, Step, inside, silent, steps_of


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """A stack of blocks. ``final_normalisation`` None: one with "pre" normalisation, none with "post"."""

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    depth: int = 6
    normalisation: Placement = "post"
    final_normalisation: bool | None = None
    activation: Activation = "relu"
    attention: AttentionKind = "softmax"
    dropout: float = 0.1
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise InputError(
                f"{type(self).__name__}: width {self.width} cannot be cut into {self.heads} heads of one "
                f"size. Choose a number of heads that divides {self.width}."
            )

    @property
    def ends_normalised(self) -> bool:
        return self.normalisation == "pre" if self.final_normalisation is None else self.final_normalisation


def new_attention(config: TransformerConfig) -> Attention:
    return Attention(config.width, config.heads, attention=config.attention, backend=config.backend)


def new_normalisation(config: TransformerConfig) -> Normalisation:
    return Normalisation(config.width, epsilon=config.epsilon, backend=config.backend)


class Block(nn.Module):
    """What encoder and decoder blocks share: sublayers on a residual path, normalised before or after."""

    sublayers: ClassVar[int]

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.placement, self.dropout = config.normalisation, nn.Dropout(config.dropout)
        self.attention = new_attention(config)
        for k in range(1, self.sublayers + 1):
            setattr(self, f"normalisation_{k}", new_normalisation(config))
        self.feed_forward = FeedForward(
            config.width, config.hidden, activation=config.activation, backend=config.backend
        )

    def residual(
        self,
        tokens: Tensor,
        k: int,
        sublayer: nn.Module,
        note: Note,
        scope: str,
        *,
        num_outputs: int | None = None,
        **options: object,
    ) -> Tensor:
        """The tokens after sublayer ``k``; with ``num_outputs``, only so many, which still attend to all."""
        normalisation: Normalisation = getattr(self, f"normalisation_{k}")
        scoped = inside(note, f"normalisation {k}")
        rows = normalisation(tokens, note=scoped) if self.placement == "pre" else tokens
        if num_outputs is not None:
            tokens, options = tokens[:, :num_outputs], {**options, "memory": rows}
            rows = rows[:, :num_outputs]
        change = self.dropout(sublayer(rows, note=inside(note, scope), **options))
        total: Tensor = note(f"residual {k}", tokens + change)
        return total if self.placement == "pre" else normalisation(total, note=scoped)


class EncoderBlock(Block):
    """The mechanism ``encoder_layer``."""

    sublayers = 2

    def forward(self, tokens: Tensor, *, note: Note = silent, **options: Any) -> Tensor:
        """``options`` are those of the attention (mask, cache), and ``num_outputs``."""
        tokens = self.residual(tokens, 1, self.attention, note, "attention", **options)
        return note("output", self.residual(tokens, 2, self.feed_forward, note, "feed-forward"))


class DecoderBlock(Block):
    """The mechanism ``decoder_layer``."""

    sublayers = 3

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.cross_attention = new_attention(config)

    def forward(
        self, tokens: Tensor, memory: Tensor, *, memory_mask: Mask = None, note: Note = silent
    ) -> Tensor:
        cross = {"memory": memory, "mask": memory_mask}
        tokens = self.residual(tokens, 1, self.attention, note, "attention", mask="causal")
        tokens = self.residual(tokens, 2, self.cross_attention, note, "cross-attention", **cross)
        return note("output", self.residual(tokens, 3, self.feed_forward, note, "feed-forward"))


class Stack(Model):
    """Blocks one after another, and a normalisation at the end where the config has one."""

    block: ClassVar[type[Block]]
    mechanism: ClassVar[Callable[..., Any]]  # what one block computes

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList(self.block(config) for _ in range(config.depth))
        self.normalisation = new_normalisation(config) if config.ends_normalised else None

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.steps_in("")

    def steps_in(self, scope: str) -> tuple[Step, ...]:
        """The cards of the steps, with those of linear attention where that is what runs."""
        steps = steps_of(type(self).mechanism, scope=f"{scope}block *")
        for name in ("attention", "cross-attention") if self.config.attention == "linear" else ():
            within = f"{scope}block */{name}/"
            if any(step.name.startswith(within) for step in steps):
                steps = tuple(step for step in steps if not step.name.startswith(within))
                steps += steps_of(multi_head_linear_attention, scope=within.removesuffix("/"))
        if self.normalisation is not None:
            steps += steps_of(layer_normalisation, scope=f"{scope}normalisation")
        return steps

    def normalise(self, tokens: Tensor, note: Note) -> Tensor:
        scoped = inside(note, "normalisation")
        return tokens if self.normalisation is None else self.normalisation(tokens, note=scoped)


class Encoder(Stack):
    """A stack of encoder blocks: vectors in (batch, token, width), as many vectors out.

    With ``num_outputs``, only that many come out: the last block does not compute the others, which saves
    most of its time. A trace shows all of them, and needs ``num_outputs`` to be None.

    >>> import torch
    >>> encoder = Encoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(encoder(torch.zeros(1, 5, 8)).shape)
    (1, 5, 8)
    """

    slug, config_class, inputs = "encoder", TransformerConfig, (VECTORS,)
    block, mechanism = EncoderBlock, staticmethod(encoder_layer)

    def forward(
        self,
        tokens: Tensor,
        *,
        num_outputs: int | None = None,
        mask: Mask = None,
        caches: list[Cache] | None = None,
        note: Note = silent,
    ) -> Tensor:
        self.check_note(note)
        check_vectors(self.config, tokens)
        for i, block in enumerate(self.blocks):
            last = num_outputs if i == len(self.blocks) - 1 else None
            cache = None if caches is None else caches[i]
            tokens = block(tokens, num_outputs=last, mask=mask, cache=cache, note=inside(note, f"block {i}"))
        return self.normalise(tokens, note)


class Decoder(Stack):
    """A stack of decoder blocks: each token attends to itself, the tokens before it, and the memory.

    >>> import torch
    >>> decoder = Decoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(decoder(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape)
    (1, 3, 8)
    """

    slug, config_class = "decoder", TransformerConfig
    inputs = (VECTORS, Input("memory", "M", "batch key width"))
    block, mechanism = DecoderBlock, staticmethod(decoder_layer)

    def forward(
        self, tokens: Tensor, memory: Tensor, *, memory_mask: Mask = None, note: Note = silent
    ) -> Tensor:
        self.check_note(note)
        check_vectors(self.config, tokens)
        check_vectors(self.config, memory)
        for i, block in enumerate(self.blocks):
            tokens = block(tokens, memory, memory_mask=memory_mask, note=inside(note, f"block {i}"))
        return self.normalise(tokens, note)


def check_vectors(config: TransformerConfig, tokens: Tensor) -> None:
    if tokens.dim() != 3 or tokens.shape[-1] != config.width or 0 in tokens.shape:
        raise InputError(
            f"{type(config).__name__}: tokens are {sizes_in_words(tokens.shape, 'batch token width')}. "
            f"Expected batch x token x {config.width}, none of them empty."
        )


def key_mask(mask: Tensor | None) -> Tensor | None:
    """Padding (batch, token) as a mask on the keys, the same for every head and query."""
    return None if mask is None else mask[:, None, None, :]


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(TransformerConfig):
    """``depth`` blocks on either side; source, target and output share the vocabulary."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}

    vocabulary: int = 37000
    max_length: int = 1024


class EncoderDecoder(Model):
    """The transformer as published: source and target tokens in, a score for each next token out.

    >>> import torch
    >>> model = EncoderDecoder(EncoderDecoderConfig(width=8, hidden=16, heads=2, depth=1, vocabulary=11))
    >>> tokens = torch.tensor([[1, 2, 3]])
    >>> tuple(model(tokens, tokens).shape)
    (1, 3, 11)
    """

    slug, config_class = "encoder-decoder", EncoderDecoderConfig
    inputs = (Input("source", "s", "batch token"), Input("target", "t", "batch token"), MASK)

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.positions = Positions("sinusoidal", config.max_length, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder, self.decoder = Encoder(config), Decoder(config)

    @property
    def steps(self) -> tuple[Step, ...]:
        formula, sides = r"\sqrt{d}\, T_{x}", ("encoder", "decoder")
        return (
            *(Step(f"{side}/embedding", "E", formula, "token width") for side in sides),
            *(step for side in sides for step in steps_of(learned_positions, scope=f"{side}/positions")),
            *self.encoder.steps_in("encoder/"),
            *self.decoder.steps_in("decoder/"),
            Step("scores", "Z", r"Y T^\top", "token word"),
        )

    def embed(self, tokens: Tensor, note: Note) -> Tensor:
        vectors = note("embedding", self.embedding(tokens) * math.sqrt(self.config.width))
        result: Tensor = self.dropout(self.positions(vectors, note=inside(note, "positions")))
        return result

    def encode(self, source: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        check_tokens("source", source, self.config.vocabulary, mask)
        return self.encoder(self.embed(source, note), mask=key_mask(mask), note=note)

    def decode(
        self, target: Tensor, memory: Tensor, mask: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """Vectors of the target's tokens; ``mask`` is the source's padding."""
        check_tokens("target", target, self.config.vocabulary)
        return self.decoder(self.embed(target, note), memory, memory_mask=key_mask(mask), note=note)

    def forward(
        self, source: Tensor, target: Tensor, mask: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """Scores (batch, target token, word). ``mask`` has 1 for each source token and 0 for padding."""
        self.check_note(note)
        memory = self.encode(source, mask, note=inside(note, "encoder"))
        vectors = self.decode(target, memory, mask, note=inside(note, "decoder"))
        return note("scores", functional.linear(vectors, self.embedding.table))
