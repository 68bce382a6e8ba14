"""A forward pass watched operation by operation, below autograd: where softmax stands between two products.

``AttentionWatcher`` lets every operation run unchanged, so the output is the module's own, and keeps a
``TensorNode`` per tensor. A softmax (or exponentials over their sum) is followed element by element to the
product of its axis with the values, and back to its scores (``inspection/scores.py``). The rest is listed
with reasons.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from headwork.errors import HeadworkError
from headwork.inspection.axes import FUSED, LINEAR, PRODUCTS, SOFTMAX, TensorNode, leaf, origins, product
from headwork.inspection.fused_weights import fused_attention, fused_layer
from headwork.inspection.operations import TorchOperation, by_name, identity, operation, storage, tensors_in
from headwork.inspection.scores import Layout, PendingSoftmax, find_scores, logarithm, noise

if TYPE_CHECKING:
    from headwork.inspection.attention import Collector

LAYERS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
MIXING = {"convolution", "native_batch_norm", "_native_batch_norm_legit_no_training", "native_layer_norm"}
_PASSING = """
    view _unsafe_view reshape _reshape_alias permute t transpose unsqueeze squeeze select expand slice split
    cat stack clone detach alias contiguous _to_copy lift_fresh copy mul div add sub where masked_fill
    nan_to_num clamp clamp_min index index_select gather scatter constant_pad_nd roll flip tril triu repeat
    masked_scatter index_put reciprocal native_dropout
