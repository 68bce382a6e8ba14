"""Exercises as files of a course system: Gradescope, otter, nbgrader, Moodle, or a plain notebook.

A folder of keys gives every student the numbers of their sheet: by the e-mail address of who submits, or by
the ID that a student types.
Students' files never hold the key or the seed. They do hold the question, from whose numbers anyone with
headwork can compute the key: secrecy protects only the variants that a student has not seen.
"""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwork.courses.answer_page import answer_page
from headwork.courses.assignments import AssignmentPart
from headwork.courses.moodle import moodle_files
from headwork.courses.sheets import Sheet, key_text
from headwork.documents import Document
from headwork.documents.formats.notebook import NotebookCell, notebook_text
from headwork.errors import InputError, check_known
from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, answer_sheet, build_question
from headwork.files import files_under, load_package_toml, read_text, toml_text, write_atomic
from headwork.grading.marking import PART

# What marking needs of this package and of others; no torch.
PACKAGES = ("numbers", "mechanisms", "documents", "readings", "sizes", "exercises", "grading", "courses")
MODULES = ("__init__.py", "errors.py", "files.py", "note.py")
NEXT_STEPS = load_package_toml(__file__, "words.toml")["next_steps"]  # for the teacher, by the system
REQUIREMENTS = "numpy>=2.0\nmarkupsafe>=2.1\n"
INSTRUCTIONS = (
    "Assign each answer to its variable: as a string, typed as by hand (`1/2 0.25`, a new line or `;` for a "
    "new row), or as a list or an array. A `?` leaves an entry blank."
)
GRADESCOPE = Path(__file__).with_name("gradescope")  # the scripts of its autograder
OWN_SHEET = "The numbers are those of your own sheet."
ASK_FOR_ID = "# Your ID, as it stands on your sheet: without it nothing can be marked."
NBGRADER_CONFIG = """c = get_config()
# The question marks to fill in stand above the solution that is cut out, so the stub need not say more.
c.ClearSolutions.code_stub = {"python": "# Fill in the question marks."}
"""


def export(
    exercises: Mapping[str, Exercise],
    to: str,
    out: str | Path,
    *,
    title: str = "",
    hint: int = 2,
    sheets: Mapping[str, Sheet] | None = None,
) -> list[Path]:
    """Write the files of a course system into a new folder; returns their paths.

    ``sheets`` are those of all students: each is then marked by their own.
    """
    sheets = sheets or {}
    exercises = next(iter(sheets.values())).exercises if sheets else exercises
    check_known("--to", to, COURSE_SYSTEMS)
    if not exercises:
        raise InputError("nothing to export: name a kind of exercise, a TOML file or a folder.")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {folder} exists and is not empty. Name a new folder.")
    parts = [
        AssignmentPart(f"q{n}", name, exercise, f"q{n}_" if len(exercises) > 1 else "", hint, sheets)
        for n, (name, exercise) in enumerate(exercises.items(), 1)
    ]
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", title or folder.absolute().name).strip("-") or "exercise"
    return [write_atomic(folder / name, content) for name, content in COURSE_SYSTEMS[to](parts, slug).items()]


Files = dict[str, str | bytes]


# --- notebooks ------------------------------------------------------------------------------------------
def _question(part: AssignmentPart) -> str:
    """The question in Markdown, with the variables to assign."""
    names = ", ".join(f"`{name}`" for name in part.variable_names.values())
    question = build_question(part.exercise)
    own = Document(f"{part.name}. {question.title}", (OWN_SHEET,))
    text = (own if part.variants else question).to_markdown()
    return f"{text}\n{INSTRUCTIONS}\n\nVariables: {names}."


def _student_code(parts: Sequence[AssignmentPart], *, solved: bool = False) -> str:
    """The code in which a student types who they are; nothing where all have the same numbers."""
    students = parts[0].sheets
    return f"{ASK_FOR_ID}\nstudent = {toml_text(next(iter(students)) if solved else '')}" if students else ""


def _answer_code(part: AssignmentPart, blank: Blank, text: str) -> str:
    """Code that assigns a text to the variable of a blank."""
    return f"# {blank.name}: {blank.description}\n{_assignment(part.variable_names[blank.name], text)}"


def _assignment(name: str, text: str) -> str:
    return f'{name} = """\n{text}\n"""' if "\n" in text else f"{name} = {toml_text(text)}"


def _answer_cells(part: AssignmentPart, *, solved: bool = False) -> list[NotebookCell]:
    texts = {blank: part.correct_text(blank.name) if solved else blank.placeholder for blank in part.blanks}
    return [NotebookCell("code", _answer_code(part, blank, text)) for blank, text in texts.items()]


