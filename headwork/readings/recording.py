"""The notes that do something: one keeps every value, one swaps a value, one names what is too long."""

from collections.abc import Mapping
from math import prod
from typing import Any

from headwork.errors import HeadworkError, InputError, format_shape
from headwork.note import Note
from headwork.numbers import HandTensor
from headwork.numbers.operations import map_cells


def recorder(recorded: dict[str, Any]) -> Note:
    """A note that keeps every value under its path. A hand tensor goes on as a labelled one, so that the
    account of a later cell stops here.

    >>> kept = {}
    >>> recorder(kept)("scores", 3), kept
    (3, {'scores': 3})
    """

    def record(name: str, value: Any, /) -> Any:
        if name in recorded:
            raise HeadworkError(f"the step '{name}' was noted twice: give the second a scope of its own.")
        recorded[name] = value
        return value.labelled(name) if isinstance(value, HandTensor) else value

    return record


def name_long_numbers(note: Note, abbreviations: dict[str, tuple[Any, ...]]) -> Note:
    """A note that gives names to exact cells that are too long, and lists those that each step brings."""
    from headwork.numbers.naming import NumberNames

    names = NumberNames()

    def shorten(name: str, value: Any, /) -> Any:
        before = len(names.by_definition)
        value = HandTensor(map_cells(names.shorten, value.array), value.node)
        abbreviations[name] = tuple(names.by_definition.values())[before:]
        return note(name, value)

    return shorten


def replacer(note: Note, new_values: Mapping[str, Any]) -> Note:
    """A note that swaps the values of some steps before they go on.

    >>> kept = {}
    >>> replacer(recorder(kept), {"scores": 5})("scores", 3)
    5
    """

    def replace(name: str, value: Any, /) -> Any:
        if name not in new_values:
            return note(name, value)
        new = new_values[name]
        shape = getattr(value, "shape", ())
        if getattr(new, "shape", None) == () and shape and prod(shape) == 1:
            new = new.reshape(*shape)  # a single number, typed without brackets
        if getattr(new, "shape", ()) != shape:
            raise InputError(
                f"{name}: the new value is {format_shape(new.shape, '')}, the step is "
                f"{format_shape(shape, '')}. Give a value of the same shape."
            )
        return note(name, new)

    return replace
