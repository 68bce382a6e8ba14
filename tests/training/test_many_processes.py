"""Many processes: the same numbers as one; a killed worker is restarted and the run ends right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from headwork import training
from headwork.errors import InputError
from headwork.training import loop, runs
from headwork.training.distributed import DistributedContext
from headwork.training.progress import quiet

HERE = Path(__file__).parent


def test_two_processes_equal_one(script, tmp_path):
    result = script("two_processes.py", tmp_path)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 1e-9
    # 100 steps, and the same figures for every epoch, summed over both.
    told = [
        [
            line
            for line in map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
            if "ended" in line
        ]
        for name in ("by-1", "by-2")
    ]
    assert told[0][-1]["step"] == 100
    for one, two in zip(*told, strict=True):
        assert two["training"] == pytest.approx(one["training"])
        assert two["validation"] == pytest.approx(one["validation"])


def test_another_number_of_processes_is_refused_or_accepted(stopped, tmp_path):
    folder = stopped(tmp_path / "run", 7)
    place = folder / "checkpoints" / "step-00000007"
    rewrite(place, {**json.loads((place / "state.json").read_text()), "processes": 2})
    with pytest.raises(InputError, match=r"by 2 process\(es\), now there are 1\..*--other-processes"):
        training.resume(folder, log=quiet)
    lines: list[str] = []
    training.resume(folder, log=lines.append, other_processes=True)
    assert any("by 2 process(es), now there are 1" in line for line in lines)
    assert (folder / "result.json").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_stopped_under_torchrun_the_first_alone_says_how_to_go_on(rank, small, tmp_path, monkeypatch):
    class One(DistributedContext):
        """One of two processes, without the other."""

        def wrap_model(self, model):
            return model

        def sum_numbers(self, *numbers):
            return list(numbers)

        def broadcast(self, files):
            return files

        def barrier(self):
            pass

    monkeypatch.setattr(runs, "process_group", lambda: nullcontext(One(rank, 2)))
    monkeypatch.setattr(loop.Trainer, "step", lambda *_: signal.raise_signal(signal.SIGTERM) or (0.0, 0.0))
    folder = tmp_path / "run"
    with pytest.raises(training.InterruptedRunError) as told:
        training.train(small(), folder, log=quiet)
    command = f"torchrun --nproc-per-node 2 -m headwork resume {folder}"
    assert str(told.value) == ("" if rank else f"stopped and saved at step 1 of 22. Resume with: {command}")
    if rank == 0:
        with pytest.raises(
            InputError, match=r"holds a run already .* Resume with: torchrun --nproc-per-node 2"
        ):
            training.train(small(), folder, log=quiet)


def rewrite(place: Path, state: object) -> None:
    """A checkpoint with another state, its manifest right."""
    import shutil

    from headwork.model_files import to_json_bytes, write_folder

    files = {path.name: path.read_bytes() for path in place.iterdir() if path.name != "manifest.json"}
    shutil.rmtree(place)
    write_folder(place, {**files, "state.json": to_json_bytes(state)})


@pytest.mark.soak
def test_a_worker_killed_under_torchrun(tmp_path):
    size = "model.width=8 model.hidden=8 model.depth=2 model.heads=2 precision=float64 batch_size=129"
    size += " epochs=10 save_every=3"
    settings = [part for setting in size.split() for part in ("--set", setting)]
    folders = [tmp_path / "killed", tmp_path / "whole"]
    for folder in folders:
        torchrun = [
            str(Path(sys.executable).parent / "torchrun"),
            "--standalone",
            "--nproc-per-node",
            "2",
            "--max-restarts",
        ]
        train = [str(HERE / "command.py"), "train", "vision", "--data", "digits", "--out", str(folder)]
        command = [*torchrun, "2", *train, *settings]
        with (tmp_path / f"{folder.name}.log").open("w") as log:
            agent = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            if folder.name == "killed":
                while agent.poll() is None and not (folder / "checkpoints" / "step-00000030").exists():
                    time.sleep(0.02)
                workers = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
                os.kill(int(workers[-1]), signal.SIGKILL)
            assert agent.wait(600) == 0, (tmp_path / f"{folder.name}.log").read_text()
    assert "restarted by torchrun" in (tmp_path / "killed.log").read_text()
    parameters = [(folder / "model" / "model.safetensors").read_bytes() for folder in folders]
    assert parameters[0] == parameters[1]
