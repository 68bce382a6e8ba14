"""Files of course systems: their format, their marks, what students must not see, and hostile submissions."""

import ast
import contextlib
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import types
import zipfile
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from headwork.courses.assignments import is_key_folder, read_exercises, read_variants
from headwork.courses.autograder import (
    autograde,
    mark_variables,
    read_notebook,
    report,
    step_feedback,
)
from headwork.courses.cohort import grade_file
from headwork.courses.exporting import FORMATS, export
from headwork.courses.sheets import Course, key_text, sheet_for
from headwork.courses.variables import value_text, variables
from headwork.errors import InputError
from headwork.exercises import Exercise, generate, kind_slugs
from headwork.grading import Mark, StepMark, grade
from headwork.grading.answers import read_answers

STEPS = {"points": {"query": 1, "scores": 1.5, "weights": 2, "output": 1}, "digits": 3}
OWN = Exercise("self-attention", {"tokens": "1 2; 0 1; 2 0"}, title="Own <b>title</b>", **STEPS)
PART = Exercise("self-attention", {"tokens": "1 2; 0 1; 2 0"}, rounding="part", **STEPS)


@cache
def sample(kind):
    return generate(kind, 5)


def typed(array):
    return json.dumps(np.round(array, 4).tolist())


def right(exercise):
    return {path: typed(exercise.key[path]) for path in exercise.asked}


def wrong(exercise):
    """The first step wrong in one entry, every later step right by the student's own numbers."""
    first = next(iter(exercise.asked))
    own = {first: exercise.key[first].copy()}
    own[first].flat[0] += 1
    follows = exercise.case.run(own)
    return {path: typed(follows[path]) for path in exercise.asked}


def unscaled(exercise):
    """Scores without the root, and all that follows from them."""
    scores = {"scores": exercise.key["scores"] * np.sqrt(2)}
    follows = {**exercise.case.run(), **exercise.case.run(scores)}
    return {path: typed(follows[path]) for path in exercise.asked}


def early(exercise):
    """Everything from weights rounded to two digits."""
    weights = exercise.key["weights"].round(2)
    follows = exercise.case.run({"weights": weights})
    return {
        **right(exercise),
        "weights": typed(weights),
        "output": json.dumps(follows["output"].round(3).tolist()),
    }


ANSWERS = {
    "right": right,
    "blank": lambda exercise: {},
    "one error": wrong,
    "a mistake": unscaled,
    "rounded early": early,
    "broken": lambda exercise: {
        **right(exercise),
        "weights": "__import__('os').system('true')",
        "scores": "<b>1</b>",
    },
}


def answered(exercises):
    """Every way of answering, for every exercise alike."""
    return {name: {n: answer(e) for n, e in exercises.items()} for name, answer in ANSWERS.items()}


def marks(exercises, answers):
    """What ``headwork grade`` gives."""
    return sum(grade(exercise, answers[name]).points for name, exercise in exercises.items())


def cells(path):
    return json.loads(Path(path).read_text())["cells"]


def source(cell):
    return "".join(cell["source"])


def filled_in(path, exercises, answers):
    """The notebook with the answers of a student, one assignment per variable at the end of its cell."""
    whole = json.loads(Path(path).read_text())
    several = len(exercises) > 1
    for number, (name, exercise) in enumerate(exercises.items(), 1):
        for blank, variable in variables(exercise, f"q{number}_" if several else "").items():
            for cell in whole["cells"]:
                if cell["cell_type"] == "code" and re.search(rf"^{variable} = ", source(cell), re.M):
                    text = answers[name].get(blank)
                    cell["source"] = source(cell) + (f"\n{variable} = {text!r}" if text is not None else "")
    return json.dumps(whole)


def run_cell(code, scope):
    """Run a cell as a kernel does: the value of its last expression, and what went to stderr."""
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), scope) if last else None
    return value, printed.getvalue()


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
    assert sum(points) == (0 if exercise.challenge else exercise.max_points)
    assert len(points) == len(exercise.asked)


# --- nbgrader ---------------------------------------------------------------------------------------------

KEYS = {
    "schema_version",
    "grade",
    "locked",
    "solution",
    "task",
    "grade_id",
    "points",
    "checksum",
    "cell_type",
}


def released(text):
    """A cell as nbgrader releases it."""
    for what in ("SOLUTION", "HIDDEN TESTS"):
        text = re.sub(rf"### BEGIN {what}.*?### END {what}", "", text, flags=re.S)
    return text


