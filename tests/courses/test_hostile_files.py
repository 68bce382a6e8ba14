"""Files that were made to harm: whatever they hold, each is read or refused, and nothing else happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwork.courses import cohort, parallel
from headwork.courses.autograder import autograde
from headwork.courses.class_page import marks_csv, write_marks
from headwork.courses.cohort import grade_cohort, grade_file
from headwork.courses.gradebooks import fill_gradebook
from headwork.courses.sheets import make_sheet, read_key, read_roster, read_sheet_template, write_sheets
from headwork.errors import InputError
from headwork.exercises import Exercise
from headwork.exercises.exercise_files import exercise_from, read_exercise
from headwork.exercises.questions import build_question
from headwork.grading import grade
from headwork.grading.answers import read_answers

KEY = """[exercise.1]
mechanism = "softmax"
[exercise.1.inputs]
scores = "0 0"
[exercise.1.points]
weights = 2
"""
SOFTMAX = 'mechanism = "softmax"\n[inputs]\nscores = "0 0"\n[points]\nweights = 2\n'
ANSWER = '[answers.1]\nweights = "0.5 0.5"\n'
NAMES = ("/anywhere/x", "../../../x", "a\\u0000b", "a" * 10_000, "CON", "..", "a/b", "Ada", "ada", "a\\nb")
NAMES += ("\\u001b[2J", "\\u202eada", "=1+1", "\\n=1+1", "<img src=x onerror=alert(1)>", "C:\\\\x", "é")


def a_class(folder: Path) -> tuple[Path, Path]:
    """Answers of as many students as there are names, and a key that is the same for all."""
    (folder / "answers").mkdir()
    for number, name in enumerate(NAMES):
        (folder / "answers" / f"{number}.toml").write_text(f'student = "{name}"\n{ANSWER}')
    (folder / "key.toml").write_text(KEY)
    return folder / "answers", folder / "key.toml"


def test_a_name_never_leads_out_of_the_folder_and_stops_nobody(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    results = write_marks(grade_cohort(*a_class(inner)), inner / "marks")
    assert [graded.state for graded in results] == ["all correct"] * len(NAMES)
    feedback = {path.name.lower() for path in (inner / "marks" / "feedback").iterdir()}
    assert len(feedback) == 2 * len(NAMES)  # none overwrites another, whatever the case of its letters
    written = {
        path for path in tmp_path.rglob("*") if path.is_file() and inner / "answers" not in path.parents
    }
    assert all(path == inner / "key.toml" or inner / "marks" in path.parents for path in written)
    assert not Path("/anywhere").exists()


def test_marks_hold_no_formula_and_one_line_per_student(tmp_path: Path) -> None:
    lines = marks_csv(grade_cohort(*a_class(tmp_path))).splitlines()
    assert len(lines) == len(NAMES) + 1
    assert [line for line in lines if "=1+1" in line] == [line for line in lines if line.startswith("'=1+1")]


def test_a_link_among_the_results_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "feedback").symlink_to(victim)
    with pytest.raises(InputError, match="a link"):
        write_marks(grade_cohort(*a_class(tmp_path)), tmp_path / "marks")
    assert not list(victim.iterdir())


def test_a_key_that_was_added_is_found_in_the_same_process(tmp_path: Path) -> None:
    answers, _ = a_class(tmp_path)
    keys = tmp_path / "keys"
    keys.mkdir()
    assert grade_file(answers / "7.toml", keys).state == "unreadable"
    (keys / "Ada.toml").write_text(KEY)
    assert grade_file(answers / "7.toml", keys).state == "all correct"


def spins(item: int) -> int:
    while item == 3:
        pass
    return item


def takes_memory(item: int) -> str:
    try:
        return str(len(bytearray(3_000_000_000 if item == 3 else 1)))
    except MemoryError:
        return "refused"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits")
def test_an_item_beyond_a_limit_stops_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "MAX_SECONDS", 1)
    assert list(parallel.map_limited(spins, range(9))) == [0, 1, 2, None, 4, 5, 6, 7, 8]
    assert list(parallel.map_limited(takes_memory, range(5))) == ["1", "1", "1", "refused", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other limits")
def test_an_answer_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, key = a_class(tmp_path)
    monkeypatch.setattr(parallel, "MAX_SECONDS", 1)
    monkeypatch.setattr(
        cohort, "read_answers", lambda path: spins(3 * (path.name == "3.toml")) or read_answers(path)
    )
    states = {Path(graded.file).name: graded for graded in grade_cohort(answers, key)}
    assert "took too long" in states.pop("3.toml").problem
    assert {graded.state for graded in states.values()} == {"all correct"}


def test_markdown_and_notebooks_hold_no_tags_and_no_scripts() -> None:
    words = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![y]( data:text/html,z)\n\n[r]: vbscript:a"
    data = {"mechanism": "softmax", "inputs": {"scores": "0 0"}, "question": words, "title": "<script>"}
    question = build_question(exercise_from(data, "here"))
    cells = json.loads(question.to_notebook())["cells"]
    for text in (question.to_markdown(), "".join(line for cell in cells[:1] for line in cell["source"])):
        assert "&lt;img" in text
        assert not any(bad in text for bad in ("<img", "<script", "](javascript", "]( data", "[r]:"))


def test_the_files_of_a_sheet_hold_no_tags_and_no_control_signs(tmp_path: Path) -> None:
    words = "<img src=x onerror=alert(1)>\\u001b[2J\\u202e"
    (tmp_path / "own.toml").write_text(f'title = "{words}"\nquestion = "{words}"\n{SOFTMAX}')
    course = f'title = "{words}"\nsecret = "a secret of ours"\n[[exercise]]\nfile = "own.toml"\n'
    (tmp_path / "course.toml").write_text(course)
    write_sheets(read_sheet_template(tmp_path / "course.toml"), {"ada": {"name": "Ada"}}, tmp_path / "sheet")
    written = [path for path in (tmp_path / "sheet").rglob("*") if path.is_file()]
    texts = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in written}
    assert len(texts) == 10
    for name, text in texts.items():
        assert not any(sign in text for sign in "\x1b\u202e"), name
        assert name.endswith((".toml", ".tex")) or "<img src=x" not in text, name


def test_a_gradebook_of_many_columns_and_many_rows_is_refused_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "export.csv").write_text("username" + "," * 3_000 + "\n" + "a\n" * 3_000)
    with pytest.raises(InputError, match="3,001 rows of 3,001; at most 2,000,000 cells"):
        fill_gradebook(tmp_path / "export.csv", grade_cohort(*a_class(tmp_path)), "Marks")


def test_an_exercise_too_large_to_be_marked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "exercise.toml"
    path.write_text(f'mechanism = "softmax"\n[inputs]\nscores = "{("1 " * 101 + ";") * 100}"\n')
    with pytest.raises(InputError, match="scores has 10,100 entries; an exercise has at most 4,000"):
        read_exercise(path)
    path.write_text(f'mechanism = "recurrence"\n[inputs]\ninputs = "{"1;" * 50}"\nW_x = "1"\nW_h = "1"\n')
    with pytest.raises(InputError, match=r"101 steps; an exercise has at most 60\. Give fewer"):
        read_exercise(path)


def test_marking_fifty_tokens_takes_little_memory() -> None:
    tokens = ";".join(f"{7 * i % 10} {3 * i % 10}" for i in range(50))
    exercise = Exercise("self-attention", {"tokens": tokens})
    exercise.solution  # noqa: B018
    tracemalloc.start()
    grade(exercise, dict.fromkeys(exercise.asked, "1"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000


# --- every kind of file, with every kind of content -------------------------------------------------------
def content(size: int) -> dict[str, str]:
    """Texts of about that size that would take time by its square, memory, or the stack."""
    many = range(size // 12)
    return {
        "deep key": "a" + ".a" * (size // 2) + " = 1",
        "brackets": f'[answers.1]\nweights = "[{";" * size}1"',
        "round brackets": f'[answers.1]\nweights = "{"(" * size}"',
        "operators": f'[answers.1]\nweights = "1 {"+ " * (size // 2)}"',
        "LaTeX": "[answers.1]\nweights = '" + "\\frac{" * (size // 6) + "'",
        "nested": "answers = " + "[" * size,
        "numbers": f"[answers.1]\nweights = [{'1,' * (size // 2)}]",
        "long number": f"[answers.1]\nweights = {'1' * size}",
        "hexadecimal": f"seed = 0x{'f' * size}\ndigits = 0x{'f' * 200}\n{ANSWER}",
        "tables": "[[exercise]]\n" * (size // 13),
        "exercises": "\n".join(
            f"[exercise.{n}]\nkind='softmax'\nseed={n}\n[answers.{n}]\nweights='1'" for n in many
        ),
        "difficulty": f"[answers.1]\nweights='1'\n[exercise.1]\nkind='softmax'\nseed=1\ndifficulty={2**62}",
        "wrong types": "title=1\nsecret=[1]\nstudent={a=1}\nexercise=3\nanswers=4\nconventions=5\ninputs=6",
        "wrong entries": 'mechanism=1\ndigits="x"\nhints=1e9\npoints="a"\nrounding=[]\nseed=1979-05-27',
        "course": 'secret="123456789012"\ndigits="x"\n[[exercise]]\nkind="softmax"\npoints="z"',
        "wide": f'mechanism="self-attention"\n[inputs]\ntokens="{"1 " * (size // 4)}; {"2 " * (size // 4)}"',
        "tall": f'mechanism="self-attention"\n[inputs]\ntokens="{"1 1;" * (size // 4)}"',
        "roots": 'mechanism="softmax"\n[inputs]\nscores="x 12^(17/97)*12^0.169005601"',
        "control": "\x00\x1b[2J\u202e" * (size // 5),
        "quotes": '"' * size,
        "lines": "\n" * size,
        "csv": "student,name\n" + "a,b\n" * (size // 4),
        "csv quotes": 'student,name\n"' + "a" * size,
        "csv columns": "," * size,
        "JSON": "[" * size,
        "notebook": json.dumps(
            {"cells": [{"cell_type": "code", "source": "weights = " + "(" * (size // 2)}]}
        ),
        "sums": json.dumps(
            {"cells": [{"cell_type": "code", "source": "weights = " + "-" * (size // 2) + "1"}]}
        ),
        "cells": '{"cells": [' + "{}," * (size // 3) + "{}]}",
    }


def attempt(kind: str, text: str, folder: Path) -> str:
    """Use the text as such a file; what is refused is refused in words."""
    path = folder / ("answer.ipynb" if kind == "notebook" else "file.toml")
    path.write_text(text, encoding="utf-8")
    (folder / "key.toml").write_text(KEY)
    uses: dict[str, Callable[[], Any]] = {
        "answer": lambda: marks_csv([grade_file(path), grade_file(path, folder / "key.toml")]),
        "key": lambda: [read_key(path), grade_file(folder / "key.toml", path)],
        "course": lambda: make_sheet(read_sheet_template(path), "ada"),
        "roster": lambda: read_roster(path),
        "exercise": lambda: read_exercise(path),
        "notebook": lambda: autograde(submission(folder, path)),
    }
    try:
        return str(uses[kind]())[:2000]
    except InputError as error:
        return str(error)


def submission(folder: Path, path: Path) -> Path:
    for name, file in (("source", "key.toml"), ("submission", path.name)):
        (folder / name).mkdir(exist_ok=True)
        os.replace(folder / file, folder / name / file)
    return folder


KINDS = ("answer", "key", "course", "roster", "exercise", "notebook")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_refused_in_words(kind: str, tmp_path: Path) -> None:
    for name, text in content(3_000).items():
        outcome = attempt(kind, text, tmp_path)
        assert "cannot be marked" not in outcome, (name, outcome)
        assert len(outcome) <= 4_000


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [190_000, 490_000, 9_900_000])
def test_a_large_hostile_file_takes_little_time_and_memory(kind: str, size: int, tmp_path: Path) -> None:
    code = (
        "import resource, sys, time; from pathlib import Path; from test_hostile_files import *\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        f"texts = content({size}); normal = peak()\n"
        "for name, text in texts.items():\n"
        "    begun = time.perf_counter()\n"
        f"    outcome = attempt({kind!r}, text, Path(sys.argv[1]))\n"
        "    print(f'{name}: {time.perf_counter() - begun:.1f} s, {peak() - normal} MB, {outcome[-90:]!r}')\n"
        "    assert peak() - normal < 300, name\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
