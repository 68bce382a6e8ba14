"""A trace for a reader who can run code: the same problem, and each array as it can be typed."""

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.documents import Block, Code
from headwork.note import MECHANISMS
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from headwork.readings.trace import Trace

MAX_LINE_LENGTH = 88


def notebook_cells(trace: "Trace") -> Iterator[Block]:
    """The problem worked again, and how a cell of its output comes about."""
    replaced = {path: array_text(trace[path].tensor.array) for path in trace.replaced}
    yield Code(_problem_code(trace, replaced), (trace,))
    path, index = trace.output.path, [size - 1 for size in trace.output.shape]
    call = ", ".join([_literal(path), *map(str, index)])
    yield Code(f"print(trace.cell({call}))", (f"{trace.cell(path, *index)}\n",))


# --- the problem, typed in again -----------------------------------------------------------------
def _problem_code(trace: "Trace", replaced: dict[str, str]) -> str:
    """Code that works the same problem again."""
    mechanism, settings, given = trace.rerun.args  # type: ignore[union-attr]
    arguments = {name: _as_typed(trace, name, value) for name, value in given.items() if value is not None}
    used = {"exact": trace.exact, "tokens_as": settings["tokens_as"], "digits": trace.digits}
    defaults = {"exact": False, "tokens_as": "rows", "digits": 4}
    more = "".join(f", {name}={_literal(value)}" for name, value in used.items() if value != defaults[name])
    lines = ["import headwork", "", f"problem = {call_text('dict', arguments)}"]
    if replaced:
        pairs = ", ".join(f"{_literal(path)}: {_literal(text)}" for path, text in replaced.items())
        lines.append(f"replacing = {{{pairs}}}")
        more += ", replacing=replacing"
    limit = trace.limited
    limit_call = f".limit({', '.join(map(_literal, limit))})" if limit else ""
    lines.append(f"trace = headwork.explain({_literal(mechanism)}, **problem{more}){limit_call}")
    if not (trace.warnings or limit) and trace.rerun and trace.rerun(replacing=replaced).warnings:
        lines.append("trace.warnings.clear()")
    return "\n".join([*lines, "trace"])


def has_problem_code(trace: "Trace") -> bool:
    """Whether the trace holds its problem, so that there is code for it; that of a model does not."""
    return trace.rerun is not None and trace.mechanism.slug in MECHANISMS


def _as_typed(trace: "Trace", name: str, value: Any) -> Any:
    """A value as it was typed, or as it can be typed."""
    if isinstance(value, (str, int)):
        return value
    if name in trace.inputs:
        return array_text(trace.inputs[name].tensor.array)
    option = trace.options[name]
    return array_text(option.array if isinstance(option, HandTensor) else np.asarray(option))


def array_text(array: Any) -> str:
    """Numbers in the form in which they are typed; exact ones stay exact.

    >>> array_text(np.array([[1.0, 0.5], [2.0, 1e-9]])), array_text(np.array([[1.0, 2.0]]))
    ('1 0.5; 2 1e-09', '[[1, 2]]')
    """
    if array.ndim == 2 and array.shape[0] > 1:
        rows = [" ".join(map(_number, row)) for row in array]
        one_line = "; ".join(rows)
        return one_line if len(one_line) <= MAX_LINE_LENGTH else "\n".join(rows)
    if array.ndim == 1 and array.shape[0] > 1:
        return " ".join(map(_number, array))
    return _nested(array)


def _nested(array: Any) -> str:
    if array.ndim == 0:
        return _number(array[()])
    return f"[{', '.join(_nested(np.asarray(part)) for part in array)}]"


def _number(value: Any) -> str:
    if hasattr(value, "free_symbols"):
        from headwork.numbers.exact import exact_text

        return exact_text(value).replace(" ", "")  # spaces stand between entries
    number = float(value)
    if math.isinf(number):
        return "oo" if number > 0 else "-oo"
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """A call on one line, or one argument per line where that is too long."""
    parts = [f"{argument}={_literal(value)}" for argument, value in arguments.items()]
    one_line = f"{name}({', '.join(parts)})"
    if len(one_line) <= MAX_LINE_LENGTH:
        return one_line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _literal(value: Any) -> str:
    if isinstance(value, str) and "\n" in value and not set(value) & set('"\\'):
        return f'"""\n{value}\n"""'
    # A string in JSON is also one in Python, with the quotation marks that we use.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
