"""The folder of a run, read: its config, metrics, data summary, result and model.

``config.json`` the run; ``data.json`` what it records about its data; ``checkpoints/``; ``metrics.jsonl``;
and once it is finished ``model/`` (which ``from_pretrained`` reads), ``manifest.json`` with the SHA-256 of
these files, and ``result.json``. Until then the newest checkpoint, verified, holds what the files must say.
Runs of earlier versions have no manifest. The report beside them is written by ``inspection.run_report``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwork.data.datasets import Images, ImageSplit, Texts, normalise
from headwork.data.fetching import Log, to_stderr
from headwork.data.image_files import read_image
from headwork.data.loading import load_images, load_texts
from headwork.data.tokens import parse_tokenizer
from headwork.errors import InputError
from headwork.files import parse_json, read_bytes, refuse_links, unused_path
from headwork.loading import NumpyModel, SavedModel, read_saved
from headwork.loading.model import check_parameters
from headwork.mechanisms.configs import checked_settings
from headwork.mechanisms.definitions import classifier_definition
from headwork.model_files import MANIFEST, PARAMETERS, read_folder, read_tensors
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES
from headwork.training import checkpoints
from headwork.training.recipes import RunConfig, TextRunConfig, read_run, run_to_json
from headwork.training.schemas import check_metrics, check_schema

if TYPE_CHECKING:
    from headwork.models import Model

CONFIG, DATA, METRICS, RESULT = "config.json", "data.json", "metrics.jsonl", "result.json"
MODEL_FOLDER, TOKENIZER = "model", "tokenizer.json"
MAX_METRICS = 8_000  # lines, of which a report draws each epoch
PACKAGED = Path(__file__).with_name("trained")  # the runs of the package; its README says whence
PACKAGED_NAMES = tuple(sorted(path.parent.name for path in PACKAGED.glob(f"*/{CONFIG}")))
IMAGES_FOLDER = "images"
IN_MEMORY = "given in memory"  # instead of the data's name


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """What a run records about its data, in ``data.json``: enough to use the model without the data."""

    name: str
    classes: tuple[str, ...]
    digest: str
    counts: dict[str, int]
    notes: tuple[str, ...] = ()
    channels: int = 0
    size: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    tokenizer: str = ""  # the SHA-256 of its file

    @classmethod
    def read(cls, data: Any, where: str | Path) -> DataInfo:
        """The content of a data.json."""
        check_schema(data, "data", where)
        settings: Any = {
            name: tuple(part) if isinstance(part, list) else part
            for name, part in checked_settings(cls, data, f"field of {where}").items()
            if part is not None
        }
        info = cls(**settings)
        if not info.channels == len(info.mean) == len(info.std):
            raise InputError(f"{where}: channels, mean and std do not belong together.")
        return info


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
        """The former name of ``record``, for older notebooks."""
        return self.record

    @classmethod
    def read(cls, folder: str | Path) -> Result:
        path = check_run_folder(folder)
        if not (path / RESULT).exists():
            raise InputError(f"{path}: not finished yet. Resume with: headwork resume {path}")
        record, where = parse_json(_read_file(path, RESULT), path / RESULT), path / RESULT
        check_schema(record, "result", where)
        classes, count = len(load_data_info(path).classes), record["test"]["count"]
        if {len(record["confusion"]), *map(len, record["confusion"])} != {classes}:
            raise InputError(f"{where}: confusion is not of {classes} classes, as {DATA} is.")
        if any(max(m["label"], m["said"]) >= classes or m["place"] >= count for m in record["mistakes"]):
            raise InputError(f"{where}: a mistake is of no class, or of no test example.")
        return cls(path, record, load_metrics(path))


def find_run(name: str | Path) -> Path:
    """The folder of a run to be read: one of the package by its name, unless a run of that name is here."""
    packaged = str(name) in PACKAGED_NAMES and not (Path(name) / CONFIG).exists()
    return PACKAGED / name if packaged else Path(name)


def check_run_folder(folder: str | Path) -> Path:
    """The folder of a run as a path, or an error that says why it is none."""
    path, hint = Path(folder), "Give the folder that headwork train wrote"
    if not path.is_dir():
        raise InputError(
            f"{path}: no such run. {hint}, such as runs/v10; to read one: {', '.join(PACKAGED_NAMES)}."
        )
    if not (path / CONFIG).exists():
        raise InputError(f"{path}: not a run, for it holds no {CONFIG}. {hint}.")
    return path


def _read_file(path: Path, name: str) -> bytes:
    """A file of a run; of a finished one only as its manifest lists it."""
    if (path / RESULT).exists() and (path / MANIFEST).exists():
        needed, optional = (CONFIG, DATA, METRICS, RESULT), (TOKENIZER,)
        return read_folder(path, needed=needed, optional=optional, file_name=name)[name]
    return read_bytes(path / name, max_bytes=MAX_TOKENIZER_BYTES, root=path)


def load_run_config(folder: str | Path) -> RunConfig:
    """The config of a run, which is that of its checkpoints."""
    path = check_run_folder(folder)
    where = str(path / CONFIG)
    run = read_run(_read_file(path, CONFIG), where)
    if state := checkpoints.unfinished_state(path):
        # Read and written again: fields that are new since then have their defaults.
        saved = read_run(json.dumps(state["config"]), where)
        before, now = (json.loads(run_to_json(one)) for one in (saved, run))
        if names := [name for name in now if now[name] != before.get(name)]:
            raise InputError(
                f"{where}: changed since the checkpoint was written ({', '.join(names)}), "
                "so it would be another run. Undo the change, or train a new run with --set."
            )
    return run


load_run = load_run_config  # its former name


def load_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; until the run is finished, those of its newest checkpoint."""
    path = check_run_folder(folder)
    if state := checkpoints.unfinished_state(path):
        return list(state["metrics"])
    if not (path / METRICS).exists():
        raise InputError(
            f"{path}: no {METRICS} yet: no epoch is finished. Resume with: headwork resume {path}"
        )
    data = _read_file(path, METRICS)
    if (count := data.count(b"\n")) > MAX_METRICS:
        raise InputError(f"{path / METRICS}: {count:,} lines; at most {MAX_METRICS:,} are read.")
    lines = [parse_json(line, path / METRICS) for line in data.split(b"\n") if line.strip()]
    check_metrics(lines, path / METRICS)
    return lines