def test_nbgrader_metadata_and_what_is_released(tmp_path):
    export({"own": OWN, "more": sample("construct-permutation")}, "nbgrader", tmp_path / "hw1")
    found = cells(tmp_path / "hw1" / "source" / "hw1" / "hw1.ipynb")
    entries = [cell["metadata"]["nbgrader"] for cell in found]
    assert len({entry["grade_id"] for entry in entries}) == len(entries)
    for cell, entry in zip(found, entries, strict=True):
        assert set(entry) == (KEYS if entry["grade"] else KEYS - {"points"})
        assert entry["schema_version"] == 3
        assert entry["cell_type"] == cell["cell_type"]
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", entry["grade_id"])
        assert re.fullmatch(r"[0-9a-f]{32}", entry["checksum"])
        assert entry["locked"] != entry["solution"]
        rest = released(source(cell))
        assert "mechanism" not in rest
        assert "headwork.courses" not in rest
        if entry["solution"]:
            assert rest.count(" = ") == 1  # the blank, not the key
    assert sum(entry.get("points", 0) for entry in entries) == OWN.max_points + 2
    assert "raise" not in (tmp_path / "hw1" / "nbgrader_config.py").read_text()


@pytest.mark.parametrize("how", ANSWERS)
def test_nbgrader_cells_give_the_marks_of_grade(how, tmp_path, capsys):
    exercises = {"own": OWN, "part": PART}
    answers = answered(exercises)[how]
    export(exercises, "nbgrader", tmp_path / "hw")
    file = tmp_path / "hw" / "source" / "hw" / "hw.ipynb"
    scope, total = {}, 0.0
    for cell in json.loads(filled_in(file, exercises, answers))["cells"]:
        if cell["cell_type"] == "code":
            managed = cell["metadata"]["nbgrader"]
            code = source(cell)
            code = code if managed["grade"] else released(code)
            value, printed = run_cell(code, scope)
            assert printed == ""
            total += value if managed["grade"] else 0.0
            assert value is None or value <= managed["points"]
    assert total == marks(exercises, answers)


# --- otter ------------------------------------------------------------------------------------------------


class Case:
    """A test case as otter's decorator holds it."""

    def __init__(self, name=None, points=None, hidden=False, success_message=None, failure_message=None):
        self.name, self.points, self.hidden = name, points, hidden

    def __call__(self, function):
        self.function = function
        return self


@pytest.fixture
def otter(monkeypatch):
    module = types.ModuleType("otter.test_files")
    module.test_case = Case
    monkeypatch.setitem(sys.modules, "otter", types.ModuleType("otter"))
    monkeypatch.setitem(sys.modules, "otter.test_files", module)

    def cases(path):
        scope = {}
        exec(compile(Path(path).read_text(), str(path), "exec"), scope)
        assert scope["OK_FORMAT"] is False
        assert scope["name"] == Path(path).stem
        assert scope["points"] is None
        return [value for value in scope.values() if isinstance(value, Case)]

    return cases


def passed(case, scope):
    try:
        case.function(scope)
    except AssertionError as error:
        return False, str(error)
    return True, ""


@pytest.mark.parametrize("how", ANSWERS)
def test_otter_cases_give_the_marks_of_grade(how, tmp_path, otter):
    exercises = {"own": OWN, "part": PART}
    answers = answered(exercises)[how]
    export(exercises, "otter", tmp_path / "hw")
    scope, total, full = {}, 0.0, 0.0
    for cell in json.loads(filled_in(tmp_path / "hw" / "student" / "hw.ipynb", exercises, answers))["cells"]:
        if cell["cell_type"] == "code" and "grader" not in source(cell):
            run_cell(source(cell), scope)
    for label in ("q1", "q2"):
        for case in otter(tmp_path / "hw" / "autograder" / "tests" / f"{label}.py"):
            good, message = passed(case, scope)
            total, full = total + case.points * good, full + case.points
            assert "<" not in message
            assert case.hidden == (case.points > 0)
    assert total == marks(exercises, answers)
    assert full == OWN.max_points + PART.max_points


