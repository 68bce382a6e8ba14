"""Formulas that nobody listed, in place of a step or of a part of it: small ones of inputs and earlier steps.

Tried where no edit fits. Those of one shape are worked out at once, as a stack of arrays. The functions that
may stand in each other's place, such as norms, activations and means, are the rows ``formula`` of edits.toml.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import combinations, islice
from typing import Any, NamedTuple

import numpy as np

from headwork.exercises.case import Array
from headwork.grading.edits import TABLE, build_node, in_every_branch
from headwork.grading.operand_edits import is_switch
from headwork.grading.step_graph import UNFIT, Changes, StepEdit, StepGraph, same_node
from headwork.numbers import HandTensor
from headwork.numbers.operations import OPERATIONS, Node, compute_unguarded

Shape = tuple[int, ...]
AXES = {-1: "each row of ", -2: "each column of ", (-2, -1): "all of "}
PAIRS, TRANSPOSES = (
    {row["says"]: build_node(row["instead"], {}, {}, {}) for row in TABLE[x]} for x in ("pair", "transposes")
)
MOST_CELLS = 150  # larger steps are not tried, and nothing larger is made of the numbers
MOST_WORK = 12_000  # operations that are worked out, at most


class CandidateFormula(NamedTuple):
    """A formula: how it is written and worked out, with its parts in place of {0} and 0; a leaf has none."""

    text: str
    node: Any
    parts: tuple[CandidateFormula, ...] = ()

    def written(self, inner: bool = False) -> str:
        text = self.text
        for place, part in enumerate(self.parts):
            text = text.replace(f"{{{place}}}", part.written(True))
        return f"({text.rstrip(',')})" if inner and self.parts and " " in text else text

    def nodes(self) -> Any:
        return _with_parts(self.node, [part.nodes() for part in self.parts]) if self.parts else self.node

    def labels(self) -> set[str]:
        return set().union(*(part.labels() for part in self.parts)) if self.parts else {self.node}


Matching = Callable[[Array], Array]
# The formulas of a stack, built lazily: for each group its size, and a function that builds its i-th formula.
LazyFormulas = list[tuple[int, Callable[[int], CandidateFormula]]]
Stacks = dict[Shape, tuple[LazyFormulas, Array]]


def _formula_at(formulas: LazyFormulas, index: int) -> CandidateFormula:
    for count, build in formulas:
        if index < count:
            return build(index)
        index -= count
    raise IndexError(index)


def other_formulas(graph: StepGraph, matching: Matching, most_bits: float) -> Iterator[tuple[StepEdit, int]]:
    """The formulas that may give the student's numbers, and how many were tried up to the size of each.

    ``matching`` says which arrays of a stack are those numbers, ``most_bits`` how many formulas these can
    tell apart, as a logarithm. The smallest come first. numpy's warnings are off where this is called.
    """
    if graph.result.array.size > MOST_CELLS:
        return
    small = {x: y for x, y in graph.tensors.items() if not is_switch(y) and y.array.size <= MOST_CELLS}
    leaves = [(CandidateFormula(f"{{{x}}}", x), y.array) for x, y in small.items()]
    transposes = [
        (CandidateFormula(text, node, (part,)), np.swapaxes(array, *node.options.values()))
        for part, array in leaves
        for text, node in TRANSPOSES.items()
        if array.ndim >= -node.options["axis2"]
    ]
    last = len(graph.operations) - 1
    single, both = _stacked(map(_single_formula, leaves)), [*leaves, *transposes]
    matching_leaves = [x for parts, values in single.values() for x in _matches(parts, values, matching)]
    yield from ((_formula_edit(graph, part, last, graph.result), len(leaves)) for part in matching_leaves)
    if matching_leaves or graph.case.counts_sizes:
        return  # sizes are multiplied and added; no function is taken of them
    changed = list(islice(_function_edits(graph), MOST_WORK // len(graph.operations)))
    yield from ((edit, len(changed)) for edit in changed)
    if graph.result.array.size == 1:
        return  # one number is too little for any formula
    own_leaves = (leaf for leaf in leaves if leaf[0].node in graph.leaves)
    own_formulas = _stacked(_functions_of(_stacked(map(_single_formula, own_leaves))))
    functions = _stacked(_functions_of(single))
    pairs = _stacked(_pairs_of(both, _stacked(map(_single_formula, both))))
    larger = (_stacked(made) for made in (_pairs_of(both, functions), _functions_of(pairs)))
    tried = len(changed)
    for level in ([own_formulas], [functions], [pairs], larger):
        if level is larger and math.log2(len(both) * len(PAIRS) * _count(functions) or 1) > most_bits:
            return
        level = list(level)
        tried += sum(map(_count, level))
        found = [part for made in level for stack in made.values() for part in _matches(*stack, matching)]
        yield from ((_formula_edit(graph, part, last, graph.result), tried) for part in found)
        if found:
            return


def _count(stacks: Stacks) -> int:
    return sum(len(values) for _, values in stacks.values())


def _matches(parts: LazyFormulas, values: Array, matching: Matching) -> list[CandidateFormula]:
    return [_formula_at(parts, int(index)) for index in np.flatnonzero(matching(values))]


def _formula_edit(graph: StepGraph, part: CandidateFormula, place: int | str, right: Any) -> StepEdit:
    names = {label: graph.tensors[label] for label in sorted(part.labels())}
    says = f"{part.written()} stands where {{right}} belongs"
    return StepEdit("other-formula", says, {place: part.nodes()}, {**names, "right": right}, 3, says)


def _computing(graph: StepGraph) -> list[tuple[int, HandTensor]]:
    numbered = enumerate(graph.operations)
    return [(n, tensor) for n, tensor in numbered if not OPERATIONS[tensor.node.operation].rearranges]


def _function_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """Another function for an operation, or one that is taken of its result; the same in every time step."""
    made = {number: list(_other_functions(number, tensor)) for number, tensor in _computing(graph)}
    groups = [[made.pop(number) for number in group] for group in graph.branches if group[0] in made]
    yield from in_every_branch(groups)
    for edits in made.values():
        yield from edits
    matrices = [label for label in graph.leaves if graph.tensors[label].array.size > 1]
    for labels in (*combinations(matrices, 1), *combinations(matrices, 2)):
        names = dict(zip("ab", (graph.tensors[label] for label in labels), strict=False))
        named = " and ".join(f"{{{word}}}" for word in names)
        verb = "stands where {} belongs" if len(labels) == 1 else "stand where {} belong"
        for written, function in _functions_for(names["a"].shape):
            says = " and ".join(written.replace("{0}", f"{{{word}}}") for word in names)
            changes: Changes = {label: _with_parts(function, [label]) for label in labels}
            says, rarity = f"{says} {verb.format(named)}", 3 * len(labels)
            yield StepEdit("other-formula", says, changes, names, rarity, written)


def _other_functions(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    parts: dict[str, tuple[Any, HandTensor]] = {"{right}": (same_node(tensor), tensor)}
    if len(tensor.node.operands) == 1:
        parts["{below}"] = (0, tensor.node.operands[0])
    for name, (part, below) in parts.items():
        for written, function in _functions_for(below.shape):
            says = f"{written.replace('{0}', name)} stands where {{right}} belongs"
            names = {"right": tensor, "below": below}
            yield StepEdit("other-formula", says, {number: _with_parts(function, [part])}, names, 3, written)


FormulaBatch = tuple[int, Callable[[int], CandidateFormula], Array]


def _single_formula(leaf: tuple[CandidateFormula, Array]) -> FormulaBatch:
    return 1, lambda _: leaf[0], leaf[1][None]


def _stacked(batches: Iterable[FormulaBatch]) -> Stacks:
    groups: dict[Shape, tuple[LazyFormulas, list[Array]]] = {}
    for count, made, values in batches:
        if math.prod(values.shape[1:]) <= MOST_CELLS:
            parts, arrays = groups.setdefault(values.shape[1:], ([], []))
            parts.append((count, made))
            arrays.append(values)
    return {shape: (parts, np.concatenate(arrays)) for shape, (parts, arrays) in groups.items()}


def _functions_of(stacks: Stacks) -> Iterator[FormulaBatch]:
    for shape, (parts, values) in stacks.items():
        for text, node in _functions_for(shape):
            result = _value(node, [values])
            if result is not None and len(result) == len(values):
                yield len(values), partial(_extended, text, node, (), parts), result


def _pairs_of(singles: list[tuple[CandidateFormula, Array]], stacks: Stacks) -> Iterator[FormulaBatch]:
    for single, array in singles:
        for shape, (parts, values) in stacks.items():
            filled = values.reshape(len(values), *(1,) * (array.ndim - len(shape)), *shape)
            vectors = not shape or not array.ndim or max(array.ndim, len(shape)) < 2
            for text, node in PAIRS.items():
                result = None if vectors and node.operation == "matmul" else _value(node, [array, filled])
                if result is not None and len(result) == len(values):
                    yield len(values), partial(_extended, text, node, (single,), parts), result


def _extended(
    text: str, node: Node, before: tuple[CandidateFormula, ...], parts: LazyFormulas, index: int
) -> CandidateFormula:
    return CandidateFormula(text, node, (*before, _formula_at(parts, index)))


@cache
def _functions_for(shape: Shape) -> list[tuple[str, Any]]:
    """The functions of an array of that shape: how each is written, and its node."""
    made = []
    for row in TABLE["formula"]:
        for axis, each in AXES.items() if "{each}" in row["says"] else [(-1, "")]:
            axes = axis if isinstance(axis, tuple) else (axis,)
            if "{each}" not in row["says"] or (shape and len(shape) >= max(-x for x in axes)):
                count = math.prod(shape[x] for x in axes) if shape else 1
                if "inner" in str(row["instead"]) and count not in (3, 4):
                    continue  # the median of three or four: what is left of them without the ends
                sizes: Any = {"axis": axis, "n": float(count), "inner": float(count - 2)}
                each = each if len(shape) > 1 else ""
                text = row["says"].replace("{each}", each).replace("{it}", "{0}")
                made.append((text, build_node(row["instead"], {"it": 0}, {}, sizes)))
    return made


def _with_parts(node: Any, parts: list[Any]) -> Any:
    """A function's node with these parts in place of 0, 1."""
    if isinstance(node, Node):
        return Node(node.operation, tuple(_with_parts(part, parts) for part in node.operands), node.options)
    return parts[node]


def _value(node: Any, arrays: list[Array]) -> Array | None:
    if not isinstance(node, Node):
        return arrays[node]
    parts: list[Any] = [_value(part, arrays) for part in node.operands]
    try:
        known = all(part is not None for part in parts)
        return compute_unguarded(node.operation, parts, node.options) if known else None
    except UNFIT:
        return None
