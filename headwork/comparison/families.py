"""The families: one layer of each, and models of them with equally many parameters, within 5%.

One size is free in each model: its width, or in a transformer the hidden width of the feed-forward layers. It
is chosen so that the number of parameters comes as close to the target as possible. Task, data, steps, batch
size and learning rate are the same for all families, so that only the architecture differs.

A multiply-add of a matrix product counts as two FLOPs. The definition of a layer is run on shapes alone, and
an exact polynomial is fitted to the counts; torch's own counter gives the same numbers (a test compares
them). Convolution has a k x k kernel, k = 3, over a padded image of n pixels in 16 rows; attention has one
head and its four projections.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from headwork.errors import InputError
from headwork.files import load_package_toml
from headwork.mechanisms import linear_attention_chunked, multi_head_linear_attention
from headwork.mechanisms.attention import attend_per_head
from headwork.mechanisms.definitions import Modality, classifier_config
from headwork.mechanisms.fused import FusedKernels
from headwork.mechanisms.images import CELL_KINDS, convolution_specs, recurrent_specs
from headwork.mechanisms.kernels import CellKind, Kernels
from headwork.mechanisms.parameters import AttentionParameters, map_tree, spec_tree
from headwork.models import Model
from headwork.models.model import Parameters, build_classifier
from headwork.note import silent
from headwork.numbers import OperationCount, ShapeTensor
from headwork.sizes.polynomial import Polynomial, interpolate, verify

PARAMETER_TOLERANCE = 0.05  # relative, of the number of parameters
HEADS = 4
KERNEL_SIZE, IMAGE_ROWS = 3, 16
Kind = Literal["convolution", "recurrence", "attention"]
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Family:
    """A family: its short name, its description, its kind, and the style of its line in a plot."""

    name: str
    description: str
    kind: Kind
    style: dict[str, Any]

    @property
    def cell(self) -> CellKind:
        return CELL_KINDS[self.name]

    @property
    def architecture(self) -> str:
        """The name in the registry of models, where both kinds of attention are transformers."""
        return "transformer" if self.kind == "attention" else self.name

    @property
    def attention(self) -> Literal["softmax", "linear"]:
        return "linear" if self.name == "linear" else "softmax"


FAMILIES = {
    name: Family(name, **entry) for name, entry in load_package_toml(__file__, "families.toml").items()
}


def nearest_size(count: Callable[[int], int], target: int) -> int:
    """The size, from 1 on, whose count is nearest to the target; counts must grow with the size.

    >>> nearest_size(lambda width: width * width, 50)
    7
    """
    upper = 1
    while count(upper) < target:
        upper *= 2
    upper = bisect_left(range(upper), target, lo=max(1, upper // 2), key=count)
    return min((size for size in (upper - 1, upper) if size), key=lambda size: abs(count(size) - target))


def build_with_parameters(build: Callable[[int], Module], target: int) -> Module:
    """The module with about ``target`` parameters; an InputError if none comes within 5%."""

    @cache
    def count(size: int) -> int:
        with torch.device("meta"):
            return parameter_count(build(size))

    size = nearest_size(count, target)
    if abs(count(size) - target) > PARAMETER_TOLERANCE * target:
        raise InputError(
            f"compare: {count(size):,} parameters are the nearest to {target:,} that fit. Ask for more."
        )
    return build(size)


def sized_classifier(task: Modality, family: Family, target: int, fields: Mapping[str, Any]) -> Model:
    """A classifier of images or texts with about ``target`` parameters and these fields of its config."""
    adjusted = "hidden" if family.kind == "attention" else "width"

    def build(size: int) -> Model:
        sizes = {**fields, adjusted: size, "backend": "fused"}
        return build_classifier(classifier_config(task, family.architecture, **sizes))

    return build_with_parameters(build, target)


def parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- one layer: n tokens of width d ---------------------------------------------------------------
def chunked_linear_attention(tokens: Any, parameters: AttentionParameters, memory: Any, *, heads: int) -> Any:
    """Linear attention with its projections, in the chunked form, whose work grows linearly with n."""
    attend = partial(linear_attention_chunked, features="elu+1")
    return attend_per_head(tokens, parameters, memory, attend, heads=heads, convention="W x", note=silent)


class CountedKernels(Kernels):
    """The plain mechanisms, in the forms whose work is counted."""

    twins: ClassVar = {multi_head_linear_attention: chunked_linear_attention}


def layer_function(family: Family, width: int, kernels: Kernels, size: int = KERNEL_SIZE) -> tuple[Any, Any]:
    """The function of a layer, and the tree of its parameters before they have numbers."""
    if family.kind == "convolution":
        return kernels.convolution_relu, convolution_specs(width, width, size, size)
    if family.kind == "recurrence":
        cell = partial(kernels.recurrent, cell=family.cell)
        return cell, recurrent_specs(width, width, family.cell)
    return partial(kernels.attention, heads=1), spec_tree(AttentionParameters, width=width)


def input_shape(family: Family, n: int, d: int) -> tuple[int, ...]:
    """Of n tokens of width d, or of an image with n pixels and d channels."""
    return (d, IMAGE_ROWS, n // IMAGE_ROWS) if family.kind == "convolution" else (n, d)


@cache
def flops(name: str) -> Polynomial:
    """The FLOPs of a family's layer as a polynomial, counted from its definition and verified at other sizes.

    >>> str(flops("transformer")), str(flops("cnn"))
    ('4 n^2 d + 8 n d^2', '2 k^2 d^2 n')
    """

    def count(sizes: Mapping[str, int]) -> int:
        work, family = OperationCount(), FAMILIES[name]
        layer, template = layer_function(
            family, sizes["d"], CountedKernels(family.attention), sizes.get("k", KERNEL_SIZE)
        )
        tree = map_tree(lambda _, leaf: ShapeTensor(leaf.shape, work), template)
        layer(ShapeTensor(input_shape(family, sizes["n"], sizes["d"]), work), tree)
        return work.flops

    if FAMILIES[name].kind == "convolution":
        grid, other = {"k": (1, 3, 5), "d": (2, 3, 4), "n": (80, 96, 112)}, {"k": 7, "d": 5, "n": 160}
    else:
        grid, other = {"n": (4, 5, 6), "d": (2, 3, 4)}, {"n": 130, "d": 7}
    polynomial = interpolate(count, grid)
    verify(polynomial, count, other)
    return polynomial


def flops_at(name: str, n: int, d: int) -> int:
    """The FLOPs for n tokens of width d, with a 3 x 3 kernel for convolution.

    >>> flops_at("cnn", 16, 2) == 2 * 3**2 * 2**2 * 16
    True
    """
    polynomial = flops(name)
    sizes = {"n": n, "d": d, "k": KERNEL_SIZE}
    return int(polynomial(**{size: sizes[size] for size in polynomial.variables}))


class Layer(nn.Module):
    """One layer in its fastest form (or its plain one), with random inputs for it."""

    def __init__(self, family: Family, width: int, *, kernels: type[Kernels] = FusedKernels) -> None:
        super().__init__()
        self.family, self.width = family, width
        self.function, template = layer_function(family, width, kernels(family.attention))
        self.parameter_tree = Parameters(template)

    def inputs(self, n: int, batch: int = 1) -> Tensor:
        """Random tokens (batch, token, width), or images (batch, channel, row, column) of n pixels."""
        generator = torch.Generator().manual_seed(n)
        return torch.randn(batch, *input_shape(self.family, n, self.width), generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs, self.parameter_tree.tree())  # type: ignore[no-any-return]

    def make_forward(self, n: int, batch: int = 1) -> Callable[[], Tensor]:
        """A function that runs the layer on fixed inputs, without gradients, for timing."""
        return torch.no_grad()(partial(self, self.inputs(n, batch)))
