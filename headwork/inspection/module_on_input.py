"""Any torch module on one input as a ``ModelOnInput``: its attentions are found by ``attention_of``."""

import inspect as signatures
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwork.errors import InputError, format_shape
from headwork.inspection.attention import attention_of
from headwork.inspection.intervening import HeadEdit, run_edited
from headwork.inspection.model_on_input import (
    Array,
    AttentionMap,
    ChooseClass,
    ModelOnInput,
    as_pixels,
    patch_labels,
)
from headwork.inspection.operations import tensors_in
from headwork.inspection.tracing import evaluation_mode

MAX_BEFORE_PATCHES = 8  # tokens before the patches: a class token, registers
GRID_SIDE = 7  # the side of the grid where no attention runs between patches


def module_on_input(
    module: nn.Module,
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    *,
    labels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    fill: float = 0,
    never_hidden: Sequence[int] = (),
    edits: Sequence[HeadEdit] = (),
) -> ModelOnInput:
    """A module whose first tensor is an image (1, channel, height, width), tokens or vectors (1, token, ...).

    ``fill`` stands for a hidden pixel, token or number, where there is no attention_mask to hide by;
    ``never_hidden`` are numbers of tokens. With ``edits`` of heads there are no gradients.
    """
    all_inputs: dict[Any, Any] = {**dict(enumerate(inputs)), **named}  # by position or name
    position = _find_tensor(all_inputs)
    tensor = all_inputs[position]
    with evaluation_mode(module):
        result = attention_of(module, *inputs, **named, gradients=True)
        if edits:
            result.output, result.records = run_edited(module, edits, inputs, named, keep=("weights",))
    output, logits = _select_output(result.output)
    records = [record for record in result.records if len(record.weights) == 1]
    shapes = [record.weights.shape for record in records]
    counts = [shape[-1] for shape in shapes if shape[-1] == shape[-2]]
    count = max(counts, key=lambda c: (counts.count(c), c), default=0)
    remarks = [f"{one.path or 'the module itself'}: {one.reason}" for one in result.unread]
    if several := len(result.records) - len(records):
        remarks.append(f"{several} attentions within windows are not shown: they have tokens of their own")
    if not records:
        remarks.append("No attention was found, so only occlusion can be measured")
    grid, pixels, start = None, None, 0
    if tensor.dim() == 4:
        grid, start = _patches(tensor.shape[-2:], count)
        pixels = as_pixels(tensor[0].detach().float().cpu().numpy())
        part_count = grid[0] * grid[1]
        names = ["class token"] if start == 1 else [f"token {i}" for i in range(start)]
        names += patch_labels(*grid)
    else:
        part_count = tensor.shape[1]
        names = [str(name) for name in labels or range(part_count)]
        if len(names) != part_count:
            raise InputError(f"inspect: {len(names)} labels for {part_count} tokens. Give one for each.")

    def attention_pass(choose_class: ChooseClass) -> tuple[Array, list[AttentionMap]]:
        output_vector = output[0].detach().float().cpu().numpy()
        target = choose_class(output_vector)
        score = output[0].norm() if target is None else output[0, target]
        try:
            gradients = {id(r): g for r, g in zip(result.records, result.gradients(score), strict=True)}
        except (InputError, RuntimeError):  # edited, a module without parameters, or one that detaches
            gradients = {}
        return output_vector, [
            AttentionMap(
                record.path,
                record.weights[0].float().cpu().numpy(),
                gradients[id(record)][0].detach().float().cpu().numpy() if gradients else None,
                record.call_index,
            )
            for record in records
        ]

    parts = tuple(i for i in range(start, start + part_count) if i not in never_hidden)
    call = _HiddenCall(
        module, all_inputs, position, fill, grid, part_count, [i - start for i in parts], edits
    )
    class_names = classes or _classes(module, output.shape[-1]) if logits else ()
    return ModelOnInput(
        name=type(module).__name__,
        labels=tuple(names),
        parts=parts,
        outputs_with_hidden=call,
        attention_pass=attention_pass,
        hidden_note=call.hidden_note,
        classes=tuple(map(str, class_names)),
        output_token="gradient",
        grid=grid,
        pixels=pixels,
        remarks=tuple(remarks),
    )


def _find_tensor(all_inputs: Mapping[int | str, Any]) -> int | str:
    """Where the tensor whose parts are hidden stands among the inputs."""
    position = next((position for position, value in all_inputs.items() if isinstance(value, Tensor)), None)
    if position is None:
        raise InputError("inspect: no tensor among the inputs. Give the module's inputs, a batch of one.")
    tensor = all_inputs[position]
    allowed = (3, 4) if tensor.is_floating_point() else (2,)
    if tensor.dim() not in allowed or tensor.shape[0] != 1 or 0 in tensor.shape:
        raise InputError(
            f"inspect: the input is {format_shape(tensor.shape, '')}. Expected a batch of one: an image "
            "(1, channel, height, width), tokens (1, token) as whole numbers, or vectors (1, token, width)."
        )
    return position


