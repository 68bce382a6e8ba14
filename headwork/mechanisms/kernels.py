"""What the body of a model calls: one method for each of its parts, on its node of the tree of parameters.

``PLAIN`` are the mechanisms themselves, for every kind of tensor; their steps can be noted. ``fused.FUSED``
are their fast twins, which keep no steps. So a model has one body under both. Dropout is a kernel, too: the
identity unless a model trains.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from headwork.mechanisms import parameters as trees
from headwork.mechanisms.attention import Tensor, add_bias, multi_head_attention, project
from headwork.mechanisms.convolution import convolution_1d, convolution_2d, max_pooling
from headwork.mechanisms.feedforward import feed_forward, relu
from headwork.mechanisms.linear import multi_head_linear_attention
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.mechanisms.recurrence import gru, lstm, recurrent_states
from headwork.note import Note, inside, silent
from headwork.numbers import stack

CellKind = Literal["plain", "lstm", "gru"]
AttentionKind = Literal["softmax", "linear"]
Drop = Callable[[Tensor], Tensor]
Layers = dict[Callable[..., Tensor], Callable[..., Tensor]]


def no_dropout(value: Tensor) -> Tensor:
    """The value as it is: what a kernel does for dropout unless a model trains."""
    return value


class Kernels:
    """The mechanisms on nodes of parameters; a subclass may replace them by twins that know no ``note``."""

    skips_unread_tokens = False  # whether the last block computes only what is read
    layers: ClassVar[Layers] = {}  # twins of whole layers
    parts: ClassVar[dict[str, Callable[..., Tensor]]] = {
        "softmax": multi_head_attention,
        "linear": multi_head_linear_attention,
        "feed-forward": feed_forward,
        "normalisation": layer_normalisation,
        "convolution 1d": convolution_1d,
        "convolution 2d": convolution_2d,
        "relu": relu,
        "pooling": max_pooling,
    }

    def __init__(self, kind: AttentionKind = "softmax", drop: Drop = no_dropout) -> None:
        self.kind, self.drop = kind, drop

    def with_attention(self, kind: AttentionKind) -> "Kernels":
        """These kernels, with the attention of a config."""
        return self if kind == self.kind else type(self)(kind, self.drop)

    def note_keyword(self, note: Note) -> dict[str, Any]:
        """The keyword by which a mechanism gets the note; twins have none."""
        return {"note": note}

    def attention(
        self,
        tokens: Tensor,
        p: trees.AttentionParameters,
        memory: Tensor = None,
        *,
        note: Note = silent,
        **options: Any,
    ) -> Tensor:
        matrices, biases = (p.W_q, p.W_k, p.W_v, p.W_o), (p.b_q, p.b_k, p.b_v, p.b_o)
        return self.parts[self.kind](tokens, *matrices, memory, *biases, **options, **self.note_keyword(note))

    def feed_forward(
        self, tokens: Tensor, p: trees.FeedForwardParameters, *, note: Note = silent, **options: Any
    ) -> Tensor:
        return self.parts["feed-forward"](
            tokens, p.W_1, p.W_2, p.b_1, p.b_2, **options, **self.note_keyword(note)
        )

    def normalisation(
        self, tokens: Tensor, p: trees.NormalisationParameters, *, note: Note = silent, **options: Any
    ) -> Tensor:
        return self.parts["normalisation"](tokens, p.scale, p.shift, **options, **self.note_keyword(note))

    def convolution(self, signal: Tensor, p: trees.ConvolutionParameters, *, note: Note = silent) -> Tensor:
        """Along one axis or two, the size kept by padding; then ReLU."""
        convolve = self.parts[f"convolution {len(p.filters.shape) - 2}d"]
        padding, scoped = p.filters.shape[-1] // 2, self.note_keyword(inside(note, "convolution"))
        maps = convolve(signal, p.filters, p.bias, padding=padding, **scoped)
        return self.parts["relu"](maps, **self.note_keyword(note))

    def max_pooling(self, maps: Tensor, *, size: int, note: Note = silent) -> Tensor:
        return self.parts["pooling"](maps, size=size, **self.note_keyword(note))

    def patch_embedding(
        self, images: Tensor, p: trees.ConvolutionParameters, *, note: Note = silent
    ) -> Tensor:
        """One token per patch: a convolution whose stride is its size."""
        size, scoped = p.filters.shape[-1], inside(note, "convolution")
        maps = convolution_2d(images, p.filters, p.bias, stride=size, note=scoped)
        return note("tokens", maps.reshape(*maps.shape[:-2], maps.shape[-2] * maps.shape[-1]).mT)

    def recurrent(
        self, inputs: Tensor, p: trees.RecurrentParameters, *, cell: CellKind, note: Note = silent
    ) -> Tensor:
        """The state after each step (batch, time, state)."""
        if cell == "gru":
            return gru(inputs, p.W_x, p.W_h, p.b_x, p.b_h, note=note)
        if cell == "lstm":
            return lstm(inputs, p.W_x, p.W_h, p.bias, note=note)
        *states, last = recurrent_states(inputs, p.W_x, p.W_h, p.bias, None, "tanh", note)
        return stack([*states, note("output", last)], -2)

    def linear(self, rows: Tensor, matrix: Tensor, bias: Tensor = None) -> Tensor:
        """W x + b for each row."""
        product = project(rows.unsqueeze(-2), matrix, "the matrix").squeeze(-2)
        return add_bias(product, bias, "the bias")

    def look_up(self, table: Tensor, numbers: Tensor) -> Tensor:
        """The rows of a table by their numbers."""
        return table[numbers]


PLAIN = Kernels()
