"""Transformers: encoder, decoder, both together, and a causal language model.

Blocks are the mechanisms ``encoder_layer`` and ``decoder_layer`` with dropout after each part (Vaswani et al. 2017,
arXiv 1706.03762). "post" normalises after each residual, as published; "pre" before each part and once at the end.
The base model (width 512, hidden 2048, 8 heads, 6 + 6 layers) has 44,138,496 parameters and 512 for each word of
its vocabulary, which source, target and output share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
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
from headwork.models.model import MASK, TOKENS, VECTORS, Attending, Config, Model, check_tokens
from headwork.models.parts import (
    Attention,
    Cache,
    FeedForward,
    Normalisation,
    Positions,
    TokenEmbedding,
    Where,
)
from headwork.note import Input, Note, Step, inside, silent, steps_of


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """A stack of blocks. ``final_normalisation`` None is what the placement needs: one with "pre", none with "post"."""

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    depth: int = 6
    normalisation: Placement = "post"
    final_normalisation: bool | None = None
    activation: Activation = "relu"
    attention: Attending = "softmax"
    dropout: float = 0.1
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise InputError(
                f"{self.told}: width {self.width} cannot be cut into {self.heads} heads of one size. "
                f"Choose a number of heads that divides {self.width}."
            )

    @property
    def ends_normalised(self) -> bool:
        return self.normalisation == "pre" if self.final_normalisation is None else self.final_normalisation


class Block(nn.Module):
    """What encoder and decoder blocks share: parts on a residual path, normalised before or after."""

    def __init__(self, config: TransformerConfig, parts: int) -> None:
        super().__init__()
        self.placement, self.dropout = config.normalisation, nn.Dropout(config.dropout)
        self.attention = Attention(
            config.width, config.heads, attention=config.attention, kernel=config.kernel
        )
        for k in range(1, parts + 1):
            setattr(
                self,
                f"normalisation_{k}",
                Normalisation(config.width, epsilon=config.epsilon, kernel=config.kernel),
            )
        self.feed_forward = FeedForward(
            config.width, config.hidden, activation=config.activation, kernel=config.kernel
        )

    def along(
        self,
        tokens: Tensor,
        k: int,
        part: nn.Module,
        note: Note,
        scope: str,
        *,
        first: int | None = None,
        **options: object,
    ) -> Tensor:
        """The residual path past part ``k``; with ``first``, of that many tokens, which still attend to all."""
        normalisation = getattr(self, f"normalisation_{k}")
        scoped = inside(note, f"normalisation {k}")
        rows = normalisation(tokens, note=scoped) if self.placement == "pre" else tokens
        if first is not None:
            tokens, options = tokens[:, :first], {**options, "memory": rows}
            rows = rows[:, :first]
        total: Tensor = note(
            f"residual {k}", tokens + self.dropout(part(rows, note=inside(note, scope), **options))
        )
        result: Tensor = total if self.placement == "pre" else normalisation(total, note=scoped)
        return result


class EncoderBlock(Block):
    """The mechanism ``encoder_layer``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, 2)

    def forward(
        self,
        tokens: Tensor,
        *,
        first: int | None = None,
        mask: Mask = None,
        cache: Cache | None = None,
        note: Note = silent,
    ) -> Tensor:
        tokens = self.along(tokens, 1, self.attention, note, "attention", first=first, mask=mask, cache=cache)
        return note("output", self.along(tokens, 2, self.feed_forward, note, "feed-forward"))


class DecoderBlock(Block):
    """The mechanism ``decoder_layer``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, 3)
        self.cross_attention = Attention(
            config.width, config.heads, attention=config.attention, kernel=config.kernel
        )

    def forward(
        self, tokens: Tensor, memory: Tensor, *, memory_mask: Mask = None, note: Note = silent
    ) -> Tensor:
        tokens = self.along(tokens, 1, self.attention, note, "attention", mask="causal")
        tokens = self.along(
            tokens, 2, self.cross_attention, note, "cross-attention", memory=memory, mask=memory_mask
        )
        return note("output", self.along(tokens, 3, self.feed_forward, note, "feed-forward"))


def block_steps(config: TransformerConfig, layer: object, scope: str) -> tuple[Step, ...]:
    """The cards of a stack's steps, with those of linear attention where that is what runs."""
    steps = steps_of(layer, scope=f"{scope}block *")  # type: ignore[arg-type]
    if config.attention == "linear":
        for name, memory in (("attention", "X"), ("cross-attention", "M")):
            within = f"{scope}block */{name}/"
            if any(s.name.startswith(within) for s in steps):
                steps = tuple(s for s in steps if not s.name.startswith(within))
                steps += steps_of(multi_head_linear_attention, scope=within.removesuffix("/"), memory=memory)
    return steps + (
        steps_of(layer_normalisation, scope=f"{scope}normalisation") if config.ends_normalised else ()
    )


