"""The whole comparison: one table with a cell per row and family, sentences and plots, in every format."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headwork.comparison import bias, complexity, long_range, parallelism, uses
from headwork.comparison.families import FAMILIES
from headwork.comparison.measurements import run_measurements
from headwork.comparison.row import Results, Section, join_names
from headwork.comparison.training import ROWS, Settings
from headwork.data.fetching import to_stderr
from headwork.errors import InputError
from headwork.files import write_atomic
from headwork.pages import Table, figure, heading, page, plot_svg
from headwork.readings.report import Report, Reported

PAGE, DATA = "comparison.html", "comparison.json"
MODULES: dict[str, Any] = dict(zip(ROWS, (complexity, parallelism, long_range, bias, uses), strict=True))
SIDE_BY_SIDE = Markup(
    '<div style="display:grid;gap:0 2rem;'
    'grid-template-columns:repeat(auto-fill,minmax(min(26rem,100%),1fr))">{}</div>'
)


def compare(
    settings: Settings, folder: str | Path, *, say: Callable[[str], None] = to_stderr
) -> "Comparison":
    """Run the measurements that are not saved yet, and write the page and the data into the folder."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(
            f"--out {target} is a file. Name a folder: measurements and report are written into it."
        )
    modules = [MODULES[row] for row in settings.rows]
    results = run_measurements([one for module in modules for one in module.plan(settings)], target, say)
    comparison = Comparison(settings, [module.report(settings, results) for module in modules], results)
    write_atomic(target / PAGE, comparison.to_html())
    write_atomic(target / DATA, comparison.to_json())
    return comparison


@dataclass(frozen=True)
class Comparison(Reported):
    """The settings, the report on each row, and all results by the names of their measurements."""

    settings: Settings
    rows: list[Section]
    results: Results

    @property
    def title(self) -> str:
        return f"{join_names(self.settings.families)} compared"

    @property
    def about(self) -> str:
        kind, budget = "Full" if self.settings.full else "Quick", self.settings.describe_training("examples")
        return (
            f"{kind} settings: {budget}. Every number is measured or counted here; sentences are generated "
            "from the numbers. Times are ratios."
        )

    def table(self) -> Table:
        """One line per quantity, one column per family."""
        names = self.settings.families
        lines: list[tuple[str, ...]] = []
        for row in self.rows:
            lines.append((row.title.upper(), *("" for _ in names)))
            lines += [(cells.label, *(cells.texts.get(name, "") for name in names)) for cells in row.cells]
        descriptions = "; ".join(f"{name}: {FAMILIES[name].description}" for name in names)
        return Table("All measurements", ("quantity", *names), lines, [f"{descriptions}."])

    def report(self) -> Report:
        """The same for text, Markdown and LaTeX."""
        parts: list[Any] = [self.about, self.table()]
        for row in self.rows:
            parts += [f"{row.title.upper()}. {row.verdict}", *row.sentences]
            parts += [*row.tables, f"Budget: {row.budget}"]
        return Report(self.title, tuple(parts))

    def to_html(self) -> str:
        """One page that works offline."""
        verdicts: list[tuple[Any, ...]] = [(row.title, row.verdict) for row in self.rows]
        blocks: list[Any] = [Table("Summary", ("row", "what the numbers say"), verdicts), self.table()]
        for row in self.rows:
            blocks += [heading(row.title, name=row.name), row.verdict, *row.sentences]
            plots = [figure(plot_svg(plot.figure, plot.alt), plot.caption) for plot in row.plots]
            blocks += [SIDE_BY_SIDE.format(Markup("").join(plots))] if plots else []
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
                    "cells": {cells.json_name: cells.texts for cells in row.cells},
                    "sentences": row.sentences,
                    "numbers": row.numbers,
                }
                for row in self.rows
            ],
            "measurements": dict(self.results),
        }