def plain_notebook_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """One notebook for students, with a cell after each question that marks it."""
    if parts[0].variants:
        raise InputError(
            "a plain notebook holds its exercise, and so would hold everybody's: use another --to."
        )
    cells = []
    for part in parts:
        call = f"print(report({part.data}, globals(), {part.call_arguments}))"
        check = (
            f"# Run this cell to mark your answers.\nfrom headwork.courses.autograder import report\n\n{call}"
        )
        cells += [NotebookCell("markdown", _question(part)), *_answer_cells(part)]
        cells.append(NotebookCell("code", check))
    return {f"{slug}.ipynb": notebook_text(cells)}


# --- otter ----------------------------------------------------------------------------------------------
def otter_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """student/ to distribute; autograder/ from which ``otter generate`` makes the zip file."""
    files: Files = {
        f"student/{slug}.ipynb": notebook_text(_otter_cells(parts, slug)),
        f"autograder/{slug}-solution.ipynb": notebook_text(_otter_cells(parts, slug, solved=True)),
        "autograder/requirements.txt": REQUIREMENTS,
        "autograder/otter_config.json": json.dumps({"show_hidden": True}) + "\n",
    }
    for part in parts:
        public = _otter_public(part)
        files[f"student/tests/{part.label}.py"] = public
        files[f"autograder/tests/{part.label}.py"] = public + _otter_hidden(part)
    return files | {f"autograder/{name}": content for name, content in vendored_files().items()}


def _otter_cells(
    parts: Sequence[AssignmentPart], slug: str, *, solved: bool = False
) -> Iterator[NotebookCell]:
    yield otter_start(slug)
    if code := _student_code(parts, solved=solved):
        yield NotebookCell("code", code)
    for part in parts:
        yield NotebookCell("markdown", _question(part))
        yield from _answer_cells(part, solved=solved)
        yield NotebookCell("code", f'grader.check("{part.label}")')


def otter_start(slug: str) -> NotebookCell:
    """The first cell of a notebook with questions of otter."""
    return NotebookCell("code", f'import otter\n\ngrader = otter.Notebook("{slug}.ipynb")')


def otter_test(label: str, case: str, points: float, module: str, call: str) -> str:
    """A test file with one case that students see: a call of a function of a module here."""
    return (
        "from otter.test_files import test_case\n\n"
        f"from headwork.courses.{module} import {call.partition('(')[0]}\n\n"
        f'OK_FORMAT = False\nname = "{label}"\npoints = None\n\n\n'
        f"@test_case(name={case!r}, points={points:g}, hidden=False)\n"
        f"def {_identifier(case).replace('-', '_')}(env):\n    {call}\n"
    )


def _otter_public(part: AssignmentPart) -> str:
    shapes = {part.variable_names[b.name]: _shape(part, b) for b in part.blanks}
    who = ", student=True" if part.variants else ""
    return otter_test(part.label, "can be read", 0, "autograder", f"require_readable({shapes!r}, env{who})")


def _shape(part: AssignmentPart, blank: Blank) -> tuple[int, ...] | None:
    """The shape that is asked; None where that is part of the question."""
    open_ended = part.exercise.is_challenge or part.exercise.trace.steps[blank.name].card.axes == "axis"
    return None if open_ended else blank.shape


def _otter_hidden(part: AssignmentPart) -> str:
    """One test case per step, or two where early rounding costs a part: otter's cases earn all or nothing."""
    shares = [(PART, PART), (1.0, 1 - PART)] if part.exercise.rounding == "part" else [(1.0, 1.0)]
    lines = [f"\n\nfrom headwork.courses.autograder import require\n\nEXERCISE = {part.data}\n"]
    for number, (path, points) in enumerate(part.exercise.asked.items(), 1):
        for share, worth in shares:
            name = path if share == shares[0][0] else f"{path}, not rounded too early"
            lines.append(
                f"\n\n@test_case(name={name!r}, points={points * worth!r}, hidden=True)\n"
                f"def step_{number}_{round(100 * share)}(env):\n"
                f"    require(EXERCISE, {path!r}, env, {part.call_arguments}, share={share})\n"
            )
    return "".join(lines)


# --- nbgrader -------------------------------------------------------------------------------------------
def nbgrader_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """A course folder: ``nbgrader generate_assignment`` removes the key and the tests from the notebook."""
    cells = [cell for part in parts for cell in _nbgrader_cells(part)]
    if code := _student_code(parts):
        source = with_solution(code, _student_code(parts, solved=True))
        cells.insert(0, nbgrader_cell("code", "student", source, solution=True))
    return {"nbgrader_config.py": NBGRADER_CONFIG, f"source/{slug}/{slug}.ipynb": notebook_text(cells)}


