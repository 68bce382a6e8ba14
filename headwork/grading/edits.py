"""The small edits of how a step is worked out: what a student may have done instead.

An edit is data: what stands in place of an operation of the step, or of an operand wherever it stands. Most
are rows of ``edits.toml``; what depends on shapes and on the other inputs is made here.
"""

import tomllib
from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from headwork.grading.step_graph import Changes, StepEdit, StepGraph
from headwork.numbers import HandTensor
from headwork.numbers.operations import OPERATIONS, Node

TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("edits.toml").read_text("utf-8")
)
MANY = 8  # slices of an axis that are changed one by one, at most


def edits_of(graph: StepGraph) -> Iterator[StepEdit]:
    """Every small edit of a step, each as data. The order is that of likelihood only within a cost."""
    for number, tensor in enumerate(graph.operations):
        yield from _positions(number, tensor, heads="heads" in graph.case.options)
        yield from _table_edits(number, tensor, TABLE.get(tensor.node.operation, []))
        yield from _table_edits(number, tensor, TABLE["part" if tensor is not graph.result else "result"])
        yield from _constants(graph, number, tensor)
        yield from _orders(number, tensor)
        yield from _parts(number, tensor)
    yield from _other_operands(graph)
    yield from _beyond(graph)
    for label in graph.leaves:
        yield from _operand_edits(graph, label)
        yield from _slices(graph, label)
    yield from _result_slices(graph)
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


def _itself(tensor: HandTensor) -> Node:
    """An operation in terms of its own operands."""
    return Node(tensor.node.operation, tuple(range(len(tensor.node.operands))), tensor.node.options)


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
        part = _tree(instead, _itself(tensor), node.options, sizes)
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
                    node = _itself(graph.operations[number])
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


def _slices(graph: StepGraph, label: str) -> Iterator[StepEdit]:
    """A row, a column, a head or a channel of an operand left out, alone, taken for all, or shifted."""
    tensor = graph.known[label]
    for axis, size in enumerate(tensor.shape):
        if not 2 <= size <= MANY:
            continue
        words = {"it": tensor, "axis": (label, axis)}
        turned = Node("flip", (label,), {"axis": axis})
        says = "the {axis}s of {it} are read from the last to the first"
        yield StepEdit("{it}-reversed", says, {label: turned}, words, 1, "reversed")
        for shift, cause in ((1, "next-of-{it}"), (-1, "one-before-of-{it}")):
            key = _along(axis, np.roll(np.arange(size), -shift).tolist())
            says = f"{{it}} is read one {{axis}} too {'late' if shift == 1 else 'early'}"
            shifted = Node("getitem", (label,), {"key": key})
            yield StepEdit(cause, says, {label: shifted}, words, 2, "shifted")
            shape = [size if axis == place else 1 for place in range(len(tensor.shape))]
            inside = (np.arange(size) != (size - 1 if shift == 1 else 0)).reshape(shape).astype(float)
            shifted = Node("multiply", (shifted, Node("constant", (label,), {"value": inside})), {})
            yield StepEdit(cause, f"{says}, with 0 at the end", {label: shifted}, words, 2, "shifted")
        for index in range(size):
            words = {"it": tensor, "axis": (label, axis), "i": str(index)}
            shape = [size if axis == place else 1 for place in range(len(tensor.shape))]
            for kept, cause, says in (
                (np.arange(size) != index, "part-of-{it}-left-out", "{axis} {i} of {it} is left out"),
                (np.arange(size) == index, "part-of-{it}-alone", "only {axis} {i} of {it} is used"),
                (
                    np.where(np.arange(size) == index, -1, 1),
                    "part-of-{it}-subtracted",
                    "{axis} {i} of {it} is subtracted",
                ),
            ):
                factor = Node("constant", (label,), {"value": kept.reshape(shape).astype(float)})
                yield StepEdit(cause, says, {label: Node("multiply", (label, factor), {})}, words, 2)
            every = Node("getitem", (label,), {"key": _along(axis, [index] * size)})
            says = "{axis} {i} of {it} is used for every {axis}"
            yield StepEdit("part-of-{it}-for-all", says, {label: every}, words, 2)
        for first, second in combinations(range(size), 2) if size > 2 else ():
            order = list(range(size))
            order[first], order[second] = second, first
            swapped = Node("getitem", (label,), {"key": _along(axis, order)})
            says = f"{{axis}} {first} and {second} of {{it}} change places"
            words = {"it": tensor, "axis": (label, axis)}
            yield StepEdit("parts-of-{it}-swapped", says, {label: swapped}, words, 3)


def _along(axis: int, key: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, key)


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
            node = _itself(tensor)
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


