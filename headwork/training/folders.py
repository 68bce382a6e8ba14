"""The folder of a run, read: its config, metrics, data summary, result and model.

``config.json`` the run; ``data.json`` what it records about its data; ``checkpoints/``; ``metrics.jsonl``;
and once it is finished ``model/`` (which ``from_pretrained`` reads), ``manifest.json`` with the SHA-256 of
these files, and ``result.json``. Until then the newest checkpoint, verified, holds what the files must say.
Runs of before have no manifest. The report beside them is written by ``inspection.run_report``.
"""

import hashlib
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwork.checkpoint_files import MANIFEST, PARAMETERS, read_folder
from headwork.data.fetching import Log, to_stderr
from headwork.data.tokens import parse_tokenizer
from headwork.errors import InputError
from headwork.files import parse_json, read_bytes, refuse_links
from headwork.models import Model, from_pretrained
from headwork.models.checkpoints import empty_model, fill, tensors
from headwork.models.model import classifier_of
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES
from headwork.training import checkpoints
from headwork.training.examples import DataInfo
from headwork.training.recipes import RunConfig, TextRun, as_text, read_run

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
    def read(cls, folder: str | Path) -> "Result":
        path = check_run(folder)
        if not (path / RESULT).exists():
            raise InputError(f"{path}: not finished yet. Resume with: headwork resume {path}")
        return cls(path, parse_json(_content(path, RESULT), path / RESULT), load_metrics(path))


def check_run(folder: str | Path) -> Path:
    """The folder of a run as a path, or an error that says why it is none."""
    path, hint = Path(folder), "Give the folder that headwork train wrote"
    if not path.is_dir():
        raise InputError(f"{path}: no such run. {hint}, such as runs/v10.")
    if not (path / CONFIG).exists():
        raise InputError(f"{path}: not a run, for it holds no {CONFIG}. {hint}.")
    return path


def _content(path: Path, name: str) -> bytes:
    """A file of a run; of a finished one only as its manifest lists it."""
    if (path / RESULT).exists() and (path / MANIFEST).exists():
        needed, optional = (CONFIG, DATA, METRICS, RESULT), (TOKENIZER,)
        return read_folder(path, needed=needed, optional=optional, only=name)[name]
    return read_bytes(path / name, max_bytes=MAX_TOKENIZER_BYTES, root=path)


def load_run(folder: str | Path) -> RunConfig:
    """The config of a run, which is that of its checkpoints."""
    path = check_run(folder)
    where = str(path / CONFIG)
    run = read_run(_content(path, CONFIG), where)
    if state := checkpoints.unfinished_state(path):
        # Read and written again: fields that are new since then have their defaults.
        saved = read_run(json.dumps(state["config"]), where)
        before, now = (json.loads(as_text(one)) for one in (saved, run))
        if names := [name for name in now if now[name] != before.get(name)]:
            raise InputError(
                f"{where}: changed since the checkpoint was written ({', '.join(names)}), so it would be "
                "another run. Undo the change, or train a new run with --set."
            )
    return run


def load_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; until the run is finished, those of its newest checkpoint."""
    path = check_run(folder)
    if state := checkpoints.unfinished_state(path):
        return list(state["metrics"])
    if not (path / METRICS).exists():
        raise InputError(
            f"{path}: no {METRICS} yet: no epoch is finished. Resume with: headwork resume {path}"
        )
    return [parse_json(line, path / METRICS) for line in _content(path, METRICS).splitlines()]


def load_data_info(folder: str | Path) -> DataInfo:
    """What a run records about its data."""
    path = check_run(folder)
    info = DataInfo.read(parse_json(_content(path, DATA), path / DATA), path / DATA)
    state = checkpoints.unfinished_state(path)
    if state and DataInfo.read(state["facts"], path / DATA) != info:
        raise InputError(
            f"{path / DATA}: damaged or changed since the checkpoint was written. Undo the change."
        )
    return info


def load_tokenizer(path: Path) -> bytes:
    """The tokenizer that a run of texts began with."""
    data, expected = _content(path, TOKENIZER), load_data_info(path).tokenizer
    if expected and hashlib.sha256(data).hexdigest() != expected:
        raise InputError(
            f"{path / TOKENIZER}: damaged or changed: it is not the tokenizer that the run began with."
        )
    return data


def load_model(folder: str | Path, *, log: Log = to_stderr) -> Model:
    """The finished model of a run, or that of its last whole checkpoint, in eval mode."""
    path = check_run(folder)
    refuse_links(path / MODEL, path)
    if (path / MODEL).exists():
        try:
            return from_pretrained(path / MODEL)
        except InputError as error:
            raise InputError(f"{error} Or rebuild it from its checkpoint: headwork resume {path}") from None
    checkpoint = checkpoints.latest(path, log)
    if checkpoint is None:
        if (path / RESULT).exists():
            raise InputError(
                f"{path}: only the figures of this run are kept here, not its model. Train it again."
            )
        raise InputError(f"{path}: nothing was trained yet. Resume with: headwork resume {path}")
    state = "has lost its model" if (path / RESULT).exists() else "is not finished"
    log(f"! {path} {state}: this is its model at step {checkpoints.step_of(checkpoint[0]):,}.")
    return checkpoint_model(path, *checkpoint)


def checkpoint_model(path: Path, step_folder: Path, files: checkpoints.Files) -> Model:
    """The model of a checkpoint, in eval mode."""
    run, where = load_run(path), step_folder / PARAMETERS
    model = fill(empty_classifier(run, files, step_folder), tensors(files[PARAMETERS], where), str(where))
    if isinstance(run, TextRun):
        model.tokenizer = parse_tokenizer(load_tokenizer(path), run.max_length).inner
    return model


def empty_classifier(run: Any, files: checkpoints.Files, where: Path) -> Model:
    """A model for the parameters of a checkpoint to fill; one that asks for many more is refused."""
    state = tensors(files[PARAMETERS], where / PARAMETERS)
    return empty_model(classifier_of(run.model), run.model, state, str(where))


def new_folder(run: RunConfig, parent: Path = Path("runs")) -> Path:
    """A folder that does not exist yet: runs/vision-fashion-mnist, then runs/vision-fashion-mnist-2."""
    name = f"{run.task}-{Path(run.data).stem}"
    names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    return next(folder for each in names if not (folder := parent / each).exists())
