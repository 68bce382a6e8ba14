"""The whole comparison: one table with a cell per row and family, sentences and plots, in every format."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headwork.comparison import best_uses, complexity, inductive_bias, long_range, parallelism
from headwork.comparison.experiment import SECTIONS, Settings
from headwork.comparison.families import FAMILIES
from headwork.comparison.measurements import run_measurements
from headwork.comparison.section import Results, Section, join_names
from headwork.documents import Document, Heading, Renderable, Table
from headwork.errors import InputError
from headwork.files import write_atomic

PAGE, DATA = "comparison.html", "comparison.json"
SECTION_MODULES: dict[str, Any] = dict(
    zip(SECTIONS, (complexity, parallelism, long_range, inductive_bias, best_uses), strict=True)
)


def compare(settings: Settings, folder: str | Path) -> "Comparison":
    """Run the measurements that are not saved yet, and write the page and the data into the folder."""
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(
            f"--out {target} is a file. Name a folder: measurements and report are written into it."
        )
    modules = [SECTION_MODULES[row] for row in settings.rows]
    results = run_measurements([one for module in modules for one in module.plan(settings)], target)
    comparison = Comparison(settings, [module.report(settings, results) for module in modules], results)
    write_atomic(target / PAGE, comparison.to_html())
    write_atomic(target / DATA, comparison.to_json())
    return comparison


@dataclass(frozen=True)
class Comparison(Renderable):
    """The settings, the report on each row, and all results by the names of their measurements."""

    settings: Settings
    rows: list[Section]
    results: Results

    def table(self) -> Table:
        """One line per quantity, one column per family."""
        names = self.settings.families
        lines: list[tuple[str, ...]] = []
        for row in self.rows:
            lines.append((row.title.upper(), *("" for _ in names)))
            lines += [(label, *(texts.get(n, "") for n in names)) for label, texts in row.cells.items()]
        descriptions = "; ".join(f"{name}: {FAMILIES[name].description}" for name in names)
        return Table("All measurements", ("quantity", *names), lines, [f"{descriptions}."])

    def document(self) -> Document:
        """What the numbers say, then all of them, then row by row."""
        verdicts: list[tuple[Any, ...]] = [(row.title, row.verdict) for row in self.rows]
        parts: list[Any] = [Table("Summary", ("row", "what the numbers say"), verdicts), self.table()]
        for row in self.rows:
            parts += [Heading(row.title, anchor=row.name), row.verdict, *row.sentences, *row.plots]
            parts += [*row.tables, f"Budget: {row.budget}"]
        title = f"{join_names(self.settings.families)} compared"
        kind, budget = "Full" if self.settings.full else "Quick", self.settings.describe_training("examples")
        about = (
            f"{kind} settings: {budget}. Every number is measured or counted here; sentences are generated "
            "from the numbers. Times are ratios."
        )
        return Document(title, tuple(parts), about, data=self.as_data)

    def as_data(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "rows": [row.as_data() for row in self.rows],
            "measurements": dict(self.results),
        }