def load_data_info(folder: str | Path) -> DataInfo:
    """What a run records about its data."""
    path = check_run_folder(folder)
    info = DataInfo.read(parse_json(_read_file(path, DATA), path / DATA), path / DATA)
    state = checkpoints.unfinished_state(path)
    if state and DataInfo.read(state["facts"], path / DATA) != info:
        raise InputError(
            f"{path / DATA}: damaged or changed since the checkpoint was written. Undo the change."
        )
    return info


def load_data(run: Any, *, log: Log = to_stderr) -> Images | Texts:
    """The data that a run names, split as it says."""
    if run.data == IN_MEMORY:
        raise InputError(
            "the run's data was given in memory (Classifier.fit), so it cannot be loaded again. "
            "Use what holds that data: fit, predict and score; or evaluate with --data FILE."
        )
    options: dict[str, Any] = {"seed": run.seed, "validation": run.validation, "log": log}
    if isinstance(run, TextRunConfig):
        return load_texts(run.data, columns=run.columns, **options)
    return load_images(run.data, size=run.image_size or None, **options)


def load_tokenizer_bytes(path: Path) -> bytes:
    """The tokenizer that a run of texts began with."""
    data, expected = _read_file(path, TOKENIZER), load_data_info(path).tokenizer
    if expected and hashlib.sha256(data).hexdigest() != expected:
        raise InputError(
            f"{path / TOKENIZER}: damaged or changed: it is not the tokenizer that the run began with."
        )
    return data


