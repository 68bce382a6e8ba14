"""No command but ``headwork data`` opens a connection, and none writes outside its folders and caches."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Runs the commands one after another under an audit hook, which Python calls before it opens anything.
WATCHED = """
import os, sys
from headwork.cli import main

def hook(event, arguments):
    if event.split(".")[0] == "socket" and event != "socket.__new__":
        os.write(1, f"CONNECTION {event} {arguments}\\n".encode())

sys.addaudithook(hook)
for command in sys.argv[1:]:
    sys.argv = ["headwork", *command.split()]
    try:
        main()
    except SystemExit as done:
        os.write(1, f"DONE {done.code} {command}\\n".encode())
"""
QUICK = (
    "problems A2 --as html --out a2.html",
    "explain softmax --set scores=0,1 --as notebook --out softmax.ipynb",
    "practice new self-attention --seed 1 --out exercise",
    "sizes transformer --json",
    "build identity --tokens 3",
    "equal convolution-toeplitz",
)
TRAINING = (
    "train vision --data digits --epochs 1 --out run --set compiled=false",
    "evaluate run",
    "export run --to onnx",
    "report run --as html",
)
CACHES = (".cache/headwork", ".cache/matplotlib", ".config/matplotlib")  # below the home folder


def run(folder: Path, program: list[str]) -> str:
    """What a program prints; its home, temporary and working folders are below ``folder``."""
    home, work, temporary = (folder / name for name in ("home", "work", "temporary"))
    for made in (home, work, temporary):
        made.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HEADWORK", "ORT_"))}
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    root = str(Path(__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run(program, cwd=work, env=environment, capture_output=True, text=True, timeout=600)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


def written(folder: Path) -> list[str]:
    """Files below the home folder that are in no cache."""
    files = (path.relative_to(folder / "home").as_posix() for path in (folder / "home").rglob("*"))
    return [name for name in files if (folder / "home" / name).is_file() and not name.startswith(CACHES)]


def watch(folder: Path, commands: tuple[str, ...]) -> None:
    printed = run(folder, [sys.executable, "-c", WATCHED, *commands])
    assert not re.findall("CONNECTION.*", printed)
    assert re.findall("DONE (.*)", printed) == [f"0 {command}" for command in commands]
    assert not written(folder)


def test_quick_commands_open_no_connection_and_write_where_they_are_told_to(tmp_path: Path) -> None:
    watch(tmp_path, QUICK)
    names = {path.name for path in (tmp_path / "work").iterdir()}
    assert names == {"a2.html", "softmax.ipynb", "exercise"}


def test_telemetry_is_off_while_onnxruntime_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwork.training import export

    def imported(library: str) -> None:
        raise ImportError(f"{library}, telemetry off: {os.environ.get('ORT_DISABLE_TELEMETRY')}")

    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setattr(export, "import_module", imported)
    with pytest.raises(ImportError, match="telemetry off: 1"):
        export.export_onnx(None, "model.onnx")  # type: ignore[arg-type]
    assert "ORT_DISABLE_TELEMETRY" not in os.environ


@pytest.mark.soak
def test_training_and_exporting_report_to_nobody(tmp_path: Path) -> None:
    watch(tmp_path, TRAINING)
    assert {path.name for path in (tmp_path / "work").iterdir()} == {"run"}


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_no_library_opens_a_connection_either(tmp_path: Path) -> None:
    """The same commands by the system's own count: what C code does, no hook of Python sees."""
    log = tmp_path / "calls"
    for command in (*QUICK, *TRAINING):
        trace = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,bind", "-o", str(log)]
        run(tmp_path, [*trace, sys.executable, "-m", "headwork", *command.split()])
        assert not re.findall("AF_INET.*", log.read_text()), command
    assert not written(tmp_path)
