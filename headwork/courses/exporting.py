"""Exercises as files of a course system: Gradescope, otter, nbgrader, or a plain notebook.

Students' files never hold the key or the seed. They do hold the question, from whose numbers anyone with
headwork can compute the key: secrecy protects only the variants that a student has not seen.
"""

import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from headwork.courses.answer_page import answer_page
from headwork.courses.autograder import variables
from headwork.courses.sheets import Sheet, key_text, read_key
from headwork.documents.formats.notebook import NotebookCell, notebook_text
from headwork.errors import InputError, unknown
from headwork.exercises.exercise import Exercise
from headwork.exercises.generation import generate
from headwork.exercises.questions import Blank, answer_sheet, build_question
from headwork.exercises.reading import read_exercise
from headwork.files import read_text, read_toml, write_atomic
from headwork.grading.marking import PART
from headwork.readings.notebook_cells import array_text

# What marking needs of this package and of others; no torch.
PACKAGES = ("numbers", "mechanisms", "documents", "readings", "sizes", "exercises", "grading", "courses")
MODULES = ("__init__.py", "errors.py", "files.py", "note.py")
REQUIREMENTS = "numpy>=2.0\nmarkupsafe>=2.1\n"
INSTRUCTIONS = (
    "Assign each answer to its variable: as a string, typed as by hand (`1/2 0.25`, a new line or `;` for a "
    "new row), or as a list or an array. A `?` leaves an entry blank."
)
GRADESCOPE = Path(__file__).with_name("gradescope")  # the scripts of its autograder
NBGRADER_CONFIG = """c = get_config()
# The question marks to fill in stand above the solution that is cut out, so the stub need not say more.
c.ClearSolutions.code_stub = {"python": "# Fill in the question marks."}
"""


@dataclass(frozen=True)
class AssignmentPart:
    """One exercise of an assignment: its label, and the prefix of its variables."""

    label: str
    name: str
    exercise: Exercise
    prefix: str
    hint: int

    @property
    def names(self) -> dict[str, str]:
        return variables(self.exercise, self.prefix)

    @property
    def blanks(self) -> tuple[Blank, ...]:
        return build_question(self.exercise).blanks

    @property
    def data(self) -> dict[str, Any]:
        """The exercise as plain data, without what marking does not need: the seed and the question."""
        return tomllib.loads(replace(self.exercise, seed=None, question="").to_toml())

    @property
    def settings(self) -> str:
        return f"prefix={self.prefix!r}, hint={self.hint}"

    def key(self, path: str) -> str:
        """The right value of a step as it is typed; a challenge has no key."""
        if self.exercise.challenge:
            return ""
        value = np.transpose(self.exercise.key[path], self.exercise.trace.steps[path].order)
        return array_text(value.round(self.exercise.digits))


def read_exercises(sources: Sequence[str], *, seed: int = 0, difficulty: int = 1) -> dict[str, Exercise]:
    """Exercises by name, from kinds, TOML files, key files, and folders written by ``headwork practice new``.

    >>> list(read_exercises(["output-size", "output-size"], seed=3))
    ['output-size', 'output-size-2']
    """
    exercises: dict[str, Exercise] = {}
    for source in sources:
        for name, exercise in _read(source, seed, difficulty).items():
            count = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None for other in exercises)
            exercises[f"{name}-{count + 1}" if count else name] = exercise
    return exercises


def _read(source: str, seed: int, difficulty: int) -> Mapping[str, Exercise]:
    path = Path(source)
    if path.is_dir():
        file = path / "exercise.toml"
        if not file.is_file():
            raise InputError(
                f"{path}: no exercise.toml in it. Make one with headwork practice new KIND --out {path}."
            )
        exercise = read_exercise(file)
        return {exercise.kind or path.resolve().name: exercise}
    if not source.endswith(".toml"):
        return {source.replace("_", "-"): generate(source, seed, difficulty)}
    if isinstance(read_toml(path).get("exercise"), dict):
        return read_key(path).exercises
    return {path.stem: read_exercise(path)}


def export(
    exercises: Mapping[str, Exercise], to: str, out: str | Path, *, title: str = "", hint: int = 2
) -> list[Path]:
    """Write the files of a course system into a new folder; returns their paths."""
    if to not in FORMATS:
        raise unknown("--to", to, FORMATS)
    if not exercises:
        raise InputError("nothing to export: name a kind of exercise, a TOML file or a folder.")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {folder} exists and is not empty. Name a new folder.")
    several = len(exercises) > 1
    parts = [
        AssignmentPart(f"q{n}", name, exercise, f"q{n}_" if several else "", hint)
        for n, (name, exercise) in enumerate(exercises.items(), 1)
    ]
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", title or folder.resolve().name).strip("-") or "exercise"
    files = FORMATS[to](parts, slug)
    return [write_atomic(folder / name, content) for name, content in files.items()]


Files = dict[str, str | bytes]


# --- notebooks ------------------------------------------------------------------------------------------
def _question(part: AssignmentPart) -> str:
    """The question in Markdown, with the variables to assign."""
    names = ", ".join(f"`{name}`" for name in part.names.values())
    return f"{build_question(part.exercise).to_markdown()}\n{INSTRUCTIONS}\n\nVariables: {names}."


def _answer(part: AssignmentPart, blank: Blank, text: str) -> str:
    """Code that assigns a text to the variable of a blank."""
    return f"# {blank.name}: {blank.description}\n{_assignment(part.names[blank.name], text)}"