class Encoder(Model):
    """A stack of encoder blocks: vectors in (batch, token, width), as many vectors out.

    With ``first``, only that many come out: the last block then works on no others (what it does with them, nobody
    would read), which saves most of its time. A trace shows all of them, and needs ``first`` to be None.

    >>> encoder = Encoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(encoder(torch.zeros(1, 5, 8)).shape)
    (1, 5, 8)
    """

    slug, config_class, inputs = "encoder", TransformerConfig, (VECTORS,)

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.depth))
        self.normalisation = final(config)

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.steps_in("")

    def steps_in(self, scope: str) -> tuple[Step, ...]:
        return block_steps(self.config, encoder_layer, scope)

    def forward(
        self,
        tokens: Tensor,
        *,
        first: int | None = None,
        mask: Mask = None,
        caches: list[Cache] | None = None,
        note: Note = silent,
    ) -> Tensor:
        self.check_note(note)
        check_vectors(self.config, tokens)
        for i, block in enumerate(self.blocks):
            last = first if i == len(self.blocks) - 1 else None
            cache = None if caches is None else caches[i]
            tokens = block(tokens, first=last, mask=mask, cache=cache, note=inside(note, f"block {i}"))
        return (
            tokens
            if self.normalisation is None
            else self.normalisation(tokens, note=inside(note, "normalisation"))
        )


class Decoder(Model):
    """A stack of decoder blocks: each token sees itself, the tokens before it, and the memory.

    >>> decoder = Decoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(decoder(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape)
    (1, 3, 8)
    """

    slug, config_class = "decoder", TransformerConfig
    inputs = (VECTORS, Input("memory", "M", "batch key width"))

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.depth))
        self.normalisation = final(config)

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.steps_in("")

    def steps_in(self, scope: str) -> tuple[Step, ...]:
        return block_steps(self.config, decoder_layer, scope)

    def forward(
        self, tokens: Tensor, memory: Tensor, *, memory_mask: Mask = None, note: Note = silent
    ) -> Tensor:
        self.check_note(note)
        check_vectors(self.config, tokens)
        check_vectors(self.config, memory)
        for i, block in enumerate(self.blocks):
            tokens = block(tokens, memory, memory_mask=memory_mask, note=inside(note, f"block {i}"))
        return (
            tokens
            if self.normalisation is None
            else self.normalisation(tokens, note=inside(note, "normalisation"))
        )


def final(config: TransformerConfig) -> Normalisation | None:
    if not config.ends_normalised:
        return None
    return Normalisation(config.width, epsilon=config.epsilon, kernel=config.kernel)


