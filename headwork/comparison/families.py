"""The families, and how to build models of them with equally many parameters, within 5%.

One size is free in each model: its width, or in a transformer the hidden width of the feed-forward layers. It
is chosen so that the number of parameters comes as close to the target as possible. Task, data, steps, batch
size and learning rate are the same for all families, so that only the architecture differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from headwork.errors import InputError
from headwork.models import Model, registry
from headwork.models.recurrent import CELLS, Cell

TOLERANCE = 0.05  # relative, of the number of parameters
HEADS = 4
Kind = Literal["convolution", "recurrence", "attention"]
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Family:
    """A family: its short name, its description, its kind, and its line in a plot."""

    name: str
    description: str
    kind: Kind
    color: str
    marker: str
    linestyle: str

    @property
    def style(self) -> dict[str, Any]:
        return {"color": self.color, "marker": self.marker, "linestyle": self.linestyle}

    @property
    def cell(self) -> Cell:
        return CELLS[self.name]

    @property
    def architecture(self) -> str:
        """The name in the registry of models, where both kinds of attention are transformers."""
        return "transformer" if self.kind == "attention" else self.name

    @property
    def attention(self) -> Literal["softmax", "linear"]:
        return "linear" if self.name == "linear" else "softmax"


# Colours that colour-blind people can tell apart (Okabe and Ito 2008), each with its own marker and line.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("cnn", "convolution", "convolution", "#D55E00", "s", "-"),
        Family("rnn", "plain recurrence", "recurrence", "#000000", "v", ":"),
        Family("lstm", "LSTM", "recurrence", "#0072B2", "o", "--"),
        Family("gru", "GRU", "recurrence", "#56B4E9", "D", "-."),
        Family("transformer", "attention", "attention", "#009E73", "^", "-"),
        Family("linear", "linear attention", "attention", "#CC79A7", "P", "--"),
    )
}


def nearest_size(count: Callable[[int], int], target: int) -> int:
    """The size, from 1 on, whose count is nearest to the target; counts must grow with the size.

    >>> nearest_size(lambda width: width * width, 50)
    7
    """
    above = 1
    while count(above) < target:
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if count(middle) < target else (below, middle)
    return min((size for size in (below, above) if size), key=lambda size: abs(count(size) - target))


def build_with_parameters(build: Callable[[int], Module], target: int) -> Module:
    """The module with about ``target`` parameters; an InputError if none comes within 5%."""

    @cache
    def count(size: int) -> int:
        with torch.device("meta"):
            return parameter_count(build(size))

    size = nearest_size(count, target)
    if abs(count(size) - target) > TOLERANCE * target:
        raise InputError(
            f"compare: {count(size):,} parameters are the nearest to {target:,} that fit. Ask for more."
        )
    return build(size)


def build_classifier(task: registry.Task, family: Family, target: int, fields: Mapping[str, Any]) -> Model:
    """A classifier of images or texts with about ``target`` parameters and these fields of its config."""
    free_field = "hidden" if family.kind == "attention" else "width"

    def build(size: int) -> Model:
        sizes = {**fields, free_field: size, "backend": "fused"}
        return registry.build_classifier(registry.classifier_config(task, family.architecture, **sizes))

    return build_with_parameters(build, target)


def parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
