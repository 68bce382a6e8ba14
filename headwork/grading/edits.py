"""The small edits of how a step is worked out: what a student may have done instead.

An edit is data: what stands in place of an operation of the step, or of an operand wherever it stands. Most
are rows of ``edits.toml``; what depends on shapes and on the other inputs is made here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from headwork.files import load_package_toml
from headwork.grading.borrowed_edits import edits_from_elsewhere, order_edits
from headwork.grading.operand_edits import is_switch, other_operand_edits, part_edits, swap_id, with_operand
from headwork.grading.slice_edits import (
    concatenation_edits,
    left_out_term_edits,
    operand_slice_edits,
    position_edits,
    power_edits,
    result_slice_edits,
)
from headwork.grading.sliding_edits import border_edits, kernel_part_edits
from headwork.grading.step_graph import (
    SLID_INPUTS,
    Changes,
    StepEdit,
    StepGraph,
    constant,
    same_node,
    transposed,
)
from headwork.grading.two_edits import two_edits
from headwork.grading.weight_edits import weight_edits
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

Options = Mapping[str, Any]
TABLE: dict[str, list[dict[str, Any]]] = load_package_toml(__file__, "edits.toml")
AXIS_OPERATIONS = (
    "amax",
    "sum",
    "softmax",
    "cumsum",
    "unsqueeze",
)  # operations that need more than one number
ARITHMETIC = ("add", "subtract", "multiply", "divide")
SMALLEST_FORMULA_NUMBER = 1e-6  # smaller numbers stand in no formula
MOST_PLACES = 4  # of one edit, of which two are tried at once
# What is done to the numbers of a formula, too.
COMMON_TO_CONSTANTS = ("term left out", "factor left out", "division left out", "subtracted")


def edits_of(graph: StepGraph) -> Iterator[StepEdit]:
    """Every small edit of a step, each as data. The order is that of likelihood only within a rarity."""
    single_edits = list(_edits(graph))
    yield from single_edits
    yield from _edits_at_two_places(single_edits)


def _edits_at_two_places(single_edits: list[StepEdit]) -> Iterator[StepEdit]:
    """One edit made at two places: neither matrix applied, both transposed."""
    alike: dict[tuple[str, str], list[StepEdit]] = {}
    for edit in single_edits:
        if not edit.options and (edit.rarity < 2 or edit.mistake_id in ("off by one", "reversed")):
            alike.setdefault((edit.slug, edit.says), []).append(edit)
    for edits in alike.values():
        for first, second in combinations(edits, 2) if len(edits) <= MOST_PLACES else ():
            if not set(first.changes) & set(second.changes):
                yield two_edits(first, second)._replace(rarity=first.rarity + 1, mistake_id=first.mistake_id)


def _edits(graph: StepGraph) -> Iterator[StepEdit]:
    edit_lists = [list(_operation_edits(graph, number)) for number in range(len(graph.operations))]
    yield from in_every_branch([edit_lists[number] for number in group] for group in graph.branches)
    in_branches = {number for group in graph.branches for number in group}
    for number, edits in enumerate(edit_lists):
        yield from (
            (x._replace(rarity=min(x.rarity + 1, 3)) for x in edits) if number in in_branches else edits
        )
    yield from other_operand_edits(graph)
    yield from _extra_operation_edits(graph)
    yield from _scale_edits(graph)
    edit_lists = [[*_operand_edits(graph, x), *operand_slice_edits(graph, x)] for x in graph.leaves]
    places = {label: place for place, label in enumerate(graph.leaves)}
    yield from in_every_branch([edit_lists[places[label]] for label in group] for group in graph.namesakes)
    for edits in edit_lists:
        yield from edits
    yield from result_slice_edits(graph)
    yield from left_out_term_edits(len(graph.operations) - 1, graph.result)
    yield from power_edits(graph)
    yield from edits_from_elsewhere(graph)
    yield from _option_edits(graph)
    yield from border_edits(graph, TABLE["border"])
    yield from kernel_part_edits(graph)


def _operation_edits(graph: StepGraph, number: int) -> Iterator[StepEdit]:
    tensor = graph.operations[number]
    if any(
        0 < np.abs(operand.array).max(initial=0) < SMALLEST_FORMULA_NUMBER for operand in tensor.node.operands
    ):
        return  # that is against rounding, and no part of the formula
    yield from position_edits(number, tensor, heads="heads" in graph.case.options)
    windows = any(name in graph.tensors for name in SLID_INPUTS) and "matrix" not in graph.tensors
    table = _table_edits(number, tensor, TABLE.get(tensor.node.operation, []))
    yield from (edit for edit in table if not windows or edit.mistake_id != "transposed")
    yield from _table_edits(number, tensor, TABLE["part" if tensor is not graph.result else "result"])
    yield from _constant_edits(graph, number, tensor)
    yield from part_edits(graph, number, tensor)
    yield from () if windows else order_edits(number, tensor)
    yield from _chain_edits(graph, number, tensor)
    yield from weight_edits(graph, number, tensor)
    yield from concatenation_edits(number, tensor)


def in_every_branch(groups: Iterable[list[list[StepEdit]]]) -> Iterator[StepEdit]:
    """One edit at every time step or token of a step that is worked out for each in the same way."""
    for branches in groups:
        if len({len(edits) for edits in branches}) > 1:
            continue
        for edits in zip(*branches, strict=True):
            changes = {key: part for edit in edits for key, part in edit.changes.items()}
            first, names = edits[0], {k: x for k, x in edits[0].placeholders.items() if k != "where"}
            says = first.says.replace("{where}", "")
            yield first._replace(changes=changes, says=f"{says}, each time", placeholders=names)


def build_node(row: Any, named: Mapping[Any, Any], own_options: Options, sizes: Mapping[str, float]) -> Any:
    """A row's ``instead`` as nodes; ``named`` are the nodes that it calls by a name, ``own_options``
    those of the operation that it replaces ("same"), ``sizes`` the numbers of the sizes that it names.
    """
    if not isinstance(row, list):
        return named.get(row, row)
    name, *operands = row
    options: Options = {}
    if operands[-1] == "same":
        options = own_options
        operands = operands[:-1]
    elif isinstance(operands[-1], dict):
        options = {
            key: tuple(value) if isinstance(value, list) else sizes.get(value, value)
            for key, value in operands.pop().items()
        }
    return Node(name, tuple(build_node(operand, named, own_options, sizes) for operand in operands), options)


def _unpacked_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, Any, float, str]]:
    for row in rows:
        yield row["slug"], row["says"], row["instead"], row.get("rarity", 1), row.get("mistake_id", "")


def _table_edits(number: int, tensor: HandTensor, rows: list[dict[str, Any]]) -> Iterator[StepEdit]:
    operands, node = tensor.node.operands, tensor.node
    names = {"a": operands[0], "b": operands[-1], "it": tensor}
    left = operands[0].array
    count = left.size / max(tensor.array.size, 1) if node.operation == "sum" else (left.shape or (1,))[-1]
    sizes = {"n": float(count), "rows": float((1, 1, *left.shape)[-2])}
    labels = [operand.label for operand in operands]
    compares = operands[-1].node.operation == "transpose"
    parts = {"it": same_node(tensor), **(_products(operands) if node.operation == "matmul" else {})}
    # A number of a formula that counts, such as 2 p or + 1, is rarely taken for something else.
    counted = node.operation in ARITHMETIC and not tensor.shape
    counted = counted and any(not x.label and not x.node.operands for x in operands)
    if node.operation == "multiply" and any(x.label and is_switch(x) for x in operands):
        return  # with biases or without: nobody takes that for a factor
    for slug, says, instead, rarity, mistake_id in _unpacked_rows(rows):
        if left.size == tensor.array.size == 1 and ("with-itself" in slug or _uses(instead, AXIS_OPERATIONS)):
            continue  # a single number is not taken for another matrix, nor for a row
        if (left.size == count and "everything" in slug) or (compares and slug.endswith("-alone")):
            continue  # all of a vector is its sum; of weights the largest counts alone, not of queries
        if "-for-{" in slug and all(labels):
            mistake_id = swap_id(*labels)
        if mistake_id == "twice" and sizes_of(operands) == [2.0]:
            mistake_id = "doubled"
        if slug == "added-for-multiplied" and sizes_of(operands) == [0.0]:
            rarity += 1
        if counted and mistake_id not in COMMON_TO_CONSTANTS:
            rarity += 1
        if not left.shape and _uses(instead, ("sqrt",)):
            rarity += 2
        part = build_node(instead, parts, node.options, sizes)
        yield StepEdit(slug, says, {number: part}, names, rarity, mistake_id)


def sizes_of(operands: Sequence[HandTensor]) -> list[float]:
    """The numbers of the formula among the operands of an operation."""
    return [float(x.array) for x in operands if not x.label and not x.node.operands and not x.shape]


def _products(operands: Sequence[HandTensor]) -> dict[str, Any]:
    """What a product of matrices adds up, and the factors of it, aligned with each other."""
    left: Any = 0 if len(operands[1].shape) < 2 else Node("unsqueeze", (0,), {"axis": -2})
    right: Any = 1
    if len(operands[1].shape) > 1:
        right = Node("transpose", (1,), {"axis1": -2, "axis2": -1})
        right = Node("unsqueeze", (right,), {"axis": -3}) if len(operands[0].shape) > 1 else right
        left = left if len(operands[0].shape) > 1 else 0
    return {"left": left, "right": right, "products": Node("multiply", (left, right), {})}


def _uses(instead: Any, names: tuple[str, ...]) -> bool:
    """Whether one of these operations stands in a row's ``instead``."""
    return isinstance(instead, list) and (instead[0] in names or any(_uses(x, names) for x in instead[1:]))


