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
from headwork.inspection.axes import (
    FIRST_OPERAND,
    FUSED,
    KEEPS_WEIGHTS,
    LINEAR,
    MIXES_HEADS,
    RANDOM,
    SOFTMAX,
    ExponentialSum,
    TensorNode,
    UnnormalisedProduct,
    leaf_node,
    origins,
    product_operands,
)
from headwork.inspection.fused_weights import weights_of_fused_attention, weights_of_fused_layer
from headwork.inspection.operations import arguments_by_name, operation_of, storage_key, tensors_in, view_key
from headwork.inspection.scores import Layout, PendingSoftmax, find_scores, is_dropout_mask, logsumexp_axis

if TYPE_CHECKING:
    from headwork.inspection.attention import AttentionCollector

FAST_PATH_LAYERS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
COMPILED = "compiled: its steps are not visible. Give the module as it was before torch.compile"

OUTSIDE = "a tensor comes from outside of torch: what made it is not visible"


@dataclass(eq=False)
class DetectedAttention:
    """One attention as it is met; tensors as they entered the products, with their layouts (None: 4 axes)."""

    path: str
    kind: str
    weights: tuple[Tensor, Layout | None]
    tensors: dict[str, tuple[Tensor, Layout | None]] = field(default_factory=dict)
    obstacle: str = ""  # why its output cannot be replaced

    def arrange(self) -> Tensor:
        """The weights as (batch, head, query, key)."""
        tensor, layout = self.weights
        return layout.arrange(tensor) if layout else tensor

    def get(self, name: str) -> Tensor | None:
        """query, key, value or output as (batch, head, query or key, width)."""
        tensor, layout = self.tensors.get(name, (None, None))
        return tensor if tensor is None or layout is None else layout.arrange(tensor, axis_roles_of(name))


def axis_roles_of(name: str) -> tuple[str, ...]:
    return ("batch", "head", "query" if name in ("query", "output") else "key", "width")


class AttentionWatcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a pass; for each attention, what the collector's ``on_attention`` returns replaces its output."""

    supports_higher_order_operators = True

    def __init__(
        self, parts: list[tuple[str, nn.Module]], inputs: Any, collector: "AttentionCollector"
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_attention, self.before_write = collector.on_attention, collector.before_write
        self.add_unread = collector.add_unread
        self.keeps_operands = not {"query", "key"}.isdisjoint(collector.keep)
        self.gradients = collector.gradients
        self.names = {id(part): path for path, part in parts}
        self.data_storages = {storage_key(tensor) for tensor in tensors_in(inputs, 7)}
        values = [v for _, part in parts for name, v in vars(part).items() if name[0] != "_"]
        values += [v for _, part in parts for v in (part._parameters, part._buffers)]
        self.parameter_storages = {storage_key(tensor) for tensor in tensors_in(values, 2)}
        self.nodes: dict[Any, TensorNode] = {}
        self.softmaxes: dict[PendingSoftmax, None] = {}  # in the order of the pass
        self.exponentials: dict[int, PendingSoftmax] = {}  # by what they are exponentials of

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # what is compiled runs compiled, as it does without us

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            self.add_unread(self.path(), f"{func.__name__} is one operation, whose inside is not visible")
            return func(*args, **kwargs)
        op = operation_of(func)
        # A linear layer stays whole: how torch folds it depends on the parameter, and so do the last bits.
        linear = op.name in LINEAR and args[1].dim() < 3 and self._node_of(args[1]).is_parameter
        if op.composite and not linear:
            with self:
                return func.decompose(*args, **kwargs)
        for at, name in op.writes:
            target = args[at] if at < len(args) else kwargs.get(name)
            if isinstance(target, Tensor):
                self._before_writing(storage_key(target), kwargs, args)
        out_names = {name for index, name in op.writes if index >= len(args)}
        tensors = tensors_in([*args, *(v for name, v in kwargs.items() if name not in out_names)], 2)
        parents = [self._node_of(tensor) for tensor in tensors]
        if op.name == "mul" and op.writes and parents[0].softmax and any(map(is_dropout_mask, parents[1:])):
            parents[0].softmax.original = tensors[0].clone(), parents[0]
        if op.composite:
            with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.ADInplaceOrView, False):
                out = func(*args, **kwargs)
        else:
            out = func(*args, **kwargs)
        try:
            if op.name in FIRST_OPERAND and op.writes and compiled_caller():
                self.add_unread(self.path(), COMPILED)
                return out
            if op.name in FIRST_OPERAND:
                return self._multiply(op.name, parents, tensors, out)
            if op.name in FUSED:
                out = self._fused_attention(arguments_by_name(func, args, kwargs), out)
            elif op.name in FAST_PATH_LAYERS:
                self._fast_path_layer(op.name, arguments_by_name(func, args, kwargs))
            elif not op.is_torch and sum(t.is_floating_point() and t.dim() > 2 for t in tensors) > 2:
                self.add_unread(self.path(), f"{func} is a kernel of its own, whose weights are not visible")
            self._add(op.name, args[1:] or (0,) * (func.__name__ == "unbind.int"), parents, tensors, out)
        except HeadworkError:
            raise
        except Exception as error:  # never stop a module because it could not be followed
            self.add_unread(self.path(), f"{op.name} could not be followed: {type(error).__name__}: {error}")
        return out

    def _before_writing(self, storage: int, kwargs: Any, args: Any) -> None:
        """Before an operation writes: what is kept from there is copied; a buffer becomes a cache of data."""
        for save in self.before_write.pop(storage, ()):
            save()
        tensors = tensors_in((args, kwargs), 3) if storage in self.parameter_storages else []
        if not all(self._node_of(tensor).constant for tensor in tensors):
            self.data_storages.add(storage)
            self.nodes = {k: n for k, n in self.nodes.items() if n.op != "leaf" or k[0] != storage}

    def _node_of(self, tensor: Tensor) -> TensorNode:
        key = view_key(tensor)
        node = self.nodes.get(key)
        if node is None:
            storage = storage_key(tensor)
            node = self.nodes[key] = leaf_node(key[1], storage not in self.data_storages)
            has_origin = not node.constant or storage in self.parameter_storages
            if not has_origin and len(key[1]) > 2 and tensor.is_floating_point():
                self.add_unread(self.path(), COMPILED if compiled_caller() else OUTSIDE)
        return node

    def _add(self, name: str, args: Any, parents: list[TensorNode], tensors: list[Tensor], out: Any) -> None:
        for result in out if isinstance(out, (list, tuple)) else (out,):
            if not isinstance(result, Tensor):
                continue
            key = view_key(result)
            node = self.nodes[key] = TensorNode(name, parents, args, key[1])
            if not parents:
                node.constant = name not in RANDOM
            elif name in SOFTMAX:
                axis = origins(parents[0].axes[args[0]]) if key[1] else set()
                softmax = PendingSoftmax(parents[0], self.path(), SOFTMAX[name], axis)
                self._start_softmax(node, softmax, result)
            elif name in ("exp", "exp2") or (
                name == "pow" and isinstance(args[0], Tensor) and not parents[1:]
            ):
                self._start_exponentials(node, result)
            elif parents[0].softmax and (
                name == "sum" or (name == "linalg_vector_norm" and args[:1] == (1,))
            ):
                self._sum(node, args if name == "sum" else args[1:])
            elif name in KEEPS_WEIGHTS or name in MIXES_HEADS:
                self._pass_on(node, parents, tensors)

    def _start_softmax(self, node: TensorNode, softmax: PendingSoftmax, result: Tensor) -> None:
        node.softmax = softmax
        if softmax.axis is not None:
            self.softmaxes[softmax] = None
        if self.gradients and torch.is_grad_enabled() and result.is_floating_point():
            result.requires_grad_()

    def _start_exponentials(self, node: TensorNode, result: Tensor) -> None:
        scores = node.parents[0]
        softmax = self.exponentials.get(id(scores)) or scores.softmax
        if softmax is None or (softmax.kind == "log" and softmax is not scores.softmax):
            subtracted = scores.parents[1:] if scores.op == "sub" else []
            axis = logsumexp_axis(subtracted[0]) if subtracted else None
            softmax = PendingSoftmax(scores, self.path() if axis else "", "exponentials", axis or None)
        softmax.kind = "softmax" if softmax.kind == "log" else softmax.kind
        self.exponentials[id(scores)] = softmax
        self._start_softmax(node, softmax, result)

    def _pass_on(self, node: TensorNode, parents: list[TensorNode], tensors: list[Tensor]) -> None:
        """Weights stay weights; what is divided by its own sum becomes weights."""
        totals = {id(total.softmax): total for p in parents if (total := p.exponential_sum)}
        products = {id(product.softmax): product for p in parents if (product := p.unnormalised_product)}
        node.exponential_sum = totals.popitem()[1] if len(totals) == 1 else None
        node.unnormalised_product = products.popitem()[1] if len(products) == 1 else None
        if node.op in ("div", "mul") and len(parents) == 2:
            for top, bottom in (parents, parents[::-1]):
                if bottom.exponential_sum and self._divide(node, top, *bottom.exponential_sum):
                    return
        number = next((i for i, p in enumerate(parents) if p.softmax), None)
        if number is None:
            return
        node.softmax = softmax = parents[number].softmax
        softmax.combined_with += [p.softmax for p in parents if p.softmax and p.softmax is not softmax]
        if node.op == "mul":
            node.operands = tuple(tensors)
            if softmax.axis == set() and len(parents) == 2 and not parents[1 - number].constant:
                self._report(softmax, parents[number], tensors[number], obstacle="a single key")
        random = node.op == "native_dropout" or (node.op == "mul" and any(map(is_dropout_mask, parents)))
        if softmax.original is None and (random or node.op in MIXES_HEADS):
            softmax.original, softmax.heads_mixed = (tensors[number], parents[number]), not random

    def _divide(self, node: TensorNode, top: TensorNode, softmax: PendingSoftmax, axis: set[int]) -> bool:
        if top.softmax is softmax:
            if softmax.axis is None:
                softmax.path = self.path()
                self.softmaxes[softmax] = None
            softmax.axis, node.softmax, node.exponential_sum = axis, softmax, None
            return True
        if (product := top.unnormalised_product) and product.softmax is softmax:
            softmax.axis, node.unnormalised_product = axis, None
            dims = [d for d, a in enumerate(product.operand.axes) if origins(a) & axis]
            weights = product.exponentials / product.exponentials.sum(dims, keepdim=True)
            obstacle = "it is divided by the sum after the product with values"
            self._report(softmax, product.operand, weights, obstacle=obstacle)
            return True
        return False

    def _sum(self, node: TensorNode, args: Any) -> None:
        """The sum over a product with values, or a total to divide by."""
        multiplication, softmax = node.parents[0], node.parents[0].softmax
        rank, dims = len(multiplication.shape), args[0] if args else None
        summed = [d % rank for d in ([dims] if isinstance(dims, int) else dims or range(rank))]
        parts = product_operands(node)
        if parts and softmax.axis:
            number = next((i for i, p in enumerate(multiplication.parents) if p.softmax is softmax), 0)
            operand = multiplication.parents[number]
            axes = ((),) * (rank - len(operand.shape)) + operand.axes
            if any(origins(axes[d]) & softmax.axis for d in summed) and parts[3 - number]:
                obstacle = "its product with values is a sum"
                self._report(softmax, operand, multiplication.operands[number], obstacle=obstacle)
                return
        axis = {f.origin for d in summed for f in multiplication.axes[d]}
        node.exponential_sum = ExponentialSum(softmax, axis)

    def _multiply(self, name: str, parents: list[TensorNode], tensors: list[Tensor], out: Tensor) -> Tensor:
        first_operand = FIRST_OPERAND[name]
        node = TensorNode(name, parents, (), tuple(out.shape))
        node.data_product = not any(p.constant for p in parents[first_operand : first_operand + 2])
        nodes, pair = parents[first_operand : first_operand + 2], tensors[first_operand : first_operand + 2]
        if self.keeps_operands:
            node.operands = tuple(pair)
        for number, operand in enumerate(nodes):
            softmax = operand.softmax
            if not softmax:
                continue
            dim = -1 if number == 0 or len(operand.shape) == 1 else -2
            if softmax.axis is None:
                node.unnormalised_product = UnnormalisedProduct(softmax, operand, pair[number])
                self.softmaxes[softmax] = None
                softmax.path = softmax.path or self.path()
            elif origins(operand.axes[dim]) & softmax.axis or (not softmax.axis and operand.shape[dim] == 1):
                obstacle = "something is added in the product with values" if first_operand else ""
                node.data_product = False
                out = self._report(softmax, operand, pair[number], number, pair[1 - number], out, obstacle)
                break
            elif nodes[1 - number].is_parameter:
                node.softmax, softmax.heads_mixed = softmax, True
                softmax.original = softmax.original or (pair[number], operand)
        if node.data_product and any(n.data_product for n in nodes):
            reason = "two products of data without softmax between them (linear attention?)"
            self.add_unread(self.path(), reason)
        self.nodes[view_key(out)] = node
        return out

    def _report(
        self,
        softmax: PendingSoftmax,
        operand: TensorNode,
        weights: Tensor,
        operand_number: int = 0,
        value: Tensor | None = None,
        out: Any = None,
        obstacle: str = "",
    ) -> Any:
        """Tell of an attention of queries and keys; its weights are operand ``operand_number``."""
        scores = find_scores(softmax)
        if isinstance(scores, str):
            return out
        for one in (softmax, *softmax.combined_with):
            one.was_read = True
        tensors: dict[str, tuple[Tensor, Layout | None]] = {**scores.operands()}
        roles = scores.axis_roles(operand.axes)
        if value is not None and len(roles) > 1:
            *leading, rows, columns = roles
            lead, width = [f for axis in leading for f in axis], (-1, "width")
            inner = [*lead, *columns, width] if operand_number == 0 else [*lead, width, *rows]
            outer = [*lead, *rows, width] if operand_number == 0 else [*lead, width, *columns]
            tensors |= {"value": (value, Layout(inner)), "output": (out, Layout(outer))}
        original, node = softmax.original or (weights, operand)
        axes = roles if node is operand else scores.axis_roles(node.axes)
        layout = Layout([factor for axis in axes for factor in axis])
        obstacle = "its heads are mixed after the softmax" if softmax.heads_mixed else obstacle
        pairs = zip(softmax.path.split("."), self.path().split("."), strict=False)
        path = ".".join(name for name, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
        detected = DetectedAttention(path, softmax.kind, (original, layout), tensors, obstacle)
        replaced = self.on_attention(detected)
        return out if replaced is None else Layout(outer).restore(replaced, out, axis_roles_of("output"))

    def _fused_attention(self, arguments: Mapping[str, Any], out: Any) -> Any:
        if compiled_caller():
            self.add_unread(self.path(), COMPILED)
            return out
        tensors: dict[str, Any] = {name: (arguments[name], None) for name in ("query", "key", "value")}
        tensors["output"] = out[0], None
        kind, weights = "scaled_dot_product_attention", (weights_of_fused_attention(arguments), None)
        replaced = self.on_attention(DetectedAttention(self.path(), kind, weights, tensors))
        return out if replaced is None else (replaced, *out[1:])

    def _fast_path_layer(self, name: str, arguments: Mapping[str, Any]) -> None:
        path = f"{self.path()}.self_attn".lstrip(".") if name == FAST_PATH_LAYERS[0] else self.path()
        weights, tensors = weights_of_fused_layer(arguments)
        pairs: dict[str, Any] = {name: (tensor, None) for name, tensor in tensors.items()}
        kind, obstacle = "fast path of torch", "it is one operation"
        self.on_attention(DetectedAttention(path, kind, (weights, None), pairs, obstacle))

    def finish(self) -> None:
        """List every softmax that no attention was read from, and forget the pass."""
        for softmax in (softmax for softmax in self.softmaxes if not softmax.was_read):
            scores = find_scores(softmax)
            reason = scores if isinstance(scores, str) else "no product with values along its axis follows"
            if softmax.axis is not None:
                self.add_unread(softmax.path, f"a softmax that is not read as attention: {reason}")
            elif scores is not reason:
                reason = "exponentials of scores are multiplied with values but never divided by their sum"
                self.add_unread(softmax.path, reason)
        self.nodes.clear()
        self.softmaxes.clear()
        self.exponentials.clear()
        self.before_write.clear()

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
