"""The whole comparison: one table with a cell per row and family, sentences and plots, in every format.

Below, the parts of it that take seconds, for the problems A3, B8, G3 and G8 of the problem book: each returns
sentences, tables and figures in the order to show them.
"""

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork.comparison import best_uses, complexity, inductive_bias, long_range, parallelism
from headwork.comparison.accuracy import changes_sentence, leaders_sentence, mean_accuracy
from headwork.comparison.experiment import SECTIONS, Settings
from headwork.comparison.families import FAMILIES, CountedKernels, Layer, flops
from headwork.comparison.inductive_bias import circular_convolution_error, train_on_images
from headwork.comparison.measurements import run_measurements
from headwork.comparison.section import Results, Section, join_names, table, text_of
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
    modules = [SECTION_MODULES[section_name] for section_name in settings.sections]
    results = run_measurements([one for module in modules for one in module.plan(settings)], target)
    comparison = Comparison(settings, [module.report(settings, results) for module in modules], results)
    write_atomic(target / PAGE, comparison.to_html())
    write_atomic(target / DATA, comparison.to_json())
    return comparison


@dataclass(frozen=True)
class Comparison(Renderable):
    """The settings, the report on each row, and all results by the names of their measurements."""

    settings: Settings
    sections: list[Section]
    results: Results

    def table(self) -> Table:
        """One line per quantity, one column per family."""
        names = self.settings.families
        lines: list[tuple[str, ...]] = []
        for section in self.sections:
            lines.append((section.title.upper(), *("" for _ in names)))
            lines += [(label, *(texts.get(n, "") for n in names)) for label, texts in section.cells.items()]
        descriptions = "; ".join(f"{name}: {FAMILIES[name].description}" for name in names)
        return Table("All measurements", ("quantity", *names), lines, [f"{descriptions}."])

    def document(self) -> Document:
        """What the numbers say, then all of them, then row by row."""
        verdicts: list[tuple[Any, ...]] = [(section.title, section.verdict) for section in self.sections]
        parts: list[Any] = [Table("Summary", ("row", "what the numbers say"), verdicts), self.table()]
        for section in self.sections:
            parts += [Heading(section.title, anchor=section.name), section.verdict, *section.sentences]
            parts += [*section.figures, *section.tables, f"Budget: {section.budget}"]
        title = f"{join_names(self.settings.families)} compared"
        kind, budget = "Full" if self.settings.full else "Quick", self.settings.describe_training("examples")
        about = text_of("report/about", kind=kind, budget=budget)
        return Document(title, tuple(parts), about, data=self.as_data)

    def as_data(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "rows": [section.as_data() for section in self.sections],
            "measurements": dict(self.results),
        }


TIMED_FAMILIES, LENGTHS = ("cnn", "lstm", "transformer", "linear"), (1024, 2048, 4096, 8192, 16384)
GAP, STEPS, IMAGES = 24, 100, 250
SEE_ALSO = text_of("excerpts/see_also")


def torch_flops(name: str, n: int, d: int) -> int:
    """The FLOPs of a family's definition by torch's own counter.

    >>> torch_flops("transformer", 16, 4) == flops("transformer")(n=16, d=4)
    True
    """
    layer = Layer(FAMILIES[name], d, kernels=CountedKernels)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(layer.inputs(n))
    return int(counter.get_total_flops())


@cache
def measure_times() -> dict[str, Any]:
    """Times against n in a few rounds, measured once per process."""
    return complexity.times_by_n(TIMED_FAMILIES, LENGTHS, max_rounds=6)


def work_and_time() -> list[Any]:
    """A3: the FLOPs, the exponent of n in the time, and the longest chain of each family."""
    laws = complexity.fit_times(measure_times())
    names = Settings().families
    chains = parallelism.chain_formulas(parallelism.chains(names))
    rows = [
        (name, str(flops(name)), str(laws[name]) if name in laws else "", str(chains[name])) for name in names
    ]
    measured = table("excerpts/work", rows, width=complexity.WIDTH, longest=LENGTHS[-1])
    figure = complexity.time_figure(measure_times(), laws, "n")
    return [measured, complexity.growth_sentence(laws), figure, SEE_ALSO]


def attention_time() -> list[Any]:
    """B8: the exponent of n in attention's time."""
    law = complexity.fit_times(measure_times())["transformer"]
    sizes = {"first": law.start, "last": law.end, "width": complexity.WIDTH}
    return [text_of("excerpts/attention", growth=law.describe("n"), **sizes), SEE_ALSO]


def recall_over_a_gap() -> list[Any]:
    """G3: gradients over a gap before training, and which family learns to predict the first symbol."""
    parameters = long_range.PARAMETERS[False]
    accuracies, rows = {}, []
    for name in ("lstm", "transformer"):
        result = long_range.train_on_gap(name, GAP, 0, steps=STEPS, parameters=parameters)
        accuracies[name] = mean_accuracy([result["accuracy"]], long_range.TEST_SEQUENCES)
        rows.append((name, f"{result['before'][0] / result['before'][-2]:.2g}", str(accuracies[name])))
    measured = table("excerpts/gap", rows, gap=GAP, steps=STEPS, chance=long_range.CHANCE)
    sentence = text_of("excerpts/learned/sentence", symbols=GAP + 1, leaders=leaders_sentence(accuracies))
    sweep = long_range.sweep_recurrent_weight((0.8, 0.9, 1.0, 1.1, 1.2), 50)
    return [measured, sentence, long_range.recurrent_weight_figure(sweep), SEE_ALSO]


def image_shifts() -> list[Any]:
    """G8: the effect of a shift on a convolutional network and on a vision transformer."""
    results = {
        name: train_on_images(name, IMAGES, 0, steps=STEPS, full=False) for name in ("cnn", "transformer")
    }
    accuracies, shifted = (
        {name: mean_accuracy([result[field]], result["tested"]) for name, result in results.items()}
        for field in ("accuracy", "shifted")
    )
    circular = circular_convolution_error()["error"]
    rows: list[tuple[Any, ...]] = [("circular convolution", f"{circular:.1e}", "", "", "")]
    for name, result in results.items():
        errors = (f"{result[f'error {when}']:.2f}" for when in ("before", "after"))
        rows.append((name, *errors, str(accuracies[name]), str(shifted[name])))
    measured = table("excerpts/shift", rows, images=IMAGES, steps=STEPS)
    return [measured, f"Two rows lower, {changes_sentence(accuracies, shifted)}.", SEE_ALSO]