"""
PASSING = MIXING.union(_PASSING.split())  # through these, weights stay weights
RANDOM = {"rand", "rand_like", "randn", "randn_like", "normal", "uniform", "bernoulli"}
COMPILED = "compiled: its steps are not visible. Give the module as it was before torch.compile"

OUTSIDE = "a tensor comes from outside of torch: what made it is not visible"


@dataclass(eq=False)
class DetectedAttention:
    """One attention as it is met; tensors as they entered the products, with their layouts (None: 4 axes)."""

    path: str
    kind: str
    weights: tuple[Tensor, Layout | None]
    tensors: dict[str, tuple[Tensor, Layout | None]] = field(default_factory=dict)
    fixed: str = ""  # why its output cannot be replaced

    def arranged(self) -> Tensor:
        """The weights as (batch, head, query, key)."""
        tensor, layout = self.weights
        return layout.arranged(tensor) if layout else tensor

    def get(self, name: str) -> Tensor | None:
        """query, key, value or output as (batch, head, query or key, width)."""
        tensor, layout = self.tensors.get(name, (None, None))
        return tensor if tensor is None or layout is None else layout.arranged(tensor, roles_of(name))


def roles_of(name: str) -> tuple[str, ...]:
    return ("batch", "head", "query" if name in ("query", "output") else "key", "width")


class AttentionWatcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a pass; for each attention, what the collector's ``on_attention`` returns replaces its output."""

    supports_higher_order_operators = True

    def __init__(self, parts: list[tuple[str, nn.Module]], inputs: Any, collector: "Collector") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_attention, self.unread, self.on_write = (
            collector.on_attention,
            collector.miss,
            collector.on_write,
        )
        self.operands, self.gradients = not {"query", "key"}.isdisjoint(collector.keep), collector.gradients
        self.names = {id(part): path for path, part in parts}
        self.known = {storage(tensor) for tensor in tensors_in(inputs, 7)}
        own = [v for _, part in parts for name, v in vars(part).items() if name[0] != "_"]
        own += [v for _, part in parts for v in (part._parameters, part._buffers)]
        self.learned = {storage(tensor) for tensor in tensors_in(own, 2)}
        self.nodes: dict[Any, TensorNode] = {}
        self.softs: list[PendingSoftmax] = []
        self.exponentials: dict[int, PendingSoftmax] = {}  # by what they are exponentials of

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # what is compiled runs compiled, as it does without us

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            self.unread(self.path(), f"{func.__name__} is one operation, whose inside is not visible")
            return func(*args, **kwargs)
        op = operation(func)
        # A linear layer stays whole: how torch folds it depends on the parameter, and so do the last bits.
        if op.composite and not (
            op.name in LINEAR and args[1].dim() < 3 and self._node(args[1]).is_parameter
        ):
            with self:
                return func.decompose(*args, **kwargs)
        for at, name in op.written:
            target = args[at] if at < len(args) else kwargs.get(name)
            if isinstance(target, Tensor):
                self._written(storage(target), kwargs, args)
        tensors: list[Tensor] = []
        results = {name for at, name in op.written if at >= len(args)}
        for value in (*args, *(v for name, v in kwargs.items() if name not in results)):
            if isinstance(value, Tensor):
                tensors.append(value)
            elif isinstance(value, (list, tuple)):
                tensors += [item for item in value if isinstance(item, Tensor)]
        parents = [self._node(tensor) for tensor in tensors]
        if op.name == "mul" and op.written and parents[0].soft and any(map(noise, parents[1:])):
            parents[0].soft.frozen = tensors[0].clone(), parents[0]
        if op.composite:
            with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):
                out = func(*args, **kwargs)
        else:
            out = func(*args, **kwargs)
        try:
            if op.name in PRODUCTS:
                return self._product(op, parents, tensors, out)
            if op.name in FUSED:
                out = self._fused(by_name(func, args, kwargs), out)
            elif op.name in LAYERS:
                self._layer(op, by_name(func, args, kwargs))
            elif not op.own and sum(t.is_floating_point() and t.dim() > 2 for t in tensors) > 2:
                self.unread(self.path(), f"{func} is a kernel of its own, whose weights are not visible")
            self._note(op.name, args[1:] or (0,) * (func.__name__ == "unbind.int"), parents, tensors, out)
        except HeadworkError:
            raise
        except Exception as error:  # never stop a module because it could not be followed
            self.unread(self.path(), f"{op.name} could not be followed: {type(error).__name__}: {error}")
        return out

    def _written(self, at: int, kwargs: Any, args: Any) -> None:
        """Before an operation writes: what is kept from there is copied; a buffer becomes a cache of data."""
        for save in self.on_write.pop(at, ()):
            save()
        if at in self.learned and not all(self._node(t).constant for t in tensors_in((args, kwargs), 3)):
            self.known.add(at)
            self.nodes = {k: n for k, n in self.nodes.items() if n.op != "leaf" or k[0] != at}

    def _node(self, tensor: Tensor) -> TensorNode:
        key = identity(tensor)
        node = self.nodes.get(key)
        if node is None:
            at = storage(tensor)
            node = self.nodes[key] = leaf(key[1], at not in self.known)
            if node.constant and at not in self.learned and len(key[1]) > 2 and tensor.is_floating_point():
                self.unread(self.path(), COMPILED if compiled_caller() else OUTSIDE)
        return node

    def _note(self, name: str, rest: Any, parents: list[TensorNode], tensors: list[Tensor], out: Any) -> None:
        for result in out if isinstance(out, (list, tuple)) else (out,):
            if not isinstance(result, Tensor):
                continue
            key = identity(result)
            node = self.nodes[key] = TensorNode(name, parents, rest, key[1])
            if not parents:
                node.constant = name not in RANDOM
            elif name in SOFTMAX:
                axis = origins(parents[0].axes[rest[0]]) if key[1] else set()
                self._begin(node, PendingSoftmax(parents[0], self.path(), SOFTMAX[name], axis), result)
            elif name in ("exp", "exp2") or (
                name == "pow" and isinstance(rest[0], Tensor) and not parents[1:]
            ):
                self._exponential(node, result)
            elif parents[0].soft and (name == "sum" or (name == "linalg_vector_norm" and rest[:1] == (1,))):
                self._sum(node, rest if name == "sum" else rest[1:])
            elif name in PASSING:
                self._pass(node, parents, tensors)

    def _begin(self, node: TensorNode, soft: PendingSoftmax, result: Tensor) -> None:
        node.soft = soft
        if soft.axis is not None and soft not in self.softs:
            self.softs.append(soft)
        if self.gradients and torch.is_grad_enabled() and result.is_floating_point():
            result.requires_grad_()

    def _exponential(self, node: TensorNode, result: Tensor) -> None:
        scores = node.parents[0]
        soft = self.exponentials.get(id(scores)) or scores.soft
        if soft is None or (soft.kind == "log" and soft is not scores.soft):
            less = scores.parents[1:] if scores.op == "sub" else []
            axis = logarithm(less[0]) if less else None
            soft = PendingSoftmax(scores, self.path() if axis else "", "exponentials", axis or None)
        soft.kind = "softmax" if soft.kind == "log" else soft.kind
        self.exponentials[id(scores)] = soft
        self._begin(node, soft, result)

    def _pass(self, node: TensorNode, parents: list[TensorNode], tensors: list[Tensor]) -> None:
        """Weights stay weights; what is divided by its own sum becomes weights."""
        totals = {id(p.total[0]): p.total for p in parents if p.total}
        drafts = {id(p.unnormalised[0]): p.unnormalised for p in parents if p.unnormalised}
        node.total = totals.popitem()[1] if len(totals) == 1 else None
        node.unnormalised = drafts.popitem()[1] if len(drafts) == 1 else None
        if node.op in ("div", "mul") and len(parents) == 2:
            for top, bottom in (parents, parents[::-1]):
                if bottom.total and self._divided(node, top, *bottom.total):
                    return
        at = next((i for i, p in enumerate(parents) if p.soft), None)
        if at is None:
            return
        node.soft = soft = parents[at].soft
        soft.others += [p.soft for p in parents if p.soft and p.soft is not soft]
        if node.op == "mul":
            node.operands = tuple(tensors)
            if soft.axis == set() and len(parents) == 2 and not parents[1 - at].constant:
                self._report(soft, parents[at], tensors[at], fixed="a single key")
        random = node.op == "native_dropout" or (node.op == "mul" and any(map(noise, parents)))
        if soft.frozen is None and (random or node.op in MIXING):
            soft.frozen, soft.mixed = (tensors[at], parents[at]), not random

    def _divided(self, node: TensorNode, top: TensorNode, soft: PendingSoftmax, axis: set[int]) -> bool:
        if top.soft is soft:
            if soft.axis is None:
                soft.path = self.path()
                self.softs.append(soft)
            soft.axis, node.soft, node.total = axis, soft, None
            return True
        if top.unnormalised and top.unnormalised[0] is soft:
            _, operand, exponentials = top.unnormalised
            soft.axis, node.unnormalised = axis, None
            dims = [d for d, a in enumerate(operand.axes) if origins(a) & axis]
            weights = exponentials / exponentials.sum(dims, keepdim=True)
            self._report(
                soft, operand, weights, fixed="it is divided by the sum after the product with values"
            )
            return True
        return False

    def _sum(self, node: TensorNode, rest: Any) -> None:
        """The sum over a product with values, or a total to divide by."""
        times, soft = node.parents[0], node.parents[0].soft
        rank, dims = len(times.shape), rest[0] if rest else None
        gone = [d % rank for d in ([dims] if isinstance(dims, int) else dims or range(rank))]
        parts = product(node)
        if parts and soft.axis:
            at = next((i for i, p in enumerate(times.parents) if p.soft is soft), 0)
            operand = times.parents[at]
            axes = ((),) * (rank - len(operand.shape)) + operand.axes
            if any(origins(axes[d]) & soft.axis for d in gone) and parts[3 - at]:
                self._report(soft, operand, times.operands[at], fixed="its product with values is a sum")
                return
        node.total = soft, {f.origin for d in gone for f in times.axes[d]}

    def _product(
        self, op: TorchOperation, parents: list[TensorNode], tensors: list[Tensor], out: Tensor
    ) -> Tensor:
        if op.written and compiled_caller():
            self.unread(self.path(), COMPILED)
            return out
        first = PRODUCTS[op.name]
        node = TensorNode(op.name, parents, (), tuple(out.shape))
        node.data_product = not any(p.constant for p in parents[first : first + 2])
        nodes, pair = parents[first : first + 2], tensors[first : first + 2]
        if self.operands:
            node.operands = tuple(pair)
        for at, operand in enumerate(nodes):
            soft = operand.soft
            if not soft:
                continue
            dim = -1 if at == 0 or len(operand.shape) == 1 else -2
            if soft.axis is None:
                node.unnormalised = soft, operand, pair[at]
                self.softs += [soft] if soft not in self.softs else []
                soft.path = soft.path or self.path()
            elif origins(operand.axes[dim]) & soft.axis or (not soft.axis and operand.shape[dim] == 1):
                fixed = "something is added in the product with values" if first else ""
                node.data_product = False
                out = self._report(soft, operand, pair[at], at, pair[1 - at], out, fixed)
                break
            elif nodes[1 - at].is_parameter:
                node.soft, soft.frozen, soft.mixed = soft, soft.frozen or (pair[at], operand), True
        if node.data_product and any(n.data_product for n in nodes):
            self.unread(self.path(), "two products of data without softmax between them (linear attention?)")
        self.nodes[identity(out)] = node
        return out

    def _report(
        self,
        soft: PendingSoftmax,
        operand: TensorNode,
        weights: Tensor,
        at: int = 0,
        value: Tensor | None = None,
        out: Any = None,
        fixed: str = "",
    ) -> Any:
        """Tell of an attention, if its scores come from queries and keys; ``at``: which operand it is."""
        scores = find_scores(soft)
        if isinstance(scores, str):
            return out
        for one in (soft, *soft.others):
            one.read = True
        tensors: dict[str, tuple[Tensor, Layout | None]] = {**scores.operands()}
        roles = scores.roles(operand.axes)
        if value is not None and len(roles) > 1:
            *leading, rows, columns = roles
            lead, width = [f for axis in leading for f in axis], (-1, "width")
            inner = [*lead, *columns, width] if at == 0 else [*lead, width, *rows]
            outer = [*lead, *rows, width] if at == 0 else [*lead, width, *columns]
            tensors |= {"value": (value, Layout(inner)), "output": (out, Layout(outer))}
        kept, node = soft.frozen or (weights, operand)
        layout = Layout([f for axis in (roles if node is operand else scores.roles(node.axes)) for f in axis])
        fixed = "its heads are mixed after the softmax" if soft.mixed else fixed
        pairs = zip(soft.path.split("."), self.path().split("."), strict=False)
        path = ".".join(name for name, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
        replaced = self.on_attention(DetectedAttention(path, soft.kind, (kept, layout), tensors, fixed))
        return out if replaced is None else Layout(outer).restored(replaced, out, roles_of("output"))

    def _fused(self, named: Mapping[str, Any], out: Any) -> Any:
        if compiled_caller():
            self.unread(self.path(), COMPILED)
            return out
        tensors: dict[str, Any] = {name: (named[name], None) for name in ("query", "key", "value")}
        tensors["output"] = out[0], None
        kind, weights = "scaled_dot_product_attention", (fused_attention(named), None)
        replaced = self.on_attention(DetectedAttention(self.path(), kind, weights, tensors))
        return out if replaced is None else (replaced, *out[1:])

    def _layer(self, op: TorchOperation, named: Mapping[str, Any]) -> None:
        path = f"{self.path()}.self_attn".lstrip(".") if op.name == LAYERS[0] else self.path()
        weights, tensors = fused_layer(named)
        pairs: dict[str, Any] = {name: (tensor, None) for name, tensor in tensors.items()}
        kind, fixed = "fast path of torch", "it is one operation"
        self.on_attention(DetectedAttention(path, kind, (weights, None), pairs, fixed))

    def finish(self) -> None:
        """List every softmax that no attention was read from, and forget the pass."""
        for soft in (soft for soft in self.softs if not soft.read):
            scores = find_scores(soft)
            reason = scores if isinstance(scores, str) else "no product with values along its axis follows"
            if soft.axis is not None:
                self.unread(soft.path, f"a softmax that is not read as attention: {reason}")
            elif scores is not reason:
                self.unread(soft.path, "exponentials of scores meet values, but not their own sum")
        self.nodes.clear()
        self.softs.clear()
        self.exponentials.clear()
        self.on_write.clear()

    def path(self) -> str:
        """The path of the innermost module that runs: the first argument of a function on the stack."""
        frame: Any = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            value = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if isinstance(value, nn.Module) and id(value) in self.names:
                break
            frame = frame.f_back
        return "" if frame is None else self.names[id(value)]


def compiled_caller() -> bool:
    """Whether what torch.compile made is calling."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "compile_wrapper":
        frame = frame.f_back
    return frame is not None