def _operand_edits(graph: StepGraph, label: str) -> Iterator[StepEdit]:
    names = {"it": graph.tensors[label]}
    counted = label == "places" or graph.case.counts_sizes
    for slug, says, instead, rarity, mistake_id in _unpacked_rows(TABLE["operand"]):
        part = build_node(instead, {"it": label}, {}, {})
        rarity += mistake_id == "off by one" and not counted
        yield StepEdit(slug, says, {label: part}, names, rarity, mistake_id)


def _constant_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Another number in place of a constant of the formula: one more or less, twice, half, a size."""
    sizes = {float(size) for value in graph.tensors.values() for size in value.shape if size > 1}
    for place, operand in enumerate(tensor.node.operands):
        if operand.label or operand.node.operands:
            continue
        if operand.array.size != 1:
            for shift, word in ((1.0, "large"), (-1.0, "small")) if operand.array.any() else ():
                moved = Node("add", (place, constant(place, shift)), {})
                says = f"the numbers of the formula are one too {word}"
                part = with_operand(tensor, place, moved)
                yield StepEdit("counted-one-off", says, {number: part}, {}, 2, "off by one")
            continue
        value = float(operand.array.flat[0])
        for label, known in graph.tensors.items() if not tensor.shape else ():
            part, names = with_operand(tensor, place, label), {"a": known, "b": operand}
            if not known.shape and not is_switch(known) and float(known.array) != value:
                yield StepEdit("{a}-for-{b}", "{a} stands where {b} belongs", {number: part}, names, 2)
        near = {value - 1, value + 1, value * 2, value / 2, value**2, -value}
        for other in sorted((near | sizes | {1.0, 10000.0}) - {value}):
            part = with_operand(tensor, place, constant(place, other))
            names = {"a": HandTensor(np.array(other)), "b": operand}
            near_by = other in (*sizes, value - 1, value + 1, 10000.0)
            rarity, doubled = 1.8 if not tensor.shape else 2 if near_by else 3, other == 2 * value
            says, mistake_id = "{a} stands where {b} belongs", "doubled" if doubled else ""
            yield StepEdit("{a}-for-{b}", says, {number: part}, names, rarity, mistake_id)


def _chain_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """In a product or a sum of several: one added for multiplied (two multiplied for added), or a square that
    is taken for the double; a known step in place of a part.
    """
    name = tensor.node.operation
    if tensor.shape and tensor is not graph.result:
        return
    items = list(_chain(tensor, name)) if name in ("multiply", "add") else []
    if name == "add" and len(items) > 2:
        says, part = "the terms are multiplied; they must be added", _joined("multiply", items)
        yield StepEdit("multiplied-for-added", says, {number: part}, {}, 1)
    for i, j in combinations(range(len(items)), 2):
        other_items: list[Any] = [item for place, item in enumerate(items) if place not in (i, j)]
        names = {"a": items[i], "b": items[j]}
        if name == "multiply" and items[i].label and items[i].label == items[j].label:
            double = Node("multiply", (items[i], constant(items[i], 2.0)), {})
            says, part = "{a} is doubled; it must be squared", _joined(name, [*other_items, double])
            yield StepEdit("doubled-for-squared", says, {number: part}, names, 1)
        if other_items and name == "add":
            says = "{a} and {b} are multiplied; they must be added"
            part = _joined(name, [*other_items, Node("multiply", (items[i], items[j]), {})])
            yield StepEdit("multiplied-for-added", says, {number: part}, names, 2)
    for i, item in enumerate(items) if len(items) > 2 and name == "multiply" else ():
        part = Node("add", (_joined(name, items[:i] + items[i + 1 :]), item), {})
        says = "{a} is added; it must be multiplied"
        yield StepEdit("added-for-multiplied", says, {number: part}, {"a": item}, 2)
    for label, known in graph.tensors.items() if tensor is not graph.result and not tensor.shape else ():
        names = {"a": known, "b": tensor}
        yield StepEdit("{a}-for-{b}", "{a} stands where {b} belongs", {number: label}, names, 2)


def _chain(tensor: HandTensor, name: str) -> Iterator[HandTensor]:
    """The factors of a product of several, or the terms of a sum."""
    if tensor.label or tensor.node.operation != name:
        yield tensor
        return
    for operand in tensor.node.operands:
        yield from _chain(operand, name)


def _joined(name: str, items: list[Any]) -> Any:
    return reduce(lambda left, right: Node(name, (left, right), {}), items)


def _scale_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A factor too many at the result or inside of a softmax: beta, r, a size or its root, 2 pi."""
    scales = {
        name: float(value)
        for name, value in graph.case.options.items()
        if isinstance(value, (int, float)) and name not in graph.tensors
    }
    sizes = {float(size): str(size) for x in graph.tensors.values() for size in x.shape[-2:] if size > 1}
    taps = next((x.shape for label, x in graph.tensors.items() if "kernel" in label and x.shape), ())
    if "image" in graph.tensors and taps:
        sizes |= {float(taps[-1] ** 2): f"{taps[-1] ** 2}, the number of taps", taps[-1] * 1.0: f"{taps[-1]}"}
    elif taps:
        sizes |= {float(taps[-1]): f"{taps[-1]}, the number of taps"}
    scales |= {text: size for size, text in sizes.items()}
    scales |= {f"the root of {text}": size**0.5 for size, text in sizes.items() if not taps}
    scales |= {"norm^2": scales["norm"] ** 2} if "norm" in scales else {}
    scales |= {"2 pi": 2 * np.pi, "180/pi": 180 / np.pi}  # of these two no softmax is taken
    last = len(graph.operations) - 1
    for number, tensor in enumerate(graph.operations) if graph.result.shape else ():
        if number != last and tensor.node.operation != "softmax":
            continue
        inside = tensor.node.operation == "softmax"
        for text, value in scales.items() if not inside else list(scales.items())[:-2]:
            for name, slug in (("multiply", "multiplied-by-{a}"), ("divide", "divided-by-{a}")):
                node: Any = 0 if inside else same_node(tensor)
                part = Node(name, (node, constant(node, value)), {})
                part = Node("softmax", (part,), tensor.node.options) if inside else part
                what = "what the softmax is taken of" if inside else "the result"
                says = f"{what} is {slug[:-4].replace('-', ' ')} {{a}}, which does not belong there"
                rarity = 1 if isinstance(graph.case.options.get(text.removesuffix("^2"), 1), float) else 2
                mistake_id = f"{name} {text.removesuffix('^2')}"
                yield StepEdit(slug, says, {number: part}, {"a": text}, rarity, mistake_id)


