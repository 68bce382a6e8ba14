"""headwork compare: what is kept, how it goes on, what it prints, what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pytest

import headwork.cli.compare  # noqa: F401
from headwork.comparison import Comparison, Settings, StoppedError, compare, keeping, parallelism
from headwork.comparison.rows import Measurement
from headwork.errors import InputError
from headwork.problems import Solution, families

SMALL = ["--only", "long-range", "--families", "lstm,gru", "--steps", "2"]


@pytest.fixture
def run(headwork_command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(headwork_command, "compare")


def test_a_budget_too_small_says_so_and_all_is_written(run, tmp_path):
    code, out, err = run(*SMALL)
    assert code == 0
    assert "2 training steps are too small a budget to say anything" in out
    assert "lstm and gru compared" in out
    assert "left" in err or "in all" in err
    page = (tmp_path / "comparison-quick" / "comparison.html").read_text()
    assert "<svg" in page
    assert "right answers against the gap" not in page  # no noise is drawn
    for word in ("http://", "https://", "<link rel=stylesheet", "src="):
        assert word not in page.replace("http://www.w3.org", "")
    data = json.loads((tmp_path / "comparison-quick" / "comparison.json").read_text())
    assert data["settings"]["steps"] == 2
    assert "too small" in data["rows"][0]["verdict"]
    # A second start reads what was measured, and says the same.
    code, again, err = run(*SMALL, "--json")
    assert "9 of 9 measurements were there already" in err
    assert json.loads(again) == data


def test_every_form_tells_the_same():
    settings = Settings.of(rows=["parallelism"], families=["cnn", "lstm"])
    results = {
        "parallelism chain": {"lengths": [32, 64], "chains": {"cnn": [17, 17], "lstm": [383, 767]}},
        "parallelism same tokens": {"lengths": [64, 4096], "times": {"cnn": [1.0, 1.1], "lstm": [2.0, 40.0]}},
        "parallelism threads": {"threads": [1, 2], "times": {"cnn": [1.9, 1.0], "lstm": [5.0, 5.1]}},
    }
    told = Comparison(settings, [parallelism.told(settings, results)], results)
    for form, begins in (
        (told.to_text(), "cnn and lstm compared"),
        (told.to_markdown(), "# cnn and lstm compared"),
        (told.to_latex(), r"\documentclass"),
        (told.to_html(), "<!doctype html>"),
    ):
        assert form.startswith(begins)
        assert "12 n - 1" in form
        assert "each FLOP takes longer, so the cores wait in lstm (20 x a token" in form
    row = json.loads(told.to_json())["rows"][0]
    assert row["numbers"]["chain"]["lstm"] == {"fixed": -1.0, "each token": 12.0}
    assert row["numbers"]["time a token"] == {"cnn": 1.1, "lstm": 20.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--families", "cnn,transfomer"], "unknown family 'transfomer'. Did you mean 'transformer'?"),
        (["--families", "cnn,cnn"], "Name each once"),
        (["--only", "speed"], "unknown row 'speed'"),
        (["--seeds", "one"], "expected whole numbers"),
        (["--seeds", "0,0"], "each once"),
        (["--steps", "0"], "0 training steps. Give at least 1"),
        (["--as", "pdf"], "unknown --as 'pdf'"),
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


def test_a_stopped_comparison_goes_on_where_it_stood(tmp_path):
    ran, told = [], []
    with pytest.raises(
        StoppedError, match=r"1 of 3 measurements are kept in .* Go on where it stood with the same command"
    ):
        keeping.carry_out(three(ran, stop_at="b"), tmp_path, say=told.append)
    found = keeping.carry_out(three(ran), tmp_path, say=told.append)
    assert ran == ["a", "b", "c"]
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == {"value": "a", "numbers": [1, 0.1]} == keeping.carry_out(three([]), tmp_path)["a"]
    assert told == [f"1 of 3 measurements were there already, in {tmp_path / 'measurements'}."]


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
def test_a_damaged_or_foreign_file_is_told_and_measured_again(tmp_path, damage):
    ran, told = [], []
    keeping.carry_out(three(ran), tmp_path, say=told.append)
    path = keeping.path_of(tmp_path, three([])[0])
    damaged = damage(path.read_text())
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    ran.clear()
    found = keeping.carry_out(three(ran), tmp_path, say=told.append)
    assert ran == ["a"]
    assert found["a"]["value"] == "a"
    assert told[0] == f"! {path} is damaged or not ours: measured again."


def test_other_settings_never_meet(tmp_path):
    made = [Measurement("a", {"seed": seed}, lambda seed=seed: {"seed": seed}, 1) for seed in (0, 1)]
    for one in made:
        keeping.carry_out([one], tmp_path, say=lambda line: None)
    assert [keeping.kept(tmp_path, one)["seed"] for one in made] == [0, 1]


def test_files_that_are_not_ours_stay(tmp_path):
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "notes.json").write_text("mine")
    keeping.carry_out(three([]), tmp_path, say=lambda line: None)
    assert (tmp_path / "measurements" / "notes.json").read_text() == "mine"


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="is a file"):
        compare(Settings.of(rows=["bias"]), tmp_path / "out")


def test_the_book_says_what_is_missing_without_torch(monkeypatch):
    monkeypatch.setattr(families, "find_spec", lambda name: None if name == "torch" else object())
    solution = Solution()
    families.show_measured(solution, "image_shifts")
    assert solution.parts == [
        'The measured part is left out: torch is not installed. Try pip install ".[train]", then headwork compare.'
    ]
    assert families.torch_flops("cnn", 16, 2) is None
