"""From a logit down to the pixels: any number of a model as a line of arithmetic, true as it stands."""

from collections.abc import Iterator
from typing import Any

from headwork.documents.formulas import plain_formula
from headwork.documents.number_format import number_text
from headwork.errors import check_known
from headwork.lab.model_views import ModelView
from headwork.lab.states import cell_index
from headwork.numbers.arithmetic import Cell, Expression, Number, Operation, evaluate, leaf_cells, to_text

MAX_TERMS = 400  # of a sum, that are listed
TOKEN_AXES = {"token": "", "patch": "", "query": "query ", "key": "key "}
PIXEL_AXES = {"height": "row", "width": "column"}


def arithmetic_line(view: ModelView, path: str, index: str) -> dict[str, Any]:
    """One number as a line of arithmetic, the parts of its sum, and which of them to follow."""
    parameters: dict[str, Any] = view.source.array_model.inner.parameters
    name = _cell_title(view, path, index)
    if path in parameters:
        position = cell_index(index, parameters[path].shape, path)
        digits = _digits(parameters[path][position])
        return {**name, "kind": "parameter", "value": digits, "lines": [], "terms": []}
    changed_trace = view.traced(len(view.changed_steps))
    check_known("step", path, [*changed_trace.inputs, *changed_trace.steps])
    position = cell_index(index, changed_trace[path].raw.shape, path)
    value = float(changed_trace[path].raw.array[position])
    if path in changed_trace.inputs:
        return {
            **name,
            "kind": "input",
            "value": _digits(value),
            "terms": [],
            **_input_lines(view, path, position),
        }
    tree = view.trace_of(path, position)[path].raw.derivation(position)
    if isinstance(tree, Number):
        lines = ["You changed this head, so this number was set, not computed."]
        return {**name, "kind": "set", "value": _digits(value), "lines": lines, "terms": []}

    def leaf(cell: Any) -> str:
        return _digits(cell.value) if isinstance(cell, Number) else _symbol(view, cell.label, cell.index)

    right_side = evaluate(tree)
    terms = list(_summands(tree))
    order = sorted(terms, key=lambda term: -abs(evaluate(term)))[:MAX_TERMS]
    largest = max(abs(evaluate(order[0])), 1e-30)
    symbol = _symbol(view, path, position)
    next_cell = next(
        (cell for term in order for cell in _cells_towards_input(term) if view.leads_to_input(cell)), None
    )
    return {
        **name,
        "kind": "step",
        "value": _digits(value),
        "right": right_side,
        "left": value,
        "check": f"Worked out again from these numbers: {right_side:.7g}. Here: {value:.7g}.",
        "lines": [
            f"{symbol} = {to_text(tree, leaf)}",
            f"{symbol} = {to_text(tree, lambda cell: _digits(cell.value))}",
        ],
        "more": max(0, len(terms) - MAX_TERMS),
        "follow": [next_cell.label, ",".join(map(str, next_cell.index))] if next_cell else None,
        "terms": [
            {
                "text": to_text(term, leaf),
                "value": _digits(evaluate(term)),
                "share": round(abs(evaluate(term)) / largest, 3),
                "cells": [_cell(view, cell, parameters) for cell in dict.fromkeys(leaf_cells(term))][
                    :MAX_TERMS
                ],
            }
            for term in order
        ],
    }


def _digits(value: Any) -> str:
    return number_text(float(value), 4)


def _summands(tree: Expression) -> Iterator[Expression]:
    """The parts of a sum, those of sums in it too."""
    if isinstance(tree, Operation) and tree.kind == "sum":
        for part in tree.parts:
            yield from _summands(part)
    elif isinstance(tree, Operation) and tree.kind == "difference":
        yield from _summands(tree.parts[0])
        yield from (Operation("negative", (part,)) for part in _summands(tree.parts[1]))
    else:
        yield tree


def _cells_towards_input(term: Expression) -> list[Cell]:
    """Its cells, those first that are nearer to the input: of weights and a value the value."""
    cells = list(leaf_cells(term))
    return cells[::-1] if isinstance(term, Operation) and term.kind == "product" else cells


def _symbol(view: ModelView, label: str, index: tuple[int, ...]) -> str:
    """A cell as a formula writes it, without the batch index, since there is only one picture."""
    trace = view.traced(len(view.changed_steps))
    shown_value = trace.steps.get(label) or trace.inputs.get(label)
    symbol = plain_formula(shown_value.symbol) if shown_value else label.rpartition("/")[2]
    shown = index[1:] if shown_value else index
    return f"{symbol}[{','.join(map(str, shown))}]" if shown else symbol


def _cell(view: ModelView, cell: Cell, parameters: dict[str, Any]) -> dict[str, Any]:
    index = ",".join(map(str, cell.index))
    inputs = view.traced(len(view.changed_steps)).inputs
    kind = "parameter" if cell.label in parameters else "input" if cell.label in inputs else "step"
    named = {"symbol": _symbol(view, cell.label, cell.index), "value": _digits(cell.value), "kind": kind}
    return {"path": cell.label, "index": index, **named, **_cell_title(view, cell.label, index)}


def _cell_title(view: ModelView, path: str, index: str) -> dict[str, str]:
    """Which number this is, in words."""
    trace = view.traced(len(view.changed_steps))
    value = trace.steps.get(path) or trace.inputs.get(path)
    numbers = [int(part) for part in index.split(",") if part.isdecimal()]
    if value is None:
        return {"title": f"trained parameter {path} [{index}]"}
    if path == trace.output.path and view.on_input.classes and len(numbers) == 2:
        return {"title": f"the logit of {view.on_input.classes[numbers[1] % len(view.on_input.classes)]}"}
    words, pixels = [], "height" in str(value.axes)
    for axis, number in zip(value.axes, numbers, strict=False):
        if axis == "batch":
            continue
        if axis in TOKEN_AXES:
            token = number + (view.patches_start if axis == "patch" else 0)
            where = view.token_name(token) if token < len(view.on_input.labels) else str(number)
            words.append(f"{TOKEN_AXES[axis]}{where}")
        elif axis != "one":
            short = axis.removeprefix("output_").replace("_", " ")
            words.append(f"{PIXEL_AXES.get(short, short) if pixels else short} {number}")
    what = "pixel" if path == "images" else path.replace("/", ", ")
    return {"title": f"{what}: {', '.join(words)}" if words else what}


def _input_lines(view: ModelView, path: str, position: tuple[int, ...]) -> dict[str, Any]:
    """A number that was given; a pixel down to its byte."""
    pixels, source, inputs = view.on_input.pixels, view.source, view.on_input.inputs
    if path != "images" or pixels is None or inputs is None:
        return {"lines": ["This was given: the number of a token."]}
    byte, mean, std = int(pixels[position[1:]]), source.mean[position[1]], source.std[position[1]] or 1.0
    right_side = (byte / 255 - mean) / std
    numbers = f"({byte}/255 - {_digits(mean)})/{_digits(std)} = {_digits(right_side)}"
    lines = [f"x = (byte/255 - mean)/deviation = {numbers}", f"The byte is {byte}: 0 is black, 255 white."]
    pixel = {"lines": lines, "right": right_side, "left": float(inputs[path][position])}
    return {**pixel, "row": position[-2], "column": position[-1]}
