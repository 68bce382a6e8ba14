"""Time to 90% test accuracy on Fashion-MNIST: our recipe, and a peer's with vit-pytorch's model of the same shape.

    python -m benchmarks.time_to_accuracy        about six times as long as one run of 10 epochs

The peer trains as people do with it: AdamW at 5e-4, batches of 128, warm-up and cosine over 200 epochs, crops and
flips. It is stopped once it has had five times our time. Both are compiled, both are timed without the test
measurements, which nothing is chosen by. Needs ``pip install --no-deps vit-pytorch einops``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.models import vit_pytorch
from benchmarks.report import RESULTS, machine
from headwork.files import write_whole
from headwork.pages import Table
from headwork.training import changed, vision
from headwork.training.distributed import Group
from headwork.training.examples import Prepared, prepare
from headwork.training.loop import Session, measured
from headwork.training.progress import clock, tell

WANTED, TIMES = 0.90, 5.0
PEER = [
    "epochs=200", "batch=128", "optimiser=adamw", "learning_rate=5e-4", "warm_up=0.05", "smoothing=0", "start=random",
    "augmentation.flip=true", "augmentation.shift=2", "augmentation.erase=0",
]  # fmt: skip


def trained(prepared: Prepared, model: Any) -> Iterator[tuple[int, float, float]]:
    """After each epoch: its number, the seconds spent in steps so far, and the accuracy on the test set."""
    session, test = Session(prepared, model, Group(), tell), prepared.read_test()
    run, seconds, step = prepared.run, 0.0, 0
    for epoch in range(run.epochs):
        begun = time.monotonic()
        for chosen in prepared.training.order(run.batch, run.seed, epoch):
            session.step(chosen, step)
            step += 1
        seconds += time.monotonic() - begun
        yield epoch + 1, seconds, measured(session.model, test, 500, session.processes)[1]


def main() -> int:
    ours, theirs = prepare(vision(), say=tell), prepare(changed(vision(), PEER), say=tell)
    rows: list[tuple[Any, ...]] = []
    reached = 0.0
    for epoch, seconds, accuracy in trained(ours, ours.model()):
        rows.append(("ours", epoch, clock(seconds), f"{accuracy:.2%}"))
        tell(" ".join(map(str, rows[-1])))
        reached = seconds
        if accuracy >= WANTED:
            break
    else:
        rows.append(("ours", "", "", f"never reached {WANTED:.0%}"))
    torch.manual_seed(0)
    held = False
    for epoch, seconds, accuracy in trained(theirs, vit_pytorch()):
        rows.append(("vit-pytorch's model, AdamW 5e-4", epoch, clock(seconds), f"{accuracy:.2%}"))
        tell(" ".join(map(str, rows[-1])))
        held = seconds >= TIMES * reached
        if accuracy >= WANTED or held:
            break
    ended = f"stopped after {TIMES:g} times our time, not there" if held else "there before that"
    notes = [f"Ours took {clock(reached)}; the peer was {ended}.", f"Machine: {machine()}.", (__doc__ or "").strip()]
    table = Table(f"Time to {WANTED:.0%} test accuracy", ("who", "epoch", "time", "test accuracy"), rows, notes)
    print(table.to_text())
    write_whole(RESULTS / "time-to-accuracy.md", table.to_markdown())
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
