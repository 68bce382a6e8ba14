"""``headwork.intervene``: change single heads of any torch module, and read how far its output moves.

``head(2).off()`` is data: which heads, and what becomes of them. The pass is watched as in ``attention_of``;
where a head's weights have met the values, its part of the product is replaced. Other heads keep their bits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwork.construct import Construction
from headwork.errors import InputError, format_shape
from headwork.inspection.attention import (
    LIMIT,
    AttentionCollector,
    AttentionRecord,
    attention_of,
    path_matches,
    run_with_collector,
)
from headwork.inspection.operations import tensors_in
from headwork.inspection.watching import DetectedAttention


@dataclass(frozen=True, eq=False)
class ChangedHeads:
    """Some heads of an attention, counted from 0 (none: all of them), and what becomes of them."""

    heads: tuple[int, ...]
    kind: str = ""
    weights: Any = field(default=None, repr=False)
    other_input: tuple[Any, Any] | None = field(default=None, repr=False)  # another input: args and kwargs

    def off(self) -> "ChangedHeads":
        """The head adds nothing: its output is zero."""
        return replace(self, kind="off")

    def uniform(self) -> "ChangedHeads":
        """Equal weights on every key that the query may attend to."""
        return replace(self, kind="uniform")

    def identity(self) -> "ChangedHeads":
        """Each token attends to itself alone."""
        return replace(self, kind="identity")

    def fixed(self, weights: Any) -> "ChangedHeads":
        """These weights, (query, key) or with head or batch in front; or what ``headwork.build`` gives."""
        array = weights.trace()["weights"].values if isinstance(weights, Construction) else weights
        return replace(self, kind="weights", weights=torch.as_tensor(np.asarray(array)))

    def weights_from(self, *inputs: Any, **kwargs: Any) -> "ChangedHeads":
        """The weights that the head has on another input of the same length."""
        return replace(self, kind="weights", other_input=(inputs, kwargs))

    def output_from(self, *inputs: Any, **kwargs: Any) -> "ChangedHeads":
        """The output that the head has on another input of the same length."""
        return replace(self, kind="output", other_input=(inputs, kwargs))


def head(*heads: int) -> ChangedHeads:
    """Some heads, to be changed; without a number, all of an attention.

    >>> head(2).off()
    ChangedHeads(heads=(2,), kind='off')
    """
    return ChangedHeads(heads)


@dataclass(frozen=True, eq=False)
class Effect:
    """The output with the change, the one before, and how far the first tensors in them are apart.

    ``largest`` and ``mean``: of the absolute differences. ``relative``: the norm of the difference over that
    of the output. ``changed``: the share of rows whose largest entry, the prediction, is another.
    """

    output: Any = field(repr=False)
    before: Any = field(repr=False)
    largest: float
    mean: float
    relative: float
    changed: float

    def __str__(self) -> str:
        return (
            f"the output moves by {self.relative:.3g} of its norm (largest difference {self.largest:.3g}, "
            f"mean {self.mean:.3g}); {self.changed:.1%} of the predictions change"
        )


def intervene(module: nn.Module, changes: Mapping[str, ChangedHeads], /, *inputs: Any, **kwargs: Any) -> Any:
    """The ``Effect`` of changing heads; without inputs, a function of inputs that gives it.

    ``changes`` maps the path of an attention, of a module around it, or a shell pattern to what becomes of
    its heads. Paths are those that ``attention_of`` gives. The module is left as it was found.

    >>> layer = nn.MultiheadAttention(4, 2, bias=False, batch_first=True).eval()
    >>> effect = intervene(layer, {"": head().off()}, *[torch.ones(1, 3, 4)] * 3)
    >>> effect.output[0].abs().max().item(), effect.relative
    (0.0, 1.0)
    """
    for path, change in changes.items():
        if not isinstance(change, ChangedHeads) or not change.kind:
            raise InputError(f"intervene: '{path}' has {change!r}. Give, for instance, head(2).off().")
    if not inputs and not kwargs:
        return partial(intervene, module, changes)
    edits = [
        HeadEdit(path, change, on_other_input=_tensors_on_other_input(module, path, change))
        for path, change in changes.items()
    ]
    editor = HeadEditor(edits, paths=list(changes))
    before = run_with_collector(module, inputs, kwargs, HeadEditor([]), stepwise=True)
    output = run_with_collector(module, inputs, kwargs, editor, stepwise=True)
    editor.check()
    old, new = (_first_numbers(one) for one in (before, output))
    differences, norm = (new - old).abs(), old.norm().item()
    changed = (new.argmax(-1) != old.argmax(-1)).double().mean().item()
    relative = differences.norm().item() / norm if norm else float(differences.any())
    return Effect(output, before, differences.max().item(), differences.mean().item(), relative, changed)


def _first_numbers(output: Any) -> Tensor:
    """The rows of the first tensor of decimal numbers in an output."""
    for tensor in tensors_in(output, 4):
        if tensor.is_floating_point():
            return tensor.detach().double().reshape(-1, *tensor.shape[-1:])
    raise InputError("intervene: the output of the module holds no decimal numbers to compare.")


OtherTensors = dict[tuple[str, int], Tensor]


def _tensors_on_other_input(module: nn.Module, path: str, change: ChangedHeads) -> OtherTensors:
    """Weights or outputs on the other input, by path and call."""
    if change.other_input is None:
        return {}
    inputs, kwargs = change.other_input
    other_input = attention_of(module, *inputs, paths=path, keep=(change.kind,), **kwargs)
    return {(record.path, record.call_index): getattr(record, change.kind) for record in other_input.records}


@dataclass(frozen=True)
class HeadEdit:
    """A change of the heads at a path, or a pattern; with a ``call`` only in that call of that path."""

    path: str
    change: ChangedHeads
    call: int | None = None
    on_other_input: OtherTensors = field(default_factory=dict)

    def applies(self, path: str, call: int) -> bool:
        return path_matches(path, self.path) if self.call is None else (path, call) == (self.path, self.call)


class HeadEditor(AttentionCollector):
    """Replaces the outputs of heads on the way; the weights that it records are those with the changes."""

    def __init__(
        self, edits: Sequence[HeadEdit], keep: tuple[str, ...] = (), paths: Sequence[str] | None = None
    ) -> None:
        super().__init__(paths, keep, LIMIT)
        self.edits = edits

    def on_attention(self, detected: DetectedAttention) -> Tensor | None:
        record, call = self.record(detected), self.calls[detected.path] - 1
        edits = [edit for edit in self.edits if edit.applies(detected.path, call)]
        if not edits:
            return None
        where = f"intervene: the attention at '{detected.path}'"
        output, value, weights = detected.get("output"), detected.get("value"), detected.arrange()
        if detected.obstacle or output is None or value is None:
            raise InputError(f"{where} cannot be changed: {detected.obstacle}.")
        output, changed, count = output.clone(), weights.detach().clone(), weights.shape[1]
        value = value.repeat_interleave(count // value.shape[1], 1)  # grouped queries
        for edit in edits:
            kind, heads = edit.change.kind, list(edit.change.heads or range(count))
            if not all(0 <= one < count for one in heads):
                raise InputError(f"{where} has heads 0 to {count - 1}, not {max(heads)}.")
            tensor, old = edit.change.weights, (output if kind == "output" else weights)[:, heads]
            if edit.change.other_input:
                tensor = edit.on_other_input.get((detected.path, call))
            if kind in ("weights", "output"):
                new = _broadcast_to(tensor, old, heads, where, kind)
            else:
                new = _new_weights(kind, old, where)
            if kind != "output":
                changed[:, heads] = new
                new = new.to(value) @ value[:, heads]
            output[:, heads] = new.to(output)
        if record is not None:
            record.weights = changed
        return output


def run_edited(
    module: nn.Module,
    edits: Sequence[HeadEdit],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    keep: tuple[str, ...] = (),
) -> tuple[Any, list[AttentionRecord]]:
    """The output of a pass with heads changed, and records of the attentions with what is to ``keep``."""
    editor = HeadEditor(edits, keep)
    output = run_with_collector(module, inputs, kwargs, editor, stepwise=True)
    editor.check()
    return output, editor.records


def _new_weights(kind: str, old: Tensor, where: str) -> Tensor:
    if kind == "off":
        return torch.zeros_like(old)
    if kind == "uniform":
        allowed = (old > 0).to(old)
        return allowed / allowed.sum(-1, keepdim=True).clamp_min(1)
    if old.shape[-2] != old.shape[-1]:
        raise InputError(f"{where} is {format_shape(old.shape[-2:], 'query key')}: identity needs a square.")
    return torch.eye(old.shape[-1]).to(old).expand_as(old)


def _broadcast_to(tensor: Tensor | None, old: Tensor, heads: list[int], where: str, kind: str) -> Tensor:
    """What was given for these heads; of all heads, these are taken."""
    if tensor is None:
        raise InputError(f"{where} is not reached by the other input, call for call.")
    if tensor.dim() == 4 and tensor.shape[1] > max(heads):
        tensor = tensor[:, heads]
    try:
        return tensor.to(old).broadcast_to(old.shape)
    except RuntimeError:
        axes = "batch head query " + ("key" if kind == "weights" else "width")
        actual, expected = format_shape(tensor.shape, axes), format_shape(old.shape, axes)
        raise InputError(
            f"{where}: {kind} are {actual}, expected {expected}. Sizes must be the same."
        ) from None
