"""How a step is worked out, as a graph that edits change; and the name and sentence of an edit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headwork.errors import InputError
from headwork.exercises.case import Array, Case, Edit, NotApplicable, Steps
from headwork.exercises.exercise_mechanisms import EXERCISE_MECHANISMS
from headwork.grading.wording import Wording
from headwork.numbers import HandTensor
from headwork.numbers.graph import OperationEdit, recompute, results_since_labels
from headwork.numbers.operations import Node, compute_unguarded

UNFIT = (ValueError, IndexError, TypeError, InputError, NotApplicable, ZeroDivisionError, OverflowError)
SLID_INPUTS = ("signal", "image")  # what a kernel slides over
# What stands instead of an operation, by number, or of an operand, by label.
Changes = Mapping[int | str, Any]


class StepEdit(NamedTuple):
    """What stands instead of operations (by number) or of operands (by label); ``options`` of the mechanism,
    of whose result the key at -1 is taken.

    ``slug`` and ``says`` name the operands in ``{a}``, ``{b}`` and ``{it}``, which ``placeholders`` holds:
    tensors, or text. Edits with one ``mistake_id`` are one mistake wherever they are made.
    """

    slug: str
    says: str
    changes: Changes
    placeholders: Mapping[str, Any]
    rarity: float = 1
    mistake_id: str = ""
    options: Mapping[str, Any] = {}


# What is no formula that a student reads.
UNWRITTEN = (
    "constant",
    "_equal",
    "greater",
    "positive",
    "max(0)",
    "join(",
    "cumsum",
    "tril",
    "erf",
    "softmax(S 0)",
)


def last_part(label: str) -> str:
    return label.rpartition("/")[2]


def same_node(tensor: HandTensor) -> Node:
    """An operation in terms of its own operands."""
    return Node(tensor.node.operation, tuple(range(len(tensor.node.operands))), tensor.node.options)


def constant(like: Any, value: Any) -> Node:
    """A number, of the kind of another part."""
    return Node("constant", (like,), {"value": value})


def picked(part: Any, key: Any) -> Node:
    return Node("getitem", (part,), {"key": key})


def transposed(part: Any) -> Node:
    return Node("transpose", (part,), {"axis1": -2, "axis2": -1})


@dataclass(frozen=True)
class StepGraph:
    """How one step is worked out from the inputs and the earlier steps that the student wrote."""

    case: Case
    path: str
    earlier: Steps  # from which the student is assumed to have continued
    operations: list[HandTensor]
    tensors: dict[Any, HandTensor] = field(default_factory=dict)
    later: dict[str, HandTensor] = field(default_factory=dict)  # the steps after it, worked out right
    between: tuple[HandTensor, ...] = ()  # what is worked out on the way to the steps before it

    @property
    def result(self) -> HandTensor:
        return self.operations[-1]

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The numbers of what is known, by its label."""
        return {str(label): tensor.array for label, tensor in self.tensors.items()}

    @cached_property
    def leaves(self) -> list[str]:
        """The labels of the operands of the step."""
        operands = (operand for tensor in self.operations for operand in tensor.node.operands)
        return list(dict.fromkeys(operand.label for operand in operands if operand.label))

    @cached_property
    def first_uses(self) -> dict[Any, int]:
        """The first operation that each operand goes into, by its label."""
        operations = list(enumerate(self.operations))
        return {x.label: n for n, tensor in reversed(operations) for x in tensor.node.operands if x.label}

    @cached_property
    def first_changed_operation(self) -> int:
        """The first operation that has other operands than it was recorded with; else the last."""
        for number, tensor in enumerate(self.operations):
            if any(self.tensors.get(x.label, x) is not x for x in tensor.node.operands if x.label):
                return number
        return len(self.operations) - 1

    @cached_property
    def branches(self) -> list[list[int]]:
        """The operations that are done in the same way for each time step or token, by number."""
        signatures: dict[Node, Any] = {}
        groups: dict[Any, list[int]] = {}

        def signature(tensor: HandTensor) -> Any:
            return last_part(tensor.label) or signatures.get(tensor.node, tensor.shape)

        for number, tensor in enumerate(self.operations):
            node = tensor.node
            place = () if node.operation == "getitem" else tuple(map(str, node.options.items()))
            made = (node.operation, place, *map(signature, node.operands))
            signatures[node] = hash(made)
            groups.setdefault((made, tensor.shape), []).append(number)
        return [group for group in groups.values() if len(group) > 1]

    @cached_property
    def namesakes(self) -> list[list[str]]:
        """The operands of the same name at several time steps."""
        groups: dict[str, list[str]] = {}
        for label in self.leaves:
            groups.setdefault(last_part(label), []).append(label)
        return [group for group in groups.values() if len(group) > 1]

    def apply(self, edit: StepEdit) -> Array | None:
        """The numbers of the step as the edit gives them, or None where it does not fit.

        numpy's warnings are off where this is called.
        """
        arrays, uses = self.arrays, self.first_uses
        try:
            if edit.options:
                value = self.case.run(self.earlier, [Edit(lambda _: edit.options)])[self.path]
                return value[edit.changes[-1]] if edit.changes else value
            if labels := [label for label in edit.changes if isinstance(label, str)]:
                last = self.result.node.operands
                arrays = dict(arrays)
                for label in labels:
                    arrays[label] = _worked_out(edit.changes[label], last, self.arrays, {})
            start = min(
                self.first_changed_operation,
                *(uses.get(x, 0) if isinstance(x, str) else x for x in edit.changes),
            )
            new: dict[Node, Array] = {}
            for number in range(start, len(self.operations)):
                node = self.operations[number].node
                if number in edit.changes:
                    new[node] = _worked_out(edit.changes[number], node.operands, arrays, new)
                    continue
                below = [_array_of(x, arrays, new) for x in node.operands]
                if any(array is not x.array for array, x in zip(below, node.operands, strict=True)):
                    new[node] = compute_unguarded(node.operation, below, node.options)
            return _array_of(self.result, arrays, new)
        except UNFIT:
            return None

    def edited(self, edit: StepEdit) -> HandTensor | None:
        """The step with edited operations as a graph of its own, to be written as a formula."""
        try:
            edits = [OperationEdit(n, part) for n, part in edit.changes.items() if isinstance(n, int)]
            return recompute(self.operations, edits, self.tensors)
        except UNFIT:
            return None


