"""Questions for Moodle, read back by its published grammar; marks in the CSV files of Canvas and Moodle."""

from __future__ import annotations

import csv
import html
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from headwork.courses.assignments import read_variants
from headwork.courses.cohort import StudentMarks, grade_cohort
from headwork.courses.exporting import export
from headwork.courses.gradebooks import CANVAS, canvas_csv, fill_gradebook, moodle_csv, write_gradebooks
from headwork.errors import InputError
from headwork.exercises import Exercise, generate
from headwork.exercises.generation import KINDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "class"
# The grammar of a gap, as Moodle's documentation and its reader have it.
ALTERNATIVE = r"(=|%(?:-?[0-9]+(?:[.,][0-9]*)?)%)?(.+?(?<!\\|&)(?=[~#}]|$))(?:#(.*?(?<!\\)(?=[~}]|$)))?"
GAP = re.compile(r"\{([0-9]*):(NUMERICAL|SHORTANSWER):(~?.+?(?<!\\))\}", re.DOTALL)
NUMBER = re.compile(r"(-?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?)(?::([0-9.]+))?")


def gaps(text: str) -> list[tuple[int, str, list[tuple[str, str, str]]]]:
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


def shown(exercise: Exercise) -> list[float]:
    """The right numbers in the order in which the tables show them."""
    numbers: list[float] = []
    for path in exercise.asked:
        value = np.transpose(exercise.key[path], exercise.trace.steps[path].order)
        axes = exercise.trace.steps[path].axes
        if value.ndim == 3 and "head" in axes:
            value = np.moveaxis(value, axes.index("head"), 0)
        numbers += [float(number) for number in value.flat]
    return numbers


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "head-shapes"])
def test_every_gap_is_a_cell_of_the_exercise(kind: str, tmp_path: Path) -> None:
    exercise = generate(kind, 4, 2)
    export({kind: exercise}, "moodle", tmp_path / "hw")
    ((name, text),) = read(tmp_path / "hw" / "hw.xml")
    assert name == exercise.name
    found = gaps(text)
    right = shown(exercise)
    assert len(found) == len(right)
    total = sum(weight for weight, _, _ in found)
    at = 0
    for path, points in exercise.asked.items():
        cells = found[at : at + exercise.key[path].size]
        at += len(cells)
        assert sum(weight for weight, _, _ in cells) / total == pytest.approx(points / exercise.max_points)
    for (_, type_, alternatives), number in zip(found, right, strict=True):
        fraction, answer, _ = alternatives[0]
        assert fraction == "="
        if type_ == "SHORTANSWER":
            assert not np.isfinite(number)
            continue
        value, tolerance = NUMBER.fullmatch(answer).groups()  # type: ignore[union-attr]
        assert float(value) == pytest.approx(number, abs=10.0 ** -(exercise.digits + 3))
        assert float(tolerance) == 10.0**-exercise.digits
        for other, wrong, feedback in alternatives[1:]:
            assert other == "%0%"
            assert abs(float(wrong.partition(":")[0]) - number) > float(tolerance)
            assert feedback


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
    sheets = read_variants(EXAMPLE / "key")
    export({}, "moodle", tmp_path / "hw", sheets=sheets)
    questions = dict(read(tmp_path / "hw" / "hw.xml"))
    assert len(questions) == 90
    exercise = sheets["s07"].exercises["2"]
    numbers = [float(gap[2][0][1].partition(":")[0]) for gap in gaps(questions[f"2. {exercise.name} (s07)"])]
    assert numbers == pytest.approx(shown(exercise), abs=1e-6)
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
