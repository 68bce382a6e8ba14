"""A view into a trained model on one picture: what it predicts, where its heads attend, what changes do.

All of it runs on numpy, inside a page too. Imported when the screen is first used: its models come later than
the page.
"""

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge, check_known
from headwork.files import load_package_toml
from headwork.inspection.model_folders import ModelSource, source_on_text
from headwork.inspection.model_on_input import WEIGHTS, AttentionMap, ModelOnInput
from headwork.inspection.tracing import trace
from headwork.lab.known_models import check_size, find_model
from headwork.lab.pictures import MAX_ASPECT, read_picture
from headwork.numbers.arithmetic import Cell
from headwork.readings import Trace

Array = NDArray[Any]
KEPT_VIEWS = 4  # pictures, with all that is known of them
MAX_LETTERS = 2000  # of a text, for a torch module


# --- changes of heads -----------------------------------------------------------------------------------
# In words, and for one that headwork.build makes its target.
HEAD_CHANGES = load_package_toml(__file__, "words.toml")["head_changes"]


@dataclass(frozen=True)
class HeadChange:
    """What becomes of one head."""

    block: int
    head: int
    kind: str

    def __str__(self) -> str:
        return f"head {self.head} of block {self.block} {HEAD_CHANGES[self.kind][0]}"


def read_changes(text: str, blocks: int, heads: int) -> tuple[HeadChange, ...]:
    """Changes as the page writes them.

    >>> read_changes("3.2 off; 0.1 uniform", blocks=6, heads=4)
    (HeadChange(block=3, head=2, kind='off'), HeadChange(block=0, head=1, kind='uniform'))
    """
    changes: dict[tuple[int, int], HeadChange] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = re.fullmatch(r"(\d{1,4})\.(\d{1,4}) (\w+)", part)
        if not match:
            raise InputError(f"change '{part[:40]}' is not readable. Expected such as 3.2 off")
        check_known("change of a head", match[3], HEAD_CHANGES)
        block, head = int(match[1]), int(match[2])
        if block >= blocks or head >= heads:
            raise InputError(
                f"There is no head {head} of block {block}: blocks are 0 to {blocks - 1}, heads 0 to "
                f"{heads - 1}."
            )
        changes[block, head] = HeadChange(block, head, match[3])
    return tuple(changes.values())


@lru_cache(maxsize=16)
def built_weights(kind: str, tokens: int) -> Array:
    """The weights (query, key) of a head that was built to order."""
    from headwork.construct import build

    _, target, details = HEAD_CHANGES[kind]
    construction = build(target, tokens=tokens, **details)
    if not construction.possible:
        raise InputError(f"No such head for {tokens} tokens: {construction.reason}")
    return np.asarray(construction.trace()["head 0/weights"].values, np.float32)


def new_weights(kind: str, old: Array) -> Array:
    """The weights (batch, query, key) of a changed head."""
    if kind == "off":
        return np.zeros_like(old)
    if kind == "uniform":
        allowed = (old > 0).astype(old.dtype)
        return np.asarray(allowed / allowed.sum(-1, keepdims=True).clip(1))
    return np.broadcast_to(built_weights(kind, old.shape[-1]), old.shape)


def change_weights(changes: Sequence[HeadChange], path: str, weights: Array) -> Array:
    """The weights (batch, head, query, key) of one of our models with the changes in that block."""
    changed = weights.copy()
    for change in changes:
        if path == f"block {change.block}":
            changed[:, change.head] = new_weights(change.kind, weights[:, change.head])
    return changed


def with_changes(before: "ModelView", changes: Sequence[HeadChange]) -> ModelSource:
    """The model of a view with heads changed."""
    source, tokens = before.source, len(before.on_input.labels)
    if source.module is None:
        array_model = copy(source.array_model)
        array_model.change_weights = partial(change_weights, changes)
        return replace(source, array_model=array_model)
    from headwork.inspection.intervening import HeadEdit, head

    edits = []
    for change in changes:
        layer, heads = before.attention_maps[change.block], head(change.head)
        plain = {"off": heads.off, "uniform": heads.uniform}.get(change.kind)
        edited = plain() if plain else heads.fixed(built_weights(change.kind, tokens))
        edits.append(HeadEdit(layer.path, edited, layer.call_index))
    return replace(source, edits=tuple(edits))


