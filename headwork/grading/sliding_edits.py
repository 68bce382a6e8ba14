"""Edits of what a kernel slides over: its borders, and the rows of the banded matrix that it makes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headwork.grading.step_graph import SLID_INPUTS, Changes, StepEdit, StepGraph, constant, picked
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

ALONG_AXES = {
    (-2, -1): "",
    (-1,): ", and that only to the left and right",
    (-2,): ", and that only above and below",
}


def border_edits(graph: StepGraph, rows: list[dict[str, Any]]) -> Iterator[StepEdit]:
    """What a kernel slides over with another border than was asked for: the mechanism is run again."""
    name = next((name for name in SLID_INPUTS if name in graph.case.inputs), "")
    if not name or "padding" not in graph.case.options:
        return
    tensor, padding = graph.tensors[name], graph.case.options["padding"]
    array, axes = tensor.array, (-1,) if name == "signal" else (-2, -1)
    taps = next(graph.tensors[x].shape[-1] for x in ("kernel", "kernels") if x in graph.tensors)
    for row in (row for row in rows if row["padded"] == bool(padding)):
        for along, where in ALONG_AXES.items() if len(axes) > 1 else [((-1,), "")]:
            many = [end * (padding or taps - 1) for end in row["ends"]]
            ends = [many if axis - array.ndim in along else (0, 0) for axis in range(array.ndim)]
            mode: Any
            mode, value = ("constant", 1.0) if row["mode"] == "ones" else (row["mode"], 0.0)
            values = {"constant_values": value} if mode == "constant" else {}
            changed = {name: np.pad(array, ends, mode, **values), "padding": 0}
            slug, rarity = f"border-{row['mode']}", row["rarity"] + bool(where)
            yield StepEdit(slug, row["says"] + where, {}, {}, rarity, "border", changed)
    if "kernel" in graph.tensors:
        gaps = graph.tensors["kernel"].array
        for axis in axes:
            gaps = np.insert(gaps, range(1, gaps.shape[axis]), 0.0, axis)
        if graph.case.options["stride"] == 2:
            says = "the stride is put between the taps of the kernel; it is how far the kernel moves"
            cut: Changes = {-1: tuple(map(slice, graph.result.shape))}
            changed = {"kernel": gaps, "stride": 1}
            yield from (StepEdit("stride-in-kernel", says, x, {}, 2, "", changed) for x in ({}, cut))


def sheared_row_edits(graph: StepGraph, key: int | str, it: Any, tensor: HandTensor) -> Iterator[StepEdit]:
    """The rows of a banded matrix that are not shifted."""
    if len(tensor.shape) != 2 or not (tensor.array == 0).any() or tensor.shape[1] < 3:
        return
    rows, columns = np.indices(tensor.shape)
    stride = int(graph.case.options.get("stride", 1))
    places = columns + stride * rows
    sheared = picked(it, (rows, places % tensor.shape[1]))
    cut = Node("multiply", (sheared, constant(it, (places < tensor.shape[1]).astype(float))), {})
    says = "every row starts where the first does; each must be shifted"
    yield from (StepEdit("rows-not-shifted", says, {key: whole}, {}, 2) for whole in (sheared, cut))


def band_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """A banded matrix whose kernels stand elsewhere, go on at the ends, or are flipped in one row."""
    taps = next((x for x in ("kernel", "kernels") if graph.path == "matrix" and x in graph.tensors), "")
    if not taps:
        return
    size, length = graph.tensors[taps].shape[-1], graph.result.shape[-1]
    numbers = np.arange(len(graph.result.array))
    starts = numbers * graph.case.options.get("stride", 1) - graph.case.options.get("padding", 0)
    for slug, says, moved, how in (
        ("kernel-goes-round", "the kernel goes round at the ends; it must be cut off there", starts, "round"),
        ("kernel-repeated", "the kernel is repeated along the whole row; all else is 0", starts, "repeated"),
        (
            "border-edge",
            "taps that fall on the padding are added to the column at the border",
            starts,
            "edge",
        ),
        ("windows-reversed", "the windows run from the last to the first", starts[::-1], "cut"),
        (
            "padding-left-out",
            "the padding is left out: row 0 starts with the whole kernel",
            starts - starts[0],
            "cut",
        ),
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
            where = where[::-1] if slug == f"{number}" else where
            part = picked(taps, number) if taps == "kernels" else taps
            rows.append(Node("unsqueeze", (Node("matmul", (part, constant(taps, where)), {}),), {"axis": 0}))
        changes: Changes = {len(graph.operations) - 1: Node("cat", tuple(rows), {"axis": 0})}
        yield StepEdit("kernel-flipped-in-part" if slug.isdigit() else slug, says, changes, {}, 2)


def kernel_part_edits(graph: StepGraph) -> Iterator[StepEdit]:
    """The kernel flipped or transposed in one channel, or for one output, only."""
    label = next((x for x in ("kernel", "kernels") if x in graph.leaves), "")
    tensor = graph.tensors[label] if label else graph.result
    inner = 2 if "image" in graph.tensors else 1
    places = np.indices(tensor.shape)
    for axis in range(len(tensor.shape) - inner) if label else ():
        names = {"it": tensor, "axis": (label, axis)}
        for index in range(tensor.shape[axis]) if tensor.shape[axis] > 1 else ():
            ways = [(np.flip(places, -1), "flipped"), (np.flip(places, (-2, -1)), "flipped both ways")]
            ways += [(np.flip(places, -2), "turned upside down"), (np.swapaxes(places, -2, -1), "transposed")]
            for moved, how in ways[: 1 if inner == 1 else 4]:
                if moved.shape == places.shape:
                    key = tuple(np.where(places[axis] == index, moved, places))
                    says = f"{{it}} is {how} only in {{axis}} {index}"
                    yield StepEdit("{it}-flipped-in-part", says, {label: picked(label, key)}, names, 2)
