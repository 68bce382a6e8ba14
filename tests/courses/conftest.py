"""What the tests of course systems share."""

import os
import subprocess
from pathlib import Path

import pytest

from headwork.courses.sheets import SheetTemplate, make_sheet
from tests.courses.answering import WAYS, marks

ROOT = Path(__file__).parents[2]


@pytest.fixture
def course_system(tmp_path):
    """Run a module of the course systems' own Python in a folder, without the settings of who runs it.

    The kernel finds this package, unless the system brings its own.
    """

    def run(python, folder, *arguments, package=str(ROOT)):
        environment = {
            **os.environ,
            "PYTHONPATH": package,
            "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
            "JUPYTER_CONFIG_DIR": str(tmp_path / "jupyter"),
            "IPYTHONDIR": str(tmp_path / "ipython"),
        }
        command = [python, "-m", *map(str, arguments)]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)

    return run


@pytest.fixture(scope="session")
def variants():
    """Three sheets with numbers of their own; the exercises hold what the answers above are made of."""
    course = SheetTemplate(
        "Sheet",
        "0123456789abcdef",
        {
            "1": {"kind": "self-attention", "points": {"scores": 1, "weights": 2, "output": 1.5}},
            "2": {"kind": "self-attention", "points": 4, "difficulty": 2},
        },
        {"hints": 2},
        Path(),
    )
    return {who: make_sheet(course, who, who.title(), f"{who}@x.org") for who in ("ada", "bob", "cem")}


@pytest.fixture(scope="session")
def handed_in(variants):
    """Every student in every way: the ID, the way, the answers, and what ``headwork grade`` gives."""
    found = []
    for who, sheet in variants.items():
        for how, way in WAYS.items():
            answers = {name: way(exercise) for name, exercise in sheet.exercises.items()}
            found.append((who, how, answers, marks(sheet.exercises, answers)))
    return found
