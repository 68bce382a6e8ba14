"""Edits that take a part from elsewhere: a sum of another step, another layer's operands, a size for another;
what is done to one term of a sum only, or before another operation; positions and factors too many in counts.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from headwork.grading.step_graph import Changes, StepEdit, StepGraph, constant, same_node
from headwork.numbers import HandTensor
from headwork.numbers.operations import OPERATIONS, Node

LINEAR = ("multiply", "divide", "matmul", "transpose", "negative", "reshape")
NUMBERED = re.compile(r"(.*_)(\d)")  # W_1, b_2


def edits_from_elsewhere(graph: StepGraph) -> Iterator[StepEdit]:
    """All edits of this file."""
    scalars_only = not graph.result.shape and all(not tensor.shape for tensor in graph.tensors.values())
    yield from _moved_term_edits(graph)
    yield from _other_layer_edits(graph)
    yield from _one_term_edits(graph)
    for number, tensor in enumerate(graph.operations):
        yield from _other_sum_edits(graph, number, tensor)
    yield from _counted_position_edits(graph) if scalars_only else _added_operand_edits(graph)


def _other_layer_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """W_2 and b_2 in place of W_1 and b_1."""
    changes: dict[int | str, Any] = {}
    for label in graph.leaves:
        if match := NUMBERED.fullmatch(label):
            other = f"{match[1]}{3 - int(match[2])}"
            if other in graph.tensors and graph.tensors[other].shape == graph.tensors[label].shape:
                changes[label] = other
    if len(changes) > 1:
        names = {"a": " and ".join(changes.values()), "b": " and ".join(map(str, changes))}
        says = "{a} stand where {b} belong"
        yield StepEdit("layers-exchanged", says, changes, names, 1, "layers exchanged")


def _other_sum_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """A softmax divided by a sum of other exponentials, or by a size; another step for a number."""
    below = tensor.node.operands
    if tensor.node.operation == "softmax":
        powers, sizes = Node("exp", (0,), {}), {s for x in graph.tensors.values() for s in x.shape if s > 1}
        for label, replacement in graph.tensors.items():
            if replacement.shape == tensor.shape and label != below[0].label:
                old = Node("sum", (Node("exp", (label,), {}),), {"axis": -1, "keepdims": True})
                says = "the exponentials are divided by the sum of those of {a}"
                part = Node("divide", (powers, old), {})
                yield StepEdit("sum-of-{a}-below", says, {number: part}, {"a": replacement}, 2)
        count = tensor.shape[-1]
        for size in (sizes | {count - 1, count + 1}) - {count, 0}:
            part = Node("divide", (powers, constant(0, float(size))), {})
            says = "the exponentials are divided by {a}, another size, not by their sum"
            yield StepEdit("divided-by-another-size", says, {number: part}, {"a": str(size)}, 2)
    for place, operand in enumerate(below):
        scaled = tensor.node.operation in ("divide", "multiply")
        if scaled and operand.array.size == 1 and not operand.node.operands:
            for label, replacement in graph.tensors.items():
                if replacement.shape and replacement.shape == (*tensor.shape[:-1], 1):
                    node = same_node(tensor)
                    part = node._replace(operands=tuple(label if i == place else i for i in node.operands))
                    names = {"a": replacement, "b": operand}
                    yield StepEdit("{a}-for-{b}", "{a} stands where {b} belongs", {number: part}, names, 2)


def _added_operand_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """An input that has no part in the step added to one that has."""
    for label in graph.leaves:
        right = graph.tensors[label]
        for other, tensor in graph.tensors.items():
            if other in graph.case.inputs and other != label and tensor.shape == right.shape != ():
                names, part = {"a": tensor, "b": right}, Node("add", (label, other), {})
                says = "{a} is added to {b}, where it does not belong"
                yield StepEdit("{a}-added-to-{b}", says, {label: part}, names, 2.5)


def _moved_term_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """What is added to one operand added to another one instead."""
    for number, tensor in enumerate(graph.operations):
        operands = tensor.node.operands
        for place, operand in enumerate(operands) if tensor.node.operation == "add" else ():
            for label in graph.leaves if operand.label and operand.shape else ():
                other = graph.tensors[label]
                if other.shape == operand.shape and label not in [x.label for x in operands]:
                    moved = Node("add", (label, operand.label), {})
                    names = {"a": operand, "b": other, "c": operands[1 - place]}
                    says = "{a} is added to {b}, not to {c}"
                    changes: Changes = {number: 1 - place, label: moved}
                    yield StepEdit("{a}-added-to-{b}", says, changes, names, 2)


def _one_term_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A factor at one term of a sum only: beta Q K^T + Q Delta^T."""
    for number, tensor in enumerate(graph.operations):
        if tensor.node.operation != "add" or not tensor.shape or tensor is graph.result:
            continue
        above: list[HandTensor] = []
        on_the_way = {tensor.node}
        for other in graph.operations[number + 1 :]:
            if any(x.node in on_the_way for x in other.node.operands):
                above.append(other)
                on_the_way.add(other.node)
        if any(x.node.operation not in LINEAR for x in above):
            continue
        for factor in (x for x in above if x.node.operation in ("multiply", "divide")):
            inner = next(x for x in factor.node.operands if x.node in on_the_way)
            for term, without in ((0, 1), (1, 0)):
                with_it = _copy(graph.result, {tensor.node: tensor.node.operands[term]})
                left = tensor.node.operands[without]
                plain = _copy(inner, {tensor.node: left})
                alone = _copy(graph.result, {tensor.node: left, factor.node: plain})
                scale = next(x for x in factor.node.operands if x is not inner)
                names = {"a": scale, "b": left}
                part: Changes = {len(graph.operations) - 1: Node("add", (with_it, alone), {})}
                yield StepEdit("{a}-not-on-{b}", "{a} is left out on the part of {b}", part, names, 2)


