"""Exercises as files of course systems: what is read, variables, plain notebooks, and the command."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from headwork.courses.assignments import is_key_folder, read_exercises, read_student_sheets
from headwork.courses.autograder import mark_variables, report, step_feedback
from headwork.courses.exporting import COURSE_SYSTEMS, export
from headwork.courses.sheets import key_text
from headwork.courses.variables import value_text, variables
from headwork.errors import InputError
from headwork.exercises import generate, kind_slugs
from headwork.grading import Mark, StepMark
from tests.courses.answering import (
    OWN,
    PART,
    STEPS,
    answered,
    cells,
    filled_in,
    marks,
    run_cell,
    sample,
    source,
)

# --- what is read -----------------------------------------------------------------------------------------


def test_exercises_come_from_kinds_files_keys_and_folders(tmp_path):
    (tmp_path / "own.toml").write_text(OWN.to_toml())
    (tmp_path / "ex").mkdir()
    (tmp_path / "ex" / "exercise.toml").write_text(sample("output-size").to_toml())
    (tmp_path / "key.toml").write_text(OWN.to_toml('exercise."1"') + "\n" + PART.to_toml('exercise."2"'))
    sources = ["output_size", *(str(tmp_path / name) for name in ("own.toml", "ex", "key.toml"))]
    found = read_exercises(sources, seed=5)
    assert list(found) == ["output-size", "own", "output-size-2", "1", "2"]
    assert found["output-size"] == generate("output-size", 5)
    assert found["own"].points == STEPS["points"]
    with pytest.raises(InputError, match=r"no exercise\.toml in it"):
        read_exercises([str(tmp_path)])
    with pytest.raises(
        InputError, match=r"unknown kind of exercise 'self-atention'\. Did you mean 'self-attention'"
    ):
        read_exercises(["self-atention"])


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        export({"own": OWN}, "notebook", tmp_path)
    with pytest.raises(InputError, match="unknown --to 'blackboard'"):
        export({"own": OWN}, "blackboard", tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_variants_are_those_of_the_keys(variants, tmp_path):
    (tmp_path / "key").mkdir()
    for who, sheet in variants.items():
        (tmp_path / "key" / f"{who}.toml").write_text(key_text(sheet))
    assert is_key_folder(str(tmp_path / "key"))
    read = read_student_sheets(tmp_path / "key")
    assert {who: sheet.email for who, sheet in read.items()} == {who: f"{who}@x.org" for who in variants}
    assert [sheet.exercises["1"].inputs for sheet in read.values()] == [
        sheet.exercises["1"].inputs for sheet in variants.values()
    ]
    with pytest.raises(InputError, match="so would hold everybody's"):
        export({}, "notebook", tmp_path / "nb", sheets=read)


# --- variables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1/2 1/4", "1/2 1/4"),
        (None, ""),
        (3, "3"),
        (np.array([[0.9, 0.25], [1, 2]]), "[[0.90, 0.25], [1.00, 2.00]]"),
        ([Fraction(1, 3), "sqrt(2)"], "[1/3, sqrt(2)]"),
        (np.float64(0.1) + np.float64(0.2), "0.30000000000000004"),
        ([1.0, float("nan")], "[1, ?]"),
        ((1e-5, float("-inf")), "[0.00001, -inf]"),
    ],
)
def test_values_are_written_as_typed(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize("value", [True, object(), {1: 2}, lambda: 0, "1" * 300_000, [[]] * 2 + [{}]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(InputError):
        value_text(value)


def test_a_hostile_object_costs_only_its_own_step():
    class Hostile:
        def tolist(self):
            raise KeyError("boo")

    endless = []
    endless.append(endless)
    scope = {"query": [[1, 2], [0, 1], [2, 0]], "scores": Hostile(), "weights": endless, "output": 5}
    mark = mark_variables(OWN, scope)
    assert [step.state for step in mark.steps] == ["right", "unreadable", "unreadable", "wrong"]
    assert mark.points == 1


def test_step_feedback_is_text_that_any_page_takes():
    step = StepMark("weights", "unreadable", 0.0, 1.0, "\x00\x1b[31m" + "x" * 9_000)
    text = step_feedback(Mark(OWN, (step,)), step, 0)
    assert text.startswith("weights: unreadable, 0 of 1 (\ufffd\ufffd[31mxxx")
    assert len(text) < 5_000


def test_variables_are_names_and_each_is_its_own():
    for kind in kind_slugs():
        names = list(variables(sample(kind)).values())
        assert all(name.isidentifier() and name.isascii() for name in names), kind
        assert len(set(names)) == len(names), kind


# --- every kind, every system -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kind_slugs())
def test_the_solution_cells_of_every_kind_get_full_marks(kind, tmp_path):
    exercise = sample(kind)
    export({kind: exercise}, "nbgrader", tmp_path / "hw")
    scope, points = {}, []
    for cell in cells(tmp_path / "hw" / "source" / "hw" / "hw.ipynb"):
        if cell["cell_type"] == "code":
            value, printed = run_cell(source(cell), scope)
            assert printed == ""
            if cell["metadata"]["nbgrader"]["grade"]:
                assert type(value) is float
                points.append(value)
    assert sum(points) == (0 if exercise.is_challenge else exercise.max_points)
    assert len(points) == len(exercise.asked)


# --- a plain notebook -------------------------------------------------------------------------------------


def test_the_plain_notebook_marks_itself(tmp_path):
    export({"own": OWN}, "notebook", tmp_path / "hw", hint=1)
    file = tmp_path / "hw" / "hw.ipynb"
    for how, answers in answered({"own": OWN}).items():
        scope, printed = {}, io.StringIO()
        for cell in json.loads(filled_in(file, {"own": OWN}, answers))["cells"]:
            if cell["cell_type"] == "code":
                with contextlib.redirect_stdout(printed):
                    exec(source(cell), scope)
        assert printed.getvalue().startswith(
            f"{OWN.title}: {marks({'own': OWN}, answers):g} of 5.5 points"
        ), how
        assert "why:" not in printed.getvalue()


def test_notebooks_are_notebooks(tmp_path):
    import nbformat

    for to in COURSE_SYSTEMS:
        last = {} if to == "moodle" else {"c": sample("refute-columns")}
        export({"own": OWN, "b": sample("recurrence"), **last}, to, tmp_path / to)
    files = list(tmp_path.rglob("*.ipynb"))
    assert len(files) == 4
    for file in files:
        nbformat.validate(nbformat.read(file, as_version=4))


def test_no_student_file_holds_the_seed(tmp_path):
    exercise = generate("output-size", 987654321)
    for to in COURSE_SYSTEMS:
        export({"a": exercise}, to, tmp_path / to)
    for file in [p for p in tmp_path.rglob("*") if p.is_file() and "autograder" not in str(p)]:
        assert "987654321" not in file.read_text(), file


def test_a_declared_convention_is_as_good():
    turned = {path: np.round(OWN.solution[path], 4).T for path in OWN.asked}
    assert mark_variables(OWN, turned).points < OWN.max_points
    assert mark_variables(OWN, {**turned, "tokens_as": "columns"}).points == OWN.max_points
    assert "5.5 of 5.5" in report(
        {"mechanism": "self-attention", "inputs": dict(OWN.inputs), **STEPS},
        {**turned, "tokens_as": "columns"},
    )


# --- the command line -------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    code = "from headwork.cli import practise; from headwork.cli.app import main; main()"

    def headwork(*arguments):
        return subprocess.run(
            [sys.executable, "-c", code, "practice", "export", *arguments], capture_output=True, text=True
        )

    done = headwork("output-size", "--seed", "5", "--to", "nbgrader", "--out", str(tmp_path / "hw"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "nbgrader generate_assignment" in done.stderr
    assert (tmp_path / "hw" / "source" / "hw" / "hw.ipynb").is_file()
    again = headwork("output-size", "--to", "otter", "--out", str(tmp_path / "hw"))
    assert (again.returncode, "not empty" in again.stderr) == (2, True)
