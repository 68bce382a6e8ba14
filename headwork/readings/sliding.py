"""A slider: one problem worked for several values of one option or symbol, all frames in one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headwork.errors import InputError
from headwork.note import Mechanism, card
from headwork.numbers.hand import map_cells
from headwork.numbers.typed import read_number, read_tensor
from headwork.readings.explaining import explain
from headwork.readings.html import html
from headwork.readings.trace import Trace

# Where no values are listed: beta from the plain mean to hard attention, a symbol on both sides of zero.
USUAL = {
    "beta": ["0", "0.1", "0.2", "0.5", "1", "2", "5", "10", "oo"],
    "epsilon": ["0", "0.001", "0.01", "0.1", "0.5", "1", "2", "5"],
}
AROUND_ZERO = ["-5", "-2", "-1", "-0.5", "0", "0.5", "1", "2", "5"]
MOST_FRAMES = 40


def slide_frames(mechanism: str, slide: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """A page with a slider. ``slide`` is a name, or a name with its values: ``beta=0,1,oo``.

    >>> slide_frames("softmax", "x=0,1", {"exact": True}, {"scores": "0 x"}).count('type="range"')
    1
    """
    what = card(mechanism)
    name, _, listed = (part.strip() for part in slide.partition("="))
    if name in what.options:
        usual = USUAL.get(name, [])
        at: Callable[[str], Trace] = partial(_with_option, what.slug, name, {**settings, **given})
    else:
        usual = AROUND_ZERO
        at = _substituting(what, name, {**settings, **given})
    frames = _frames(name, _values(name, listed) if listed else usual, at, keep_all=bool(listed))
    labels = list(frames)
    wanted = [label for label in (str(given.get(name)), "1") if label in labels]
    return html(list(frames.values()), labels, name=name, start=labels.index(wanted[0]) if wanted else 0)


def _values(name: str, listed: str) -> list[str]:
    values = list(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
    if not 2 <= len(values) <= MOST_FRAMES:
        raise InputError(
            f"slide: {len(values)} value{'' if len(values) == 1 else 's'} of {name}. Give 2 to {MOST_FRAMES}, with "
            f"commas between them: {name}=0,1,2."
        )
    return values


def _frames(name: str, values: list[str], at: Callable[[str], Trace], *, keep_all: bool) -> dict[str, Trace]:
    """One trace a value. A usual value that this problem does not allow is left out, and the page says so."""
    if not values:
        raise InputError(f"slide: which values of {name}? List them: --slide {name}=1,2,3.")
    frames: dict[str, Trace] = {}
    failed: dict[str, InputError] = {}
    for value in values:
        try:
            frames[value] = at(value)
        except InputError as error:
            failed[value] = error
            if keep_all or len(failed) == len(values):
                raise
    for value, reason in failed.items():
        for trace in frames.values():
            trace.warnings.append(f"{name} = {value} is left out: {reason}")
    return frames


def _with_option(slug: str, name: str, given: Mapping[str, Any], value: str) -> Trace:
    return explain(slug, **{**given, name: value})


def _substituting(what: Mechanism, name: str, given: Mapping[str, Any]) -> Callable[[str], Trace]:
    """The problem with a value in place of a symbol among its inputs and options."""
    symbolic = {}
    for one in [c.name for c in what.inputs] + [
        n for n, kind in what.option_types().items() if _is_number(kind)
    ]:
        if given.get(one) is not None:
            array = read_tensor(given[one], exact=True, where=one).array
            if any(x.free_symbols for x in array.flat):
                symbolic[one] = array
    symbols = {str(s): s for array in symbolic.values() for x in array.flat for s in x.free_symbols}
    if name not in symbols:
        found = ", ".join(sorted(symbols)) or "there are none"
        raise InputError(
            f"slide: '{name}' is neither an option of {what.slug} ({', '.join(what.options) or 'it has none'}) nor a "
            f"symbol among the inputs ({found}). Slide one of these, or type {name} in place of a number."
        )
    symbol = symbols[name]

    def at(value: str) -> Trace:
        number = read_number(value, exact=True)
        if number.is_infinite:
            return explain(what.slug, **given).limit(name, value)
        put = {
            one: map_cells(lambda x: x.xreplace({symbol: number}), array) for one, array in symbolic.items()
        }
        return explain(what.slug, **{**given, **put})

    return at


def _is_number(kind: Any) -> bool:
    return "number" in getattr(kind, "__metadata__", ())
