"""headwork compare: what is saved, how it resumes, what it prints, what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pytest

import headwork.cli.look_inside  # noqa: F401
from headwork.comparison import Comparison, Settings, StoppedError, compare, measurements, parallelism
from headwork.comparison.measurements import Measurement
from headwork.errors import InputError
from headwork.problems import Solution, families
from headwork.training import progress

SMALL = ["--only", "long-range", "--families", "lstm,gru", "--steps", "2"]


@pytest.fixture
def run(headwork_command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(headwork_command, "compare")


def test_a_budget_too_small_says_so_and_all_is_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LINE_INTERVAL", -1.0)  # a line for every measurement
    code, out, err = run(*SMALL)
    assert code == 0
    assert "2 training steps are too small a budget to say anything" in out
    assert "lstm and gru compared" in out
    assert "1/" in err
    page = (tmp_path / "comparison-quick" / "comparison.html").read_text()
    assert "<svg" in page
    assert "accuracy against the gap" not in page  # no noise is drawn
    for word in ("http://", "https://", "<link rel=stylesheet", "src="):
        assert word not in page.replace("http://www.w3.org", "")
    data = json.loads((tmp_path / "comparison-quick" / "comparison.json").read_text())
    assert data["settings"]["steps"] == 2
    assert "too small" in data["rows"][0]["verdict"]
    # A second start reads what was measured, and says the same.
    code, again, err = run(*SMALL, "--json")
    assert "9 of 9 measurements were already there" in err
    assert json.loads(again) == data


def test_every_format_says_the_same():
    settings = Settings.from_options(sections=["parallelism"], families=["cnn", "lstm"])
    results = {
        "parallelism chain": {"lengths": [32, 64], "chains": {"cnn": [17, 17], "lstm": [383, 767]}},
        "parallelism same tokens": {"lengths": [64, 4096], "times": {"cnn": [1.0, 1.1], "lstm": [2.0, 40.0]}},
        "parallelism threads": {"threads": [1, 2], "times": {"cnn": [1.9, 1.0], "lstm": [5.0, 5.1]}},
    }
    comparison = Comparison(settings, [parallelism.report(settings, results)], results)
    for text, start in (
        (comparison.to_text(), "cnn and lstm compared"),
        (comparison.to_markdown(), "# cnn and lstm compared"),
        (comparison.to_latex(), r"\documentclass"),
        (comparison.to_html(), "<!doctype html>"),
    ):
        assert text.startswith(start)
        assert "12 n - 1" in text
        assert "cores wait and each FLOP takes longer for lstm (20 x per token" in text
    row = json.loads(comparison.to_json())["rows"][0]
    assert row["numbers"]["chain"]["lstm"] == {"fixed": -1.0, "each token": 12.0}
    assert row["numbers"]["time a token"] == {"cnn": 1.1, "lstm": 20.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--families", "cnn,transfomer"], "unknown family 'transfomer'. Did you mean 'transformer'?"),
        (["--families", "cnn,cnn"], "Name each once"),
        (["--only", "speed"], "unknown row 'speed'"),
        (["--seeds", "one"], "expected whole numbers"),
        (["--seeds", "0,0"], "distinct non-negative integers"),
        (["--steps", "0"], "0 training steps. Give at least 1"),
        (["--as", "docx"], "unknown --as 'docx'"),
        (["--out", "file"], "is a file. Name a folder"),
    ],
)
def test_what_is_refused(run, tmp_path, arguments, words):
    (tmp_path / "file").write_text("mine")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert (tmp_path / "file").read_text() == "mine"


def three(ran, *, stop_at=""):
    def work(name):
        def do():
            if name == stop_at:
                raise KeyboardInterrupt
            ran.append(name)
            return {"value": name, "numbers": (1, 0.1)}

        return do

    return [Measurement(name, {"seed": 0}, work(name), 1) for name in ("a", "b", "c")]


def test_a_stopped_comparison_is_resumed(tmp_path):
    ran, messages = [], []
    with pytest.raises(
        StoppedError, match=r"1 of 3 measurements are saved in .* Resume with the same command"
    ):
        measurements.run_measurements(three(ran, stop_at="b"), tmp_path, log=messages.append)
    results = measurements.run_measurements(three(ran), tmp_path, log=messages.append)
    assert ran == ["a", "b", "c"]
    assert list(results) == ["a", "b", "c"]
    assert (
        results["a"]
        == {"value": "a", "numbers": [1, 0.1]}
        == measurements.run_measurements(three([]), tmp_path)["a"]
    )
    assert messages == [f"1 of 3 measurements were already there, in {tmp_path / 'measurements'}."]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"value": "a"', '"value": "z"'),
        lambda text: text.replace("headwork comparison 1", "another program"),
        lambda text: text.replace('"fingerprint": "', '"fingerprint": "0'),
        lambda text: text.encode("utf-16"),
    ],
)
def test_a_damaged_or_foreign_file_is_reported_and_measured_again(tmp_path, damage):
    ran, messages = [], []
    measurements.run_measurements(three(ran), tmp_path, log=messages.append)
    path = measurements.result_path(tmp_path, three([])[0])
    damaged = damage(path.read_text())
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    ran.clear()
    results = measurements.run_measurements(three(ran), tmp_path, log=messages.append)
    assert ran == ["a"]
    assert results["a"]["value"] == "a"
    assert messages[0] == f"! {path} is damaged or from another program: measured again."


def test_other_settings_have_other_files(tmp_path):
    both = [Measurement("a", {"seed": seed}, lambda seed=seed: {"seed": seed}, 1) for seed in (0, 1)]
    for one in both:
        measurements.run_measurements([one], tmp_path, log=lambda line: None)
    assert [measurements.load(tmp_path, one)["seed"] for one in both] == [0, 1]


def test_foreign_files_stay(tmp_path):
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "notes.json").write_text("mine")
    measurements.run_measurements(three([]), tmp_path, log=lambda line: None)
    assert (tmp_path / "measurements" / "notes.json").read_text() == "mine"


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="is a file"):
        compare(Settings.from_options(rows=["bias"]), tmp_path / "out")


def test_the_book_says_what_is_missing_without_torch(monkeypatch):
    monkeypatch.setattr(families, "find_spec", lambda name: None if name == "torch" else object())
    solution = Solution()
    families.show_measured(solution, "image_shifts")
    advice = 'torch is not installed. Try pip install ".[train]", then headwork compare.'
    assert solution.parts == [f"The measured part is left out: {advice}"]
    assert families.torch_flops("cnn", 16, 2) is None
