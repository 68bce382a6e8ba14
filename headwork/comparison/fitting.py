"""What numbers allow to be said: exponents with their error, shares with their margin, and whether two differ.

An exponent is the slope of a straight line through (log size, log value) by least squares, with its standard error; a
share of right answers has the 95% margin of Agresti and Coull (1998), which holds for shares near 1 too. Two shares
are told apart from one and a half margins on (99.7%), because a comparison looks at dozens of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SURE = 0.1  # an exponent with a larger standard error says nothing
CONFIDENCE, APART = 1.96, 1.5


@dataclass(frozen=True)
class Fit:
    """A power law over the sizes from ``start`` to ``end``, its exponent with its standard error."""

    exponent: float
    error: float
    start: float
    end: float

    @property
    def sure(self) -> bool:
        return self.error <= SURE

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.error:.2f}"


def fitted(sizes: Sequence[float], values: Sequence[float]) -> Fit:
    """The power law through values at sizes, three of them or more.

    >>> print(fitted([1, 2, 4], [3, 12, 48]))
    2.00 ± 0.00
    """
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    left = y - y.mean() - slope * centred
    error = math.sqrt(float(left @ left) / max(1, len(x) - 2) / spread)
    return Fit(slope, error, float(min(sizes)), float(max(sizes)))


@dataclass(frozen=True)
class Share:
    """A share of right answers out of ``count``, over one seed or several, with its 95% margin."""

    value: float
    count: int
    margin: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ± {100 * self.margin:.1f}"

    def differs(self, other: Share | float) -> bool:
        """Whether the difference is larger than the margins of both allow.

        >>> share([0.5], 100).differs(share([0.55], 100)), share([0.5], 100).differs(0.25)
        (False, True)
        """
        value, margin = (other.value, other.margin) if isinstance(other, Share) else (other, 0.0)
        return abs(self.value - value) > APART * math.hypot(self.margin, margin)

    def above(self, other: Share | float) -> bool:
        value = other.value if isinstance(other, Share) else other
        return self.differs(other) and self.value > value


def share(values: Sequence[float], count: int) -> Share:
    """The mean over seeds; where there are several their spread is in the margin too.

    >>> print(share([0.5], 96))
    50.0% ± 9.8
    """
    mean = float(np.mean(values))
    smoothed = (mean * count + 2) / (count + 4)
    within = CONFIDENCE * math.sqrt(smoothed * (1 - smoothed) / (count + 4))
    between = CONFIDENCE * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Share(mean, count, math.hypot(within, between))


def crossing(sizes: Sequence[float], rising: Sequence[float], other: Sequence[float]) -> float | None:
    """The size from which ``rising`` stays above ``other``, on logarithmic scales; None where they never cross.

    >>> crossing([1, 2, 4], [1, 4, 16], [2, 4, 8])
    2.0
    """
    gaps = [math.log(a / b) for a, b in zip(rising, other, strict=True)]
    if gaps[-1] <= 0:
        return None
    last = max((i for i, gap in enumerate(gaps) if gap <= 0), default=None)
    if last is None:
        return None
    part = -gaps[last] / (gaps[last + 1] - gaps[last])
    return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** part)