def _positions(number: int, tensor: HandTensor, *, heads: bool) -> Iterator[StepEdit]:
    """A position that is read one too early or too late; heads that are split or joined in another way."""
    node = tensor.node
    if node.operation == "getitem":
        for shift in (-1, 1):
            key = _shifted(node.options["key"], shift)
            if key is not None:
                says = "{it} is read one position too " + ("early" if shift < 0 else "late")
                shifted: Changes = {number: Node("getitem", (0,), {"key": key})}
                yield StepEdit("position-shifted", says, shifted, {"it": node.operands[0]}, 1, "shifted")
    if node.operation == "reshape" and heads:
        before, after = node.operands[0].shape, tensor.shape
        turn = {"axis1": -2, "axis2": -1}
        if len(after) == len(before) + 1 and after[:-2] == before[:-1]:
            wide = Node("reshape", (0,), {"shape": (*after[:-2], after[-1], after[-2])})
            says = "the columns are dealt out in turn; each head takes a block of them"
            yield StepEdit("heads-interleaved", says, {number: Node("transpose", (wide,), turn)}, {})
        if len(before) == len(after) + 1 and before[:-2] == after[:-1]:
            turned = Node("reshape", (Node("transpose", (0,), turn),), node.options)
            says = "the heads are interleaved; they must be put side by side"
            yield StepEdit("heads-interleaved", says, {number: turned}, {})
            turned = Node("reshape", (Node("flip", (0,), {"axis": -2}),), node.options)
            yield StepEdit(
                "joined-in-other-order",
                "the heads are joined in the other order",
                {number: turned},
                {},
            )
            count = Node("sum", (0,), {"axis": -2, "keepdims": True})
            mean = Node("divide", (count, Node("constant", (0,), {"value": float(before[-2])})), {})
            spread = Node("expand", (mean,), {"shape": before})
            part = Node("reshape", (spread,), node.options)
            yield StepEdit(
                "heads-averaged", "the heads are averaged; they must be put side by side", {number: part}, {}
            )


def _shifted(key: Any, shift: int) -> Any:
    """The key of a getitem one position on; None where it has no position or leaves the axis."""
    keys = key if isinstance(key, tuple) else (key,)
    new = []
    for part in keys:
        if isinstance(part, int):
            part = part + shift
            if part < 0:
                return None
        elif isinstance(part, slice) and part.start is not None:
            if part.start + shift < 0:
                return None
            stop = None if part.stop is None else part.stop + shift
            part = slice(part.start + shift, stop, part.step)
        new.append(part)
    return None if tuple(new) == keys else tuple(new) if isinstance(key, tuple) else new[0]


def _parts(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """What is put side by side: in another order, or with a part left out."""
    operands = tensor.node.operands
    if tensor.node.operation != "cat":
        return
    places = range(len(operands))
    for place in places:
        kept = tuple(i for i in places if i != place)
        words = {"a": operands[place], "i": str(place)}
        says = (
            "{a} is left out"
            if len(operands) != len({o.node for o in operands}) or operands[place].array.size == 1
            else "part {i} is left out"
        )
        node = Node("cat", kept, tensor.node.options)
        yield StepEdit("{a}-left-out", says, {number: node}, words, 1, f"{place} of {len(operands)} left out")
    for order in permutations(places) if len(operands) <= 4 else (tuple(reversed(places)),):
        if order != tuple(places):
            node = Node("cat", order, tensor.node.options)
            yield StepEdit("joined-in-other-order", "the parts stand in another order", {number: node}, {}, 2)


def _beyond(graph: StepGraph) -> Iterator[StepEdit]:
    """Another input or step taken for the result, or added to it, multiplied with it, and so on."""
    number, result = len(graph.operations) - 1, graph.result
    it = _itself(result)
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


def _result_slices(graph: StepGraph) -> Iterator[StepEdit]:
    """A row or a column of the result that is missing or a copy of another."""
    number, result = len(graph.operations) - 1, graph.result
    it = _itself(result)
    if len(result.shape) > 1 and result.shape[-1] == result.shape[-2]:
        eye = np.eye(result.shape[-1])
        like = Node("constant", (it,), {"value": 1 - eye})
        says = "the diagonal is left at 0"
        yield StepEdit("diagonal-left-out", says, {number: Node("multiply", (it, like), {})}, {}, 1)
        like = Node("constant", (it,), {"value": np.broadcast_to(eye, result.shape)})
        yield StepEdit("diagonal-alone", "1 stands on the diagonal, 0 elsewhere", {number: like}, {}, 2)
    for axis, size in enumerate(result.shape):
        if not 2 <= size <= MANY:
            continue
        words = {"axis": (graph.path, axis)}
        turned: Changes = {number: Node("flip", (it,), {"axis": axis})}
        says = "the {axis}s stand in reverse order"
        yield StepEdit("{axis}s-reversed", says, turned, words, 1, "reversed")
        for index in (0, size - 1):
            key = _along(axis, [i for i in range(size) if i != index])
            part: Changes = {number: Node("getitem", (it,), {"key": key})}
            yield StepEdit("part-missing", f"{{axis}} {index} is missing", part, words, 1)
        for index in range(size):
            every: Changes = {number: Node("getitem", (it,), {"key": _along(axis, [index] * size)})}
            yield StepEdit("part-repeated", f"every {{axis}} is a copy of {{axis}} {index}", every, words, 2)
        for source, target in permutations(range(size), 2):
            key = _along(axis, [source if i == target else i for i in range(size)])
            part = {number: Node("getitem", (it,), {"key": key})}
            says = f"{{axis}} {target} is a copy of {{axis}} {source}"
            yield StepEdit("part-copied", says, part, words, 2)


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
