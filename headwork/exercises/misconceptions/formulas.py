"""What formulas give in a run: those of ``formulas.toml`` and of ``misconceptions.toml``."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions import attention_parts, formula_parts
from headwork.exercises.misconceptions.formula_reader import read_formula

FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "arange": np.arange,
    "ceil": np.ceil,
    "float": float,
    "len": len,
    "max": max,
    "root": np.sqrt,
    "where": np.where,
}
PARTS = {
    name: part
    for module in (attention_parts, formula_parts)
    for name, part in vars(module).items()
    if inspect.isfunction(part)
}
HEIGHTS, WIDTHS = ("down", "output height"), ("across", "output width")
SIDES = dict.fromkeys(HEIGHTS, "height") | dict.fromkeys(WIDTHS, "width")


class RunScope(dict[str, Any]):
    """The names in a formula: inputs, options and earlier steps of a run."""

    def __init__(self, run: RunView) -> None:
        super().__init__(run=run, shape=lambda *sizes: np.array(sizes, float))
        self.run = run

    def __missing__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name in PARTS and not self.run.has(name) and not self.run.has_step(name):
            return PARTS[name]
        if name == "length":  # of what a step counts along
            return getattr(self.run, SIDES.get(self.run.path, "size"))
        if name == "span" and not self.run.has_step("span"):
            return self["length"] + 2 * self["padding"] - self["kernel"]
        if name == "newest":
            return self["inputs"][self["time_step"]]
        if name == "old":
            before = self["time_step"] - 1
            return self.run.recorded[f"step {before}/state"] if before >= 0 else self["h_0"]
        if name in ("windows", "taps"):
            return windows_and_taps(self.run)[name == "taps"]
        if name == "exponents":
            return np.arange(len(self["inputs"]))[::-1]
        return getattr(self.run, name)


def windows_and_taps(run: RunView) -> tuple[Any, Any]:
    """The windows of a convolution, (output, channel, row, column), and the taps on one of them."""
    image, kernel = run.image if run.has("image") else run.signal, run.kernel
    rows = kernel.shape[-2] if run.has("image") else 1
    ends = (run.padding if rows > 1 else 0, run.padding)
    taps = kernel.reshape(-1, rows, kernel.shape[-1])
    image = image.reshape(len(taps), -1 if rows > 1 else 1, image.shape[-1])
    image = np.pad(image, ((0, 0), *((end, end) for end in ends)))
    windows = sliding_window_view(image, taps.shape[1:], (1, 2))[:, :: run.stride, :: run.stride]
    return np.moveaxis(windows, 0, 2).reshape(-1, *taps.shape), taps


def change(text: str) -> Callable[[RunView], Any]:
    """What a formula gives in a run; it is read when it is first needed."""
    formula = cache(lambda: read_formula(text))
    return lambda run: formula()(RunScope(run))


def change_inputs(
    texts: Mapping[str, str], left_out: Iterable[str]
) -> Callable[[RunView], dict[str, Any] | None]:
    """Of the inputs that a problem has, those with a formula changed, and those left out gone."""
    formulas = {name: change(text) for name, text in texts.items()}

    def changed(run: RunView) -> dict[str, Any] | None:
        new = {name: formula(run) for name, formula in formulas.items() if run.has(name)}
        if any(value is None for value in new.values()):
            return None
        return {**new, **{name: None for name in left_out if run.has(name)}} or None

    return changed
