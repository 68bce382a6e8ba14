"""A causal language model: encoder blocks in which each token attends to itself and those before it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms import learned_positions
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.layers import Placement
from headwork.models.layers import EMBEDDING, Cache, PositionKind, Positions, TokenEmbedding
from headwork.models.model import TOKENS, Model, check_tokens
from headwork.models.transformer import Encoder, TransformerConfig
from headwork.note import Note, Step, inside, silent, steps_of


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(TransformerConfig):
    """A causal stack over tokens, its output sharing the embedding."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}

    vocabulary: int = 256
    max_length: int = 256
    positions: PositionKind = "learned"
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
        scores = Step("scores", "Z", r"Y T^\top", "token word")
        return (EMBEDDING, *steps_of(learned_positions, scope="positions"), *self.transformer.steps, scores)

    def forward(self, tokens: Tensor, *, caches: list[Cache] | None = None, note: Note = silent) -> Tensor:
        """Scores (batch, token, word). With ``caches`` the tokens continue those of earlier calls."""
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
        """The tokens followed by ``count`` more: the likeliest each time, or drawn if temperature is above 0.

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
            new = next_tokens(scores, temperature, generator)
            tokens = torch.cat([tokens, new], 1)
        self.train(training)
        return tokens


def next_tokens(scores: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    """One token per row: the likeliest at temperature 0, else drawn from softmax(scores / temperature)."""
    if temperature == 0:
        return scores.argmax(-1, keepdim=True)
    return torch.multinomial((scores / temperature).softmax(-1), 1, generator=generator)
