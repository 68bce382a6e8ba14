"""``headwork.explain``: a mechanism's name and a person's numbers in, a ``Trace`` out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args, get_origin

import numpy as np

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork.errors import InputError, TooLarge, sizes_in_words, unknown
from headwork.note import Input, Mechanism, Step, card, silent
from headwork.numbers import HandTensor, ShapeTensor, Work
from headwork.numbers.typed import SymbolFound, nested_array, read_array
from headwork.pages.formulas import formula_for
from headwork.readings.cautions import cautions
from headwork.readings.recording import recorder, replacer
from headwork.readings.trace import TOKEN_AXES, Trace, TraceValue

MOST_EXACT_OPERATIONS = 8_000
MOST_DECIMAL_OPERATIONS = 200_000_000


def explain(
    mechanism: str,
    /,
    *,
    exact: bool = False,
    tokens_as: Literal["rows", "columns"] = "rows",
    digits: int = 4,
    replacing: Mapping[str, Any] | None = None,
    **given: Any,
) -> Trace:
    """Work a problem step by step.

    Numbers may be typed text (``"1 2; 2 0"``), nested lists or arrays. ``exact=True`` keeps fractions,
    roots, e and pi; free symbols such as ``beta`` do so by themselves.

    >>> trace = explain("self-attention", tokens="1 2; 2 0", beta=1, exact=True)
    >>> print(trace.cell("scores", 0, 1))
    S[0,1] = 1*2 + 2*0 = 2
    """
    what = card(mechanism)
    _check_names(what, given)
    if tokens_as not in ("rows", "columns"):
        raise unknown("tokens_as", tokens_as, ["rows", "columns"])
    again = partial(
        _again, mechanism, {"exact": exact, "tokens_as": tokens_as, "digits": digits}, dict(given)
    )
    try:
        return _worked(what, exact, tokens_as, digits, replacing or {}, given, again)
    except SymbolFound:
        return _worked(what, True, tokens_as, digits, replacing or {}, given, again)


def _again(mechanism: str, settings: dict[str, Any], given: dict[str, Any], **changes: Any) -> Trace:
    return explain(mechanism, **{**settings, **given, **changes})


def _worked(
    what: Mechanism,
    exact: bool,
    tokens_as: str,
    digits: int,
    replacing: Mapping[str, Any],
    given: Mapping[str, Any],
    again: Any,
) -> Trace:
    columns = tokens_as == "columns"
    inputs = {
        c.name: _array(given[c.name], exact, c.name) for c in what.inputs if given.get(c.name) is not None
    }
    rows = {c.name: _turned(inputs[c.name], c, columns) for c in what.inputs if c.name in inputs}
    options = {
        name: _option(what, name, given[name], exact) for name in what.options if given.get(name) is not None
    }
    _check_size(what, rows, options, exact)

    kept: dict[str, HandTensor] = {}
    note = recorder(kept)
    if replacing:
        known = {path: _array(value, exact, path) for path, value in replacing.items()}
        note = replacer(note, {path: _turned(v, what.step(path), columns) for path, v in known.items()})
    labelled = {name: tensor.labelled(name) for name, tensor in rows.items()}
    what.function(**labelled, **options, note=note)

    defaults = {name: p.default for name, p in what.options.items() if p.default is not p.empty}
    convention = {**defaults, **options}.get("convention", "W x")
    noted_inputs = {
        c.name: _noted(c.name, c, rows[c.name], columns, convention) for c in what.inputs if c.name in rows
    }
    missing = [c.name for c in what.inputs if c.name not in rows]
    steps = {
        path: _noted(path, what.step(path), value, columns, convention, missing)
        for path, value in kept.items()
    }
    trace = Trace(
        mechanism=what,
        inputs=noted_inputs,
        options=_told(what, options, rows),
        steps=steps,
        warnings=[],
        exact=exact,
        digits=digits,
        replaced=replacing,
        again=again,
    )
    trace.warnings.extend(cautions(trace, columns=columns))
    return trace


def _check_names(what: Mechanism, given: Mapping[str, Any]) -> None:
    known = [*(c.name for c in what.inputs), *what.options, "tokens_as"]
    for name in given:
        if name not in known:
            raise unknown(f"input of {what.slug}", name, known)
    missing = [name for name in what.required if given.get(name) is None]
    if missing:
        told = "; ".join(
            f"{c.name}: {c.axes.replace(' ', ' x ')}, {c.about}" for c in what.inputs if c.name in missing
        )
        raise InputError(
            f"{what.slug}: {' and '.join(missing)} missing. {told or 'Give a value with --set name=value.'}"
        )


def _array(value: Any, exact: bool, where: str) -> HandTensor:
    if isinstance(value, str):
        return read_array(value, exact=exact, where=where)
    if isinstance(value, HandTensor):
        value = value.array
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    try:
        return nested_array(value, exact=exact)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _token_axis(axes: str, count: int) -> int | None:
    """Which axis runs over tokens, where one does."""
    words = axes.split()
    for place, word in enumerate(words):
        if word in TOKEN_AXES or (word == "key" and place < len(words) - 1):
            return place + count - len(words)
    return None


def _turned(tensor: HandTensor, what: Input | Step, columns: bool) -> HandTensor:
    """Tokens typed as columns become rows inside; parameters stay as they are."""
    axis = _token_axis(what.axes, len(tensor.shape))
    if not columns or getattr(what, "trained", False) or axis is None or len(tensor.shape) < 2:
        return tensor
    return HandTensor(np.moveaxis(tensor.array, -1, axis))


def _noted(
    path: str,
    what: Input | Step,
    tensor: HandTensor,
    columns: bool,
    convention: str,
    missing: Sequence[str] = (),
) -> TraceValue:
    order = list(range(len(tensor.shape)))
    axis = _token_axis(what.axes, len(order))
    if columns and not getattr(what, "trained", False) and axis is not None and len(order) > 1:
        order.append(order.pop(axis))
    symbol, formula = what.symbol, ""
    if isinstance(what, Step):
        formula = formula_for(
            what.formula, what.columns, columns=columns, convention=convention, missing=missing
        )
        if path.startswith("step "):
            symbol = symbol.replace("_t", f"_{{{path.split('/')[0].removeprefix('step ')}}}")
    return TraceValue(path, what, tensor, tuple(order), symbol, formula)


def _option(what: Mechanism, name: str, value: Any, exact: bool) -> Any:
    kind = what.option_types()[name]
    where = f"{what.slug}: {name}"
    if get_origin(kind) is Literal or any(get_origin(k) is Literal for k in get_args(kind)):
        choices = [
            c for k in (kind, *get_args(kind)) for c in (get_args(k) if get_origin(k) is Literal else [])
        ]
        if value not in choices:
            raise unknown(f"{where}", value, choices)
        return value
    if "mask" in getattr(kind, "__metadata__", ()):
        return _mask(value, exact, where)
    if "number" in getattr(kind, "__metadata__", ()):
        tensor = _array(value, exact, where)
        if tensor.shape != ():
            raise InputError(f"{where} is {sizes_in_words(tensor.shape, '')}. Expected a single number.")
        number = tensor.array[()]
        if str(number) in ("oo", "inf"):
            return math.inf
        if str(number) in ("-oo", "-inf"):
            raise InputError(f"{where} is minus infinity. Expected a number, or oo.")
        return tensor.labelled(name)
    number = _array(value, False, where).array
    if number.shape != () or not np.isfinite(number) or number != int(number) or abs(number) > 10**9:
        raise InputError(f"{where} is {value}. Expected a whole number.")
    return int(number)


def _mask(value: Any, exact: bool, where: str) -> Any:
    if isinstance(value, str) and value.isalpha():
        if value != "causal":
            raise InputError(
                f"{where} is '{value}'. Expected causal, or a matrix of 1 (may look) and 0 (may not)."
            )
        return value
    tensor = _array(value, exact, where)
    if any(x not in (0, 1) for x in tensor.array.flat):
        raise InputError(
            f"{where} holds other numbers than 0 and 1. Give 1 where a query may look and 0 where not."
        )
    return tensor


def _told(what: Mechanism, options: Mapping[str, Any], rows: Mapping[str, HandTensor]) -> dict[str, Any]:
    """Every option as it took effect, defaults too."""
    told = {}
    for name, parameter in what.options.items():
        value = options.get(name, None if parameter.default is parameter.empty else parameter.default)
        told[name] = value.array[()] if isinstance(value, HandTensor) and value.shape == () else value
    return told


def _check_size(
    what: Mechanism, rows: Mapping[str, HandTensor], options: Mapping[str, Any], exact: bool
) -> None:
    """Run the body on shapes alone: sizes that do not fit, and work that is too large, show beforehand."""
    work = Work()
    shapes = {name: ShapeTensor(tensor.shape, work) for name, tensor in rows.items()}
    plain = {n: ShapeTensor(v.shape, work) if isinstance(v, HandTensor) else v for n, v in options.items()}
    try:
        what.function(**shapes, **plain, note=silent)
    except InputError:
        raise
    except (ValueError, IndexError) as error:
        cards = {c.name: c for c in what.inputs}
        told = "; ".join(f"{n} is {sizes_in_words(t.shape, cards[n].axes)}" for n, t in rows.items())
        needed = "; ".join(f"{n} is {cards[n].axes.replace(' ', ' x ')}" for n in rows)
        raise InputError(
            f"{what.slug}: the sizes do not fit together ({error}). Came: {told}. Expected: {needed}."
        ) from None
    done = work.products + work.others
    if exact and done > MOST_EXACT_OPERATIONS:
        raise TooLarge(
            f"{what.slug}: about {done:,} exact operations; at most {MOST_EXACT_OPERATIONS:,} are done. "
            "Leave out --exact to work in decimals, or take fewer or narrower tokens."
        )
    if done > MOST_DECIMAL_OPERATIONS:
        raise TooLarge(
            f"{what.slug}: about {done:,} operations; at most {MOST_DECIMAL_OPERATIONS:,} are done by hand. "
            "Take fewer or narrower tokens."
        )
