"""The whole comparison: the table with a cell for each row and family, the sentences, the pictures; in every form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headwork.comparison.families import FAMILIES
from headwork.comparison.keeping import Progress, carry_out
from headwork.comparison.rows import Results, Row, Settings, listed
from headwork.errors import InputError
from headwork.files import write_whole
from headwork.pages import Table, figure, heading, page, plot_svg
from headwork.readings.report import Report
from headwork.training.progress import to_stderr

PAGE, DATA = "comparison.html", "comparison.json"
SIDE_BY_SIDE = Markup(
    '<div style="display:grid;grid-template-columns:repeat(auto-fill,minmax(min(26rem,100%),1fr));gap:0 2rem">{}</div>'
)


def module(row: str) -> Any:
    return import_module(f"headwork.comparison.{row.replace('-', '_')}")


def compare(
    settings: Settings,
    folder: str | Path,
    *,
    say: Callable[[str], None] = to_stderr,
    progress: Progress | None = None,
) -> Comparison:
    """Measure what is not yet measured, and write the page and the data into the folder."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(
            f"--out {target} is a file. Name a folder: measurements and report are written into it."
        )
    measurements = [one for row in settings.rows for one in module(row).plan(settings)]
    results = carry_out(measurements, target, progress, say)
    comparison = Comparison(settings, [module(row).told(settings, results) for row in settings.rows], results)
    write_whole(target / PAGE, comparison.to_html())
    write_whole(target / DATA, comparison.to_json())
    return comparison


@dataclass(frozen=True)
class Comparison:
    """Settings, rows as they are told, and all results by their measurements' names."""

    settings: Settings
    rows: list[Row]
    results: Results

    @property
    def title(self) -> str:
        return f"{listed(self.settings.families)} compared"

    @property
    def about(self) -> str:
        chosen = self.settings
        return (
            f"{'Full' if chosen.full else 'Quick'} setting, seeds {listed(map(str, chosen.seeds))}, {chosen.steps:,} "
            "steps for every training. Every number is measured or counted here; sentences are made from the numbers. "
            "Times are ratios."
        )

    def verdicts(self) -> Table:
        """Each row in a sentence."""
        return Table(
            "In short", ("row", "what the numbers say"), [(row.title, row.verdict) for row in self.rows]
        )

    def table(self) -> Table:
        """A line for everything that was measured, a column for each family."""
        names = self.settings.families
        lines: list[tuple[str, ...]] = []
        for row in self.rows:
            lines.append((row.title.upper(), *("" for _ in names)))
            lines += [(label, *(cells.get(name, "") for name in names)) for label, cells in row.cells]
        words = "; ".join(f"{name}: {FAMILIES[name].words}" for name in names)
        return Table("All that was measured", ("measured", *names), lines, [f"{words}."])

    def report(self) -> Report:
        """The same as a report, for text, Markdown and LaTeX."""
        parts: list[Any] = [self.about, self.table()]
        for row in self.rows:
            parts += [
                f"{row.title.upper()}. {row.verdict}",
                *row.sentences,
                *row.tables,
                f"Budget: {row.budget}",
            ]
        return Report(self.title, tuple(parts))

    def to_text(self) -> str:
        return self.report().to_text()

    def to_markdown(self) -> str:
        return self.report().to_markdown()

    def to_latex(self, fragment: bool = False) -> str:
        return self.report().to_latex(fragment)

    def to_html(self) -> str:
        """One page that opens offline."""
        blocks: list[Any] = [self.verdicts(), self.table()]
        for row in self.rows:
            blocks += [heading(row.title, name=row.name), row.verdict, *row.sentences]
            pictures = [figure(plot_svg(p.plot, p.alt), p.caption) for p in row.pictures]
            blocks += [SIDE_BY_SIDE.format(Markup("").join(pictures))] if pictures else []
            blocks += [*row.tables, f"Budget: {row.budget}"]
        return page(f"Headwork: {self.title}", *blocks, about=self.about)

    def as_data(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "rows": [
                {
                    "row": row.name,
                    "budget": row.budget,
                    "verdict": row.verdict,
                    "cells": dict(row.cells),
                    "sentences": row.sentences,
                    "numbers": row.numbers,
                }
                for row in self.rows
            ],
            "measurements": dict(self.results),
        }

    def to_json(self) -> str:
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"
