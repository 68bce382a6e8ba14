"""Gradescope's autograder: its zip file, its results, every student's own numbers, hostile submissions."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from headwork.courses.autograder import autograde
from headwork.courses.cohort import grade_file
from headwork.courses.exporting import export
from headwork.grading.answers import read_answers
from tests.courses.answering import (
    OWN,
    PART,
    answer_text,
    answered,
    marks,
    right,
    sample,
    unscaled,
)

TOP = {"score", "tests", "output", "output_format", "visibility", "execution_time"}
TEST = {"score", "max_score", "status", "name", "number", "output", "output_format", "visibility"}


def valid(results):
    """Whether results have Gradescope's form; returns their score."""
    results = json.loads(results) if isinstance(results, str) else results
    assert set(results) <= TOP
    assert results["output"]
    assert ("tests" in results) != ("score" in results)
    for test in results.get("tests", []):
        assert set(test) == TEST
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] == ("passed" if test["score"] == test["max_score"] else "failed")
        assert (test["output_format"], test["visibility"]) == ("text", "visible")
        assert isinstance(test["number"], str)
        assert all(c.isprintable() or c in "\n\t" for c in test["output"])
    return results.get("score", sum(test["score"] for test in results.get("tests", [])))


@pytest.fixture
def box(tmp_path):
    """An autograder unpacked as Gradescope does, with this Python for its own."""

    def unpacked(exercises, **options):
        export(exercises, "gradescope", tmp_path / "hw", **options)
        root = tmp_path / "autograder"
        with zipfile.ZipFile(tmp_path / "hw" / "autograder.zip") as archive:
            for entry in archive.infolist():
                archive.extract(entry, root / "source")
                (root / "source" / entry.filename).chmod(entry.external_attr >> 16)
        shutil.copy(root / "source" / "run_autograder", root / "run_autograder")
        python = root / "source" / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        # -S: an installed headwork must not lend what the zip lacks.
        packages = Path(np.__file__).parents[1]
        python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
        python.chmod(0o755)
        (root / "submission").mkdir()
        return root

    return unpacked


def run(root):
    """Run the autograder, which must say nothing and always succeed."""
    done = subprocess.run([root / "run_autograder"], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return json.loads((root / "results" / "results.json").read_text())


def test_the_zip_is_whole_and_the_same_every_time(tmp_path):
    for name in ("a", "b"):
        export({"own": OWN}, "gradescope", tmp_path / name / "hw")
    first, second = ((tmp_path / name / "hw" / "autograder.zip").read_bytes() for name in ("a", "b"))
    assert first == second
    archive = zipfile.ZipFile(io.BytesIO(first))
    names = archive.namelist()
    assert {"setup.sh", "run_autograder", "requirements.txt", "key.toml", "headwork/__init__.py"} <= set(
        names
    )
    assert not [name for name in names if re.match(r"headwork/(cli|models|training|data|web)/", name)]
    modes = {
        name: archive.getinfo(name).external_attr >> 16 & 0o777 for name in ("setup.sh", "run_autograder")
    }
    assert modes == {"setup.sh": 0o755, "run_autograder": 0o755}
    for name in modes:
        subprocess.run(["bash", "-n"], input=archive.read(name), check=True)
    assert len(first) < 1_000_000


def test_the_autograder_runs_by_itself_and_gives_the_marks_of_grade(box):
    exercises = {"own": OWN, "part": PART}
    root = box(exercises)
    for how, answers in answered(exercises).items():
        (root / "submission" / "answer.toml").write_text(answer_text(answers))
        results = run(root)
        assert valid(results) == pytest.approx(marks(exercises, answers)), how
        assert len(results["tests"]) == 8
        graded = grade_file(root / "submission" / "answer.toml", root / "source" / "key.toml")
        assert results["output"] == f"{graded.points:g} of {graded.max_points:g} points"
    # It was the copy in the zip that ran, without torch: here it cannot even be found.
    (root / "source" / "headwork" / "grading" / "marking.py").write_text("raise SystemExit(3)")
    assert "marking stopped" in run(root)["output"]


def test_the_answer_sheet_as_exported_is_accepted(box, tmp_path):
    root = box({"own": OWN})
    sheet = (tmp_path / "hw" / "student" / "answer.toml").read_text()
    (root / "submission" / "ada.toml").write_text(sheet)
    assert valid(autograde(root)) == 0
    for path, text in right(OWN).items():
        sheet = re.sub(
            rf'"{path}" = """.*?"""', lambda _, p=path, t=text: f'"{p}" = "{t}"', sheet, flags=re.S
        )
    (root / "submission" / "ada.toml").write_text(sheet)
    assert read_answers(root / "submission" / "ada.toml").answers["own"] == right(OWN)
    assert valid(autograde(root)) == OWN.max_points


def test_a_sheet_under_another_name_or_of_another_exercise(box):
    exercise = sample("output-size")
    root = box({"output-size": exercise})
    place = root / "submission" / "answer.toml"
    place.write_text(answer_text({"mine": right(exercise)}))
    assert valid(autograde(root)) == exercise.max_points
    origin = '[exercise."mine"]\nkind = "output-size"\nseed = {}\ndifficulty = 1\n'
    place.write_text(answer_text({"mine": right(exercise)}) + origin.format(exercise.seed))
    assert valid(autograde(root)) == exercise.max_points
    place.write_text(answer_text({"mine": right(exercise)}) + origin.format(99))
    results = autograde(root)
    assert valid(results) == 0
    assert "answers another exercise (kind output-size, seed 99" in results["output"]


def hostile(folder):
    """Submissions nobody should send, by name."""

    def text(content, name="answer.toml"):
        return lambda: (folder / name).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )

    def both():
        text(answer_text({"own": right(OWN)}))()
        text(answer_text({"own": right(OWN)}), "other.toml")()

    return {
        "nothing": lambda: None,
        "empty": text(""),
        "binary": text(bytes(range(256)) * 50),
        "latin": text('student = "J\xe9r\xf4me"\n'.encode("latin-1")),
        "utf-16": text('student = "a"\n[answers.own]\n'.encode("utf-16")),
        "huge": text("# " + "x" * 3_000_000),
        "deep": text("a = " + "[" * 50_000),
        "no answers": text('student = "a"'),
        "wrong types": text("answers = 3"),
        "code": text(answer_text({"own": {"weights": "__import__('os').system('touch trap')"}})),
        "power": text(answer_text({"own": {"weights": "9**9**9**9**9", "scores": "exp(exp(exp(99)))"}})),
        "brackets": text(answer_text({"own": {"weights": "(" * 9_000}})),
        "nul": text(answer_text({"own": {"weights": "\x00<script>\x1b[31m"}})),
        "long number": text(answer_text({"own": {"weights": "9" * 90_000}})),
        "many": text(answer_text({"own": {"weights": "1 " * 60_000}})),
        "two files": both,
        "link": lambda: (folder / "answer.toml").symlink_to("/etc/passwd"),
        "loop": lambda: (folder / "answer.toml").symlink_to(folder / "answer.toml"),
        "pipe": lambda: os.mkfifo(folder / "answer.toml"),
        "folder": lambda: (folder / "answer.toml").mkdir(),
        "a notebook": text('{"cells": []}', "a.ipynb"),
        "other suffix": text("MZ", "answer.exe"),
    }


