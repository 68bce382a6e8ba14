"""The results of a benchmark, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Row:
    """One measured number, its limit, and details."""

    what: str
    measured: float
    limit: float | None = None
    unit: str = ""
    detail: str = ""

    @property
    def held(self) -> bool:
        return self.limit is None or self.measured <= self.limit


@dataclass(frozen=True)
class Report:
    """The rows of one benchmark and how they were measured; ``curves`` are seconds by size, by name."""

    name: str
    title: str
    method: str
    rows: list[Row] = field(default_factory=list)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        return all(row.held for row in self.rows)


def machine() -> str:
    """The machine by its features alone: no model and no name."""
    import torch

    return (
        f"{os.cpu_count()} processors, {torch.backends.cpu.get_cpu_capability()}, {platform.system()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def markdown(report: Report) -> str:
    lines = [
        f"# {report.title}",
        "",
        report.method,
        "",
        f"Command: `python -m benchmarks {report.name}`. Machine: {machine()}.",
        "",
        "| what | measured | at most | held | detail |",
        "|---|---|---|---|---|",
    ]
    for row in report.rows:
        limit = "" if row.limit is None else f"{row.limit:g} {row.unit}".strip()
        held = "" if row.limit is None else "yes" if row.held else "NO"
        lines.append(
            f"| {row.what} | {f'{row.measured:.3g} {row.unit}'.strip()} | {limit} | {held} | {row.detail} |"
        )
    return "\n".join(lines) + "\n"


def write(report: Report) -> None:
    from headwork.files import write_atomic

    data = {"command": f"python -m benchmarks {report.name}", "machine": machine(), **asdict(report)}
    write_atomic(RESULTS / f"{report.name}.json", json.dumps(data, indent=1) + "\n")
    write_atomic(RESULTS / f"{report.name}.md", markdown(report))
