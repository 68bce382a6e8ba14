"""Exercises as files of a course system: Gradescope, otter, nbgrader, or a plain notebook.

What is handed to students never holds the key or the seed. It does hold the question, from whose numbers anyone with
headwork can work out the key: secrecy protects a variant that a student has not seen, nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from headwork.courses.answer_page import answer_page
from headwork.courses.autograder import variables
from headwork.courses.sheets import Sheet, key_text, read_key
from headwork.errors import InputError, unknown
from headwork.exercises.exercise import Exercise
from headwork.exercises.kinds import generate
from headwork.exercises.questions import Blank, answer_sheet, markdown, question
from headwork.exercises.reading import read_exercise
from headwork.files import read_toml, write_whole
from headwork.grading.marking import PART
from headwork.readings.notebook import array_text

# What marking needs of the package, and of others; torch is not among it.
ROOMS = ("numbers", "mechanisms", "pages", "readings", "sizes", "exercises", "grading", "courses")
ALONE = ("__init__.py", "errors.py", "files.py", "note.py")
REQUIREMENTS = "numpy>=2.0\nmarkupsafe>=2.1\n"
HOW = (
    "Put each answer into its variable: as a text, typed as you would by hand (`1/2 0.25`, a new line or `;` for a new "
    "row), or as a list or an array. A `?` leaves an entry open."
)
SETUP = """#!/usr/bin/env bash
# Run once, when the autograder is built: a Python of 3.11 or newer with numpy, and headwork compiled beside it.
set -euo pipefail
root="$(cd "$(dirname "$0")" && pwd)"
case "$root" in */source) here="$root" ;; *) here="$root/source" ;; esac
python=""
for name in python3 python3.14 python3.13 python3.12 python3.11; do
  if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python="$name"
    break
  fi
done
if [ -z "$python" ] || ! "$python" -c 'import ensurepip' 2>/dev/null; then
  apt-get update
  apt-get install -y "${python:-python3.11}" "${python:-python3.11}-venv"
  python="${python:-python3.11}"
fi
"$python" -m venv "$here/venv"
"$here/venv/bin/python" -m pip install --no-cache-dir -r "$here/requirements.txt"
"$here/venv/bin/python" -m compileall -q "$here/headwork"
"""
RUN = """#!/usr/bin/env bash
# Run for each submission: writes results/results.json, whole and once, and nothing to the screen.
exec >/dev/null 2>&1 </dev/null
root="$(cd "$(dirname "$0")" && pwd)"
python="$root/source/venv/bin/python"
[ -x "$python" ] || python=python3
mkdir -p "$root/results"
rm -f "$root/results/results.json"
export PYTHONPATH="$root/source" PYTHONSAFEPATH=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
(
  cd "$root/source" && ulimit -v 700000
  exec timeout -k 5 {seconds} "$python" -m headwork.courses.autograder "$root" {hint}
) >"$root/grading.log" 2>&1
if [ ! -f "$root/results/results.json" ]; then
  why="Unreadable: marking stopped before it was done. Hand in a plain answer file, or tell your teacher."
  printf '{{"score": 0.0, "output": "%s", "output_format": "text", "visibility": "visible"}}\\n' "$why" \\
    >"$root/results/.results.json" && mv "$root/results/.results.json" "$root/results/results.json"
