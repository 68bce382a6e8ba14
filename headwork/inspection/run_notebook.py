"""The report on a finished run as a notebook of explained cells, ready to hand in."""

from __future__ import annotations

import base64
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwork.files import write_whole
from headwork.inspection import figures
from headwork.inspection.predictions import format_accuracy
from headwork.inspection.run_report import (
    epochs_table,
    mistakes_table,
    parameters_table,
    result_table,
    settings_table,
)
from headwork.pages import Table, save_plot
from headwork.training.examples import DataInfo
from headwork.training.folders import Result, load_data_info, load_model, load_run
from headwork.training.progress import quiet
from headwork.training.recipes import Run, TextRun, as_text


def write_notebook(folder: str | Path, out: Path | None = None) -> Path:
    """Write a finished run as a notebook; into its own folder unless ``out`` is given."""
    result = Result.read(folder)
    return write_whole(out or result.folder / "report.ipynb", notebook(result))


def notebook(result: Result) -> str:
    """The run as cells with their outputs: ready to be read, and to be run from top to bottom."""
    run, info = load_run(result.folder), load_data_info(result.folder)
    cells: list[dict[str, Any]] = []
    for kind, text, *outputs in _cells(result, run, info):
        cell = {"cell_type": kind, "id": f"run-{len(cells)}", "metadata": {}, "source": text.splitlines(True)}
        if kind == "code":
            cell |= {"execution_count": sum(c["cell_type"] == "code" for c in cells) + 1}
            cell |= {"outputs": [_output(output) for output in outputs]}
        cells.append(cell)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _output(output: Any) -> dict[str, Any]:
    """An output as a kernel writes it below a cell: printed text, a table, or a picture."""
    if isinstance(output, str):
        return {"output_type": "stream", "name": "stdout", "text": output.splitlines(True)}
    if isinstance(output, Table):
        data = {"text/html": output.to_html(), "text/plain": output.to_text()}
    else:
        with tempfile.TemporaryDirectory() as folder:
            png = save_plot(output, Path(folder) / "plot.png").read_bytes()
        data = {"image/png": base64.b64encode(png).decode(), "text/plain": "<Figure>"}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _cells(result: Result, run: Run, info: DataInfo) -> list[tuple[Any, ...]]:
    """Each cell: its kind, its text, and the output of code."""
    record, test, counts = result.record, result.record["test"], info.counts
    model = run.model  # type: ignore[attr-defined]
    augmented = "" if isinstance(run, TextRun) else _augmented(run)
    return [
        (
            "markdown",
            f"# {run.task.capitalize()} on {info.name}\n\n"
            f"A {type(model).__name__.removesuffix('Config')} of {record['parameters']:,} parameters, trained for "
            f"{run.epochs} epochs. Test accuracy: {format_accuracy(test['accuracy'], test['count'])}.",
        ),
        (
            "code",
            "%matplotlib inline\n"
            "from headwork import training\nfrom headwork.inspection import figures, run_report\n"
            "from IPython.display import HTML, display\n\n"
            f"folder = {json.dumps(str(result.folder.resolve()))}\n"
            "run = training.load_run(folder)\nresult = training.Result.read(folder)\n"
            "display(HTML(run_report.settings_table(run).to_html()))",
            settings_table(run),
        ),
        (
            "markdown",
            f"## The data\n\n{counts['training']:,} examples to train on, {counts['validation']:,} held out for "
            f"validation, {test['count']:,} for the test, {len(info.classes)} classes: {', '.join(info.classes)}.\n\n"
            + "\n".join(f"- {note}" for note in info.notes),
        ),
        (
            "markdown",
            "## The model\n\n"
            + "\n".join(f"- {name}: {value}" for name, value in asdict(model).items())
            + "\n\nThe parameters, layer by layer:",
        ),
        (
            "code",
            "model = training.load_model(folder)\ndisplay(HTML(run_report.parameters_table(model).to_html()))",
            parameters_table(load_model(result.folder, log=quiet)),
        ),
        (
            "markdown",
            "## How it is trained\n\n"
            f"{_optimiser(run)}; batches of {run.batch_size}; the learning rate rises over the first {run.warm_up:.0%} of the "
            f"steps to {run.learning_rate:g} and falls along half a cosine to 0; "
            f"weight decay {run.weight_decay:g} on matrices; label smoothing {run.label_smoothing:g}; "
            f"gradients clipped at norm {run.max_grad_norm:g}. {augmented}".rstrip(),
        ),
        ("code", "display(figures.rates(run, result.record['steps']))", figures.rates(run, record["steps"])),
        ("markdown", f"## Curves\n\n{figures.curves_caption(run)}"),
        (
            "code",
            "display(figures.curves({run.task: result.metrics}))",
            figures.curves({run.task: result.metrics}),
        ),
        ("markdown", "Epoch by epoch:"),
        (
            "code",
            "display(HTML(run_report.epochs_table(result.metrics).to_html()))",
            epochs_table(result.metrics),
        ),
        (
            "markdown",
            "## The test\n\nThe test set is used once, at the end. No epoch is chosen by it. "
            "The interval is Wilson's.",
        ),
        ("code", "display(HTML(run_report.result_table(result, run).to_html()))", result_table(result, run)),
        ("markdown", figures.CONFUSION_CAPTION),
        (
            "code",
            "classes = training.load_data_info(folder).classes\n"
            "display(figures.confusion(result.record['confusion'], classes))",
            figures.confusion(record["confusion"], info.classes),
        ),
        ("markdown", "## Where it goes wrong\n\nThe most confident wrong predictions."),
        (
            "code",
            "display(HTML(run_report.mistakes_table(result, classes).to_html()))",
            mistakes_table(result, info.classes),
        ),
        (
            "markdown",
            "## To repeat it\n\nThe seed decides the split, the initial parameters, the order and all random draws.",
        ),
        ("code", "# training.train(run, 'runs/again')\nprint(training.as_text(run))", as_text(run) + "\n"),
    ]


def _optimiser(run: Run) -> str:
    parts = ["Muon for the matrices of blocks"] if run.optimiser == "muon" else []
    parts += ["SGD with momentum for the n-gram table"] if getattr(run.model, "ngrams", 0) else []  # type: ignore[attr-defined]
    return ", ".join([*parts, "AdamW for the rest"]) if parts else "AdamW"


def _augmented(run: Any) -> str:
    chosen = run.augmentation
    changes = [
        *(["flipped left and right"] if chosen.flip else []),
        *([f"shifted by up to {chosen.shift} pixels"] if chosen.shift else []),
        *([f"a rectangle of {chosen.erase:.0%} of them erased"] if chosen.erase else []),
    ]
    if not changes:
        return "Images are not augmented."
    return f"Images are {', '.join(changes)} at random, differently in each epoch."
