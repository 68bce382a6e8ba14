"""What is seen now, in plain words: of the whole canvas, and of one cell."""

from typing import Any

import numpy as np

from headwork.lab.states import MASKS, SolvedState
from headwork.readings import Trace, TraceValue

ROUNDING = 1e-9  # weights closer than this are called even
PROJECTED = ("query", "key", "value")


def describe_state(solved: SolvedState) -> str:
    """One line about the whole: of attention, where the weight goes."""
    trace = solved.trace
    weights = _first_weights(trace)
    if weights is None:
        return trace.mechanism.about
    value, rows = weights
    query, key = _token_words(trace, value)
    beta = str(trace.options.get("beta"))
    if beta in ("0", "0.0"):
        evenly = f"each {query} spreads its weight evenly"
        return f"At β = 0 every score is 0: {evenly}, so all outputs are one mean."
    clauses = _row_clauses(rows, query, key)
    head = f"In head 0: {clauses[0]}" if len(value.shape) == 3 else clauses[0]
    more = next((clause for clause in clauses[1:] if "evenly" in clause), "")
    text = head if not more or more == clauses[0] else f"{head}; {more}"
    ending = " β = ∞: only the best score counts." if beta in ("inf", "oo") else ""
    return f"{text[0].upper()}{text[1:]}.{ending}"


def _first_weights(trace: Trace) -> tuple[TraceValue, Any] | None:
    """The weights of the first attention, and the rows of its first head, where they are numbers."""
    for value in trace.steps.values():
        if (
            value.path.rpartition("/")[2] == "weights"
            and value.axes[-1:] == ("key",)
            and len(value.shape) > 1
        ):
            rows = np.array(value.values)
            while rows.ndim > 2:
                rows = rows[0]
            return None if rows.dtype == object or not np.isfinite(rows).all() else (value, rows)
    return None


def _token_words(trace: Trace, value: TraceValue) -> tuple[str, str]:
    """What attends and what is attended to."""
    tokens = "tokens" in trace.inputs
    memory = "memory" in trace.inputs and "cross" not in value.path
    return ("token", "memory" if memory else "token") if tokens else ("query", "key")


def _row_clauses(rows: Any, query: str, key: str) -> list[str]:
    clauses = []
    for i, row in enumerate(rows):
        best = int(np.argmax(row))
        tied = [j for j in range(len(row)) if row[j] >= row[best] - ROUNDING]
        if len(tied) == len(row) > 1:
            clauses.append(f"{query} {i} spreads its weight evenly over all {len(row)}")
        elif len(tied) > 1:
            names = " and ".join(f"{key} {j}" for j in tied)
            clauses.append(f"{query} {i} gives {share_text(row[best])} of its weight to each of {names}")
        else:
            to = "itself" if key == query and best == i else f"{key} {best}"
            clauses.append(f"{query} {i} gives {share_text(row[best])} of its weight to {to}")
    return clauses


def share_text(weight: float) -> str:
    """A weight in percent, never rounded to all or nothing.

    >>> share_text(0.5344), share_text(0.9999), share_text(1.0), share_text(0.0004)
    ('53%', 'over 99%', 'all', 'under 1%')
    """
    percent = round(100 * weight)
    if weight >= 1 - ROUNDING:
        return "all"
    if percent >= 100:
        return "over 99%"
    return "none" if weight < ROUNDING else f"{percent}%" if percent else "under 1%"


def describe_cell(solved: SolvedState, path: str, index: tuple[int, ...]) -> str:
    """One cell in words."""
    trace = solved.trace
    value = trace[path]
    if ",".join(map(str, index)) in solved.state.edits.get(path, {}):
        was = solved.before[path].cell(path, *index)
        return f"You set this cell. Worked out, it would be {was.exact or was.decimal}."
    name = path.rpartition("/")[2]
    cell = dict(zip(value.axes, index, strict=True))
    query, key = _token_words(trace, value)
    if name in MASKS and "key" in cell:
        return f"1: {query} {cell['query']} may attend to {key} {cell['key']}. 0: it may not."
    if path in trace.inputs:
        return "An input: type another number, and all that depends on it follows."
    head = f"In head {cell['head']}: " if "head" in cell else ""
    if name == "weights" and {"query", "key"} <= set(cell):
        number = value.values[index]
        finite = number is not None and np.isfinite(number)
        part = f"{share_text(number)} of its weight" if finite else "weight"
        gives = f"{head}{query} {cell['query']} gives {part} to {key} {cell['key']}"
        if str(trace.options.get("beta")) in ("inf", "oo"):
            return f"{gives}: at β = ∞ the largest score of a row takes all, ties share."
        if "linear" in trace.mechanism.slug:
            return f"{gives}: this score, over the sum of its row."
        return f"{gives}: e to the power of this score, over the sum of its row."
    if name == "scores" and {"query", "key"} <= set(cell):
        return (
            f"{head}how well the query of {query} {cell['query']} fits the key of {key} {cell['key']}: "
            "their dot product, times β."
        )
    if name == "masked" and {"query", "key"} <= set(cell):
        if value.values[index] == -np.inf:
            hides = f"hides {key} {cell['key']} from {query} {cell['query']}"
            return f"{head}the mask {hides}: no weight goes there."
        return f"{head}{query} {cell['query']} may attend to {key} {cell['key']}: the score stays as it is."
    if name == "output" and _first_weights(trace) is not None and "query" in cell:
        return f"The mean of the values, weighted by what {query} {cell['query']} gives to each {key}."
    if name in PROJECTED and "tokens" in trace.inputs and f"W_{name[0]}" in trace.inputs:
        first = next(iter(cell.values()))
        return f"A number of the {name} of token {first}: the token times a row of W_{name[0]}."
    where = ", ".join(f"{axis.replace('_', ' ')} {i}" for axis, i in cell.items())
    return f"{name}{f' at {where}' if where else ''}: the lit cells, put into the formula above."