def check_vectors(config: TransformerConfig, tokens: Tensor) -> None:
    if tokens.dim() != 3 or tokens.shape[-1] != config.width or 0 in tokens.shape:
        raise InputError(
            f"{config.told}: tokens are {sizes_in_words(tokens.shape, 'batch token width')}. "
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


EMBEDDING = Step("embedding", "E", r"\sqrt{d}\, T_{x}", "token width")


class EncoderDecoder(Model):
    """The transformer as published: source and target tokens in, a score for each next token out.

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
        entry = [replace(EMBEDDING, name=f"{side}/embedding") for side in ("encoder", "decoder")]
        places = [
            s
            for side in ("encoder", "decoder")
            for s in steps_of(learned_positions, scope=f"{side}/positions")
        ]
        scores = Step("scores", "Z", r"Y T^\top", "token word")
        return (
            *entry,
            *places,
            *self.encoder.steps_in("encoder/"),
            *self.decoder.steps_in("decoder/"),
            scores,
        )

    def embedded(self, tokens: Tensor, note: Note) -> Tensor:
        vectors = note("embedding", self.embedding(tokens) * math.sqrt(self.config.width))
        result: Tensor = self.dropout(self.positions(vectors, note=inside(note, "positions")))
        return result

    def encode(self, source: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        check_tokens("source", source, self.config.vocabulary, mask)
        result: Tensor = self.encoder(self.embedded(source, note), mask=key_mask(mask), note=note)
        return result

    def decode(
        self, target: Tensor, memory: Tensor, mask: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """Vectors of the target's tokens; ``mask`` is the source's padding."""
        check_tokens("target", target, self.config.vocabulary)
        result: Tensor = self.decoder(
            self.embedded(target, note), memory, memory_mask=key_mask(mask), note=note
        )
        return result

    def forward(
        self, source: Tensor, target: Tensor, mask: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """Scores (batch, target token, word). ``mask`` has 1 for each source token and 0 for padding."""
        self.check_note(note)
        memory = self.encode(source, mask, note=inside(note, "encoder"))
        vectors = self.decode(target, memory, mask, note=inside(note, "decoder"))
        return note("scores", functional.linear(vectors, self.embedding.table))


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(TransformerConfig):
    """A causal stack over tokens, its output sharing the embedding."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}

    vocabulary: int = 256
    max_length: int = 256
    positions: Where = "learned"
    width: int = 128
    hidden: int = 512
    heads: int = 4
    depth: int = 4
    normalisation: Placement = "pre"
    activation: Activation = "gelu"


class LanguageModel(Model):
    """Scores for the next token after each one, from that token and those before it.

    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 11)
    """

    slug, config_class, inputs = "language", LanguageModelConfig, (TOKENS,)

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__(config)
        self.embedding = TokenEmbedding(config.vocabulary, config.width)
        self.positions = Positions(config.positions, config.max_length, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Encoder(config)

    @property
    def steps(self) -> tuple[Step, ...]:
        embedding = Step("embedding", "E", r"T_{x}", "token width")
        scores = Step("scores", "Z", r"Y T^\top", "token word")
        return (embedding, *steps_of(learned_positions, scope="positions"), *self.transformer.steps, scores)

    def forward(self, tokens: Tensor, *, caches: list[Cache] | None = None, note: Note = silent) -> Tensor:
        """Scores (batch, token, word). With ``caches`` the tokens go on from those seen before."""
        self.check_note(note)
        check_tokens(type(self).__name__, tokens, self.config.vocabulary)
        start = caches[0]["key"].shape[-3] if caches and "key" in caches[0] else 0
        vectors = note("embedding", self.embedding(tokens))
        vectors = self.dropout(self.positions(vectors, start=start, note=inside(note, "positions")))
        vectors = self.transformer(vectors, mask="causal", caches=caches, note=note)
        return note("scores", functional.linear(vectors, self.embedding.table))

    @torch.no_grad()
    def generate(
        self,
        tokens: Tensor,
        count: int,
        *,
        temperature: float = 0.0,
        cached: bool = True,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The tokens with ``count`` more after them: the likeliest each time, or drawn where temperature is above 0.

        >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
        >>> tuple(model.generate(torch.tensor([[1, 2, 3]]), 4).shape)
        (1, 7)
        """
        check_tokens(type(self).__name__, tokens, self.config.vocabulary)
        if count < 0 or temperature < 0:
            raise InputError(f"generate: count {count}, temperature {temperature}. Neither may be negative.")
        if tokens.shape[1] + count > self.config.max_length:
            raise InputError(
                f"generate: {tokens.shape[1]} tokens and {count} more, but there are positions for "
                f"{self.config.max_length}. Ask for fewer, or start from a shorter text."
            )
        training = self.training
        self.eval()
        caches: list[Cache] | None = [{} for _ in self.transformer.blocks] if cached else None
        new = tokens
        for _ in range(count):
            scores = self(new if cached else tokens, caches=caches)[:, -1]
            new = chosen(scores, temperature, generator)
            tokens = torch.cat([tokens, new], 1)
        self.train(training)
        return tokens


def chosen(scores: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """One token a row: the likeliest at temperature 0, else drawn from softmax(scores / temperature)."""
    if temperature == 0:
        return scores.argmax(-1, keepdim=True)
    return torch.multinomial((scores / temperature).softmax(-1), 1, generator=generator)
