"""Makes the .venv in layers: ``run`` is what running needs, ``dev`` adds the tools of tests and checks.

Called by setup.sh with any Python from 3.11 on; uses the standard library only. The first time, ``run``
installs the core (no torch), shows the first problem, and installs torch meanwhile. A set-up that was killed
is begun again from nothing the next time; one set-up at a time works in a folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv"
PYTHON = str(FOLDER / "bin" / "python")
INCOMPLETE = FOLDER / ".incomplete"
LOG = FOLDER / "pip.log"
LOCKED = ROOT / "setup" / "locked"  # written by setup/lock.py
BASE = getattr(sys, "_base_executable", sys.executable)  # not a .venv's own, which may be about to go

# The extras of pyproject.toml that each layer holds; a layer holds the ones before it.
LAYERS = {"run": ["train", "lab"], "dev": ["train", "lab", "export", "pdf", "dev"]}


def main(layer: str, rest: bool = False) -> int:
    """Set up a layer. ``rest`` is the part that runs beside the first problem, in a process of its own."""
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Bytecode is written when a module is first imported; pip would compile for a minute what is never used.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not rest and ready(layer):
        return 0
    try:
        if rest:
            return install_rest(layer)
        lock = lock_folder()
        return 0 if ready(layer) else set_up(layer, lock)
    except KeyboardInterrupt:
        if not rest:
            say("\nthe set-up was interrupted; the next make begins it again")
        return 130


def lock_folder() -> int:
    """A lock on the project's folder; the set-up in the background holds it as well."""
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another set-up is at work in this folder; waiting for it ...")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def set_up(layer: str, lock: int) -> int:
    began = time.monotonic()
    fresh = make_environment()
    INCOMPLETE.touch()
    if layer != "run":
        say(f"installing {', '.join(LAYERS[layer])} (some minutes) ...")
        return install_rest(layer)
    say("installing the core ...")
    if code := install_locked("core"):
        return code
    rest = subprocess.Popen([BASE, __file__, layer, "--rest"], pass_fds=[lock])
    try:
        if fresh:
            say(f"the core is ready after {time.monotonic() - began:.0f} s. The first problem:\n")
            subprocess.run([PYTHON, "-m", "headwork", "problems", "A2"])
        say("\ninstalling torch and what else training needs (torch alone is 192 MB) ...")
        while rest.poll() is None:
            show_clock(time.monotonic() - began)
            time.sleep(0.25)
    finally:
        if rest.poll() is None:
            rest.terminate()
        rest.wait()
    if rest.returncode:
        say(f"Works already, without torch: {Path(PYTHON).relative_to(ROOT)} -m headwork problems")
        return 1
    say(f"the set-up is done after {time.monotonic() - began:.0f} s\n")
    return 0


def install_rest(layer: str) -> int:
    """Install headwork itself with the extras of a layer, and record which layers are there."""
    if not (FOLDER / "bin" / "pip").exists():
        subprocess.run([PYTHON, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
    # compat: a plain path. Python looks there before it takes a folder of that name, such as this one.
    editable = ["--config-settings", "editable_mode=compat", "-e", f".[{','.join(LAYERS[layer])}]"]
    for held in ("core", *LAYERS)[: 2 + list(LAYERS).index(layer)]:
        if code := install_locked(held):
            return code
    if code := pip("install", *editable):  # torch, and what only some platforms need
        return code
    for held in [name for name in LAYERS if set(LAYERS[name]) <= set(LAYERS[layer])]:
        stamp(held).write_text(digest(held))
    INCOMPLETE.unlink(missing_ok=True)
    return 0


def make_environment() -> bool:
    """Make the .venv unless a whole one is there; whether it was made."""
    if FOLDER.exists():
        if not INCOMPLETE.exists() and works(PYTHON):
            return False
        say("the .venv here is broken or half made: making it anew")
        shutil.rmtree(FOLDER)
    say("making .venv (once) ...")
    if shutil.which("cc") is None:
        say("note: no C compiler (cc) was found. All works without one; torch.compile is skipped.")
    # With pip at hand, the first problem need not wait for the .venv's own.
    venv.create(FOLDER, with_pip=not has_pip(), symlinks=True)
    return True


def works(python: str) -> bool:
    return (
        os.access(python, os.X_OK) and not subprocess.run([python, "-c", ""], capture_output=True).returncode
    )


def has_pip() -> bool:
    """Whether this Python has a pip that can install into another."""
    version = subprocess.run([BASE, "-m", "pip", "--version"], capture_output=True, text=True).stdout
    numbers = [*version.split(), "", ""][1].split(".")[:2]
    return [int(number) if number.isdigit() else 0 for number in numbers] >= [22, 3]


def pip(command: str, *arguments: str) -> int:
    """Run pip for the .venv; where it fails, show why."""
    own = (FOLDER / "bin" / "pip").exists()
    program = [PYTHON, "-m", "pip"] if own else [BASE, "-m", "pip", "--python", PYTHON]
    options = [
        "--quiet",
        "--no-compile",
        "--no-input",
        "--disable-pip-version-check",
    ]
    if "--require-hashes" not in arguments:
        options += ["-c", "constraints.txt"]
    try:
        with LOG.open("w") as log:
            code = subprocess.run([*program, command, *options, *arguments], stderr=log).returncode
    except FileNotFoundError as error:
        say(f"the set-up failed: {error}")
        return 1
    if code:
        lines = [line for line in LOG.read_text().splitlines() if not line.startswith("WARNING: Location")]
        say("\n".join([*lines, "the set-up failed; the lines above say why."]))
        if code > 0 and not any("No space left" in line for line in lines):
            INCOMPLETE.unlink(missing_ok=True)  # pip gave up before it changed anything
    return code


def install_locked(layer: str) -> int:
    """Install the packages of a layer, each file checked against its digest."""
    return pip("install", "--require-hashes", "--no-deps", "-r", str(LOCKED / f"{layer}.txt"))


def core_requirements() -> list[str]:
    return list(project()["dependencies"])


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def stamp(layer: str) -> Path:
    return FOLDER / f".ready-{layer}"


def digest(layer: str) -> str:
    """Of all that decides what a layer installs."""
    extras = [project()["optional-dependencies"][extra] for extra in LAYERS[layer]]
    files = [ROOT / "constraints.txt", *sorted(LOCKED.glob("*.txt"))]
    text = f"{core_requirements()} {extras} {[file.read_text() for file in files]}"
    return hashlib.sha256(text.encode()).hexdigest()


def ready(layer: str) -> bool:
    here = stamp(layer).exists() and not INCOMPLETE.exists()
    return here and stamp(layer).read_text() == digest(layer) and os.access(PYTHON, os.X_OK)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def show_clock(seconds: float) -> None:
    if sys.stderr.isatty():
        print(f"\r{seconds:.0f} s ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in LAYERS:
        sys.exit(f"usage: sh setup.sh {'|'.join(LAYERS)}")
    sys.exit(main(sys.argv[1], rest="--rest" in sys.argv))
