"""Writes ``setup/locked/LAYER.txt``: the pinned packages of each layer with the digests of their files.

    python setup/lock.py        after constraints.txt or the dependencies in pyproject.toml changed

The versions are those of constraints.txt; the digests are what pip's own index states for every file of that
version, so that any platform finds its own. torch is left out: its files differ between indexes (CPU, CUDA).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request

from environment import LAYERS, LOCKED, ROOT, core_requirements, project
from pip._internal.models.index import PyPI

UNLOCKED = {"torch", "headwork"}
FILE = re.compile(r'<a href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def main() -> None:
    before: set[str] = set()
    for layer in ("core", *LAYERS):
        extras = [
            wanted for extra in LAYERS.get(layer, []) for wanted in project()["optional-dependencies"][extra]
        ]
        pinned = resolve([*core_requirements(), *extras])
        lines = [lock(name, version) for name, version in sorted(pinned.items()) if name not in before]
        before |= set(pinned)
        LOCKED.mkdir(exist_ok=True)
        (LOCKED / f"{layer}.txt").write_text("# Written by setup/lock.py.\n" + "".join(lines))
        print(f"{layer}: {len(lines)} packages")


def resolve(requirements: list[str]) -> dict[str, str]:
    """The versions that pip would install for these requirements, and for what they need."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--report", "-", "-c", str(ROOT / "constraints.txt"), *requirements]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = {entry["metadata"]["name"]: entry["metadata"]["version"] for entry in report["install"]}
    return {canonical(name): version for name, version in found.items() if canonical(name) not in UNLOCKED}


def lock(name: str, version: str) -> str:
    """One requirement with the digest of every file of that version."""
    with urllib.request.urlopen(f"{PyPI.simple_url}/{name}/") as page:
        files = FILE.findall(page.read().decode())
    digests = sorted({digest for file, digest in files if version_of(file, name) == version})
    if not digests:
        raise SystemExit(f"{name} {version}: the index lists no digest")
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in digests)]) + "\n"


def version_of(file: str, name: str) -> str | None:
    """The version in the name of a wheel or of a source archive."""
    stem = file.removesuffix(".tar.gz").removesuffix(".zip")
    found = re.match(r"(.+?)-([^-]+)(-.*\.whl)?$", stem)
    return found[2] if found and canonical(found[1]) == name else None


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
