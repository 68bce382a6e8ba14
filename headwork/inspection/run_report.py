"""The report on a finished run: its result, curves, heads, confusion matrix, mistakes, settings.

A run can also be evaluated again, on its own or other data.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from headwork.data import Images, Texts
from headwork.data.catalog import get_entry
from headwork.data.fetching import Log, to_stderr
from headwork.data.summaries import plot_label
from headwork.documents import Code, Details, Document, FigureBlock, Heading, Prose, Table, save_figure
from headwork.errors import InputError
from headwork.files import load_package_toml, toml_text, write_atomic
from headwork.inspection import figures
from headwork.inspection.inspecting import inspect_test_images
from headwork.inspection.model_on_input import ArrayModel
from headwork.inspection.predictions import with_former_names
from headwork.models import VisionTransformerConfig
from headwork.training import run_folders
from headwork.training.evaluation import Evaluation, evaluate, wilson_interval
from headwork.training.examples import Examples, ImageExamples
from headwork.training.preparation import PreparedRun, prepare
from headwork.training.progress import format_duration, quiet
from headwork.training.recipes import RunConfig, TextRunConfig, VisionRunConfig
from headwork.training.run_folders import DataInfo, Result, load_data_info, load_model, load_run_config
from headwork.training.runs import check_data

REPORT = "report.html"
WORDS = load_package_toml(__file__, "words.toml")


def write_report(run: str | Path | Result, out: Path | None = None, *, log: Log = to_stderr) -> Path:
    """Write the page of a finished run; unless ``out`` is given into its folder, with the curves."""
    result = run if isinstance(run, Result) else Result.read(run)
    text = run_document(result, result.data or load_data_of(result.folder, log)).to_html()
    if out is None:
        title, caption = result.folder.name, figures.curves_caption(load_run_config(result.folder))
        figure = figures.curves({title: result.metrics}, title, caption)
        for suffix in ("png", "svg"):
            save_figure(figure, result.folder / f"curves.{suffix}")
    return write_atomic(out or result.folder / REPORT, text)  # last: it tells that the rest is there


def load_data_of(folder: Path, log: Log = to_stderr) -> Images | Texts | None:
    """The images that a run was trained on; the report on texts needs none."""
    run = load_run_config(folder)
    if isinstance(run, TextRunConfig):
        return None
    prepared = prepare(run, log=log)
    check_data(folder, load_data_info(folder), prepared.info)
    return prepared.data


def run_document(result: Result, data: Images | Texts | None, *, folder: str = ".") -> Document:
    """The report on a run; code in it finds the run in ``folder``, as seen from the notebook."""
    run, info, record = load_run_config(result.folder), load_data_info(result.folder), result.record
    config = run.model  # type: ignore[attr-defined]
    kind = type(config).__name__.removesuffix("Config")
    test, counts = record["test"], info.counts
    epochs = epochs_table(result.metrics)
    if isinstance(data, Images) and len(data.test.labels) != test["count"]:
        raise InputError(f"{result.folder / run_folders.RESULT}: its test images are not those of the data.")
    examples_text = (
        f"{counts['training']:,} examples to train on, {counts['validation']:,} held out for validation, "
        f"{test['count']:,} for the test, {len(info.classes)} classes: {', '.join(info.classes)}."
    )
    return Document(
        f"{result.folder.name}: {run.task} on {info.name}",
        (
            f"A {kind} of {record['parameters']:,} parameters, trained for {run.epochs} epochs. Test "
            f"accuracy: {format_accuracy(test['accuracy'], test['count'])}.",
            Code(SETUP.format(folder=toml_text(folder)), (result_table(result, run),)),
            *inspect_test_images(result, data),
            *_heads_section(run, result.folder, data),
            Heading("Curves"),
            _code_with_output(
                "figures.curves({result.folder.name: result.metrics})",
                figures.curves({result.folder.name: result.metrics}),
                "loss and accuracy by epoch",
            ),
            figures.curves_caption(run),
            Details("Every epoch", (_code_with_output("epochs_table(result.metrics)", epochs),)),
            Heading("Confusion matrix"),
            _code_with_output(
                "figures.confusion_figure(result.record['confusion'], classes)",
                figures.confusion_figure(record["confusion"], info.classes),
                "confusion matrix",
            ),
            figures.CONFUSION_CAPTION,
            Heading("The most confident mistakes"),
            *_mistakes_section(result, info.classes, data),
            *calibration(result, run, len(info.classes)),
            Heading("How it is trained"),
            Details("Optimiser and schedule", (Prose(_training_text(run)),)),
            Details("Data", tuple(map(Prose, (examples_text, *info.notes)))),
            Details(
                "Every field of the run", (_code_with_output("settings_table(run)", settings_table(run)),)
            ),
            "The seed decides everything that is random: training.train(run, 'runs/again') repeats the run.",
        ),
        about="How it was trained, how good it is, and where it goes wrong.",
        data=lambda: {"run": asdict(run), "classes": list(info.classes), **record},
    )


SETUP = """%matplotlib inline
from IPython.display import display

