"""The runs that people judge a training tool by: repeated by name, kept in results/.

    python -m benchmarks.headline                 what there is, and what each reached
    python -m benchmarks.headline vision-10-0     train it (or resume it) in runs/, and keep its figures

Every run is one command of ``headwork``; nothing else decides the result. The test set is used once, at the
end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, machine
from headwork.data.fetching import to_stderr
from headwork.documents import Table, save_figure
from headwork.errors import unknown_name
from headwork.files import write_atomic
from headwork.inspection.run_comparison import compare_curves
from headwork.inspection.run_report import head_figure
from headwork.training.preparation import prepare
from headwork.training.progress import format_duration
from headwork.training.run_folders import load_run_config

COMMANDS = {
    **{f"vision-10-{seed}": f"train vision --epochs 10 --set seed={seed}" for seed in range(3)},
    "vision-30": "train vision --epochs 30",
    "vision-50": "train vision --epochs 50",
    "imdb": "train text --data imdb --set validation=0",
    "imdb-ngrams": "train text --data imdb --ngrams",
    "imdb-minilm": "train text --data imdb --encoder minilm --epochs 1 --set max_length=256",
    "rotten-tomatoes-minilm": "train text --data rotten-tomatoes --encoder minilm",
}
SEEDS = [name for name in COMMANDS if name.startswith("vision-10-")]
KEPT = ("config.json", "data.json", "metrics.jsonl", "result.json", "curves.png", "curves.svg")
RUNS = Path("runs")


def train_and_keep(name: str) -> int:
    """The run from its beginning, or from where it was stopped; the exit code of its command."""
    folder, kept = RUNS / name, RESULTS / name
    if (folder / "report.html").exists():
        print(f"{folder} is finished. Remove it to train it again.", file=sys.stderr)
    else:
        begun = (folder / "config.json").exists()
        command = ["resume", str(folder)] if begun else [*COMMANDS[name].split(), "--out", str(folder)]
        code = subprocess.run([sys.executable, "-m", "headwork", *command], check=False).returncode
        if code:
            return code
        (kept / "machine.txt").unlink(missing_ok=True)
    if not (kept / "machine.txt").exists():
        write_atomic(kept / "machine.txt", machine() + "\n")
    for file in KEPT:
        shutil.copyfile(folder / file, kept / file)
    if name.startswith("vision"):
        run = load_run_config(folder)
        picture = head_figure(run, folder, prepare(run, log=to_stderr).data)
        save_figure(picture, kept / "heads.png")
    return 0


def finished() -> dict[str, dict[str, Any]]:
    kept = {name: RESULTS / name / "result.json" for name in COMMANDS}
    return {name: json.loads(file.read_text()) for name, file in kept.items() if file.exists()}


def table(results: dict[str, dict[str, Any]]) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, record in results.items():
        other = record.get("baseline")
        rows.append(
            (
                name,
                f"headwork {COMMANDS[name]}",
                f"{record['parameters']:,}",
                f"{format_duration(record['seconds'])}, {_processor(name)}, threads: {record['threads']}",
                f"{record['validation']['accuracy']:.2%}" if record["validation"] else "none",
                f"{record['test']['accuracy']:.2%}",
                f"{other['name']} {other['accuracy']:.2%}" if other else "",
            )
        )
    notes = [
        "Time is that of all steps and validations, without the test set, which was used once, at the end."
    ]
    seeds = [100 * results[name]["test"]["accuracy"] for name in SEEDS if name in results]
    if len(seeds) == len(SEEDS):
        notes.append(
            f"10 epochs, {len(seeds)} seeds: {statistics.mean(seeds):.2f}% on the test set, from "
            f"{min(seeds):.2f} to {max(seeds):.2f}, standard deviation {statistics.stdev(seeds):.2f}."
        )
    columns = ("run", "command", "parameters", "time", "validation", "test", "baseline")
    return Table("Headline runs", columns, rows, notes)


def _processor(name: str) -> str:
    """The instructions that the run's processors had, such as AVX2."""
    return (RESULTS / name / "machine.txt").read_text().split(", ")[1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    for name in parser.parse_args().names:
        if name not in COMMANDS:
            print(unknown_name("headline run", name, COMMANDS), file=sys.stderr)
            return 2
        code = train_and_keep(name)
        if code:
            return code
    summary = table(finished())
    print(summary.to_text())
    write_atomic(RESULTS / "headline.md", summary.to_markdown())
    settings = [RESULTS / name for name in ("vision-10-0", "vision-30", "vision-50")]
    if all((folder / "result.json").exists() for folder in settings):
        compare_curves(settings, RESULTS / "vision-10-30-50.svg")
        compare_curves(settings, RESULTS / "vision-10-30-50.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
