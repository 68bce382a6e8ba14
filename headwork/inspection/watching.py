"""A forward pass watched operation by operation, below autograd: where softmax stands between two products.

``Watch`` runs every operation unchanged, so the output is the module's own, and keeps a ``Node`` per tensor.
A softmax (or exponentials over their sum) is followed element by element to the product that contracts its
axis with the values, and back to the product of queries and keys that gave its scores. Both must be there and
be of data: a gate's or classifier's scores are products with a parameter. What does not fit is listed.
"""

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from headwork.inspection.axes import FUSED, PRODUCTS, Factor, Node, leaf, origins, product
from headwork.inspection.fused_weights import fused_attention, fused_layer

SOFTMAX = {"_softmax": "softmax", "_safe_softmax": "scaled_dot_product_attention", "_log_softmax": "log"}
LAYERS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
MIXING = ("convolution", "native_batch_norm", "_native_batch_norm_legit_no_training", "native_layer_norm")
# Through these, element by element or by layout, weights stay weights.
PASSING = set(
    """
    view _unsafe_view reshape _reshape_alias permute t transpose unsqueeze squeeze select expand slice
    split split_with_sizes unsafe_split unbind cat stack clone detach alias contiguous _to_copy
    lift_fresh copy mul div add sub where masked_fill nan_to_num clamp clamp_min native_dropout index
    index_select gather scatter constant_pad_nd roll flip tril triu repeat masked_scatter index_put
    _to_dense zero fill reciprocal
    """.split()
)
RANDOM = ("rand", "rand_like", "randn", "randn_like", "normal", "uniform", "bernoulli", "native_dropout")
ROLES = ("batch", "head", "query", "key")


class Operation(NamedTuple):
    """What is asked of an operation each time it runs."""

    name: str
    own: bool
    written: tuple[tuple[int, str], ...]


_operations: dict[Any, Operation] = {}


