"""Edits that depend on shapes: rows, columns and heads that are left out, shifted, copied or reordered."""

from collections.abc import Iterator
from functools import reduce
from itertools import combinations, permutations
from typing import Any

import numpy as np

from headwork.grading.sliding_edits import band_edits, sheared_row_edits
from headwork.grading.step_graph import (
    SLID_INPUTS,
    Changes,
    StepEdit,
    StepGraph,
    constant,
    picked,
    same_node,
    transposed,
)
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

HEADS = ("query", "key", "value", "per head")  # what is cut into heads by its columns
MANY = 8  # slices of an axis that are changed one by one, at most


def operand_slice_edits(graph: StepGraph, label: str) -> Iterator[StepEdit]:
    """A row, a column, a head or a channel of an operand left out, alone, taken for all, or shifted."""
    tensor = graph.tensors[label]
    is_input = label not in graph.earlier
    for cell in np.ndindex(tensor.shape) if is_input and 3 < tensor.array.size <= 16 else ():
        for entry, slug, word in (
            (0, "left-out", "left out"),
            (-1, "of-wrong-sign", "read with another sign"),
        ):
            others = np.ones(tensor.shape)
            others[cell] = entry
            part = Node("multiply", (label, constant(label, others)), {})
            says = f"entry [{','.join(map(str, cell))}] of {{it}} is {word}"
            yield StepEdit(f"entry-of-{{it}}-{slug}", says, {label: part}, {"it": tensor}, 2)
    products = any(x.node.operation == "matmul" for x in graph.operations)
    yield from _square_edits(graph, label)
    yield from sheared_row_edits(graph, label, label, tensor) if label == "matrix" else ()
    for axis, size in enumerate(tensor.shape):
        if not 2 <= size <= MANY:
            continue
        names = {"it": tensor, "axis": (label, axis)}
        turned = Node("flip", (label,), {"axis": axis})
        says = "the {axis}s of {it} are read from the last to the first"
        sliding = any(name in graph.case.inputs for name in SLID_INPUTS)
        yield StepEdit("{it}-reversed", says, {label: turned}, names, 1 if sliding else 2, "reversed")
        for shift, slug in ((1, "next-of-{it}"), (-1, "one-before-of-{it}")):
            key = _along(axis, np.roll(np.arange(size), -shift).tolist())
            says = f"{{it}} is read one {{axis}} too {'late' if shift == 1 else 'early'}"
            shifted = picked(label, key)
            yield StepEdit(slug, says, {label: shifted}, names, 2, "shifted")
            shape = [size if axis == place else 1 for place in range(len(tensor.shape))]
            inside = (np.arange(size) != (size - 1 if shift == 1 else 0)).reshape(shape).astype(float)
            shifted = Node("multiply", (shifted, constant(label, inside)), {})
            yield StepEdit(slug, f"{says}, with 0 at the end", {label: shifted}, names, 2, "shifted")
            again = picked(label, _along(axis, np.clip(np.arange(size) + shift, 0, size - 1).tolist()))
            says, slug = f"{says}, the one at the end twice", f"{slug}-clipped"
            if size > 2:  # else one is used for all
                yield StepEdit(slug, says, {label: again}, names, 2, "shifted")
        if len(tensor.shape) == 2 and axis == 0 and tensor.shape[0] != tensor.shape[1]:
            read = Node("transpose", (label,), {"axis1": 0, "axis2": 1})
            read = Node("reshape", (read,), {"shape": tensor.shape})
            says = "the numbers of {it} are filled in column by column"
            yield StepEdit("{it}-by-columns", says, {label: read}, names, 2)
        mean = Node("sum", (label,), {"axis": axis, "keepdims": True})
        mean = Node("divide", (mean, constant(label, float(size))), {})
        mean = Node("expand", (mean,), {"shape": tensor.shape})
        says = "the mean of the {axis}s of {it} is used for every {axis}"
        yield StepEdit("mean-of-{it}-for-all", says, {label: mean}, names, 2)
        if len(tensor.shape) == 1 and label in graph.case.inputs:
            count = constant(label, np.arange(float(size)))
            says = "0, 1, 2 and so on stand where {it} belongs"
            yield StepEdit("numbers-of-{it}", says, {label: count}, names, 2)
        for index in range(size):
            names = {"it": tensor, "axis": (label, axis), "i": str(index)}
            shape = [size if axis == place else 1 for place in range(len(tensor.shape))]
            one = (np.arange(size) == index).astype(float).reshape(shape)
            for kept, slug, says in (
                (1 - one, "part-of-{it}-left-out", "{axis} {i} of {it} is left out"),
                (one, "part-of-{it}-alone", "only {axis} {i} of {it} is used"),
                (1 - 2 * one, "part-of-{it}-subtracted", "{axis} {i} of {it} is subtracted"),
            ):
                ends = {"part-of-{it}-left-out": size - 1, "part-of-{it}-alone": 0}  # a sum cut short
                rarity = 3 if "subtracted" in slug else 1.5 if products and ends.get(slug) == index else 2
                factor = constant(label, kept)
                yield StepEdit(slug, says, {label: Node("multiply", (label, factor), {})}, names, rarity)
            every = picked(label, _along(axis, [index] * size))
            says = "{axis} {i} of {it} is used for every {axis}"
            yield StepEdit("part-of-{it}-for-all", says, {label: every}, names, 2, f"{axis} {index} for all")
        for first, second in combinations(range(size), 2) if size > 2 else ():
            order = list(range(size))
            order[first], order[second] = second, first
            swapped = picked(label, _along(axis, order))
            says = f"{{axis}} {first} and {second} of {{it}} change places"
            names = {"it": tensor, "axis": (label, axis)}
            yield StepEdit("parts-of-{it}-swapped", says, {label: swapped}, names, 3)
            for index, other in ((first, second), (second, first)) if label in graph.case.inputs else ():
                order = list(range(size))
                order[index] = other
                says = f"{{axis}} {other} of {{it}} is used in place of {{axis}} {index}, too"
                again = picked(label, _along(axis, order))
                yield StepEdit("part-of-{it}-again", says, {label: again}, names, 2)


