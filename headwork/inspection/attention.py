"""``headwork.attention_of``: every attention inside any torch module, in one forward pass of its own.

The module runs once, as it is: its mode, its gradients, its fused or compiled kernels, so the output is bit
for bit its own. The pass is watched below autograd (``inspection/watching.py``). Afterwards everything is as
it was: training mode, parameters, buffers, the state of the random generators; hooks are never set.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import is_lazy

from headwork.errors import InputError, TooLarge, check_all_known, unknown_name
from headwork.inspection.operations import storage_key
from headwork.inspection.scores import Layout
from headwork.inspection.watching import COMPILED, OUTSIDE, AttentionWatcher, DetectedAttention

LIMIT = 2**30  # bytes of what is kept
TENSOR_NAMES = ("weights", "query", "key", "value", "output")
BeforeWrite = dict[int, list[Callable[[], None]]]  # what to do before a storage is written to


@dataclass(eq=False)
class AttentionRecord:
    """One attention of a forward pass.

    ``path``: the module that called it, as in ``named_modules`` ("" is the module itself). ``call_index``:
    which call of that path, from 0 (a layer that is used twice has two records). ``kind``: how it was
    computed: "scaled_dot_product_attention", "fast path of torch", "softmax" or "exponentials". ``weights``:
    (batch, head, query, key), after softmax and before dropout. On request ``query`` (batch, head, query,
    width), ``key`` and ``value`` (batch, head, key, width) as they entered the products, ``output`` (batch,
    head, query, width); None where the module has no such tensor. Windows are part of the batch.
    ``graph_weights`` are the weights as a tensor of the autograd graph, and their layout, for gradients.
    """

    path: str
    kind: str
    call_index: int
    weights: Tensor = field(repr=False)
    query: Tensor | None = field(default=None, repr=False)
    key: Tensor | None = field(default=None, repr=False)
    value: Tensor | None = field(default=None, repr=False)
    output: Tensor | None = field(default=None, repr=False)
    graph_weights: tuple[Tensor, Layout | None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Unread:
    """What looked like attention and was not read, or could not be: where, and why."""

    path: str
    reason: str


@dataclass(eq=False)
class AttentionRecords:
    """``output`` of the module, ``records`` in the order of the forward pass, ``unread`` with reasons."""

    output: Any = field(repr=False)
    records: list[AttentionRecord]
    unread: list[Unread]

    def gradients(self, target: Tensor) -> list[Tensor]:
        """The derivative of a number by the weights of each record, (batch, head, query, key).

        Needs ``attention_of(..., gradients=True)``; ``target`` is computed from ``output``, for instance
        ``result.output[0, 3]``. It can be asked for several targets. Zeros where a record has no influence.
        """
        sources = [record.graph_weights for record in self.records if record.graph_weights]
        if len(sources) < len(self.records) or not all(tensor.requires_grad for tensor, _ in sources):
            raise InputError(
                "gradients: the weights are not part of the graph. Call attention_of(..., gradients=True); "
                "a module that computes under torch.no_grad has none."
            )
        tensors = [tensor for tensor, _ in sources]
        grads = torch.autograd.grad(target, tensors, retain_graph=True, allow_unused=True)
        filled = [torch.zeros_like(t) if g is None else g for g, t in zip(grads, tensors, strict=True)]
        return [layout.arrange(g) if layout else g for g, (_, layout) in zip(filled, sources, strict=True)]


def attention_of(
    module: nn.Module,
    /,
    *inputs: Any,
    paths: str | Sequence[str] | None = None,
    keep: Sequence[str] = ("weights",),
    limit: int = LIMIT,
    gradients: bool = False,
    **kwargs: Any,
) -> AttentionRecords:
    """Every attention in one forward pass ``module(*inputs, **kwargs)``.

    ``paths`` keeps the records whose path is one of these, lies inside one, or matches a shell pattern.
    ``keep`` adds "query", "key", "value" and "output" of each head. What is kept takes at most ``limit``
    bytes, or it is refused with the size that it would take. With ``gradients=True`` the pass is recorded for
    ``result.gradients(target)``: fused attention is then computed in its steps, so the output may differ
    from the module's own in the last bits; otherwise it is bit for bit the same.

    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    >>> result = attention_of(layer, *[torch.ones(1, 3, 4)] * 3)
    >>> result.records, result.unread
    ([AttentionRecord(path='', kind='softmax', call_index=0)], [])
    >>> result.records[0].weights.shape
    torch.Size([1, 2, 3, 3])
    """
    check_all_known("tensor to keep", keep, TENSOR_NAMES)
    pattern = [paths] if isinstance(paths, str) else paths
    collector = AttentionCollector(pattern, ("weights", *keep), limit, gradients)
    output = run_with_collector(module, inputs, kwargs, collector)
    collector.check()
    reasons = {one.reason for one in collector.unread}
    unread = [one for one in collector.unread if COMPILED not in reasons or one.reason != OUTSIDE]
    return AttentionRecords(output, collector.records, list(dict.fromkeys(unread)))


def run_with_collector(
    module: nn.Module,
    inputs: Sequence[Any],
    kwargs: Any,
    collector: "AttentionCollector",
    stepwise: bool = False,
) -> Any:
    """The output of a pass whose attentions ``collector`` gets; ``stepwise`` leaves torch's fast path."""
    if not isinstance(module, nn.Module):
        raise InputError(
            f"attention_of: {type(module).__name__} is not a torch module. Give an nn.Module and its inputs; "
            "headwork.trace reads what headwork.load gives."
        )
    if torch.compiler.is_compiling():
        raise InputError("attention_of: nothing is recorded inside torch.compile. Call it outside.")
    parts = list(module.named_modules())
    watch = AttentionWatcher(parts, (inputs, kwargs), collector)
    for path in compiled_parts(parts):
        collector.add_unread(path, COMPILED)
    with ExitStack() as stack:
        stack.enter_context(preserve_state([part for _, part in parts], collector.before_write))
        if collector.gradients or stepwise:
            stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
            torch.backends.mha.set_fastpath_enabled(False)
        if collector.gradients:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(torch.enable_grad())
        stack.callback(watch.finish)
        stack.enter_context(watch)
        return module(*inputs, **kwargs)


