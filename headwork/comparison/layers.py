"""One layer of each family over n tokens of width d: its definition, its FLOPs and its fastest form.

A multiply-add of a matrix product counts as two FLOPs. The definition is run on shapes alone, and an exact
polynomial is fitted to the counts; torch's own counter gives the same numbers (a test compares them).
Convolution has a k x k kernel, k = 3, over a padded image of n pixels in 16 rows; attention has one head and
its four projections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from headwork.comparison.families import FAMILIES, Family
from headwork.mechanisms import convolution_2d, gru, linear_attention_chunked, lstm, recurrence
from headwork.mechanisms.attention import Parameters, attend_per_head, multi_head_attention
from headwork.models.convolutional import Convolution
from headwork.models.layers import Attention
from headwork.models.model import Backend
from headwork.models.recurrent import GATES, DirectedRecurrence
from headwork.note import Note, silent
from headwork.numbers import OperationCount, ShapeTensor
from headwork.sizes.polynomial import Polynomial, interpolated, verify

KERNEL, IMAGE_ROWS = 3, 16
Shapes = tuple[tuple[int, ...], ...]


def linear_layer(tokens: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, *, note: Note = silent) -> Any:
    """Linear attention with its projections, in the chunked form, whose work grows linearly with n."""
    attend = partial(linear_attention_chunked, features="elu+1")
    parameters = Parameters((W_q, W_k, W_v, W_o))
    return attend_per_head(tokens, parameters, None, attend=attend, heads=1, convention="W x", note=note)


def definition(
    family: Family, kernel: int = KERNEL
) -> tuple[Callable[..., Any], Callable[[int, int], Shapes]]:
    """The plain function of a layer, and the shapes of its inputs for n tokens of width d."""
    if family.kind == "convolution":
        return (
            partial(convolution_2d, padding=kernel // 2),
            lambda n, d: ((d, IMAGE_ROWS, n // IMAGE_ROWS), (d, d, kernel, kernel)),
        )
    if family.kind == "attention":
        plain = linear_layer if family.name == "linear" else partial(multi_head_attention, heads=1)
        return plain, lambda n, d: ((n, d), *(((d, d),) * 4))
    gates = GATES[family.cell]
    cells: dict[str, Any] = {"plain": partial(recurrence, activation="tanh"), "lstm": lstm, "gru": gru}
    return cells[family.cell], lambda n, d: ((n, d), (gates * d, d), (gates * d, d))


@cache
def flops(name: str) -> Polynomial:
    """The FLOPs of a family's layer as a polynomial, counted from its definition and verified at other sizes.

    >>> str(flops("transformer")), str(flops("cnn"))
    ('4 n^2 d + 8 n d^2', '2 k^2 d^2 n')
    """

    def count(sizes: Mapping[str, int]) -> int:
        work = OperationCount()
        layer, shapes = definition(FAMILIES[name], sizes.get("k", KERNEL))
        layer(*(ShapeTensor(shape, work) for shape in shapes(sizes["n"], sizes["d"])))
        return work.flops

    if FAMILIES[name].kind == "convolution":
        grid, other = {"k": (1, 3, 5), "d": (2, 3, 4), "n": (80, 96, 112)}, {"k": 7, "d": 5, "n": 160}
    else:
        grid, other = {"n": (4, 5, 6), "d": (2, 3, 4)}, {"n": 130, "d": 7}
    polynomial = interpolated(count, grid)
    verify(polynomial, count, other)
    return polynomial


def flops_at(name: str, n: int, d: int) -> int:
    """The FLOPs for n tokens of width d, with a 3 x 3 kernel for convolution.

    >>> flops_at("cnn", 16, 2) == 2 * 3**2 * 2**2 * 16
    True
    """
    polynomial = flops(name)
    sizes = {"n": n, "d": d, "k": KERNEL}
    return int(polynomial(**{size: sizes[size] for size in polynomial.sizes}))


class Layer(nn.Module):
    """One layer in its fastest form (or its plain one), with random inputs for it."""

    def __init__(self, family: Family, width: int, *, backend: Backend = "fused") -> None:
        super().__init__()
        self.family, self.width = family, width
        self.inner: nn.Module
        if family.kind == "convolution":
            self.inner = Convolution(width, width, KERNEL, KERNEL, backend=backend)
        elif family.kind == "attention":
            self.inner = Attention(width, 1, attention=family.attention, backend=backend)
        else:
            self.inner = DirectedRecurrence(width, width, cell=family.cell, backend=backend)

    def inputs(self, n: int, batch: int = 1) -> Tensor:
        """Random tokens (batch, token, width), or images (batch, channel, row, column) of n pixels."""
        generator = torch.Generator().manual_seed(n)
        if self.family.kind == "convolution":
            return torch.randn(batch, self.width, IMAGE_ROWS, n // IMAGE_ROWS, generator=generator)
        return torch.randn(batch, n, self.width, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        result: Tensor = self.inner(inputs)
        return result

    def forward_pass(self, n: int, batch: int = 1) -> Callable[[], Tensor]:
        """A function that runs the layer on fixed inputs, without gradients, for timing."""
        return torch.no_grad()(partial(self, self.inputs(n, batch)))
