"""A finished run told: as one offline page, and as a notebook of explained cells, ready to hand in."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwork.data import Images, Texts
from headwork.files import write_whole
from headwork.models import VisionTransformerConfig
from headwork.pages import Table, figure, heading, page, plot_svg
from headwork.training import figures
from headwork.training.examples import prepare
from headwork.training.folders import TOKENIZER, Result, load_facts, load_model, load_run
from headwork.training.heads import heads
from headwork.training.progress import clock, quiet, tell
from headwork.training.recipes import Run, TextRun, VisionRun
from headwork.training.runs import check_facts


def settings(run: Run) -> list[tuple[str, Any]]:
    """Every field of a run, dotted."""
    rows: list[tuple[str, Any]] = []
    for name, value in asdict(run).items():
        rows += [(f"{name}.{k}", v) for k, v in value.items()] if isinstance(value, dict) else [(name, value)]
    return rows


def epochs_table(metrics: figures.Metrics) -> Table:
    rows = [
        (line["epoch"], f"{line['training']['loss']:.4f}", f"{line['training']['accuracy']:.2%}",
         f"{line['validation']['loss']:.4f}", f"{line['validation']['accuracy']:.2%}", clock(line["seconds"]))
        for line in figures.epochs_of(metrics)
    ]  # fmt: skip
    columns = ("epoch", "training loss", "training accuracy", "validation loss", "validation accuracy", "time")
    return Table("Epochs", columns, rows)


def result_table(result: Result, run: Run) -> Table:
    told = result.told
    test = told["test"]
    rows: list[tuple[Any, ...]] = [
        ("test accuracy", f"{test['accuracy']:.2%} +-{test['margin']:.2%} (95%, {test['count']:,} examples)"),
        ("test loss", f"{test['loss']:.4f}"),
        ("validation accuracy", f"{told['validation']['accuracy']:.2%}"),
        ("parameters", told["parameters"]),
        ("steps", told["steps"]),
        ("time", clock(told["seconds"]) + (f" (forecast {clock(told['forecast'])})" if told["forecast"] else "")),
        ("threads", told["threads"]),
        ("seed", run.seed),
    ]
    if "baseline" in told:
        rows.insert(1, (told["baseline"]["name"], f"{told['baseline']['accuracy']:.2%}, fitted on the same texts"))
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
            plot_svg(counts, "confusion matrix"), "Rows are the true classes, columns what was said, on the test set."
        ),
        heading("The surest mistakes"),
        *mistakes(result, facts.classes, data),
        heading("Settings"),
        Table("", ("field", "value"), settings(run)),
        Table("", ("data",), [(note,) for note in facts.notes]),
        about="How it was trained, how good it is, and where it goes wrong.",
    )


def where_heads_look(run: Run, folder: Path, data: Images | Texts) -> list[Any]:
    """The heads of a vision transformer, as they started and as they are now."""
    if not isinstance(run, VisionRun) or not isinstance(run.model, VisionTransformerConfig):
        return []
    if run.model.attention != "softmax" or not isinstance(data, Images):
        return []
    prepared = prepare(run, say=quiet, data=data)
    images = prepared.validation.batch(prepared.validation.in_order(64)[0])[0][0]
    start: Any = prepared.model()
    end: Any = prepared.tokenized(load_model(folder, say=quiet))
    caption = (
        "Mean attention weight on the patch so far away (+ is the patch itself), on 64 validation images. "
        + ("Each head was built to look at one of its nine neighbours." if run.start == "convolution" else "")
    ).strip()  # fmt: skip
    return [
        heading("Where the heads look"),
        figure(plot_svg(heads(start, end, images), "heads at the start and at the end"), caption),
    ]


def mistakes(result: Result, classes: tuple[str, ...], data: Images | Texts) -> list[Any]:
    """Wrong answers of which the model was surest: pictures, or sentences."""
    found = result.told["mistakes"]
    if not found:
        return ["There are none."]
    if isinstance(data, Images):
        captions = [
            f"{figures.plain(classes[m['label']], 12)}\n{figures.plain(classes[m['said']], 12)}? {m['probability']:.0%}"
            for m in found
        ]
        images = data.test.images[[m["place"] for m in found]]
        return [figure(plot_svg(figures.pictures(images, captions), "mistakes"), "What it is, and what was said.")]
    rows = [(m["text"], classes[m["label"]], classes[m["said"]], f"{m['probability']:.0%}") for m in found]
    return [Table("", ("text", "is", "said", "sure"), rows)]


# --- the notebook -------------------------------------------------------------------------------


def notebook(result: Result) -> str:
    """The run as cells that explain and show it; they read the run's folder and run from top to bottom."""
    run, facts = load_run(result.folder), load_facts(result.folder)
    cells = [_cell(number, kind, text, result.folder) for number, (kind, text) in enumerate(_cells(result, run, facts))]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _cell(number: int, kind: str, text: str, folder: Path) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind, "id": f"run-{number}", "metadata": {}, "source": text.splitlines(keepends=True)
    }  # fmt: skip
    if kind != "code":
        return cell
    outputs = []
    if "curves(" in text and (folder / "curves.png").exists():
        import base64

        image = base64.b64encode((folder / "curves.png").read_bytes()).decode()
        outputs = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": image}}]
    return {**cell, "execution_count": None, "outputs": outputs}


