"""One layer of each family over n tokens of width d: its definition, its FLOPs and its fastest form.

FLOPs are two a multiply-add of matrix products. They are counted by running the definition on shapes, and a polynomial
is found through the counts exactly; torch's own counter gives the same numbers for the same definitions (a test
compares them). Convolution has a k x k kernel, k = 3, over a padded image of n pixels in 16 rows; attention has one
head and its four projections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from headwork.comparison.families import FAMILIES, Family
from headwork.mechanisms import (
    convolution_2d,
    gru,
    linear_attention_chunked,
    lstm,
    multi_head_attention,
    recurrence,
)
from headwork.mechanisms.attention import with_heads
from headwork.models.convolutional import Convolution
from headwork.models.parts import Attention
from headwork.models.recurrent import GATES, Recurrence
from headwork.note import Note, silent
from headwork.numbers import ShapeTensor, Work
from headwork.sizes.polynomial import Polynomial, interpolated, verify

KERNEL, ROWS = 3, 16
LEADING = {
    "cnn": "k^2 d^2 n",
    "rnn": "n d^2",
    "lstm": "n d^2",
    "gru": "n d^2",
    "transformer": "n^2 d + n d^2",
    "linear": "n d^2",
}


def linear_layer(tokens: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, *, note: Note = silent) -> Any:
    """Linear attention with its projections, in the form whose work grows with n and not with its square."""
    none = (None,) * 5
    attend = partial(linear_attention_chunked, features="elu+1")
    return with_heads(tokens, W_q, W_k, W_v, W_o, *none, attend=attend, heads=1, convention="W x", note=note)


Shapes = tuple[tuple[int, ...], ...]


def definition(family: Family) -> tuple[Callable[..., Any], Callable[[int, int], Shapes]]:
    """The plain function of a layer, and the shapes of what it is given for n tokens of width d."""
    if family.kind == "convolution":
        return partial(convolution_2d, padding=KERNEL // 2), lambda n, d: _image(n, d, KERNEL)
    if family.kind == "attention":
        plain = linear_layer if family.name == "linear" else partial(multi_head_attention, heads=1)
        return plain, lambda n, d: ((n, d), *(((d, d),) * 4))
    gates = GATES[family.cell]
    cells: dict[str, Callable[..., Any]] = {
        "plain": partial(recurrence, activation="tanh"),
        "lstm": lstm,
        "gru": gru,
    }
    return cells[family.cell], lambda n, d: ((n, d), (gates * d, d), (gates * d, d))


def _image(n: int, d: int, k: int) -> Shapes:
    return (d, ROWS, n // ROWS), (d, d, k, k)


@cache
def flops(name: str) -> Polynomial:
    """The FLOPs of a family's layer as a polynomial, counted from its definition and verified at other sizes.

    >>> str(flops("transformer")), str(flops("cnn"))
    ('4 n^2 d + 8 n d^2', '2 k^2 d^2 n')
    """
    family = FAMILIES[name]
    plain, shapes = definition(family)

    def count(at: Mapping[str, int]) -> int:
        work = Work()
        if family.kind == "convolution":
            given = _image(at["n"], at["d"], at["k"])
            convolution_2d(*(ShapeTensor(shape, work) for shape in given), padding=at["k"] // 2)
        else:
            plain(*(ShapeTensor(shape, work) for shape in shapes(at["n"], at["d"])))
        return work.flops

    if family.kind == "convolution":
        found = interpolated(count, {"k": (1, 3, 5), "d": (2, 3, 4), "n": (80, 96, 112)})
        verify(found, count, {"k": 7, "d": 5, "n": 160})
    else:
        found = interpolated(count, {"n": (4, 5, 6), "d": (2, 3, 4)})
        verify(found, count, {"n": 130, "d": 7})
    return found


def flops_at(name: str, n: int, d: int) -> int:
    """The FLOPs for n tokens of width d, of a convolution with its 3 x 3 kernel.

    >>> flops_at("cnn", 16, 2) == 2 * 3**2 * 2**2 * 16
    True
    """
    polynomial = flops(name)
    sizes = {"n": n, "d": d, "k": KERNEL}
    return int(polynomial(**{size: sizes[size] for size in polynomial.sizes}))


class Layer(nn.Module):
    """One layer in its fastest form (or its plain one), with inputs of its kind."""

    def __init__(self, family: Family, width: int, *, kernel: str = "fused") -> None:
        super().__init__()
        self.family, self.width = family, width
        self.inner: nn.Module
        if family.kind == "convolution":
            self.inner = Convolution(width, width, KERNEL, KERNEL, kernel=kernel)  # type: ignore[arg-type]
        elif family.kind == "attention":
            self.inner = Attention(width, 1, attention=family.attention, kernel=kernel)  # type: ignore[arg-type]
        else:
            self.inner = Recurrence(width, width, cell=family.cell, kernel=kernel)  # type: ignore[arg-type]

    def inputs(self, n: int, batch: int = 1) -> Tensor:
        """Random tokens (batch, token, width), or images (batch, channel, row, column) of n pixels."""
        drawn = torch.Generator().manual_seed(n)
        if self.family.kind == "convolution":
            return torch.randn(batch, self.width, ROWS, n // ROWS, generator=drawn)
        return torch.randn(batch, n, self.width, generator=drawn)

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.inner(inputs)
        return result
