"""The folder of a run, read: its config, metrics, facts about the data, result and model.

``config.json`` the run; ``data.json`` what it knows of its data; ``checkpoints/``; ``metrics.jsonl``; and once it is
finished ``model/`` (which ``from_pretrained`` reads), ``result.json``, the curves and ``report.html``.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwork.errors import InputError
from headwork.files import read_text
from headwork.models import Model, from_pretrained
from headwork.models.checkpoints import PARAMETERS, tensors
from headwork.models.registry import build_classifier
from headwork.training import checkpoints
from headwork.training.examples import Facts, Say, tokenizer_from
from headwork.training.progress import tell
from headwork.training.recipes import Run, TextRun, read_run

CONFIG, DATA, METRICS, RESULT, MODEL, TOKENIZER = (
    "config.json",
    "data.json",
    "metrics.jsonl",
    "result.json",
    "model",
    "tokenizer.json",
)


@dataclass(frozen=True)
class Result:
    """What a run came to: ``told`` is result.json, ``metrics`` the lines of metrics.jsonl."""

    folder: Path
    told: dict[str, Any]
    metrics: list[dict[str, Any]]

    @property
    def test_accuracy(self) -> float:
        return float(self.told["test"]["accuracy"])

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        place = check_run(folder)
        if not (place / RESULT).exists():
            raise InputError(f"{place}: not finished yet. Go on with: headwork resume {place}")
        return cls(place, _json(place / RESULT), load_metrics(place))


def check_run(folder: str | Path) -> Path:
    place = Path(folder)
    if not place.is_dir():
        raise InputError(
            f"{place}: no such run. Give the folder that headwork train wrote, such as runs/v10."
        )
    if not (place / CONFIG).exists():
        raise InputError(
            f"{place}: no run, for it holds no {CONFIG}. Give the folder that headwork train wrote."
        )
    return place


def load_run(folder: str | Path) -> Run:
    """The config of a run."""
    place = check_run(folder)
    return read_run(read_text(place / CONFIG), str(place / CONFIG))


def load_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    place = check_run(folder)
    if not (place / METRICS).exists():
        raise InputError(
            f"{place}: no {METRICS} yet: not one epoch was trained. Go on with: headwork resume {place}"
        )
    lines = read_text(place / METRICS).splitlines()
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise InputError(f"{place / METRICS}: not valid JSON ({error}).") from None


def load_facts(folder: str | Path) -> Facts:
    place = check_run(folder)
    try:
        return Facts.read(_json(place / DATA))
    except TypeError:
        raise InputError(f"{place / DATA}: not what a run writes about its data.") from None


def load_model(folder: str | Path, *, say: Say = tell) -> Model:
    """The finished model of a run, or that of its last whole checkpoint, in eval mode."""
    place = check_run(folder)
    if (place / MODEL).exists():
        return from_pretrained(place / MODEL)
    found = checkpoints.latest(place, say)
    if found is None:
        if (place / RESULT).exists():
            raise InputError(
                f"{place}: only the figures of this run are kept here, not its model. Train it again."
            )
        raise InputError(f"{place}: nothing was trained yet. Go on with: headwork resume {place}")
    run: Any = load_run(place)
    where, files = found
    model = build_classifier(run.model).to(getattr(torch, run.precision)).eval()
    model.load_state_dict(tensors(files[PARAMETERS], where / PARAMETERS))
    if isinstance(run, TextRun):
        model.tokenizer = tokenizer_from((place / TOKENIZER).read_bytes(), run.longest).inner
    say(f"! {place} is not finished: this is its model at step {checkpoints.step_of(where):,}.")
    return model


def new_folder(run: Run, parent: Path = Path("runs")) -> Path:
    """A folder that is not there yet: runs/vision-fashion-mnist, then runs/vision-fashion-mnist-2."""
    name = f"{run.task}-{Path(run.data).stem}"
    return next(
        folder
        for count in itertools.count(1)
        if not (folder := parent / (name if count == 1 else f"{name}-{count}")).exists()
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}).") from None
