"""Any torch module on one input as a ``Subject``: its attentions are found by ``attention_of``."""

import inspect as signatures
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwork.errors import InputError, sizes_in_words
from headwork.inspection.attention import AttentionRecords, attention_of
from headwork.inspection.subjects import Array, Layer, Subject, as_pixels
from headwork.inspection.tracing import evaluating

MAX_FIRST = 8  # tokens before the patches: a class token, registers
CELLS = 7  # the side of the grid where no attention runs between patches


def module_subject(
    module: nn.Module,
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    *,
    labels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    hidden: float = 0,
    kept: Sequence[int] = (),
    forward: Callable[..., Any] | None = None,
) -> Subject:
    """A module whose first tensor is an image (1, channel, height, width), tokens or vectors (1, token, ...).

    ``hidden`` stands for a hidden pixel, token or number, where there is no attention_mask to hide by;
    ``kept`` tokens are never hidden. ``forward`` runs the module in its stead.
    """
    at, given = _given(inputs, named)
    call = _Call(module, list(inputs), dict(named), at, given, hidden)
    call.forward = forward or module
    with evaluating(module):
        result = attention_of(module, *inputs, **named, gradients=True)
    output, logits = _read(result.output)
    records = [record for record in result.records if len(record.weights) == 1]
    counts = [r.weights.shape[-1] for r in records if r.weights.shape[-1] == r.weights.shape[-2]]
    count = max(counts, key=lambda c: (counts.count(c), c), default=0)
    remarks = [f"{one.path or 'the module itself'}: {one.reason}" for one in result.unread]
    remarks += _windows(result)
    grid, pixels, first = None, None, 0
    if given.dim() == 4:
        grid, first = _patches(given.shape[-2:], count)
        pixels, call.grid = as_pixels(given[0].detach().float().cpu().numpy()), grid
        number = grid[0] * grid[1]
        patches = [f"{row}, {column}" for row in range(grid[0]) for column in range(grid[1])]
        names = [*(["class token"] if first == 1 else [f"token {i}" for i in range(first)]), *patches]
    else:
        number = given.shape[1]
        names = [str(name) for name in labels or range(number)]
        if len(names) != number:
            raise InputError(f"inspect: {len(names)} labels for {number} tokens. Give one for each.")
    if not records:
        remarks.append("No attention was found, so only occlusion can be measured")

    def attend(target: int | None) -> list[Layer]:
        score = output[0].norm() if target is None else output[0, target]
        try:
            gradients: list[Any] = result.gradients(score)
        except (InputError, RuntimeError):  # a module without parameters, or one that detaches
            gradients = [None] * len(result.records)
        return [
            Layer(
                f"{record.path or 'attention'}{f', call {record.call}' if record.call else ''}",
                record.weights[0].float().numpy(),
                None if gradient is None else gradient[0].detach().float().numpy(),
            )
            for record, gradient in zip(result.records, gradients, strict=True)
            if len(record.weights) == 1
        ]

    parts = tuple(i for i in range(first, first + number) if i not in kept)
    known = classes or _classes(module, output.shape[-1]) if logits else ()
    return Subject(
        name=type(module).__name__,
        labels=tuple(names),
        parts=parts,
        run=lambda hidden: call(_laid_out(hidden, [i - first for i in parts], number)),
        attend=attend,
        hidden_as=call.hidden_as,
        classes=tuple(map(str, known)),
        output_token="gradient",
        grid=grid,
        pixels=pixels,
        remarks=tuple(remarks),
    )


def _laid_out(hidden: Array, parts: Sequence[int], count: int) -> Array:
    """What is hidden (case, part) among all that could be."""
    every = np.zeros((len(hidden), count), bool)
    every[:, parts] = hidden
    return every


