"""The set-up: what is installed is pinned, and each file is checked against its digest."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKED = sorted((ROOT / "setup" / "locked").glob("*.txt"))


def pins(text: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", text, re.M)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_every_package_is_locked_at_the_version_of_the_constraints() -> None:
    constraints = pins((ROOT / "constraints.txt").read_text())
    locked = {name: version for file in LOCKED for name, version in pins(file.read_text()).items()}
    assert len(locked) > 90
    assert {name: constraints[name] for name in locked} == locked
    assert set(constraints) - set(locked) <= {"torch", "playwright", "pyee", "greenlet"}  # test-real's own


def test_every_locked_package_has_digests() -> None:
    for file in LOCKED:
        for entry in re.split(r"\n(?=\S)", file.read_text().rstrip())[1:]:
            assert re.search(r"\\\n    --hash=sha256:[0-9a-f]{64}", entry), entry


def test_the_build_is_pinned() -> None:
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert all(re.fullmatch(r"setuptools==[\d.]+", wanted) for wanted in system["requires"])
