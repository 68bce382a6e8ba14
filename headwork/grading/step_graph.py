"""How a step is worked out, as a graph that edits change; and the name and sentence of an edit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headwork.errors import InputError
from headwork.exercises.case import Case, Edit, NotApplicable, Steps
from headwork.exercises.exercise_mechanisms import EXERCISE_MECHANISMS
from headwork.grading.wording import Wording
from headwork.numbers import HandTensor
from headwork.numbers.graph import OperationEdit, recompute, results_since_labels
from headwork.numbers.operations import Node

UNFIT = (ValueError, IndexError, TypeError, InputError, NotApplicable, ZeroDivisionError, OverflowError)
SLID = ("signal", "image")  # what a kernel slides over
# What stands instead of an operation, by number, or of an operand, by label.
Changes = Mapping[int | str, Any]


class StepEdit(NamedTuple):
    """What stands instead of operations (by number) or of operands (by label); ``options`` of the mechanism.

    ``cause`` and ``says`` name the operands in ``{a}``, ``{b}`` and ``{it}``, which ``words`` holds: tensors,
    or text. Edits with one ``mistake_id`` are one mistake wherever they are made.
    """

    cause: str
    says: str
    changes: Changes
    words: Mapping[str, Any]
    cost: float = 1
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
    known: dict[Any, HandTensor] = field(default_factory=dict)
    later: dict[str, HandTensor] = field(default_factory=dict)  # the steps after it, worked out right
    between: tuple[HandTensor, ...] = ()  # what is worked out on the way to the steps before it

    @property
    def result(self) -> HandTensor:
        return self.operations[-1]

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
    def moved_from(self) -> int:
        """The first operation that has other operands than it was recorded with; else the last."""
        for number, tensor in enumerate(self.operations):
            if any(self.known.get(x.label, x) is not x for x in tensor.node.operands if x.label):
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

    def apply(self, edit: StepEdit) -> HandTensor | None:
        """The step as the edit gives it, or None where it does not fit."""
        try:
            with np.errstate(all="ignore"):
                if edit.options:
                    value = self.case.run(self.earlier, [Edit(lambda _: edit.options)])[self.path]
                    return HandTensor(value[tuple(map(slice, self.result.shape))] if edit.changes else value)
                known, uses = self.known, self.first_uses
                if labels := [label for label in edit.changes if isinstance(label, str)]:
                    known = dict(known)
                    for label in labels:
                        part = OperationEdit(0, edit.changes[label])
                        known[label] = recompute(self.operations[-1:], [part], self.known)
                places = (uses.get(x, 0) if isinstance(x, str) else x for x in edit.changes)
                start = min(self.moved_from, *places)
                edits = [
                    OperationEdit(n - start, edit.changes[n]) for n in edit.changes if isinstance(n, int)
                ]
                return recompute(self.operations[start:], edits, known)
        except UNFIT:
            return None


def step_graph(case: Case, path: str, earlier: Steps) -> StepGraph | None:
    """The operations of a step from the student's own earlier numbers; None for a step that is an input."""
    whole = case.mechanism.slug in EXERCISE_MECHANISMS and case.counts_sizes
    inputs: dict[str, Any] = {}
    for name, value in {**case.inputs, **case.options}.items():
        tensor = HandTensor(np.array(float(value))) if whole and isinstance(value, int) else value
        inputs[name] = tensor.labelled(name) if isinstance(tensor, HandTensor) else value
    known = {name: value for name, value in inputs.items() if isinstance(value, HandTensor)}
    nodes = {value.node for value in known.values()}
    steps: dict[str, HandTensor] = {}

    def note(name: str, value: Any, /) -> Any:
        tensor = value if isinstance(value, HandTensor) else HandTensor(np.asarray(value, float))
        steps[name] = tensor
        if name in earlier:
            tensor = HandTensor(earlier[name]).labelled(name)
        same_as_state = name.endswith("/sum") and case.options.get("activation") == "linear"
        if path not in steps and tensor.node not in nodes and not same_as_state:
            nodes.add(tensor.node)
            known[name] = tensor if tensor.label == name else tensor.labelled(name)
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
        name: tensor.labelled(name) for name, tensor in steps.items() if name not in known and name != path
    }
    on_the_way = [results_since_labels(steps[name])[:-1] for name in known if name in steps and name != path]
    between = tuple(
        x for made in on_the_way for x in made if x.node.operation in ("add", "subtract") and x.shape
    )
    return StepGraph(case, path, earlier, results_since_labels(step), known, later, between)


def describe_edit(edit: StepEdit, graph: StepGraph, wording: Wording) -> tuple[str, str]:
    """The name and the sentence of an edit: what was done, and the formula beside the right one."""

    def word(value: Any, inner: bool) -> str:
        if isinstance(value, tuple):
            label, axis = value
            axes, tensor = wording.axes(label), graph.known.get(label, graph.result)
            count = len(tensor.shape)
            if count > 2 and len(axes) == count:
                return axes[axis].replace("_", " ")
            return "number" if count == 1 else "row" if axis == count - 2 else "column" if axis else "part"
        if isinstance(value, str):
            return value
        return wording.formula(value, inner) if inner else wording.name(value)

    names = {key: word(value, False).strip("()").replace(" ", "-") for key, value in edit.words.items()}
    cause = edit.cause.format(**names)
    sentence = edit.says.format(**{key: word(value, True) for key, value in edit.words.items()})
    whole = bool(set(edit.says) & set(":;") or edit.cause == "other-formula" or edit.options)
    whole = whole or any(isinstance(key, str) for key in edit.changes)
    windows = any(name in graph.known for name in SLID) and "matrix" not in graph.known  # no formula to read
    edited = None if whole or windows else graph.apply(edit)
    if edited is not None:
        wrong, right = wording.formula(edited), wording.formula(graph.result)
        written = not {wrong[:4], right[:4]} & {"the "} and not any(word in wrong for word in UNWRITTEN)
        if written and wrong != right:
            sentence += f": {wrong} where {right} belongs"
    return cause, sentence
