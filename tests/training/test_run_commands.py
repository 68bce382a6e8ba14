"""Commands about runs: what contradicts itself is refused before anything is printed or written."""

from __future__ import annotations

import shutil

import pytest

import headwork.cli.train  # noqa: F401


@pytest.fixture
def run(headwork_command):
    return headwork_command


@pytest.mark.parametrize(("option", "setting"), [("--epochs", "epochs=7"), ("--seed", " seed = 7")])
def test_an_option_and_a_setting_of_the_same_field(run, option, setting):
    code, out, err = run("train", "vision", option, 3, "--set", setting, "--show")
    assert (code, out) == (2, "")
    assert f"{option} 3 and --set {setting}: which one?" in err


def test_a_picture_of_an_unknown_kind_is_refused_before_the_table(run, finished, tmp_path):
    code, out, err = run("curves", finished, "--out", tmp_path / "x.pdf")
    assert (code, out) == (2, "")
    assert "Known: .png, .svg" in err


def test_a_run_of_which_only_the_figures_are_kept(run, finished, tmp_path):
    for name in ("config.json", "data.json", "metrics.jsonl", "result.json"):
        shutil.copy(finished / name, tmp_path)
    code, out, err = run("evaluate", tmp_path)
    assert (code, out) == (2, "")
    assert "only the figures of this run are kept here, not its model. Train it again." in err


def test_a_model_that_is_not_finished_is_exported_only_to_a_named_place(run, stopped, tmp_path):
    folder = stopped(tmp_path / "run", 12)
    for form in ("onnx", "pretrained"):
        code, out, err = run("export", folder, "--to", form)
        assert (code, out) == (2, "")
        assert "not finished" in err
        assert "--out" in err
    assert run("export", folder, "--to", "pretrained", "--out", tmp_path / "model")[0] == 0
    assert "holds no config.json" in run("export", tmp_path)[2]
