"""A trace as JSON that any program can read: minus infinity is a string, a symbolic entry is null."""

import json
import math
from typing import Any

from headwork.readings.terminal import exact_texts, option_texts
from headwork.readings.trace import Trace, TraceValue


def json_text(trace: Trace) -> str:
    """The whole trace as JSON text."""
    return json.dumps(as_data(trace), ensure_ascii=False, allow_nan=False) + "\n"


def as_data(trace: Trace) -> dict[str, Any]:
    """The whole trace as plain lists, numbers and strings."""
    return {
        "mechanism": trace.mechanism.slug,
        **({"title": _as_typed(trace.title)} if trace.title else {}),
        "inputs": {name: _entry(value) for name, value in trace.inputs.items()},
        "options": {name: _as_typed(value) for name, value in option_texts(trace).items()},
        "steps": [{"path": path, **_entry(value)} for path, value in trace.steps.items()],
        "output": trace.output.path,
        "warnings": trace.warnings,
    }


def _entry(value: TraceValue) -> dict[str, Any]:
    entry: dict[str, Any] = {"symbol": value.symbol}
    if value.formula:
        entry["formula"] = value.formula
    entry |= {"axes": list(value.axes), "shape": list(value.shape), "values": plain(value.values.tolist())}
    if (exact := value.exact) is not None:
        entry["exact"] = exact_texts(exact).tolist()
    return entry


def _as_typed(text: str) -> str:
    return text.replace("∞", "oo")


def plain(nested: Any) -> Any:
    """Nested lists of numbers with what JSON cannot hold as strings.

    >>> plain([1.0, -math.inf, math.nan])
    [1.0, '-inf', 'nan']
    """
    if isinstance(nested, list):
        return [plain(part) for part in nested]
    if isinstance(nested, float) and not math.isfinite(nested):
        return "nan" if math.isnan(nested) else "inf" if nested > 0 else "-inf"
    return nested
