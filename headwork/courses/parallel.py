"""Work shared among processes, with progress on stderr: one line on a screen, a few in a log.

``map_limited`` gives each item a limit of processor time and memory where the system has them (not Windows).
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any

MAX_SECONDS = 20  # of processor time for one item: a busy machine takes nothing from it
MAX_BYTES = 2_000_000_000  # that a process may hold


def map_limited(function: Callable[[Any], Any], items: Sequence[Any], unit: str = "") -> Iterator[Any]:
    """The results in order; None for an item whose process went beyond a limit or was killed.

    With a ``unit``, how many are done is printed on stderr.
    """
    workers = max(1, min(os.cpu_count() or 1, len(items)))
    with ProcessPoolExecutor(workers, initializer=_limit_memory) as executor:
        futures = [executor.submit(_within_time, function, item) for item in items]
        for done, (item, future) in enumerate(zip(items, futures, strict=True), 1):
            try:
                result = future.result()
            except BrokenProcessPool:  # one process was killed, and with it the pool: now each item by itself
                result = _run_alone(function, item)
            if unit:
                _progress(done, len(items), unit)
            yield result


def _run_alone(function: Callable[[Any], Any], item: Any) -> Any:
    with ProcessPoolExecutor(1, initializer=_limit_memory) as executor:
        try:
            return executor.submit(_within_time, function, item).result()
        except BrokenProcessPool:
            return None


def _within_time(function: Callable[[Any], Any], item: Any) -> Any:
    if not hasattr(signal, "setitimer"):
        return function(item)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # it ends the process, even within a long multiplication
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        return function(item)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _progress(done: int, total: int, unit: str) -> None:
    """Print on stderr how many items are done."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {unit}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(f"{done}/{total} {unit}", file=sys.stderr, flush=True)
