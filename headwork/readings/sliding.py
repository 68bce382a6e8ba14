"""A slider: one problem worked for several values of one option or symbol, all frames in one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwork.errors import InputError
from headwork.note import Mechanism, card
from headwork.numbers.hand import mapped
from headwork.numbers.typed import read_number
from headwork.readings.explaining import _array, explain
from headwork.readings.html import html
from headwork.readings.trace import Trace

# From none to hard attention, denser where the weights change fastest.
HARDNESS = ("0", "0.1", "0.2", "0.5", "1", "2", "5", "10", "oo")
AROUND_ZERO = ("-5", "-2", "-1", "-0.5", "0", "0.5", "1", "2", "5")
USUAL = {"beta": HARDNESS, "epsilon": ("0", "0.001", "0.01", "0.1", "0.5", "1", "2", "5")}
MOST_FRAMES = 40


def slide_frames(mechanism: str, slide: str, settings: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """A page with a slider. ``slide`` is a name, or a name with its values: ``beta=0,1,oo``.

    >>> page = slide_frames("softmax", "x=0,1", {"exact": True}, {"scores": "0 x"})
    >>> page.count('type="range"')
    1
    """
    what = card(mechanism)
    name, _, listed = (part.strip() for part in slide.partition("="))
    values = _values(name, listed) if listed else ()
    if name in what.options:
        values = values or USUAL.get(name, ())
        if not values:
            raise InputError(f"slide: which values of {name}? List them, such as --slide {name}=1,2,3.")
        frames = _frames({value: (lambda v=value: explain(what.slug, **{**settings, **given, name: v})) for value in values}, listed)
    else:
        symbolic = _symbolic(what, given)
        _check_symbol(what, name, symbolic)
        problem = Substitution(what.slug, name, settings, given, symbolic)
        frames = _frames({value: (lambda v=value: problem.at(v)) for value in values or AROUND_ZERO}, listed)
    labels = list(frames)
    return html(list(frames.values()), labels, name=name, start=_start(labels, given.get(name)))


def _values(name: str, listed: str) -> tuple[str, ...]:
    values = tuple(dict.fromkeys(value.strip() for value in listed.split(",") if value.strip()))
    if not 2 <= len(values) <= MOST_FRAMES:
        raise InputError(
            f"slide: {len(values)} values of {name}. Give 2 to {MOST_FRAMES}, with commas between them: {name}=0,1,2."
        )
    return values
