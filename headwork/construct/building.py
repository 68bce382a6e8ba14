"""``headwork.build``: a target in, heads with a certificate out."""

import inspect
import math
from typing import Any

import numpy as np

from headwork.construct import position_codes as codes
from headwork.construct import proofs
from headwork.construct.construction import Construction
from headwork.construct.copying import copy
from headwork.construct.planning import TOLERANCE, Plan
from headwork.construct.targets import TARGETS, Impossible, NotFound, whole_number
from headwork.documents import Document, Item, Items
from headwork.errors import InputError, unknown


def build(
    target: str,
    /,
    *,
    tolerance: float | None = None,
    positions: str = "one-hot",
    norm: float = 1.0,
    width: int = 2,
    heads: int | None = None,
    position_width: int | None = None,
    delta: float = 0.1,
    **details: Any,
) -> Construction:
    """Heads for a target, with the proof of how well they do; or a proof that none can; or what was searched.

    ``details`` are the target's own: tokens, order, by, ends, window, causal, taps, kernel, grid, matrix,
    head_width. ``norm`` bounds the content rows, ``width`` is their width, ``heads`` the most that may be
    used.

    >>> swap = build("permutation", order="2 1", tolerance=0.1)
    >>> swap.beta_exact, round(swap.beta, 3), swap.holds
    ('ln(19)', 2.944, True)
    """
    name = target.replace("_", "-")
    tolerance = None if tolerance is None else _positive(tolerance, "tolerance")
    norm, delta = _positive(norm, "norm"), _positive(delta, "delta")
    if name == "copy":
        _check_details(name, copy, details)
        return copy(tolerance=TOLERANCE if tolerance is None else tolerance, **details)
    if name not in TARGETS:
        raise unknown("target", target, [*TARGETS, "copy"])
    _check_details(name, TARGETS[name], details)
    if name != "matrix":
        tolerance = TOLERANCE if tolerance is None else tolerance
    width = whole_number(width, "width", 1, 1024)
    heads = None if heads is None else whole_number(heads, "heads", 1, 512)
    code_width = codes.DEFAULT_WIDTH if position_width is None else position_width
    code_width = whole_number(code_width, "position_width", 2, 1024)
    goal = TARGETS[name](**details)
    try:
        if name == "matrix":
            goal = proofs.weights_of_one_head(goal, tolerance, norm)
        plan = Plan(goal, positions, norm, width, code_width, tolerance, heads)
        proofs.check(goal, positions, plan.allowed, norm, width, heads)
        return plan.construct(delta)
    except Impossible as proof:
        return Construction(False, name, reason=str(proof), tolerance=tolerance, norm=norm)
    except NotFound as reason:
        return Construction(None, name, reason=str(reason), tolerance=tolerance, norm=norm)


def target_list() -> Document:
    """Every target with its inputs.

    >>> print(target_list().to_text().splitlines()[2])
      identity        Every token keeps its own content: y_i = x_i. [tokens, grid]
    """
    functions: dict[str, Any] = {**TARGETS, "copy": copy}
    items = (
        Item(f"{(inspect.getdoc(function) or '').splitlines()[0]} [{', '.join(_inputs(function))}]", name)
        for name, function in functions.items()
    )
    return Document("Targets", (Items(tuple(items)),))


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}. Expected a positive number.")
    return float(value)


def _inputs(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "tolerance"]


def _check_details(target: str, function: Any, details: dict[str, Any]) -> None:
    for name in details:
        if name not in _inputs(function):
            raise unknown(f"input of {target}", name, _inputs(function))