# --- a model on one input -------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class ModelView:
    """A model on one picture or text. Its blocks are the attentions between the tokens of its input."""

    source: ModelSource
    on_input: ModelOnInput
    attention_maps: Sequence[AttentionMap]
    changes: tuple[HeadChange, ...]
    remarks: tuple[str, ...]

    @property
    def head_count(self) -> int:
        """The heads of a block."""
        return len(self.attention_maps[0].weights)

    @cached_property
    def parameter_count(self) -> int:
        """The number of trained parameters."""
        if self.source.array_model is None:
            return sum(values.numel() for values in self.source.module.parameters())
        return sum(values.size for values in self.source.array_model.inner.parameters.values())

    @property
    def patches_start(self) -> int:
        """How many tokens come before the patches: the class token."""
        grid = self.on_input.grid
        return len(self.on_input.labels) - grid[0] * grid[1] if grid else 0

    def token_name(self, token: int | None) -> str:
        """A token in words; none is the mean of all."""
        if token is None:
            return "the mean of all tokens"
        label = self.on_input.labels[token]
        if not self.on_input.grid:
            return f"“{label}”"
        row, _, column = label.partition(", ")
        first = label if label.startswith("token") else f"the {label}"
        return f"row {row}, column {column}" if token >= self.patches_start else first

    @cached_property
    def output_step(self) -> str:
        """The path of the logits; none of a module, whose steps have no names."""
        own = self.source.array_model
        return "" if own is None else str(own.definition.steps(own.config)[-1].name)

    def leads_to_input(self, cell: Cell) -> bool:
        """Whether what was given, and not only parameters, is behind a cell."""
        trace = self.traced(len(self.changed_steps))
        if cell.label in trace.inputs:
            return True
        if cell.label not in trace.steps:
            return False
        # Before the first block has attended, the class token knows nothing of the picture.
        early = cell.label.startswith(("positions", "block 0/normalisation 1", "block 0/attention/query"))
        axes = trace[cell.label].card.axes.split()
        at = dict(zip(axes[::-1], cell.index[::-1], strict=False))
        return not (early and at.get("token", self.patches_start) < self.patches_start)

    def query_name(self, token: int | None) -> str:
        """A token that looks, in words."""
        patch = token is not None and self.on_input.grid is not None and token >= self.patches_start
        return f"the patch at {self.token_name(token)}" if patch else self.token_name(token)

    def weights_of_query(self, block: int, head: int | None, query: int | None) -> Array:
        """The weights (key) of one query or of their mean, in one head or in the mean of a block's."""
        weights = self.attention_maps[block].weights
        rows = weights.mean(0) if head is None else weights[head]
        return np.asarray(rows.mean(0) if query is None else rows[query])

    @cached_property
    def changed_steps(self) -> list[str]:
        """The steps that were changed, in order."""
        return [f"block {block}{WEIGHTS}" for block in sorted({change.block for change in self.changes})]

    @cached_property
    def _traces(self) -> dict[int, Trace]:
        return {}

    def traced(self, count: int) -> Trace:
        """Every step, the first ``count`` changed ones with their change."""
        if count not in self._traces:
            by_path = {f"{layer.path}{WEIGHTS}": layer.weights[None] for layer in self.attention_maps}
            replacing = {path: by_path[path] for path in self.changed_steps[:count]}
            inputs = dict[str, Any](self.on_input.inputs or {})
            self._traces[count] = trace(self.source.array_model.inner, replacing=replacing, **inputs)
        return self._traces[count]

    def trace_of(self, path: str, index: tuple[int, ...]) -> Trace:
        """The trace in which a cell has its arithmetic: beside a changed head, the one before its change."""
        count = len(self.changed_steps)
        if path in self.changed_steps:
            mine = {change.head for change in self.changes if path == f"block {change.block}{WEIGHTS}"}
            count = count if index[1] in mine else self.changed_steps.index(path)
        return self.traced(count)


@lru_cache(maxsize=KEPT_VIEWS)
def look_at(model: str, content: str, changes: str = "") -> ModelView:
    """The model on a text, or on a picture: base64 of bytes (channel, height, width)."""
    source = find_model(model)
    remarks: list[str] = []
    if source.input_kind == "images":
        pixels, remarks = read_picture(content, *source.image_shape, MAX_ASPECT.get(model))
    elif source.module is not None and len(content) > MAX_LETTERS:
        raise TooLarge(f"A text of {len(content):,} letters; here at most {MAX_LETTERS:,}. Shorten it.")
    before = look_at(model, content) if changes else None
    chosen = read_changes(changes, len(before.attention_maps), before.head_count) if before else ()
    source = with_changes(before, chosen) if before else source
    on_input = source.on_image(pixels) if source.input_kind == "images" else source_on_text(source, content)
    count = len(on_input.labels)
    if source.array_model is not None:
        check_size(source, count)
    if before is not None:
        on_input = replace(on_input, output_token=before.on_input.output_token_index)
    between_all = [layer for layer in on_input.attention_maps if layer.weights.shape[1:] == (count, count)]
    heads = [len(layer.weights) for layer in between_all]
    attention_maps = [layer for layer in between_all if len(layer.weights) == max(heads, key=heads.count)]
    if not attention_maps:
        reasons = "; ".join(on_input.remarks)
        raise InputError(f"No attention between the tokens of its input was found. {reasons}.")
    if left_out := len(between_all) - len(attention_maps):
        remarks = [*remarks, f"{left_out} attentions with other numbers of heads are not shown"]
    return ModelView(source, on_input, attention_maps, chosen, (*remarks, *on_input.remarks))


# --- the rest takes many passes: a few at a time -----------------------------------------------------------
class OutOfPassesError(Exception):
    """More passes are needed than one call may take."""


class ResumableModel:
    """A model that runs at most ``passes_left`` times at a call, and remembers the outputs."""

    def __init__(self, on_input: ModelOnInput) -> None:
        self.on_input = replace(on_input, outputs_with_hidden=self.outputs_with_hidden)
        self.run, self.passes_left = on_input.outputs_with_hidden, 0
        self.outputs: dict[bytes, Array] = {}

    def outputs_with_hidden(self, hidden_parts: Array) -> Array:
        keys = [row.tobytes() for row in np.asarray(hidden_parts, bool)]
        missing = list(dict.fromkeys(key for key in keys if key not in self.outputs))
        if affordable := missing[: max(self.passes_left, 0)]:
            rows = np.array([np.frombuffer(key, bool) for key in affordable])
            self.outputs.update(zip(affordable, self.run(rows), strict=True))
            self.passes_left -= len(affordable)
        if len(affordable) < len(missing):
            raise OutOfPassesError
        return np.array([self.outputs[key] for key in keys])