def _extra_operation_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """Another input or step taken for the result, or added to it, multiplied with it, and so on."""
    number, result = len(graph.operations) - 1, graph.result
    node = same_node(result)
    for label, tensor in graph.later.items():
        if tensor.shape == result.shape:
            says = "{a} is given, which comes later"
            mistake_id = f"given {swap_id(label, graph.path)}"
            rarity = 2 if result.array.size > 1 else 3
            yield StepEdit("{a}-given", says, {number: tensor}, {"a": tensor}, rarity, mistake_id)
    for inner in graph.operations[:-1]:
        if inner.shape == result.shape:
            twice: Changes = {number: Node("add", (node, inner), {})}
            yield StepEdit("{a}-added", "{a} is added once more", twice, {"a": inner}, 3)
    for label, tensor in graph.tensors.items():
        if is_switch(tensor):
            continue
        names = {"a": tensor}
        if tensor.shape == result.shape:
            says, mistake_id = "{a} is given as the result", f"given {swap_id(label, graph.path)}"
            yield StepEdit("{a}-given", says, {number: label}, names, 2, mistake_id)
        elif tensor.shape[::-1] == result.shape:
            says = "the transpose of {a} is given as the result"
            yield StepEdit("{a}-given", says, {number: transposed(label)}, names, 3)
        for row in TABLE["extra"]:
            name, mistake_id = row["operation"], f"{row['operation']} {label.rpartition('/')[2]}"
            # nobody multiplies two matrices entry by entry without need
            scaled = name in ("multiply", "divide") and not graph.case.counts_sizes
            rarity = 3 if (scaled and tensor.shape == result.shape) or label == "padding" else 2
            part = Node(name, (node, label), {})
            yield StepEdit(row["slug"], row["says"], {number: part}, names, rarity, mistake_id)
        if tensor.array.ndim == 1 < tensor.array.size and result.array.size == 1:
            says, last = "the last number of {a} is added, which does not belong there", slice(-1, None)
            part = Node("getitem", (label,), {"key": last})
            yield StepEdit("last-of-{a}-added", says, {number: Node("add", (node, part), {})}, names, 2)
            says = "the result is subtracted from the last number of {a}: it is one step too early"
            yield StepEdit("one-step-early", says, {number: Node("subtract", (part, node), {})}, names, 2)
        applied, says = Node("matmul", (node, transposed(label)), {}), TABLE["extra"][-1]["says"]
        yield StepEdit("{a}-applied-too", says, {number: applied}, names, 2)


