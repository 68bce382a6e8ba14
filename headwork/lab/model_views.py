"""A trained model and one picture, looked into: what it predicts, where its heads attend, what changes do.

All of it runs on numpy, inside a page too. Imported when the room is first used: its models come later than
the page.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge, unknown
from headwork.inspection.model_folders import ModelSource, source_on_text
from headwork.inspection.model_on_input import WEIGHTS, ArrayModel, AttentionLayer, ModelOnInput
from headwork.inspection.tracing import trace
from headwork.lab.known_models import check_size, find_source
from headwork.lab.pictures import MAX_SIDE, WIDEST, decoded, prepared
from headwork.loading.model import probabilities_of
from headwork.numbers import HandTensor
from headwork.numbers.arithmetic import Cell
from headwork.readings import Trace

Array = NDArray[Any]
KEPT = 4  # pictures, with all that is known of them
MAX_LETTERS = 2000  # of a text, for a torch module


# --- changes of heads -----------------------------------------------------------------------------------
# What can become of a head: in words, and for one that headwork.build makes its target.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "off": ("switched off", "", {}),
    "uniform": ("made uniform", "", {}),
    "itself": ("replaced by one that looks at its own token", "identity", {}),
    "previous": ("replaced by one that looks at the token before", "shift", {"by": -1}),
    "next": ("replaced by one that looks at the token after", "shift", {"by": 1}),
    "first": ("replaced by one that looks at the first token", "first", {}),
    "neighbours": ("replaced by the mean of three neighbours", "running-mean", {"window": 3}),
}


@dataclass(frozen=True)
class HeadChange:
    """What becomes of one head."""

    block: int
    head: int
    kind: str

    def __str__(self) -> str:
        return f"head {self.head} of block {self.block} {KINDS[self.kind][0]}"


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
        if match[3] not in KINDS:
            raise unknown("change of a head", match[3], KINDS)
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

    _, target, details = KINDS[kind]
    made = build(target, tokens=tokens, **details)
    if not made.possible:
        raise InputError(f"No such head for {tokens} tokens: {made.reason}")
    return np.asarray(made.trace()["head 0/weights"].values, np.float32)


def new_weights(kind: str, old: Array) -> Array:
    """The weights (batch, query, key) of a changed head."""
    if kind == "off":
        return np.zeros_like(old)
    if kind == "uniform":
        allowed = (old > 0).astype(old.dtype)
        return np.asarray(allowed / allowed.sum(-1, keepdims=True).clip(1))
    return np.broadcast_to(built_weights(kind, old.shape[-1]), old.shape)


class ChangedModel(ArrayModel):
    """A model whose heads are changed on the way; without changes, the model itself."""

    def __init__(self, own: ArrayModel, changes: tuple[HeadChange, ...]) -> None:
        self.__dict__.update(vars(own))
        self.changes = changes

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        return np.asarray(self.run_changing_weights(inputs, lambda _, value: value).array)

    def run_changing_weights(self, inputs: Mapping[str, Array], change: Callable[[str, Any], Any]) -> Any:
        return super().run_changing_weights(
            inputs, lambda path, value: change(path, self.changed(path, value))
        )

    def changed(self, path: str, weights: Any) -> Any:
        here = [change for change in self.changes if path == f"block {change.block}"]
        if not here:
            return weights
        array = weights.array.copy()
        for change in here:
            array[:, change.head] = new_weights(change.kind, array[:, change.head])
        return HandTensor(array)


# --- looked into ----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Looked:
    """A model on one picture or text, with what it predicts and the weights (head, query, key) by block."""

    source: ModelSource
    subject: ModelOnInput
    inputs: dict[str, Array]
    changes: tuple[HeadChange, ...]
    logits: Array
    weights: dict[str, Array]
    remarks: tuple[str, ...] = ()
    paths: tuple[tuple[str, int], ...] = ()  # of a module: where the attention of each block is, and its call

    @property
    def heads(self) -> int:
        """The heads of a block."""
        return len(self.weights["block 0"])

    @cached_property
    def parameters(self) -> int:
        """How many numbers the model was trained to have."""
        own, module = self.source.model, self.source.module
        if own is None:
            return sum(values.numel() for values in module.parameters())
        return sum(values.size for values in own.model.parameters.values())

    @cached_property
    def probabilities(self) -> Array:
        return np.asarray(probabilities_of(self.logits[None], ["the picture"])[0])

    @property
    def before(self) -> int:
        """The tokens that are no patches: the class token."""
        grid = self.subject.grid
        return len(self.subject.labels) - grid[0] * grid[1] if grid else 0

    def place(self, token: int | None) -> str:
        """A token in words; none is the mean of all."""
        if token is None:
            return "the mean of all tokens"
        label = self.subject.labels[token]
        if not self.subject.grid:
            return f"“{label}”"
        row, _, column = label.partition(", ")
        first = label if label.startswith("token") else f"the {label}"
        return f"row {row}, column {column}" if token >= self.before else first

    @cached_property
    def output_step(self) -> str:
        """The path of the logits; none of a module, whose steps have no names."""
        return (
            ""
            if self.source.model is None
            else str(self.source.model.definition.steps(self.source.model.config)[-1].name)
        )

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
        return not (early and at.get("token", self.before) < self.before)

    def who(self, token: int | None) -> str:
        """A token that looks, in words."""
        patch = token is not None and self.subject.grid is not None and token >= self.before
        return f"the patch at {self.place(token)}" if patch else self.place(token)

    def row(self, block: int, head: int | None, query: int | None) -> Array:
        """The weights (key) of one query or of their mean, in one head or in the mean of a block's."""
        weights = self.weights[f"block {block}"]
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
            inner, given = self.source.model.model, dict[str, Any](self.inputs)
            changed = {path: self.weights[path.removesuffix(WEIGHTS)] for path in self.changed_steps[:count]}
            replacing = {path: weights[None] for path, weights in changed.items()}
            self._traces[count] = trace(inner, replacing=replacing, **given)
        return self._traces[count]

    def trace_of(self, path: str, index: tuple[int, ...]) -> Trace:
        """The trace in which a cell has its arithmetic: beside a changed head, the one before its change."""
        count = len(self.changed_steps)
        if path in self.changed_steps:
            mine = {change.head for change in self.changes if path == f"block {change.block}{WEIGHTS}"}
            count = count if index[1] in mine else self.changed_steps.index(path)
        return self.traced(count)


