"""Where the axes of a tensor come from, followed through a forward pass on shapes alone.

An axis is a list of factors, outermost first. A factor has an origin (equal numbers: the same axis of the
same tensor), a size and a kind: ``data`` (from an input), ``learned`` (from a parameter: features, and the
heads that they are cut into) or ``unknown``. Reshaping splits and joins factors, a product of two matrices
takes rows from one and columns from the other. So (batch x head, query, key) falls apart into its axes,
whichever way a module has folded them.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwork.files import load_package_toml


class Factor(NamedTuple):
    origin: int
    size: int
    kind: str


Axis = tuple[Factor, ...]
Axes = tuple[Axis, ...]
_origins = itertools.count()


@dataclass(slots=True, eq=False)
class TensorNode:
    """One tensor of the forward pass: the operation that gave it, without its numbers.

    ``constant``: it follows from parameters and constants alone. ``after_product``: some product is behind
    it; ``data_product``: one of data with data, with no softmax since.
    """

    op: str
    parents: "Sequence[TensorNode]"
    args: tuple[Any, ...]
    shape: tuple[int, ...]
    constant: bool = False
    after_product: bool = False
    data_product: bool = False
    softmax: Any = None  # the softmax that this is, or follows from element by element
    exponential_sum: "ExponentialSum | None" = None  # where this is one
    unnormalised_product: "UnnormalisedProduct | None" = None  # where this is one, or follows from it
    operands: tuple[Any, ...] = ()
    _axes: Axes | None = None

    def __post_init__(self) -> None:
        parents, multiplies = self.parents, self.op in FIRST_OPERAND or self.op in LINEAR
        self.constant = self.constant or (bool(parents) and all(p.constant for p in parents))
        self.after_product = multiplies or any(p.after_product for p in parents)
        self.data_product = any(p.data_product for p in parents) and self.op not in ENDS_DATA_PRODUCT

    @property
    def is_parameter(self) -> bool:
        """A parameter, or what follows from one element by element."""
        return self.constant and not self.after_product

    @property
    def axes(self) -> Axes:
        stack = [self]
        while self._axes is None:
            node = stack[-1]
            missing = [parent for parent in node.parents if parent._axes is None]
            stack += missing
            if not missing:
                node._axes = _checked(AXES.get(node.op, _elementwise)(node), node.shape)
                stack.pop()
        return self._axes


class ExponentialSum(NamedTuple):
    """The exponentials that were summed, and the origins of the axes that were summed over."""

    softmax: Any  # PendingSoftmax
    axis: set[int]


class UnnormalisedProduct(NamedTuple):
    """A product with exponentials that are not divided by their sum yet."""

    softmax: Any  # PendingSoftmax
    operand: TensorNode
    exponentials: Any  # the tensor of the operand


def new_axes(shape: Iterable[int], kind: str) -> Axes:
    return tuple((Factor(next(_origins), size, kind),) if size != 1 else () for size in shape)


def leaf_node(shape: tuple[int, ...], constant: bool) -> TensorNode:
    """An input, a buffer or a parameter."""
    return TensorNode("leaf", (), (), shape, constant)


def _leaf(node: TensorNode) -> Axes:
    axes = new_axes(node.shape, "learned" if node.constant else "data")
    if len(axes) == 4 and node.op == "leaf" and not node.constant:
        # A query given as it is may hold its heads there.
        axes = (axes[0], *new_axes(node.shape[1:2], "unknown"), *axes[2:])
    return axes


def origins(axis: Axis) -> set[int]:
    return {factor.origin for factor in axis}


def product_operands(node: TensorNode) -> tuple[TensorNode, TensorNode, set[int], set[int]] | None:
    """Left and right operand of a product, and the origins of its axes that stem from one of them alone."""
    if node.op in FIRST_OPERAND:
        left, right = node.parents[FIRST_OPERAND[node.op] :][:2]
        rows, columns = node.axes[-2:] if len(right.shape) > 1 else (node.axes[-1], ())
        return left, right, origins(rows), origins(columns)
    if node.op in LINEAR and len(node.parents) > 1:
        outer = origins(node.axes[-2]) if len(node.shape) > 1 else set()
        return node.parents[0], node.parents[1], outer, origins(node.axes[-1])
    multiplication = node.parents[0] if node.op == "sum" and node.parents else None
    if multiplication is None or multiplication.op != "mul" or len(multiplication.parents) != 2:
        return None
    left, right = multiplication.parents
    of_left = _origins_of_one(multiplication, left, right)
    return left, right, of_left, _origins_of_one(multiplication, right, left)


def _origins_of_one(node: TensorNode, node_a: TensorNode, node_b: TensorNode) -> set[int]:
    padded_shapes = [(1,) * (len(node.shape) - len(p.shape)) + p.shape for p in (node_a, node_b)]
    return {
        f.origin
        for axis, a, b in zip(node.axes, *padded_shapes, strict=True)
        if a > 1 and b == 1
        for f in axis
    }


def _checked(axes: Axes | None, shape: Sequence[int]) -> Axes:
    """The axes, if they have these sizes; else unknown ones."""
    sizes = [math.prod(factor.size for factor in axis) for axis in axes or ()]
    return axes if axes and sizes == list(shape) else new_axes(shape, "unknown")


def _reshape(axes: Axes, shape: Sequence[int]) -> Axes | None:
    queue = deque(factor for axis in axes for factor in axis)
    result = []
    for size in shape:
        axis = []
        while size > 1 and queue:
            factor = queue.popleft()
            if size % factor.size == 0:
                axis.append(factor)
                size //= factor.size
            elif factor.size % size == 0:
                axis.append(factor._replace(size=size))
                inner = factor._replace(size=factor.size // size)
                # Parts of a learned or a token axis stay one; of an unknown one each may be something else.
                queue.appendleft(*_with_new_origins((inner,)) if factor.kind == "unknown" else (inner,))
                size = 1
            else:
                return None
        result.append(tuple(axis))
    return tuple(result)


def _resize(axis: Axis, size: int) -> Axis:
    """The axis after a part was cut out or something was appended."""
    if size == 1:
        return ()
    if math.prod(f.size for f in axis) == size:
        return axis
    kinds = {factor.kind for factor in axis}
    kind = kinds.pop() if len(kinds) == 1 else "unknown" if kinds else "data"
    return (Factor(axis[0].origin if axis else next(_origins), size, kind),)


def _with_new_origins(axis: Axis) -> Axis:
    return tuple(factor._replace(origin=next(_origins)) for factor in axis)


def _view(node: TensorNode) -> Axes | None:
    return _reshape(node.parents[0].axes, node.shape) if math.prod(node.shape) else None


def _permute(node: TensorNode) -> Axes:
    axes = node.parents[0].axes
    return tuple(axes[i] for i in (node.args[0] if node.op == "permute" else reversed(range(len(axes)))))


def _transpose(node: TensorNode) -> Axes:
    axes = list(node.parents[0].axes)
    i, j = node.args[:2]
    axes[i], axes[j] = axes[j], axes[i]
    return tuple(axes)


def _unsqueeze(node: TensorNode) -> Axes:
    axes, at = node.parents[0].axes, node.args[0] % len(node.shape)
    return (*axes[:at], (), *axes[at:])


def _remove_axes(node: TensorNode) -> Axes:
    """select, unbind: one axis less. squeeze and sums may take several away."""
    rank, dims = len(node.parents[0].shape), node.args[0] if node.args else ()
    dims = [dims] if isinstance(dims, int) else dims or range(rank)
    removed = {d % rank for d in dims} if rank else set()
    if node.op == "squeeze":
        removed = {d for d in removed if node.parents[0].shape[d] == 1}
    axes = node.parents[0].axes
    if len(node.shape) == rank:
        return tuple(() if d in removed else axis for d, axis in enumerate(axes))
    return tuple(axis for d, axis in enumerate(axes) if d not in removed)


def _expand(node: TensorNode) -> Axes:
    axes = ((),) * (len(node.shape) - len(node.parents[0].shape)) + node.parents[0].axes
    return tuple(a or new_axes([size], "data")[0] for a, size in zip(axes, node.shape, strict=True))


def _same_rank(node: TensorNode) -> Axes | None:
    """slice, split, cat, pad, roll: each axis of the first operand, with the new size."""
    axes = node.parents[0].axes
    return tuple(map(_resize, axes, node.shape)) if len(axes) == len(node.shape) else None


def _matrix_product(node: TensorNode) -> Axes:
    left, right = node.parents[FIRST_OPERAND[node.op] :][:2]
    rows = left.axes[-2]
    columns = right.axes[-1] if len(right.shape) > 1 else ()
    # A linear layer keeps the tokens' axis; a product of data with data begins two new ones.
    rows = rows if right.is_parameter else _with_new_origins(rows)
    columns = columns if left.is_parameter else _with_new_origins(columns)
    last = (rows, columns) if len(right.shape) > 1 else (rows,)
    if len(node.shape) < 3:
        return last
    leading = [p.axes[0] for p in ((right, left) if left.is_parameter else (left, right))]
    return (max(leading, key=lambda axis: math.prod(f.size for f in axis if f.kind == "learned")), *last)


def _embedding(node: TensorNode) -> Axes:
    return (*node.parents[1].axes, *new_axes(node.shape[-1:], "learned"))


def _projection(node: TensorNode) -> Axes:
    return (*node.parents[0].axes[:-1], *new_axes(node.shape[-1:], "learned"))


def _convolution(node: TensorNode) -> Axes:
    axes = list(map(_resize, node.parents[0].axes, node.shape))
    axes[1:2] = new_axes(node.shape[1:2], "learned")
    return tuple(axes)


def _complex(node: TensorNode) -> Axes:
    axes = node.parents[0].axes
    return axes[:-1] if node.op == "view_as_complex" else (*axes, *new_axes([2], "unknown"))


def _fused(node: TensorNode) -> Axes:
    query, _, value = node.parents[:3]
    return (*query.axes[:-1], value.axes[-1])


def _elementwise(node: TensorNode) -> Axes | None:
    """Broadcast; of several operands the one that stems from a product, and from data, gives its axes."""
    rank = len(node.shape)
    operands = [p for p in node.parents if len(p.shape) <= rank and p.shape]
    operands.sort(key=lambda p: (p.after_product, not p.constant, math.prod(p.shape)), reverse=True)
    padded = [((),) * (rank - len(p.shape)) + p.axes for p in operands]
    traced = [{i for i in range(rank) if axes[i]} for axes in padded]
    # An outer product or sum: both sides of one token axis, which are two axes from here on.
    outer = len(traced) == 2 and traced[0] - traced[1] and traced[1] - traced[0]
    result = []
    for i, size in enumerate(node.shape):
        axis = next((axes[i] for axes in padded if axes[i]), ())
        on_one_side = outer and sum(i in one for one in traced) == 1
        result.append(_with_new_origins(axis) if on_one_side else _resize(axis, size))
    return tuple(result)


TABLE = load_package_toml(__file__, "operations.toml")
SOFTMAX: dict[str, str] = TABLE["softmax"]
FIRST_OPERAND: dict[str, int] = TABLE["products"]
LINEAR, FUSED, KEEPS_WEIGHTS, MIXES_HEADS, RANDOM = (
    set(TABLE[kind].split()) for kind in ("linear", "fused", "keeps_weights", "mixes_heads", "random")
)
ENDS_DATA_PRODUCT = {*SOFTMAX, "exp", "exp2", "convolution"}
AXES: dict[str, Callable[[TensorNode], Axes | None]] = {
    name: globals()[f"_{rule}"] for rule, names in TABLE["axes"].items() for name in names.split()
}
AXES |= (
    dict.fromkeys(FIRST_OPERAND, _matrix_product)
    | dict.fromkeys(LINEAR, _projection)
    | dict.fromkeys(FUSED, _fused)
)
