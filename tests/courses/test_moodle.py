"""Questions for Moodle, read back by its published grammar; marks in the CSV files of Canvas and Moodle."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from headwork.courses.assignments import read_student_sheets
from headwork.courses.cohort import StudentMarks, grade_cohort
from headwork.courses.exporting import export
from headwork.courses.gradebooks import CANVAS, canvas_csv, fill_gradebook, moodle_csv, write_gradebooks
from headwork.errors import InputError
from headwork.exercises import Exercise, generate
from headwork.exercises.generation import EXERCISE_KINDS
from headwork.grading import grade

EXAMPLE = Path(__file__).parents[2] / "examples" / "class"
# The grammar of a gap, as Moodle's documentation and its reader have it.
ALTERNATIVE = r"(=|%(?:-?[0-9]+(?:[.,][0-9]*)?)%)?(.+?(?<!\\|&)(?=[~#}]|$))(?:#(.*?(?<!\\)(?=[~}]|$)))?"
GAP = re.compile(r"\{([0-9]*):(NUMERICAL|SHORTANSWER):(~?.+?(?<!\\))\}", re.DOTALL)
NUMBER = re.compile(r"(-?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?)(?::([0-9.]+))?")


Gap = tuple[int, str, list[tuple[str, str, str]]]


def gaps(text: str) -> list[Gap]:
    """Weight, type and alternatives (fraction, answer, feedback) of every gap of a question's text."""
    found = []
    for weight, kind, inner in GAP.findall(text):
        alternatives = [
            match.groups(default="") for match in re.finditer(f"~?{ALTERNATIVE}", inner, re.DOTALL)
        ]
        decoded = [
            (f, a, html.unescape(b).replace(r"\}", "}").replace(r"\#", "#")) for f, a, b in alternatives
        ]
        found.append((int(weight), kind, decoded))
    return found


def read(path: Path) -> list[tuple[str, str]]:
    """The name and the text of every question."""
    questions = ElementTree.parse(path).getroot().findall("question[@type='cloze']")
    return [(q.findtext("name/text") or "", q.findtext("questiontext/text") or "") for q in questions]


def shown(exercise: Exercise, path: str) -> list[Any]:
    """What each gap of a step asks for, in the order of its tables; a shape is one gap."""
    step, value = exercise.trace.steps[path], exercise.solution[path]
    if step.card.axes == "axis":
        return [value]
    value = np.transpose(value, step.order)
    if value.ndim == 3 and "head" in step.axes:
        value = np.moveaxis(value, step.axes.index("head"), 0)
    return list(value.flat)


def check_number(exercise: Exercise, number: float, gap: Gap) -> None:
    _, kind, ((fraction, answer, _), *others) = gap
    assert fraction == "="
    if kind == "SHORTANSWER":
        assert not np.isfinite(number)
        return
    value, tolerance = NUMBER.fullmatch(answer).groups()  # type: ignore[union-attr]
    assert float(value) == pytest.approx(number, abs=10.0 ** -(exercise.digits + 3))
    assert float(tolerance) == 10.0**-exercise.digits
    for other, wrong, feedback in others:
        assert other == "%0%"
        assert abs(float(wrong.partition(":")[0]) - number) > float(tolerance)
        assert feedback