def _nbgrader_cells(part: AssignmentPart) -> Iterator[NotebookCell]:
    yield nbgrader_cell("markdown", part.label, _question(part), locked=True)
    for blank in part.blanks:
        key = _assignment(part.variable_names[blank.name], part.correct_text(blank.name))
        key = "# Any answer that works is right." if part.exercise.is_challenge else key
        source = with_solution(_answer_code(part, blank, blank.placeholder), key)
        yield nbgrader_cell("code", f"{part.label}-{_identifier(blank.name)}", source, solution=True)
    for number, (path, points) in enumerate(part.exercise.asked.items()):
        # The variants of all students stand in the first of the cells that mark, and only there.
        data = part.data if not part.variants or not number else f"{part.label}_variants"
        data = f"({part.label}_variants := {data})" if part.variants and not number else data
        call = f"points({data},\n       {path!r}, globals(), {part.call_arguments})"
        source = (
            f"# {path}: marked after submission\n### BEGIN HIDDEN TESTS\n"
            f"from headwork.courses.autograder import points\n\n{call}\n### END HIDDEN TESTS"
        )
        yield nbgrader_cell(
            "code", f"{part.label}-{_identifier(path)}-points", source, grade=True, locked=True, points=points
        )


def with_solution(code: str, solution: str) -> str:
    """Code of which nbgrader leaves students what stands before the solution."""
    return f"{code}\n### BEGIN SOLUTION\n{solution}\n### END SOLUTION"


def _identifier(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path)


def nbgrader_cell(
    kind: str, grade_id: str, source: str, *, points: float | None = None, **flags: bool
) -> NotebookCell:
    """A cell with nbgrader's metadata of schema version 3."""
    metadata: dict[str, Any] = dict.fromkeys(("grade", "locked", "solution", "task"), False)
    metadata |= {"schema_version": 3, **flags, "grade_id": grade_id, "cell_type": kind}
    # What nbgrader's own checksum of a cell covers, in its order.
    parts = [source, kind, *(str(metadata[flag]) for flag in ("grade", "solution", "locked")), grade_id]
    if points is not None:
        metadata["points"] = points
        parts.append(str(float(points)))
    metadata["checksum"] = hashlib.md5("".join(parts).encode(), usedforsecurity=False).hexdigest()
    return NotebookCell(kind, source, {"nbgrader": metadata})


# --- Gradescope -----------------------------------------------------------------------------------------
def gradescope_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """autograder.zip to upload, and student/ to distribute.

    Of the sheets of all students it knows the numbers, by the e-mail address or the typed ID.
    """
    exercises, sheets = {part.name: part.exercise for part in parts}, parts[0].sheets
    archive = {
        "setup.sh": read_text(GRADESCOPE / "setup.sh"),
        "run_autograder": read_text(GRADESCOPE / "run_autograder.sh").replace("HINT", str(parts[0].hint)),
        "requirements.txt": REQUIREMENTS,
        **vendored_files(),
    }
    if sheets:
        emails = [f"{toml_text(who)} = {toml_text(sheet.email)}" for who, sheet in sheets.items()]
        archive["students.toml"] = "\n".join(["[students]", *emails]) + "\n"
        archive |= {f"keys/{who}.toml": key_text(sheet) for who, sheet in sheets.items()}
        return {"autograder.zip": _zip(archive), "README.md": read_text(GRADESCOPE / "README.md")}
    return {
        "autograder.zip": _zip(archive | {"key.toml": key_text(Sheet(slug, exercises))}),
        "student/question.md": "\n".join(build_question(part.exercise).to_markdown() for part in parts),
        "student/answer.toml": answer_sheet(exercises, origin=False),
        "student/answer.html": answer_page(exercises, origin=False, next_step="Next: submit answer.toml."),
    }


def vendored_files() -> Files:
    """The files of the package that marking needs."""
    needed = (".py", ".toml", ".html", ".css", ".js", ".sh", ".md")
    return {**files_under(Path(__file__).parents[1], (*MODULES, *PACKAGES), lambda n: n.endswith(needed))}


def _zip(files: Files) -> bytes:
    """A zip file; the same content gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name in ("setup.sh", "run_autograder") else 0o100644) << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


COURSE_SYSTEMS: dict[str, Callable[[Sequence[AssignmentPart], str], Files]] = {
    "gradescope": gradescope_files,
    "otter": otter_files,
    "nbgrader": nbgrader_files,
    "moodle": moodle_files,
    "notebook": plain_notebook_files,
}
