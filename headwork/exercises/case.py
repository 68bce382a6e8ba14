"""A case: one mechanism with its numbers, run as it is, from a student's own steps, or with a mistake.

All three are the same run with another note. ``replacing`` puts a student's own values in place of some
steps; an ``Edit`` changes the inputs, or the value of one step. A replaced step is never edited.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import InputError
from headwork.note import Mechanism
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The numbers do not go together.
FAILED = (InputError, ValueError, IndexError, ZeroDivisionError, OverflowError)
SLACK = 0.05  # for what is not linear in the effect of rounding
Array = Any  # numpy array of float64
Steps = dict[str, "NDArray[Any]"]


class NotApplicable(Exception):
    """An edit asked for something that this case does not have."""


class RunView:
    """What an edit may read: inputs, options and the steps recorded so far, by name, as arrays.

    ``current`` is the value of the step at ``path``. A step is looked up in its own scope first.
    """

    def __init__(
        self, inputs: Mapping[str, Any], recorded: Mapping[str, Any], path: str = "", current: Any = None
    ) -> None:
        self._inputs, self.recorded, self.path, self.current = inputs, recorded, path, current

    def _path_of(self, name: str) -> str | None:
        scope = self.path.rpartition("/")[0]
        steps = (name, name.replace("_", " "))
        paths = (path for step in steps for path in (f"{scope}/{step}", step))
        return next((path for path in paths if path in self.recorded), None)

    def __getattr__(self, name: str) -> Any:
        path = self._path_of(name)
        if path is not None:
            return self.recorded[path]
        if name not in self._inputs:
            raise NotApplicable(name)
        value = self._inputs[name]
        return value.array if isinstance(value, HandTensor) else value

    def has(self, name: str) -> bool:
        """Whether the problem has that input or option."""
        return self._inputs.get(name) is not None

    @property
    def time_step(self) -> int:
        """The number in a path such as ``step 2/state``."""
        return int(self.path.split("/")[0].removeprefix("step "))

    def has_step(self, name: str) -> bool:
        """Whether that step has been recorded."""
        return self._path_of(name) is not None


@dataclass(frozen=True)
class Edit:
    """A change to a run: ``change_inputs`` returns inputs or options, ``change_steps`` the value of a step.

    A step is named by its path or by the last part of it; ``*`` is any step. None means "not applicable".
    """

    change_inputs: Callable[[RunView], Mapping[str, Any] | None] | None = None
    change_steps: Mapping[str, Callable[[RunView], Any]] = field(default_factory=dict)

    def change_at(self, path: str) -> Callable[[RunView], Any] | None:
        names = (path, path.rpartition("/")[2], "*")
        return next((self.change_steps[name] for name in names if name in self.change_steps), None)


@dataclass(frozen=True)
class Case:
    """A mechanism with its inputs and options, ready to run."""

    mechanism: Mechanism
    inputs: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def counts_sizes(self) -> bool:
        """Whether all inputs are whole numbers that count or measure something; then so are the steps."""
        return all(isinstance(value, int) for value in self.inputs.values())

    def run(
        self,
        replacing: Mapping[str, Array] | None = None,
        edits: Sequence[Edit] = (),
        allow_new_shapes: bool = True,
    ) -> Steps:
        """Every step as an array of decimals.

        A replaced step may have another shape: later steps continue from it if they can run. After an edit
        that changes a shape they continue from the original value.
        """
        recorded: Steps = {}
        replacing = replacing or {}
        inputs, options = dict(self.inputs), dict(self.options)
        for edit in edits:
            if edit.change_inputs:
                changed = edit.change_inputs(RunView({**inputs, **options}, {}))
                if changed is None:
                    raise NotApplicable
                for name, value in changed.items():
                    target = inputs if name in self.inputs else options
                    target[name] = _like(target.get(name), value)
        everything = {**inputs, **options}

        def note(name: str, value: Any, /) -> Any:
            array = _array(value)
            for edit in edits:
                if name not in replacing and (change := edit.change_at(name)):
                    array = _changed(change, RunView(everything, recorded, name, array))
            if name in replacing:
                array = replacing[name]
            recorded[name] = array
            continues = array.shape == _array(value).shape or (allow_new_shapes and name in replacing)
            return _like(value, array) if continues else value

        try:
            with np.errstate(all="ignore"):
                self.mechanism.run({**inputs, **options}, note)
        except FAILED as error:
            if not edits and not replacing:
                raise
            if allow_new_shapes and not edits:
                return self.run(replacing, allow_new_shapes=False)
            raise NotApplicable(str(error)) from None
        return recorded

    def edited_step(self, path: str, edit: Edit, right: Steps, replaced: Steps) -> Array | None:
        """A step with an edit, of the right steps and those replaced; None where the edit does not reach it.

        Only this step is worked out if the edit changes nothing before it.
        """
        reached = list(right)[: list(right).index(path) + 1]
        changed = [step for step in reached if step not in replaced and edit.change_at(step)]
        if edit.change_inputs or changed not in ([], [path]):
            return self.run(replaced, [edit]).get(path)
        change = edit.change_at(path)
        if not changed or change is None:
            return None
        before = {step: right[step] for step in reached[:-1]}
        try:
            with np.errstate(all="ignore"):
                return _changed(change, RunView({**self.inputs, **self.options}, before, path, right[path]))
        except FAILED as error:
            raise NotApplicable(str(error)) from None

    def propagated_error(
        self, steps: Steps, half_units: Steps, path: str, edits: Sequence[Edit] = ()
    ) -> Array:
        """How far an error of half a unit in every earlier number may move each entry of a step."""
        centre = self.run(steps, edits)[path]
        total = np.zeros_like(centre)
        for step, sizes in half_units.items():
            for index in map(tuple, np.argwhere(sizes > 0)):
                ends = []
                for sign in (1, -1):
                    moved = steps[step].copy()
                    moved[index] += sign * sizes[index]
                    ends.append(np.abs(self.run({**steps, step: moved}, edits)[path] - centre))
                total = total + np.nan_to_num(np.maximum(*ends), nan=0.0, posinf=0.0)
        return total * (1 + SLACK)


def _changed(change: Callable[[RunView], Any], run: RunView) -> Array:
    new = change(run)
    if new is None:
        raise NotApplicable
    return np.asarray(new, float)


def _array(value: Any) -> "NDArray[Any]":
    return value.array if isinstance(value, HandTensor) else np.asarray(value, float)


def _like(old: Any, new: Any) -> Any:
    """A new value of the type that the old one had."""
    if new is None or isinstance(new, (str, HandTensor)):
        return new
    array = np.asarray(new, float)
    if isinstance(old, HandTensor) or ((old is None or isinstance(old, str)) and array.ndim):
        return HandTensor(array)
    if isinstance(old, int) and array == int(array):
        return int(array)
    return array if array.ndim else float(array)
