"""The class page and its files, and twenty-nine odd files of which each is told by name and harms nobody."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grading import texts
from headwork.courses.class_page import class_causes, class_document, class_steps, csv_text, write_marks
from headwork.courses.cohort import StudentMarks, grade_cohort
from headwork.courses.sheets import (
    Sheet,
    SheetTemplate,
    key_text,
    make_sheet,
    read_roster,
    read_sheet_template,
)
from headwork.errors import InputError
from headwork.grading import grade
from headwork.grading.feedback import as_data, feedback_document

EXAMPLE = Path(__file__).parents[2] / "examples" / "class"


@pytest.fixture(scope="module")
def results() -> list[StudentMarks]:
    return grade_cohort(EXAMPLE / "answers", EXAMPLE / "key")


@pytest.fixture(scope="module")
def marks(results: list[StudentMarks], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class") / "marks"
    write_marks(results, folder)
    return folder


def by_student(results: list[StudentMarks]) -> dict[str, StudentMarks]:
    return {graded.student: graded for graded in results if graded.student}


def test_the_invented_class(results: list[StudentMarks]) -> None:
    students = by_student(results)
    assert sorted(students) == [f"s{number:02}" for number in range(1, 31)]
    assert {graded.max_points for graded in students.values()} == {15}
    states = {"s01": "all correct", "s15": "unreadable", "s30": "no answer", "s02": "marked"}
    assert {student: students[student].state for student in states} == states
    assert students["s16"].flags == ("the file names student 's01'; marked as s16's",)
    assert students["s01"].flags == ()
    assert "query, key and output fit the numbers of s12" in students["s29"].flags[0]
    flagged = [graded.student for graded in students.values() if graded.flags]
    assert flagged == ["s16", "s29"]


def test_the_page_shows_what_the_data_says(results: list[StudentMarks], marks: Path) -> None:
    data = json.loads((marks / "class.json").read_text())
    page = (marks / "index.html").read_text()
    first = data["causes"][0]
    assert (first["exercise"], first["step"], first["students"]) == ("1", "weights", 10)
    assert first["who"] == class_causes(results)[0]["who"]
    assert len(data["marks"]) == 30
    assert f"10 of 28</b> {first['sentence']} (1. weights)" in page
    for graded in results:
        linked = f'<a href="feedback/{graded.student}.html">' in page
        assert linked == (graded.student not in ("s15", "s30"))
        if graded.marks:
            title = f'title="{graded.marks["1"].steps[0].path}: {graded.marks["1"].steps[0].verdict}"'
            assert title in page
    assert (marks / "feedback" / "s02.html").is_file()
    steps = {(step["exercise"], step["step"]): step for step in data["steps"]}
    assert steps["1", "weights"]["lost"] == max(step["lost"] for step in data["steps"])
    rows = list(csv.DictReader((marks / "steps.csv").open()))
    assert [(row["exercise"], row["step"]) for row in rows] == list(steps)
    assert len(list(csv.DictReader((marks / "causes.csv").open()))) == len(data["causes"])
    assert len(page) < 3_000_000


def test_points_add_up(results: list[StudentMarks], marks: Path) -> None:
    steps = class_steps(results)
    marked = [graded for graded in results if graded.file and not graded.problem]
    assert sum(s["lost"] for s in steps) == pytest.approx(sum(g.max_points - g.points for g in marked))
    rows = {row["student"]: row for row in csv.DictReader((marks / "marks.csv").open())}
    for graded in results:
        row = rows[graded.student]
        assert float(row["points"]) == pytest.approx(sum(float(row[n]) for n in "123"), abs=0.011)
        assert float(row["of"]) == 15


def test_a_class_document_has_every_format(results: list[StudentMarks]) -> None:
    document = class_document(results)
    for name in ("text", "markdown", "latex", "html", "json", "notebook"):
        assert "softmax runs down the columns" in document.render(name), name


def test_no_cell_of_a_csv_file_is_run() -> None:
    cells = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1", "＝1+1", " =1+1", "-2.5", "plain"]
    (row,) = csv.reader(csv_text([cells]).splitlines())
    assert row[-2:] == ["-2.5", "plain"]
    assert all(cell.startswith("'") for cell in row[:-2])


# --- hints --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("hint", range(4))
@pytest.mark.parametrize("allowed", range(4))
def test_json_says_no_more_than_the_level(results: list[StudentMarks], hint: int, allowed: int) -> None:
    mark = by_student(results)["s02"].marks["1"]
    mark = replace(mark, exercise=replace(mark.exercise, hints=allowed))
    level = min(hint, allowed)
    (step,) = (s for s in as_data(mark, hint)["steps"] if s["state"] == "wrong")
    assert bool(step["entries"]) == (level >= 1)
    assert bool(step["causes"]) == (level >= 2)
    assert (step["expected"] is not None) == (level >= 3)
    text = feedback_document({"1": mark}, title="", hint=hint).to_text()
    assert ("[0." in text) == (level >= 1)
    assert ("down the columns" in text) == (level >= 2)
    assert ("from your own earlier numbers" in text) == (level >= 3)


def test_positions_are_those_of_the_sheet() -> None:
    from headwork.exercises import generate

    exercise = generate("multi-head-attention", 3)
    query = exercise.solution["query"].copy()
    query[0, 1, 1] += 1
    mark = grade(exercise, texts(exercise, exercise.case.run({"query": query}), 4))
    text = feedback_document({"1": mark}, title="", hint=3).to_text()
    assert "entry head 1 [0,1]" in text
    assert "Q head 1 [0,1] = " in text
    assert "[0,1,1]" not in text


# --- points, lists and overrides ----------------------------------------------------------------------
def course(tmp_path: Path, exercises: str) -> SheetTemplate:
    (tmp_path / "course.toml").write_text(f'title = "T"\nsecret = "0123456789ab"\n{exercises}')
    return read_sheet_template(tmp_path / "course.toml")


def test_points_per_step(tmp_path: Path) -> None:
    points = "points = {query = 1, weights = 2.5}"
    own = course(tmp_path, f'[[exercise]]\nkind = "self-attention"\n{points}')
    exercise = make_sheet(own, "ada").exercises["1"]
    assert exercise.asked == {"query": 1.0, "weights": 2.5}
    third = course(tmp_path, '[[exercise]]\nkind = "self-attention"\npoints = 10')
    mark = grade(make_sheet(third, "ada").exercises["1"], {})
    assert "0 of 1.67 (not filled in)" in feedback_document({"1": mark}, title="").to_text()
    wrong = course(tmp_path, '[[exercise]]\nkind = "self-attention"\npoints = {wieghts = 1}')
    with pytest.raises(InputError, match=r"exercise 1: unknown step of self-attention 'wieghts'.*'weights'"):
        make_sheet(wrong, "ada")
    with pytest.raises(InputError, match="points of query are 'x'"):
        course(tmp_path, '[[exercise]]\nkind = "self-attention"\npoints = {query = "x"}')


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_list_of_students_in_any_separator(separator: str, tmp_path: Path) -> None:
    rows = [("student", "name", "e-mail"), ("ada", "Ada, L.", "a@x.org"), ("bob", "Bob", "")]
    with (tmp_path / "students.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    roster = read_roster(tmp_path / "students.csv")
    assert roster["ada"] == {"name": "Ada, L.", "email": "a@x.org"}
    assert list(roster) == ["ada", "bob"]


def test_an_override_counts_for_a_file_that_cannot_be_read(
    results: list[StudentMarks], tmp_path: Path
) -> None:
    tables = [
        f'[[override]]\nstudent = "{student}"\nexercise = "2"\npoints = 4\n' for student in ("s15", "s30")
    ]
    (tmp_path / "overrides.toml").write_text("".join(tables))
    students = by_student(write_marks(results, tmp_path))
    assert (students["s15"].points, students["s15"].state) == (4, "unreadable")
    assert (students["s30"].points, students["s30"].max_points) == (4, 15)


def test_all_correct_only_when_it_is(results: list[StudentMarks]) -> None:
    right = by_student(results)["s01"]
    first, *others = right.marks["1"].steps
    fewer = replace(right.marks["1"], steps=(replace(first, points=0.5), *others))
    assert replace(right, marks={**right.marks, "1": fewer}).state == "marked"


# --- odd files ----------------------------------------------------------------------------------------
STUDENTS = [f"t{number:02}" for number in range(1, 34)]
PLAIN = STUDENTS[24:30]


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Sheet]]:
    folder = tmp_path_factory.mktemp("odd")
    own = course(folder, '[[exercise]]\nkind = "linear-attention"\n[[exercise]]\nkind = "output-size"\n')
    sheets = {student: make_sheet(own, student, f"Name {student}") for student in STUDENTS}
    (folder / "key").mkdir()
    for student, sheet in sheets.items():
        (folder / "key" / f"{student}.toml").write_text(key_text(sheet))
    return folder, sheets


def answers(sheet: Sheet, student: str = "", more: str = "", title: str = "T") -> bytes:
    lines = [f"student = {json.dumps(student or sheet.student)}", f'sheet = "{title}"']
    for number, exercise in sheet.exercises.items():
        lines.append(f'[answers."{number}"]')
        written = texts(exercise, exercise.solution, 4)
        lines += [f"{json.dumps(path)} = {json.dumps(text)}" for path, text in written.items()]
    return ("\n".join(lines) + "\n" + more).encode()


def plant(folder: Path, sheets: dict[str, Sheet]) -> dict[str, str]:
    """Odd files, and for the name of each what must be said about it."""

    def write(name: str, content: bytes) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    def own(of: str, **more: Any) -> bytes:
        return answers(sheets[of], **more)

    origin = '[exercise."1"]\nkind = "{}"\nseed = {}\ndifficulty = {}\n'
    write("t02-again.toml", own("t02"))
    write("t03.toml", own("t03").replace(b"\n", " # é\n".encode("latin-1"), 1))
    write("t04.toml", own("t04").decode().encode("utf-16"))
    write("t05.toml", own("t05", student="t01"))
    write("t06.toml", own("t06", student="mallory"))
    write("stranger.toml", own("t01", student="mallory"))
    write("upload_9.toml", own("t01", student="t01"))
    write("t07.toml", answers(sheets["t08"], student="t07"))
    write("t09.toml", own("t09", more=origin.format("linear-attention", 1, 3)))
    write("t10.toml", own("t10", more=origin.format("self-attention", 1, 1)))
    write("t11.toml", own("t11", more=origin.format("linear-attention", 1, 1)))
    write("t12.toml", b"")
    write("t13.toml", own("t13") + b"#" * 10_000_000)
    (folder / "t14.toml").symlink_to(folder.parent / "key" / "t14.toml")
    (folder / "t15.toml").symlink_to(folder / "nowhere.toml")
    os.mkfifo(folder / "t16.toml")
    write("t17.toml", b"I did not find the time.")
    write("t18.toml", bytes(range(256)) * 40)
    write("t19.toml", b"a = " + b"[" * 50_000)
    write("t20.toml", own("t20", title="Sheet 2"))
    write("t21.toml", own("t21", more='[answers."9"]\nx = "1"\n'))
    write("t22.docx", b"PK\x03\x04")
    write("t23/a.toml", own("t23"))
    write("t23/b.toml", own("t23"))
    write("t24.toml", b'student = "t24"\nanswers = 3\n')
    (folder / "t31.toml").mkdir()
    write("t32/answer.toml", b"?")
    (folder / "t32" / "more").mkdir()
    write("Name_t33_7.toml", b"I am sorry.")
    write("..t01.toml", own("t01"))
    write("._t01.toml", b"of the system")
    return {
        "t02-again.toml": "not counted: t02 also has t02.toml",
        "t03.toml": "not UTF-8",
        "t04.toml": "not UTF-8",
        "t05.toml": "names student 't01'",
        "t06.toml": "names student 'mallory'",
        "stranger.toml": "no key for student 'mallory'",
        "upload_9.toml": "not counted: t01 also has t01.toml",
        "t07.toml": "fit the numbers of t08",
        "t09.toml": "another exercise (kind linear-attention, seed 1, difficulty 3)",
        "t10.toml": "another exercise (kind self-attention",
        "t11.toml": "another exercise (kind linear-attention, seed 1, difficulty 1)",
        "t12.toml": "no table [answers.NAME]",
        "t13.toml": "at most 200,000",
        "t14.toml": "a link",
        "t15.toml": "a link",
        "t16.toml": "not a plain file",
        "t17.toml": "not valid TOML",
        "t18.toml": "not UTF-8",
        "t19.toml": "nested too deep",
        "t20.toml": "of 'Sheet 2'",
        "t21.toml": "answers to 9",
        "t22.docx": "not UTF-8|not valid TOML",
        "b.toml": "not counted: t23 also has a.toml",
        "t24.toml": "no table [answers.NAME]",
        "t31.toml": "not a plain file. Give a file, not a folder",
        "answer.toml": "not valid TOML",
        "more": "not a plain file",
        "..t01.toml": "not counted: t01 also has t01.toml",
        "Name_t33_7.toml": "not valid TOML",
    }


def test_odd_files_are_told_by_name_and_change_nobody_elses_marks(
    sheets: tuple[Path, dict[str, Sheet]], tmp_path: Path
) -> None:
    folder, every = sheets
    place = folder / "answers"
    place.mkdir()
    for student in ("t01", "t02", *PLAIN):
        (place / f"{student}.toml").write_bytes(answers(every[student]))
    said = plant(place, every)
    results = grade_cohort(place, folder / "key")
    write_marks(results, tmp_path / "marks")
    page = (tmp_path / "marks" / "index.html").read_text()
    files = {Path(graded.file).name: graded for graded in results if graded.file}
    for name, words in said.items():
        graded = files[name]
        told = " ".join([graded.problem, *graded.flags])
        assert any(word in told for word in words.split("|")), (name, told)
        owners = ("", Path(name).stem, {"answer.toml": "t32", "Name_t33_7.toml": "t33"}.get(name))
        assert graded.student in owners, name
    assert "._t01.toml" not in files
    students = by_student(results)
    for student in ("t01", "t02", "t05", "t06", "t20", "t21", "t23", *PLAIN):
        assert (students[student].state, students[student].points) == ("all correct", students["t01"].points)
    assert students["t07"].points < students["t01"].points
    assert [students[student].state for student in STUDENTS[30:]] == ["unreadable"] * 3
    assert all(students[student].max_points == students["t01"].max_points for student in STUDENTS)
    assert {graded.student for graded in results if graded.flags} & set(PLAIN) == set()
    assert "fit the numbers of t08" in page


def test_an_answer_without_a_name_says_so() -> None:
    assert StudentMarks("answer.toml").summary == "no name: 0 of 0 points"
