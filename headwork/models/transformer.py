"""Encoder, decoder, both together, and a causal language model (``mechanisms.transformer``)."""

import re
from typing import Any

import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.mechanisms.attention import Mask
from headwork.mechanisms.fused import FusedKernels
from headwork.mechanisms.kernels import Kernels
from headwork.models.model import Model
from headwork.note import Note, silent

Cache = dict[str, Tensor]
CACHED_STEP = re.compile(r"block (\d+)/attention/(key|value)")


class Encoder(Model):
    """A stack of encoder blocks: vectors in (batch, token, width), as many vectors out.

    With ``output_tokens``, only that many come out: the last block does not compute the others.

    >>> import torch; from headwork.models import TransformerConfig
    >>> encoder = Encoder(TransformerConfig(width=8, hidden=16, heads=2, depth=1))
    >>> tuple(encoder(torch.zeros(1, 5, 8)).shape)
    (1, 5, 8)
    """

    def forward(
        self, tokens: Tensor, *, output_tokens: int | None = None, mask: Mask = None, note: Note = silent
    ) -> Tensor:
        self.check(tokens, note=note)
        return self.run(tokens, output_tokens=output_tokens, mask=mask, note=note)


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


# --- text token by token ----------------------------------------------------------------------
def note_with_caches(note: Note, caches: list[Cache]) -> Note:
    """A note that puts the keys and values of earlier tokens before the new ones, and caches these too.

    A key-value cache is one more reading of attention: the mechanism continues with what the note returns.
    """

    def remember(path: str, value: Any, /) -> Any:
        if cached := CACHED_STEP.fullmatch(path):
            cache, name = caches[int(cached[1])], cached[2]
            value = torch.cat([cache[name], value], -3) if name in cache else value
            cache[name] = value
        return note(path, value)

    return remember


class CachingKernels(FusedKernels):
    """With a cache there is one query at a time, nothing to fuse; plain attention notes keys and values."""

    def attention(self, *inputs: Any, **options: Any) -> Tensor:
        result: Tensor = Kernels(self.attention_kind, note=self.note).attention(*inputs, **options)
        return result


class LanguageModel(Model):
    """Scores for the next token after each one, from that token and those before it.

    >>> from headwork.models import LanguageModelConfig
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
    >>> tuple(model(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 11)
    """

    def forward(self, tokens: Tensor, *, caches: list[Cache] | None = None, note: Note = silent) -> Tensor:
        """Scores (batch, token, word). With ``caches`` the tokens continue those of earlier calls."""
        self.check(tokens, note=note)
        if caches is None:
            return self.run(tokens, note=note)
        start = caches[0]["key"].shape[-3] if caches and "key" in caches[0] else 0
        return self.run(
            tokens, start=start, note=note_with_caches(note, caches), kernels_class=CachingKernels
        )

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

        >>> from headwork.models import LanguageModelConfig
        >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
        >>> tuple(model.generate(torch.tensor([[1, 2, 3]]), 4).shape)
        (1, 7)
        """
        self.check(tokens)
        if count < 0 or temperature < 0:
            raise InputError(f"generate: count {count}, temperature {temperature}. Neither may be negative.")
        if tokens.shape[1] + count > self.config.max_length:
            most = self.config.max_length
            raise InputError(
                f"generate: {tokens.shape[1]} tokens and {count} more, but there are positions for {most}. "
                "Ask for fewer, or start from a shorter text."
            )
        training = self.training
        self.eval()
        caches: list[Cache] | None = [{} for _ in range(self.config.depth)] if cached else None
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
