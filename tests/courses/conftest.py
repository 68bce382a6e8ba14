"""What the tests of course systems share."""

import os
import subprocess
from pathlib import Path

import pytest

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
