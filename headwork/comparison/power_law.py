"""Power laws fitted to measured values, and the size at which two curves cross.

An exponent is the slope of the least-squares line through (log size, log value), with its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LARGEST_ERROR = 0.1  # an exponent with a larger standard error is not reported as one


@dataclass(frozen=True)
class PowerLaw:
    """A power law over the sizes from ``start`` to ``end``: its exponent with its standard error."""

    exponent: float
    error: float
    start: float
    end: float

    @property
    def is_reliable(self) -> bool:
        return self.error <= LARGEST_ERROR

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.error:.2f}"

    def describe(self, variable: str) -> str:
        return f"{variable}^({self})" if self.is_reliable else f"no single exponent ({self})"


def fit_power_law(sizes: Sequence[float], values: Sequence[float]) -> PowerLaw:
    """The power law through three or more values.

    >>> print(fit_power_law([1, 2, 4], [3, 12, 48]))
    2.00 ± 0.00
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    residuals = y - y.mean() - slope * centred
    error = math.sqrt(float(residuals @ residuals) / max(1, len(x) - 2) / spread)
    return PowerLaw(slope, error, float(min(sizes)), float(max(sizes)))


def crossing(sizes: Sequence[float], rising: Sequence[float], other: Sequence[float]) -> float:
    """The size from which ``rising`` stays above ``other``, on logarithmic scales: 0 always, inf never.

    >>> crossing([1, 2, 4], [1, 4, 16], [2, 4, 8])
    2.0
    """
    gaps = [math.log(a / b) for a, b in zip(rising, other, strict=True)]
    if min(gaps) > 0:
        return 0.0
    last = max(i for i, gap in enumerate(gaps) if gap <= 0)
    if last == len(gaps) - 1:
        return math.inf
    fraction = -gaps[last] / (gaps[last + 1] - gaps[last])
    return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** fraction)