def _copy(tensor: HandTensor, instead: dict[Node, Any]) -> Any:
    """How a tensor is worked out, with other parts in some places."""
    if tensor.node in instead:
        return instead[tensor.node]
    if tensor.label or not tensor.node.operands:
        return tensor
    operands = tuple(_copy(x, instead) for x in tensor.node.operands)
    return tensor.node._replace(operands=operands)


def order_edits(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """An operation done before the one or two below it: the bias before W, the root before the sum."""
    outer, says = tensor.node, "two operations are done in the other order"
    for place, operand in enumerate(outer.operands):
        for steps in (1, 2, 3, 4) if outer.operation == "sqrt" else (1, 2):
            for part in _moved_inwards(outer, place, operand, steps):
                names, rarity = {"a": tensor, "b": operand}, 1 if outer.operation == "sqrt" else 1 + steps
                yield StepEdit("order-exchanged", says, {number: part}, names, rarity)


def _moved_inwards(outer: Node, place: int, operand: HandTensor, steps: int) -> Iterator[Node]:
    """The operands of an operation with ``outer`` done to one of them, that many operations further down."""
    inner = operand.node
    if operand.label or not inner.operands or OPERATIONS[inner.operation].rearranges:
        return
    for within, below in enumerate(inner.operands):
        moved = tuple(below if i == place else i for i in range(len(outer.operands)))
        parts: Iterable[Any] = [Node(outer.operation, moved, outer.options)]
        if steps > 1:
            parts = _moved_inwards(outer, place, below, steps - 1)
        for part in parts:
            operands = (*inner.operands[:within], part, *inner.operands[within + 1 :])
            yield Node(inner.operation, operands, inner.options)


# --- sizes -------------------------------------------------------------------------------------------
def _counted_position_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """Of n positions those where a whole kernel fits, or with the padding."""
    one = constant("kernel", 1.0)
    length = next((name for name in ("size", "height") if {name, "padding"} <= set(graph.tensors)), "")
    for label in (x for x in graph.leaves if x != "padding") if length else ():
        every = Node("add", (length, Node("add", ("padding", "padding"), {})), {})
        names = {"it": graph.tensors[label], "n": graph.tensors[length]}
        says = "{n} + 2 p, the padded positions, stand where {it} belongs"
        yield StepEdit("padded-for-{it}", says, {label: every}, names, 2, "padded")
    for label in graph.leaves if "kernel" in graph.tensors else ():
        if (
            label in graph.earlier
            or (label == "width" and "tokens" in graph.tensors)
            or label in ("kernel", "stride", "padding", "channels", "filters", "biases")
        ):
            continue
        names = {"it": graph.tensors[label]}
        fits = Node("add", (Node("subtract", (label, "kernel"), {}), one), {})
        says = "only the positions where a whole kernel fits are counted, {it} - k + 1"
        yield StepEdit("{it}-without-ends", says, {label: fits}, names, 2)
        if "padding" in graph.tensors and "padding" not in graph.leaves:
            padded = Node("add", (label, Node("add", ("padding", "padding"), {})), {})
            yield StepEdit(
                "{it}-padded", "the padded positions are counted too", {label: padded}, names, 2, "padded"
            )
