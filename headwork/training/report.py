"""A finished run told: as one offline page, and as a notebook of explained cells, ready to hand in."""

from __future__ import annotations

import base64
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwork.data import Images, Texts
from headwork.files import write_whole
from headwork.models import Model, VisionTransformerConfig
from headwork.pages import Table, figure, heading, page, plot_svg, save_plot
from headwork.training import figures
from headwork.training.evaluation import accuracy_told
from headwork.training.examples import prepare
from headwork.training.folders import TOKENIZER, Result, load_facts, load_model, load_run
from headwork.training.heads import heads
from headwork.training.progress import clock, quiet, tell
from headwork.training.recipes import Run, TextRun, VisionRun, as_text
from headwork.training.runs import check_facts


def settings_table(run: Run) -> Table:
    """Every field of a run, dotted."""
    rows: list[tuple[Any, ...]] = []
    for name, value in asdict(run).items():
        rows += [(f"{name}.{k}", v) for k, v in value.items()] if isinstance(value, dict) else [(name, value)]
    return Table("", ("field", "value"), rows)


def parameters_table(model: Model) -> Table:
    """Every tensor of a model, with its shape and size."""
    rows = [(name, tuple(value.shape), value.numel()) for name, value in model.named_parameters()]
    return Table("", ("name", "shape", "parameters"), [*rows, ("all", "", model.parameter_count)])


def epochs_table(metrics: figures.Metrics) -> Table:
    rows = [
        (
            line["epoch"],
            f"{line['training']['loss']:.4f}",
            f"{line['training']['accuracy']:.2%}",
            f"{line['validation']['loss']:.4f}",
            f"{line['validation']['accuracy']:.2%}",
            clock(line["seconds"]),
        )
        for line in figures.epochs_of(metrics)
    ]
    columns = (
        "epoch",
        "training loss",
        "training accuracy",
        "validation loss",
        "validation accuracy",
        "time",
    )
    return Table("Epochs", columns, rows)


def result_table(result: Result, run: Run) -> Table:
    told = result.told
    test = told["test"]
    rows: list[tuple[Any, ...]] = [
        ("test accuracy", accuracy_told(test["accuracy"], test["count"])),
        ("test loss", f"{test['loss']:.4f}"),
        ("validation accuracy", f"{told['validation']['accuracy']:.2%}"),
        ("parameters", told["parameters"]),
        ("steps", told["steps"]),
        (
            "time",
            clock(told["seconds"]) + (f" (forecast {clock(told['forecast'])})" if told["forecast"] else ""),
        ),
        ("threads", told["threads"]),
        ("seed", run.seed),
    ]
    if "baseline" in told:
        rows.insert(
            1, (told["baseline"]["name"], f"{told['baseline']['accuracy']:.2%}, fitted on the same texts")
        )
    note = "The last epoch's model; no epoch was picked by the test set, which was touched once, at the end."
    return Table("Result", ("what", "value"), rows, [note])


def write_report(folder: str | Path, form: str, out: Path | None = None) -> Path:
    """Write a finished run as a notebook or as a page; into its own folder unless told."""
    result = Result.read(folder)
    if form == "notebook":
        return write_whole(out or result.folder / "report.ipynb", notebook(result))
    run: Any = load_run(result.folder)
    kept = result.folder / TOKENIZER
    prepared = prepare(run, tokenizer=kept.read_bytes() if kept.exists() else None, say=tell)
    check_facts(result.folder, load_facts(result.folder), prepared.facts)
    return write_whole(out or result.folder / "report.html", html(result, prepared.shown))


def html(result: Result, data: Images | Texts) -> str:
    """The page of a run."""
    run, facts = load_run(result.folder), load_facts(result.folder)
    picture = figures.curves({result.folder.name: result.metrics})
    counts = figures.confusion(result.told["confusion"], facts.classes)
    return page(
        f"{result.folder.name}: {run.task} on {facts.name}",
        result_table(result, run),
        heading("Curves"),
        figure(plot_svg(picture, "loss and accuracy by epoch"), figures.curves_caption(run)),
        epochs_table(result.metrics),
        *where_heads_look(run, result.folder, data),
        heading("What is taken for what"),
        figure(
            plot_svg(counts, "confusion matrix"),
            "Rows are the true classes, columns what was said, on the test set.",
        ),
        heading("The surest mistakes"),
        *mistakes(result, facts.classes, data),
        heading("Settings"),
        settings_table(run),
        Table("", ("data",), [(note,) for note in facts.notes]),
        about="How it was trained, how good it is, and where it goes wrong.",
    )


