"""Measurements kept: each is written whole once it is finished, so that a stopped comparison goes on where it stood.

A file's name has the fingerprint of all that decides the measurement (its settings, the versions, the number of cores),
so other settings never meet; a file that is damaged, or not what its name says, is told and measured again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from headwork.comparison.rows import Measurement
from headwork.comparison.timing import cores
from headwork.errors import HeadworkError, InputError
from headwork.files import read_text, write_whole
from headwork.training.progress import clock, to_stderr

FORMAT = "headwork comparison 1"
KEPT = "measurements"
BETWEEN = 10.0  # seconds between two lines where there is no terminal


class StoppedError(HeadworkError):
    """Interrupted; what was finished is kept."""


def fingerprint(measurement: Measurement) -> str:
    """Of all that decides a measurement."""
    deciding = {
        "name": measurement.name,
        "decided by": measurement.decided_by,
        "torch": torch.__version__,
        "cores": cores(),
        "format": FORMAT,
    }
    return sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()


def path_of(folder: Path, measurement: Measurement) -> Path:
    words = re.sub(r"[^a-z0-9]+", "-", measurement.name.lower()).strip("-")
    return folder / KEPT / f"{words}.{fingerprint(measurement)[:10]}.json"


def keep(folder: Path, measurement: Measurement, result: dict[str, Any]) -> Path:
    """Write a finished measurement."""
    data = {
        "format": FORMAT,
        "name": measurement.name,
        "fingerprint": fingerprint(measurement),
        "decided by": dict(measurement.decided_by),
        "digest": _digest(result),
        "result": result,
    }
    return write_whole(path_of(folder, measurement), json.dumps(data, indent=1) + "\n")


def kept(
    folder: Path, measurement: Measurement, say: Callable[[str], None] = to_stderr
) -> dict[str, Any] | None:
    """The result of an earlier start; None where there is none, or where it cannot be trusted, which is said."""
    path = path_of(folder, measurement)
    if not path.exists():
        return None
    try:
        data = json.loads(read_text(path))
        result = data["result"]
        expected = {"format": FORMAT, "fingerprint": fingerprint(measurement), "digest": _digest(result)}
        whole = isinstance(result, dict) and all(data[name] == value for name, value in expected.items())
    except (InputError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        say(f"! {path} is damaged or not ours: measured again.")
        return None
    read: dict[str, Any] = result
    return read


def _digest(result: Any) -> str:
    return sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def carry_out(
    measurements: Sequence[Measurement],
    folder: Path,
    progress: Progress | None = None,
    say: Callable[[str], None] = to_stderr,
) -> dict[str, dict[str, Any]]:
    """Every measurement's result by its name: those kept already are read, the others measured and kept."""
    wanted = {measurement.name: measurement for measurement in measurements}
    results = {name: found for name, one in wanted.items() if (found := kept(folder, one, say)) is not None}
    if results:
        say(f"{len(results)} of {len(wanted)} measurements were there already, in {folder / KEPT}.")
    todo = [one for name, one in wanted.items() if name not in results]
    shown = progress or Progress(todo)
    try:
        for one in todo:
            shown.begin(one)
            results[one.name] = _plain(one.work())
            keep(folder, one, results[one.name])
            shown.end(one)
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped; {len(results)} of {len(wanted)} measurements are kept in {folder / KEPT}. "
            "Go on where it stood with the same command."
        ) from None
    finally:
        shown.clear()
    return {name: results[name] for name in wanted}


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """As it will be read again: what is told must not depend on whether it was kept."""
    read: dict[str, Any] = json.loads(json.dumps(result))
    return read


class Progress:
    """What is being measured and how long it will take still, on stderr."""

    def __init__(self, todo: Sequence[Measurement], *, shown: bool = True) -> None:
        import sys

        self.total, self.done, self.shown = sum(one.seconds for one in todo), 0.0, shown
        self.count, self.number = len(todo), 0
        self.terminal = shown and sys.stderr.isatty()
        self.begun = self.told = time.monotonic()

    def begin(self, one: Measurement) -> None:
        self.number += 1
        line = f"{self.number}/{self.count} {one.name}"
        if self.done:
            spent = time.monotonic() - self.begun
            line += f", about {clock(spent / self.done * (self.total - self.done))} left"
        else:
            line += f", about {clock(self.total)} in all"
        self._tell(line, first=self.number == 1)

    def end(self, one: Measurement) -> None:
        self.done += one.seconds

    def _tell(self, line: str, *, first: bool) -> None:
        import shutil
        import sys

        if not self.shown:
            return
        if self.terminal:
            wide = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{line[:wide]}", end="", file=sys.stderr, flush=True)
        elif first or time.monotonic() - self.told > BETWEEN:
            self.told = time.monotonic()
            to_stderr(line)

    def clear(self) -> None:
        import sys

        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
