"""What a person may type by mistake: worked where it makes sense, refused in words where not."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import headwork.cli.learn
import headwork.cli.look_inside
import headwork.cli.practise
import headwork.cli.train  # noqa: F401  (each registers its commands)

KEYS = ["--key", "1 0; 0.9 0; 0 1", "--value", "1 0; 0 1; 0 0", "--change", "1"]


def typed(slug: str, **given: str) -> list[str]:
    return ["explain", slug, *(part for name, text in given.items() for part in ("--set", f"{name}={text}"))]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--query", "1 0", "--delta", "0.2 0", "--betas", ""], "betas: empty"),
        (["--query", "1 0", "--delta", "0.2 0", "--betas", "x"], "betas: 'x' is a symbol"),
        (["--query", "1 0", "--delta", "0.2 0", "--betas", "1 -oo"], "beta -inf is negative"),
        (["--query", "a b", "--delta", "0.2 0"], "query: 'a' is a symbol; a number is expected here"),
        (["--query", "1 0", "--delta", "d 0"], "delta: 'd' is a symbol"),
        (["--query", "oo 0", "--delta", "1 0"], "query holds an infinite number"),
        (["--query", "1 0 2", "--delta", "1 0"], "key width 2 differs from query width 3"),
    ],
)
def test_sensitivity_refuses_in_words(headwork_command, options: list[str], message: str) -> None:
    code, _, errors = headwork_command("sensitivity", *options, *KEYS)
    assert code == 2
    assert message in errors


def test_sensitivity_at_infinite_beta(headwork_command) -> None:
    ask = ["sensitivity", "--query", "1 0", "--delta", "0.2 0", "--betas", "1, oo", *KEYS]
    code, text, _ = headwork_command(*ask)
    assert code == 0
    assert "at beta = ∞, by 1.4142; the winner flips" in text  # all of (1, 0) is exchanged for (0, 1)
    numbers = json.loads(headwork_command(*ask, "--json")[1])
    assert numbers["betas"] == [1.0, "inf"]
    assert numbers["weights_after"][1] == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (typed("softmax", scores="5"), ""),
        (typed("lstm-cell", inputs="1", W_x="1; 2; 3; 4", W_h="1; 1; 1; 1"), ""),
        (typed("self-attention", tokens="3", W_v="2"), ""),
        (typed("self-attention", tokens="1 oo; 2 0"), ""),
        (typed("lstm-cell", inputs="1"), "W_x and W_h missing"),
        (typed("convolution-1d", signal="1 2 3", kernel="1 1", stride="k"), "stride is k. Expected a whole"),
        (typed("toeplitz", signal="1 2 3", kernel="1 1", padding="1e9"), "a matrix of 2,000,000,002 rows"),
        (typed("encoder", tokens="1 2; 2 0", random="1", epsilon="1/10"), ""),
        (
            typed("encoder", tokens="1 2; 2 0", random="1", depth="1e9"),
            "depth 1,000,000,000; by hand at most",
        ),
        (typed("encoder", tokens="1 2; 2 0", random="1", hidden="1e9"), "parameters; by hand at most"),
        (typed("sinusoidal-positions", places="0 1", width="1e9"), "width 1,000,000,000; at most"),
        (typed("max-pooling", image="1 2; 3 4", size="a 1; 2 3"), "size is a 1; 2 3. Expected a whole"),
        (typed("learned-positions", tokens="1 2; 3 4", table="1 2"), "Given: tokens is 2 x 2 (token, width)"),
        (typed("layer-normalisation", tokens="1 2 3", scale="1 2"), "width is 3 in tokens and 2 in scale"),
    ],
)
def test_explain_works_or_refuses_in_words(headwork_command, ask: list[str], message: str) -> None:
    code, _, errors = headwork_command(*ask)
    assert code == (2 if message else 0), errors
    assert message in errors
    assert not any(word in errors for word in ("unexpected", "index", "axis -", "broadcast"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("points = {quary = 1}", "exercise 1: unknown step of self-attention 'quary'. Did you mean 'query'"),
        ("points = {query = -1}", "exercise 1: points of query are -1. Expected a number from 0"),
        ("points = -1", "points of the exercise are -1. Expected a number from 0"),
        ("difficulty = 1.5", "difficulty is '1.5'. Expected a whole number"),
        ("digits = 2020-01-01", "digits is"),
        ("hints = 9", "hints is 9. Expected a whole number from 0 to 3"),
    ],
)
def test_a_course_refuses_in_words(headwork_command, tmp_path: Path, entry: str, message: str) -> None:
    top, own = (entry, "") if entry.startswith(("digits", "hints")) else ("", entry)
    course, roster = tmp_path / "course.toml", tmp_path / "students.csv"
    course.write_text(f'secret = "a long secret"\n{top}\n[[exercise]]\nkind = "self-attention"\n{own}\n')
    roster.write_text("student\nada\n")
    code, _, errors = headwork_command(
        "practice", "sheet", course, "--roster", roster, "--out", tmp_path / "s"
    )
    assert code == 2
    assert message in errors


def test_a_size_too_long_to_be_counted_is_refused_in_words(headwork_command) -> None:
    code, _, errors = headwork_command("sizes", "model", "encoder", "--tokens", "9" * 19)
    assert code == 2
    assert "tokens is 9999999999999999999. Expected a whole number from 1 to" in errors


def test_an_exercise_needs_numbers(headwork_command, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('mechanism = "softmax"\n[inputs]\nscores = "x 1"\n')
    code, _, errors = headwork_command("practice", "check", own)
    assert code == 2
    assert "symbols among the inputs" in errors


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("begun before it was refused")


@pytest.mark.parametrize(
    ("task", "data", "holds"), [("vision", "imdb", "texts"), ("text", "fashion-mnist", "images")]
)
def test_data_of_another_kind_is_refused_before_it_is_fetched(
    headwork_command, monkeypatch, tmp_path: Path, task: str, data: str, holds: str
) -> None:
    monkeypatch.setattr("headwork.data.loading.fetch", refuse)
    code, _, errors = headwork_command("train", task, "--data", data, "--out", tmp_path / "run")
    assert code == 2
    assert f"{data} holds {holds}" in errors


def test_a_report_into_a_file_is_refused_before_the_book_is_solved(
    headwork_command, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("headwork.cli.learn.solve_all", refuse)
    file = tmp_path / "report.html"
    file.write_text("kept")
    code, _, errors = headwork_command("run", "--out", file)
    assert code == 2
    assert "is a file. Name a folder" in errors


@pytest.mark.parametrize(
    "command",
    [
        "grade answer.toml --as html --out x.html",
        "practice new self-attention --out x.html",
        "practice sheet course.toml --roster students.csv --out x.pdf",
        "practice export output-size --to otter --out x.ipynb",
        "course new transformer --out x.ipynb",
        "train vision --data digits --out x.md",
        "compare --out x.html",
        "run --out x.html",
    ],
)
def test_the_name_of_a_file_is_refused_where_a_folder_is_written(
    headwork_command, tmp_path: Path, monkeypatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, errors = headwork_command(*command.split())
    assert (code, output, list(tmp_path.iterdir())) == (2, "", [])
    assert "is the name of a file, but a folder is written. Name a folder." in errors


def test_a_folder_that_links_to_itself_is_refused_in_words(headwork_command, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for command in (("practice", "export", "output-size", "--to", "otter", "--out"), ("lab", "--model")):
        code, _, errors = headwork_command(*command, tmp_path / "loop")
        assert code == 2
        assert "unexpected" not in errors


def test_a_compiler_that_is_interrupted_ends_in_words(headwork_command, monkeypatch, tmp_path: Path) -> None:
    def compile_until_interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("InductorError: the worker died")

    monkeypatch.setattr("headwork.training.runs.train_loop", compile_until_interrupted)
    code, _, errors = headwork_command("train", "vision", "--data", "digits", "--out", tmp_path / "run")
    assert code == 130
    assert "stopped and saved at step 0" in errors
    assert "headwork resume" in errors


def test_compare_forecasts_from_its_own_progress(monkeypatch, capsys, tmp_path) -> None:
    from headwork.comparison import measurements

    now = iter([0.0, 0.0, 60.0])
    monkeypatch.setattr(measurements.time, "monotonic", lambda: next(now))
    planned = [measurements.Measurement(name, {}, dict, 1.0) for name in ("first", "second")]
    measurements.run_measurements(planned, tmp_path)
    first, second = capsys.readouterr().err.splitlines()
    assert "about" not in first  # nothing is known yet
    assert "about 1:00 left" in second  # as long again as the first took, whatever was planned


def test_what_may_be_set_is_what_set_takes() -> None:
    from headwork.training.recipes import changed, settable, text, vision

    for run in (text(), vision()):
        assert "encoder" not in settable(run)
        assert changed(run, []) == run


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            [*typed("softmax", scores="x 1"), "--slide", "x", "--cell", "weights[0]"],
            "--slide shows every step",
        ),
        ([*typed("softmax", scores="0 1"), "--json", "--as", "html"], "--json and --as html: which one?"),
        (["lab", "--save", "lab.html", "--port", "80"], "--host and --port are for a lab that is served"),
        (["practice", "new", "mine.toml", "--seed", "7"], "mine.toml has its own numbers"),
        (["course", "hw3", "--find", "permutation"], "--find permutation and hw3: which one?"),
        (["grade", "answer.toml", "--column", "Sheet 3"], "--column names a column of a gradebook"),
        (["train", "vision", "--show", "--out", "recipe"], "--out is the folder of a run"),
    ],
)
def test_an_option_that_would_be_dropped_is_refused(headwork_command, ask: list[str], message: str) -> None:
    code, _, errors = headwork_command(*ask)
    assert code == 2
    assert message in errors
