"""``python -m benchmarks [NAME ...]``: run, write results, exit 1 if a limit is exceeded."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import benchmarks
from benchmarks.report import RESULTS, markdown, write

LONG = ("headline", "nb-svm", "time-to-accuracy")  # take long: called by name, each by itself


def main(wanted: list[str]) -> int:
    files = {m.name.replace("_", "-"): m.name for m in pkgutil.iter_modules(benchmarks.__path__)}
    known = [name for name in files if name not in ("--main--", "report", *LONG)]
    for name in wanted:
        if name not in known:
            print(f"unknown benchmark '{name}'. Known: {', '.join(known)}.", file=sys.stderr)
            return 2
    held = [measure(files[name]) for name in wanted or known]
    print(f"written to {RESULTS.name}/", file=sys.stderr)
    return 0 if all(held) else 1


def measure(name: str) -> bool:
    """Run one file and write its report; one without ``build_report()`` is a command of its own."""
    print(f"{name} ...", file=sys.stderr)
    module = importlib.import_module(f"benchmarks.{name}")
    if not hasattr(module, "build_report"):
        return subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode == 0
    report = module.build_report()
    write(report)
    print(markdown(report))
    return bool(report.held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
