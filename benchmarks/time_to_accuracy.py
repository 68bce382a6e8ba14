"""Time to 90% test accuracy on Fashion-MNIST: our recipe, and a peer's with vit-pytorch's model.

    python -m benchmarks.time_to_accuracy        six times our time to 90%: about 25 minutes

The peer's recipe has the rate, batch, schedule and augmentation of
s-chh/PyTorch-Scratch-Vision-Transformer-ViT on GitHub: AdamW at 5e-4, batches of 128, warm-up over 10 and
cosine over 200 epochs, crops after padding by 2, flips. The rest is as in ours: weight decay 0.05, gradients
clipped at 1, no dropout, 54,000 images. It is stopped once it has had five times our time. Both are compiled,
and compiling is counted; testing is not. Nothing is chosen by the test set: it only stops the clock, after
whole epochs. Needs ``pip install --no-deps vit-pytorch einops``.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch

from benchmarks.models import vit_pytorch
from benchmarks.report import RESULTS, machine
from headwork.data.fetching import to_stderr
from headwork.files import write_atomic
from headwork.pages import Table
from headwork.training import changed, vision
from headwork.training.distributed import Group
from headwork.training.evaluation import evaluate
from headwork.training.loop import Session
from headwork.training.preparation import PreparedRun, prepare
from headwork.training.progress import clock

WANTED, TIMES = 0.90, 5.0
PEER = [
    "epochs=200",
    "batch_size=128",
    "optimiser=adamw",
    "learning_rate=5e-4",
    "warm_up=0.05",
    "label_smoothing=0",
    "augmentation.flip=true",
    "augmentation.shift=2",
    "augmentation.erase=0",
]


def train(prepared: PreparedRun, model: Any) -> Iterator[tuple[int, float, float]]:
    """After each epoch: its number, the seconds spent in steps so far, and the accuracy on the test set."""
    session, test = Session(prepared, model, Group(), to_stderr), prepared.read_test()
    run, seconds, step = prepared.run, 0.0, 0
    for epoch in range(run.epochs):
        begun = time.monotonic()
        for chosen in prepared.training.order(run.batch_size, run.seed, epoch):
            session.step(chosen, step)
            step += 1
        seconds += time.monotonic() - begun
        yield epoch + 1, seconds, evaluate(session.model, test, 500).accuracy


def until(
    who: str, epochs: Iterator[tuple[int, float, float]], rows: list[Any], most: float
) -> tuple[float, bool]:
    """Train until the accuracy is reached or the time is over: the seconds, and whether it was reached."""
    seconds = accuracy = 0.0
    for epoch, seconds, accuracy in epochs:
        rows.append((who, epoch, clock(seconds), f"{accuracy:.2%}"))
        to_stderr(" ".join(map(str, rows[-1])))
        if accuracy >= WANTED or seconds >= most:
            break
    return seconds, accuracy >= WANTED


def main() -> int:
    ours, theirs = prepare(vision(), log=to_stderr), prepare(changed(vision(), PEER), log=to_stderr)
    rows: list[tuple[Any, ...]] = []
    reached, there = until("ours", train(ours, ours.new_model()), rows, math.inf)
    if not there:
        print(f"Ours did not reach {WANTED:.0%}: there is nothing to compare.", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    who = "vit-pytorch's model, AdamW 5e-4"
    taken, there = until(who, train(theirs, vit_pytorch()), rows, TIMES * reached)
    ended = f"got there after {clock(taken)}" if there else f"was stopped after {clock(taken)}, not there"
    notes = [
        f"Ours took {clock(reached)}; the peer {ended}.",
        f"Machine: {machine()}; vit-pytorch {version('vit-pytorch')}.",
        (__doc__ or "").strip(),
    ]
    table = Table(
        f"Time to {WANTED:.0%} test accuracy", ("who", "epoch", "time", "test accuracy"), rows, notes
    )
    print(table.to_text())
    write_atomic(RESULTS / "time-to-accuracy.md", table.to_markdown())
    return 1 if there or taken < TIMES * reached else 0


if __name__ == "__main__":
    sys.exit(main())
