"""Recurrent classifiers: plain, LSTM or GRU, in one direction or both; an image is read row by row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.mechanisms import fused, gru, lstm, recurrence
from headwork.models.layers import ClassifierHead, Layer, matrix, zeros
from headwork.models.model import IMAGES, Backend, Config, Model, check_images
from headwork.note import Note, Step, inside, silent, steps_of

Cell = Literal["plain", "lstm", "gru"]
CELLS: dict[str, Cell] = {"lstm": "lstm", "gru": "gru", "rnn": "plain"}
GATES = {"plain": 1, "lstm": 4, "gru": 3}
MECHANISM: dict[str, Callable[..., Tensor]] = {"plain": recurrence, "lstm": lstm, "gru": gru}


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(Config):
    """``width`` states in each direction."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"image": "image_size"}

    image_size: int = 28
    channels: int = 1
    classes: int = 10
    cell: Cell = "lstm"
    bidirectional: bool = False
    width: int = 200


class DirectedRecurrence(Layer):
    """One direction: ``W_x``, ``W_h``, each gate's rows below the other, and biases."""

    def __init__(self, inputs: int, width: int, *, cell: Cell, backend: Backend = "plain") -> None:
        super().__init__()
        self.cell, self.backend = cell, backend
        rows = GATES[cell] * width
        self.W_x, self.W_h = matrix(rows, inputs), matrix(rows, width)
        if cell == "gru":
            self.b_x, self.b_h = zeros(rows), zeros(rows)
        else:
            self.bias = zeros(rows)

    def forward(self, inputs: Tensor, *, note: Note = silent) -> Tensor:
        """The state after each step (batch, time, state)."""
        biases = (self.b_x, self.b_h) if self.cell == "gru" else (self.bias,)
        # The compiler takes the unrolled steps, but not torch's own recurrent kernels.
        if self.backend == "fused" and not torch.compiler.is_compiling():
            return fused.recurrent(inputs, self.W_x, self.W_h, *biases, cell=self.cell)
        if self.cell == "plain":
            return self._plain_states(inputs, note)
        return MECHANISM[self.cell](inputs, self.W_x, self.W_h, *biases, note=note)

    def _plain_states(self, inputs: Tensor, note: Note) -> Tensor:
        """The mechanism gives its last state; the others are in its notes."""
        states = []

        def collect(name: str, value: Any, /) -> Any:
            value = note(name, value)
            if name.endswith("/state"):
                states.append(value)
            return value

        recurrence(inputs, self.W_x, self.W_h, bias=self.bias, activation="tanh", note=collect)
        return torch.stack(states, -2)


class RecurrentLayer(Layer):
    """One direction or both, side by side: (batch, time, width) in, (batch, time, states) out."""

    def __init__(
        self, inputs: int, width: int, *, cell: Cell, bidirectional: bool = False, backend: Backend = "plain"
    ) -> None:
        super().__init__()
        self.forwards = DirectedRecurrence(inputs, width, cell=cell, backend=backend)
        self.backwards = (
            DirectedRecurrence(inputs, width, cell=cell, backend=backend) if bidirectional else None
        )
        self.output_width = width * (2 if bidirectional else 1)

    @property
    def steps(self) -> tuple[Step, ...]:
        sides = ["forwards"] if self.backwards is None else ["forwards", "backwards"]
        return tuple(s for side in sides for s in steps_of(MECHANISM[self.forwards.cell], scope=side))

    def forward(self, inputs: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        """``mask`` has 1 for each step and 0 for the padding after the last."""
        check_padding(mask)
        onward = self.forwards(inputs, note=inside(note, "forwards"))
        if self.backwards is None:
            return onward
        order = reversed_order(inputs.shape[1], mask, inputs)
        back = self.backwards(gather(inputs, order), note=inside(note, "backwards"))
        return torch.cat([onward, gather(back, order)], -1)


def check_padding(mask: Tensor | None) -> None:
    if mask is None or torch.compiler.is_compiling() or mask.is_meta:
        return
    if bool(((mask[:, 1:] != 0) & (mask[:, :-1] == 0)).any()):
        raise InputError(
            "a recurrent model reads from left to right: put the padding after the tokens, not before."
        )


def reversed_order(count: int, mask: Tensor | None, like: Tensor) -> Tensor:
    """For each row the positions from last to first; padding stays where it is. It is its own inverse."""
    positions = torch.arange(count, device=like.device).expand(like.shape[0], count)
    if mask is None:
        return count - 1 - positions
    lengths = (mask != 0).sum(-1, keepdim=True)
    return torch.where(positions < lengths, lengths - 1 - positions, positions)


def gather(rows: Tensor, order: Tensor) -> Tensor:
    return rows.gather(1, order.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


class RecurrentClassifier(Model):
    """Images (batch, channel, height, width), read row by row, in; a logit for each class out.

    >>> model = RecurrentClassifier(RecurrentConfig(width=4, cell="gru", bidirectional=True))
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape)
    (2, 10)
    """

    slug, config_class, inputs = "recurrent", RecurrentConfig, (IMAGES,)
    task, architectures = "vision", {name: {"cell": cell} for name, cell in CELLS.items()}

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.recurrent = RecurrentLayer(
            config.channels * config.image_size,
            config.width,
            cell=config.cell,
            bidirectional=config.bidirectional,
            backend=config.backend,
        )
        self.head = ClassifierHead(self.recurrent.output_width, config.classes)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (
            *self.recurrent.steps,
            Step("pooled", "p", r"\text{the state after the last row read}", "state"),
            Step("scores", "z", r"W p + b", "class"),
        )

    def forward(self, images: Tensor, *, note: Note = silent) -> Tensor:
        self.check_note(note)
        check_images(type(self).__name__, images, self.config.channels, self.config.image_size)
        rows = images.transpose(1, 2).flatten(2)
        states = self.recurrent(rows, note=note)
        last = states[:, -1, : self.config.width]
        # Backwards, the row read last is the first.
        pooled = torch.cat([last, states[:, 0, self.config.width :]], -1)
        return note("scores", self.head(note("pooled", pooled)))
