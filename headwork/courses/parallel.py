"""Work shared among processes, with progress on stderr: one line on a screen, a few in a log."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MIN_PARALLEL_ITEMS = 8  # with fewer items another process is not worth its start


@contextmanager
def pool(
    count: int, at_least: int = MIN_PARALLEL_ITEMS
) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """A ``map`` over as many processes as there are processors, or the plain one for little work."""
    processes = min(os.cpu_count() or 1, count)
    if count < at_least or processes < 2:
        yield map
        return
    with ProcessPoolExecutor(processes) as executor:
        yield lambda function, items: executor.map(function, items, chunksize=4)


@contextmanager
def limits(seconds: float, memory: int) -> Iterator[None]:
    """In a process of a pool: a TimeoutError after so long, a MemoryError beyond so many bytes more."""
    if multiprocessing.parent_process() is None or not hasattr(signal, "setitimer"):
        yield  # a host program's signals and limits are its own; Windows has none of them
        return
    import resource

    def stop(*_: object) -> None:
        raise TimeoutError

    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):  # where /proc is missing, or the limit is lower already
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, before[1]))
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)


def progress(done: int, total: int, unit: str) -> None:
    """Print on stderr how many items are done."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {unit}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(f"{done}/{total} {unit}", file=sys.stderr, flush=True)
