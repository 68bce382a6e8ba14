"""Imports point downwards only, and the core loads without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = ("readings", "problems", "construct", "numbers", "sizes", "mechanisms", "documents")


def test_imports_point_downwards_only() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]


@pytest.mark.parametrize(
    "rooms",
    [
        ", ".join(f"headwork.{room}" for room in CORE),
        "headwork",
        "headwork.cli.app as app; app.register()",
    ],
)
def test_the_core_loads_without_torch(rooms: str) -> None:
    code = f"import sys; import {rooms}; print(*[m for m in ('torch', 'matplotlib') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "torch" not in done.stdout.split()


def test_explaining_exactly_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from headwork.readings import explain\n"
        "trace = explain('self-attention', tokens='1 2; 2 0', beta=1, exact=True)\n"
        "trace.to_text(), trace.to_json(), trace.to_latex()\n"
        "print(trace.cell('scores', 0, 1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "S[0,1] = 1*2 + 2*0 = 2\n", done.stderr[-2000:]
