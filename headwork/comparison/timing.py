"""Taking times: every competitor in turn, round after round, the best of its rounds kept.

What else runs on the machine makes some rounds slow, never quicker: the best one is nearest to the work itself, and
taking turns keeps a busy moment from falling on one competitor alone. On one thread it is the processor's time that
counts, which stands still while others have the processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

Key = TypeVar("Key", bound=Hashable)
LEAST = 0.002  # seconds of one sample: quicker work is repeated within it


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside, as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Race(Generic[Key]):
    """Times of several competitors, which more rounds can only make better.

    The clock is the processor's on one thread and the wall's on several, unless one is given.
    """

    def __init__(
        self, runs: Mapping[Key, Callable[[], object]], clock: Callable[[], float] | None = None
    ) -> None:
        self.runs, self.clock = dict(runs), clock
        self.best: dict[Key, float] = {}
        self.repeats: dict[Key, int] = {}

    def run(self, rounds: int, only: Collection[Key] | None = None) -> dict[Key, float]:
        """Seconds of each after so many more rounds, of all or of some."""
        chosen = {key: work for key, work in self.runs.items() if only is None or key in only}
        for _ in range(rounds):
            for key, work in chosen.items():
                if key not in self.best:
                    once = self._seconds(work, 1)  # warms up as well
                    self.repeats[key] = max(1, round(LEAST / max(once, 1e-7)))
                    self.best[key] = once
                self.best[key] = min(self.best[key], self._seconds(work, self.repeats[key]))
        return self.best

    def _seconds(self, work: Callable[[], object], repeats: int) -> float:
        clock = self.clock or (time.process_time if torch.get_num_threads() == 1 else time.perf_counter)
        begun = clock()
        for _ in range(repeats):
            work()
        return (clock() - begun) / repeats