import headwork
from headwork import training
from headwork.inspection import figures, run_report

folder = {folder}  # of the run, as seen from here
run, result = training.load_run_config(folder), training.Result.read(folder)
classes = training.load_data_info(folder).classes
display(run_report.result_table(result, run))
"""


def _code_with_output(call: str, part: Any, alt: str = "") -> Code:
    """A table or a figure, with the code that shows it."""
    owner = "" if alt else "run_report."
    return Code(f"display({owner}{call})", (FigureBlock(part, alt) if alt else part,))


def _training_text(run: RunConfig) -> str:
    optimisers = ["Muon for the matrices of blocks"] if run.optimiser == "muon" else []
    if getattr(getattr(run, "model", None), "ngrams", 0):
        optimisers.append("SGD with momentum for the n-gram table")
    optimiser = ", ".join([*optimisers, "AdamW for the rest"]) if optimisers else "AdamW"
    settings: dict[str, Any] = asdict(run) | {"optimiser": optimiser}
    return f"{WORDS['training']['optimiser'].format(**settings)}{_augmentation_text(run)}"


def _augmentation_text(run: RunConfig) -> str:
    if not isinstance(run, VisionRunConfig):
        return ""
    changes = ["flipped left and right"] if run.augmentation.flip else []
    changes += [f"shifted by up to {run.augmentation.shift} pixels"] if run.augmentation.shift else []
    changes += [f"{run.augmentation.erase:.0%} of them partly erased"] if run.augmentation.erase else []
    words = WORDS["training"]
    return str(words["images"].format(changes=", ".join(changes)) if changes else words["unchanged"])


# --- tables -------------------------------------------------------------------------------------
def settings_table(run: RunConfig) -> Table:
    """Every field of a run, dotted."""
    rows: list[tuple[Any, ...]] = []
    for name, value in asdict(run).items():
        rows += [(f"{name}.{k}", v) for k, v in value.items()] if isinstance(value, dict) else [(name, value)]
    return Table("", ("field", "value"), rows)


def epochs_table(metrics: figures.Metrics) -> Table:
    """Loss and accuracy of training and validation, epoch by epoch."""
    rows, lines = [], figures.finished_epochs(metrics)
    parts = [part for part in ("training", "validation") if all(line.get(part) for line in lines)]
    for line in lines:
        cells = [text for p in parts for text in (f"{line[p]['loss']:.4f}", f"{line[p]['accuracy']:.2%}")]
        rows.append((line["epoch"], *cells, format_duration(line["seconds"])))
    columns = [f"{part} {measure}" for part in parts for measure in ("loss", "accuracy")]
    return Table("Epochs", ("epoch", *columns, "time"), rows)


def result_table(result: Result, run: RunConfig) -> Table:
    record = result.record
    test, valid = record["test"], record.get("validation")
    rows: list[tuple[Any, ...]] = [
        ("test accuracy", format_accuracy(test["accuracy"], test["count"])),
        ("test loss", f"{test['loss']:.4f}"),
        ("validation accuracy", f"{valid['accuracy']:.2%}" if valid else "none"),
        ("parameters", record["parameters"]),
        ("steps", record["steps"]),
        ("time", format_duration(record["seconds"])),
        ("threads", record["threads"]),
        ("seed", run.seed),
    ]
    if baseline := record.get("baseline"):
        rows.insert(1, (baseline["name"], f"{baseline['accuracy']:.2%}, fitted on the same texts"))
    note = "The model after the last epoch. The test set was used once, at the end, and chose no epoch."
    return Table("Result", ("quantity", "value"), rows, [note])


def mistakes_table(result: Result, classes: tuple[str, ...]) -> Table:
    """The most confident wrong predictions; a test image by its index."""
    rows = [
        (m.get("text") or m["place"], classes[m["label"]], classes[m["said"]], f"{m['probability']:.0%}")
        for m in result.record["mistakes"]
    ]
    first = "text" if rows and isinstance(rows[0][0], str) else "test image"
    notes = [] if rows else ["There are none."]
    return Table("", (first, "true", "predicted", "probability"), rows, notes)


def calibration(result: Result, run: RunConfig, classes: int) -> list[Any]:
    """Whether the model is right as often as it says."""
    bins = result.record.get("calibration")
    if not bins:  # trained before it was recorded
        return []
    total = sum(part["count"] for part in bins)
    gap = sum(part["count"] * abs(part["accuracy"] - part["confidence"]) for part in bins) / total
    rows: list[tuple[Any, ...]] = [
        (f"{p['from']:.0%} to {p['to']:.0%}", p["count"], f"{p['confidence']:.1%}", f"{p['accuracy']:.1%}")
        for p in bins
    ]
    words = WORDS["calibration"]["apart"].format(gap=gap)
    if smoothing := run.label_smoothing:
        most = 1 - smoothing + smoothing / classes
        by_design = WORDS["calibration"]["smoothed"].format(smoothing=smoothing, classes=classes, most=most)
        words = f"{words} {by_design}"
    columns = ("confidence", "examples", "mean confidence", "accuracy")
    return [Heading("Calibration"), Table("", columns, rows), words]


# --- pictures -----------------------------------------------------------------------------------
def _mistakes_section(result: Result, classes: tuple[str, ...], data: Images | Texts | None) -> list[Any]:
    wrong = result.record["mistakes"]
    if not wrong or not isinstance(data, Images):
        return [_code_with_output("mistakes_table(result, classes)", mistakes_table(result, classes))]
    captions = []
    for mistake in wrong:
        true, predicted = (plot_label(classes[mistake[name]], 12) for name in ("label", "said"))
        captions.append(f"{true}\n{predicted}? {mistake['probability']:.0%}")
    figure = figures.image_figure(data.test.images[[mistake["place"] for mistake in wrong]], captions)
    return [FigureBlock(figure, "mistakes", "The true class, and the prediction with its probability.")]


def head_figure(run: RunConfig, folder: Path, data: Images | Texts | None) -> Any | None:
    """The heads of a vision transformer, before and after training; None where there are none to show."""
    model: Any = getattr(run, "model", None)
    if not (isinstance(model, VisionTransformerConfig) and isinstance(data, Images)):
        return None
    if model.attention != "softmax":
        return None
    prepared = prepare(run, log=quiet, data=data)
    examples = prepared.validation if len(prepared.validation.labels) else prepared.training
    start: Any = prepared.new_model()
    if not (count := ArrayModel(start).inputs_at_once):
        return None
    images = examples.batch(examples.sequential_batches(count)[0])[0][0]
    end: Any = prepared.fit_to_run(load_model(folder, log=quiet))
    return figures.attention_figure(start, end, images)


def _heads_section(run: RunConfig, folder: Path, data: Images | Texts | None) -> list[Any]:
    figure = head_figure(run, folder, data)
    if figure is None:
        return []
    caption = "Mean attention weight by offset to the other patch (+ is offset 0), on at most 64 images."
    if getattr(run, "initialisation", "") == "convolution":
        caption += " Each head was built to attend to one of its nine neighbours."
    block = FigureBlock(figure, "heads before and after training", caption)
    return [Heading("Where the heads attend"), block]


# --- evaluated again ------------------------------------------------------------------------------
def evaluate_run(
    folder: str | Path, *, part: str = "", data: str = "", columns: Sequence[str] = (), log: Log = to_stderr
) -> tuple[Evaluation, DataInfo, str]:
    """Evaluate a run again, on its own or other ``data`` of the same classes; the last item names the data.

    The part is "validation" or "test"; unless named it is the test set, but validation for a run that is not
    finished. Of other data it is the test part that came with it, or else all of it.
    """
    path = run_folders.check_run_folder(run_folders.find_run(folder))
    run, info = load_run_config(path), load_data_info(path)
    if columns and not (data and isinstance(run, TextRunConfig)):
        raise InputError("--columns needs --data FILE and a run trained on texts.")
    model = load_model(path, log=log)
    tokenizer = run_folders.load_tokenizer_bytes(path) if isinstance(run, TextRunConfig) else None
    prepared = prepare(_with_data(run, info, data, columns) if data else run, tokenizer=tokenizer, log=log)
    parts = [part] if part else []
    # The run's own data stays so when it is named: most of it was trained on.
    if data and prepared.info.digest != info.digest:
        _check_alike(data, prepared.info, info)
        parts = parts or (["test"] if prepared.data.has_test_part else ["training", "validation", "test"])
    else:
        check_data(path, info, prepared.info)
        finished = (path / run_folders.RESULT).exists()
        parts = parts or ["test" if finished else "validation"]
        if parts == ["test"] and not finished:
            raise InputError(
                f"{path}: not finished, and the test set is used once, at the end. Ask for --part validation."
            )
    examples = [_examples(prepared, name, info) for name in parts]
    filled = [one for one in examples if len(one.labels)] or examples
    try:
        evaluation = _join([evaluate(model, one, run.batch_size) for one in filled])
    except InputError as error:
        raise InputError(f"{path}, {' and '.join(parts)}: {error}") from None
    part_name = parts[0] if len(parts) == 1 else f"all {len(evaluation.labels):,}"
    return evaluation, info, f"{part_name} of {prepared.info.name}"


def _with_data(run: RunConfig, info: DataInfo, data: str, columns: Sequence[str]) -> RunConfig:
    """The run with other data: images scaled to its size, columns of a file as its own were unless named."""
    in_catalog = get_entry(data) is not None
    changes: dict[str, Any] = {"data": data}
    if isinstance(run, TextRunConfig):
        changes["columns"] = tuple(columns) or (None if in_catalog else run.columns)
    else:
        changes["image_size"] = info.size if Path(data).is_dir() and not in_catalog else 0
    return replace(run, **changes)


def _check_alike(data: str, new: DataInfo, run_info: DataInfo) -> None:
    if new.classes != run_info.classes:
        raise InputError(
            f"{data}: its classes are {', '.join(new.classes)}; the run knows {', '.join(run_info.classes)}. "
            "Give data of the same classes."
        )
    shapes = [f"{info.channels} x {info.size} x {info.size}" for info in (new, run_info)]
    if shapes[0] != shapes[1]:
        raise InputError(
            f"{data}: images of {shapes[0]} (channel, height, width); the run takes {shapes[1]}."
        )


def _examples(prepared: PreparedRun, part: str, info: DataInfo) -> Examples:
    """A part of the data; images are normalised as the run's own were."""
    examples: Examples = prepared.read_test() if part == "test" else getattr(prepared, part)
    if isinstance(examples, ImageExamples):
        examples.info = info
    return examples


