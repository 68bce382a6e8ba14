"""Edits by which another input or step, or a part of it, stands in place of an operand of a step."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from headwork.grading.step_graph import Changes, StepEdit, StepGraph, last_part, same_node, transposed
from headwork.numbers import HandTensor
from headwork.numbers.operations import OPERATIONS, Node


def other_operand_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """Another input or earlier step in place of one, everywhere or at one place; two that change places."""
    slug, says = "{a}-for-{b}", "{a} stands where {b} belongs"
    for label in graph.leaves:
        right = graph.tensors[label]
        if is_switch(right) and label in graph.case.options:
            continue
        places = [
            (number, place)
            for number, tensor in enumerate(graph.operations)
            for place, operand in enumerate(tensor.node.operands)
            if operand.label == label
        ]
        for other_label, tensor in graph.tensors.items():
            if other_label == label or is_switch(tensor):
                continue
            names, mistake_id = {"a": tensor, "b": right}, swap_id(other_label, label)
            # a stride is rarely taken for a size
            rarity = 1 if (label in graph.case.options) == (other_label in graph.case.options) else 2
            if tensor.shape == right.shape:
                yield StepEdit(slug, says, {label: other_label}, names, rarity, mistake_id)
                for number, place in places if len(places) > 1 else ():
                    part = with_operand(graph.operations[number], place, other_label)
                    yield StepEdit(slug, says, {number: part}, names, rarity, mistake_id)
            if tensor.shape[::-1] == right.shape and len(right.shape) == 2:
                turned = "the transpose of {a} stands where {b} belongs"
                yield StepEdit(slug, turned, {label: transposed(other_label)}, names, 2, mistake_id)
    yield from _time_step_row_edits(graph)
    for label in graph.leaves:
        for inner in (x for x in graph.between if x.shape == graph.tensors[label].shape):
            names = {"a": inner, "b": graph.tensors[label]}
            mistake_id = swap_id(inner.node.operands[0].label, label)
            yield StepEdit("{a}-for-{b}", says, {label: inner}, names, 2, mistake_id)
    for first, second in combinations(graph.leaves, 2):
        names = {"a": graph.tensors[first], "b": graph.tensors[second]}
        if names["a"].shape == names["b"].shape:
            changes: Changes = {first: second, second: first}
            says, mistake_id = "{a} and {b} change places", swap_id(first, second)
            yield StepEdit("{a}-and-{b}-swapped", says, changes, names, 1.2, mistake_id)


def _time_step_row_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A token's row of an input in place of what a time step has worked out: k_t for c_t."""
    times = {label: label.split("/")[0].removeprefix("step ") for label in graph.leaves if "/" in label}
    times = {label: time for label, time in times.items() if time.isdigit()}
    for other, tensor in graph.tensors.items() if times else ():
        found: dict[int | str, Any] = {
            label: Node("getitem", (other,), {"key": slice(int(time), int(time) + 1)})
            for label, time in times.items()
            if graph.tensors[label].shape == (1, *tensor.shape[1:]) and int(time) < (*tensor.shape, 0)[0]
        }
        for changes in [found, *({label: part} for label, part in found.items())] if found else ():
            names = {"a": tensor, "b": graph.tensors[next(iter(changes))]}
            says = "the row of {a} stands where {b} belongs" + (", each time" if len(changes) > 1 else "")
            yield StepEdit("row-of-{a}-for-{b}", says, changes, names, 2)


def is_switch(tensor: HandTensor) -> bool:
    """Whether it is a number such as "with biases: 1", which nobody takes for another."""
    return tensor.shape == () and float(tensor.array) in (0.0, 1.0)


def swap_id(*labels: str) -> str:
    """The mistake_id of one operand in place of another: the same mistake the other way round."""
    return " and ".join(sorted(map(last_part, labels)))


def part_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Another input or step where only a part of one is read: k_t for q_t, above the quotient only."""
    for place, operand in enumerate(tensor.node.operands):
        below = operand
        while not below.label and below.node.operands and OPERATIONS[below.node.operation].rearranges:
            below = below.node.operands[0]
        if below.label in (operand.label, "") or below.label not in graph.tensors:
            continue
        for other, known in graph.tensors.items():
            if other != below.label and known.shape == below.shape and not is_switch(known):
                part = with_operand(tensor, place, _instead_of(operand, below, other))
                names, mistake_id = {"a": known, "b": below}, swap_id(other, below.label)
                yield StepEdit(
                    "{a}-for-{b}", "{a} stands where {b} belongs", {number: part}, names, 1, mistake_id
                )


def _instead_of(tensor: HandTensor, below: HandTensor, label: str) -> Any:
    """What is read of one tensor, read of another one."""
    if tensor is below:
        return label
    operands = tensor.node.operands
    return tensor.node._replace(operands=(_instead_of(operands[0], below, label), *operands[1:]))


def with_operand(tensor: HandTensor, place: int, part: Any) -> Node:
    """An operation with another operand at one place."""
    node = same_node(tensor)
    return node._replace(operands=(*node.operands[:place], part, *node.operands[place + 1 :]))