def operation(func: Any) -> Operation:
    if func not in _operations:
        written = [
            (at, a.name)
            for at, a in enumerate(func._schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]
        name = func.overloadpacket.__name__
        if written and name.endswith("_"):
            name = name[:-1]
        _operations[func] = Operation(name, func.namespace in ("aten", "prim", "prims"), tuple(written))
    return _operations[func]


@dataclass(eq=False)
class Soft:
    """A softmax on its way to the values. ``axis``: the origins of the axis along which it sums to one."""

    scores: Node
    path: str
    kind: str
    axis: set[int] | None
    frozen: tuple[Tensor, Node] | None = None  # as it was before dropout, or before heads were mixed
    mixed: bool = False
    read: bool = False
    others: list["Soft"] = field(default_factory=list)  # a difference or sum of several


@dataclass(frozen=True)
class Layout:
    """How an operand is laid out: the size and role of each of its factors, in their order."""

    factors: tuple[tuple[int, str], ...]

    def arranged(self, tensor: Tensor, roles: Sequence[str] = ROLES) -> Tensor:
        order = sorted(range(len(self.factors)), key=lambda i: roles.index(self.factors[i][1]))
        sizes = [[s for s, role in self.factors if role == wanted] for wanted in roles]
        cut = tensor.reshape([size for size, _ in self.factors]).permute(order)
        return cut.reshape([torch.Size(size).numel() for size in sizes])

    def restored(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        order = sorted(range(len(self.factors)), key=lambda i: ROLES.index(self.factors[i][1]))
        back = [order.index(i) for i in range(len(order))]
        return tensor.reshape([self.factors[i][0] for i in order]).permute(back).reshape(tuple(shape))


@dataclass(frozen=True)
class Scores:
    """The product of queries and keys behind a softmax."""

    node: Node
    query: set[int]
    mixed: bool  # the query axis holds heads, too
    left: bool  # the queries are the left operand

    def layout(self, axes: Sequence[Sequence[Factor]], key: set[int]) -> list[list[tuple[int, str]]]:
        """The roles of each axis of the scores or the weights."""
        last = [i for i, axis in enumerate(axes) if {f.origin for f in axis} & (key | self.query)]
        leading = [i for i in range(len(axes)) if i not in last][: max(0, len(axes) - 2)]
        result = []
        for i, axis in enumerate(axes):
            roles = []
            for factor in axis:
                if factor.origin in key:
                    role = "key"
                elif factor.origin in self.query:
                    role = "head" if self.mixed and factor.kind == "learned" else "query"
                elif factor.kind == "unknown":
                    role = "head" if len(leading) > 1 and i == leading[-1] else "batch"
                else:
                    role = "head" if factor.kind == "learned" else "batch"
                roles.append((factor.size, role))
            result.append(roles)
        return result

    def pair(self, key: set[int]) -> "dict[str, tuple[Tensor, Layout | None]]":
        """Queries and keys as they entered the product."""
        *leading, rows, columns = self.layout(self.node.axes, key)
        lead = [f for axis in leading for f in axis]
        left, right = self.node.operands
        width = [(left.shape[-1], "width")]
        pairs = (left, Layout((*lead, *rows, *width))), (right, Layout((*lead, *width, *columns)))
        return dict(zip(("query", "key") if self.left else ("key", "query"), pairs, strict=True))


def find_scores(soft: Soft) -> "Scores | str":
    """The product of queries and keys that the scores of a softmax come from, or why there is none."""
    queue, seen, reason = [soft.scores], set[int](), "its scores come from no product"
    key = soft.axis or set()
    axes = {f.origin for axis in soft.scores.axes for f in axis}
    while queue and len(seen) < 300:
        node = queue.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        parts = product(node)
        if parts is None:
            queue += [p for p in node.parents if not key or any(key & origins(axis) for axis in p.axes)]
            continue
        left, right, rows, columns = parts
        if key & rows or (not key and node.shape[-1] > 1):
            (of_query, query), of_key = (right, columns), left
        else:
            (of_query, query), of_key = (left, rows), right
        if of_key.free and not of_query.free:
            reason = "softmax over a learned axis: a gate, a classifier or a learned memory"
        elif of_query.raw and not (of_query is left and node.op in ("bmm", "baddbmm") and not of_key.raw):
            reason = (
                "its scores are a product with a parameter (pooling, additive attention), not with queries"
            )
            queue.append(of_key)  # heads may be mixed by a parameter after the product
        elif query <= axes and (not key or key & (rows | columns)):
            kinds = {f.kind for axis in node.axes for f in axis if f.origin in query}
            return Scores(node, query, kinds == {"data", "learned"}, of_query is left)
        else:
            reason = "its scores could not be followed to a product of queries and keys"
    return reason


@dataclass(eq=False)
class Found:
    """One attention as it is met; tensors as they entered the products, with their layouts."""

    path: str
    kind: str
    weights: tuple[Tensor, Layout | None]
    operands: dict[str, tuple[Tensor, Layout | None]]
    output: tuple[Tensor, Layout | None] | None = None
    changed: str = ""  # why the output cannot be replaced

    def get(self, name: str) -> Tensor | None:
        """query, key, value or output as (batch, head, token, width)."""
        tensor, layout = (
            self.operands.get(name) or (self.output if name == "output" else None) or (None, None)
        )
        roles = ("batch", "head", "query" if name in ("query", "output") else "key", "width")
        return tensor if layout is None or tensor is None else layout.arranged(tensor, roles)


class Watch(TorchDispatchMode):
    """Runs a forward pass and calls ``found`` for each attention; what that returns replaces its output."""

    supports_higher_order_operators = True

    def __init__(
        self,
        module: nn.Module,
        inputs: Any,
        found: Callable[[Found], Tensor | None],
        unread: Callable[[str, str], None],
        operands: bool = False,
        gradients: bool = False,
    ) -> None:
        super().__init__()
        self.found, self.unread, self.operands, self.gradients = found, unread, operands, gradients
        self.names = {id(part): path for path, part in module.named_modules()}
        self.fixed = {storage(t) for t in (*module.parameters(), *module.buffers())}
        self.known = {storage(t) for t in tensors_in(inputs, 4)}
        for part in module.modules():
            self.fixed |= {storage(t) for t in tensors_in(vars(part), 2)}
        self.fixed -= self.known
        self.nodes: dict[Any, Node] = {}
        self.softs: list[Soft] = []
        self.drafts: list[Soft] = []
        self.on_write: dict[int, list[Callable[[], None]]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # what is compiled runs compiled, as it does without us

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            self.unread(self.path(), f"{func.__name__} is one operation, whose inside is not visible")
            return func(*args, **kwargs)
        op = operation(func)
        for at, name in op.written:
            target = args[at] if at < len(args) else kwargs.get(name)
            for write in self.on_write.pop(storage(target), ()) if isinstance(target, Tensor) else ():
                write()
        tensors = []
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                tensors.append(value)
            elif isinstance(value, (list, tuple)):
                tensors += [item for item in value if isinstance(item, Tensor)]
        parents = [self._node(tensor) for tensor in tensors]
        if op.name == "mul" and op.written and parents[0].soft and any(map(noise, parents[1:])):
            parents[0].soft.frozen = tensors[0].clone(), parents[0]
        out = func(*args, **kwargs)
        if op.name in PRODUCTS:
            return self._product(op, parents, tensors, args, out)
        if op.name in FUSED:
            return self._fused(func, op, parents, args, kwargs, out)
        if op.name in LAYERS:
            self._layer(func, op, args, kwargs)
        elif not op.own and sum(t.is_floating_point() and t.dim() > 2 for t in tensors) > 2:
            self.unread(self.path(), f"{func} is a kernel of its own, whose weights are not visible")
        self._note(op, args, parents, tensors, out)
        return out

    def _node(self, tensor: Tensor) -> Node:
        key = identity(tensor)
        node = self.nodes.get(key)
        if node is None:
            at = storage(tensor)
            node = self.nodes[key] = leaf(key[1], at in self.fixed)
            if at not in self.known and not node.free and tensor.dim() > 2 and tensor.is_floating_point():
                self.unread(self.path(), "a tensor comes from outside of torch: what made it is not visible")
        return node

    def _note(self, op: Operation, args: Any, parents: list[Node], tensors: list[Tensor], out: Any) -> None:
        name, rest = op.name, args[1:]
        if name == "unbind":
            name, rest = "select", rest or (0,)
        elif name in ("split_with_sizes", "unsafe_split"):
            name = "split"
        for result in out if isinstance(out, (list, tuple)) else (out,):
            if not isinstance(result, Tensor):
                continue
            key = identity(result)
            node = self.nodes[key] = Node(name, parents, rest, key[1])
            if not parents:
                node.free = name not in RANDOM
            if name in SOFTMAX and len(parents) == 1:
                self._softmax(node, rest[0], result)
            elif name == "exp":
                self._exponential(node, result)
            elif name == "sum" and parents[0].soft:
                self._sum(node)
            elif name in PASSING or name in MIXING:
                self._pass(node, parents, tensors)

    def _softmax(self, node: Node, dim: int, result: Tensor) -> None:
        scores = node.parents[0]
        axis = origins(scores.axes[dim]) if scores.shape else set()
        node.soft = Soft(scores, self.path(), SOFTMAX[node.op], axis)
        self.softs.append(node.soft)
        self._differentiable(result)

    def _exponential(self, node: Node, result: Tensor) -> None:
        scores = node.parents[0]
        if scores.soft and scores.soft.kind == "log":
            scores.soft.kind = "softmax"
        node.soft = scores.soft or Soft(scores, "", "exponentials", None)
        if scores.op == "sub" and scores.parents[1:] and (total := logarithm(scores.parents[1])):
            node.soft.axis, node.soft.path = total, self.path()
            self.softs.append(node.soft)
        self._differentiable(result)

    def _differentiable(self, result: Tensor) -> None:
        if self.gradients and torch.is_grad_enabled() and result.is_floating_point():
            result.requires_grad_()

    def _pass(self, node: Node, parents: list[Node], tensors: list[Tensor]) -> None:
        """Weights stay weights; what is divided by its own sum becomes weights."""
        name = node.op
        node.total = next((p.total for p in parents if p.total), None)
        node.draft = next((p.draft for p in parents if p.draft), None)
        if name in ("div", "mul") and len(parents) == 2:
            for top, bottom in (parents, parents[::-1]):
                if bottom.total and self._divided(node, top, *bottom.total):
                    return
        softs = [p.soft for p in parents if p.soft]
        if not softs:
            return
        node.soft = soft = softs[0]
        soft.others += [other for other in softs[1:] if other is not soft]
        if name == "mul":
            node.operands = tuple(tensors)
        changed = name in MIXING or name == "native_dropout" or (name == "mul" and any(map(noise, parents)))
        if changed and soft.frozen is None:
            at = next(i for i, p in enumerate(parents) if p.soft)
            soft.frozen, soft.mixed = (tensors[at], parents[at]), soft.mixed or name in MIXING

    def _divided(self, node: Node, top: Node, soft: Soft, axis: set[int]) -> bool:
        if top.soft is soft:
            if soft.axis is None:
                soft.path = self.path()
                self.softs.append(soft)
            soft.axis, node.soft, node.total = axis, soft, None
        elif top.draft and top.draft[0] is soft:
            soft.axis, soft.path, node.draft = axis, soft.path or self.path(), None
            top.draft[1]()
        else:
            return False
        return True

    def _sum(self, node: Node) -> None:
        """The sum over a product with values, or a total to divide by."""
        times = node.parents[0]
        rank, dims = len(times.shape), node.args[0] if node.args else None
        gone = [d % rank for d in ([dims] if isinstance(dims, int) else dims or range(rank))]
        soft = times.soft
        parts = product(node)
        if parts and soft.axis is not None:
            at = next((i for i, p in enumerate(times.parents) if p.soft is soft), 0)
            operand = times.parents[at]
            summed = {
                f.origin
                for d in gone
                if d >= (pad := rank - len(operand.shape))
                for f in operand.axes[d - pad]
            }
            if summed & soft.axis and parts[3 - at]:
                self._weighted(soft, operand, times.operands[at], {}, None, "a sum of products")
                return
        node.total = soft, {f.origin for d in gone for f in times.axes[d]}

    def _product(
        self, op: Operation, parents: list[Node], tensors: list[Tensor], args: Any, out: Tensor
    ) -> Any:
        if op.written and compiled_caller():
            self.unread(self.path(), COMPILED)
            return out
        first = PRODUCTS[op.name]
        node = Node(op.name, parents, args[1:], out.shape)
        (left, right), pair = parents[first : first + 2], tensors[first : first + 2]
        if self.operands:
            node.operands = tuple(pair)
        for at, operand, other in ((0, left, right), (1, right, left)):
            soft = operand.soft
            if not soft:
                continue
            dim = -1 if at == 0 or len(right.shape) == 1 else -2
            contracted = origins(operand.axes[dim])
            if soft.axis is None:
                node.draft = soft, lambda s=soft, a=at, o=operand: self._late(s, o, pair[a], node)
                self.drafts.append(soft)
            elif contracted & soft.axis or (not soft.axis and operand.shape[dim] == 1):
                out = self._values(op, soft, node, at, pair, out)
                break
            elif other.raw:
                node.soft = soft
                soft.frozen, soft.mixed = soft.frozen or (pair[at], operand), True
        self.nodes[identity(out)] = node
        return out

    def _late(self, soft: Soft, operand: Node, exponentials: Tensor, node: Node) -> None:
        """Exponentials multiplied with values first, and divided by their sum afterwards."""
        dims = [d for d, axis in enumerate(operand.axes) if origins(axis) & (soft.axis or set())]
        weights = exponentials / exponentials.sum(dims, keepdim=True) if dims else exponentials
        self._weighted(soft, operand, weights, {}, None, "divided after the product with values")

    def _values(
        self, op: Operation, soft: Soft, node: Node, at: int, pair: list[Tensor], out: Tensor
    ) -> Tensor:
        """The product of weights and values; the weights are its left or (at = 1) its right operand."""
        operand = node.parents[PRODUCTS[op.name] + at]
        changed = "heads are mixed after the softmax" if soft.mixed else ""
        changed = changed or ("something is added in the product with values" if PRODUCTS[op.name] else "")

        def laid_out(axes: list[list[tuple[int, str]]]) -> tuple[Any, Any, Any]:
            *leading, rows, columns = axes if len(axes) > 1 else [*axes, []]
            lead = [f for axis in leading for f in axis]
            key, query = (columns, rows) if at == 0 else (rows, columns)
            size = torch.Size([s for s, _ in key]).numel()
            width = [
                (pair[1 - at].numel() // max(1, size * torch.Size([s for s, _ in lead]).numel()), "width")
            ]
            value = [*lead, *key, *width] if at == 0 else [*lead, *width, *key]
            result = [*lead, *query, *width] if at == 0 else [*lead, *width, *query]
            return Layout(tuple(value)), Layout(tuple(result)), None

        replaced = self._weighted(soft, operand, pair[at], {"value": pair[1 - at]}, (out, laid_out), changed)
        return out if replaced is None else replaced

    def _weighted(
        self,
        soft: Soft,
        operand: Node,
        weights: Tensor,
        tensors: dict[str, Tensor],
        result: Any,
        changed: str,
    ) -> Tensor | None:
        """Report an attention, if its scores come from queries and keys."""
        scores = find_scores(soft)
        if isinstance(scores, str):
            return None
        key = soft.axis or set()
        axes = scores.layout(operand.axes, key)
        operands: dict[str, tuple[Tensor, Layout | None]] = {}
        output = None
        if result is not None:
            value, out, _ = result[1](axes)
            operands["value"], output = (tensors["value"], value), (result[0], out)
        if scores.node.operands and len(scores.node.operands) == 2 and scores.node.op in PRODUCTS:
            operands |= scores.pair(key)
        kept, node = soft.frozen or (weights, operand)
        if node is not operand:
            axes = scores.layout(node.axes, key)
        for one in (soft, *soft.others):
            one.read = True
        layout = Layout(tuple(f for axis in axes for f in axis))
        path = common(soft.path, self.path())
        found = Found(path, soft.kind, (kept, layout), operands, output, changed)
        replaced = self.found(found)
        return None if replaced is None or output is None else output[1].restored(replaced, output[0].shape)

    def _fused(self, func: Any, op: Operation, parents: list[Node], args: Any, kwargs: Any, out: Any) -> Any:
        named = by_name(func, args, kwargs)
        names = ("query", "key", "value")
        operands: dict[str, tuple[Tensor, Layout | None]] = {name: (named[name], None) for name in names}
        weights = fused_attention(named)
        kind = "scaled_dot_product_attention"
        replaced = self.found(Found(self.path(), kind, (weights, None), operands, (out[0], None)))
        if replaced is not None:
            out = (replaced, *out[1:])
        self._note(op, args, parents, [], out[:1])
        return out

    def _layer(self, func: Any, op: Operation, args: Any, kwargs: Any) -> None:
        named, path = by_name(func, args, kwargs), self.path()
        if op.name == LAYERS[0]:
            path = f"{path}.self_attn".lstrip(".")
        try:
            weights, operands = fused_layer(named)
        except RuntimeError as error:
            self.unread(path, f"the fast path of torch could not be followed: {error}")
            return
        pairs: dict[str, tuple[Tensor, Layout | None]] = {n: (t, None) for n, t in operands.items()}
        self.found(
            Found(path, "fast path of torch", (weights, None), pairs, None, "the fast path is one operation")
        )

    def finish(self) -> None:
        """List every softmax that no attention was read from, with the reason."""
        for soft in self.softs:
            if not soft.read:
                scores = find_scores(soft)
                reason = (
                    scores if isinstance(scores, str) else "no product with values along its axis follows"
                )
                self.unread(soft.path, f"a softmax that is not read as attention: {reason}")
        for soft in self.drafts:
            if not soft.read and not isinstance(find_scores(soft), str):
                self.unread(soft.path, "exponentials of scores meet values, but are not divided by their sum")

    def path(self) -> str:
        """The path of the innermost module that is running: the first argument of a function on the stack."""
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_argcount and code.co_varnames:
                value = frame.f_locals.get(code.co_varnames[0])
                if isinstance(value, nn.Module) and id(value) in self.names:
                    return self.names[id(value)]
            frame = frame.f_back  # type: ignore[assignment]
        return ""


COMPILED = "compiled: its steps are not visible. Give the module as it was before torch.compile"


def compiled_caller() -> bool:
    """Whether generated code is calling; the frames of our own call come first."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith("torch/_compile.py"):
        frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename.endswith(("_dynamo/eval_frame.py", "_inductor/utils.py")):
            return True
        frame = frame.f_back
    return False


def identity(tensor: Tensor) -> tuple[Any, tuple[int, ...], Any]:
    """Equal for two views of the same numbers in the same order."""
    try:
        return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
    except RuntimeError:  # nested or sparse, or a subclass without memory of its own
        sizes = () if tensor.is_nested else tuple(tensor.shape)
        return id(tensor), sizes, None


def storage(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def tensors_in(value: Any, depth: int) -> list[Tensor]:
    """The tensors in a structure, and in the attributes of what is no structure."""
    if isinstance(value, Tensor):
        return [value]
    if depth == 0 or isinstance(value, (str, int, float, nn.Module)) or value is None:
        return []
    if isinstance(value, Mapping):
        value = list(value.values())
    elif not isinstance(value, (list, tuple)):
        value = list(getattr(value, "__dict__", {}).values())
    return [tensor for item in value for tensor in tensors_in(item, depth - 1)]


def noise(node: Node) -> bool:
    """Whether this is a mask drawn at random: dropout."""
    for _ in range(4):
        if node.op in ("bernoulli", "rand", "rand_like"):
            return True
        if not node.parents or node.soft:
            return False
        node = node.parents[0]
    return False


def logarithm(node: Node) -> set[int]:
    """The axis of a logarithm of summed exponentials: what is less by that has them divided by their sum."""
    while node.op != "logsumexp":
        if node.op not in PASSING or not node.parents:
            return set()
        node = node.parents[0]
    dims = node.args[0]
    return {f.origin for d in ([dims] if isinstance(dims, int) else dims) for f in node.parents[0].axes[d]}


def by_name(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def common(first: str, second: str) -> str:
    """The path of the smallest module that holds both."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return ".".join(a for a, b in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
