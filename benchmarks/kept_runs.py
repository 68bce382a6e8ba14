"""The kept runs as the problem book shows them: python -m benchmarks.kept_runs writes its file anew."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILE = ROOT / "headwork" / "problems" / "kept_runs.toml"


def commands() -> dict[str, str]:
    """The command of each run, from the table of results/headline.md."""
    rows = [line.split("|") for line in (ROOT / "results" / "headline.md").read_text().splitlines()]
    return {row[1].strip(): row[2].strip() for row in rows if len(row) > 3 and "headwork" in row[2]}


def text() -> str:
    """Command, test accuracy and curves of each run in results/."""
    lines = ["# Written by python -m benchmarks.kept_runs from results/; do not edit."]
    for name, command in commands().items():
        folder = ROOT / "results" / name
        result = json.loads((folder / "result.json").read_text())
        steps = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        epochs = [step for step in steps if "validation" in step]
        lines += ["", f"[{name}]", f"command = {json.dumps(command)}"]
        lines += [f"test_accuracy = {result['test']['accuracy']:.4f}"]
        if "baseline" in result:
            lines += [f"baseline = {result['baseline']['accuracy']:.4f}"]
        for part in ("training", "validation"):
            for quantity in ("loss", "accuracy"):
                curve = ", ".join(f"{epoch[part][quantity]:.4f}" for epoch in epochs)
                lines += [f'"{part} {quantity}" = [{curve}]']
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
