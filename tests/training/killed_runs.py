"""Runs killed at random instants, resumed, and compared to the bit with one that was left alone.

    python killed_runs.py FOLDER TRIALS SEED

A script of its own: it forks before torch has started any thread, so a trial costs no import. Prints one line
of JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import torch

from headwork import training
from headwork.errors import HeadworkError
from headwork.training.progress import quiet
from headwork.training.run_folders import CONFIG, MODEL_FOLDER

SMALL = "model.width=8 model.hidden=8 model.depth=1 model.heads=2 model.dropout=0.1 epochs=2 batch_size=128"
SETTINGS = [*SMALL.split(), "save_every=2", "augmentation.erase=0.3", "augmentation.shift=1"]


def run() -> training.VisionRunConfig:
    return training.changed(training.vision("digits"), SETTINGS)


def carry_on(folder: Path) -> None:
    if (folder / CONFIG).exists():
        training.resume(folder, log=quiet)
    else:
        training.train(run(), folder, log=quiet)


def child(folder: Path) -> int:
    number = os.fork()
    if number:
        return number
    try:
        carry_on(folder)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ended(number: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0


def parameters(folder: Path) -> bytes:
    return (folder / MODEL_FOLDER / "model.safetensors").read_bytes()


def main(place: Path, trials: int, seed: int) -> None:
    torch.set_num_threads(1)
    carry_on(place / "whole")  # here, so that every import is done before the forks
    begun = time.monotonic()
    if not ended(child(place / "again")):
        sys.exit("the run that nobody killed failed")
    lasts = time.monotonic() - begun
    whole, draw = parameters(place / "whole"), random.Random(seed)
    if parameters(place / "again") != whole:
        sys.exit("two runs that nobody killed differ")
    told = {"trials": trials, "resumed": 0, "identical": 0, "steps": [], "lasts": round(lasts, 2)}
    for trial in range(trials):
        folder = place / f"killed-{trial}"
        number = child(folder)
        time.sleep(draw.uniform(0, 0.95 * lasts))
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
        kept = sorted(path.name for path in (folder / "checkpoints").glob("step-*"))
        told["steps"].append(int(kept[-1][5:]) if kept else -1)
        told["resumed"] += ended(child(folder))
        try:
            told["identical"] += parameters(folder) == whole
        except (OSError, HeadworkError):
            traceback.print_exc()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
