"""A case: one mechanism with its numbers, run as it is, from a person's own steps, or bent into a mistake.

All three are the same run with another note. ``swaps`` puts a person's own values in place of some steps;
a ``Bend`` changes what goes in, or what one step gives. What was swapped is never bent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import InputError
from headwork.note import Mechanism
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLACK = 0.05  # for what is not linear in the effect of rounding
Array = Any  # numpy array of float64
Steps = dict[str, "NDArray[Any]"]


class Inapplicable(Exception):
    """A bend asked for something that this case does not have."""


class Seen:
    """What a bend may look at: inputs, options and the steps noted so far, by name, as arrays.

    ``now`` is the step that is about to be noted. A step is looked for in its own scope first.
    """

    def __init__(
        self, inputs: Mapping[str, Any], kept: Mapping[str, Any], path: str = "", now: Any = None
    ) -> None:
        self._inputs, self._kept, self.path, self.now = inputs, kept, path, now

    def __getattr__(self, name: str) -> Any:
        scope = self.path.rpartition("/")[0]
        for step in (name, name.replace("_", " ")):
            for path in (f"{scope}/{step}", step):
                if path in self._kept:
                    return self._kept[path]
        if name in self._inputs:
            value = self._inputs[name]
            return value.array if isinstance(value, HandTensor) else value
        raise Inapplicable(name)

    def has(self, name: str) -> bool:
        """Whether an input or option was given at all."""
        return self._inputs.get(name) is not None


@dataclass(frozen=True)
class Bend:
    """A change to a run: ``inputs`` returns changed inputs or options, ``steps`` the bent value of a step.

    A step is named by its path or by the last part of it; ``*`` is any step. None means "not here".
    """

    inputs: Callable[[Seen], Mapping[str, Any] | None] | None = None
    steps: Mapping[str, Callable[[Seen], Any]] = field(default_factory=dict)

    def at(self, path: str) -> Callable[[Seen], Any] | None:
        return self.steps.get(path) or self.steps.get(path.rpartition("/")[2]) or self.steps.get("*")


@dataclass(frozen=True)
class Case:
    """A mechanism with its inputs and options, ready to run."""

    mechanism: Mechanism
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]

    def run(self, swaps: Mapping[str, Array] | None = None, bends: Sequence[Bend] = ()) -> Steps:
        """Every step as an array of decimals."""
        kept: Steps = {}
        swaps = swaps or {}
        inputs, options = dict(self.inputs), dict(self.options)
        for bend in bends:
            if bend.inputs:
                changed = bend.inputs(Seen({**inputs, **options}, {}))
                if changed is None:
                    raise Inapplicable
                for name, value in changed.items():
                    place = inputs if name in self.inputs else options
                    place[name] = _like(place.get(name), value)
        everything = {**inputs, **options}

        def note(name: str, value: Any, /) -> Any:
            array = _array(value)
            for bend in bends:
                if name not in swaps and (change := bend.at(name)):
                    new = change(Seen(everything, kept, name, array))
                    if new is None:
                        raise Inapplicable
                    array = np.asarray(new, float)
            if name in swaps:
                array = swaps[name]
            kept[name] = array
            # A value of another shape is kept as it is, but nothing can be worked out from it.
            return value if array.shape != _array(value).shape else _like(value, array)

        try:
            with np.errstate(all="ignore"):
                self.mechanism.function(**inputs, **options, note=note)
        except (InputError, ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
            if not bends and not swaps:
                raise
            raise Inapplicable(str(error)) from None
        return kept


def spread(
    case: Case, own: Mapping[str, Array], halves: Mapping[str, Array], path: str, bends: Sequence[Bend] = ()
) -> Array:
    """What half a unit of the last digit of every own earlier number may do to each entry of a step."""
    centre = case.run(own, bends)[path]
    total = np.zeros_like(centre)
    for step, sizes in halves.items():
        for place in map(tuple, np.argwhere(sizes > 0)):
            ends = []
            for sign in (1, -1):
                moved = own[step].copy()
                moved[place] += sign * sizes[place]
                ends.append(np.abs(case.run({**own, step: moved}, bends)[path] - centre))
            total = total + np.nan_to_num(np.maximum(*ends), nan=0.0, posinf=0.0)
    return total * (1 + SLACK)


def _array(value: Any) -> NDArray[Any]:
    return value.array if isinstance(value, HandTensor) else np.asarray(value, float)


def _like(old: Any, new: Any) -> Any:
    """A new value of the kind that the old one was."""
    if new is None or isinstance(new, (str, HandTensor)):
        return new
    array = np.asarray(new, float)
    if isinstance(old, HandTensor) or ((old is None or isinstance(old, str)) and array.ndim):
        return HandTensor(array)
    if isinstance(old, int) and array == int(array):
        return int(array)
    return array if array.ndim else float(array)
