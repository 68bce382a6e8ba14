"""Trained models for others: ONNX, and the folder that ``from_pretrained`` reads.

An ONNX file is compared with the model at several batch sizes before it is written; one that differs is not.
"""

import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwork.errors import HeadworkError, InputError
from headwork.files import write_atomic
from headwork.models import Model
from headwork.training import run_folders
from headwork.training.run_folders import DataInfo, check_run_folder, load_data_info, load_model

CHECKED_BATCH_SIZES = (1, 3, 64)
TOLERANCE = 1e-4
NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"


class MismatchError(HeadworkError):
    """The exported file does not compute what the model computes."""


def export_run(folder: str | Path, to: str, out: Path | None = None) -> list[str]:
    """Export a run; lines that say what was written and how well it agrees."""
    path = check_run_folder(folder)
    model = load_model(path)
    if to == "pretrained":
        return [f"wrote {model.save_pretrained(out or path / 'pretrained')}"]
    target = out or path / "model.onnx"
    if target.is_dir():
        raise InputError(f"--out {target} is a folder. Name a file in it, such as model.onnx.")
    run: Any = run_folders.load_run_config(path)
    worst = export_onnx(model, target, info=load_data_info(path), max_length=getattr(run, "max_length", None))
    sizes = ", ".join(map(str, CHECKED_BATCH_SIZES))
    return [f"wrote {target}", f"it differs from the model by at most {worst:.1e} at batches of {sizes}"]


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporter's warnings, and without onnxruntime's telemetry, which starts on import."""
    disabled, telemetry = logging.root.manager.disable, os.environ.get(NO_TELEMETRY)
    logging.disable(logging.WARNING)
    os.environ[NO_TELEMETRY] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        del os.environ[NO_TELEMETRY]
        if telemetry is not None:
            os.environ[NO_TELEMETRY] = telemetry


@_quietly()
def export_onnx(
    model: Model, path: str | Path, *, info: DataInfo | None = None, max_length: int | None = None
) -> float:
    """Write a classifier as ONNX; returns the largest difference of its logits from the model's."""
    for library in ("onnx", "onnxruntime", "onnxscript"):
        import_module(library)  # one that is missing is named before any work
    model = copy.deepcopy(model).float()  # few runtimes compute everything in float64
    names = ("tokens", "mask") if hasattr(model.config, "vocabulary") else ("images",)
    # A plain recurrence is exported step by step, for texts of one length.
    config = model.config
    fixed = "plain" in (getattr(config, "cell", ""), getattr(config, "encoder", ""))
    max_length = getattr(model.config, "max_length", None) if max_length is None else max_length
    open_axes = (0,) if len(names) == 1 or fixed else (0, 1)
    axes = dict.fromkeys(open_axes, torch.export.Dim.DYNAMIC)
    with torch.no_grad():
        program: Any = torch.onnx.export(
            fused_copy(model),
            random_inputs(model, 3, max_length),
            dynamo=True,
            dynamic_shapes=tuple(axes for _ in names),
            input_names=list(names),
            output_names=["scores"],
            verbose=False,
        )
    proto = program.model_proto  # made anew by each access
    for name, value in _metadata(model, info, max_length).items():
        proto.metadata_props.add(key=name, value=value)
    data = proto.SerializeToString()
    worst = max_difference(model, data, names, max_length, fixed)
    if not worst <= TOLERANCE:
        raise MismatchError(
            f"{path}: not written: its logits differ from the model's by {worst:.1e} (at most {TOLERANCE:g})."
        )
    write_atomic(path, data)
    return worst


def max_difference(
    model: Model, data: bytes, names: Sequence[str], max_length: int | None, fixed: bool
) -> float:
    """The largest difference between the logits of an ONNX file and the model's, over several batch sizes."""
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    worst = 0.0
    for count in CHECKED_BATCH_SIZES:
        shorter = [max(2, (max_length or 2) // 3)] if len(names) == 2 and not fixed else []
        for length in (max_length, *shorter):
            inputs = random_inputs(model, count, length)
            with torch.no_grad():
                ours = model(*inputs)
            arrays = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
            theirs = session.run(None, arrays)[0]
            gap = float((ours - torch.from_numpy(theirs)).abs().max())
            worst = gap if not gap <= worst else worst  # NaN stays
    return worst


def random_inputs(model: Model, count: int, length: int | None) -> tuple[Tensor, ...]:
    """Random inputs for a classifier."""
    rng = torch.Generator().manual_seed(count)
    config: Any = model.config
    if hasattr(config, "vocabulary"):
        size = config.max_length if length is None else length
        lengths = torch.randint(1, size + 1, (count, 1), generator=rng)
        lengths[0] = size
        return torch.randint(config.vocabulary, (count, size), generator=rng), torch.arange(size) < lengths
    shape = (count, config.channels, config.image_size, config.image_size)
    return (torch.randn(shape, generator=rng, dtype=next(model.parameters()).dtype),)


def fused_copy(model: Model) -> Model:
    """The model in the form that exports best: with fused kernels, which have whole recurrences."""
    return copy.deepcopy(model).with_backend("fused").eval()


def _metadata(model: Model, info: DataInfo | None, max_length: int | None) -> dict[str, str]:
    """What a user of the file must know."""
    values: dict[str, Any] = {"model": type(model).__name__}
    if info is not None:
        values |= {"classes": list(info.classes), "data": info.name}
        if info.mean:
            values |= {"mean": list(info.mean), "std": list(info.std)}
    if max_length:
        values |= {"max_length": max_length, "longest": max_length}  # the second is the former name
    return {f"headwork.{name}": json.dumps(value) for name, value in values.items()}
