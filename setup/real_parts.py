"""The real parts that some tests need (a browser, course systems, LaTeX, data, weights) and how to get each.

``python setup/real_parts.py`` installs what is missing: Debian's packages where that is allowed, the course
systems in an environment of their own, data and weights into headwork's cache. What is there is left alone.
The tests ask the same table whether a part is there: ``@pytest.mark.real("chromium", "playwright")``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COURSES = ROOT / ".venv-courses"
COURSES_PYTHON = COURSES / "bin" / "python"
AXE = ROOT / "setup" / "node_modules" / "axe-core" / "axe.min.js"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class Part:
    """``find`` returns where the part is, or None; ``install`` gets it; ``remedy`` tells a person how."""

    find: Callable[[], str | None]
    remedy: str
    install: Callable[[], None]


class UnavailableError(Exception):
    """A part that cannot be had here."""


def main() -> int:
    """Install the parts that are missing; 1 where one could not be had."""
    missing = []
    for name, part in PARTS.items():
        if part.find():
            say(f"{name}: there")
            continue
        say(f"{name}: installing ...")
        began = time.monotonic()
        try:
            part.install()
        except (UnavailableError, OSError) as error:
            say(f"{name}: {error}")
        if part.find():
            say(f"{name}: installed in {time.monotonic() - began:.0f} s")
        else:
            missing.append(name)
            say(f"{name}: NOT there. {part.remedy}")
    if missing:
        say(f"not to be had here: {', '.join(missing)}")
    return 1 if missing else 0


def say(line: str) -> None:
    print(f"real parts: {line}", file=sys.stderr, flush=True)


def run(*command: str) -> None:
    """Run a command quietly; where it fails, the last of what it printed says why."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise UnavailableError(f"{' '.join(command[:4])} ... failed:\n{done.stdout[-2000:]}")


# --- Debian's packages ------------------------------------------------------------------------


def apt(*packages: str) -> None:
    """Install Debian's packages, as root or by a sudo that asks for no password."""
    if shutil.which("apt-get") is None:
        raise UnavailableError("there is no apt-get on this system")
    before: tuple[str, ...] = ()
    if os.geteuid() != 0:
        if subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            raise UnavailableError("only root may install packages")
        before = ("sudo", "-n")
    update_lists(before)
    quiet = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq")
    run(*before, *quiet, "--no-install-recommends", *packages)


@cache
def update_lists(before: tuple[str, ...]) -> None:
    """Bring the lists of packages up to date, once."""
    run(*before, "apt-get", "update", "-qq")


# --- Python packages --------------------------------------------------------------------------


def find_module(name: str) -> str | None:
    return name if find_spec(name) else None


def pip(python: str | Path, *arguments: str) -> None:
    quiet = ("--quiet", "--no-compile", "--no-input", "--disable-pip-version-check")
    run(str(python), "-m", "pip", "install", *quiet, *arguments)


def find_in_courses(module: str) -> str | None:
    """The Python of the course systems' environment, if it has the module."""
    found = list(COURSES.glob(f"lib/python3*/site-packages/{module}/__init__.py"))
    return str(COURSES_PYTHON) if found and COURSES_PYTHON.exists() else None


def install_courses() -> None:
    """An environment with otter, nbgrader and headwork's core, as on a course's own server: no torch."""
    shutil.rmtree(COURSES, ignore_errors=True)
    run(sys.executable, "-m", "venv", str(COURSES))
    pip(COURSES_PYTHON, "-r", "setup/courses.txt")


# --- packages for the browser -----------------------------------------------------------------


def find_axe() -> str | None:
    return str(AXE) if AXE.exists() else None


def install_axe() -> None:
    """axe-core, which finds what those who hear a page or use a keyboard stumble over."""
    if shutil.which("npm") is None:
        raise UnavailableError("there is no npm on this system")
    run("npm", "install", "--silent", "--no-save", "--prefix", "setup", "axe-core@4")


# --- data and weights -------------------------------------------------------------------------


def find_cached(name: str) -> str | None:
    from headwork.data.catalog import require_entry
    from headwork.data.fetching import cache_folder, cached_variant

    entry = require_entry(name)
    return str(cache_folder() / entry.folder) if cached_variant(entry) else None


def fetch(name: str) -> None:
    if shutil.which("apt-get") and os.geteuid() == 0:
        update_lists(())  # Fashion-MNIST is a Debian package
    run(sys.executable, "-m", "headwork", "data", "get", name)


def debian(find: Callable[[], str | None], *packages: str) -> Part:
    return Part(find, f"On Debian and Ubuntu: apt-get install {' '.join(packages)}", partial(apt, *packages))


def courses(module: str) -> Part:
    return Part(partial(find_in_courses, module), "See setup/courses.txt.", install_courses)


def data(name: str) -> Part:
    return Part(partial(find_cached, name), f"Try: headwork data get {name}", partial(fetch, name))


def first_on_path(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


# In the order in which they are installed. A new part is one line here.
PARTS = {
    "compiler": debian(partial(first_on_path, "g++", "clang++", "c++"), "g++"),
    "dpkg-deb": debian(partial(first_on_path, "dpkg-deb"), "dpkg"),
    "chromium": debian(partial(first_on_path, *BROWSERS), "chromium"),
    "playwright": Part(
        partial(find_module, "playwright"),
        'Try: pip install ".[real]"',
        partial(pip, sys.executable, "-c", "constraints.txt", "playwright"),
    ),
    "axe": Part(find_axe, "Try: npm install --no-save --prefix setup axe-core@4", install_axe),
    "pdflatex": debian(partial(first_on_path, "pdflatex"), "texlive-latex-base"),
    "otter": courses("otter"),
    "nbgrader": courses("nbgrader"),
    "fashion-mnist": data("fashion-mnist"),
    "rotten-tomatoes": data("rotten-tomatoes"),
    "imdb": data("imdb"),
    "minilm": data("minilm"),
    "pyodide": data("pyodide"),
    "node": debian(partial(first_on_path, "node"), "nodejs"),
}

if __name__ == "__main__":
    sys.exit(main())
