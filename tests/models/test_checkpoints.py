"""A checkpoint gives back the same model, or says what is wrong with it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

import headwork
from headwork.errors import InputError
from headwork.model_files import write_folder
from headwork.models import (
    ConvolutionalClassifier,
    ConvolutionalConfig,
    EncoderDecoder,
    Model,
    TextClassifier,
    TextClassifierConfig,
    TextEncoder,
    TextEncoderConfig,
    from_pretrained,
)

FILES = ("config.json", "manifest.json", "model.safetensors")


def small(classes: int = 3) -> ConvolutionalClassifier:
    return ConvolutionalClassifier(ConvolutionalConfig(image=4, width=2, depth=1, classes=classes)).eval()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return small().save_pretrained(tmp_path / "model")


@pytest.fixture(params=[from_pretrained, headwork.load], ids=["torch", "numpy"])
def read(request: pytest.FixtureRequest) -> Any:
    """Both ways to read a folder, which refuse the same things in the same words."""
    return request.param


def with_manifest(folder: Path, **files: bytes) -> None:
    """Write files as somebody would who also mends the manifest."""
    told = json.loads((folder / "manifest.json").read_text())
    for name, data in files.items():
        name = {"config": "config.json", "parameters": "model.safetensors", "tokenizer": "tokenizer.json"}[
            name
        ]
        (folder / name).write_bytes(data)
        told["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(told))


# --- the same model again ---------------------------------------------------------------------


@torch.no_grad()
def test_every_model_comes_back(case: Any, tmp_path: Path) -> None:
    model, batch = case.model(), case.batch()
    before = torch.random.get_rng_state()
    again = from_pretrained(model.save_pretrained(tmp_path / "model"))
    assert torch.equal(torch.random.get_rng_state(), before), "loading drew random numbers"
    assert type(again) is type(model)
    assert again.config == model.config
    assert not again.training
    assert torch.equal(again(*batch), model(*batch))
    assert all(p.requires_grad for p in again.parameters())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


EARLIER = {
    "max_length": "longest",
    "ngrams": "phrases",
    "backend": "kernel",
    "encoder.body.": "encoder.reading.",
}


@torch.no_grad()
@pytest.mark.parametrize("name", ["text, n-grams", "text, lstm both ways"])
def test_a_folder_of_an_earlier_version_comes_back(name: str, tmp_path: Path, cases: Any) -> None:
    """Fields of the config and parameters had other names."""
    model, batch = cases[name].model(), cases[name].batch()
    folder = model.save_pretrained(tmp_path / "model")

    def earlier(text: str) -> str:
        for new, old in EARLIER.items():
            text = text.replace(new, old)
        return text

    config = earlier((folder / "config.json").read_text())
    state = {earlier(key): value for key, value in load_file(folder / "model.safetensors").items()}
    assert any(key.startswith(("phrases.", "encoder.reading.")) for key in state)
    with_manifest(folder, config=config.encode(), parameters=save(state))
    again = from_pretrained(folder)
    assert again.config == model.config
    assert torch.equal(again(*batch), model(*batch))
    again.load_state_dict(state)


def test_old_names_of_fields_are_accepted_but_not_beside_the_new() -> None:
    assert TextClassifierConfig(longest=9, phrases=5) == TextClassifierConfig(max_length=9, ngrams=5)
    with pytest.raises(InputError, match="both longest and max_length are set"):
        TextClassifierConfig(longest=9, max_length=9)


@torch.no_grad()
def test_precision_and_kernel_are_kept(tmp_path: Path) -> None:
    model = ConvolutionalClassifier(ConvolutionalConfig(image=4, width=2, depth=1, backend="fused")).double()
    again = from_pretrained(model.save_pretrained(tmp_path / "model"))
    assert again.config.backend == "fused"
    assert {p.dtype for p in again.parameters()} == {torch.float64}


@torch.no_grad()
def test_a_classifier_on_a_given_encoder_comes_back(tmp_path: Path) -> None:
    encoder = TextEncoder(TextEncoderConfig(width=8, hidden=16, heads=2, depth=1, token_types=2))
    model = TextClassifier.on(encoder, classes=3, pooling="first").eval()
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(from_pretrained(model.save_pretrained(tmp_path / "model"))(tokens), model(tokens))


def test_the_class_asks_for_its_own(saved: Path) -> None:
    assert isinstance(ConvolutionalClassifier.from_pretrained(saved), ConvolutionalClassifier)
    assert isinstance(Model.from_pretrained(saved), ConvolutionalClassifier)
    with pytest.raises(InputError, match="holds a ConvolutionalClassifier, not a EncoderDecoder"):
        EncoderDecoder.from_pretrained(saved)


# --- what is wrong is named -------------------------------------------------------------------


def check_flips(read: Any, folder: Path, name: str, every: int) -> None:
    data = (folder / name).read_bytes()
    for place in range(0, 8 * len(data), every):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        (folder / name).write_bytes(flipped)
        with pytest.raises(InputError) as error:
            read(folder)
        # A changed manifest disagrees with a file, or is none: either may be what is named.
        assert name in str(error.value) or name == "manifest.json"
    (folder / name).write_bytes(data)
    read(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused(read: Any, saved: Path, name: str) -> None:
    check_flips(read, saved, name, 51)


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_refused(read: Any, saved: Path, name: str) -> None:
    check_flips(read, saved, name, 1)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_refused(read: Any, saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    for length in (0, 1, len(data) // 2, len(data) - 2):
        (saved / name).write_bytes(data[:length])
        with pytest.raises(InputError, match="JSON" if name == "manifest.json" else f"{name}: truncated"):
            read(saved)
    (saved / name).unlink()
    with pytest.raises(InputError, match=f"no {name}" if name == "manifest.json" else f"{name}: missing"):
        read(saved)


def test_tensors_that_do_not_fit_are_named(read: Any, saved: Path) -> None:
    state = load_file(saved / "model.safetensors")
    cases = {
        "the tensor 'head.bias' is missing": {n: p for n, p in state.items() if n != "head.bias"},
        "the tensor 'stranger' is not expected": {**state, "stranger": torch.zeros(1)},
        "the tensor 'head.bias' is 4, expected 3": {**state, "head.bias": torch.zeros(4)},
        "the tensor 'head.bias' holds int64": {**state, "head.bias": torch.zeros(3, dtype=torch.int64)},
    }
    for told, changed in cases.items():
        with_manifest(saved, parameters=save(changed))
        with pytest.raises(InputError, match=f"model.safetensors: {told}"):
            read(saved)
    with_manifest(saved, parameters=b"no tensors at all")
    with pytest.raises(InputError, match=r"model.safetensors: not a complete safetensors file"):
        read(saved)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "ConvolutionalClasifier"}, "Did you mean 'ConvolutionalClassifier'"),
        ({"model": None}, "unknown model"),
        ({"format": "other 7"}, "not the config of a Headwork model"),
        ({"config": {"widht": 3}}, "'widht'. Did you mean 'width'"),
        ({"config": {"image": 4, "width": "2"}}, "width is '2'. Give a whole number"),
        (
            {"config": {"image": 4, "width": 2, "depth": 10**12}},
            "depth 1,000,000,000,000, but .* holds only 4 tensors",
        ),
    ],
)
def test_configs_that_do_not_fit_are_named(read: Any, saved: Path, change: dict[str, Any], told: str) -> None:
    with_manifest(saved, config=json.dumps(json.loads((saved / "config.json").read_text()) | change).encode())
    with pytest.raises(InputError, match=told):
        read(saved)


def test_a_config_cannot_ask_for_all_memory(read: Any, tmp_path: Path) -> None:
    config = TextClassifierConfig(width=4, hidden=4, heads=1, depth=1, positions="sinusoidal")
    folder = TextClassifier(config).save_pretrained(tmp_path / "model")
    told = json.loads((folder / "config.json").read_text())
    told["config"]["max_length"] = 10**9
    with_manifest(folder, config=json.dumps(told).encode())
    with pytest.raises(InputError, match="the config asks for 4,000,000,000 numbers"):
        read(folder)


@pytest.mark.parametrize(
    "listed",
    [
        {"config.json": {"bytes": 1, "sha256": ""}},
        {"../../secret": {"bytes": 1, "sha256": ""}},
        {"config.json": [1, 2], "model.safetensors": None},
        [],
    ],
)
def test_manifests_that_are_none(read: Any, saved: Path, listed: Any) -> None:
    (saved / "manifest.json").write_text(json.dumps({"format": "headwork checkpoint 1", "files": listed}))
    with pytest.raises(InputError, match=r"manifest.json"):
        read(saved)


def test_a_tokenizer_that_nobody_listed_is_refused(read: Any, saved: Path) -> None:
    (saved / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer.json is there but not listed"):
        read(saved)
    with_manifest(saved, tokenizer=b"{}")
    with pytest.raises(InputError, match=r"tokenizer.json: not a tokenizer"):
        read(saved)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pkl"])
def test_pickles_are_refused_with_advice(read: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    torch.save({"a": torch.zeros(1)}, tmp_path / name)
    for place in (tmp_path, tmp_path / name):
        with pytest.raises(InputError, match=f"{name} is a pickle.*run any code.*safetensors"):
            read(place)


def test_other_places(read: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"config.json: hidden_size is None"):
        read(tmp_path)


# --- written whole ----------------------------------------------------------------------------


def test_an_older_checkpoint_is_replaced_whole(saved: Path) -> None:
    small(5).save_pretrained(saved)
    assert from_pretrained(saved).config.classes == 5
    assert sorted(path.name for path in saved.parent.iterdir()) == ["model"]
    assert sorted(path.name for path in saved.iterdir()) == sorted(FILES)


def test_the_older_one_stays_when_writing_fails(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        small(5).save_pretrained(saved)
    assert from_pretrained(saved).config.classes == 3
    assert sorted(path.name for path in saved.parent.iterdir()) == ["model"]


def test_without_exchange_two_renames_do(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwork.model_files.swap_directories", lambda *_: False)
    small(5).save_pretrained(saved)
    assert from_pretrained(saved).config.classes == 5
    assert sorted(path.name for path in saved.parent.iterdir()) == ["model"]


def test_nothing_of_anybody_else_is_replaced(saved: Path, tmp_path: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"it holds notes.txt.*not replaced"):
        small().save_pretrained(saved)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file"):
        small().save_pretrained(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    small().save_pretrained(tmp_path / "empty")


def test_only_what_can_be_read_again_is_written(tmp_path: Path) -> None:
    model = small()
    model.head.bias = torch.nn.Parameter(torch.zeros(7))
    with pytest.raises(InputError, match=r"head.bias' is 7, expected 3. Only what its config describes"):
        model.save_pretrained(tmp_path / "model")

    class Own(ConvolutionalClassifier):
        pass

    with pytest.raises(InputError, match="unknown model to save 'Own'"):
        Own(model.config).save_pretrained(tmp_path / "model")
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
import headwork
from headwork.model_files import write_folder
print("ready", flush=True)
k = 0
while True:
    k += 1
    data = str(k).encode()
    write_folder(sys.argv[1], {"config.json": data * 1000, "model.safetensors": data * 5000})
"""


def check_kills(folder: Path, count: int) -> None:
    from headwork.model_files import read_folder

    write_folder(folder, {"config.json": b"0" * 1000, "model.safetensors": b"0" * 5000})
    for k in range(count):
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.01 + 0.003 * k)
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        files = read_folder(folder, needed=("config.json", "model.safetensors"))
        number = files["config.json"][: len(files["config.json"]) // 1000]
        assert files["model.safetensors"] == number * 5000


def test_a_killed_writer_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    check_kills(tmp_path / "model", 1)


@pytest.mark.soak
def test_many_killed_writers(tmp_path: Path) -> None:
    check_kills(tmp_path / "model", 40)
