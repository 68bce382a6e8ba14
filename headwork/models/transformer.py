"""Encoder, decoder, and both together (``mechanisms.transformer``)."""

from typing import Any

from torch import Tensor

from headwork.errors import InputError, sizes_in_words
from headwork.mechanisms.attention import Mask
from headwork.models.model import Model, check_tokens
from headwork.note import Note, silent


class Encoder(Model):
    """A stack of encoder blocks: vectors in (batch, token, width), as many vectors out.

    With ``num_outputs``, only that many come out: the last block does not compute the others.

    >>> import torch; from headwork.models import TransformerConfig
    >>> encoder = Encoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(encoder(torch.zeros(1, 5, 8)).shape)
    (1, 5, 8)
    """

    def forward(
        self, tokens: Tensor, *, num_outputs: int | None = None, mask: Mask = None, note: Note = silent
    ) -> Tensor:
        check_vectors(self.config, tokens)
        self.check_note(note)
        return self.run(tokens, num_outputs=num_outputs, mask=mask, note=note)


class Decoder(Model):
    """A stack of decoder blocks: each token attends to itself, the tokens before it, and the memory.

    >>> import torch; from headwork.models import TransformerConfig
    >>> decoder = Decoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(decoder(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape)
    (1, 3, 8)
    """

    def forward(
        self, tokens: Tensor, memory: Tensor, *, memory_mask: Mask = None, note: Note = silent
    ) -> Tensor:
        check_vectors(self.config, tokens)
        check_vectors(self.config, memory)
        self.check_note(note)
        return self.run(tokens, memory, memory_mask=memory_mask, note=note)


def check_vectors(config: Any, tokens: Tensor) -> None:
    if tokens.dim() != 3 or tokens.shape[-1] != config.width or 0 in tokens.shape:
        raise InputError(
            f"{type(config).__name__}: tokens are {sizes_in_words(tokens.shape, 'batch token width')}. "
            f"Expected batch x token x {config.width}, none of them empty."
        )


class EncoderDecoder(Model):
    """The transformer as published: source and target tokens in, a score for each next token out.

    >>> import torch; from headwork.models import EncoderDecoderConfig
    >>> model = EncoderDecoder(EncoderDecoderConfig(width=8, hidden=16, heads=2, depth=1, vocabulary=11))
    >>> tokens = torch.tensor([[1, 2, 3]])
    >>> tuple(model(tokens, tokens).shape)
    (1, 3, 11)
    """

    def forward(
        self, source: Tensor, target: Tensor, mask: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """Scores (batch, target token, word). ``mask`` has 1 for each source token and 0 for padding."""
        check_tokens("source", source, self.config.vocabulary, mask)
        check_tokens("target", target, self.config.vocabulary)
        self.check_note(note)
        return self.run(source, target, mask, note=note)