fi
exit 0
"""
SECONDS = 60
NBGRADER_CONFIG = """c = get_config()
# The question marks to fill in stand above what is cut out, so that nothing more need be said there.
c.ClearSolutions.code_stub = {"python": "# Fill in the question marks."}
"""


@dataclass(frozen=True)
class Part:
    """One exercise of what is exported: its label, the prefix of its variables."""

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
        return question(self.exercise).blanks

    @property
    def data(self) -> dict[str, Any]:
        """The exercise as plain data, without what marking does not need: the seed, the words of the question."""
        import tomllib

        return tomllib.loads(replace(self.exercise, seed=None, question="").to_toml())

    @property
    def settings(self) -> str:
        return f"prefix={self.prefix!r}, hint={self.hint}"

    def key(self, path: str) -> str:
        """The right value of a step as it is typed; whatever works is right in a challenge, so it has none."""
        if self.exercise.challenge:
            return ""
        value = np.transpose(self.exercise.key[path], self.exercise.trace.steps[path].order)
        return array_text(value.round(self.exercise.digits))


def read_exercises(sources: Sequence[str], *, seed: int = 0, difficulty: int = 1) -> dict[str, Exercise]:
    """Exercises by name, from kinds, TOML files, key files, and folders that ``headwork practice new`` made.

    >>> list(read_exercises(["output-size", "output-size"], seed=3))
    ['output-size', 'output-size-2']
    """
    found: dict[str, Exercise] = {}
    for source in sources:
        for name, exercise in _read(source, seed, difficulty).items():
            count = sum(
                other == name or re.fullmatch(re.escape(name) + r"-\d+", other) is not None for other in found
            )
            found[f"{name}-{count + 1}" if count else name] = exercise
    return found


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
    """Write the files of a course system into a new folder, and say which."""
    if to not in FORMATS:
        raise unknown("--to", to, FORMATS)
    if not exercises:
        raise InputError("nothing to export: name a kind of exercise, a TOML file or a folder.")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"--out {folder} is there already and not empty. Name a new folder.")
    several = len(exercises) > 1
    parts = [
        Part(f"q{n}", name, exercise, f"q{n}_" if several else "", hint)
        for n, (name, exercise) in enumerate(exercises.items(), 1)
    ]
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", title or folder.resolve().name).strip("-") or "exercise"
    files = FORMATS[to](parts, slug)
    return [write_whole(folder / name, content) for name, content in files.items()]


Files = dict[str, str | bytes]


# --- notebooks ------------------------------------------------------------------------------------------


def _cell(kind: str, source: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": dict(metadata or {}),
        "source": source.rstrip("\n"),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _notebook(cells: Iterable[dict[str, Any]]) -> str:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _asked(part: Part) -> str:
    """The question in Markdown, with the variables to fill."""
    listed = ", ".join(f"`{name}`" for name in part.names.values())
    return f"{markdown(question(part.exercise))}\n{HOW}\n\nVariables: {listed}."


def _answer(part: Part, blank: Blank, text: str) -> str:
    """Code that puts a text into the variable of a blank."""
    worth = "" if blank.points is None else f", {blank.points:g} point{'' if blank.points == 1 else 's'}"
    return f"# {blank.name}: {blank.about}{worth}\n{_assignment(part.names[blank.name], text)}"


def _assignment(name: str, text: str) -> str:
    return f'{name} = """\n{text}\n"""' if "\n" in text else f"{name} = {json.dumps(text)}"


def _answers(part: Part, *, solved: bool = False) -> list[dict[str, Any]]:
    return [_cell("code", _answer(part, b, part.key(b.name) if solved else b.empty)) for b in part.blanks]


def notebook_files(parts: Sequence[Part], slug: str) -> Files:
    """One notebook to hand out, with a cell after each question in which a student sees how far she is."""
    cells = []
    for part in parts:
        call = f"print(report({_literal(part.data)}, globals(), {part.settings}))"
        check = f"# Run this cell to see how far you are.\nfrom headwork.courses.autograder import report\n\n{call}"
        cells += [_cell("markdown", _asked(part)), *_answers(part), _cell("code", check)]
    return {f"{slug}.ipynb": _notebook(cells)}


def _literal(data: Any) -> str:
    return pformat(data, width=110, sort_dicts=False)


# --- otter ----------------------------------------------------------------------------------------------


def otter_files(parts: Sequence[Part], slug: str) -> Files:
    """student/ to hand out; autograder/ from which ``otter generate`` makes the zip file."""
    files: Files = {
        f"student/{slug}.ipynb": _notebook(_otter_cells(parts, slug)),
        f"autograder/{slug}-solution.ipynb": _notebook(_otter_cells(parts, slug, solved=True)),
        "autograder/requirements.txt": REQUIREMENTS,
        "autograder/otter_config.json": json.dumps({"show_hidden": True}) + "\n",
    }
    for part in parts:
        public = _otter_public(part)
        files[f"student/tests/{part.label}.py"] = public
        files[f"autograder/tests/{part.label}.py"] = public + _otter_hidden(part)
    return files | {f"autograder/{name}": content for name, content in vendored().items()}


def _otter_cells(parts: Sequence[Part], slug: str, *, solved: bool = False) -> Iterator[dict[str, Any]]:
    yield _cell("code", f'import otter\n\ngrader = otter.Notebook("{slug}.ipynb")')
    for part in parts:
        yield _cell("markdown", _asked(part))
        yield from _answers(part, solved=solved)
        yield _cell("code", f'grader.check("{part.label}")')


def _otter_public(part: Part) -> str:
    shapes = {part.names[b.name]: _shape(part, b) for b in part.blanks}
    return (
        "from otter.test_files import test_case\n\n"
        "from headwork.courses.autograder import require_readable\n\n"
        f'OK_FORMAT = False\nname = "{part.label}"\npoints = None\n\n\n'
        '@test_case(name="can be read", points=0, hidden=False)\n'
        f"def can_be_read(env):\n    require_readable({shapes!r}, env)\n"
    )


def _shape(part: Part, blank: Blank) -> tuple[int, ...] | None:
    """The shape that is asked; None where that is part of the question."""
    open_ended = part.exercise.challenge or part.exercise.trace.steps[blank.name].card.axes == "axis"
    return None if open_ended else blank.shape


def _otter_hidden(part: Part) -> str:
    """A test case a step, or two where rounding too early costs a part: a case of otter's earns all or nothing."""
    shares = [(PART, PART), (1.0, 1 - PART)] if part.exercise.rounding == "part" else [(1.0, 1.0)]
    lines = [f"\n\nfrom headwork.courses.autograder import require\n\nEXERCISE = {_literal(part.data)}\n"]
    for number, (path, full) in enumerate(part.exercise.asked.items(), 1):
        for share, worth in shares:
            what = path if share == shares[0][0] else f"{path}, not rounded too early"
            lines.append(
                f"\n\n@test_case(name={what!r}, points={full * worth!r}, hidden=True)\n"
                f"def step_{number}_{round(100 * share)}(env):\n"
                f"    require(EXERCISE, {path!r}, env, {part.settings}, share={share})\n"
            )
    return "".join(lines)


