"""Sheets and cohorts: variants, secrecy, hostile files, overrides."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.grading import texts
from headwork.courses.class_page import class_causes, write_marks
from headwork.courses.cohort import (
    answer_files,
    grade_cohort,
    grade_file,
    read_overrides,
)
from headwork.courses.sheets import (
    make_sheet,
    read_key,
    read_roster,
    read_sheet_template,
    variant_seed,
    write_sheets,
)
from headwork.errors import InputError

SECRET = "correct horse battery"
COURSE = f"""
title = "Sheet 3"
secret = "{SECRET}"
hints = 2
[[exercise]]
kind = "self-attention"
points = 10
[[exercise]]
kind = "output-size"
[[exercise]]
file = "own.toml"
"""
OWN = """
mechanism = "softmax"
title = "My own"
[inputs]
scores = "0 1"
[points]
weights = 2
"""


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    (tmp_path / "course.toml").write_text(COURSE)
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "students.csv").write_text(
        "\ufeffstudent,name\nada,Ada L.\nbob,Bob\ncem,Cem\n", encoding="utf-8"
    )
    write_sheets(
        read_sheet_template(tmp_path / "course.toml"),
        read_roster(tmp_path / "students.csv"),
        tmp_path / "out",
    )
    return tmp_path / "out"


def submit(sheet: Path, student: str, **changes: dict[str, str]) -> Path:
    """The key written as an answer, with some steps changed."""
    key = read_key(sheet / "key" / f"{student}.toml")
    lines = [f"student = {json.dumps(student)}"]
    for number, exercise in key.exercises.items():
        answers = {**texts(exercise, exercise.solution, 4), **changes.get(f"e{number}", {})}
        lines += [
            f'[answers."{number}"]',
            *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in answers.items()),
        ]
    path = sheet / "answers" / f"{student}.toml"
    path.write_text("\n".join(lines))
    return path


def test_each_student_has_other_numbers_and_always_the_same(sheet: Path) -> None:
    keys = {name: read_key(sheet / "key" / f"{name}.toml") for name in ("ada", "bob", "cem")}
    numbers = {str(key.exercises["1"].inputs) for key in keys.values()}
    assert len(numbers) == 3
    course = read_sheet_template(sheet.parent / "course.toml")
    assert make_sheet(course, "ada").exercises["1"].inputs == keys["ada"].exercises["1"].inputs
    assert keys["ada"].exercises["1"].max_points == pytest.approx(10)
    assert variant_seed("one secret", "ada", "1") != variant_seed("another secret", "ada", "1")


def test_no_student_file_holds_the_secret_the_seed_or_the_key(sheet: Path) -> None:
    course = read_sheet_template(sheet.parent / "course.toml")
    student_files = [path for path in (sheet / "students").rglob("*") if path.is_file()]
    assert len(student_files) == 15
    for path in student_files:
        student = path.parent.name
        text = path.read_text()
        seed = variant_seed(course.secret, student, "1/self-attention")
        exercise = read_key(sheet / "key" / f"{student}.toml").exercises["1"]
        assert SECRET not in text
        assert str(seed) not in text
        assert "seed" not in re.sub("<script>.*?</script>", "", text, flags=re.DOTALL)
        for row in exercise.solution["weights"]:
            for value in row:
                if abs(value - round(value)) > 1e-3:
                    assert f"{value:.4f}" not in text
    assert "marking.md" in os.listdir(sheet / "key")


def test_a_cohort_is_marked_with_feedback_and_causes(sheet: Path, tmp_path: Path) -> None:
    submit(sheet, "ada")
    submit(sheet, "bob", e3={"weights": "1 1"})
    results = write_marks(grade_cohort(sheet / "answers", sheet / "key"), tmp_path / "marks")
    states = {graded.student: graded.state for graded in results}
    assert states == {"ada": "all correct", "bob": "marked", "cem": "no answer"}
    rows = {row["student"]: row for row in csv.DictReader((tmp_path / "marks" / "marks.csv").open())}
    assert float(rows["ada"]["points"]) == float(rows["ada"]["of"]) == 14
    assert float(rows["bob"]["points"]) == 12
    assert [class_causes(results)[0][name] for name in ("exercise", "step")] == ["3", "weights"]
    assert "weights" in (tmp_path / "marks" / "feedback" / "bob.txt").read_text()
    assert (tmp_path / "marks" / "feedback" / "bob.html").is_file()


@pytest.mark.parametrize("points", ['"nan"', "nan", '"inf"', "-1", "1e300", '"x"', "[1]", "true"])
def test_points_that_are_no_number_are_refused_by_place(points: str, tmp_path: Path) -> None:
    (tmp_path / "overrides.toml").write_text(
        f'[[override]]\nstudent = "a"\nexercise = "1"\npoints = {points}\n'
    )
    with pytest.raises(InputError, match=r"overrides\.toml, override 1: points of the exercise are"):
        read_overrides(tmp_path / "overrides.toml")
    (tmp_path / "course.toml").write_text(
        f'secret = "123456789012"\n[[exercise]]\nkind = "self-attention"\npoints = {points}\n'
    )
    with pytest.raises(InputError, match=r"course\.toml, exercise 1: points of the exercise are"):
        read_sheet_template(tmp_path / "course.toml")


def test_points_of_a_file_without_any_are_refused(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'mechanism = "softmax"\n[inputs]\nscores = "0 0"\n[points]\nweights = 0\n'
    )
    (tmp_path / "course.toml").write_text(
        'secret = "123456789012"\n[[exercise]]\nfile = "own.toml"\npoints = 2\n'
    )
    with pytest.raises(InputError, match=r"exercise 1: own\.toml gives no step a point"):
        make_sheet(read_sheet_template(tmp_path / "course.toml"), "ada")


def test_overrides_survive_marking_again(sheet: Path, tmp_path: Path) -> None:
    submit(sheet, "bob", e3={"weights": "1 1"})
    path = tmp_path / "marks" / "overrides.toml"
    write_marks(grade_cohort(sheet / "answers", sheet / "key"), tmp_path / "marks")
    with path.open("a") as file:
        file.write(
            '\n[[override]]\nstudent = "bob"\nexercise = "3"\nstep = "weights"\n'
            'points = 1.5\nreason = "good try"\n'
        )
    overrides = path.read_text()
    results = write_marks(grade_cohort(sheet / "answers", sheet / "key"), tmp_path / "marks")
    assert results[0].points == pytest.approx(13.5)
    assert path.read_text() == overrides
    assert "good try" in (tmp_path / "marks" / "feedback" / "bob.txt").read_text()


HOSTILE = {
    "binary.toml": bytes(range(256)) * 20,
    "encoding.toml": 'student = "ada"\n[answers."1"]\nquery = "1 2"  # \u00e9'.encode("latin-1"),
    "huge.toml": b'student = "ada"\n[answers."1"]\nquery = "' + b"1 " * 200_000 + b'"',
    "deep.toml": b"a = " + b"[" * 100_000,
    "long.toml": b"a = " + b"9" * 100_000,
    "prose.toml": b"import os; os.system('touch owned')",
    "empty.toml": b"",
    "list.toml": b"answers = [1, 2]",
    "stranger.toml": b'student = "mallory"\n[answers."1"]\nquery = "1"',
    "path.toml": b'student = "../../etc/passwd"\n[answers."1"]\nquery = "1"',
}


def test_hostile_files_are_unreadable_with_a_reason_and_the_others_are_marked(
    sheet: Path, tmp_path: Path
) -> None:
    submit(sheet, "ada")
    submit(sheet, "bob")
    answers = sheet / "answers"
    for name, content in HOSTILE.items():
        (answers / name).write_bytes(content)
    outside = submit(sheet, "cem").rename(tmp_path / "cem.toml")
    (answers / "link.toml").symlink_to(outside)
    os.mkfifo(answers / "pipe.toml")
    (answers / "folder").mkdir()
    (answers / "linked").symlink_to(sheet / "key")
    assert len(answer_files(answers)) == len(HOSTILE) + 5
    results = write_marks(grade_cohort(answers, sheet / "key"), tmp_path / "marks")
    states = {Path(graded.file).name: graded for graded in results if graded.file}
    assert {name for name, graded in states.items() if graded.state == "all correct"} == {
        "ada.toml",
        "bob.toml",
    }
    for name in [*HOSTILE, "link.toml", "pipe.toml", "linked"]:
        assert states[name].state == "unreadable"
        assert name in states[name].problem
    assert not list(Path.cwd().glob("owned"))
    rows = list(csv.DictReader((tmp_path / "marks" / "marks.csv").open()))
    assert len(rows) == len(HOSTILE) + 6


CODE = [
    "__import__('os').system('touch owned')",
    "exec('1')",
    "9^9^9^9^9",
    "1e400",
    "((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))",
    "{{7*7}}",
    "\\input{/etc/passwd}",
    "<script>alert(1)</script>",
    "nan",
    "x",
    "1;2;3 4",
    "=cmd|' /C calc'!A0",
]


@pytest.mark.parametrize("text", CODE)
def test_hostile_steps_are_unreadable_and_nothing_runs(sheet: Path, text: str, tmp_path: Path) -> None:
    path = submit(sheet, "ada", e3={"weights": text})
    graded = write_marks([grade_file(path, sheet / "key")], tmp_path / "marks")[0]
    assert graded.marks["3"].steps[0].state in ("unreadable", "wrong")
    assert graded.marks["1"].all_right
    page = (tmp_path / "marks" / "feedback" / "ada.html").read_text()
    assert "<script>alert" not in page
    assert not list(Path.cwd().glob("owned"))


def test_two_files_of_one_student(sheet: Path) -> None:
    path = submit(sheet, "ada", e3={"weights": "1 1"})
    shutil.copy(path, path.with_name("ada-again.toml"))
    counted, other = sorted(
        (g for g in grade_cohort(sheet / "answers", sheet / "key") if g.file), key=lambda g: g.state
    )
    assert (counted.student, counted.state, counted.points) == ("ada", "marked", 12)
    assert counted.flags == ("more than one file; not counted: ada-again.toml",)
    assert (other.student, other.state, other.max_points) == ("", "not counted", 0)
    assert "ada-again.toml: not counted: ada also has ada.toml" in other.problem


@pytest.mark.parametrize(
    ("course", "wording"),
    [
        ('secret = "short"', "fewer than 12 characters"),
        (f'secret = "{SECRET}"', "no exercises"),
        (f'secret = "{SECRET}"\n[[exercise]]\nkind = "self-atention"', "Did you mean 'self-attention'"),
        (f'secret = "{SECRET}"\n[[exercise]]\nlevel = 3', "unknown entry 'level'"),
        (f'secret = "{SECRET}"\n[[exercise]]\ndifficulty = 3', "either a kind or a file"),
        ("secret = ", "not valid TOML"),
    ],
)
def test_a_course_file_is_checked(tmp_path: Path, course: str, wording: str) -> None:
    (tmp_path / "course.toml").write_text(course)
    with pytest.raises(InputError) as error:
        read_sheet_template(tmp_path / "course.toml")
    assert wording in str(error.value)


@pytest.mark.parametrize(
    ("roster", "wording"),
    [
        ("", "empty"),
        ("student,name\n", "no students"),
        ("student\n../ada\n", "cannot name a file"),
        ("student\nada\nada\n", "is listed twice"),
    ],
)
def test_a_roster_is_checked(tmp_path: Path, roster: str, wording: str) -> None:
    (tmp_path / "students.csv").write_text(roster)
    with pytest.raises(InputError) as error:
        read_roster(tmp_path / "students.csv")
    assert wording in str(error.value)
