"""nbgrader and otter: what students get, and marks that are those of ``headwork grade``."""

from __future__ import annotations

import csv
import json
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headwork.courses.exporting import export
from headwork.courses.variables import variables
from headwork.exercises import Exercise
from tests.courses.answering import (
    ANSWERS,
    OWN,
    PART,
    answered,
    cells,
    filled_in,
    marks,
    right,
    run_cell,
    sample,
    source,
    wrong,
)

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


def nbgrader_points(notebook: str, who: str = "") -> float:
    """What the marking cells of a filled notebook give, without a word on stderr."""
    scope, total = {}, 0.0
    for cell in json.loads(notebook)["cells"]:
        if cell["cell_type"] == "code":
            managed, code = cell["metadata"]["nbgrader"], source(cell)
            code = code if managed["grade"] else released(code).replace('student = ""', f'student = "{who}"')
            value, printed = run_cell(code, scope)
            assert printed == ""
            assert value is None or value <= managed["points"]
            total += value or 0.0
    return total


@pytest.mark.parametrize("how", ANSWERS)
def test_nbgrader_cells_give_the_marks_of_grade(how, tmp_path):
    exercises = {"own": OWN, "part": PART}
    answers = answered(exercises)[how]
    export(exercises, "nbgrader", tmp_path / "hw")
    notebook = filled_in(tmp_path / "hw" / "source" / "hw" / "hw.ipynb", exercises, answers)
    assert nbgrader_points(notebook) == marks(exercises, answers)


def test_nbgrader_marks_each_student_by_the_typed_id(variants, handed_in, tmp_path):
    export({}, "nbgrader", tmp_path / "hw", sheets=variants)
    file = tmp_path / "hw" / "source" / "hw" / "hw.ipynb"
    for who, how, answers, expected in handed_in:
        notebook = filled_in(file, variants[who].exercises, answers)
        assert nbgrader_points(notebook, who) == pytest.approx(expected), (who, how)


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
    assert message.splitlines()[-1] == "output: 2; expected 3 x 2"


def with_id(text, who):
    """A notebook with the ID typed where it is asked for."""
    assert text.count('student = \\"\\"') == 1
    return text.replace('student = \\"\\"', f'student = \\"{who}\\"')


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


# --- the real systems, in an environment of their own -----------------------------------------------------
class Submission(NamedTuple):
    """Who hands in, the notebook that they make of the one they were given, and what it earns."""

    name: str
    fill: Callable[[Path], str]
    points: float


def in_every_way(exercises: dict[str, Exercise]) -> list[Submission]:
    known = {name: exercise for name, exercise in exercises.items() if name != "heads"}
    found = []
    for how, answers in answered(known).items():
        answers["heads"] = wrong(exercises["heads"]) if how != "blank" else {}
        fill = partial(filled_in, exercises=exercises, answers=answers)
        found.append(Submission(how.replace(" ", "-"), fill, marks(exercises, answers)))
    return found


def with_their_own_numbers(variants: Any, handed_in: Any) -> list[Submission]:
    def fill(path: Path, who: str, answers: Any) -> str:
        return with_id(filled_in(path, variants[who].exercises, answers), who)

    return [
        Submission(f"{who}-{how}", partial(fill, who=who, answers=answers), points)
        for who, how, answers, points in handed_in
    ]


@pytest.fixture
def by_otter(tmp_path: Path, part: Any, course_system: Any) -> Any:
    def points(submissions: list[Submission]) -> Iterator[float]:
        otter = partial(course_system, part("otter"))
        place, file = tmp_path / "hw" / "autograder", tmp_path / "hw.ipynb"
        otter(place, "otter", "generate", "-t", "tests", "-o", "autograder.zip", "headwork")
        for submission in submissions:
            file.write_text(submission.fill(tmp_path / "hw" / "student" / "hw.ipynb"))
            # The package comes with the zip file; the kernel must not find this one.
            run = ["otter", "run", file, "-a", place / "autograder.zip", "-o", tmp_path]
            otter(tmp_path, *run, package="")
            tests = json.loads((tmp_path / "results.json").read_text())["tests"]
            yield sum(test.get("score", 0) for test in tests)

    return points


@pytest.fixture
def by_nbgrader(tmp_path: Path, part: Any, course_system: Any) -> Any:
    def points(submissions: list[Submission]) -> Iterator[float]:
        nbgrader = partial(course_system, part("nbgrader"), tmp_path / "hw", "nbgrader")
        nbgrader("validate", "source/hw/hw.ipynb")
        nbgrader("generate_assignment", "hw")
        release = tmp_path / "hw" / "release" / "hw" / "hw.ipynb"
        assert not re.search("mechanism|SOLUTION|_variants", release.read_text())
        for submission in submissions:
            folder = tmp_path / "hw" / "submitted" / submission.name / "hw"
            folder.mkdir(parents=True)
            (folder / "hw.ipynb").write_text(submission.fill(release))
        nbgrader("autograde", "hw")
        nbgrader("export", "--to", "grades.csv")
        with (tmp_path / "hw" / "grades.csv").open() as file:
            scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
        yield from (scores[submission.name] for submission in submissions)

    return points


SYSTEMS = [pytest.param(name, marks=pytest.mark.real(name)) for name in ("otter", "nbgrader")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_system_itself_gives_the_marks_of_grade(
    system: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    exercises = {"own": OWN, "part": PART, "heads": sample("multi-head-attention")}
    export(exercises, system, tmp_path / "hw")
    submissions = in_every_way(exercises)
    given = list(request.getfixturevalue(f"by_{system}")(submissions))
    assert given == pytest.approx([submission.points for submission in submissions], abs=1e-4)


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_system_itself_marks_each_student_by_the_typed_id(
    system: str, variants: Any, handed_in: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    export({}, system, tmp_path / "hw", sheets=variants)
    submissions = with_their_own_numbers(variants, handed_in)
    given = list(request.getfixturevalue(f"by_{system}")(submissions))
    assert given == pytest.approx([submission.points for submission in submissions], abs=1e-4)
