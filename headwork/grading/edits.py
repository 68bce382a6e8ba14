"""The small edits of how a step is worked out: what a student may have done instead.

An edit is data: what stands in place of an operation of the step, or of an operand wherever it stands. Most
are rows of ``edits.toml``; what depends on shapes and on the other inputs is made here.
"""

import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from headwork.grading.slice_edits import operand_slices, parts_side_by_side, positions, result_slices
from headwork.grading.step_graph import Changes, StepEdit, StepGraph, itself
from headwork.numbers import HandTensor
from headwork.numbers.operations import OPERATIONS, Node

TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("edits.toml").read_text("utf-8")
)


def edits_of(graph: StepGraph) -> Iterator[StepEdit]:
    """Every small edit of a step, each as data. The order is that of likelihood only within a cost."""
    for number, tensor in enumerate(graph.operations):
        yield from positions(number, tensor, heads="heads" in graph.case.options)
        yield from _table_edits(number, tensor, TABLE.get(tensor.node.operation, []))
        yield from _table_edits(number, tensor, TABLE["part" if tensor is not graph.result else "result"])
        yield from _constants(graph, number, tensor)
        yield from _orders(number, tensor)
        yield from parts_side_by_side(number, tensor)
    yield from _other_operands(graph)
    yield from _beyond(graph)
    for label in graph.leaves:
        yield from _operand_edits(graph, label)
        yield from operand_slices(graph, label)
    yield from result_slices(graph)
    yield from _options(graph)


def _tree(part: Any, it: Any, same: Mapping[str, Any], sizes: Mapping[str, float]) -> Any:
    """A row's ``instead`` as nodes."""
    if part == "it":
        return it
    if not isinstance(part, list):
        return part
    name, *operands = part
    options: Mapping[str, Any] = {}
    if operands[-1] == "same":
        options = same
        operands = operands[:-1]
    elif isinstance(operands[-1], dict):
        options = {
            key: tuple(value) if isinstance(value, list) else sizes.get(value, value)
            for key, value in operands.pop().items()
        }
    return Node(name, tuple(_tree(operand, it, same, sizes) for operand in operands), options)


def _rows(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, Any, int, str]]:
    for row in rows:
        yield row["slug"], row["says"], row["instead"], row.get("cost", 1), row.get("charge", "")


def _table_edits(number: int, tensor: HandTensor, rows: list[dict[str, Any]]) -> Iterator[StepEdit]:
    operands, node = tensor.node.operands, tensor.node
    words = {"a": operands[0], "b": operands[-1], "it": tensor}
    first = operands[0].array
    count = first.size / max(tensor.array.size, 1) if node.operation == "sum" else (first.shape or (1,))[-1]
    sizes = {"n": float(count), "rows": float((1, 1, *first.shape)[-2])}
    for cause, says, instead, cost, charge in _rows(rows):
        part = _tree(instead, itself(tensor), node.options, sizes)
        yield StepEdit(cause, says, {number: part}, words, cost, charge)


def _operand_edits(graph: StepGraph, label: str) -> Iterator[StepEdit]:
    words = {"it": graph.known[label]}
    for cause, says, instead, cost, charge in _rows(TABLE["operand"]):
        yield StepEdit(cause, says, {label: _tree(instead, label, {}, {})}, words, cost, charge)


def _other_operands(graph: StepGraph) -> Iterator[StepEdit]:
    """Another input or earlier step in place of one, everywhere or at one place; two that change places."""
    cause, says = "{a}-for-{b}", "{a} stands where {b} belongs"
    for label in graph.leaves:
        right = graph.known[label]
        places = [
            (number, place)
            for number, tensor in enumerate(graph.operations)
            for place, operand in enumerate(tensor.node.operands)
            if operand.label == label
        ]
        for other, tensor in graph.known.items():
            if other == label or _switch(tensor):
                continue
            words, charge = {"a": tensor, "b": right}, " and ".join(sorted((_role(other), _role(label))))
            if tensor.shape == right.shape:
                yield StepEdit(cause, says, {label: other}, words, 1, charge)
                for number, place in places if len(places) > 1 else ():
                    node = itself(graph.operations[number])
                    operands = (*node.operands[:place], other, *node.operands[place + 1 :])
                    yield StepEdit(cause, says, {number: node._replace(operands=operands)}, words, 1, charge)
            if tensor.shape[::-1] == right.shape and len(right.shape) == 2:
                turned = Node("transpose", (other,), {"axis1": -2, "axis2": -1})
                yield StepEdit(
                    cause, "the transpose of {a} stands where {b} belongs", {label: turned}, words, 2, charge
                )
    for first, second in combinations(graph.leaves, 2):
        words = {"a": graph.known[first], "b": graph.known[second]}
        if words["a"].shape == words["b"].shape:
            charge = " and ".join(sorted((_role(first), _role(second))))
            changes: Changes = {first: second, second: first}
            yield StepEdit("{a}-and-{b}-swapped", "{a} and {b} change places", changes, words, 1, charge)


