"""What held under abuse and must go on: broken images, calls from many threads, odd surroundings, no eval."""

from __future__ import annotations

import ast
import io
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headwork
from headwork.errors import HeadworkError

KINDS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
COMMANDS = (
    "explain self-attention --set tokens=1,2;2,0 --as html --out steps.html",
    "practice new self-attention --seed 1 --out übung",
    "grade übung/answer.toml",
    "problems A2",
)


def break_images(count: int, folder: Path) -> None:
    """Each image is cut off or has bytes changed; it is read or refused in words."""
    from PIL import Image

    from headwork.data.image_files import read_image

    chance = random.Random(17)
    for number in range(count):
        file = io.BytesIO()
        kind, mode = KINDS[number % len(KINDS)], ("L", "RGB")[number % 2]
        Image.effect_noise((40, 30), 90).convert(mode).save(file, kind)
        data = bytearray(file.getvalue())
        if number % 3:
            for _ in range(chance.choice((1, 8, 60))):
                data[chance.randrange(len(data))] = chance.randrange(256)
        else:
            del data[chance.randrange(len(data)) :]
        path = folder / f"{number}.{kind.lower()}"
        path.write_bytes(data)
        try:
            outcome = f"{path.name}: {read_image(path).ndim} axes"
        except HeadworkError as error:
            outcome = str(error)
        assert path.name in outcome


def call_from_threads(calls: int) -> None:
    """Eight threads at once get what one gets alone."""

    def work(number: int) -> str:
        tokens = "; ".join(f"{number % 5} {row} {number % 3}" for row in range(3))
        exact = number % 4 == 0
        trace = headwork.explain("self-attention", tokens=tokens, beta=1, exact=exact)
        return f"{trace.cell('weights', 0, 1)} {trace.to_text()}"

    alone = {number: work(number) for number in range(60)}
    with ThreadPoolExecutor(8) as pool:
        assert all(
            text == alone[n % 60] for n, text in enumerate(pool.map(lambda n: work(n % 60), range(calls)))
        )


def run_in_odd_surroundings(folder: Path, *commands: str) -> None:
    """An ASCII locale, a home that cannot be written, a folder whose name is no ASCII."""
    work = folder / "Ünïcode ☃ folder"
    work.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "XDG_", "PYTHON"))}
    environment |= {
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "HOME": "/proc",
    }
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    for command in commands:
        program = [sys.executable, "-m", "headwork", *command.split()]
        done = subprocess.run(program, cwd=work, env=environment, capture_output=True, timeout=300)
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        assert done.returncode in (0, 1), (command, said)
        assert "Traceback" not in said
        assert "unexpected" not in said


# What runs code that a file holds, or writes wherever an archive says; and where our own code needs one.
RUNS_CODE = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle", "marshal", "shelve"}
RUNS_CODE |= {"dill", "joblib", "runpy", "yaml", "torch.load", "numpy.load", "np.load", "pandas.read_pickle"}
OUR_OWN = {
    ("courses/notebooks.py", "exec"),  # the cells of the package's own notebooks, with a mistake put in
}


def what_runs_code(source: str) -> set[str]:
    """The names by which a module could run what it reads."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found |= {name, name.split(".")[0]} & RUNS_CODE
            found |= {name.split(".")[-1]} & {"extractall", "extract"}
            given = [word.arg for word in node.keywords if ast.unparse(word.value) != "False"]
            found |= {word for word in given if word in ("allow_pickle", "shell")}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [name.name for name in node.names] + [getattr(node, "module", None) or ""]
            found |= {module.split(".")[0] for module in modules} & RUNS_CODE
    return found


def test_nothing_that_is_read_is_run() -> None:
    package = Path(headwork.__file__).parent
    found = {
        (path.relative_to(package).as_posix(), name)
        for path in package.rglob("*.py")
        for name in what_runs_code(path.read_text("utf-8"))
    }
    assert found == OUR_OWN
    bad = "import pickle\nnp.load(f, allow_pickle=True)\narchive.extractall()\nrun(x, shell=True)\neval(x)"
    assert what_runs_code(bad) == {"pickle", "np.load", "allow_pickle", "extractall", "shell", "eval"}


def test_a_few_of_each(tmp_path: Path) -> None:
    break_images(36, tmp_path)
    call_from_threads(70)
    run_in_odd_surroundings(tmp_path, *COMMANDS[1:2])


@pytest.mark.soak
def test_six_hundred_broken_images(tmp_path: Path) -> None:
    break_images(600, tmp_path)


@pytest.mark.soak
def test_nine_hundred_and_sixty_calls_from_eight_threads() -> None:
    call_from_threads(960)


@pytest.mark.soak
def test_commands_in_odd_surroundings(tmp_path: Path) -> None:
    run_in_odd_surroundings(tmp_path, *COMMANDS)