@pytest.mark.parametrize("name", hostile(Path()))
def test_hostile_submissions_get_nothing_and_a_reason(name, box, monkeypatch):
    root = box({"own": OWN})
    monkeypatch.chdir(root)
    hostile(root / "submission")[name]()
    # What may bring down Python itself is run as Gradescope runs it; the rest would do the same, only slower.
    results = run(root) if name in ("deep", "power", "brackets", "pipe") else autograde(root)
    assert valid(results) == 0
    output = results["output"] + "".join(test["output"] for test in results.get("tests", []))
    assert re.search("Unreadable|cannot be read|not filled in|incorrect", output)
    assert "root:" not in output
    assert "Traceback" not in output
    assert not list(root.rglob("trap"))


def test_a_box_that_fails_still_writes_a_result(box):
    root = box({"own": OWN})
    (root / "source" / "venv" / "bin" / "python").write_text("#!/bin/sh\necho stray\nkill -9 $$\n")
    results = run(root)
    assert valid(results) == 0
    assert "marking stopped before it was done" in results["output"]
    (root / "source" / "key.toml").write_text("nonsense")
    assert valid(autograde(root)) == 0
    assert "cannot read its key" in autograde(root)["output"]


def test_hints_go_as_far_as_asked(box):
    root = box({"own": OWN}, hint=0)
    (root / "submission" / "answer.toml").write_text(answer_text({"own": unscaled(OWN)}))
    silent = run(root)["tests"][1]["output"]
    assert silent == "scores: incorrect, 0 of 1.5"
    printed = autograde(root, 2)["tests"][1]["output"]
    assert "where:" in printed
    assert "why:" in printed


def test_gradescope_marks_by_the_address_or_else_by_the_typed_id(variants, handed_in, box):
    root = box({}, sheets=variants)
    metadata, answer = root / "submission_metadata.json", root / "submission" / "answer.toml"

    def score(email, student, answers):
        metadata.write_text(json.dumps({"users": [{"email": email, "id": 1, "name": "N"}]}))
        answer.write_text(answer_text(answers).replace('"ada"', json.dumps(student), 1))
        results = autograde(root)
        return valid(results), results["output"]

    for who, how, answers, expected in handed_in:
        assert score(f"{who.upper()}@x.org", "", answers)[0] == pytest.approx(expected), (who, how)
        if how == "right":
            assert score("somebody@x.org", who.upper(), answers)[0] == pytest.approx(expected), who
    answers = {name: right(exercise) for name, exercise in variants["ada"].exercises.items()}
    points, told = score("ada@x.org", "bob", answers)
    assert points == pytest.approx(sum(e.max_points for e in variants["ada"].exercises.values()))
    assert "The file names bob; the numbers are those of ada" in told
    points, told = score("x@x.org", "../ada", answers)
    assert (points, "Type your ID" in told) == (0, True)
    metadata.write_text("[]")
    assert "Type your ID" in run(root)["output"]


def half_a_processor(pid: int) -> None:
    """Stop every process of a session half of the time."""
    for sign in (signal.SIGSTOP, signal.SIGCONT):
        for other in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(other) == pid:
                    os.kill(other, sign)
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_in_half_a_processor_and_768_mb_the_marks_are_those_of_grade(variants, handed_in, box):
    import resource

    root = box({}, sheets=variants)
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (768 << 20, 768 << 20))
    for who, how, answers, expected in handed_in:
        (root / "submission_metadata.json").write_text(json.dumps({"users": [{"email": f"{who}@x.org"}]}))
        (root / "submission" / "answer.toml").write_text(answer_text(answers))
        process = subprocess.Popen([root / "run_autograder"], start_new_session=True, preexec_fn=limit)
        while process.poll() is None:
            half_a_processor(process.pid)
        results = json.loads((root / "results" / "results.json").read_text())
        assert valid(results) == pytest.approx(expected), (who, how)