def _cells(result: Result, run: Run, facts: Any) -> list[tuple[str, str]]:
    test = result.told["test"]
    counts = facts.counts
    model = run.model  # type: ignore[attr-defined]
    augmented = "" if isinstance(run, TextRun) else _augmented(run)
    return [
        (
            "markdown",
            f"# {run.task.capitalize()} on {facts.name}\n\n"
            f"A {type(model).__name__.removesuffix('Config')} of {result.told['parameters']:,} parameters, trained for "
            f"{run.epochs} epochs. Test accuracy **{test['accuracy']:.2%}** "
            f"(±{test['margin']:.2%}, {test['count']:,} examples).",
        ),
        (
            "code",
            "from headwork import training\nfrom IPython.display import HTML, display\n\n"
            f"folder = {json.dumps(str(result.folder.resolve()))}\n"
            "run = training.load_run(folder)\nresult = training.Result.read(folder)\nrun",
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
            "model = training.load_model(folder)\n"
            "for name, parameter in model.named_parameters():\n"
            "    print(f'{name:45} {str(tuple(parameter.shape)):18} {parameter.numel():>9,}')",
        ),
        (
            "markdown",
            "## How it is trained\n\n"
            f"AdamW with batches of {run.batch}; the rate rises over the first {run.warm_up:.0%} of the steps to "
            f"{run.learning_rate:g} and falls along half a cosine to 0; weight decay {run.weight_decay:g} on matrices; "
            f"label smoothing {run.smoothing:g}; gradients clipped at norm {run.clipping:g}. {augmented}".rstrip(),
        ),
        ("code", "from headwork.training.loop import schedule\n\n"
                 "steps = result.told['steps']\n"
                 "rates = [run.learning_rate * schedule(step, steps, run.warm_up) for step in range(steps)]\n"
                 "[round(rate, 6) for rate in rates[:: max(1, steps // 10)]]"),
        ("markdown", f"## Curves\n\n{figures.curves_caption(run)}"),
        ("code", "from headwork.training import figures\n\nfigures.curves({run.task: result.metrics})"),
        ("markdown", "Epoch by epoch:"),
        ("code", "from headwork.training import report\n\n"
                 "display(HTML(report.epochs_table(result.metrics).to_html()))"),
        (
            "markdown",
            "## The test\n\nThe test set is touched once, after the last step. No epoch is picked by it. The interval "
            "is the normal approximation, 1.96 times the square root of p(1 - p)/n.",
        ),
        ("code", "display(HTML(report.result_table(result, run).to_html()))"),
        ("markdown", "Rows are the true classes, columns what was said."),
        ("code", "classes = training.load_facts(folder).classes\nfigures.confusion(result.told['confusion'], classes)"),
        ("markdown", "## Where it goes wrong\n\nThe wrong answers of which the model was surest."),
        (
            "code",
            "for m in result.told['mistakes']:\n"
            "    told = f\"{classes[m['label']]} taken for {classes[m['said']]} ({m['probability']:.0%})\"\n"
            "    print(told, m.get('text', f\"test image {m['place']}\"), sep=': ')",
        ),
        ("markdown", "## To repeat it\n\nThe seed decides the split, the start, the order and every draw."),
        ("code", "# training.train(run, 'runs/again')\nprint(training.as_text(run))"),
    ]  # fmt: skip


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
    return f"Images are {', '.join(told)} at random, anew in each epoch." if told else "Images are taken as they are."