def load(folder: str | Path, *, torch: bool = False) -> Any:
    """The model of a folder: of a run, of a saved model, or of a BERT or ViT of the transformers library.

    ``digits`` and ``fashion-mnist`` are trained models of the package. A model runs on numpy
    (``NumpyModel``), and where it is traced each cell has its arithmetic; with ``torch`` it is a module of
    ``headwork.models``.

    >>> examples = example_images("digits")
    >>> load("digits")(examples.inputs).argmax(-1)[:6].tolist(), examples.labels[:6].tolist()
    ([3, 3, 0, 0, 4, 6], [3, 3, 0, 0, 4, 6])
    """
    path = find_run(folder)
    saved = saved_model(path) if (path / DATA).exists() else read_saved(path)
    return _torch_model(saved) if torch else NumpyModel(saved)


@dataclass(frozen=True)
class ExampleImages(ImageSplit):
    """Test images with their labels; ``inputs`` are what the model takes."""

    inputs: NDArray[np.float32] = field(repr=False)
    indices: tuple[int, ...]  # in the test set
    classes: tuple[str, ...]


def example_images(name: str | Path) -> ExampleImages:
    """The test images that stand beside a trained model of the package, in the order of the test set."""
    path = check_run_folder(find_run(name))
    files, info = sorted((path / IMAGES_FOLDER).glob("*-*.png")), load_data_info(path)
    if not files:
        raise InputError(f"{name}: no test images are kept here. With images: {', '.join(PACKAGED_NAMES)}.")
    images = np.stack([read_image(file, channels=info.channels) for file in files])
    indices, labels = zip(*(map(int, file.stem.split("-")) for file in files), strict=True)
    inputs = normalise(images, info.mean, info.std)
    return ExampleImages(images, np.array(labels), inputs, indices, info.classes)


def load_model(folder: str | Path, *, log: Log = to_stderr) -> Model:
    """The finished model of a run, or that of its last whole checkpoint, in eval mode."""
    return _torch_model(saved_model(folder, log=log))


def _torch_model(saved: SavedModel) -> Model:
    from headwork.models.saving import torch_model

    return torch_model(saved)


def saved_model(folder: str | Path, *, log: Log = to_stderr) -> SavedModel:
    """The finished model of a run, or that of its last whole checkpoint."""
    path = check_run_folder(folder)
    refuse_links(path / MODEL_FOLDER, path)
    if (path / MODEL_FOLDER).exists():
        try:
            return _check_fits_data(read_saved(path / MODEL_FOLDER), path)
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
    return _check_fits_data(checkpoint_model_with_tokenizer(path, *checkpoint), path)


def _check_fits_data(saved: SavedModel, path: Path) -> SavedModel:
    """The model of a run, if it is that of its config, and its data of as many classes and pixels."""
    info, model_config = load_data_info(path), load_run_config(path).model  # type: ignore[attr-defined]
    for name, ours in vars(model_config).items():
        if name != "backend" and (actual := getattr(saved.config, name, None)) != ours:
            raise InputError(f"{path / CONFIG}: {name} of the model is {ours}, but the model has {actual}.")
    sizes = {"classes": len(info.classes), "image_size": info.size, "channels": info.channels}
    for name, size in sizes.items():
        if (actual := getattr(saved.config, name, size)) != size:
            raise InputError(f"{path / DATA}: {name} is {size}, but the model has {actual}.")
    return saved


def checkpoint_model_with_tokenizer(path: Path, step_folder: Path, files: checkpoints.Files) -> SavedModel:
    """The model of a checkpoint, with its tokenizer."""
    run = load_run_config(path)
    saved = checkpoint_model(run, step_folder, files)
    if not isinstance(run, TextRunConfig):
        return saved
    return replace(saved, tokenizer=parse_tokenizer(load_tokenizer_bytes(path), run.max_length).inner)


def checkpoint_model(run: Any, step_folder: Path, files: checkpoints.Files) -> SavedModel:
    """The parameters of a checkpoint; a run that asks for others, or for many more, is refused."""
    definition, where = classifier_definition(run.model), step_folder / PARAMETERS
    state = read_tensors(files[PARAMETERS], where)
    return SavedModel(definition, run.model, check_parameters(definition, run.model, state, where))


def new_run_folder(run: RunConfig) -> Path:
    """A folder that does not exist yet: runs/vision-fashion-mnist, then runs/vision-fashion-mnist-2."""
    return unused_path(Path("runs") / f"{run.task}-{Path(run.data).stem}")
