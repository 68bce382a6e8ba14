"""A run in the hands of a bad disk or a bad neighbour: every change is noticed or changes nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load, save

from headwork import training
from headwork.errors import InputError
from headwork.inspection.predictions import predict
from headwork.inspection.run_report import evaluate_run
from headwork.model_files import manifest_bytes
from headwork.training.progress import quiet
from headwork.training.recipes import read_run

PICTURES = (".html", ".png", ".svg")  # made from the other files, and read by nobody


def figures(folder: Path, digit: Path, *, evaluated: bool) -> tuple[list[Any], list[str]]:
    """All that is told of a run, and the warnings."""
    lines: list[str] = []
    table = predict(folder, images=[digit], log=lines.append)
    told: list[Any] = [
        table.extra_data,
        training.run_to_json(training.load_run_config(folder)),
        training.load_metrics(folder),
    ]
    told.append(training.load_data_info(folder))
    if (folder / "result.json").exists():
        told.append(training.Result.read(folder).record)
    if evaluated:
        told.append(evaluate_run(folder, log=lines.append)[0].summary())
    return told, [line for line in lines if line.startswith("!")]


def damaged(folder: Path, digit: Path, count: int, seed: int) -> None:
    """Flips and truncations, file by file, so that not all of them fall into the tensors."""
    draw = random.Random(seed)
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix not in PICTURES]
    files = [file for file in files if file.stat().st_size]
    whole, warnings = figures(folder, digit, evaluated=True)
    noticed: list[tuple[str, str]] = []
    for number in range(count):
        file = files[number % len(files)]
        good = file.read_bytes()
        at, bit = draw.randrange(len(good)), 1 << draw.randrange(8)
        lines = [place + 1 for place, sign in enumerate(good[:-1]) if sign == 10]
        bad = good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :]
        if draw.random() < 0.3:
            bad = good[: draw.choice([0, at, *lines[-1:]])]
        file.write_bytes(bad)
        try:
            told, lines_now = figures(folder, digit, evaluated=number % 10 == 0)
            assert told == whole[: len(told)] or lines_now != warnings, (file, at, bad[at - 9 : at + 9])
        except InputError as error:
            noticed.append((file.name, str(error)))
        file.write_bytes(good)
    assert len(noticed) > count // 10
    assert all(name == "manifest.json" or name in message for name, message in noticed), noticed


@pytest.fixture(scope="session")
def digit(digits, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digit") / "digit.png"
    Image.fromarray(digits.test.images[0, 0]).save(path)
    return path


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def test_a_sample_of_damage_to_every_file(copied, stopped, digit, tmp_path):
    damaged(copied, digit, 60, seed=0)
    damaged(stopped(tmp_path / "stopped", 15), digit, 45, seed=0)


@pytest.mark.soak
def test_a_thousand_damages_to_every_file(copied, stopped, digit, tmp_path):
    damaged(copied, digit, 1000, seed=1)
    damaged(stopped(tmp_path / "stopped", 15), digit, 1000, seed=1)


def test_a_finished_run_lists_its_files_and_one_of_before_needs_no_list(copied, digit):
    listed = json.loads((copied / "manifest.json").read_text())["files"]
    assert sorted(listed) == ["config.json", "data.json", "metrics.jsonl", "result.json"]
    whole = figures(copied, digit, evaluated=True)
    (copied / "manifest.json").unlink()
    assert figures(copied, digit, evaluated=True) == whole


def test_a_damaged_model_is_rebuilt_from_the_last_checkpoint(copied, finished):
    parameters = copied / "model" / "model.safetensors"
    good = parameters.read_bytes()
    parameters.write_bytes(good[:-1])
    with pytest.raises(InputError, match=r"truncated.* rebuild it from its checkpoint: headwork resume"):
        training.load_model(copied)
    lines: list[str] = []
    training.resume(copied, log=lines.append)
    assert "model was damaged (damaged-model-1): rebuilt from the checkpoint of step 22." in lines[0]
    assert parameters.read_bytes() == good
    assert (copied / "damaged-model-1").is_dir()
    parameters.write_bytes(good[:-1])
    shutil.rmtree(copied / "checkpoints")
    with pytest.raises(InputError, match="has no checkpoint of its last step to rebuild its model from"):
        training.resume(copied, log=quiet)


# --- links, pipes, devices ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [".lock", "model", "checkpoints", "config.json", "metrics.jsonl", "data.json"]
)
def test_no_link_in_a_run_leads_out_of_it(name, stopped, tmp_path):
    folder, outside = stopped(tmp_path / "run", 15), tmp_path / "outside"
    outside.mkdir()
    if name in ("model", "checkpoints"):
        if (folder / name).exists():
            (folder / name).rename(outside / name)
    else:
        (folder / name).rename(outside / name)
        (outside / name).write_text((outside / name).read_text() or "mine")
    (outside / name).mkdir(exist_ok=True) if name == "model" else None
    (folder / name).symlink_to(outside / name)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    if name in ("metrics.jsonl", "data.json"):  # a checkpoint holds both: the link is replaced, not followed
        training.resume(folder, log=quiet)
    else:
        with pytest.raises(InputError, match="a link, which is not followed"):
            training.resume(folder, log=quiet)
    assert before == {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}


def opened_within(seconds: int, action: Any) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        with pytest.raises(InputError, match=r"not a plain file|not followed"):
            action()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "name", ["config.json", "data.json", "model/manifest.json", "model/model.safetensors"]
)
def test_a_pipe_or_an_endless_device_is_refused(name, copied, digit):
    (copied / "manifest.json").unlink()
    (copied / name).unlink()
    os.mkfifo(copied / name)
    opened_within(20, lambda: predict(copied, images=[digit], log=quiet))
    (copied / name).unlink()
    (copied / name).symlink_to("/dev/zero")
    opened_within(20, lambda: predict(copied, images=[digit], log=quiet))


# --- what was written on purpose ------------------------------------------------------------------


def replace_weights(folder, state):
    files = {"config.json": (folder / "config.json").read_bytes(), "model.safetensors": save(state)}
    (folder / "model.safetensors").write_bytes(files["model.safetensors"])
    (folder / "manifest.json").write_bytes(manifest_bytes(files))


def test_logits_that_are_not_finite_are_refused_by_the_example(copied, digit):
    folder = copied / "model"
    state = load((folder / "model.safetensors").read_bytes())
    for value in state.values():
        value.mul_(1e30)
    replace_weights(folder, state)
    with pytest.raises(InputError, match=f"^{digit}: the model's logits are not finite"):
        predict(copied, images=[digit], log=quiet)
    with pytest.raises(InputError, match=r"copied, test: example \d+: the model's logits are not finite"):
        evaluate_run(copied, log=quiet)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused_by_name(number, copied, digit):
    folder = copied / "model"
    state = load((folder / "model.safetensors").read_bytes())
    state["head.bias"][1] = number
    replace_weights(folder, state)
    with pytest.raises(InputError, match=r"'head.bias' holds numbers that are not finite"):
        predict(copied, images=[digit], log=quiet)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("task", ["vision"], "its task or its model is unknown"),
        ("data", 5, "data is 5. Expected text"),
        ("compiled", "yes", "compiled is 'yes'. Expected true or false"),
        ("augmentation", None, "augmentation is None. Expected its fields by name"),
        ("augmentation", {"erase": "x"}, "erase is 'x'"),
        ("epochs", 10**400, "epochs is 1000"),
        ("learning_rate", float("nan"), "learning_rate is nan"),
        ("model", {"kind": ["x"]}, "its task or its model is unknown"),
        ("batch_size", [1], r"batch_size is \[1\]"),
        ("columns", ["a", "b"], "unknown field 'columns'"),
    ],
)
def test_a_config_edited_by_hand_is_told_by_file_and_field(field, value, told):
    config = json.loads(training.run_to_json(training.vision("digits"))) | {field: value}
    with pytest.raises(InputError, match=rf"run/config.json.*{told}"):
        read_run(json.dumps(config), "run/config.json")
    with pytest.raises(InputError, match=r"run/config.json: not valid JSON"):
        read_run("[" * 100_000, "run/config.json")


def test_a_host_program_is_left_as_it_was(digits, tmp_path, small):
    """Its random numbers, threads, signals, warnings and environment; also where a run is resumed or read."""
    import csv
    import warnings

    import numpy as np

    from headwork.inspection.estimator import Classifier

    def state() -> list[Any]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        seeds = [torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())]
        rest = [torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(), os.getcwd()]
        # torch names its compiler's cache when that is first imported, whoever asks for it.
        environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
        return [seeds, handlers, rest, list(warnings.filters), environment, csv.field_size_limit()]

    before = state()
    images, labels = digits.train.images[:80, 0], digits.train.labels[:80]
    classifier = Classifier(
        epochs=1, verbose=False, settings=["compiled=false", "model.width=8"], folder=tmp_path / "run"
    )
    classifier.fit(images, labels).predict(images[:4])
    assert state() == before
    shutil.rmtree(tmp_path / "run" / "model")
    training.load_model(tmp_path / "run", log=quiet)
    (tmp_path / "run" / "result.json").unlink()
    training.train(small("epochs=1"), tmp_path / "other", log=quiet)
    training.load_run_config(tmp_path / "run")
    assert state() == before