def check_shape(exercise: Exercise, path: str, gap: Gap) -> None:
    """Every way of typing it is marked as ``headwork grade`` marks it."""
    _, kind, alternatives = gap
    assert kind == "SHORTANSWER"
    sizes = " x ".join(f"{size:.0f}" for size in exercise.solution[path])
    assert {f"({sizes.replace(' x ', ', ')})", sizes.replace(" ", ""), sizes} <= {
        a for _, a, _ in alternatives
    }
    assert not any("*" in answer for _, answer, _ in alternatives)
    # Marking explains a wrong answer, which takes its time: a sample of the wrong ones.
    right_ones = [alternative for alternative in alternatives if alternative[0] == "="]
    wrong_ones = [alternative for alternative in alternatives if alternative[0] != "="]
    for fraction, answer, feedback in [*right_ones, *wrong_ones[:: len(wrong_ones) // 5 or 1]]:
        right = grade(exercise, {path: answer}).step(path).state == "right"
        assert (right, bool(feedback)) == ((True, False) if fraction == "=" else (False, True)), answer


@pytest.mark.parametrize("kind", EXERCISE_KINDS)
def test_every_gap_is_a_cell_of_the_exercise(kind: str, tmp_path: Path) -> None:
    for difficulty in (1, 2, 3):
        exercise = generate(kind, 4, difficulty)
        folder = tmp_path / str(difficulty)
        export({kind: exercise}, "moodle", folder)
        ((name, text),) = read(folder / f"{difficulty}.xml")
        assert name == exercise.name
        found = iter(gaps(text))
        weights = {}
        for path in exercise.asked:
            cells = [(next(found), number) for number in shown(exercise, path)]
            weights[path] = sum(gap[0] for gap, _ in cells)
            for gap, number in cells:
                if np.ndim(number):
                    check_shape(exercise, path, gap)
                else:
                    check_number(exercise, number, gap)
        assert not list(found)
        for path, points in exercise.asked.items():
            share = weights[path] / sum(weights.values())
            assert share == pytest.approx(points / exercise.max_points)


def test_a_rounded_count_is_enough_where_about_how_many_is_asked(tmp_path: Path) -> None:
    exact = generate("attention-parameters", 4)
    for question, off in (("", "0.0001"), ("About how many?", "5")):
        exercise = replace(exact, question=question or exact.question)
        folder = tmp_path / (question[:5] or "exact")
        export({"x": exercise}, "moodle", folder)
        ((_, text),) = read(folder / f"{folder.name}.xml")
        assert "12*3088" not in text  # a gap takes no product
        number, tolerance = gaps(text)[-1][2][0][1].split(":")
        assert tolerance.rstrip("0") == off.rstrip("0")
        assert len(tolerance) == (len(number) - 2 if question else 6)


def test_known_mistakes_have_their_sentence(tmp_path: Path) -> None:
    exercise = generate("layer-normalisation", 4)
    for hint, told in ((2, True), (1, False)):
        export({"x": exercise}, "moodle", tmp_path / str(hint), hint=hint)
        ((_, text),) = read(tmp_path / str(hint) / f"{hint}.xml")
        sentences = {feedback for _, _, alternatives in gaps(text) for _, _, feedback in alternatives}
        assert any("variance is taken for the standard deviation" in words for words in sentences) == told


def test_special_characters_survive(tmp_path: Path) -> None:
    odd = "a < b & c > d; {1:NUMERICAL:=2} ~ # \\ \" 'é ∞ </text> ]]> \x00"
    exercise = Exercise("softmax", {"scores": "0 1"}, title=odd, question=odd, points={"weights": 1})
    export({"x": exercise}, "moodle", tmp_path / "hw")
    ((name, text),) = read(tmp_path / "hw" / "hw.xml")
    assert name == odd.replace("\x00", " ")
    assert len(gaps(text)) == 2  # what looks like a gap in the words is none
    paragraph = re.search("<p>(.*?)</p>", text).group(1)  # type: ignore[union-attr]
    assert html.unescape(paragraph) == odd.replace("\x00", " ")


def test_a_feedback_is_escaped_for_both_of_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwork.courses import moodle

    words = "x < y & {z} ~ # \\"
    monkeypatch.setattr(moodle, "_causes", lambda exercise: {("weights", (0,)): [(7.0, words)]})
    export({"x": Exercise("softmax", {"scores": "0 1"}, points={"weights": 1})}, "moodle", tmp_path / "hw")
    ((_, text),) = read(tmp_path / "hw" / "hw.xml")
    feedback = gaps(text)[0][2][1][2]
    assert html.unescape(feedback) == words  # once by Moodle, once by the browser
    assert "<" not in feedback


def test_every_student_has_a_question_and_a_challenge_is_refused(tmp_path: Path) -> None:
    sheets = read_student_sheets(EXAMPLE / "key")
    export({}, "moodle", tmp_path / "hw", sheets=sheets)
    questions = dict(read(tmp_path / "hw" / "hw.xml"))
    assert len(questions) == 90
    exercise = sheets["s07"].exercises["2"]
    numbers = [float(gap[2][0][1].partition(":")[0]) for gap in gaps(questions[f"2. {exercise.name} (s07)"])]
    assert numbers == pytest.approx([n for path in exercise.asked for n in shown(exercise, path)], abs=1e-6)
    with pytest.raises(InputError, match="cannot be marked by gaps"):
        export({"x": generate("construct-identity", 1)}, "moodle", tmp_path / "other")


# --- gradebooks ---------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def results() -> list[StudentMarks]:
    return grade_cohort(EXAMPLE / "answers", EXAMPLE / "key")


def rows(text: str, delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter))


CANVAS_EXPORT = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Quiz (12),Sheet 3: attention by hand (77),Notes\r\n"
    ",,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,10.00,15.00,(read only)\r\n"
    '"Two, Student",900,,s02@example.org,"A, ""1""",8,3,=1+1\r\n'
    "Student 03,901,s03,,A,,,\r\n"
    "Somebody,902,zz9,zz9,A,3,4,5\r\n"
    "Student 15,903,s15,,A,1,2,3\r\n"
)


