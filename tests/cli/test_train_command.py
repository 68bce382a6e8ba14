"""Training from the command line: what is printed where, exit codes, errors without a traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import headwork.cli.train  # noqa: F401

COMMAND = [
    sys.executable,
    "-c",
    "import headwork.cli.train; from headwork.cli.app import main; main()",
]
SETTINGS = ["model.width=8", "model.hidden=8", "model.depth=1", "model.heads=2", "batch_size=128", "epochs=1"]
SMALL = [part for setting in SETTINGS for part in ("--set", setting)]


@pytest.fixture
def run(headwork_command):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield headwork_command
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from headwork import training
    from headwork.training.progress import quiet

    folder = tmp_path_factory.mktemp("runs") / "v1"
    chosen = training.changed(training.vision("digits"), SETTINGS)
    training.train(chosen, folder, log=quiet)
    return folder


def test_train_then_everything_else(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("train", "vision", "--data", "digits", *SMALL)
    assert code == 0, err
    assert out.startswith("runs/vision-digits: test accuracy ")
    assert "epoch 1/1  training loss" in err
    assert "Traceback" not in err
    assert "Report: runs/vision-digits/report.html" in err
    assert Path("runs/vision-digits/curves.svg").exists()
    assert run("curves", "runs/vision-digits")[2].endswith("wrote curves.png\n")
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("evaluate", "runs/vision-digits", "--json")
    assert code == 0
    assert json.loads(out)["count"] == 359
    assert run("report", "runs/vision-digits", "--as", "notebook", "--out", "run.ipynb")[0] == 0
    assert json.loads(Path("run.ipynb").read_text())["nbformat"] == 4
    assert "pretrained" in run("export", "runs/vision-digits", "--to", "pretrained")[1]
    assert "Report: " not in run("resume", "runs/vision-digits")[2]


def test_a_report_that_was_not_written_is_written_by_resume_or_report(run, trained, tmp_path):
    for command in (["resume"], ["report", "--as", "html"]):
        folder = shutil.copytree(trained, tmp_path / command[0])
        assert not (folder / "report.html").exists()
        code, _, err = run(command[0], folder, *command[1:])
        assert code == 0, err
        assert all((folder / name).exists() for name in ("report.html", "curves.png", "curves.svg"))


def test_a_picture_is_asked_about(run, trained, tmp_path):
    from PIL import Image

    Image.new("L", (20, 30)).save(tmp_path / "black.png")
    code, out, _ = run("predict", trained, "--image", tmp_path / "black.png", "--json")
    assert code == 0
    told = json.loads(out)
    assert len(told["probabilities"][0]) == 10
    assert told["rows"][0]["said"] == told["rows"][0]["prediction"]
    assert told["rows"][0]["said"] in "0123456789"


def test_show_is_the_whole_recipe(run):
    code, out, _ = run("train", "vision", "--epochs", "50", "--set", "model.width=96", "--show")
    assert code == 0
    told = json.loads(out)
    assert (told["epochs"], told["model"]["width"], told["model"]["kind"]) == (
        50,
        96,
        "VisionTransformerConfig",
    )


@pytest.mark.parametrize(("options", "rows"), [([], 0), (["--ngrams"], 2**20)])
def test_a_text_is_read_by_the_transformer_alone_unless_ngrams_are_asked_for(run, options, rows):
    code, out, _ = run("train", "text", *options, "--show")
    assert (code, json.loads(out)["model"]["ngrams"]) == (0, rows)


def test_show_says_whose_shape_a_pretrained_encoder_brings(run):
    code, out, err = run("train", "text", "--encoder", "minilm", "--show")
    assert (code, json.loads(out)["encoder"]) == (0, "minilm")
    assert "will be that of minilm" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train"], "train: no task given"),
        (["train", "visoin"], "Did you mean 'vision'"),
        (["train", "vision", "--data", "digitz"], "Did you mean 'digits'"),
        (["train", "vision", "--data", "imdb.csv"], "there is no file or folder"),
        (["train", "vision", "--model", "lstn", "--data", "digits"], "Did you mean 'lstm'"),
        (["train", "vision", "--encoder", "minilm"], "--encoder is for texts"),
        (["train", "vision", "--ngrams"], "--ngrams is for texts"),
        (["train", "vision", "--data", "digits", "--set", "model.widht=3"], "Did you mean 'model.width'"),
        (["train", "vision", "--data", "digits", "--epochs", "0"], "epochs is 0"),
        (
            ["train", "vision", "--data", "digits", "--set", "model.patch=3"],
            "cannot be cut into patches of side 3",
        ),
        (
            ["train", "vision", "--data", "digits", "--set", "size=-5"],
            "size is -5. Give a whole number, at least 0",
        ),
        (
            ["train", "vision", "--data", "digits", "--set", "size=8"],
            "--columns and --size are for files of your own",
        ),
        (["train", "text", "--data", "digits"], "holds images; texts are needed"),
        (["resume", "nowhere"], "no such run"),
        (["resume", "."], "holds no config.json"),
        (["curves", "nowhere"], "no such run"),
        (["evaluate", "nowhere"], "no such run"),
        (["predict", "nowhere", "--text", "good"], "no such run"),
        (["export", "nowhere"], "no such run"),
        (["export", "nowhere", "--to", "onyx"], "Did you mean 'onnx'"),
        (["report", "nowhere"], "no such run"),
        (["report", "nowhere", "--as", "docx"], "unknown --as 'docx'"),
    ],
)
def test_bad_input_is_answered_clearly(arguments, said, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert code == 2, (out, err)
    assert said in err
    assert "Traceback" not in err
    assert out == ""
    assert not list(tmp_path.iterdir())


def test_what_is_not_installed_is_named(run, trained, monkeypatch):
    monkeypatch.setattr(
        "headwork.cli.train.comma_separated",
        lambda *_: (_ for _ in ()).throw(
            ModuleNotFoundError("No module named 'sklearn.base'", name="sklearn.base")
        ),
    )
    assert run("evaluate", trained)[::2] == (2, 'headwork: this needs scikit-learn: pip install ".[train]"\n')
    without = (
        "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['train', 'vision', '--data', 'digits']; "
    )
    shown = subprocess.run(
        [sys.executable, "-c", without + "from headwork.cli.app import main; main()"],
        capture_output=True,
        text=True,
    )
    assert (shown.returncode, shown.stderr) == (2, 'headwork: this needs torch: pip install ".[train]"\n')


def test_other_data_is_named_in_the_title(run, trained, tmp_path):
    import numpy as np

    np.savez(tmp_path / "some.npz", images=np.zeros((30, 8, 8), np.uint8), labels=np.arange(30) % 10)
    code, out, _ = run("evaluate", trained, "--data", tmp_path / "some.npz")
    assert code == 0
    assert f"{trained}: all 30 of some" in out
    assert "--columns" in run("evaluate", trained, "--columns", "a,b")[2]


def test_a_broken_run_is_named(run, trained, tmp_path):
    broken = Path(shutil.copytree(trained, tmp_path / "broken"))
    (broken / "model" / "model.safetensors").write_bytes(b"nothing")
    code, _, err = run("evaluate", broken)
    assert code == 2
    assert "model.safetensors" in err
    (broken / "metrics.jsonl").write_text("{")
    assert "metrics.jsonl: truncated" in run("curves", broken)[2]
    (broken / "manifest.json").unlink()  # as in runs of before, whose files are read without digests
    assert "not valid JSON" in run("curves", broken)[2]
    (broken / "data.json").write_text('{"name": 3}')
    assert "data.json: name is 3. Expected text" in run("predict", broken, "--image", "a.png")[2]
    (broken / "config.json").write_text("{}")
    assert "not the config of a run" in run("resume", broken)[2]


def test_a_diverged_run_ends_with_1(run, tmp_path):
    wild = [
        part
        for setting in ("learning_rate=1e30", "max_grad_norm=1e30", "epochs=3", "warm_up=0")
        for part in ("--set", setting)
    ]
    code, out, err = run("train", "vision", "--data", "digits", *SMALL, *wild, "--out", tmp_path / "run")
    assert code == 1, err
    assert out == ""
    assert "batch " in err
    assert "step" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_to_a_process(number, code, tmp_path):
    folder = tmp_path / "run"
    arguments = [
        "train",
        "vision",
        "--data",
        "digits",
        *SMALL,
        "--set",
        "epochs=2000",
        "--set",
        "save_every=3",
        "--out",
        folder,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    while process.poll() is None and not list(folder.glob("checkpoints/step-*[369]")):
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert out == ""
    assert f"Resume with: headwork resume {folder}" in err
    assert "Traceback" not in err
