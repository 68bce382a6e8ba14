"""Measurements saved one by one as they finish, so that a stopped comparison can be resumed.

The file name contains a fingerprint of everything the result depends on (configuration, torch version, number
of cores), so different settings never share a file. A file that is damaged, or does not match its name, is
reported and measured again.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from headwork.comparison.timing import cores
from headwork.data.fetching import to_stderr
from headwork.errors import HeadworkError, InputError
from headwork.files import parse_json, read_text, write_atomic
from headwork.training.progress import StatusLine, format_duration

FORMAT = "headwork comparison 1"
FOLDER = "measurements"


class StoppedError(HeadworkError):
    """Interrupted; finished measurements are saved."""


@dataclass(frozen=True)
class Measurement:
    """One unit of work, what its result depends on, and roughly how many seconds it takes.

    The fingerprint is made from name and configuration: changing either makes saved results unreachable.
    """

    name: str
    config: Mapping[str, Any]
    run: Callable[[], dict[str, Any]]
    seconds: float

    @property
    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "decided by": dict(self.config)}


def _digest(data: Any) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def fingerprint(measurement: Measurement) -> str:
    """A digest of everything the result depends on."""
    here = {"torch": torch.__version__, "cores": cores(), "format": FORMAT}
    return _digest({**measurement.identity, **here})


def result_path(folder: Path, measurement: Measurement) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", measurement.name.lower()).strip("-")
    return folder / FOLDER / f"{slug}.{fingerprint(measurement)[:10]}.json"


def _header(measurement: Measurement, result: Any) -> dict[str, str]:
    """What makes a saved result valid."""
    return {"format": FORMAT, "fingerprint": fingerprint(measurement), "digest": _digest(result)}


def save(folder: Path, measurement: Measurement, result: dict[str, Any]) -> None:
    """Write a finished measurement."""
    data = {**_header(measurement, result), **measurement.identity, "result": result}
    write_atomic(result_path(folder, measurement), json.dumps(data, indent=1) + "\n")


def load(
    folder: Path, measurement: Measurement, log: Callable[[str], None] = to_stderr
) -> dict[str, Any] | None:
    """A saved result; None if there is none, or if its file is damaged, which is reported."""
    path = result_path(folder, measurement)
    if not path.exists():
        return None
    try:
        data = parse_json(read_text(path), path)
        result: dict[str, Any] = data["result"]
        if isinstance(result, dict) and _header(measurement, result).items() <= data.items():
            return result
    except (InputError, ValueError, KeyError, TypeError):
        pass
    log(f"! {path} is damaged or from another program: measured again.")
    return None


def run_measurements(
    measurements: Sequence[Measurement], folder: Path, log: Callable[[str], None] = to_stderr
) -> dict[str, dict[str, Any]]:
    """The results by name: saved ones are read, the others are measured and saved."""
    planned = {measurement.name: measurement for measurement in measurements}
    results = {name: saved for name, one in planned.items() if (saved := load(folder, one, log)) is not None}
    if results:
        log(f"{len(results)} of {len(planned)} measurements were already there, in {folder / FOLDER}.")
    remaining = [one for name, one in planned.items() if name not in results]
    total, done = sum(one.seconds for one in remaining), 0.0  # estimated seconds
    status = StatusLine()
    try:
        for number, measurement in enumerate(remaining, 1):
            now = time.monotonic()
            line = f"{number}/{len(remaining)} {measurement.name}"
            if done:  # the forecast comes from what was measured here, never from another machine
                left = (now - status.start_time) / done * (total - done)
                line += f", about {format_duration(left)} left"
            if status.terminal or number == 1 or status.is_due(now):
                status.draw(line, now)
            # As it will be read from the file: the report must not depend on whether it was saved.
            results[measurement.name] = json.loads(json.dumps(measurement.run()))
            save(folder, measurement, results[measurement.name])
            done += measurement.seconds
    except KeyboardInterrupt:
        there = f"{len(results)} of {len(planned)} measurements are saved in {folder / FOLDER}"
        raise StoppedError(f"stopped; {there}. Resume with the same command.") from None
    finally:
        status.clear()
    return {name: results[name] for name in planned}
