"""A trace as a document: its values with the arithmetic of cells, its data, code that works it again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.documents import Arithmetic, Code, Document, Value, Values
from headwork.documents.blocks import CellIndex
from headwork.documents.formats.json import json_safe
from headwork.documents.number_format import exact_texts
from headwork.errors import TooLarge
from headwork.numbers.operations import map_cells
from headwork.readings.notebook_cells import has_problem_code, notebook_cells

if TYPE_CHECKING:
    from headwork.readings.trace import CellArithmetic, Trace, TraceValue


MAX_INPUTS_TOGETHER = 6  # inputs; of more, parameters stand beside the steps that use them


def trace_document(trace: "Trace") -> Document:
    """The whole trace: in a report its title, or else its mechanism, is the heading."""
    return Document(
        trace.mechanism.slug,
        (trace_values(trace),),
        about=trace.mechanism.about,
        data=lambda: trace_data(trace),
        notebook_blocks=(lambda: notebook_cells(trace)) if has_problem_code(trace) else None,
    )


def trace_values(trace: "Trace") -> Values:
    """The inputs and steps, with the arithmetic of each cell on demand."""

    trained = [name for name, v in trace.inputs.items() if getattr(v.card, "trainable", False)]
    later = {name: trace.inputs[name] for name in trained if len(trace.inputs) > MAX_INPUTS_TOGETHER}
    input_values = [document_value(v, trace.digits) for name, v in trace.inputs.items() if name not in later]
    groups = {"Inputs": input_values}
    for title, path in zip(group_titles(list(trace.steps)), trace.steps, strict=True):
        values = groups.setdefault(title, [])
        cell = trace.cell(path, *(0 for _ in trace[path].shape)) if later else None
        for name in dict.fromkeys(name for name, _ in cell.sources) if cell else ():
            if name in later:  # beside the first step that uses it
                values.append(replace(document_value(later.pop(name), trace.digits), shown_with_step=True))
        values.append(document_value(trace[path], trace.digits))
    input_values += [document_value(value, trace.digits) for value in later.values()]
    return Values(
        tuple((title, tuple(values)) for title, values in groups.items()),
        trace.option_texts(),
        trace.title,
        tuple(trace.warnings),
        partial(cell_arithmetic, trace),
    )


def cell_arithmetic(trace: "Trace", path: str, index: CellIndex) -> Arithmetic:
    """How a cell comes about; one of an input as it stands is that input's."""
    cell = trace.cell(path, *index)
    names = "" if cell.in_names in (cell.in_numbers, cell.exact) else f"{cell.name} = {cell.in_names}"
    same = (v.path for v in trace.inputs.values() if v.raw.array is trace[path].raw.array)
    alias = next((((name, index),) for name in same if name != path), ())
    return Arithmetic(str(cell), names, cell.sources or alias)


def group_titles(paths: Sequence[str]) -> list[str]:
    """The group of each step: its part, and of a layer the sublayer with its residual and normalisation.

    >>> group_titles(["block 0/attention/scores", "block 0/residual 1", "block 0/feed-forward/hidden"])
    ['Steps: block 0, attention', 'Steps: block 0, attention', 'Steps: block 0, feed-forward']
    """
    layers = [path.removesuffix("residual 1") for path in paths if path.endswith("residual 1")]
    sublayer, keys, names = dict.fromkeys(layers, 0), [("Steps", 0)], {}
    for path in paths:
        layer = next((layer for layer in layers if path.startswith(layer)), None)
        part, within, _ = path.removeprefix(layer or "").partition("/")
        kind, _, number = part.rpartition(" ")
        if layer is not None and kind in ("residual", "normalisation"):
            keys.append((layer, int(number)))
            sublayer[layer] += kind == "residual"
        elif within:
            keys.append((path.partition("/")[0], 0) if layer is None else (layer, sublayer[layer] + 1))
            names[keys[-1]] = f"Steps: {layer or ''}{part}".replace("/", ", ")
        else:  # what joins the parts stands with the one before it
            keys.append(keys[-1])
    return [names.get(key, "Steps") for key in keys[1:]]


def document_value(value: "TraceValue", digits: int = 4) -> Value:
    """An input or step as a document shows it."""
    card = (value.path, value.symbol, value.values, value.exact_values, value.formula, value.axes, digits)
    return Value(*card, abbreviations=value.abbreviations)


def cells_document(cells: "list[CellArithmetic]") -> Document:
    """The arithmetic of some cells, one per line."""
    lines = "\n".join(map(str, cells))
    return Document("", (Code(lines),), data=lambda: [vars(cell) for cell in cells])


def trace_data(trace: "Trace") -> dict[str, Any]:
    """The whole trace as plain lists, numbers and strings."""
    return {
        "mechanism": trace.mechanism.slug,
        **({"title": _as_typed(trace.title)} if trace.title else {}),
        "inputs": {name: _entry(value) for name, value in trace.inputs.items()},
        "options": {name: _as_typed(value) for name, value in trace.option_texts().items()},
        "steps": [{"path": path, **_entry(value)} for path, value in trace.steps.items()],
        "output": trace.output.path,
        "warnings": trace.warnings,
    }


def _entry(value: "TraceValue") -> dict[str, Any]:
    entry: dict[str, Any] = {"symbol": value.symbol}
    if value.formula:
        entry["formula"] = value.formula
    values = json_safe(value.values.tolist())
    entry |= {"axes": list(value.axes), "shape": list(value.shape), "values": values}
    if (exact := value.exact_values) is not None:
        entry["exact"] = map_cells(_without_names, exact).tolist()
        if None in np.ravel(entry["exact"]):
            entry["exact_by_name"] = exact_texts(exact).tolist()
    if value.abbreviations:
        definitions = np.array([name.definition for name in value.abbreviations], object)
        entry["names"] = dict(zip(map(str, value.abbreviations), exact_texts(definitions), strict=True))
    return entry


def _without_names(number: Any) -> str | None:
    """An exact number as text that can be typed back in; None where that is too long."""
    from headwork.numbers.naming import expand_names

    try:
        return str(exact_texts(np.array(expand_names(number), object))[()])
    except TooLarge:
        return None


def _as_typed(text: str) -> str:
    return text.replace("∞", "oo")