class AttentionCollector:
    """What is kept of the attentions of a pass: those of the wanted paths, as long as they fit.

    Without anything to ``keep`` they are only counted.
    """

    def __init__(
        self, paths: Sequence[str] | None, keep: tuple[str, ...], limit: int, gradients: bool = False
    ) -> None:
        self.paths, self.keep, self.limit, self.gradients = paths, keep, limit, gradients
        self.records: list[AttentionRecord] = []
        self.unread: list[Unread] = []
        self.calls: dict[str, int] = {}
        self.total = 0
        self.before_write: BeforeWrite = {}

    def add_unread(self, path: str, reason: str) -> None:
        self.unread.append(Unread(path, reason))

    def on_attention(self, detected: DetectedAttention) -> Tensor | None:
        """Called for each attention; a tensor that is returned replaces its output."""
        self.record(detected)
        return None

    def record(self, detected: DetectedAttention) -> AttentionRecord | None:
        index = self.calls.get(detected.path, 0)
        self.calls[detected.path] = index + 1
        paths = [""] if self.paths is None else self.paths
        if not self.keep or not any(path_matches(detected.path, pattern) for pattern in paths):
            return None
        weights = detected.arrange().detach()
        kept = {name: detected.get(name) for name in self.keep if name != "weights"}
        if "output" in kept and kept["output"] is None and (value := detected.get("value")) is not None:
            kept["output"] = weights @ value
        self.total += sum(t.numel() * t.element_size() for t in (weights, *kept.values()) if t is not None)
        if self.total > self.limit:
            self.records.clear()  # and count on: the error gives the whole size
            return None
        kept = {name: None if t is None else t.detach().clone() for name, t in kept.items()}
        source = detected.weights if self.gradients else None
        record = AttentionRecord(detected.path, detected.kind, index, weights, **kept, graph_weights=source)
        self.records.append(record)
        self.before_write.setdefault(storage_key(weights), []).append(partial(_copy_weights, record))
        return record

    def check(self) -> None:
        if self.total > self.limit:
            raise TooLarge(
                f"attention_of: {sum(self.calls.values())} attentions take {self.total / 2**20:,.3g} MiB, "
                f"the limit is {self.limit / 2**20:,.3g} MiB. Keep fewer with paths=..., give a smaller "
                "batch, or a larger limit (in bytes)."
            )
        for pattern in self.paths or ():
            if not any(path_matches(path, pattern) for path in self.calls):
                raise unknown_name("path of an attention", pattern, self.calls or ["none"])


def _copy_weights(record: AttentionRecord) -> None:
    """Before the module writes over the weights."""
    record.weights = record.weights.clone()


def _save_parameter(saved_values: list[tuple[Tensor, Tensor]], data: Tensor) -> None:
    """Before the module writes over a parameter."""
    saved_values.append((data, data.clone()))


def path_matches(path: str, pattern: str) -> bool:
    """Whether a path is this one, inside of it, or matches it as a pattern."""
    return pattern in ("", path) or path.startswith(f"{pattern}.") or fnmatchcase(path, pattern)


@contextmanager
def preserve_state(parts: list[nn.Module], before_write: BeforeWrite) -> Iterator[None]:
    """Afterwards training mode, parameters, buffers and random states are as they were, whatever happened."""
    before = [(part, part.training, dict(part._buffers), dict(part._parameters)) for part in parts]
    buffers = [(b, b.detach().clone()) for _, _, named, _ in before for b in named.values() if b is not None]
    parameters = [
        (p, p.data) for *_, own in before for p in own.values() if isinstance(p, Tensor) and not is_lazy(p)
    ]
    written: list[tuple[Tensor, Tensor]] = []
    for _, data in parameters:
        before_write.setdefault(storage_key(data), []).append(partial(_save_parameter, written, data))
    devices = {p.device.index for p, _ in parameters if p.device.type == "cuda"}
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=sorted(devices)):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        for part, training, named_buffers, named_parameters in before:
            part.training = training
            if not isinstance(part, torch.jit.ScriptModule):
                part._buffers.update(named_buffers)
                part._parameters.update(named_parameters)
        # Through .data: what the graph of the output has saved still counts as unchanged.
        with torch.no_grad():
            for tensor, copy in (*written, *buffers):
                if not torch.equal(tensor, copy):
                    tensor.data.copy_(copy)
            for parameter, data in parameters:
                if parameter.data_ptr() != data.data_ptr():
                    parameter.data = data


def compiled_parts(parts: list[tuple[str, nn.Module]]) -> Iterator[str]:
    """Paths of modules that torch.compile has been asked for, as a whole or in a function that they use."""
    for path, part in parts:
        function: Any = getattr(part.forward, "__func__", None)
        names = function.__code__.co_names if hasattr(function, "__code__") else ()
        used = [part.forward, *vars(part).values(), *(getattr(type(part), name, None) for name in names)]
        used += [function.__globals__.get(name) for name in names]
        marked = any(hasattr(one, "_torchdynamo_orig_callable") for one in used if callable(one))
        if hasattr(part, "_orig_mod") or part._compiled_call_impl is not None or marked:
            yield path
