"""Edits of what a kernel slides over: its borders, and the rows of the banded matrix that it makes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headwork.grading.step_graph import SLID, Changes, StepEdit, StepGraph, constant, picked
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

ALONG_AXES = {
    (-2, -1): "",
    (-1,): ", and that only to the left and right",
    (-2,): ", and that only above and below",
}


def border_edits(graph: StepGraph, rows: list[dict[str, Any]]) -> Iterator[StepEdit]:
    """What a kernel slides over with another border than was asked for: the mechanism is run again."""
    name = next((name for name in SLID if name in graph.case.inputs), "")
    if not name or "padding" not in graph.case.options:
        return
    tensor, wide = graph.known[name], graph.case.options["padding"]
    array, axes = tensor.array, (-1,) if name == "signal" else (-2, -1)
    taps = next(graph.known[x].shape[-1] for x in ("kernel", "kernels") if x in graph.known)
    for row in (row for row in rows if row["padded"] == bool(wide)):
        for along, where in ALONG_AXES.items() if len(axes) > 1 else [((-1,), "")]:
            many = [end * (wide or taps - 1) for end in row["ends"]]
            ends = [many if axis - array.ndim in along else (0, 0) for axis in range(array.ndim)]
            mode: Any
            mode, value = ("constant", 1.0) if row["mode"] == "ones" else (row["mode"], 0.0)
            values = {"constant_values": value} if mode == "constant" else {}
            changed = {name: np.pad(array, ends, mode, **values), "padding": 0}
            cause, cost = f"border-{row['mode']}", row["cost"] + bool(where)
            yield StepEdit(cause, row["says"] + where, {}, {}, cost, "border", changed)
    for first, last, says in ((1, 0, "the first"), (0, 1, "the last"), (1, 1, "the first and the last")):
        for axis in axes:
            kept = {name: array.take(range(first, array.shape[axis] - last), axis)}
            word = "position" if len(axes) == 1 else "column" if axis == -1 else "row"
            said = f"{says} {word} of {{it}} is left out"
            yield StepEdit("end-of-{it}-left-out", said, {}, {"it": tensor}, 2, "border", kept)
    if "kernel" in graph.known:
        gaps = graph.known["kernel"].array
        for axis in axes:
            gaps = np.insert(gaps, range(1, gaps.shape[axis]), 0.0, axis)
        says = "a position is left out between the taps of the kernel"
        yield StepEdit("kernel-with-gaps", says, {}, {}, 2, "", {"kernel": gaps})


def sheared_row_edits(graph: StepGraph, key: int | str, it: Any, tensor: HandTensor) -> Iterator[StepEdit]:
    """The rows of a banded matrix shifted by another number of places than they must be."""
    if len(tensor.shape) != 2 or not (tensor.array == 0).any() or tensor.shape[1] < 3:
        return
    rows, columns = np.indices(tensor.shape)
    stride = int(graph.case.options.get("stride", 1))
    for shift, cause, says in (
        (stride, "rows-not-shifted", "every row starts where the first does; each must be shifted"),
        (-stride, "rows-shifted-twice", "each row is shifted twice as far as it must be"),
        (2 * stride, "rows-shifted-backwards", "the rows are shifted to the left, not to the right"),
    ):
        sheared = picked(it, (rows, (columns + shift * rows) % tensor.shape[1]))
        inside = (columns + shift * rows < tensor.shape[1]) & (columns + shift * rows >= 0)
        cut = Node("multiply", (sheared, constant(it, inside.astype(float))), {})
        yield from (StepEdit(cause, says, {key: whole}, {}, 2) for whole in (sheared, cut))


def band_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A banded matrix whose kernels stand elsewhere, go on at the ends, or are flipped in one row."""
    taps = next((x for x in ("kernel", "kernels") if graph.path == "matrix" and x in graph.known), "")
    if not taps:
        return
    size, length = graph.known[taps].shape[-1], graph.result.shape[-1]
    numbers = np.arange(len(graph.result.array))
    starts = numbers * graph.case.options.get("stride", 1) - graph.case.options.get("padding", 0)
    for cause, says, moved, how in (
        ("kernel-goes-round", "the kernel goes round at the ends; it must be cut off there", starts, "round"),
        ("kernel-repeated", "the kernel is repeated along the whole row; all else is 0", starts, "repeated"),
        (
            "kernel-pushed-in",
            "at the ends the kernel is pushed back in",
            starts.clip(0, length - size),
            "cut",
        ),
        (
            "kernel-pushed-in",
            "at the last end the kernel is pushed back in",
            starts.clip(max=length - size),
            "cut",
        ),
        (
            "border-edge",
            "taps that fall on the padding are added to the column at the border",
            starts,
            "edge",
        ),
        ("windows-reversed", "the windows run from the last to the first", starts[::-1], "cut"),
        ("stride-plus-one", "each row is moved one column too far", starts + numbers, "cut"),
        *((f"{n}", f"the kernel is flipped only in row {n}", starts, "cut") for n in numbers),
    ):
        rows = []
        for number, start in enumerate(moved):
            where, places = np.zeros((size, length)), start + np.arange(size)
            if how == "repeated":
                where[(np.arange(length) - start) % size, np.arange(length)] = 1.0
            else:
                columns = places % length if how == "round" else places.clip(0, length - 1)
                np.add.at(where, (np.arange(size), columns), (columns == places) | (how != "cut"))
            where = where[::-1] if cause == f"{number}" else where
            part = picked(taps, number) if taps == "kernels" else taps
            rows.append(Node("unsqueeze", (Node("matmul", (part, constant(taps, where)), {}),), {"axis": 0}))
        changes: Changes = {len(graph.operations) - 1: Node("cat", tuple(rows), {"axis": 0})}
        yield StepEdit("kernel-flipped-in-part" if cause.isdigit() else cause, says, changes, {}, 2)


def kernel_part_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """The kernel flipped or transposed in one channel, or for one output, only."""
    label = next((x for x in ("kernel", "kernels") if x in graph.leaves), "")
    tensor = graph.known[label] if label else graph.result
    inner = 2 if "image" in graph.known else 1
    places = np.indices(tensor.shape)
    for axis in range(len(tensor.shape) - inner) if label else ():
        words = {"it": tensor, "axis": (label, axis)}
        for index in range(tensor.shape[axis]) if tensor.shape[axis] > 1 else ():
            ways = [(np.flip(places, -1), "flipped"), (np.flip(places, (-2, -1)), "flipped both ways")]
            ways += [(np.flip(places, -2), "turned upside down"), (np.swapaxes(places, -2, -1), "transposed")]
            for moved, how in ways[: 1 if inner == 1 else 4]:
                if moved.shape == places.shape:
                    key = tuple(np.where(places[axis] == index, moved, places))
                    says = f"{{it}} is {how} only in {{axis}} {index}"
                    yield StepEdit("{it}-flipped-in-part", says, {label: picked(label, key)}, words, 2)
