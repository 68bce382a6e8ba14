"""What the body of a model calls: one method for each of its parts, on its node of the tree of parameters.

``PLAIN`` are the mechanisms themselves, for every kind of tensor; their steps can be noted. ``fused.FUSED``
are their fast twins, which keep no steps. So a model has one body under both. Dropout is a kernel, too: the
identity unless a model trains.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

from headwork.mechanisms import parameters as params
from headwork.mechanisms.attention import Tensor, add_bias, multi_head_attention, project
from headwork.mechanisms.convolution import convolution_1d, convolution_2d, max_pooling
from headwork.mechanisms.feedforward import feed_forward, relu
from headwork.mechanisms.linear import multi_head_linear_attention
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.mechanisms.recurrence import gru, lstm, recurrent_states
from headwork.note import Note, inside, silent
from headwork.numbers import stack

CellKind = Literal["plain", "lstm", "gru"]  # "plain" is the vanilla (Elman) RNN, as saved configs say it
AttentionKind = Literal["softmax", "linear"]
Drop = Callable[[Tensor], Tensor]
Twins = dict[Callable[..., Tensor], Callable[..., Tensor]]


def no_dropout(value: Tensor) -> Tensor:
    """The value as it is: what a kernel does for dropout unless a model trains."""
    return value


class Kernels:
    """The mechanisms on nodes of parameters, their steps noted by ``note``, in its scope.

    A subclass may replace them by twins: fused versions, which record no steps.
    """

    skips_unused_outputs = False  # whether the last block computes only what is read
    twins: ClassVar[Twins] = {}  # of mechanisms, up to whole layers

    def __init__(
        self, attention_kind: AttentionKind = "softmax", drop: Drop = no_dropout, note: Note = silent
    ) -> None:
        self.attention_kind, self.drop, self.note = attention_kind, drop, note

    def with_attention(self, kind: AttentionKind) -> Self:
        """These kernels, with the attention of a config."""
        return self if kind == self.attention_kind else type(self)(kind, self.drop, self.note)

    def with_note(self, note: Note) -> Self:
        """These kernels, noting steps by another note."""
        return self if note is self.note else type(self)(self.attention_kind, self.drop, note)

    def inside(self, scope: str) -> Self:
        """These kernels, noting steps inside a scope."""
        return self.with_note(inside(self.note, scope))

    def call(self, mechanism: Callable[..., Tensor], *inputs: Any, **options: Any) -> Tensor:
        """A mechanism, or its twin, which takes no note."""
        twin = self.twins.get(mechanism)
        return mechanism(*inputs, **options, note=self.note) if twin is None else twin(*inputs, **options)

    def attention(
        self, tokens: Tensor, p: params.AttentionParameters, memory: Tensor = None, **options: Any
    ) -> Tensor:
        attend = multi_head_attention if self.attention_kind == "softmax" else multi_head_linear_attention
        return self.call(attend, tokens, p, memory, **options)

    def feed_forward(self, tokens: Tensor, p: params.FeedForwardParameters, **options: Any) -> Tensor:
        return self.call(feed_forward, tokens, p.W_1, p.W_2, p.b_1, p.b_2, **options)

    def normalisation(self, tokens: Tensor, p: params.NormalisationParameters, **options: Any) -> Tensor:
        return self.call(layer_normalisation, tokens, p.scale, p.shift, **options)

    def convolution_relu(self, signal: Tensor, p: params.ConvolutionParameters) -> Tensor:
        """Along one axis or two, the size kept by padding; then ReLU."""
        convolve = convolution_1d if len(p.filters.shape) == 3 else convolution_2d
        padding = p.filters.shape[-1] // 2
        maps = self.inside("convolution").call(convolve, signal, p.filters, p.bias, padding=padding)
        return self.call(relu, maps)

    def max_pooling(self, maps: Tensor, *, size: int) -> Tensor:
        return self.call(max_pooling, maps, size=size)

    def patch_embedding(self, images: Tensor, p: params.ConvolutionParameters) -> Tensor:
        """One token per patch: a convolution whose stride is its size."""
        size, scoped = p.filters.shape[-1], inside(self.note, "convolution")
        maps = convolution_2d(images, p.filters, p.bias, stride=size, note=scoped)
        return self.note("tokens", maps.reshape(*maps.shape[:-2], maps.shape[-2] * maps.shape[-1]).mT)

    def recurrent(self, inputs: Tensor, p: params.RecurrentParameters, *, cell: CellKind) -> Tensor:
        """The state after each step (batch, time, state)."""
        if cell == "gru":
            return gru(inputs, p.W_x, p.W_h, p.b_x, p.b_h, note=self.note)
        if cell == "lstm":
            return lstm(inputs, p.W_x, p.W_h, p.bias, note=self.note)
        *states, last = recurrent_states(inputs, p.W_x, p.W_h, p.bias, None, "tanh", self.note)
        return stack([*states, self.note("output", last)], -2)

    def linear(self, rows: Tensor, matrix: Tensor, bias: Tensor = None) -> Tensor:
        """W x + b for each row."""
        product = project(rows.unsqueeze(-2), matrix, "the matrix").squeeze(-2)
        return add_bias(product, bias, "the bias")

    def embed(self, table: Tensor, indices: Tensor) -> Tensor:
        """The rows of a table by their indices."""
        return table[indices]


PLAIN = Kernels()
