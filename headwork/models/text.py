"""Texts: an encoder of tokens, and a classifier on any encoder (``mechanisms.texts``).

A mask has 1 for tokens, 0 for padding. The rows of n-grams and the words left out in training are chosen
here: they are whole numbers, drawn or hashed, not part of what is computed.
"""

from dataclasses import asdict
from typing import Literal, Self

import torch
from torch import Tensor
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms.configs import TextClassifierConfig
from headwork.mechanisms.texts import hash_pair
from headwork.models.model import Model
from headwork.note import Note, silent


class TextEncoder(Model):
    """Tokens (batch, token) in, one vector per token out.

    >>> import torch; from headwork.models import TextEncoderConfig
    >>> model = TextEncoder(TextEncoderConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 8)
    """

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, types: Tensor | None = None, *, note: Note = silent
    ) -> Tensor:
        """``types`` (batch, token) default to 0."""
        self.check(tokens, mask, note=note)
        return self.run(tokens, mask, types, note=note)


class TextClassifier(Model):
    """Tokens (batch, token) in, a logit for each class out.

    >>> import torch
    >>> model = TextClassifier(TextClassifierConfig(width=8, hidden=16, heads=2, depth=1, encoder="lstm"))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 2)
    """

    def __init__(self, config: TextClassifierConfig, encoder: TextEncoder | None = None) -> None:
        super().__init__(config, **({} if encoder is None else {"encoder": encoder}))

    @classmethod
    def on(cls, encoder: TextEncoder, *, classes: int, pooling: Literal["mean", "first"] = "mean") -> Self:
        """A classifier on an encoder that is there already, such as a pretrained one (shared, not copied)."""
        if not isinstance(encoder, TextEncoder):
            raise InputError(
                f"classifier on {type(encoder).__name__}: expected a TextEncoder, such as a loaded one."
            )
        fields = {**asdict(encoder.config), "classes": classes, "pooling": pooling}
        return cls(TextClassifierConfig(**fields), encoder)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        """``mask`` has 1 for each token and 0 for padding."""
        self.check(tokens, mask, note=note)
        drop_rate = self.config.word_dropout if self.training else 0.0
        kept = random_positions(tokens, mask, 1 - drop_rate) if drop_rate else None
        return self.run(tokens, mask, ngrams=self.ngrams_of(tokens, mask), kept_positions=kept, note=note)

    def ngrams_of(self, tokens: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor] | None:
        """The rows (batch, token, 3) of each token's n-grams, and whether each is the first of its text."""
        if self.ngrams is None:
            return None
        ngram_rows = hashed_ngram_rows(tokens, mask, self.config)
        counted = ngram_rows if mask is None else ngram_rows.where(mask[..., None] != 0, -1)
        new = first_occurrence(counted.flatten(1)).view_as(ngram_rows)
        return ngram_rows, new if mask is None else new & (mask[..., None] != 0)


def hashed_ngram_rows(tokens: Tensor, mask: Tensor | None, config: TextClassifierConfig) -> Tensor:
    """The rows (batch, token, 3) of each token, and of the pair and the triple that it ends, by hashing."""
    tokens = tokens.long()  # products below need 64 bits
    real = tokens if mask is None else tokens * (mask != 0)
    before, earlier = (functional.pad(real, (back, 0))[:, : tokens.shape[1]] for back in (1, 2))
    alone = torch.full_like(tokens, config.vocabulary)
    hashes = [hash_pair(first, tokens) for first in (alone, before, hash_pair(earlier, before))]
    return torch.stack(hashes, -1) % config.ngrams


INDEX_BASE = 2**30  # more than a text has n-grams


def first_occurrence(ngram_rows: Tensor) -> Tensor:
    """Whether a number occurs for the first time in its row.

    >>> import torch
    >>> first_occurrence(torch.tensor([[7, 5, 7, 7]])).tolist()
    [[True, True, False, False]]
    """
    # Each with its index, so that equal ones are sorted by index; exported graphs have no stable sort.
    ordered = ngram_rows * INDEX_BASE + torch.arange(ngram_rows.shape[-1], device=ngram_rows.device)
    ordered = ordered.sort().values
    number, index = ordered // INDEX_BASE, ordered % INDEX_BASE
    new = functional.pad(number[:, 1:] != number[:, :-1], (1, 0), value=True)
    return torch.zeros_like(new).scatter(-1, index, new)


def random_positions(tokens: Tensor, mask: Tensor | None, keep_rate: float) -> Tensor:
    """Positions (batch, position) of a random share of the tokens, in order: always the first, padding last.

    >>> import torch
    >>> random_positions(torch.ones(1, 4), torch.tensor([[1, 1, 0, 0]]), 0.5).tolist()
    [[0, 1]]
    """
    priority = torch.rand(tokens.shape, device=tokens.device)
    priority[:, 0] = -1
    if mask is not None:
        priority = priority.masked_fill(mask == 0, 2)
    return priority.argsort(1)[:, : max(1, round(keep_rate * tokens.shape[1]))].sort(1).values