def _join(parts: list[Evaluation]) -> Evaluation:
    labels = torch.cat([part.labels for part in parts])
    loss = sum(part.loss * len(part.labels) for part in parts) / len(labels)
    return Evaluation(torch.cat([part.probabilities for part in parts]), labels, loss)


def format_accuracy(share: float, count: int) -> str:
    """An accuracy with its interval.

    >>> format_accuracy(1.0, 100)
    '100.00% of 100 (95% interval 96.30% to 100.00%)'
    """
    lower, upper = wilson_interval(share, count)
    return f"{share:.2%} of {count:,} (95% interval {lower:.2%} to {upper:.2%})"


def class_table(evaluation: Evaluation, classes: tuple[str, ...], title: str) -> Table:
    """Recall and precision of each class."""

    def share(count: int, total: int) -> str:
        return f"{count / total:.1%}" if total else "none"

    confusion = evaluation.confusion
    rows: list[tuple[Any, ...]] = []
    for number, name in enumerate(classes):
        correct, true = confusion[number][number], sum(confusion[number])
        predicted = sum(row[number] for row in confusion)
        rows.append((name, true, share(correct, true), share(correct, predicted)))
    accuracy = format_accuracy(evaluation.accuracy, len(evaluation.labels))
    notes = [f"accuracy {accuracy}, loss {evaluation.loss:.4f}"]
    columns = ("class", "examples", "recall", "precision")
    former = ("class", "examples", "found", "right when said")
    more = {**evaluation.summary(), "rows": with_former_names(columns, former, rows)}
    return Table(title, columns, rows, notes, more)
