"""The input path's share of a training step: batch, augmentation, normalisation (results/input_path.md).

python -m benchmarks.input_path            digits, Fashion-MNIST, and Rotten Tomatoes where it is cached
python -m benchmarks.input_path --steps 60
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import torch

from headwork import training
from headwork.data import CATALOG
from headwork.data.fetching import cached_variant, to_stderr
from headwork.documents import Table
from headwork.files import write_atomic
from headwork.training.distributed import DistributedContext
from headwork.training.loop import Trainer
from headwork.training.preparation import prepare

RESULTS = Path(__file__).parent.parent / "results" / "input_path.md"
MOST = 0.05


def measure(run: training.RunConfig, steps: int) -> tuple[float, float]:
    """Seconds of the input path and of the whole step, as the medians over some steps."""
    prepared = prepare(run, log=to_stderr)
    trainer = Trainer(prepared, prepared.new_model(), DistributedContext(), to_stderr)
    order = prepared.training.shuffled_batches(run.batch_size, run.seed, 0)[: steps + 3]
    inputs, whole = [], []
    for number, chosen in enumerate(order):
        begun = time.perf_counter()
        prepared.training.batch(chosen, augmentation_seed=(run.seed, number))
        read = time.perf_counter()
        trainer.step(chosen, number)  # which takes its batch once more
        ended = time.perf_counter()
        inputs.append(read - begun)
        whole.append(ended - read)
    # The first steps compile.
    return sorted(inputs[3:])[len(inputs[3:]) // 2], sorted(whole[3:])[len(whole[3:]) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    runs = {"vision, digits": training.vision("digits"), "vision, fashion-mnist": training.vision()}
    if cached_variant(CATALOG["rotten-tomatoes"]):
        runs["text, rotten-tomatoes"] = training.text("rotten-tomatoes")
    rows = []
    for name, run in runs.items():
        inputs, whole = measure(run, steps)
        share = inputs / whole
        rows.append((name, f"{inputs * 1000:.2f}", f"{whole * 1000:.1f}", f"{share:.1%}", share < MOST))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    notes = [
        f"Medians of {steps} steps; torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{platform.machine()}, load {load:.1f} at the end. "
        f"Command: python -m benchmarks.input_path --steps {steps}"
    ]
    table = Table("The input path", ("recipe", "input ms", "step ms", "share", "under 5%"), rows, notes)
    print(table.to_text())
    write_atomic(RESULTS, table.to_markdown())


if __name__ == "__main__":
    main()
