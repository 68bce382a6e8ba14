"""Encoder, decoder, and both together (``mechanisms.transformer``)."""

from torch import Tensor

from headwork.mechanisms.attention import Mask
from headwork.models.model import Model
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
        self.check(tokens, note=note)
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
        self.check(tokens, memory, note=note)
        return self.run(tokens, memory, memory_mask=memory_mask, note=note)


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
        self.check(source, target, mask, note=note)
        return self.run(source, target, mask, note=note)
