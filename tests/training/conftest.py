"""Tiny runs on the digits, trained once for many tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from headwork import training
from headwork.data import load_images
from headwork.inspection.run_report import write_report
from headwork.training import loop
from headwork.training.progress import quiet

HERE = Path(__file__).parent
SMALL = [
    "model.width=8",
    "model.hidden=8",
    "model.depth=1",
    "model.heads=2",
    "batch_size=128",
    "epochs=2",
    "save_every=4",
    "augmentation.shift=1",
    "threads=0",
]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """So small a model is slower on two threads, and much slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small() -> Any:
    """A small run on the digits; further settings change it."""

    def make(*settings: str, model: str = "transformer") -> training.VisionRunConfig:
        chosen = SMALL if model == "transformer" else ["batch_size=128", "epochs=2", "model.width=4"]
        return training.changed(training.vision("digits", model), [*chosen, *settings])

    return make


@pytest.fixture(scope="session")
def digits() -> Any:
    return load_images("digits")


@pytest.fixture(scope="session")
def finished(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run: read it, do not change it."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    write_report(training.train(small("model.dropout=0.1"), folder, log=quiet))
    return folder


@pytest.fixture(scope="session")
def script() -> Any:
    """Run one of this folder's scripts in a process of its own."""

    def run(name: str, *arguments: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
        command = [sys.executable, str(HERE / name), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def stopped(small: Any) -> Any:
    """The finished run again, but stopped after some steps."""

    def stop(folder: Path, step: int) -> Path:
        def taken(self: loop.Trainer, chosen: Any, at: int) -> tuple[float, float]:
            if at == step - 1:
                signal.raise_signal(signal.SIGTERM)
            return before(self, chosen, at)

        before = loop.Trainer.step
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop.Trainer, "step", taken)
            with pytest.raises(training.InterruptedRunError):
                training.train(small("model.dropout=0.1"), folder, log=quiet)
        return folder

    return stop