def test_otter_students_get_no_key_but_learn_what_cannot_be_read(tmp_path, otter):
    export({"own": OWN}, "otter", tmp_path / "hw")
    student = tmp_path / "hw" / "student"
    assert sorted(p.name for p in student.rglob("*") if p.is_file()) == ["hw.ipynb", "q1.py"]
    assert "mechanism" not in (student / "tests" / "q1.py").read_text()
    (case,) = otter(student / "tests" / "q1.py")
    good = {path: json.loads(text) for path, text in right(OWN).items()}
    assert passed(case, good) == (True, "")
    assert passed(case, good | {"output": [[0, 0]] * 3}) == (True, "")  # wrong, but can be read
    off, message = passed(case, good | {"weights": "<b>", "output": "1 2", "query": ""})
    assert not off
    assert message.splitlines()[0] == "query: not filled in"
    assert "&lt;" in message
    assert "<" not in message
    assert message.splitlines()[-1] == "output: 2; asked is 3 x 2"


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

    for to in FORMATS:
        last = {} if to == "moodle" else {"c": sample("refute-columns")}
        export({"own": OWN, "b": sample("recurrence"), **last}, to, tmp_path / to)
    files = list(tmp_path.rglob("*.ipynb"))
    assert len(files) == 4
    for file in files:
        nbformat.validate(nbformat.read(file, as_version=4))


def test_no_student_file_holds_the_seed(tmp_path):
    exercise = generate("output-size", 987654321)
    for to in FORMATS:
        export({"a": exercise}, to, tmp_path / to)
    for file in [p for p in tmp_path.rglob("*") if p.is_file() and "autograder" not in str(p)]:
        assert "987654321" not in file.read_text(), file


def test_a_declared_convention_is_as_good():
    turned = {path: np.round(OWN.key[path], 4).T for path in OWN.asked}
    assert mark_variables(OWN, turned).points < OWN.max_points
    assert mark_variables(OWN, {**turned, "tokens_as": "columns"}).points == OWN.max_points
    assert "5.5 of 5.5" in report(
        {"mechanism": "self-attention", "inputs": dict(OWN.inputs), **STEPS},
        {**turned, "tokens_as": "columns"},
    )


# --- Gradescope -------------------------------------------------------------------------------------------

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


def answer_text(answers):
    lines = ['student = "ada"']
    for name, steps in answers.items():
        lines += [
            f"[answers.{json.dumps(name)}]",
            *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in steps.items()),
        ]
    return "\n".join(lines) + "\n"


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


def test_answer_sheet_and_notebook_are_both_accepted(box, tmp_path):
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
    (root / "submission" / "ada.toml").unlink()
    export({"own": OWN}, "notebook", tmp_path / "nb")
    (root / "submission" / "nb.ipynb").write_text(
        filled_in(tmp_path / "nb" / "nb.ipynb", {"own": OWN}, {"own": right(OWN)})
    )
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


def test_notebook_answers_are_read_and_never_run(tmp_path):
    trap = tmp_path / "trap"
    codes = [
        "%matplotlib inline\n!ls\nquery = [[1, 2], [0, 1], [2, 0]]",
        f"scores = open({str(trap)!r}, 'w').write('1')",
        "weights = '1/3 0.50 1'\nx = y = 3\nif True:\n    output = 1",
        "this is not python",
    ]
    notebook = {"cells": [{"cell_type": "code", "source": code.splitlines(True)} for code in codes]}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    answers = read_notebook(tmp_path / "a.ipynb", {"own": OWN}).answers["own"]
    assert answers["query"] == "[[1, 2], [0, 1], [2, 0]]"
    assert answers["weights"] == "1/3 0.50 1"
    assert answers["output"] == ""
    assert grade(OWN, answers).step("scores").state == "unreadable"
    assert not trap.exists()


def hostile(folder):
    """Submissions nobody should send, by name."""

    def text(content, name="answer.toml"):
        return lambda: (folder / name).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )

    code = "weights = " + "-" * 50_000 + "1"

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
        "no notebook": text("{", "a.ipynb"),
        "odd notebook": text('{"cells": [3]}', "a.ipynb"),
        "deep notebook": text("[" * 100_000, "a.ipynb"),
        "deep code": text(json.dumps({"cells": [{"cell_type": "code", "source": code}]}), "a.ipynb"),
        "other suffix": text("MZ", "answer.exe"),
    }


@pytest.mark.parametrize("name", hostile(Path()))
def test_hostile_submissions_get_nothing_and_a_reason(name, box, monkeypatch):
    root = box({"own": OWN})
    monkeypatch.chdir(root)
    hostile(root / "submission")[name]()
    # What may bring down Python itself is run as Gradescope runs it; the rest would do the same, only slower.
    results = (
        run(root)
        if name in ("deep", "deep code", "deep notebook", "power", "brackets", "pipe")
        else autograde(root)
    )
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


# --- every student's own numbers --------------------------------------------------------------------------


