"""Two calls of the C library that Python does not offer; where they are missing, all works without them.

- ``swap_directories``: Linux's renameat2 swaps two folders in one step, so that a model that is saved again
  is whole at every moment (``models/saving.py``).
- ``keep_freed_memory``: glibc gives blocks over 32 MB back to the system at once, and a step on large tensors
  then waits for fresh pages: a million page faults per step of MiniLM on 256 tokens. Kept, a step takes 5.1 s
  instead of 9.3 s (``docs/experiments.md``).
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2
M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1


def swap_directories(staged: Path, target: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    paths = AT_FDCWD, os.fsencode(staged), AT_FDCWD, os.fsencode(target)
    try:
        return bool(ctypes.CDLL(None).renameat2(*paths, RENAME_EXCHANGE) == 0)
    except (OSError, AttributeError):
        return False


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """What one step frees stays with the process for the next; afterwards all is given back."""
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (TypeError, AttributeError):  # another system, another library
        yield
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, 65_536)
        mallopt(M_TRIM_THRESHOLD, 2**26)
        trim(0)
