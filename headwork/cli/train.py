"""``headwork train`` and ``headwork resume``: a run from its recipe to its report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command
from headwork.errors import InputError, unknown

if TYPE_CHECKING:
    from headwork.training import Result


@command(
    "headwork train vision",
    "headwork train vision --epochs 50 --out runs/v50",
    "headwork train vision --data digits --model cnn",
    "headwork train vision --set model.width=96 --set learning_rate=1e-3",
    "headwork train text --data imdb",
    "headwork train text --data rotten-tomatoes --encoder minilm",
    "headwork train text --data reviews.csv --columns review,stars --model lstm",
    "torchrun --nproc-per-node 2 -m headwork train vision --out runs/v10",
    panel="Train",
)
def train(
    task: Annotated[str, Argument(help="vision or text.")] = "",
    data: Annotated[str, Option(help="A known set, or a file or folder of your own.")] = "",
    model: Annotated[str, Option(help="transformer, cnn, lstm, gru or rnn.")] = "transformer",
    encoder: Annotated[str, Option(help="text: a pretrained encoder to fine-tune: minilm.")] = "",
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
        raise InputError("train: what? headwork train vision, or headwork train text.")
    if task not in ("vision", "text"):
        raise unknown("task (train what?)", task, ["vision", "text"])
    for option, text in (("--encoder", encoder), ("--columns", columns)):
        if task == "vision" and text:
            raise InputError(f"{option} is for texts: headwork train text {option} {text}")
    from headwork import training
    from headwork.training.folders import new_folder

    chosen: dict[str, Any] = {"data": data} if data else {}
    if encoder:
        chosen["encoder"] = encoder
    recipe = training.vision if task == "vision" else training.text
    settings = list(set_ or [])
    for name, value in (("epochs", epochs), ("seed", seed), ("columns", columns or None)):
        if value is not None:
            for twice in [setting for setting in settings if setting.partition("=")[0].strip() == name]:
                raise InputError(f"--{name} {value} and --set {twice}: which one? Leave one out.")
            settings.append(f"{name}={value}")
    run = training.changed(recipe(model=model, **chosen), settings)
    if show:
        print(training.as_text(run), end="")
        if encoder:
            print(f"The model's shape will be that of {encoder}, read when the run begins.", file=sys.stderr)
        return
    folder = out or new_folder(run)
    _train_and_report(lambda: training.train(run, folder))


@command(
    "headwork resume runs/v50",
    "torchrun --nproc-per-node 2 -m headwork resume runs/v50",
    panel="Train",
)
def resume(
    run: Annotated[Path, Argument(help="The folder of the run.")],
    other: Annotated[bool, Option("--other-processes", help="Accept another number of processes.")] = False,
) -> None:
    """Resume a run from its last checkpoint.

    The result is, to the last bit, that of a run which never stopped.
    """
    from headwork import training

    _train_and_report(lambda: training.resume(run, other_processes=other))


def _train_and_report(train: Callable[[], Result]) -> None:
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
