"""Work shared among processes, with progress on stderr: one line on a screen, a few in a log."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

MIN_PARALLEL_ITEMS = 8  # with fewer items another process is not worth its start


@contextmanager
def pool(count: int) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """A ``map`` over as many processes as there are processors, or the plain one for little work."""
    processes = min(os.cpu_count() or 1, count)
    if count < MIN_PARALLEL_ITEMS or processes < 2:
        yield map
        return
    with ProcessPoolExecutor(processes) as executor:
        yield lambda function, items: executor.map(function, items, chunksize=4)


def progress(done: int, total: int, unit: str) -> None:
    """Print on stderr how many items are done."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {unit}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(f"{done}/{total} {unit}", file=sys.stderr, flush=True)