def _option_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """Another stride, padding, number of heads, activation: the mechanism is run again."""
    for name, value in graph.case.options.items():
        if name in graph.tensors or name == "convention":
            continue
        names = {"a": name.replace("_", " "), "b": str(value)}
        if isinstance(value, int):
            least = 1 if name in ("stride", "groups", "heads") else 0
            near = {least, value - 1, value + 1, 2 * value}
            if name in ("stride", "padding") and "kernel" in graph.tensors:
                taps = graph.tensors["kernel"].shape[-1]
                near |= {taps, taps - 1, taps // 2} - ({taps} if name == "padding" else {taps - 1})
            for wrong in sorted(near - {value}):
                left_out = value > least and wrong == least
                slug = "{a}-left-out" if left_out else f"{{a}}-{wrong}-for-{{b}}"
                says = "the {a} is left out" if left_out else f"the {{a}} is taken as {wrong}; it is {{b}}"
                if wrong >= least:
                    yield StepEdit(slug, says, {}, names, 1 if left_out else 2, name, {name: wrong})
                if name == "stride" and wrong == 1:
                    says = "the stride is left out, and only as many outputs given as with it"
                    cut = tuple(map(slice, graph.result.shape))
                    yield StepEdit("stride-left-out", says, {-1: cut}, names, 2, name, {name: wrong})
                if name == "stride" and wrong == 1 and "image" in graph.tensors:
                    way, end = slice(None, None, value), slice(None)
                    for where, keys in (
                        ("downwards", (way, cut[-1])),
                        ("to the right", (cut[-2], way)),
                        ("downwards", (way, end)),
                        ("to the right", (end, way)),
                    ):
                        says, key = f"the stride is taken only {where}; the other way it is 1", (..., *keys)
                        yield StepEdit("stride-one-way", says, {-1: key}, names, 2, name, {name: wrong})
