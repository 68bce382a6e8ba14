"""Course notebooks: one Markdown source each (``notebook_sources/``), written as four versions.

Text becomes Markdown cells and ```` ```python ```` fences become code. A word after the language says more:

- ``python blank``: code to complete. Students get ``...`` for what is assigned or returned on each line that
  ends in ``# blank``, and one ``...`` for other such lines.
- ``python check``: one call ``headwork.check("name", function)``, a question of one point in a course system.
- ``markdown answer``: what only the solution shows; students get an empty answer.

``make notebooks`` executes the solutions into ``notebooks/`` of the repository.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from headwork.courses.exporting import (
    NBGRADER_CONFIG,
    REQUIREMENTS,
    Files,
    nbgrader_cell,
    otter_start,
    otter_test,
    vendored_files,
    with_solution,
)
from headwork.documents.formats.notebook import NotebookCell, notebook_text
from headwork.errors import InputError, check_known, unknown_name
from headwork.files import read_text, write_atomic

SOURCES = {path.stem: path for path in sorted(Path(__file__).with_name("notebook_sources").glob("*.md"))}
VERSIONS = ("student", "solution", "otter", "nbgrader")
FENCE = re.compile(r"^```(python|markdown)(?: (blank|check|answer))?\n(.*?)^```\n", re.M | re.S)
BLANK_COMMENT = re.compile(r"  # blank$", re.M)
CHECK_CALL = re.compile(r'headwork\.check\("([\w-]+)", (\w+)\)')
ANSWER = "*Your answer:*"


class SourceCell(NamedTuple):
    """A cell of the source: ``markdown`` or ``python``, what it is for, and its text."""

    kind: str
    role: str
    text: str

    @property
    def solution(self) -> NotebookCell:
        text = f"**Answer.** {self.text}" if self.role == "answer" else BLANK_COMMENT.sub("", self.text)
        return NotebookCell("code" if self.kind == "python" else "markdown", text)

    @property
    def student(self) -> NotebookCell:
        return NotebookCell(self.solution.kind, ANSWER if self.role == "answer" else with_blanks(self.text))


def with_blanks(code: str) -> str:
    """The code with ``...`` in the lines that are marked.

    >>> print(with_blanks("y = 2 * x  # blank"))
    y = ...
    """
    lines: list[str] = []
    for line in code.splitlines():
        if BLANK_COMMENT.search(line):
            start = re.match(r"\s*(?:[\w, ]+ = |return )?", line)
            line = (start[0] if start else "") + "..."
        if not (line.strip() == "..." and lines and lines[-1] == line):
            lines.append(line)
    return "\n".join(lines)


def read_source(name: str) -> list[SourceCell]:
    """The cells of a source, in order."""
    check_known("notebook", name, SOURCES)
    parts, end, text = [], 0, read_text(SOURCES[name])
    for fence in FENCE.finditer(text):
        parts += [SourceCell("markdown", "", text[end : fence.start()].strip())]
        parts += [SourceCell(fence[1], fence[2] or "", fence[3].rstrip("\n"))]
        end = fence.end()
    parts.append(SourceCell("markdown", "", text[end:].strip()))
    return [part for part in parts if part.text]


def course_notebook_files(name: str, version: str) -> Files:
    """The files of one version of a notebook, by their path."""
    parts = read_source(name)
    if version == "student":
        return {f"{name}.ipynb": notebook_text(part.student for part in parts)}
    if version == "solution":
        return {f"{name}-solution.ipynb": notebook_text(part.solution for part in parts)}
    if version == "nbgrader":
        config = NBGRADER_CONFIG.replace("Fill in the question marks.", "Replace each ... above.")
        cells = notebook_text(_nbgrader_cells(parts))
        return {"nbgrader_config.py": config, f"source/{name}/{name}.ipynb": cells}
    if version == "otter":
        return _otter_files(name, parts)
    raise unknown_name("--as", version, VERSIONS)


def write_notebook(name: str, version: str, out: str | Path, *, force: bool = False) -> list[Path]:
    """Write a version into a folder; what is there is left alone unless ``force``."""
    files = {Path(out) / path: content for path, content in course_notebook_files(name, version).items()}
    existing = next((path for path in files if path.exists()), None)
    if existing and not force:
        raise InputError(f"{existing} exists. Name another folder with --out, or overwrite it with --force.")
    return [write_atomic(path, content) for path, content in files.items()]


def _otter_files(name: str, parts: list[SourceCell]) -> Files:
    files: Files = {"autograder/requirements.txt": REQUIREMENTS + "matplotlib\nsympy\ntorch\n"}
    cells = [otter_start(name)]
    for number, part in enumerate(parts):
        call = CHECK_CALL.search(part.text)
        cells.append(NotebookCell("code", f'grader.check("q{number}")') if call else part.student)
        if call:
            check = f"require('{call[1]}', env.get('{call[2]}'))"
            test = otter_test(f"q{number}", call[1], 1, "checks", check)
            files |= {f"{folder}/tests/q{number}.py": test for folder in ("student", "autograder")}
    files[f"student/{name}.ipynb"] = notebook_text(cells)
    return files | {f"autograder/{path}": content for path, content in vendored_files().items()}


def _nbgrader_cells(parts: list[SourceCell]) -> Iterator[NotebookCell]:
    for number, part in enumerate(parts):
        kind, source = part.solution.kind, part.solution.source
        if part.role == "check":
            source = source.replace(
                "headwork.check", "from headwork.courses.checks import require\n\nrequire"
            )
            yield nbgrader_cell(kind, f"cell-{number}", source, grade=True, locked=True, points=1)
        elif part.role == "blank":
            source = with_solution(part.student.source, source)
            yield nbgrader_cell(kind, f"cell-{number}", source, solution=True)
        elif part.role == "answer":
            # nbgrader wants text to be marked by hand; 0 points leave the marks to the checks.
            yield nbgrader_cell(kind, f"cell-{number}", source, grade=True, solution=True, points=0)
        else:
            yield nbgrader_cell(kind, f"cell-{number}", source, locked=True)


@cache
def solution_function(check: str, old: str, new: str) -> Callable[..., Any]:
    """The function that a check asks for, from the solution with one piece of it exchanged.

    >>> solution_function("recurrence", "w_x * x", "x")([1, 2], 5, 3)
    5
    """
    for name in SOURCES:
        scope: dict[str, Any] = {"np": numpy, "torch": sys.modules.get("torch")}
        for part in read_source(name):
            call = CHECK_CALL.search(part.text)
            if call and call[1] == check:
                return scope[call[2]]  # type: ignore[no-any-return]
            if part.role == "blank":
                exec(part.text.replace(old, new), scope)
    raise unknown_name("check", check, ())
