"""The report on a finished run, as one offline page: settings, curves, heads, confusion matrix, mistakes."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwork.data import Images, Texts
from headwork.data.fetching import Log, to_stderr
from headwork.files import write_atomic
from headwork.inspection import figures
from headwork.inspection.predictions import format_accuracy
from headwork.models import Model, VisionTransformerConfig
from headwork.pages import Table, figure, heading, page, plot_svg, save_plot
from headwork.training.folders import Result, load_data_info, load_model, load_run
from headwork.training.preparation import prepare
from headwork.training.progress import format_duration, quiet
from headwork.training.recipes import RunConfig, TextRun, VisionRun
from headwork.training.runs import check_data

REPORT = "report.html"


def write_report(run: str | Path | Result, out: Path | None = None, *, log: Log = to_stderr) -> Path:
    """Write the page of a finished run; unless ``out`` is given into its folder, with the curves."""
    result = run if isinstance(run, Result) else Result.read(run)
    text = html(result, result.data or _load_data(result.folder, log))
    if out is None:
        title, caption = result.folder.name, figures.curves_caption(load_run(result.folder))
        picture = figures.curves({title: result.metrics}, title, caption)
        for suffix in ("png", "svg"):
            save_plot(picture, result.folder / f"curves.{suffix}")
    return write_atomic(out or result.folder / REPORT, text)  # last: it tells that the rest is there


def _load_data(folder: Path, log: Log) -> Images | Texts | None:
    """The images that a run was trained on; the page of texts needs none."""
    run = load_run(folder)
    if isinstance(run, TextRun):
        return None
    prepared = prepare(run, log=log)
    check_data(folder, load_data_info(folder), prepared.info)
    return prepared.data


def html(result: Result, data: Images | Texts | None) -> str:
    """The page of a run."""
    run, info = load_run(result.folder), load_data_info(result.folder)
    picture = figures.curves({result.folder.name: result.metrics})
    confusion = figures.confusion_figure(result.record["confusion"], info.classes)
    return page(
        f"{result.folder.name}: {run.task} on {info.name}",
        result_table(result, run),
        heading("Curves"),
        figure(plot_svg(picture, "loss and accuracy by epoch"), figures.curves_caption(run)),
        epochs_table(result.metrics),
        *_heads(run, result.folder, data),
        heading("Confusion matrix"),
        figure(plot_svg(confusion, "confusion matrix"), figures.CONFUSION_CAPTION),
        heading("The most confident mistakes"),
        *_mistakes(result, info.classes, data),
        heading("Settings"),
        settings_table(run),
        Table("", ("data",), [(note,) for note in info.notes]),
        about="How it was trained, how good it is, and where it goes wrong.",
    )


# --- tables -------------------------------------------------------------------------------------
def settings_table(run: RunConfig) -> Table:
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
    """Loss and accuracy of training and validation, epoch by epoch."""
    rows, lines = [], figures.epochs_of(metrics)
    parts = [part for part in ("training", "validation") if part in lines[-1]]
    for line in lines:
        cells = [text for p in parts for text in (f"{line[p]['loss']:.4f}", f"{line[p]['accuracy']:.2%}")]
        rows.append((line["epoch"], *cells, format_duration(line["seconds"])))
    columns = [f"{part} {measure}" for part in parts for measure in ("loss", "accuracy")]
    return Table("Epochs", ("epoch", *columns, "time"), rows)


def result_table(result: Result, run: RunConfig) -> Table:
    record = result.record
    test = record["test"]
    rows: list[tuple[Any, ...]] = [
        ("test accuracy", format_accuracy(test["accuracy"], test["count"])),
        ("test loss", f"{test['loss']:.4f}"),
        ("validation accuracy", f"{valid['accuracy']:.2%}" if (valid := record["validation"]) else "none"),
        ("parameters", record["parameters"]),
        ("steps", record["steps"]),
        ("time", format_duration(record["seconds"])),
        ("threads", record["threads"]),
        ("seed", run.seed),
    ]
    if "baseline" in record:
        other = record["baseline"]
        rows.insert(1, (other["name"], f"{other['accuracy']:.2%}, fitted on the same texts"))
    note = "The model after the last epoch. The test set was used once, at the end, and chose no epoch."
    return Table("Result", ("quantity", "value"), rows, [note])


def mistakes_table(result: Result, classes: tuple[str, ...]) -> Table:
    """The most confident wrong predictions; a test image by its index."""
    rows = [
        (m.get("text", m["place"]), classes[m["label"]], classes[m["said"]], f"{m['probability']:.0%}")
        for m in result.record["mistakes"]
    ]
    first = "text" if rows and isinstance(rows[0][0], str) else "test image"
    notes = [] if rows else ["There are none."]
    return Table("", (first, "true", "predicted", "probability"), rows, notes)


# --- pictures -----------------------------------------------------------------------------------
def _mistakes(result: Result, classes: tuple[str, ...], data: Images | Texts | None) -> list[Any]:
    wrong = result.record["mistakes"]
    if not wrong or not isinstance(data, Images):
        return [mistakes_table(result, classes) if wrong else "There are none."]
    captions = []
    for mistake in wrong:
        true, predicted = (figures.plain(classes[mistake[name]], 12) for name in ("label", "said"))
        captions.append(f"{true}\n{predicted}? {mistake['probability']:.0%}")
    picture = figures.image_figure(data.test.images[[mistake["place"] for mistake in wrong]], captions)
    return [figure(plot_svg(picture, "mistakes"), "The true class, and the prediction with its probability.")]


def head_figure(run: RunConfig, folder: Path, data: Images | Texts | None) -> Any | None:
    """The heads of a vision transformer, before and after training; None where there are no such heads."""
    if not isinstance(run, VisionRun) or not isinstance(run.model, VisionTransformerConfig):
        return None
    if run.model.attention != "softmax" or not isinstance(data, Images):
        return None
    prepared = prepare(run, log=quiet, data=data)
    examples = prepared.validation if len(prepared.validation.labels) else prepared.training
    images = examples.batch(examples.sequential_batches(64)[0])[0][0]
    start: Any = prepared.new_model()
    end: Any = prepared.complete(load_model(folder, log=quiet))
    return figures.attention_figure(start, end, images)


def _heads(run: RunConfig, folder: Path, data: Images | Texts | None) -> list[Any]:
    picture = head_figure(run, folder, data)
    if picture is None:
        return []
    caption = "Mean attention weight by offset to the other patch (+ is offset 0), on 64 images."
    if getattr(run, "initialisation", "") == "convolution":
        caption += " Each head was built to attend to one of its nine neighbours."
    return [
        heading("Where the heads attend"),
        figure(plot_svg(picture, "heads before and after training"), caption),
    ]