def picture_of_heads(run: Run, folder: Path, data: Images | Texts) -> Any | None:
    """The heads of a vision transformer, as they started and as they are now; None where there are no such heads."""
    if not isinstance(run, VisionRun) or not isinstance(run.model, VisionTransformerConfig):
        return None
    if run.model.attention != "softmax" or not isinstance(data, Images):
        return None
    prepared = prepare(run, say=quiet, data=data)
    images = prepared.validation.batch(prepared.validation.in_order(64)[0])[0][0]
    start: Any = prepared.model()
    end: Any = prepared.tokenized(load_model(folder, say=quiet))
    return heads(start, end, images)


def where_heads_look(run: Run, folder: Path, data: Images | Texts) -> list[Any]:
    picture = picture_of_heads(run, folder, data)
    if picture is None:
        return []
    caption = (
        "Mean attention weight on the patch so far away (+ is the patch itself), on 64 validation images."
    )
    if getattr(run, "start", "") == "convolution":
        caption += " Each head was built to look at one of its nine neighbours."
    return [
        heading("Where the heads look"),
        figure(plot_svg(picture, "heads at the start and at the end"), caption),
    ]


def mistakes(result: Result, classes: tuple[str, ...], data: Images | Texts) -> list[Any]:
    """Wrong answers of which the model was surest: pictures, or sentences."""
    found = result.told["mistakes"]
    if found and isinstance(data, Images):
        captions = [
            f"{figures.plain(classes[m['label']], 12)}\n{figures.plain(classes[m['said']], 12)}? {m['probability']:.0%}"
            for m in found
        ]
        images = data.test.images[[m["place"] for m in found]]
        return [
            figure(plot_svg(figures.pictures(images, captions), "mistakes"), "What it is, and what was said.")
        ]
    return [mistakes_table(result, classes) if found else "There are none."]


def mistakes_table(result: Result, classes: tuple[str, ...]) -> Table:
    """The same in words; a test image is told by its number."""
    rows = [
        (m.get("text", m["place"]), classes[m["label"]], classes[m["said"]], f"{m['probability']:.0%}")
        for m in result.told["mistakes"]
    ]
    first = "text" if rows and isinstance(rows[0][0], str) else "test image"
    return Table("", (first, "is", "said", "sure"), rows, [] if rows else ["There are none."])


# --- the notebook -------------------------------------------------------------------------------