def _given(inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[int | str, Tensor]:
    """Where the tensor whose parts are hidden stands among the inputs, and the tensor."""
    every: list[tuple[int | str, Any]] = [*enumerate(inputs), *named.items()]
    at, tensor = next(((at, value) for at, value in every if isinstance(value, Tensor)), (0, None))
    if tensor is None:
        raise InputError("inspect: no tensor among the inputs. Give the module's inputs, a batch of one.")
    whole = not tensor.is_floating_point()
    if tensor.dim() not in ((2,) if whole else (3, 4)) or tensor.shape[0] != 1 or 0 in tensor.shape:
        raise InputError(
            f"inspect: the input is {sizes_in_words(tensor.shape, '')}. Expected a batch of one: an image "
            "(1, channel, height, width), tokens (1, token) as whole numbers, or vectors (1, token, width)."
        )
    return at, tensor


class _Call:
    """The module on its input with parts hidden: (case, part) in, outputs (case, number) out."""

    def __init__(
        self,
        module: nn.Module,
        inputs: list[Any],
        named: dict[str, Any],
        at: int | str,
        given: Tensor,
        hidden: float,
    ) -> None:
        self.module, self.inputs, self.named, self.at, self.given = module, inputs, named, at, given
        self.hidden = hidden
        self.grid: tuple[int, int] | None = None
        self.forward: Callable[..., Any] = module
        taken = signatures.signature(module.forward).parameters
        self.masked = given.dim() == 2 and "attention_mask" in taken

    @property
    def hidden_as(self) -> str:
        if self.masked:
            return "Hidden tokens are masked."
        thing = "patches" if self.grid else "tokens"
        return f"Hidden {thing} are {self.hidden:g} everywhere."

    def __call__(self, hidden: Array) -> Array:
        gone = torch.from_numpy(hidden).to(self.given.device)
        whole = self.given.expand(len(gone), *self.given.shape[1:])
        named = {name: _repeated(value, len(gone)) for name, value in self.named.items()}
        inputs = [_repeated(value, len(gone)) for value in self.inputs]
        fill = torch.as_tensor(self.hidden, dtype=whole.dtype, device=whole.device)
        changed = torch.where(self._everywhere(gone), fill, whole)
        if self.masked:
            gone[:, 0] &= ~gone.all(1)  # a mask must leave a token
            given = named.get("attention_mask")
            named["attention_mask"] = (~gone).long() if given is None else given * (~gone).long()
        if isinstance(self.at, int):
            inputs[self.at] = changed
        else:
            named[self.at] = changed
        with evaluating(self.module):
            return np.asarray(_read(self.forward(*inputs, **named))[0].float().cpu().numpy())

    def _everywhere(self, gone: Tensor) -> Tensor:
        """What is hidden, as the input is laid out."""
        if self.grid is None:
            return gone if self.given.dim() == 2 else gone[..., None]
        patches = gone.reshape(len(gone), 1, *self.grid).float()
        return nn.functional.interpolate(patches, size=tuple(self.given.shape[-2:]), mode="nearest") > 0.5


def _repeated(value: Any, count: int) -> Any:
    batched = isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == 1
    return value.expand(count, *value.shape[1:]) if batched else value


def _read(output: Any) -> tuple[Tensor, bool]:
    """The numbers (batch, number) that an output is judged by, and whether they are logits."""
    logits = getattr(output, "logits", None)
    tensor = logits
    if tensor is None:
        tensor = getattr(output, "last_hidden_state", None)
    if tensor is None and isinstance(output, (tuple, list)):
        tensor = output[0]
    if tensor is None and isinstance(output, Mapping):
        tensor = next((value for value in output.values() if isinstance(value, Tensor)), None)
    tensor = output if tensor is None else tensor
    if not isinstance(tensor, Tensor) or tensor.dim() not in (2, 3):
        shape = sizes_in_words(tensor.shape, "") if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InputError(
            f"inspect: the output is {shape}. Expected logits (1, class) or vectors (1, token, width): wrap "
            "the module in one that returns those."
        )
    if tensor.dim() == 2:
        return tensor, True
    return (tensor[:, -1], True) if logits is not None else (tensor.mean(1), False)


def _classes(module: nn.Module, count: int) -> list[str]:
    names = getattr(getattr(module, "config", None), "id2label", None)
    known = names if isinstance(names, Mapping) and len(names) == count else {}
    return [str(known.get(i, f"class {i}")) for i in range(count)]


def _patches(size: Sequence[int], count: int) -> tuple[tuple[int, int], int]:
    """The grid of patches that so many tokens are, and how many come before; or cells of no meaning."""
    height, width = size
    for patch in range(1, min(height, width) + 1):
        rows, columns = height // patch, width // patch
        before = count - rows * columns
        if height % patch == 0 == width % patch and rows * columns > 1 and 0 <= before <= MAX_FIRST:
            return (rows, columns), before
    return (min(CELLS, height), min(CELLS, width)), 0


def _windows(result: AttentionRecords) -> Iterator[str]:
    several = sum(len(record.weights) > 1 for record in result.records)
    if several:
        yield f"{several} attentions within windows are not shown: their tokens are not those of the input"
