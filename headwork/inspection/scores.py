"""From a softmax back to the product of queries and keys, and which axis of its weights is which.

Scores are a product of two tensors of data, neither of them a parameter. A gate or a classifier multiplies
with a parameter and takes the softmax over its axis; pooling has a parameter instead of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from headwork.inspection.axes import FIRST_OPERAND, Axes, TensorNode, origins, product_operands

AXIS_NAMES = ("batch", "head", "query", "key")
AxisRoles = list[tuple[int, str]]  # the size and role of each factor of an axis


@dataclass(eq=False)
class PendingSoftmax:
    """A softmax on its way to the values. ``axis``: the origins of the axis along which it sums to one."""

    scores: TensorNode
    path: str
    kind: str
    axis: set[int] | None
    original: tuple[Tensor, TensorNode] | None = None  # as it was before dropout, or before heads were mixed
    heads_mixed: bool = False
    was_read: bool = False
    combined_with: list["PendingSoftmax"] = field(default_factory=list)  # of a difference or sum of several


@dataclass(frozen=True)
class Layout:
    """How a tensor is laid out, factor by factor; -1 is whatever size is left."""

    factors: AxisRoles

    def arrange(self, tensor: Tensor, roles: Sequence[str] = AXIS_NAMES) -> Tensor:
        """The tensor with one axis per role."""
        order = self._order(roles)
        sizes = dict.fromkeys(roles, 1)
        for size, role in self.factors:
            sizes[role] *= size
        return tensor.reshape([s for s, _ in self.factors]).permute(order).reshape(list(sizes.values()))

    def restore(self, tensor: Tensor, like: Tensor, roles: Sequence[str]) -> Tensor:
        """The other way round, in the shape of another tensor."""
        order = self._order(roles)
        inner = tensor.reshape([self.factors[i][0] for i in order])
        return inner.permute([order.index(i) for i in range(len(order))]).reshape(like.shape)

    def _order(self, roles: Sequence[str]) -> list[int]:
        return sorted(range(len(self.factors)), key=lambda i: roles.index(self.factors[i][1]))


@dataclass(frozen=True)
class Scores:
    """The product of queries and keys behind a softmax; ``query`` and ``key``: the origins of their axes."""

    node: TensorNode
    query: set[int]
    key: set[int]
    query_first: bool

    def axis_roles(self, axes: Axes) -> list[AxisRoles]:
        """The roles of the axes of scores or weights."""
        kinds = {f.kind for axis in self.node.axes for f in axis if f.origin in self.query}
        token_origins = self.query | self.key
        leading = [i for i, axis in enumerate(axes) if not origins(axis) & token_origins][: len(axes) - 2]
        result: list[AxisRoles] = []
        for i, axis in enumerate(axes):
            result.append([])
            for factor in axis:
                learned = factor.kind == "learned"
                if factor.kind == "unknown":
                    # By its position, as (batch, head, query, key) is the usual order.
                    learned = len(leading) > 1 and i == leading[-1]
                role = "head" if learned else "batch"
                if factor.origin in self.key:
                    role = "key"
                elif factor.origin in self.query and not (learned and "data" in kinds):
                    role = "query"  # where queries and heads share an axis, the learned part are the heads
                result[-1].append((factor.size, role))
        return result

    def operands(self) -> dict[str, tuple[Tensor, Layout]]:
        """Queries and keys as they entered the product, where they were kept."""
        if not self.node.operands or self.node.op not in FIRST_OPERAND or len(self.node.axes) < 2:
            return {}
        *leading, rows, columns = self.axis_roles(self.node.axes)
        lead = [f for axis in leading for f in axis]
        left, right = self.node.operands
        pairs = (
            (left, Layout([*lead, *rows, (-1, "width")])),
            (right, Layout([*lead, (-1, "width"), *columns])),
        )
        return dict(zip(("query", "key") if self.query_first else ("key", "query"), pairs, strict=True))


def find_scores(softmax: PendingSoftmax) -> Scores | str:
    """The scores of a softmax, or why it is not attention."""
    queue, seen = [softmax.scores], set[int]()
    reason = "its scores could not be followed back to a product of queries and keys"
    key = softmax.axis or set()
    present = {f.origin for axis in softmax.scores.axes for f in axis}
    while queue and len(seen) < 300:
        node = queue.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        parts = product_operands(node)
        if parts is None:
            queue += [p for p in node.parents if not key or any(key & origins(axis) for axis in p.axes)]
            continue
        left, right, rows, columns = parts
        keys_left = bool(key & rows) if key else node.shape[-1:] != (1,)
        of_query, of_key, query = (right, left, columns) if keys_left else (left, right, rows)
        if of_key.constant and not of_query.constant:
            reason = "softmax over a learned axis: a gate, a classifier or a learned memory"
        elif of_query.is_parameter and (
            keys_left or of_key.is_parameter or node.op not in ("bmm", "baddbmm")
        ):
            reason = (
                "its scores are a product with a parameter (pooling, additive attention), not with queries"
            )
            queue.append(of_key)  # unless the parameter mixes the heads of scores
        elif query <= present and (not key or key & (rows | columns)):
            return Scores(node, query, key, of_query is left)
    return reason


def is_dropout_mask(node: TensorNode) -> bool:
    """Whether this is a mask drawn at random: dropout."""
    for _ in range(4):
        if node.op in ("bernoulli", "rand", "rand_like"):
            return True
        if not node.parents or node.softmax:
            return False
        node = node.parents[0]
    return False


def logsumexp_axis(node: TensorNode) -> set[int]:
    """The axis of a logarithm of summed exponentials: less by it, exponentials sum to one."""
    for _ in range(6):
        if node.op == "logsumexp":
            dims: Any = node.args[0]
            axes = node.parents[0].axes
            return {f.origin for d in ([dims] if isinstance(dims, int) else dims) for f in axes[d]}
        if node.op == "log" and (total := node.parents[0].exponential_sum):
            return set(total.axis)
        if not node.parents:
            break
        node = node.parents[0]
    return set()