def notebook(result: Result) -> str:
    """The run as cells that explain and show it, with what they show: ready to be read, and run, from top to bottom."""
    run, facts = load_run(result.folder), load_facts(result.folder)
    cells: list[dict[str, Any]] = []
    for kind, text, *shown in _cells(result, run, facts):
        cell = {
            "cell_type": kind,
            "id": f"run-{len(cells)}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        if kind == "code":
            cell |= {"execution_count": sum(c["cell_type"] == "code" for c in cells) + 1}
            cell |= {"outputs": [_output(one) for one in shown]}
        cells.append(cell)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _output(shown: Any) -> dict[str, Any]:
    """What a kernel would put below a cell: printed text, a table, or a picture."""
    if isinstance(shown, str):
        return {"output_type": "stream", "name": "stdout", "text": shown.splitlines(keepends=True)}
    if isinstance(shown, Table):
        data = {"text/html": shown.to_html(), "text/plain": shown.to_text()}
    else:
        with tempfile.TemporaryDirectory() as place:
            written = save_plot(shown, Path(place) / "plot.png").read_bytes()
        data = {"image/png": base64.b64encode(written).decode(), "text/plain": "<Figure>"}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _cells(result: Result, run: Run, facts: Any) -> list[tuple[Any, ...]]:
    """Each cell: its kind, its text, and what code shows."""
    test = result.told["test"]
    counts = facts.counts
    model = run.model  # type: ignore[attr-defined]
    augmented = "" if isinstance(run, TextRun) else _augmented(run)
    return [
        (
            "markdown",
            f"# {run.task.capitalize()} on {facts.name}\n\n"
            f"A {type(model).__name__.removesuffix('Config')} of {result.told['parameters']:,} parameters, trained for "
            f"{run.epochs} epochs. Test accuracy: {accuracy_told(test['accuracy'], test['count'])}.",
        ),
        (
            "code",
            "%matplotlib inline\n"
            "from headwork import training\nfrom headwork.training import figures, report\n"
            "from IPython.display import HTML, display\n\n"
            f"folder = {json.dumps(str(result.folder.resolve()))}\n"
            "run = training.load_run(folder)\nresult = training.Result.read(folder)\n"
            "display(HTML(report.settings_table(run).to_html()))",
            settings_table(run),
        ),
        (
            "markdown",
            f"## The data\n\n{counts['training']:,} examples to train on, {counts['validation']:,} held out for "
            f"validation, {test['count']:,} for the test, {len(facts.classes)} classes: {', '.join(facts.classes)}.\n\n"
            + "\n".join(f"- {note}" for note in facts.notes),
        ),
        (
            "markdown",
            "## The model\n\n" + _model_told(model) + "\n\nThe parameters, layer by layer:",
        ),
        (
            "code",
            "model = training.load_model(folder)\ndisplay(HTML(report.parameters_table(model).to_html()))",
            parameters_table(load_model(result.folder, say=quiet)),
        ),
        (
            "markdown",
            "## How it is trained\n\n"
            f"{_optimiser_told(run)}; batches of {run.batch}; the rate rises over the first {run.warm_up:.0%} of the "
            f"steps to {run.learning_rate:g} and falls along half a cosine to 0; "
            f"weight decay {run.weight_decay:g} on matrices; label smoothing {run.smoothing:g}; "
            f"gradients clipped at norm {run.clipping:g}. {augmented}".rstrip(),
        ),
        (
            "code",
            "display(figures.rates(run, result.told['steps']))",
            figures.rates(run, result.told["steps"]),
        ),
        ("markdown", f"## Curves\n\n{figures.curves_caption(run)}"),
        (
            "code",
            "display(figures.curves({run.task: result.metrics}))",
            figures.curves({run.task: result.metrics}),
        ),
        ("markdown", "Epoch by epoch:"),
        (
            "code",
            "display(HTML(report.epochs_table(result.metrics).to_html()))",
            epochs_table(result.metrics),
        ),
        (
            "markdown",
            "## The test\n\nThe test set is touched once, after the last step. No epoch is picked by it. "
            "The interval is Wilson's.",
        ),
        ("code", "display(HTML(report.result_table(result, run).to_html()))", result_table(result, run)),
        ("markdown", "Rows are the true classes, columns what was said."),
        (
            "code",
            "classes = training.load_facts(folder).classes\n"
            "display(figures.confusion(result.told['confusion'], classes))",
            figures.confusion(result.told["confusion"], facts.classes),
        ),
        ("markdown", "## Where it goes wrong\n\nThe wrong answers of which the model was surest."),
        (
            "code",
            "display(HTML(report.mistakes_table(result, classes).to_html()))",
            mistakes_table(result, facts.classes),
        ),
        ("markdown", "## To repeat it\n\nThe seed decides the split, the start, the order and every draw."),
        ("code", "# training.train(run, 'runs/again')\nprint(training.as_text(run))", as_text(run) + "\n"),
    ]


def _optimiser_told(run: Run) -> str:
    parts = ["Muon for the matrices of blocks"] if run.optimiser == "muon" else []
    parts += ["descent with momentum for the table of n-grams"] if getattr(run.model, "ngrams", 0) else []  # type: ignore[attr-defined]
    return ", ".join([*parts, "AdamW for all else"]) if parts else "AdamW"


def _model_told(model: Any) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in asdict(model).items())


def _augmented(run: Any) -> str:
    chosen = run.augmentation
    told = [
        word
        for word, on in (
            ("flipped left and right", chosen.flip),
            (f"shifted by up to {chosen.shift} pixels", chosen.shift),
            (f"a rectangle of {chosen.erase:.0%} of them erased", chosen.erase),
        )
        if on
    ]
    return (
        f"Images are {', '.join(told)} at random, anew in each epoch."
        if told
        else "Images are taken as they are."
    )
