"""Layers: parameters around one mechanism each, under the plain or the fused kernel."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms import (
    feed_forward,
    fused,
    layer_normalisation,
    learned_positions,
    multi_head_attention,
    multi_head_linear_attention,
    sinusoidal_positions,
)
from headwork.mechanisms.attention import Mask
from headwork.mechanisms.feedforward import Activation
from headwork.models.model import AttentionKind, Backend
from headwork.note import Note, Step, silent

PositionKind = Literal["learned", "sinusoidal"]
Cache = dict[str, Tensor]

EMBEDDING = Step("embedding", "E", r"T_{x}", "token width")


class Layer(nn.Module):
    """A module that gives one tensor; nn.Module itself promises nothing."""

    __call__: Callable[..., Tensor]


def matrix(*shape: int) -> nn.Parameter:
    """Uniform within sqrt(6 / (rows + columns)) (Glorot & Bengio 2010)."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(*shape)))


def zeros(width: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(width))


class Normalisation(Layer):
    """Layer normalisation: ``scale`` and ``shift``."""

    def __init__(self, width: int, *, epsilon: float = 1e-5, backend: Backend = "plain") -> None:
        super().__init__()
        self.epsilon, self.backend = epsilon, backend
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = zeros(width)

    def forward(self, tokens: Tensor, *, note: Note = silent) -> Tensor:
        if self.backend == "fused":
            return fused.layer_normalisation(tokens, self.scale, self.shift, epsilon=self.epsilon)
        result: Tensor = layer_normalisation(tokens, self.scale, self.shift, epsilon=self.epsilon, note=note)
        return result


class Attention(nn.Module):
    """Several heads: ``W_q``, ``W_k``, ``W_v``, ``W_o``, applied as W x, each with its bias."""

    def __init__(
        self, width: int, heads: int, *, attention: AttentionKind = "softmax", backend: Backend = "plain"
    ) -> None:
        super().__init__()
        if width % heads:
            raise InputError(
                f"width {width} cannot be cut into {heads} heads of one size. "
                f"Choose a number of heads that divides {width}."
            )
        self.heads, self.attention, self.backend = heads, attention, backend
        self.W_q, self.W_k, self.W_v, self.W_o = (matrix(width, width) for _ in range(4))
        self.b_q, self.b_k, self.b_v, self.b_o = (zeros(width) for _ in range(4))

    def forward(
        self,
        tokens: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask = None,
        cache: Cache | None = None,
        note: Note = silent,
    ) -> Tensor:
        matrices, biases = (self.W_q, self.W_k, self.W_v, self.W_o), (self.b_q, self.b_k, self.b_v, self.b_o)
        inputs = (tokens, *matrices, memory, *biases)
        # With a cache there is one query at a time and nothing to fuse.
        if self.backend == "fused" and cache is None:
            return fused.multi_head_attention(*inputs, heads=self.heads, mask=mask, kind=self.attention)
        plain = multi_head_linear_attention if self.attention == "linear" else multi_head_attention
        note = note if cache is None else note_with_cache(note, cache)
        result: Tensor = plain(*inputs, heads=self.heads, mask=mask, note=note)
        return result


def note_with_cache(note: Note, cache: Cache) -> Note:
    """A note that puts the keys and values of earlier tokens before the new ones, and caches these too.

    A key-value cache is one more reading of attention: the mechanism continues with what the note returns.
    """

    def remember(name: str, value: Tensor, /) -> Tensor:
        if name in ("key", "value"):
            value = torch.cat([cache[name], value], -3) if name in cache else value
            cache[name] = value
        return note(name, value)

    return remember  # type: ignore[return-value]


class FeedForward(nn.Module):
    """``W_1`` and ``W_2``, applied as x W, each with its bias."""

    def __init__(
        self, width: int, hidden: int, *, activation: Activation = "relu", backend: Backend = "plain"
    ) -> None:
        super().__init__()
        self.activation, self.backend = activation, backend
        self.W_1, self.b_1 = matrix(width, hidden), zeros(hidden)
        self.W_2, self.b_2 = matrix(hidden, width), zeros(width)

    def forward(self, tokens: Tensor, *, note: Note = silent) -> Tensor:
        inputs = (tokens, self.W_1, self.W_2, self.b_1, self.b_2)
        if self.backend == "fused":
            return fused.feed_forward(*inputs, activation=self.activation)
        result: Tensor = feed_forward(*inputs, activation=self.activation, note=note)
        return result


class ClassifierHead(Layer):
    """From a vector to one logit per class: ``matrix``, applied as W x, and ``bias``."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.matrix, self.bias = matrix(classes, width), zeros(classes)

    def forward(self, rows: Tensor) -> Tensor:
        return functional.linear(rows, self.matrix, self.bias)


class TokenEmbedding(nn.Module):
    """One learned row per token: ``table``."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width) / math.sqrt(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return functional.embedding(tokens, self.table)


class Positions(Layer):
    """Adds to each token the row of its position: a learned ``table``, or sinusoids."""

    table: Tensor

    def __init__(self, kind: PositionKind, max_length: int, width: int) -> None:
        super().__init__()
        if kind == "learned":
            self.table = nn.Parameter(0.02 * torch.randn(max_length, width))
        else:
            positions = torch.arange(max_length, dtype=torch.float64)
            rows = sinusoidal_positions(positions, width=width).to(torch.get_default_dtype())
            self.register_buffer("table", rows, persistent=False)

    def forward(self, tokens: Tensor, *, start: int = 0, note: Note = silent) -> Tensor:
        end = start + tokens.shape[-2]
        if end > self.table.shape[0]:
            raise InputError(
                f"a sequence of {end} tokens, but there are positions for {self.table.shape[0]}. "
                "Shorten it, or build the model with a larger 'max_length'."
            )
        result: Tensor = learned_positions(tokens, self.table[start:], note=note)
        return result
