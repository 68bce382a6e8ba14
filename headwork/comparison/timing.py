"""Times on a busy machine, and the power laws fitted to them.

All candidates take turns, round after round, and the best round of each counts. Other processes make some
rounds slower, never faster: the best one is nearest to the true cost, and taking turns spreads a busy moment
over all candidates. On one thread CPU time counts, which stops while other processes run. An exponent is the
slope of the least-squares line through (log size, log value), with its standard error.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch

Key = TypeVar("Key", bound=Hashable)
SAMPLE_SECONDS = 0.002  # faster functions are repeated within one sample
MAX_EXPONENT_ERROR = 0.1  # an exponent with a larger standard error is not reported as one


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> float:
    """How many threads had a core or waited for one, on average over the last minute; 0 if nobody counts."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def relative_times(times: Mapping[Key, float]) -> dict[Key, float]:
    """Times in units of the shortest.

    >>> relative_times({"cnn": 0.5, "lstm": 2.0})
    {'cnn': 1.0, 'lstm': 4.0}
    """
    unit = min(times.values())
    return {key: seconds / unit for key, seconds in times.items()}


class InterleavedTimer(Generic[Key]):
    """Best times of several functions that take turns; more rounds only make them better.

    The clock is CPU time on one thread and wall time on several, unless one is given.
    """

    def __init__(
        self, functions: Mapping[Key, Callable[[], object]], clock: Callable[[], float] | None = None
    ) -> None:
        self.functions, self.clock = dict(functions), clock
        self.best: dict[Key, float] = {}
        self.repeats: dict[Key, int] = {}

    def run(self, rounds: int, keys: Collection[Key] | None = None) -> dict[Key, float]:
        """The best seconds per call after so many more rounds, of all functions or only of some."""
        selected = {key: call for key, call in self.functions.items() if keys is None or key in keys}
        for _ in range(rounds):
            for key, call in selected.items():
                if key not in self.best:
                    self.best[key] = self._seconds(call, 1)  # warms up as well
                    self.repeats[key] = max(1, round(SAMPLE_SECONDS / max(self.best[key], 1e-7)))
                self.best[key] = min(self.best[key], self._seconds(call, self.repeats[key]))
        return self.best

    def _seconds(self, call: Callable[[], object], repeats: int) -> float:
        clock = self.clock or (time.process_time if torch.get_num_threads() == 1 else time.perf_counter)
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats


@dataclass(frozen=True)
class PowerLaw:
    """A power law over the sizes from ``start`` to ``end``: its exponent with its standard error."""

    exponent: float
    error: float
    start: float
    end: float

    @property
    def is_reliable(self) -> bool:
        return self.error <= MAX_EXPONENT_ERROR

    def __str__(self) -> str:
        return f"{self.exponent:.2f} ± {self.error:.2f}"

    def describe(self, variable: str) -> str:
        return f"{variable}^({self})" if self.is_reliable else f"no single exponent ({self})"


def fit_power_law(sizes: Sequence[float], values: Sequence[float]) -> PowerLaw:
    """The power law through three or more values.

    >>> print(fit_power_law([1, 2, 4], [3, 12, 48]))
    2.00 ± 0.00
    """
    (slope, _), covariance = np.polyfit(np.log(sizes), np.log(values), 1, cov=True)
    return PowerLaw(float(slope), float(np.sqrt(covariance[0, 0])), float(min(sizes)), float(max(sizes)))


def crossing_size(sizes: Sequence[float], rising: Sequence[float], reference: Sequence[float]) -> float:
    """The size from which ``rising`` stays above ``reference``, on logarithmic scales: 0 always, inf never.

    >>> crossing_size([1, 2, 4], [1, 4, 16], [2, 4, 8])
    2.0
    """
    gaps = [math.log(a / b) for a, b in zip(rising, reference, strict=True)]
    if min(gaps) > 0:
        return 0.0
    last = max(i for i, gap in enumerate(gaps) if gap <= 0)
    if last == len(gaps) - 1:
        return math.inf
    fraction = -gaps[last] / (gaps[last + 1] - gaps[last])
    return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** fraction)
