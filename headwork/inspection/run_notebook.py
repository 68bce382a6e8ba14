"""The report on a finished run as a notebook of explained cells, ready to hand in."""

import base64
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwork.files import write_atomic
from headwork.inspection import figures, run_report
from headwork.inspection.predictions import format_accuracy
from headwork.pages import Table, save_plot
from headwork.pages.notebooks import NotebookCell, notebook_text
from headwork.training.examples import DataInfo
from headwork.training.folders import Result, load_data_info, load_model, load_run
from headwork.training.progress import quiet
from headwork.training.recipes import RunConfig, VisionRun, as_text


def write_notebook(folder: str | Path, out: Path | None = None) -> Path:
    """Write a finished run as a notebook; into its own folder unless ``out`` is given."""
    result = Result.read(folder)
    return write_atomic(out or result.folder / "report.ipynb", notebook(result))


def notebook(result: Result) -> str:
    """The run as cells with their outputs: ready to be read, and to be run from top to bottom."""
    cells = _cells(result, load_run(result.folder), load_data_info(result.folder))
    return notebook_text(
        (NotebookCell(kind, text, {}, tuple(map(_output, outputs))) for kind, text, *outputs in cells), "run"
    )


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


def _cells(result: Result, run: RunConfig, info: DataInfo) -> list[tuple[Any, ...]]:
    """Each cell: its kind, its text, and the output of code."""
    record, test, counts = result.record, result.record["test"], info.counts
    model = run.model  # type: ignore[attr-defined]
    kind = type(model).__name__.removesuffix("Config")
    return [
        (
            "markdown",
            f"# {run.task.capitalize()} on {info.name}\n\nA {kind} of {record['parameters']:,} parameters, "
            f"trained for {run.epochs} epochs. "
            f"Test accuracy: {format_accuracy(test['accuracy'], test['count'])}.",
        ),
        _table(
            "settings_table(run)",
            run_report.settings_table(run),
            "%matplotlib inline\n"
            "from headwork import training\nfrom headwork.inspection import figures, run_report\n"
            "from IPython.display import HTML, display\n\n"
            f"folder = {json.dumps(str(result.folder.resolve()))}\n"
            "run = training.load_run(folder)\nresult = training.Result.read(folder)\n",
        ),
        (
            "markdown",
            f"## The data\n\n{counts['training']:,} examples to train on, {counts['validation']:,} held out "
            f"for validation, {test['count']:,} for the test, {len(info.classes)} classes: "
            f"{', '.join(info.classes)}.\n\n" + "\n".join(f"- {note}" for note in info.notes),
        ),
        (
            "markdown",
            "## The model\n\n"
            + "\n".join(f"- {name}: {value}" for name, value in asdict(model).items())
            + "\n\nThe parameters, layer by layer:",
        ),
        _table(
            "parameters_table(model)",
            run_report.parameters_table(load_model(result.folder, log=quiet)),
            "model = training.load_model(folder)\n",
        ),
        (
            "markdown",
            f"## How it is trained\n\n{_optimiser(run)}; batches of {run.batch_size}; the learning rate "
            f"rises over the first {run.warm_up:.0%} of the steps to {run.learning_rate:g} and falls along "
            f"half a cosine to 0; weight decay {run.weight_decay:g} on matrices; label smoothing "
            f"{run.label_smoothing:g}; gradients clipped at norm {run.max_grad_norm:g}.{_augmented(run)}",
        ),
        (
            "code",
            "display(figures.schedule_figure(run, result.record['steps']))",
            figures.schedule_figure(run, record["steps"]),
        ),
        ("markdown", f"## Curves\n\n{figures.curves_caption(run)}"),
        (
            "code",
            "display(figures.curves({run.task: result.metrics}))",
            figures.curves({run.task: result.metrics}),
        ),
        ("markdown", "Epoch by epoch:"),
        _table("epochs_table(result.metrics)", run_report.epochs_table(result.metrics)),
        ("markdown", "## The test\n\nThe test set is used once, at the end. The interval is Wilson's."),
        _table("result_table(result, run)", run_report.result_table(result, run)),
        ("markdown", figures.CONFUSION_CAPTION),
        (
            "code",
            "classes = training.load_data_info(folder).classes\n"
            "display(figures.confusion_figure(result.record['confusion'], classes))",
            figures.confusion_figure(record["confusion"], info.classes),
        ),
        ("markdown", "## Where it goes wrong\n\nThe most confident wrong predictions."),
        _table("mistakes_table(result, classes)", run_report.mistakes_table(result, info.classes)),
        ("markdown", "## To repeat it\n\nThe seed decides everything that is random."),
        ("code", "# training.train(run, 'runs/again')\nprint(training.as_text(run))", as_text(run) + "\n"),
    ]


def _table(call: str, table: Table, before: str = "") -> tuple[str, str, Table]:
    """A cell that shows a table of the report."""
    return "code", f"{before}display(HTML(run_report.{call}.to_html()))", table


def _optimiser(run: RunConfig) -> str:
    parts = ["Muon for the matrices of blocks"] if run.optimiser == "muon" else []
    if getattr(getattr(run, "model", None), "ngrams", 0):
        parts.append("SGD with momentum for the n-gram table")
    return ", ".join([*parts, "AdamW for the rest"]) if parts else "AdamW"


def _augmented(run: RunConfig) -> str:
    if not isinstance(run, VisionRun):
        return ""
    changes = ["flipped left and right"] if run.augmentation.flip else []
    changes += [f"shifted by up to {run.augmentation.shift} pixels"] if run.augmentation.shift else []
    changes += [f"{run.augmentation.erase:.0%} of them partly erased"] if run.augmentation.erase else []
    listed = f"{', '.join(changes)} at random, differently in each epoch" if changes else "not augmented"
    return f" Images are {listed}."
