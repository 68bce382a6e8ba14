"""``headwork grade``: marks on the screen, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.grading import texts
from headwork.cli import practise  # noqa: F401
from headwork.cli.app import app
from headwork.errors import InputError
from headwork.exercises import generate
from headwork.exercises.questions import answer_sheet


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    return result.exit_code, result.stdout


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    exercise = generate("self-attention", 7)
    return written(tmp_path, texts(exercise, exercise.solution, 4))


def written(folder: Path, answers: dict[str, str]) -> Path:
    sheet = answer_sheet({"self-attention": generate("self-attention", 7)}).split("[answers.")[0]
    lines = [f"{json.dumps(name)} = {json.dumps(text)}" for name, text in answers.items()]
    path = folder / "answer.toml"
    path.write_text(sheet + '[answers."self-attention"]\n' + "\n".join(lines))
    return path


def test_all_right(answer: Path) -> None:
    code, told = run("grade", answer)
    assert code == 0
    assert "6 of 6 points" in told


def test_something_wrong(answer: Path) -> None:
    exercise = generate("self-attention", 7)
    wrong = exercise.case.run({"scores": exercise.solution["scores"].T})
    code, told = run("grade", written(answer.parent, texts(exercise, wrong, 4)), "--hint", "2")
    assert code == 1
    assert "5 of 6 points" in told
    assert "why:" in told
    assert "--hint 3 says the correct step" in told
    assert "from your own earlier numbers" not in told


def test_json(answer: Path) -> None:
    code, told = run("grade", answer, "--json")
    assert code == 0
    assert json.loads(told)["self-attention"]["points"] == 6


def test_unreadable(answer: Path) -> None:
    answer.write_bytes(b"\xff\xfe\x00")
    assert run("grade", answer) == (2, f"{answer}: not UTF-8 text (byte 0). Save it as UTF-8.")
    assert run("grade", answer.parent / "nowhere.toml")[0] == 2
    assert run("grade", answer.parent)[0] == 2


def test_a_step_that_cannot_be_read(answer: Path) -> None:
    code, told = run("grade", written(answer.parent, {"query": "os.system('x')"}))
    assert code == 2
    assert "unreadable" in told


def test_an_answer_beside_its_own_exercise(tmp_path: Path) -> None:
    (tmp_path / "exercise.toml").write_text(
        'mechanism = "softmax"\n[inputs]\nscores = "0 0"\n[points]\nweights = 1\n'
    )
    (tmp_path / "answer.toml").write_text('[answers.mine]\nweights = "1/2 1/2"\n')
    assert run("grade", tmp_path / "answer.toml")[0] == 0
    (tmp_path / "exercise.toml").unlink()
    assert "does not say which exercise" in run("grade", tmp_path / "answer.toml")[1]


def test_a_class(tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text('secret = "0123456789abcdef"\n[[exercise]]\nkind = "output-size"\n')
    (tmp_path / "students.csv").write_text("student\nada\nbob\n")
    out = tmp_path / "out"
    run("practice", "sheet", tmp_path / "course.toml", "--roster", tmp_path / "students.csv", "--out", out)
    for name in ("ada", "bob"):
        (out / "answers" / f"{name}.toml").write_text(
            f'student = "{name}"\n[answers."1"]\nspan = "1"\noutput = "1"\n'
        )
    code, told = run("grade", out / "answers", "--key", out / "key", "--out", tmp_path / "marks")
    assert code == 1
    assert "Explain again" in told
    assert (tmp_path / "marks" / "marks.csv").is_file()