@lru_cache(maxsize=KEPT)
def look_at(model: str, picture: str, changes: str = "") -> Looked:
    """The model on a picture: base64 of bytes (channel, height, width), or of a finer drawing."""
    source = find_source(model)
    if source.input_kind != "images":
        raise InputError(f"{model} takes texts.")
    channels, size = source.image_shape
    data = decoded(picture, "the picture", 3 * MAX_SIDE**2)
    side = math.isqrt(len(data) // channels)
    if not data or channels * side**2 != len(data) or side < size:
        raise InputError(
            f"A picture of {len(data):,} bytes. Expected {channels} x {size} x {size}, or a larger square."
        )
    remarks: list[str] = []
    pixels = np.frombuffer(data, np.uint8).reshape(channels, side, side)
    if side > size:
        pixels, remarks = prepared(pixels, size, WIDEST.get(model))
    if source.module is not None:
        before = look_at(model, picture) if changes else None
        return _looked_at_module(source, changes, lambda changed: changed.on_image(pixels), remarks, before)
    return _looked(source, changes, lambda changed: changed.on_image(pixels), remarks)


@lru_cache(maxsize=KEPT)
def look_at_text(model: str, text: str, changes: str = "") -> Looked:
    """The model on a text."""
    source = find_source(model)
    if source.input_kind != "texts":
        raise InputError(f"{model} takes pictures.")
    if source.module is not None:
        if len(text) > MAX_LETTERS:
            raise TooLarge(f"A text of {len(text):,} letters; here at most {MAX_LETTERS:,}. Shorten it.")
        before = look_at_text(model, text) if changes else None
        return _looked_at_module(source, changes, lambda changed: source_on_text(changed, text), [], before)
    return _looked(source, changes, lambda changed: source_on_text(changed, text), [])


def _looked(
    source: ModelSource, changes: str, subject_of: Callable[[ModelSource], ModelOnInput], remarks: list[str]
) -> Looked:
    chosen = read_changes(changes, source.model.config.depth, source.model.config.heads)
    model = ChangedModel(source.model, chosen)
    subject = subject_of(replace(source, model=model))
    check_size(source, len(subject.labels))
    kept: dict[str, Array] = {}

    def keep(path: str, value: Any) -> Any:
        kept[path] = value.array[0]
        return value

    assert subject.inputs is not None
    output = model.run_changing_weights(subject.inputs, keep).array[0]
    output = output[-1] if source.model.definition.slug == "language" else output
    if not kept:
        raise InputError("This model has no softmax attention whose weights could be shown.")
    return Looked(source, subject, dict(subject.inputs), chosen, output, kept, tuple(remarks))


def _looked_at_module(
    source: ModelSource,
    changes: str,
    subject_of: Callable[[ModelSource], ModelOnInput],
    remarks: list[str],
    before: Looked | None,
) -> Looked:
    """The same of a torch module: its blocks are the attentions between the tokens of its input, in order.

    ``before`` is the module without the changes, which says where its heads are.
    """
    from headwork.inspection.intervening import ChangedForward, head

    chosen = read_changes(changes, len(before.weights), before.heads) if before else ()
    by_call: dict[tuple[str, int], list[Any]] = {}
    for change in chosen:
        assert before is not None
        made = head(change.head)
        kinds: dict[str, Any] = {"off": made.off, "uniform": made.uniform}
        count = len(before.subject.labels)
        found = (
            kinds[change.kind]() if change.kind in kinds else made.fixed(built_weights(change.kind, count))
        )
        by_call.setdefault(before.paths[change.block], []).append(found)
    forward = ChangedForward(source.module, by_call)
    subject = subject_of(replace(source, forward=forward))
    logits, records = subject.output, forward.records or []
    square = [
        r for r in records if r.weights.shape[::2] == (1, len(subject.labels)) == (1, r.weights.shape[3])
    ]
    heads = [record.weights.shape[1] for record in square]
    shown = [r for r in square if r.weights.shape[1] == max(heads, key=heads.count)]
    if not shown:
        reasons = "; ".join(subject.remarks)
        raise InputError(f"No attention between the tokens of its input was found. {reasons}.")
    arrays = [record.weights[0].float().cpu().numpy().copy() for record in shown]
    for change in chosen:
        own = arrays[change.block]
        own[change.head] = new_weights(change.kind, own[None, change.head])[0]
    weights = {f"block {number}": array for number, array in enumerate(arrays)}
    if before is not None:
        layers = [AttentionLayer(path, array) for path, array in weights.items()]
        read_at = {0: "first", len(subject.labels) - 1: "last"}.get(before.subject.read_token or 0, "mean")
        read_at = "mean" if before.subject.read_token is None else read_at
        subject = replace(subject, attention_layers=lambda _: layers, read_from=read_at)
    if len(shown) < len(square):
        remarks = [
            *remarks,
            f"{len(square) - len(shown)} attentions with other numbers of heads are not shown",
        ]
    paths = tuple((record.path, record.call) for record in shown)
    return Looked(source, subject, {}, chosen, logits, weights, (*remarks, *subject.remarks), paths)


# --- the rest takes many passes: a few at a time -----------------------------------------------------------
class NotYet(Exception):
    """More passes are needed than one call may take."""


class Patient:
    """Runs a subject for at most so many passes at a time, and remembers their results."""

    def __init__(self, subject: ModelOnInput) -> None:
        self.subject, self._run, self.left = (
            replace(subject, outputs_with_hidden=self.run),
            subject.outputs_with_hidden,
            0,
        )
        self.known: dict[bytes, Array] = {}

    def run(self, hidden: Array) -> Array:
        keys = [row.tobytes() for row in np.asarray(hidden, bool)]
        new = list(OrderedDict.fromkeys(key for key in keys if key not in self.known))
        now = new[: max(self.left, 0)]
        if now:
            rows = np.array([np.frombuffer(key, bool) for key in now])
            self.known.update(zip(now, self._run(rows), strict=True))
            self.left -= len(now)
        if len(now) < len(new):
            raise NotYet
        return np.array([self.known[key] for key in keys])