def _square_edits(graph: StepGraph, label: str) -> Iterator[StepEdit]:
    """Of a square matrix the diagonal alone, or the blocks of heads on it; the columns dealt out to heads."""
    tensor, heads = graph.tensors[label], graph.case.options.get("heads")
    rows, columns = tensor.shape[-2:] if len(tensor.shape) > 1 else (0, 1)
    if rows == columns > 1:
        eye = constant(label, np.broadcast_to(np.eye(rows), tensor.shape))
        says, part = "only the diagonal of {it} is used", Node("multiply", (label, eye), {})
        yield StepEdit("diagonal-of-{it}-alone", says, {label: part}, {"it": tensor}, 2)
        if heads and rows % heads == 0 and rows > heads:
            blocks = np.kron(np.eye(heads), np.ones((rows // heads, rows // heads)))
            part = Node("multiply", (label, constant(label, blocks)), {})
            says = "each head uses only its own part of the columns of {it}; it must use all of them"
            yield StepEdit("blocks-of-{it}-alone", says, {label: part}, {"it": tensor}, 2)
    if len(tensor.shape) == 3 and heads and tensor.shape[1] == heads and label in {*HEADS} & {*graph.earlier}:
        turned = Node("reshape", (label,), {"shape": (len(tensor.array), columns, heads)})
        says = "the columns of {it} are dealt out to the heads in turn; each head takes a block of them"
        yield StepEdit(
            "{it}-interleaved", says, {label: transposed(turned)}, {"it": tensor}, 0.8, "interleaved"
        )


def _along(axis: int, key: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, key)


def position_edits(number: int, tensor: HandTensor, *, heads: bool) -> Iterator[StepEdit]:
    """A position that is read one too early or too late; heads that are split or joined in another way."""
    node = tensor.node
    if node.operation == "getitem":
        keys = node.options["key"] if isinstance(node.options["key"], tuple) else (node.options["key"],)
        single = node.operands[0].array.size // max(tensor.array.size, 1) > 1 and 1 in tensor.shape
        rarity = 1 if single or any(isinstance(key, int) for key in keys) else 2
        for shift in (-1, 1):
            key = _shifted(node.options["key"], shift)
            if key is not None:
                says = "{it} is read one position too " + ("early" if shift < 0 else "late") + "{where}"
                names = {"it": node.operands[0], "where": _place_read(keys[0], shift)}
                shifted: Changes = {number: picked(0, key)}
                yield StepEdit("position-shifted", says, shifted, names, rarity, "shifted")
        yield from _half_edits(number, tensor)
    left, names = node.operands[0], {"a": node.operands[0], "b": node.operands[-1]}
    for square in (left, tensor) if node.operation == "matmul" else ():
        if len(square.shape) < 2 or square.shape[-2] != square.shape[-1]:
            continue
        eye = constant(0, np.broadcast_to(np.eye(square.shape[-1]), square.shape))
        if square is left:
            diagonal = Node("matmul", (Node("multiply", (0, eye), {}), 1), {})
            says = "each row of {b} is weighted by its own entry of {a} alone, not the sum of all"
        else:
            diagonal = Node("multiply", (same_node(tensor), eye), {})
            says = "only equal positions of {a} and {b} are multiplied, not each with each"
        slug = "own-row-alone" if square is left else "equal-positions-alone"
        yield StepEdit(slug, says, {number: diagonal}, names, 2)
    if node.operation == "reshape" and heads:
        before, after = node.operands[0].shape, tensor.shape
        if len(after) == len(before) + 1 and after[:-2] == before[:-1]:
            wide = Node("reshape", (0,), {"shape": (*after[:-2], after[-1], after[-2])})
            says = "the columns are dealt out in turn; each head takes a block of them"
            yield StepEdit("heads-interleaved", says, {number: transposed(wide)}, {})
        if len(before) == len(after) + 1 and before[:-2] == after[:-1]:
            turned = Node("reshape", (transposed(0),), node.options)
            says = "the heads are interleaved; they must be put side by side"
            yield StepEdit("heads-interleaved", says, {number: turned}, {})
            turned = Node("reshape", (Node("flip", (0,), {"axis": -2}),), node.options)
            says = "the heads are joined in the other order"
            yield StepEdit("joined-in-other-order", says, {number: turned}, {})
            count = Node("sum", (0,), {"axis": -2, "keepdims": True})
            mean = Node("divide", (count, constant(0, float(before[-2]))), {})
            spread = Node("expand", (mean,), {"shape": before})
            part = Node("reshape", (spread,), node.options)
            says = "the heads are averaged; they must be put side by side"
            yield StepEdit("heads-averaged", says, {number: part}, {})


def _place_read(key: Any, shift: int) -> str:
    """Which one number or row is read in place of which, if it is one."""
    if isinstance(key, slice) and key.start is not None and key.stop == key.start + 1:
        key = key.start
    return f": number {key + shift} in place of number {key}" if isinstance(key, int) else ""


def _half_edits(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """All, the first or the second half, in place of every second one."""
    key, operand = tensor.node.options["key"], tensor.node.operands[0]
    if not isinstance(key, slice) or (key.step or 1) == 1:
        return
    half, names = operand.shape[0] // 2, {"it": operand}
    first = not key.start
    halves = [(slice(None, half), "first"), (slice(half, None), "second")]
    for (taken, word), rarity in zip(halves if first else reversed(halves), (1, 2), strict=True):
        says = f"the {word} half of {{it}} is taken, not every second one"
        part: Changes = {number: picked(0, taken)}
        yield StepEdit("half-of-{it}", says, part, names, rarity, "halves")
    every: Changes = {number: 0}
    yield StepEdit("all-of-{it}", "all of {it} are taken, not every second one", every, names)


def left_out_term_edits(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """The first or the last term of a sum left out."""
    operand, options = tensor.node.operands[0], tensor.node.options
    axis = options.get("axis") if tensor.node.operation == "sum" else None
    if not isinstance(axis, int) or operand.shape[axis] < 2:
        return
    count = operand.shape[axis]
    if count <= MANY:
        keys = [_along(axis % len(operand.shape), slice(i, i + 1)) for i in range(count)]
        terms = [picked(0, key) for key in keys]
        product = reduce(lambda left, right: Node("multiply", (left, right), {}), terms)
        says, whole = "the terms are multiplied; they must be added", Node("sum", (product,), options)
        yield StepEdit("product-for-sum", says, {number: whole}, {}, 2)
    for index, word in ((slice(1, None), "first"), (slice(None, -1), "last")):
        key = _along(axis % len(operand.shape), index)
        part = Node("sum", (picked(0, key),), options)
        yield StepEdit(f"{word}-left-out", f"the {word} term of the sum is left out", {number: part}, {}, 1)


def power_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """In a list of powers: their exponents, one power for all, base and exponent exchanged."""
    number, result = len(graph.operations) - 1, graph.result
    if result.node.operation != "cat" or len(graph.leaves) != 1 or result.array.size != result.shape[0]:
        return
    exponents = [_factors(part, graph.leaves[0]) for part in result.node.operands]
    if sorted(exponents) != list(range(len(exponents))):
        return
    it, label = same_node(result), graph.leaves[0]
    count = constant(it, np.reshape(np.array(exponents, float), result.shape))
    zeros, names = Node("subtract", (it, it), {}), {"a": graph.tensors[label]}
    top = Node("power", (label, constant(label, float(max(exponents)))), {})
    zero = constant(it, np.reshape([float(x == 0) for x in exponents], result.shape))
    for slug, says, part in (
        ("exponents-for-powers", "the exponents are given, not the powers", count),
        ("one-power-for-all", "{a} itself stands there for every power", Node("add", (zeros, label), {})),
        ("highest-power-for-all", "every input has the highest power", Node("add", (zeros, top), {})),
        ("power-backwards", "base and exponent change places", Node("power", (count, label), {})),
        ("power-zero-as-zero", "the power of 0 is taken as 0; it is 1", Node("subtract", (it, zero), {})),
    ):
        yield StepEdit(slug, says, {number: part}, names, 1)


def _factors(tensor: HandTensor, label: str) -> int:
    """How often an operand is multiplied into a part."""
    if tensor.label:
        return int(tensor.label == label)
    return sum(_factors(operand, label) for operand in tensor.node.operands)


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


def concatenation_edits(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """What is put side by side: in another order, or with a part left out."""
    operands = tensor.node.operands
    if tensor.node.operation != "cat":
        return
    places = range(len(operands))
    for place in places:
        kept = tuple(i for i in places if i != place)
        names = {"a": operands[place], "i": str(place)}
        named = len(operands) != len({o.node for o in operands}) or operands[place].array.size == 1
        says = "{a} is left out" if named else "part {i} is left out"
        node = Node("cat", kept, tensor.node.options)
        yield StepEdit("{a}-left-out", says, {number: node}, names)
    factors = {place: _two_factors(operands[place]) for place in places if operands[0].array.size == 1}
    for place, pair in factors.items():
        for order in permutations((*(i for i in places if i != place), *pair)) if pair else ():
            names = {"a": pair[0].operands[0], "b": pair[1].operands[0]}
            changes: Changes = {number: Node("cat", order, tensor.node.options)}
            yield StepEdit("{a}-and-{b}-apart", "{a} and {b} stand apart, not multiplied", changes, names, 2)
    for i, j in combinations(places, 2) if operands[0].array.size == 1 else ():
        joined: Any = Node("multiply", (i, j), {})
        kept = tuple(joined if x == i else x for x in places if x != j)
        names = {"a": operands[i], "b": operands[j]}
        says, node = "{a} and {b} are joined to one", Node("cat", kept, tensor.node.options)
        yield StepEdit("{a}-and-{b}-joined", says, {number: node}, names, 2)
    for order in permutations(places) if len(operands) <= 4 else (tuple(reversed(places)),):
        if order != tuple(places):
            node = Node("cat", order, tensor.node.options)
            yield StepEdit("joined-in-other-order", "the parts stand in another order", {number: node}, {}, 2)


def _two_factors(part: HandTensor) -> tuple[Node, ...]:
    """The two factors of one size of a shape, as sizes; none where it is no product."""
    product = part.node.operands[0] if part.node.operation in ("unsqueeze", "reshape") else part
    if product.node.operation != "multiply" or product.shape:
        return ()
    return tuple(Node("reshape", (x,), {"shape": part.shape}) for x in product.node.operands)


def result_slice_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A row or a column of the result that is missing or a copy of another."""
    number, result = len(graph.operations) - 1, graph.result
    it = same_node(result)
    if len(result.shape) > 1 and result.shape[-1] == result.shape[-2] > 1:
        eye = np.eye(result.shape[-1])
        like = constant(it, 1 - eye)
        says = "the diagonal is left at 0"
        yield StepEdit("diagonal-left-out", says, {number: Node("multiply", (it, like), {})}, {}, 3)
        like = constant(it, np.broadcast_to(eye, result.shape))
        says, like = "the identity matrix is added", constant(it, np.broadcast_to(eye, result.shape))
        yield StepEdit("identity-added", says, {number: Node("add", (it, like), {})}, {}, 2)
        yield StepEdit("diagonal-alone", "1 stands on the diagonal, 0 elsewhere", {number: like}, {}, 2)
    places = range(len(result.shape))
    yield from sheared_row_edits(graph, number, it, result)
    yield from band_edits(graph)
    for axis, size in enumerate(result.shape):
        if not 2 <= size <= MANY:
            continue
        names = {"axis": (graph.path, axis)}
        turned: Changes = {number: Node("flip", (it,), {"axis": axis})}
        says = "the {axis}s stand in reverse order"
        yield StepEdit("{axis}s-reversed", says, turned, names, 1, "reversed")
        for index in (0, size - 1) if result.node.operation != "cat" else ():
            key = _along(axis, [i for i in range(size) if i != index])
            part: Changes = {number: picked(it, key)}
            yield StepEdit("part-missing", f"{{axis}} {index} is missing", part, names, 1)
        for index in range(size):
            every: Changes = {number: picked(it, _along(axis, [index] * size))}
            yield StepEdit("part-repeated", f"every {{axis}} is a copy of {{axis}} {index}", every, names, 3)
        for shift in (1, -1):
            kept = [0.0 if i - shift not in range(size) else 1.0 for i in range(size)]
            factor = constant(it, np.reshape(kept, [-1 if a == axis else 1 for a in places]))
            rolled = picked(it, _along(axis, np.roll(np.arange(size), shift).tolist()))
            says = f"everything stands one {{axis}} too {'late' if shift > 0 else 'early'}"
            for shifted in (rolled, Node("multiply", (rolled, factor), {})):
                yield StepEdit("result-shifted", says, {number: shifted}, names, 2, "result shifted")
        for first, second in combinations(range(size), 2) if size > 2 else ():
            order = [second if i == first else first if i == second else i for i in range(size)]
            exchanged: Changes = {number: picked(it, _along(axis, order))}
            says = f"{{axis}} {first} and {second} of the result change places"
            yield StepEdit("parts-swapped", says, exchanged, names, 2.5)
        for source, target in permutations(range(size), 2):
            key = _along(axis, [source if i == target else i for i in range(size)])
            part = {number: picked(it, key)}
            says = f"{{axis}} {target} is a copy of {{axis}} {source}"
            next_row = axis == len(places) - 2 and abs(source - target) == 1
            yield StepEdit("part-copied", says, part, names, 1 if next_row else 2)
