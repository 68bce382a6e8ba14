"""The folder of a run, read: its config, metrics, data summary, result and model.

``config.json`` the run; ``data.json`` what it records about its data; ``checkpoints/``; ``metrics.jsonl``;
and once it is finished ``model/`` (which ``from_pretrained`` reads) and ``result.json``. The report beside
them is written by ``inspection.run_report``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from headwork.data.fetching import Log, to_stderr
from headwork.errors import InputError
from headwork.files import read_text
from headwork.models import Model, from_pretrained
from headwork.models.checkpoints import PARAMETERS, parsed, tensors
from headwork.models.registry import build_classifier
from headwork.training import checkpoints
from headwork.training.examples import DataInfo
from headwork.training.preparation import tokenizer_from
from headwork.training.recipes import RunConfig, TextRun, read_run

CONFIG, DATA, METRICS, RESULT = "config.json", "data.json", "metrics.jsonl", "result.json"
MODEL, TOKENIZER = "model", "tokenizer.json"


@dataclass(frozen=True)
class Result:
    """The result of a run: ``record`` is result.json, ``metrics`` the lines of metrics.jsonl.

    ``data`` is what it was trained on, where it was trained just now.
    """

    folder: Path
    record: dict[str, Any]
    metrics: list[dict[str, Any]]
    data: Any = field(default=None, repr=False, compare=False)

    @property
    def test_accuracy(self) -> float:
        return float(self.record["test"]["accuracy"])

    @property
    def told(self) -> dict[str, Any]:
        """The former name of ``record``, for notebooks of before."""
        return self.record

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        path = check_run(folder)
        if not (path / RESULT).exists():
            raise InputError(f"{path}: not finished yet. Resume with: headwork resume {path}")
        return cls(path, parsed(read_text(path / RESULT), path / RESULT), load_metrics(path))


def check_run(folder: str | Path) -> Path:
    """The folder of a run as a path, or an error that says why it is none."""
    path, hint = Path(folder), "Give the folder that headwork train wrote"
    if not path.is_dir():
        raise InputError(f"{path}: no such run. {hint}, such as runs/v10.")
    if not (path / CONFIG).exists():
        raise InputError(f"{path}: not a run, for it holds no {CONFIG}. {hint}.")
    return path


def load_run(folder: str | Path) -> RunConfig:
    """The config of a run."""
    path = check_run(folder) / CONFIG
    return read_run(read_text(path), str(path))


def load_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    path = check_run(folder)
    if not (path / METRICS).exists():
        raise InputError(
            f"{path}: no {METRICS} yet: no epoch is finished. Resume with: headwork resume {path}"
        )
    return [parsed(line, path / METRICS) for line in read_text(path / METRICS).splitlines()]


def load_data_info(folder: str | Path) -> DataInfo:
    """What a run records about its data."""
    path = check_run(folder) / DATA
    try:
        return DataInfo.read(parsed(read_text(path), path))
    except TypeError:
        raise InputError(f"{path}: not what a run writes about its data.") from None


def load_model(folder: str | Path, *, log: Log = to_stderr) -> Model:
    """The finished model of a run, or that of its last whole checkpoint, in eval mode."""
    path = check_run(folder)
    if (path / MODEL).exists():
        return from_pretrained(path / MODEL)
    checkpoint = checkpoints.latest(path, log)
    if checkpoint is None:
        if (path / RESULT).exists():
            raise InputError(
                f"{path}: only the figures of this run are kept here, not its model. Train it again."
            )
        raise InputError(f"{path}: nothing was trained yet. Resume with: headwork resume {path}")
    run: Any = load_run(path)
    step_folder, files = checkpoint
    model = build_classifier(run.model).to(getattr(torch, run.precision)).eval()
    model.load_state_dict(tensors(files[PARAMETERS], step_folder / PARAMETERS))
    if isinstance(run, TextRun):
        model.tokenizer = tokenizer_from((path / TOKENIZER).read_bytes(), run.max_length).inner
    log(f"! {path} is not finished: this is its model at step {checkpoints.step_of(step_folder):,}.")
    return model


def new_folder(run: RunConfig, parent: Path = Path("runs")) -> Path:
    """A folder that does not exist yet: runs/vision-fashion-mnist, then runs/vision-fashion-mnist-2."""
    name = f"{run.task}-{Path(run.data).stem}"
    names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    return next(folder for each in names if not (folder := parent / each).exists())
