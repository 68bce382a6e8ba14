"""Timing on a busy machine: all candidates take turns, round after round, and the best round of each counts.

Other processes make some rounds slower, never faster: the best one is nearest to the true cost, and taking
turns spreads a busy moment over all candidates. On one thread CPU time counts, which stops while other
processes run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

import torch

Key = TypeVar("Key", bound=Hashable)
SAMPLE_SECONDS = 0.002  # faster functions are repeated within one sample


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def relative(times: Mapping[Key, float]) -> dict[Key, float]:
    """Times in units of the shortest.

    >>> relative({"cnn": 0.5, "lstm": 2.0})
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

    def run(self, rounds: int, only: Collection[Key] | None = None) -> dict[Key, float]:
        """The best seconds per call after so many more rounds, of all functions or only of some."""
        selected = {key: call for key, call in self.functions.items() if only is None or key in only}
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
