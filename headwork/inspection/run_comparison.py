"""Several runs side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwork.documents import Document, FigureBlock, Table, save_figure
from headwork.errors import InputError
from headwork.inspection import figures
from headwork.inspection.run_report import settings_table
from headwork.training import run_folders
from headwork.training.progress import format_duration
from headwork.training.run_folders import RESULT, Result, load_metrics, load_run_config


def compare_curves(runs: Sequence[Path], out: Path) -> Path:
    """Write the curves of several runs as one picture."""
    return save_figure(_curves(runs), out)


def _curves(runs: Sequence[Path]) -> Any:
    names = _differences(runs) or _folder_names(runs)
    data = sorted({run_folders.load_data_info(run).name for run in runs})
    captions = {figures.curves_caption(load_run_config(run)) for run in runs}
    caption = captions.pop() if len(captions) == 1 else ""
    metrics = {names[run]: load_metrics(run) for run in runs}
    return figures.curves(metrics, ", ".join(data), caption)


def curves_document(runs: Sequence[Path]) -> Document:
    """The results of several runs in a table, and their curves."""
    return Document("Runs", (compare_results(runs), FigureBlock(_curves(runs), "loss and accuracy by epoch")))


def compare_results(runs: Sequence[Path]) -> Table:
    """Epochs, accuracies and time of each run."""
    names = _folder_names(runs)
    rows: list[tuple[Any, ...]] = []
    for folder in runs:
        lines = figures.finished_epochs(load_metrics(folder))
        if not lines:
            raise InputError(f"{folder}: no epoch is finished, so there are no curves yet.")
        finished = (folder / RESULT).exists()
        test = f"{Result.read(folder).test_accuracy:.2%}" if finished else "not finished"
        last, epochs = lines[-1], load_run_config(folder).epochs
        done = epochs if last["epoch"] == epochs else f"{last['epoch']} of {epochs}"
        parts = (last.get(part) for part in ("training", "validation"))
        shares = (f"{part['accuracy']:.2%}" if part else "none" for part in parts)
        rows.append((names[folder], done, *shares, test, format_duration(last["seconds"])))
    return Table("", ("run", "epochs", "training", "validation", "test", "time"), rows)


def _differences(runs: Sequence[Path]) -> dict[Path, str]:
    """Each run by the settings in which it differs from the others; empty where they are too many or none."""
    settings = {run: dict(settings_table(load_run_config(run)).rows) for run in runs}
    names = dict.fromkeys(name for one in settings.values() for name in one)
    differ = [name for name in names if len({str(one.get(name)) for one in settings.values()}) > 1]
    labels = {
        run: ", ".join(
            f"{one[name]} epochs" if name == "epochs" else f"{name} {one.get(name)}" for name in differ
        )
        for run, one in settings.items()
    }
    return labels if len(differ) < 4 and len(set(labels.values())) == len(runs) else {}


def _folder_names(runs: Sequence[Path]) -> dict[Path, str]:
    """The folders' own names, or their whole paths where two names are the same."""
    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("curves: a run is named twice.")
    short = {run: run_folders.check_run_folder(run).resolve().name for run in runs}
    return short if len(set(short.values())) == len(runs) else {run: str(run) for run in runs}