# --- nbgrader -------------------------------------------------------------------------------------------


def nbgrader_files(parts: Sequence[Part], slug: str) -> Files:
    """A course folder: ``nbgrader generate_assignment`` cuts the key and the tests out of the source notebook."""
    cells = [cell for part in parts for cell in _nbgrader_cells(part)]
    return {"nbgrader_config.py": NBGRADER_CONFIG, f"source/{slug}/{slug}.ipynb": _notebook(cells)}


def _nbgrader_cells(part: Part) -> Iterator[dict[str, Any]]:
    yield _managed("markdown", part.label, _asked(part), locked=True)
    for blank in part.blanks:
        key = _assignment(part.names[blank.name], part.key(blank.name))
        key = "# Whatever works is right." if part.exercise.challenge else key
        source = f"{_answer(part, blank, blank.empty)}\n### BEGIN SOLUTION\n{key}\n### END SOLUTION"
        yield _managed("code", f"{part.label}-{_identifier(blank.name)}", source, solution=True)
    for path, full in part.exercise.asked.items():
        call = f"points({_literal(part.data)},\n       {path!r}, globals(), {part.settings})"
        source = (
            f"# {path}: marked when it is handed in\n### BEGIN HIDDEN TESTS\n"
            f"from headwork.courses.autograder import points\n\n{call}\n### END HIDDEN TESTS"
        )
        yield _managed(
            "code", f"{part.label}-{_identifier(path)}-points", source, grade=True, locked=True, points=full
        )


def _identifier(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path)


def _managed(
    kind: str, grade_id: str, source: str, *, points: float | None = None, **flags: bool
) -> dict[str, Any]:
    """A cell that nbgrader keeps an eye on, with its metadata of schema version 3."""
    told: dict[str, Any] = {
        "schema_version": 3,
        "grade": False,
        "locked": False,
        "solution": False,
        "task": False,
    }
    told |= {**flags, "grade_id": grade_id, "cell_type": kind} | (
        {} if points is None else {"points": points}
    )
    words = [source, kind, *(str(told[flag]) for flag in ("grade", "solution", "locked")), grade_id]
    words += [] if points is None else [str(float(points))]
    told["checksum"] = hashlib.md5("".join(words).encode(), usedforsecurity=False).hexdigest()
    return _cell(kind, source, {"nbgrader": told})


# --- Gradescope -----------------------------------------------------------------------------------------


def gradescope_files(parts: Sequence[Part], slug: str) -> Files:
    """autograder.zip to upload, and student/ to hand out."""
    exercises = {part.name: part.exercise for part in parts}
    inside: Files = {
        "setup.sh": SETUP,
        "run_autograder": RUN.format(hint=parts[0].hint, seconds=SECONDS),
        "requirements.txt": REQUIREMENTS,
        "key.toml": key_text(Sheet(slug, exercises)),
        **vendored(),
    }
    questions = "\n".join(markdown(question(part.exercise), level=1) for part in parts)
    return {
        "autograder.zip": _zipped(inside),
        "student/question.md": questions,
        "student/answer.toml": answer_sheet(exercises, origin=False),
        "student/answer.html": answer_page(exercises, origin=False),
    }


def vendored() -> Files:
    """The files of the package that marking needs."""
    package = Path(__file__).parents[1]
    found: Files = {}
    for room in (*ALONE, *ROOMS):
        place = package / room
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            if file.suffix in (".py", ".html", ".css", ".js"):
                found[f"headwork/{file.relative_to(package).as_posix()}"] = file.read_bytes()
    return found


def _zipped(files: Files) -> bytes:
    """A zip file; the same content gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name in ("setup.sh", "run_autograder") else 0o100644) << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Sequence[Part], str], Files]] = {
    "gradescope": gradescope_files,
    "otter": otter_files,
    "nbgrader": nbgrader_files,
    "notebook": notebook_files,
}
