"""Time to 90% test accuracy on Fashion-MNIST: ours, and vit-pytorch's model with our recipe and another.

    python -m benchmarks.time_to_accuracy              on a quiet machine, half an hour and more
    python -m benchmarks.time_to_accuracy --times 2    the peers have less patience
    python -m benchmarks.time_to_accuracy --data digits --wanted 0.5    a rehearsal, written nowhere

All have one shape: patch 4, 6 layers, 4 heads, width 64, hidden 128. Ours trains with the native kernel, and
once more with the fused one. With our recipe (Muon for the matrices of blocks, schedule, label smoothing,
augmentation, batches) vit-pytorch's model differs from ours by its random start and small parts, so these
rows show what the built heads bring. The customary recipe has the rate, batch, schedule and augmentation of
s-chh/PyTorch-Scratch-Vision-Transformer-ViT on GitHub: AdamW at 5e-4, batches of 128, warm-up over 10 and
cosine over 200 epochs, crops after padding by 2, flips; weight decay 0.05, gradients clipped at 1, no
dropout, as in ours. So the last two rows show what the recipe brings. All are compiled and train on the same
images, epoch by epoch in turn, so that other work on the machine delays all of them. A peer is stopped once
it has had five times our time. Compiling is counted; testing is not. Nothing is chosen by the test set: it
only stops the clock, after whole epochs. Needs ``pip install --no-deps vit-pytorch einops``.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from benchmarks.models import vit_pytorch
from benchmarks.report import RESULTS, machine
from headwork.data.fetching import to_stderr
from headwork.documents import Table
from headwork.files import write_atomic
from headwork.libc import keep_freed_memory
from headwork.training import changed, vision
from headwork.training.distributed import DistributedContext
from headwork.training.evaluation import evaluate
from headwork.training.loop import Trainer
from headwork.training.preparation import PreparedRun, prepare
from headwork.training.progress import format_duration

CUSTOMARY = [
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


def peer(prepared: PreparedRun) -> nn.Module:
    """vit-pytorch's model for these images; its layers under the name by which Muon knows blocks."""
    torch.manual_seed(prepared.run.seed)
    config: Any = prepared.run.model  # type: ignore[attr-defined]
    model: Any = vit_pytorch(
        image=config.image_size, channels=config.channels, patch=config.patch_size, classes=config.classes
    )
    model.transformer.blocks = model.transformer._modules.pop("layers")
    model.transformer.__dict__["layers"] = model.transformer.blocks
    model.config = SimpleNamespace(classes=config.classes)  # what evaluate asks for
    return model  # type: ignore[no-any-return]


@dataclass
class Contender:
    """A model with its recipe, and how far it has come."""

    who: str
    prepared: PreparedRun
    model: Any
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    seconds: float = 0.0
    accuracy: float = 0.0

    def epochs(self) -> Iterator[None]:
        """Train epoch by epoch; the clock runs in steps, not while the test set is evaluated."""
        run, test, step = self.prepared.run, self.prepared.read_test(), 0
        trainer = Trainer(self.prepared, self.model, DistributedContext(), to_stderr)
        for epoch in range(run.epochs):
            begun = time.monotonic()
            for chosen in self.prepared.training.shuffled_batches(run.batch_size, run.seed, epoch):
                trainer.step(chosen, step)
                step += 1
            self.seconds += time.monotonic() - begun
            self.accuracy = evaluate(trainer.model, test, 500).accuracy
            self.rows.append((self.who, epoch + 1, format_duration(self.seconds), f"{self.accuracy:.2%}"))
            to_stderr(" ".join(map(str, self.rows[-1])))
            yield


def race(contenders: list[Contender], wanted: float, times: float) -> None:
    """One epoch each in turn, until all are there, at the end of their recipe, or out of time."""
    ours = contenders[0]
    racing = [(contender, contender.epochs()) for contender in contenders]
    while racing:
        for entry in list(racing):
            contender, epochs = entry
            most = times * ours.seconds if ours.accuracy >= wanted else math.inf
            if contender.seconds >= most or next(epochs, entry) is entry or contender.accuracy >= wanted:
                racing.remove(entry)


def summary(contenders: list[Contender], wanted: float) -> list[tuple[str, ...]]:
    """For each: when it was there, or where it ended, and how its time compares with ours."""
    rows = []
    for one in contenders:
        taken, ratio = format_duration(one.seconds), f"{one.seconds / contenders[0].seconds:.1f}"
        ended, done = f"{wanted:.0%} after {taken}", f"{len(one.rows)} of {one.prepared.run.epochs}"
        if one.accuracy < wanted and len(one.rows) == one.prepared.run.epochs:
            ended, ratio = f"not by the end, {taken}", "never"
        elif one.accuracy < wanted:
            ended, ratio = f"stopped after {taken}", f"over {ratio}"
        per_epoch = f"{one.seconds / len(one.rows):.1f} s"
        rows.append((one.who, ended, done, f"{one.accuracy:.2%}", ratio, per_epoch))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="fashion-mnist", help="another set is only a rehearsal")
    parser.add_argument("--wanted", type=float, default=0.90, help="the accuracy that stops the clock")
    parser.add_argument("--times", type=float, default=5.0, help="how many times our time a peer may have")
    chosen = parser.parse_args()
    ours = prepare(vision(chosen.data), log=to_stderr)
    customary = prepare(changed(vision(chosen.data), CUSTOMARY), log=to_stderr)
    fused = prepare(changed(vision(chosen.data), ["model.backend=fused"]), log=to_stderr)
    contenders = [
        Contender("ours", ours, ours.new_model()),
        Contender("ours, fused kernel", fused, fused.new_model()),
        Contender("vit-pytorch's model, our recipe", ours, peer(ours)),
        Contender("vit-pytorch's model, customary recipe", customary, peer(customary)),
    ]
    with keep_freed_memory():  # as training does
        race(contenders, chosen.wanted, chosen.times)
    load = f"{os.getloadavg()[2]:.1f} processes wanted its {os.cpu_count()} cores in the last 15 minutes."
    columns = ("model and recipe", "result", "epochs", "test accuracy", "time, ours = 1", "time per epoch")
    threads = f"threads: {torch.get_num_threads()}"
    notes = [
        f"Machine: {machine()}; vit-pytorch {version('vit-pytorch')}; {threads}. {load}",
        (__doc__ or "").strip(),
    ]
    title = f"Time to {chosen.wanted:.0%} test accuracy"
    table = Table(title, columns, summary(contenders, chosen.wanted), notes)
    curves = Table(
        "Epoch by epoch",
        ("model and recipe", "epoch", "time", "test accuracy"),
        [row for one in contenders for row in one.rows],
    )
    print(table.to_text())
    if chosen.data == "fashion-mnist":
        write_atomic(RESULTS / "time-to-accuracy.md", f"{table.to_markdown()}\n{curves.to_markdown()}")
    return 0 if contenders[0].accuracy >= chosen.wanted else 1


if __name__ == "__main__":
    sys.exit(main())