def _switch(tensor: HandTensor) -> bool:
    """Whether it is a number such as "with biases: 1", which nobody takes for another."""
    return tensor.shape == () and float(tensor.array) in (0.0, 1.0)


def _role(label: str) -> str:
    return label.rpartition("/")[2]


def _constants(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Another number in place of a constant of the formula: one more or less, twice, half, a size."""
    sizes = {float(size) for value in graph.known.values() for size in value.shape if size > 1}
    for place, operand in enumerate(tensor.node.operands):
        if operand.label or operand.node.operands or operand.array.size != 1:
            continue
        value = float(operand.array.flat[0])
        near = {value - 1, value + 1, value * 2, value / 2, value**2, -value}
        for other in sorted((near | sizes | {1.0, 10000.0}) - {value}):
            constant = Node("constant", (place,), {"value": other})
            node = itself(tensor)
            operands = (*node.operands[:place], constant, *node.operands[place + 1 :])
            words = {"a": HandTensor(np.array(other)), "b": operand}
            part = node._replace(operands=operands)
            yield StepEdit("{a}-for-{b}", "{a} stands where {b} belongs", {number: part}, words, 2)


def _orders(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Two operations in the other order: the sum of squares for the square of the sum, the bias before W."""
    outer = tensor.node
    for place, operand in enumerate(outer.operands):
        inner = operand.node
        if operand.label or not inner.operands or OPERATIONS[inner.operation].rearranges:
            continue
        for within, below in enumerate(inner.operands):
            moved = Node(
                outer.operation,
                tuple(below if i == place else i for i in range(len(outer.operands))),
                outer.options,
            )
            parts = (*inner.operands[:within], moved, *inner.operands[within + 1 :])
            words = {"a": tensor, "b": operand}
            says = "two operations are done in the other order"
            yield StepEdit(
                "order-exchanged", says, {number: Node(inner.operation, parts, inner.options)}, words, 2
            )


def _beyond(graph: StepGraph) -> Iterator[StepEdit]:
    """Another input or step taken for the result, or added to it, multiplied with it, and so on."""
    number, result = len(graph.operations) - 1, graph.result
    it = itself(result)
    rows = (
        ("add", "{a}-added", "{a} is added, which does not belong there"),
        ("subtract", "{a}-subtracted", "{a} is subtracted, which does not belong there"),
        ("multiply", "multiplied-by-{a}", "the result is multiplied by {a}, which does not belong there"),
        ("divide", "divided-by-{a}", "the result is divided by {a}, which does not belong there"),
        ("matmul", "{a}-applied-too", "{a} is applied to the result, which does not belong there"),
    )
    for label, tensor in graph.known.items():
        if _switch(tensor):
            continue
        words = {"a": tensor, "step": graph.path}
        if tensor.shape == result.shape:
            yield StepEdit(
                "{a}-given", "{a} is given as the result", {number: label}, words, 2, f"{_role(label)} given"
            )
        elif tensor.shape[::-1] == result.shape:
            turned = Node("transpose", (label,), {"axis1": -2, "axis2": -1})
            yield StepEdit(
                "{a}-given", "the transpose of {a} is given as the result", {number: turned}, words, 3
            )
        for name, cause, says in rows:
            if name in ("multiply", "divide") and tensor.shape == result.shape != ():
                continue  # nobody multiplies two matrices entry by entry without need
            yield StepEdit(
                cause, says, {number: Node(name, (it, label), {})}, words, 2, f"{name} {_role(label)}"
            )
        turned = Node("transpose", (label,), {"axis1": -2, "axis2": -1})
        yield StepEdit(rows[-1][1], rows[-1][2], {number: Node("matmul", (it, turned), {})}, words, 2)


def _options(graph: StepGraph) -> Iterator[StepEdit]:
    """Another stride, padding, number of heads, activation: the mechanism is run again."""
    for name, value in graph.case.options.items():
        if name in graph.known or name == "convention":
            continue
        words = {"a": name.replace("_", " "), "b": str(value)}
        if isinstance(value, int):
            least = 1 if name in ("stride", "groups", "heads") else 0
            for other in sorted({least, value - 1, value + 1, 2 * value} - {value}):
                left_out = value > least and other == least
                cause = "{a}-left-out" if left_out else f"{{a}}-{other}-for-{{b}}"
                says = "the {a} is left out" if left_out else f"the {{a}} is taken as {other}; it is {{b}}"
                if other >= least:
                    yield StepEdit(cause, says, {}, words, 1 if left_out else 2, name, {name: other})
