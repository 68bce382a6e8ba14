"""The families, and models of them that have equally many parameters, within 5%.

One number is free in each model (its width; in a transformer the hidden width of the feed-forward layers), and is
chosen so that the parameters come as near to the wanted number as they can. Families share the task, the data, the
steps, the batch and the rate: what is left to differ is how they read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwork.errors import InputError
from headwork.models import Encoder, Model, TransformerConfig
from headwork.models.convolutional import SequenceConvolution
from headwork.models.parts import Head, Positions, TokenEmbedding
from headwork.models.recurrent import CELLS, Cell, Recurrent
from headwork.models.registry import build_classifier, classifier_config

WITHIN = 0.05  # how far parameter counts may lie from the wanted one
HEADS = 4
TAPS = 5
Kind = Literal["convolution", "recurrence", "attention"]


@dataclass(frozen=True)
class Family:
    """A family by its short name, what it is called in words, and how it is drawn."""

    name: str
    words: str
    kind: Kind
    colour: str
    mark: str
    line: str

    @property
    def cell(self) -> Cell:
        return CELLS[self.name]

    @property
    def architecture(self) -> str:
        """What the registry of models calls it: both kinds of attention are transformers."""
        return "transformer" if self.kind == "attention" else self.name

    @property
    def attention(self) -> Literal["softmax", "linear"]:
        return "linear" if self.name == "linear" else "softmax"


# Colours that colour-blind people can tell apart (Okabe and Ito 2008), with marks and lines of their own besides.
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


def nearest(count: Callable[[int], int], wanted: int) -> int:
    """The number, from 1 on, whose count comes nearest to the wanted one; counts must grow.

    >>> nearest(lambda width: width * width, 50)
    7
    """
    above = 1
    while count(above) < wanted:
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if count(middle) < wanted else (below, middle)
    return min((size for size in (below, above) if size), key=lambda size: abs(count(size) - wanted))


def sized(make: Callable[[int], nn.Module], wanted: int) -> nn.Module:
    """The module of ``make`` with about so many parameters; an InputError where 5% cannot be kept."""

    @cache
    def count(size: int) -> int:
        with torch.device("meta"):
            return parameters(make(size))

    size = nearest(count, wanted)
    if abs(count(size) - wanted) > WITHIN * wanted:
        raise InputError(
            f"compare: {count(size):,} parameters are the nearest to {wanted:,} that fit. Ask for more."
        )
    return make(size)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# --- sequences ----------------------------------------------------------------------------------


class LastToken(nn.Module):
    """Tokens (batch, token) in, scores from the vector of the last token out: the first must be carried there."""

    def __init__(
        self, family: Family, *, size: int, width: int, vocabulary: int, classes: int, longest: int
    ) -> None:
        super().__init__()
        looks = family.kind == "attention"
        width = width if looks else size
        self.embedding = TokenEmbedding(vocabulary, width)
        # Attention alone must be told the order.
        self.positions = Positions("learned", longest, width) if looks else None
        self.body: nn.Module
        if looks:
            self.body = Encoder(transformer(family, width=width, hidden=size, depth=2))
        elif family.kind == "convolution":
            self.body = SequenceConvolution(width, 2, taps=TAPS, kernel="fused")
        else:
            self.body = Recurrent(width, width, cell=family.cell, kernel="fused")
        self.head = Head(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.read(self.embedding(tokens))

    def read(self, vectors: Tensor) -> Tensor:
        """Scores from the embedded tokens: what gradients are taken of."""
        vectors = vectors if self.positions is None else self.positions(vectors)
        scores: Tensor = self.head(self.body(vectors)[:, -1])
        return scores


def transformer(family: Family, *, width: int, hidden: int, depth: int) -> TransformerConfig:
    return TransformerConfig(
        width=width,
        hidden=hidden,
        heads=HEADS,
        depth=depth,
        normalisation="pre",
        activation="gelu",
        dropout=0.0,
        attention=family.attention,
        kernel="fused",
    )


def sequence_model(
    family: Family, *, longest: int, vocabulary: int, classes: int, width: int, wanted: int
) -> LastToken:
    """A ``LastToken`` of about so many parameters; ``width`` is that of the transformers.

    >>> model = sequence_model(FAMILIES["gru"], longest=66, vocabulary=5, classes=4, width=24, wanted=10_000)
    >>> abs(parameters(model) - 10_000) < 500
    True
    """

    def make(size: int) -> LastToken:
        return LastToken(
            family, size=size, width=width, vocabulary=vocabulary, classes=classes, longest=longest
        )

    made = sized(make, wanted)
    assert isinstance(made, LastToken)
    return made


# --- images and texts ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageSize:
    """What images are like and how large their models are; ``width`` and ``depth`` are the transformers'.

    ``image`` is the side with the blank ``margin`` all round, within which an image can be shifted.
    """

    image: int
    margin: int
    patch: int
    wanted: int
    width: int
    depth: int
    classes: int = 10


def image_model(family: Family, size: ImageSize) -> Model:
    """A classifier of square grey images of about so many parameters.

    >>> model = image_model(FAMILIES["cnn"], ImageSize(image=12, margin=2, patch=2, wanted=10_000, width=24, depth=2))
    >>> abs(model.parameter_count - 10_000) < 500
    True
    """

    fields: dict[str, Any] = {"image": size.image, "classes": size.classes, "kernel": "fused"}
    free_field = "width"
    if family.kind == "attention":
        fields |= {"patch": size.patch, "width": size.width, "depth": size.depth, "heads": HEADS}
        fields |= {"pooling": "mean", "attention": family.attention}
        free_field = "hidden"
    elif family.kind == "convolution":
        fields["depth"] = 2  # the map that is left has a position for every four by four pixels

    def make(free: int) -> Model:
        return build_classifier(
            classifier_config("vision", family.architecture, **fields, **{free_field: free})
        )

    made = sized(make, size.wanted)
    assert isinstance(made, Model)
    return made


def text_model(family: Family, *, vocabulary: int, longest: int, width: int, wanted: int) -> Model:
    """A classifier of texts in two classes of about so many parameters, those of the words included."""

    looks = family.kind == "attention"

    def make(free: int) -> Model:
        config = classifier_config(
            "text",
            family.architecture,
            attention=family.attention,
            vocabulary=vocabulary,
            max_length=longest,
            width=width if looks else free,
            hidden=free if looks else 1,
            heads=HEADS if looks else 1,
            depth=2,
            dropout=0.1,
            kernel="fused",
        )
        return build_classifier(config)

    made = sized(make, wanted)
    assert isinstance(made, Model)
    return made