@dataclass(frozen=True)
class _HiddenCall:
    """The module on its input with parts hidden: (case, part) in, outputs (case, number) out."""

    module: nn.Module
    all_inputs: Mapping[int | str, Any]  # its inputs, by position or name
    position: int | str  # of the input whose parts are hidden
    fill: float  # what stands for a hidden part
    grid: tuple[int, int] | None
    count: int
    parts: Sequence[int]  # which of so many can be hidden
    edits: Sequence[HeadEdit]

    @property
    def masked(self) -> bool:
        taken = signatures.signature(self.module.forward).parameters
        return self.all_inputs[self.position].dim() == 2 and "attention_mask" in taken

    @property
    def hidden_note(self) -> str:
        if self.masked:
            return "Hidden tokens are masked."
        thing = "patches" if self.grid else "tokens"
        return f"Hidden {thing} are {self.fill:g} everywhere."

    def __call__(self, hidden_mask: Array) -> Array:
        values = {position: _repeated(value, len(hidden_mask)) for position, value in self.all_inputs.items()}
        whole = values[self.position]
        is_hidden = torch.zeros(len(hidden_mask), self.count, dtype=torch.bool, device=whole.device)
        is_hidden[:, self.parts] = torch.from_numpy(hidden_mask).to(whole.device)
        fill = torch.as_tensor(self.fill, dtype=whole.dtype, device=whole.device)
        values[self.position] = torch.where(self._everywhere(is_hidden, whole), fill, whole)
        if self.masked:
            is_hidden[:, 0] &= ~is_hidden.all(1)  # a mask must leave a token
            values["attention_mask"] = (~is_hidden).long() * values.get("attention_mask", 1)
        inputs = [value for position, value in values.items() if isinstance(position, int)]
        named = {position: value for position, value in values.items() if isinstance(position, str)}
        with evaluation_mode(self.module):
            if self.edits:
                output, _ = run_edited(self.module, self.edits, inputs, named)
            else:
                output = self.module(*inputs, **named)
            return np.asarray(_select_output(output)[0].float().cpu().numpy())

    def _everywhere(self, is_hidden: Tensor, values: Tensor) -> Tensor:
        """What is hidden, as the input is laid out."""
        if self.grid is None:
            return is_hidden if values.dim() == 2 else is_hidden[..., None]
        patches = is_hidden.reshape(len(is_hidden), 1, *self.grid).float()
        return nn.functional.interpolate(patches, size=tuple(values.shape[-2:]), mode="nearest") > 0.5


def _repeated(value: Any, count: int) -> Any:
    batched = isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == 1
    return value.expand(count, *value.shape[1:]) if batched else value


def _select_output(output: Any) -> tuple[Tensor, bool]:
    """The numbers (batch, number) that an output is judged by, and whether they are logits."""
    logits = getattr(output, "logits", None)
    named = (logits, getattr(output, "last_hidden_state", None), *tensors_in(output, 2))
    tensor = next((one for one in named if one is not None), None)
    if tensor is None or tensor.dim() not in (2, 3):
        shape = type(output).__name__ if tensor is None else format_shape(tensor.shape, "")
        raise InputError(
            f"inspect: the output is {shape}. Expected logits (1, class) or vectors (1, token, width): wrap "
            "the module in one that returns those."
        )
    if tensor.dim() == 2:
        return tensor, True
    return (tensor[:, -1], True) if logits is not None else (tensor.mean(1), False)


def _classes(module: nn.Module, count: int) -> list[str]:
    names = getattr(getattr(module, "config", None), "id2label", None)
    class_names = names if isinstance(names, Mapping) and len(names) == count else {}
    return [str(class_names.get(i, f"class {i}")) for i in range(count)]


def _patches(size: Sequence[int], count: int) -> tuple[tuple[int, int], int]:
    """The grid of patches that so many tokens are, and how many come before; or cells of no meaning."""
    height, width = size
    for patch in range(1, min(height, width) + 1):
        rows, columns = height // patch, width // patch
        before = count - rows * columns
        if height % patch == 0 == width % patch and rows * columns > 1 and 0 <= before <= MAX_BEFORE_PATCHES:
            return (rows, columns), before
    return (min(GRID_SIDE, height), min(GRID_SIDE, width)), 0