def half(exercise):
    """The first half of the steps."""
    return dict(list(right(exercise).items())[: len(exercise.asked) // 2])


WAYS = {"right": right, "wrong": wrong, "half": half, "unreadable": ANSWERS["broken"]}


@pytest.fixture(scope="module")
def variants():
    """Three sheets with numbers of their own; the exercises hold what the answers above are made of."""
    course = Course(
        "Sheet",
        "0123456789abcdef",
        {
            "1": {"kind": "self-attention", "points": {"scores": 1, "weights": 2, "output": 1.5}},
            "2": {"kind": "self-attention", "points": 4, "difficulty": 2},
        },
        {"hints": 2},
        Path(),
    )
    return {who: sheet_for(course, who, who.title(), f"{who}@x.org") for who in ("ada", "bob", "cem")}


@pytest.fixture(scope="module")
def handed_in(variants):
    """Every student in every way: the ID, the way, the answers, and what ``headwork grade`` gives."""
    found = []
    for who, sheet in variants.items():
        for how, way in WAYS.items():
            answers = {name: way(exercise) for name, exercise in sheet.exercises.items()}
            found.append((who, how, answers, marks(sheet.exercises, answers)))
    return found


def with_id(text, who):
    """A notebook with the ID typed where it is asked for."""
    assert text.count('student = \\"\\"') == 1
    return text.replace('student = \\"\\"', f'student = \\"{who}\\"')


def test_variants_are_those_of_the_keys(variants, tmp_path):
    (tmp_path / "key").mkdir()
    for who, sheet in variants.items():
        (tmp_path / "key" / f"{who}.toml").write_text(key_text(sheet))
    assert is_key_folder(str(tmp_path / "key"))
    read = read_variants(tmp_path / "key")
    assert {who: sheet.email for who, sheet in read.items()} == {who: f"{who}@x.org" for who in variants}
    assert [sheet.exercises["1"].inputs for sheet in read.values()] == [
        sheet.exercises["1"].inputs for sheet in variants.values()
    ]
    with pytest.raises(InputError, match="so would hold everybody's"):
        export({}, "notebook", tmp_path / "nb", sheets=read)


def test_otter_marks_each_student_by_the_typed_id(variants, handed_in, tmp_path, otter):
    export({}, "otter", tmp_path / "hw", sheets=variants)
    student = (tmp_path / "hw" / "student").rglob("*")
    assert not any(
        "eN" in file.read_text() or "mechanism" in file.read_text() for file in student if file.is_file()
    )
    cases = [c for n in (1, 2) for c in otter(tmp_path / "hw" / "autograder" / "tests" / f"q{n}.py")]
    for who, how, answers, expected in handed_in:
        scope = {"student": f" {who.upper()} "}
        for number, (name, exercise) in enumerate(variants[who].exercises.items(), 1):
            names = variables(exercise, f"q{number}_")
            scope |= {names[step]: text for step, text in answers[name].items()}
        total = sum(case.points * passed(case, scope)[0] for case in cases)
        assert total == pytest.approx(expected), (who, how)
    good, message = passed(cases[1], {**scope, "student": "dan"})
    assert (good, "student = 'dan' is not on the list" in message) == (False, True)
    assert "type your ID" in passed(cases[0], {**scope, "student": ""})[1]


def test_nbgrader_marks_each_student_by_the_typed_id(variants, handed_in, tmp_path):
    export({}, "nbgrader", tmp_path / "hw", sheets=variants)
    file = tmp_path / "hw" / "source" / "hw" / "hw.ipynb"
    for who, how, answers, expected in handed_in:
        scope, total = {}, 0.0
        notebook = json.loads(filled_in(file, variants[who].exercises, answers))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                grades = cell["metadata"]["nbgrader"]["grade"]
                code = (
                    source(cell)
                    if grades
                    else released(source(cell)).replace('student = ""', f'student = "{who}"')
                )
                value, printed = run_cell(code, scope)
                assert printed == ""
                total += value if grades else 0.0
        assert total == pytest.approx(expected), (who, how)


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


# --- the real systems, in an environment of their own ------------------------------------


def real():
    return {"own": OWN, "part": PART, "heads": sample("multi-head-attention")}


@pytest.mark.real("otter")
def test_otter_itself_gives_the_marks_of_grade(tmp_path, part, course_system):
    exercises = real()
    export(exercises, "otter", tmp_path / "hw")
    place = tmp_path / "hw" / "autograder"
    course_system(
        part("otter"), place, "otter", "generate", "-t", "tests", "-o", "autograder.zip", "headwork"
    )
    for how, answers in answered_for_real(exercises).items():
        submitted = tmp_path / "hw.ipynb"
        submitted.write_text(filled_in(tmp_path / "hw" / "student" / "hw.ipynb", exercises, answers))
        # The package comes with the zip file; the kernel must not find this one.
        run = ["otter", "run", submitted, "-a", place / "autograder.zip", "-o", tmp_path]
        course_system(part("otter"), tmp_path, *run, package="")
        tests = json.loads((tmp_path / "results.json").read_text())["tests"]
        assert sum(t.get("score", 0) for t in tests) == pytest.approx(marks(exercises, answers), abs=1e-4), (
            how
        )
        assert sum(t.get("max_score", 0) for t in tests) == sum(e.max_points for e in exercises.values())


@pytest.mark.real("nbgrader")
def test_nbgrader_itself_gives_the_marks_of_grade(tmp_path, part, course_system):
    exercises = real()
    export(exercises, "nbgrader", tmp_path / "hw")
    nbgrader = partial(course_system, part("nbgrader"), tmp_path / "hw", "nbgrader")
    nbgrader("generate_assignment", "hw")
    place = tmp_path / "hw"
    release = (place / "release" / "hw" / "hw.ipynb").read_text()
    assert "mechanism" not in release
    assert "SOLUTION" not in release
    expected = {}
    for number, answers in enumerate(answered_for_real(exercises).values()):
        student = place / "submitted" / f"student{number}" / "hw"
        student.mkdir(parents=True)
        (student / "hw.ipynb").write_text(
            filled_in(place / "release" / "hw" / "hw.ipynb", exercises, answers)
        )
        expected[f"student{number}"] = marks(exercises, answers)
    nbgrader("autograde", "hw")
    nbgrader("export", "--to", "grades.csv")
    rows = list(csv.DictReader((place / "grades.csv").read_text().splitlines()))
    assert {row["student_id"]: pytest.approx(float(row["score"])) for row in rows} == expected
    assert {float(row["max_score"]) for row in rows} == {sum(e.max_points for e in exercises.values())}


def answered_for_real(exercises):
    known = {name: e for name, e in exercises.items() if name != "heads"}
    return {
        how: {**answers, "heads": wrong(exercises["heads"]) if how != "blank" else {}}
        for how, answers in answered(known).items()
    }


@pytest.mark.soak
@pytest.mark.real("otter")
def test_otter_itself_marks_each_student_by_the_typed_id(variants, handed_in, tmp_path, part, course_system):
    export({}, "otter", tmp_path / "hw", sheets=variants)
    place = tmp_path / "hw" / "autograder"
    course_system(
        part("otter"), place, "otter", "generate", "-t", "tests", "-o", "autograder.zip", "headwork"
    )
    for who, how, answers, expected in handed_in:
        submitted = tmp_path / "hw.ipynb"
        notebook = filled_in(tmp_path / "hw" / "student" / "hw.ipynb", variants[who].exercises, answers)
        submitted.write_text(with_id(notebook, who))
        run = ["otter", "run", submitted, "-a", place / "autograder.zip", "-o", tmp_path]
        course_system(part("otter"), tmp_path, *run, package="")
        tests = json.loads((tmp_path / "results.json").read_text())["tests"]
        assert sum(t.get("score", 0) for t in tests) == pytest.approx(expected, abs=1e-4), (who, how)


@pytest.mark.soak
@pytest.mark.real("nbgrader")
def test_nbgrader_itself_marks_each_student_by_the_typed_id(
    variants, handed_in, tmp_path, part, course_system
):
    export({}, "nbgrader", tmp_path / "hw", sheets=variants)
    nbgrader = partial(course_system, part("nbgrader"), tmp_path / "hw", "nbgrader")
    nbgrader("validate", "source/hw/hw.ipynb")
    nbgrader("generate_assignment", "hw")
    release = (tmp_path / "hw" / "release" / "hw" / "hw.ipynb").read_text()
    assert "_variants" not in release
    expected = {}
    for who, how, answers, points in handed_in:
        student = tmp_path / "hw" / "submitted" / f"{who}-{how}" / "hw"
        student.mkdir(parents=True)
        (student / "hw.ipynb").write_text(
            with_id(filled_in(tmp_path / "hw/release/hw/hw.ipynb", variants[who].exercises, answers), who)
        )
        expected[f"{who}-{how}"] = points
    nbgrader("autograde", "hw")
    nbgrader("export", "--to", "grades.csv")
    rows = list(csv.DictReader((tmp_path / "hw" / "grades.csv").read_text().splitlines()))
    assert {row["student_id"]: pytest.approx(float(row["score"]), abs=1e-4) for row in rows} == expected
