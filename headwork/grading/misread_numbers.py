"""A given number that is read as another one: an entry of a matrix, or a size that is counted with."""

import math
from typing import Any

import numpy as np

from headwork.documents.number_format import number_text
from headwork.grading.operand_edits import is_switch
from headwork.grading.step_graph import StepEdit, StepGraph, constant
from headwork.grading.wrong_step import WrittenNumbers
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

LEAST_BITS, COST_BITS = 1.0, 3.0  # how rare a mistake is, by its rarity
# Costs of a size read with two digits exchanged, and as any other; the largest that is tried.
SWAPPED, UNBELIEVED, MOST_SIZES = 1.2, 2.5, 4000
UNBELIEVED_BITS = 6.0  # more than for two digits exchanged
EXCHANGED, ONE_DIGIT, ANY_NUMBER = range(3)  # two digits; one that is another, missing or too many


def edit_bits(rarity: float) -> float:
    """How rare an edit of that rarity is, in bits."""
    return LEAST_BITS + COST_BITS * rarity


def misread_entries(graph: StepGraph, target: WrittenNumbers) -> list[tuple[StepEdit, float]]:
    """One entry of an operand read as another number, which at least two wrong numbers must agree on."""
    wrong, right = target.wrong, graph.result.array
    if wrong.wrong_mask.shape != right.shape or wrong.wrong_mask.sum() < 2:
        return []
    first_wrong = tuple(int(i) for i in np.argwhere(wrong.wrong_mask)[0])
    found, tried, start = [], 0, right[first_wrong]
    for label in graph.leaves:
        tensor = graph.tensors[label]
        for index in np.ndindex(tensor.shape) if label not in graph.earlier else ():
            raised_by_one = graph.apply(_read_as(label, tensor, index, 1.0))
            if raised_by_one is None or raised_by_one[first_wrong] == start:
                continue
            tried += 1
            change = (target.values[first_wrong] - start) / (raised_by_one[first_wrong] - start)
            if not math.isfinite(change) or round(change) == 0 or abs(change - round(change)) > 0.2:
                continue
            edit = _read_as(label, tensor, index, float(round(change)))
            value = graph.apply(edit)
            if value is not None and target.matches(value):
                found.append(edit)
    # One of the wrong numbers was used to find out what was read.
    spent = target.information_bits / max(2, len({float(x) for x in target.values[wrong.wrong_mask]}))
    return [(edit, edit_bits(2) + math.log2(tried) / 2 + spent) for edit in found]


def misread_sizes(graph: StepGraph, target: WrittenNumbers) -> list[tuple[StepEdit, float]]:
    """A number of a count taken as another one: with its digits exchanged, with another digit, or as any.

    The last are believed only where other steps show the same. The more numbers could be misread, the rarer
    each misreading is.
    """
    found, tried = [], 0
    for label in graph.leaves if target.values.size == 1 else ():
        tensor = graph.tensors[label]
        if is_switch(tensor) or float(tensor.array) != round(float(tensor.array)) or tensor.array < 0:
            continue
        old = int(tensor.array)
        sizes = [size for size in range(1, min(10 * old + 10, MOST_SIZES)) if size != old]
        kinds = {size: _misreading(str(old), str(size)) for size in sizes}
        tried += sum(kind == ONE_DIGIT for kind in kinds.values())
        values = graph.apply(_taken_as(label, tensor, np.array(sizes, float)))
        near = [] if values is None or values.shape != (len(sizes),) else target.matching(values[:, None])
        other_sizes = {float(x.array) for x in graph.tensors.values() if not x.shape}
        for size in (sizes[i] for i in np.flatnonzero(near)):
            kind = ANY_NUMBER if kinds[size] and size in other_sizes else kinds[size]
            edit = _taken_as(label, tensor, float(size))._replace(rarity=(2, 1.5, UNBELIEVED)[kind])
            found.append((edit, kind))
    rare = (edit_bits(SWAPPED), edit_bits(2) + math.log2(max(tried, 1)), edit_bits(SWAPPED) + UNBELIEVED_BITS)
    return [(edit, rare[kind]) for edit, kind in found]


def _misreading(old: str, new: str) -> int:
    if len(old) == len(new):
        off = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        exchanged = len(off) == 2 and off[0] == off[1][::-1]
        return EXCHANGED if exchanged else ONE_DIGIT if len(off) == 1 else ANY_NUMBER
    short, long = sorted((old, new), key=len)
    left_out = len(short) > 1 and short in (long[:i] + long[i + 1 :] for i in range(len(long)))
    return ONE_DIGIT if left_out else ANY_NUMBER


def _taken_as(label: str, tensor: HandTensor, value: Any) -> StepEdit:
    says = "{it} is taken as {other}; it is {number}"
    names = {"it": tensor, "other": f"{np.ravel(value)[0]:g}", "number": f"{float(tensor.array):g}"}
    part = constant(label, value)
    return StepEdit(
        "{it}-misread", says, {label: part}, names, 2, f"{label.rpartition('/')[2]} as {names['other']}"
    )


def _read_as(label: str, tensor: HandTensor, index: tuple[int, ...], change: float) -> StepEdit:
    moved = np.zeros(tensor.shape)
    moved[index] = change
    part = Node("add", (label, constant(label, moved)), {})
    old, place = float(tensor.array[index]), ",".join(map(str, index))
    says = f"entry [{place}] of {{it}} is read as {number_text(old + change, 4)}; it is {number_text(old, 4)}"
    return StepEdit("entry-of-{it}-misread", says, {label: part}, {"it": tensor}, 2, "")
