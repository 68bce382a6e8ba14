"""The trained models of the package: read by name, with test images, without torch, and part of the wheel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import headwork
from headwork.data import load_images
from headwork.errors import InputError
from headwork.inspection.predictions import predict
from headwork.training import Result
from headwork.training.run_folders import PACKAGED, PACKAGED_NAMES, find_run

ROOT = Path(__file__).parents[2]
CORRECT = {"digits": 20, "fashion-mnist": 19}
ACCURACY = {"digits": 0.9805, "fashion-mnist": 0.9378}


@pytest.mark.parametrize("name", PACKAGED_NAMES)
def test_a_trained_model_recognises_its_images(name: str) -> None:
    images, model = headwork.example_images(name), headwork.load(name)
    assert sorted(images.labels) == sorted([*range(10)] * 2)
    assert images.images.dtype == np.uint8
    assert images.inputs.shape == (20, 1, model.config.image_size, model.config.image_size)
    logits = model(images.inputs)
    assert (logits.argmax(-1) == images.labels).sum() == CORRECT[name]
    torch_logits = headwork.load(name, torch=True)(torch.from_numpy(images.inputs)).detach()
    assert abs(logits - torch_logits.numpy()).max() < 1e-5 * abs(logits).max()
    assert Result.read(PACKAGED / name).test_accuracy == pytest.approx(ACCURACY[name], abs=1e-4)


def test_the_images_are_the_first_two_of_each_class_of_the_test_set() -> None:
    images, test = headwork.example_images("digits"), load_images("digits", seed=0).test
    first = sorted(place for label in range(10) for place in (test.labels == label).nonzero()[0][:2])
    assert list(images.indices) == first
    assert (images.images == test.images[first]).all()
    assert (images.labels == test.labels[first]).all()


def test_predict_without_images_takes_those_of_the_package() -> None:
    rows = predict("fashion-mnist").rows
    assert rows[0][:2] == ("0: Ankle boot", "Ankle boot")
    assert sum(row[0].partition(": ")[2] == row[1] for row in rows) == CORRECT["fashion-mnist"]


def test_a_run_of_ones_own_goes_before_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits").mkdir()  # only a folder of that name
    assert find_run("digits") == PACKAGED / "digits"
    shutil.copy(PACKAGED / "digits" / "config.json", "digits")
    assert find_run("digits") == Path("digits")
    with pytest.raises(InputError, match=r"nothing: no such run.*to read one: digits, fashion-mnist\.$"):
        predict("nothing")
    shutil.copytree(PACKAGED / "digits", "mine", ignore=shutil.ignore_patterns("images"))
    with pytest.raises(InputError, match=r"mine: no test images are kept here. With images: digits"):
        headwork.example_images("mine")
    with pytest.raises(InputError, match="predict: no input given"):
        predict("mine")


def test_the_wheel_holds_every_file_that_is_no_code(tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.py")
    shutil.copytree(ROOT / "headwork", source / "headwork", ignore=ignored)
    for package in (ROOT / "headwork").rglob("__init__.py"):
        shutil.copy(package, source / package.relative_to(ROOT))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    files = {
        path.relative_to(source).as_posix() for path in (source / "headwork").rglob("*.*") if path.is_file()
    }
    held = zipfile.ZipFile(wheel).namelist()
    assert files <= set(held)
    assert "headwork/training/trained/fashion-mnist/model/model.safetensors" in held
    assert (
        json.loads(zipfile.ZipFile(wheel).read("headwork/training/trained/digits/result.json"))["steps"]
        == 410
    )
    assert sum("/images/" in name for name in held) == 40
