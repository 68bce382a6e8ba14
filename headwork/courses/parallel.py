"""Work shared among processes, and how far it is: in place on a screen, now and then in a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

FEW = 8  # pieces of work that are not worth another process


@contextmanager
def pool(count: int) -> Iterator[Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]]:
    """A ``map`` over as many processes as there are processors, or a plain one where there is little to do."""
    processes = min(os.cpu_count() or 1, count)
    if count < FEW or processes < 2:
        yield map
        return
    with ProcessPoolExecutor(processes) as executor:
        yield lambda function, items: executor.map(function, items, chunksize=4)


def progress(done: int, total: int, what: str) -> None:
    """Say on stderr that so many of so many are done."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total} {what}", end="\n" if done == total else "", file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(f"{done}/{total} {what}", file=sys.stderr, flush=True)