def test_a_canvas_export_keeps_all_but_the_marks(results: list[StudentMarks], tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_bytes(CANVAS_EXPORT.encode())
    text, missing = fill_gradebook(path, results, "Sheet 3: attention by hand")
    assert text.startswith("\ufeff")
    before, after = rows(CANVAS_EXPORT), rows(text)
    changed = {(i, j) for i, row in enumerate(before) for j, cell in enumerate(row) if after[i][j] != cell}
    assert changed == {(3, 6), (4, 6)}  # what cannot be marked and who is not in the class stay as they are
    assert (after[3][6], after[4][6]) == ("12", "12")
    assert text.count("\r\n") == 7
    assert len(missing) == 27
    assert write_gradebooks(results, tmp_path, path, "Homework") == missing
    new = rows((tmp_path / "gradebook.csv").read_text(encoding="utf-8"))
    assert [row[:-1] for row in new] == before
    assert [row[-1] for row in new] == ["Homework", "", "15", "12", "12", "", ""]


def canvas(path: Path, results: list[StudentMarks], text: str, column: str = "") -> Any:
    path.write_bytes(text.encode())
    filled, missing = fill_gradebook(path, results, "Sheet 3", column)
    delimiter = ";" if ";" in text else ","
    return rows(text, delimiter), rows(filled, delimiter), missing


def test_what_a_canvas_export_may_have_besides(results: list[StudentMarks], tmp_path: Path) -> None:
    """Two columns of names, IDs of other kinds, semicolons, custom and read-only columns, short rows."""
    text = (
        "LastName;FirstName;ID;SIS User ID;SIS Login ID;Integration ID;Root Account;Section;Notes;"
        "Sheet 3 (draft) (7);Sheet 3 (8);Homework Current Score;Final Score\r\n"
        ";;;;;;;;;Manual Posting;;;\r\n"
        '"    Points Possible";;;;;;;;(read only);10.00;15.00;(read only);(read only)\r\n'
        "Two;Student;1;S02;;x;c.org;A;odd;1.5;EX;9;9\r\n"
        "Three;Student;2;;S03@example.org;;;A\r\n"
        "\r\n"
        "Five;Student;3;s05;;;;A;;N/A;N/A;;\r\n"
        "Six;Student;4;s06;;;;A;;;3.00;;\r\n"
    )
    before, after, missing = canvas(tmp_path / "canvas.csv", results, text)
    padded = [row + [""] * (len(new) - len(row)) for row, new in zip(before, after, strict=True)]
    changed = {(i, j) for i, row in enumerate(after) for j, cell in enumerate(row) if padded[i][j] != cell}
    assert changed == {(4, 10), (7, 10)}
    marks = {graded.student: f"{round(graded.points, 2):g}" for graded in results}
    assert (after[4][10], after[7][10]) == (marks["s03"], marks["s06"])  # with a point, as the file has them
    assert [line for line in missing if "no row" not in line] == ["s02 (EX)", "s05 (N/A)"]
    _, new, _ = canvas(tmp_path / "canvas.csv", results, text, "Homework")
    assert [row[13:] for row in new[:5]] == [["Homework"], [""], ["15"], [marks["s02"]], [marks["s03"]]]
    with pytest.raises(InputError, match="'Final Score' is read only"):
        canvas(tmp_path / "canvas.csv", results, text, "Final Score")
    with pytest.raises(InputError, match="not a CSV file"):
        canvas(tmp_path / "canvas.csv", results, f'Student,ID\n"{"a" * 200_000}"\n')


def test_a_moodle_worksheet_is_filled_in(results: list[StudentMarks], tmp_path: Path) -> None:
    path = tmp_path / "moodle.csv"
    sheet = "Identifier;Full name;Email address;Status;Grade;Maximum Grade;Feedback comments\n"
    sheet += 'Participant 7;Student 05;s05@example.org;Submitted;;15,00;"two\nlines"\n'
    path.write_text(sheet)
    text, _ = fill_gradebook(path, results, "Sheet 3")
    filled = rows(text, ";")
    assert filled[0] == rows(sheet, ";")[0]
    assert filled[1] == [*rows(sheet, ";")[1][:4], "12", "15,00", "two\nlines"]
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no column that says who a row is about"):
        fill_gradebook(path, results, "Sheet 3")


def test_new_files_for_both_systems(results: list[StudentMarks]) -> None:
    canvas, moodle = rows(canvas_csv(results, "T")), rows(moodle_csv(results, "T"))
    assert tuple(canvas[0]) == (*CANVAS, "T")
    assert canvas[1] == ["    Points Possible", "", "", "", "", "15"]
    assert canvas[2] == ["Student 01", "", "s01", "s01@example.org", "", "15"]
    assert moodle[1] == ["s01", "Student 01", "s01@example.org", "15"]
    assert {row[2]: row[5] for row in canvas[2:]}["s15"] == ""
