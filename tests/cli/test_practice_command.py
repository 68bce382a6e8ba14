"""``headwork practice``."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwork.cli import practise  # noqa: F401
from headwork.cli.app import app
from headwork.errors import InputError
from headwork.exercises import kind_slugs


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, InputError):
        raise result.exception
    return result.exit_code, result.stdout


def test_list_names_every_kind() -> None:
    code, told = run("practice", "list")
    assert code == 0
    assert [line.split()[0] for line in told.splitlines()[1:]] == kind_slugs()


def test_new_writes_the_question_and_the_sheets(tmp_path: Path) -> None:
    code, _ = run("practice", "new", "self-attention", "--seed", "7", "--out", str(tmp_path / "ex7"))
    assert code == 0
    names = {path.name for path in (tmp_path / "ex7").iterdir()}
    forms = {f"question.{end}" for end in ("txt", "md", "tex", "html", "ipynb", "json", "pdf")}
    assert names == {*forms, "answer.toml", "answer.html", "exercise.toml"}
    sheet = tomllib.loads((tmp_path / "ex7" / "answer.toml").read_text())
    assert sheet["exercise"]["self-attention"] == {"kind": "self-attention", "seed": 7, "difficulty": 1}


def test_new_never_overwrites_an_answer(tmp_path: Path) -> None:
    run("practice", "new", "output-size", "--out", str(tmp_path))
    with pytest.raises(InputError, match="may be filled in"):
        run("practice", "new", "output-size", "--out", str(tmp_path))


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html", "notebook"])
def test_new_shows_the_question(form: str) -> None:
    code, told = run("practice", "new", "masked-attention", "--as", form)
    assert code == 0
    assert "weights" in told


def test_a_latex_fragment_has_no_preamble() -> None:
    for fragment in (True, False):
        _, latex = run("practice", "new", "output-size", "--as", "latex", *["--fragment"] * fragment)
        assert ("documentclass" in latex) is not fragment


def test_check_fails_for_numbers_that_hide_mistakes(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('mechanism = "convolution-1d"\n[inputs]\nsignal = "1 2 4 3"\nkernel = "1 1"\n')
    code, told = run("practice", "check", str(own))
    assert code == 1
    assert "kernel flipped" in told
    own.write_text('mechanism = "convolution-1d"\n[inputs]\nsignal = "1 2 4 3"\nkernel = "1 2"\n')
    assert run("practice", "check", str(own))[0] == 0


def test_sheet(tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text(
        'title = "One"\nsecret = "0123456789abcdef"\n[[exercise]]\nkind = "output-size"\n'
    )
    (tmp_path / "students.csv").write_text("student\nada\nbob\n")
    arguments = ("--roster", str(tmp_path / "students.csv"), "--out", str(tmp_path / "out"))
    assert run("practice", "sheet", str(tmp_path / "course.toml"), *arguments)[0] == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"students", "key", "answers"}
