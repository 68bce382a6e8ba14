"""What the canvas shows of a trace: cards in columns from left to right, each with its cells."""

import math
from collections.abc import Iterator
from typing import Any

from headwork.documents.formats.html import Frame, ValueCard
from headwork.documents.formulas import mathml, plain_formula
from headwork.documents.number_format import with_infinity
from headwork.files import load_package_toml
from headwork.lab.sentences import describe_state
from headwork.lab.states import MASKS, SolvedState, State, axis_words
from headwork.note import Mechanism
from headwork.numbers.graph import results_since_labels
from headwork.numbers.options import literal_choices
from headwork.numbers.parsing import SymbolInDecimals, read_number
from headwork.readings import Trace
from headwork.readings.assembling import HARD_RULE, TOKEN_AXES
from headwork.readings.trace_document import trace_values

BETAS = load_package_toml(__file__, "words.toml")["betas"]


def view(solved: SolvedState) -> dict[str, Any]:
    """The whole canvas of a worked state, as JSON."""
    trace, state = solved.trace, solved.state
    block = trace_values(trace)
    cards = [ValueCard.from_value(value, False, 0) for value in block.all_values()]
    frame = Frame(block, cards)
    # What a step reads is asked of the trace before an edit: an edited step reads nothing.
    sources = {
        value.path: _sources(solved.before.get(value.path, trace), value.path) for value in trace.all_values()
    }
    columns = _columns(trace, sources)
    values = []
    resizable = [n for n in state.inputs if n not in MASKS or n not in trace.mechanism.options]
    for card in cards:
        path = card.value.name
        values.append(
            {
                "path": path,
                "symbol": plain_formula(card.value.symbol),
                "formula": mathml(card.value.equation.replace(HARD_RULE, "")),  # the sentence says it
                "size": card.value.shape_text.replace(" x ", " × "),
                "input": path in trace.inputs,
                "column": columns[path],
                "from": sources[path],
                "edited": list(state.edits.get(path, {})),
                "whole": card.all_cells,
                "matrices": [_matrix(frame, card, matrix) for matrix in card.matrices],
                **({"typed": state.inputs[path]} if path in state.inputs else {}),
                **({"axes": axis_words(trace.mechanism, state, path)} if path in resizable else {}),
            }
        )
    return {
        "state": state.as_data(),
        "about": trace.mechanism.about,
        "values": values,
        "options": list(_options(trace, state)),
        "warnings": trace.warnings,
        "sentence": describe_state(solved),
        "exact": trace.exact,
    }


def _matrix(frame: Frame, card: ValueCard, matrix: Any) -> dict[str, Any]:
    """The numbers of a matrix: as shown, exactly, their tint, and in full precision."""
    every = frame.values[card.value.name].values

    def entry(cell: Any, index: Any) -> Any:
        if cell is None:
            return None
        number = every[index]
        is_plain = number is None or math.isfinite(number)
        full_precision = number if is_plain else str(number).replace("inf", "Infinity")
        return [cell.decimal, str(cell.exact), "odd" if cell.not_finite else cell.heat, full_precision]

    grid = zip(frame.grid(card, matrix), matrix.cells(), strict=True)
    return {
        "caption": matrix.caption,
        "axes": matrix.axes,
        "rows": list(matrix.rows),
        "columns": list(matrix.columns),
        "index": [[None if i is None else ",".join(map(str, i)) for i in row] for row in matrix.cells()],
        "cells": [list(map(entry, row, indices)) for row, indices in grid],
    }


# --- which card follows from which ----------------------------------------------------------------------
def _sources(trace: Trace, path: str) -> list[str]:
    """The inputs, options and steps that a step reads."""
    raw = trace[path].raw
    if path in trace.inputs:
        return []
    if not raw.node.operands:  # set by hand, or an input as it stands
        return [v.path for v in trace.inputs.values() if v.raw.array is raw.array][:1]
    labels = [operand.label for op in results_since_labels(raw) for operand in op.node.operands]
    return [label for label in dict.fromkeys(labels) if label and label != path]


def _columns(trace: Trace, sources: dict[str, list[str]]) -> dict[str, int]:
    """The column of each card: after all that it reads; parameters right before what uses them."""
    trained = {n for n, v in trace.inputs.items() if n in MASKS or getattr(v.card, "trainable", False)}
    depth: dict[str, float] = {name: 0.0 for name in trace.inputs if name not in trained}
    for path in trace.steps:
        depth[path] = 1 + max((depth[s] for s in sources[path] if s in depth), default=0.0)
    for name in trained:
        used = [depth[path] for path in trace.steps if name in sources[path]]
        depth[name] = min(used, default=1.0) - (1 if name in MASKS else 0.5)  # masks below the scores
    order = sorted(set(depth.values()))
    return {path: order.index(d) for path, d in depth.items()}


# --- options ----------------------------------------------------------------------------------------------
def _options(trace: Trace, state: State) -> Iterator[dict[str, Any]]:
    """Each option as a control: its kind, its choices or stops, and what it is now."""
    cells = {name: "matrix" for name in MASKS if name in state.inputs}
    yield from controls(trace.mechanism, {**state.options, **cells}, trace)
    if any(axis in TOKEN_AXES for card in trace.mechanism.inputs for axis in card.axes.split()):
        choice = {"kind": "choice", "choices": ["rows", "columns"], "value": state.tokens_as}
        yield {"name": "tokens_as", **choice}


def controls(mechanism: Mechanism, values: Any, trace: Trace | None = None) -> Iterator[dict[str, Any]]:
    hints = mechanism.option_types
    texts = trace.option_texts() if trace else {}
    for name, parameter in mechanism.options.items():
        marks = str(getattr(hints[name], "__metadata__", "")) + str(hints[name])
        default = "" if parameter.default in (parameter.empty, None) else str(parameter.default)
        control = {"name": name, "value": str(values.get(name, default)), "text": texts.get(name, default)}
        if choices := literal_choices(hints[name]):
            none = [] if control["value"] in choices and parameter.default is not None else ["none"]
            yield {**control, "kind": "choice", "choices": [*none, *map(str, choices)]}
        elif "mask" in marks:
            yield {**control, "kind": "choice", "choices": ["none", "causal", "matrix"]}
        elif name == "beta":
            stops, at = _slider_stops(str(values.get(name) or _default_beta(trace)))
            labels = list(map(with_infinity, stops))
            yield {**control, "kind": "slider", "stops": stops, "labels": labels, "at": at}
        else:
            yield {**control, "kind": "number"}


def _default_beta(trace: Trace | None) -> str:
    """1/sqrt(d_k), as it can be typed."""
    key = None if trace is None else next((v for v in trace.steps.values() if v.path.endswith("key")), None)
    key = key or (trace.inputs.get("key") if trace else None)
    return f"1/sqrt({key.shape[-1]})" if key is not None and key.shape else "1"


def _slider_stops(value: str) -> tuple[list[str], int]:
    """The stops of the slider with what was typed among them, and where that is.

    >>> _slider_stops("0.25")[0][:5], _slider_stops("oo")[1]
    (['0', '0.1', '0.2', '0.25', '0.3'], 24)
    """
    stops = list(BETAS)
    if value in stops:
        return stops, stops.index(value)
    try:
        number = read_number(value, exact=False)
    except SymbolInDecimals:
        return stops, stops.index("1")
    below = sum(1 for stop in stops if read_number(stop, exact=False) < number)
    return [*stops[:below], value, *stops[below:]], below
