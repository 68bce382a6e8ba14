"""Mistakes in sinusoidal positions: frequencies, angles, and which columns hold sines and cosines."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView


def _in_pairs(sines: Any, cosines: Any) -> Any:
    """Columns of sines and of cosines in turn."""
    return np.stack([sines, cosines], -1).reshape(len(sines), -1)


def _pairs(run: RunView) -> Any:
    """The numbers of the pairs: 0, 1, 2."""
    return np.arange(run.width // 2)


def _with_more(pairs: int, value: Any, run: RunView) -> Any:
    """A value, where there are at least so many pairs: with fewer it is another mistake, too."""
    return value if run.width // 2 >= pairs else None


def sine_and_cosine_swapped(run: RunView) -> Any:
    return _in_pairs(np.cos(run.angles), np.sin(run.angles))


def exponent_without_two(run: RunView) -> Any:
    return run.current**0.5


def column_for_pair(run: RunView) -> Any:
    return run.current**2


def frequencies_rising(run: RunView) -> Any:
    return 1 / run.current


def positions_from_one(run: RunView) -> Any:
    return {"places": run.places + 1}


def degrees_for_radians(run: RunView) -> Any:
    angles = np.deg2rad(run.angles)
    return _in_pairs(np.sin(angles), np.cos(angles))