def _assignment(name: str, text: str) -> str:
    return f'{name} = """\n{text}\n"""' if "\n" in text else f"{name} = {json.dumps(text)}"


def _answers(part: AssignmentPart, *, solved: bool = False) -> list[NotebookCell]:
    texts = {blank: part.key(blank.name) if solved else blank.placeholder for blank in part.blanks}
    return [NotebookCell("code", _answer(part, blank, text)) for blank, text in texts.items()]


def notebook_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """One notebook for students, with a cell after each question that marks it."""
    cells = []
    for part in parts:
        call = f"print(report({_literal(part.data)}, globals(), {part.settings}))"
        check = (
            f"# Run this cell to mark your answers.\nfrom headwork.courses.autograder import report\n\n{call}"
        )
        cells += [NotebookCell("markdown", _question(part)), *_answers(part), NotebookCell("code", check)]
    return {f"{slug}.ipynb": notebook_text(cells)}


def _literal(data: Any) -> str:
    return pformat(data, width=110, sort_dicts=False)


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
    for part in parts:
        yield NotebookCell("markdown", _question(part))
        yield from _answers(part, solved=solved)
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
    shapes = {part.names[b.name]: _shape(part, b) for b in part.blanks}
    return otter_test(part.label, "can be read", 0, "autograder", f"require_readable({shapes!r}, env)")


def _shape(part: AssignmentPart, blank: Blank) -> tuple[int, ...] | None:
    """The shape that is asked; None where that is part of the question."""
    open_ended = part.exercise.challenge or part.exercise.trace.steps[blank.name].card.axes == "axis"
    return None if open_ended else blank.shape


def _otter_hidden(part: AssignmentPart) -> str:
    """One test case per step, or two where early rounding costs a part: otter's cases earn all or nothing."""
    shares = [(PART, PART), (1.0, 1 - PART)] if part.exercise.rounding == "part" else [(1.0, 1.0)]
    lines = [f"\n\nfrom headwork.courses.autograder import require\n\nEXERCISE = {_literal(part.data)}\n"]
    for number, (path, points) in enumerate(part.exercise.asked.items(), 1):
        for share, worth in shares:
            name = path if share == shares[0][0] else f"{path}, not rounded too early"
            lines.append(
                f"\n\n@test_case(name={name!r}, points={points * worth!r}, hidden=True)\n"
                f"def step_{number}_{round(100 * share)}(env):\n"
                f"    require(EXERCISE, {path!r}, env, {part.settings}, share={share})\n"
            )
    return "".join(lines)


# --- nbgrader -------------------------------------------------------------------------------------------
def nbgrader_files(parts: Sequence[AssignmentPart], slug: str) -> Files:
    """A course folder: ``nbgrader generate_assignment`` removes the key and the tests from the notebook."""
    cells = [cell for part in parts for cell in _nbgrader_cells(part)]
    return {"nbgrader_config.py": NBGRADER_CONFIG, f"source/{slug}/{slug}.ipynb": notebook_text(cells)}


def _nbgrader_cells(part: AssignmentPart) -> Iterator[NotebookCell]:
    yield nbgrader_cell("markdown", part.label, _question(part), locked=True)
    for blank in part.blanks:
        key = _assignment(part.names[blank.name], part.key(blank.name))
        key = "# Any answer that works is right." if part.exercise.challenge else key
        source = f"{_answer(part, blank, blank.placeholder)}\n### BEGIN SOLUTION\n{key}\n### END SOLUTION"
        yield nbgrader_cell("code", f"{part.label}-{_identifier(blank.name)}", source, solution=True)
    for path, points in part.exercise.asked.items():
        call = f"points({_literal(part.data)},\n       {path!r}, globals(), {part.settings})"
        source = (
            f"# {path}: marked after submission\n### BEGIN HIDDEN TESTS\n"
            f"from headwork.courses.autograder import points\n\n{call}\n### END HIDDEN TESTS"
        )
        yield nbgrader_cell(
            "code", f"{part.label}-{_identifier(path)}-points", source, grade=True, locked=True, points=points
        )


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
    """autograder.zip to upload, and student/ to distribute."""
    exercises = {part.name: part.exercise for part in parts}
    run = read_text(GRADESCOPE / "run_autograder.sh")
    archive: Files = {
        "setup.sh": read_text(GRADESCOPE / "setup.sh"),
        "run_autograder": run.replace("HINT", str(parts[0].hint)),
        "requirements.txt": REQUIREMENTS,
        "key.toml": key_text(Sheet(slug, exercises)),
        **vendored_files(),
    }
    questions = "\n".join(build_question(part.exercise).to_markdown() for part in parts)
    return {
        "autograder.zip": _zip(archive),
        "student/question.md": questions,
        "student/answer.toml": answer_sheet(exercises, origin=False),
        "student/answer.html": answer_page(exercises, origin=False),
    }


def vendored_files() -> Files:
    """The files of the package that marking needs."""
    package = Path(__file__).parents[1]
    paths = [package / name for name in MODULES]
    paths += [path for name in PACKAGES for path in sorted((package / name).rglob("*"))]
    return {
        f"headwork/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in paths
        if path.suffix in (".py", ".toml", ".html", ".css", ".js", ".sh", ".md")
    }


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


FORMATS: dict[str, Callable[[Sequence[AssignmentPart], str], Files]] = {
    "gradescope": gradescope_files,
    "otter": otter_files,
    "nbgrader": nbgrader_files,
    "notebook": notebook_files,
}
