"""``headwork curves``, ``evaluate``, ``predict``, ``export`` and ``report``: commands on runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.options import names
from headwork.cli.output import Output, check_is_file
from headwork.errors import InputError, unknown

RunFolder = Annotated[Path, Argument(help="The folder of the run.")]


@command("headwork curves runs/v10 runs/v30 runs/v50 --out curves.png", panel="Train")
def curves(
    runs: Annotated[list[Path], Argument(help="The folders of one or more runs.")],
    out: Annotated[Path, Option(help="The picture, .png or .svg.")] = Path("curves.png"),
) -> None:
    """Plot loss and accuracy of several runs together.

    Their results are printed in a table.
    """
    from headwork.inspection.run_comparison import compare_curves, compare_results

    picture = compare_curves(runs, out)
    Output().show(compare_results(runs))
    print(f"wrote {picture}")


@command("headwork evaluate runs/v10", "headwork evaluate runs/v10 --part validation --json", panel="Train")
def evaluate(
    output: Output,
    run: RunFolder,
    part: Annotated[str, Option(help="validation or test.")] = "",
    data: Annotated[str, Option(help="Other data of the same classes: its test part, or all.")] = "",
    columns: Annotated[str, Option(help="Of other texts in a file: review,stars.")] = "",
) -> None:
    """Evaluate a run again, class by class."""
    if part not in ("", "validation", "test"):
        raise unknown("--part", part, ["validation", "test"])
    from headwork.inspection.predictions import class_table, evaluate_run

    evaluation, info, label = evaluate_run(run, part=part, data=data, columns=names(columns))
    output.show(class_table(evaluation, info.classes, f"{run}: {label}"))


@command(
    "headwork predict runs/v10 --image boot.png",
    'headwork predict runs/imdb --text "A fine film."',
    panel="Train",
)
def predict(
    output: Output,
    run: RunFolder,
    image: Annotated[list[Path] | None, Option(help="An image; repeatable.")] = None,
    text: Annotated[list[str] | None, Option(help="A text; repeatable.")] = None,
) -> None:
    """Predict labels for images or text.

    Shows the probability of each prediction and the runners-up.
    """
    from headwork.inspection import predictions

    output.show(predictions.predict(run, images=image or [], texts=text or []))


@command(
    "headwork export runs/v10 --to onnx --out vit.onnx",
    "headwork export runs/v10 --to pretrained",
    panel="Train",
)
def export(
    run: RunFolder,
    to: Annotated[str, Option(help="onnx or pretrained.")] = "onnx",
    out: Annotated[Path | None, Option(help="The file or folder; by default inside the run.")] = None,
) -> None:
    """Export a trained model for other libraries.

    What was written is read back and compared with the original.
    """
    if to not in ("onnx", "pretrained"):
        raise unknown("--to", to, ["onnx", "pretrained"])
    from headwork.training.export import export_run
    from headwork.training.folders import RESULT, check_run

    if out is None and not (check_run(run) / RESULT).exists():
        raise InputError(
            f"{run}: not finished, so this model is soon out of date. Say with --out where to write it."
        )
    for line in export_run(run, to, out):
        print(line)


@command(
    "headwork report runs/v10 --as notebook --out v10.ipynb",
    "headwork report runs/v10 --as html",
    panel="Train",
    formats=("notebook", "html"),
)
def report(output: Output, run: RunFolder) -> None:
    """Report on a finished run, as a notebook or a page."""
    from headwork.inspection.run_notebook import write_notebook
    from headwork.inspection.run_report import write_report

    check_is_file(output.path)
    write = write_notebook if output.format == "notebook" else write_report
    print(f"wrote {write(run, output.path)}")