def _array_of(tensor: HandTensor, arrays: Mapping[str, Array], new: Mapping[Node, Array]) -> Array:
    """The numbers of a tensor: those known by its label, those worked out anew, or its own."""
    return arrays[tensor.label] if tensor.label in arrays else new.get(tensor.node, tensor.array)


def _worked_out(part: Any, operands: Any, arrays: Mapping[str, Array], new: Mapping[Node, Array]) -> Array:
    """The numbers of what stands in an edit: a node, the place of an operand, a tensor or a label."""
    if isinstance(part, Node):
        below = [_worked_out(inner, operands, arrays, new) for inner in part.operands]
        return compute_unguarded(part.operation, below, part.options)
    if isinstance(part, int):
        part = operands[part]
    return _array_of(part, arrays, new) if isinstance(part, HandTensor) else arrays[part]


def step_graph(case: Case, path: str, earlier: Steps) -> StepGraph | None:
    """The operations of a step from the student's own earlier numbers; None for a step that is an input."""
    counts_sizes = case.mechanism.slug in EXERCISE_MECHANISMS and case.counts_sizes
    inputs: dict[str, Any] = {}
    for name, value in {**case.inputs, **case.options}.items():
        tensor = HandTensor(np.array(float(value))) if counts_sizes and isinstance(value, int) else value
        inputs[name] = tensor.labelled(name) if isinstance(tensor, HandTensor) else value
    tensors = {name: value for name, value in inputs.items() if isinstance(value, HandTensor)}
    nodes = {value.node for value in tensors.values()}
    steps: dict[str, HandTensor] = {}

    def note(name: str, value: Any, /) -> Any:
        tensor = value if isinstance(value, HandTensor) else HandTensor(np.asarray(value, float))
        steps[name] = tensor
        if name in earlier:
            tensor = HandTensor(earlier[name]).labelled(name)
        same_as_state = name.endswith("/sum") and case.options.get("activation") == "linear"
        if path not in steps and tensor.node not in nodes and not same_as_state:
            nodes.add(tensor.node)
            tensors[name] = tensor if tensor.label == name else tensor.labelled(name)
        return tensor if isinstance(value, HandTensor) else value

    try:
        with np.errstate(all="ignore"):
            case.mechanism.run(inputs, note)
    except UNFIT:
        return None
    step = steps.get(path)
    if step is None:
        return None
    if not step.node.operands or step.label:  # a step that is an operand: one operation that keeps it
        step = step._apply("to", (step,), {"dtype": step.array.dtype})
    later = {
        name: tensor.labelled(name) for name, tensor in steps.items() if name not in tensors and name != path
    }
    on_the_way = [results_since_labels(steps[x])[:-1] for x in tensors if x in steps and x != path]
    between = tuple(
        x for made in on_the_way for x in made if x.node.operation in ("add", "subtract") and x.shape
    )
    return StepGraph(case, path, earlier, results_since_labels(step), tensors, later, between)


def describe_edit(edit: StepEdit, graph: StepGraph, wording: Wording) -> tuple[str, str]:
    """The name and the sentence of an edit: what was done, and the formula beside the right one."""

    def word(value: Any, inner: bool) -> str:
        if isinstance(value, tuple):
            label, axis = value
            axes, tensor = wording.axes(label), graph.tensors.get(label, graph.result)
            count = len(tensor.shape)
            if count > 2 and len(axes) == count:
                return axes[axis].replace("_", " ")
            return "number" if count == 1 else "row" if axis == count - 2 else "column" if axis else "part"
        if isinstance(value, str):
            return value
        return wording.formula(value, inner) if inner else wording.name(value)

    names = {k: word(x, False).strip("()").replace(" ", "-") for k, x in edit.placeholders.items()}
    slug = edit.slug.format(**names)
    sentence = edit.says.format(**{key: word(value, True) for key, value in edit.placeholders.items()})
    says_enough = bool(set(edit.says) & set(":;") or edit.slug == "other-formula" or edit.options)
    says_enough = says_enough or any(isinstance(key, str) for key in edit.changes)
    windows = any(name in graph.tensors for name in SLID_INPUTS) and "matrix" not in graph.tensors
    edited = None if says_enough or windows else graph.edited(edit)
    if edited is not None:
        wrong, right = wording.formula(edited), wording.formula(graph.result)
        written = not {wrong[:4], right[:4]} & {"the "} and not any(word in wrong for word in UNWRITTEN)
        if written and wrong != right:
            sentence += f": {wrong} where {right} belongs"
    return slug, sentence
