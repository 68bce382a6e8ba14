"""Checkpoints: resumed to the bit, damage noticed, signals obeyed, disks that are full."""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch

from headwork import training
from headwork.errors import InputError
from headwork.training import checkpoints, loop
from headwork.training.checkpoints import latest, step_folders, step_of
from headwork.training.progress import quiet


def model_bytes(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("step", [1, 11, 15])
def test_resumed_to_the_bit_in_mid_epoch_and_between(step, finished, stopped, tmp_path):
    folder = stopped(tmp_path / "run", step)
    lines = []
    result = training.resume(folder, log=lines.append)
    assert any(f"from step {step} of 22" in line for line in lines)
    assert model_bytes(folder) == model_bytes(finished)
    whole = training.Result.read(finished)
    for one, two in zip(whole.metrics, result.metrics, strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {
            k: v for k, v in two.items() if k != "seconds"
        }
    assert result.record["confusion"] == whole.record["confusion"]


def test_only_the_last_few_are_kept(finished):
    assert [step_of(place) for place in step_folders(finished)] == [16, 20, 22]
    assert not list((finished / "checkpoints").glob(".*"))


def test_nothing_in_a_checkpoint_is_a_pickle(finished):
    names = {path.name for path in (finished / "checkpoints").rglob("*") if path.is_file()}
    assert names == {"manifest.json", "state.json", "model.safetensors", "optimiser.safetensors"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(number, code, finished, small, tmp_path, monkeypatch):
    before = loop.Trainer.step

    def step(self, chosen, at):
        if at == 6:
            signal.raise_signal(number)
        return before(self, chosen, at)

    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "step", step)
        with pytest.raises(
            training.InterruptedRunError, match=r"saved at step 7 of 22\. Resume with: headwork resume"
        ) as told:
            training.train(small("model.dropout=0.1"), tmp_path / "run", log=quiet)
    assert told.value.code == code
    assert handlers == [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    training.resume(tmp_path / "run", log=quiet)
    assert model_bytes(tmp_path / "run") == model_bytes(finished)


def test_a_finished_run_is_only_read(finished):
    lines = []
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.name != ".lock"}
    training.resume(finished, log=lines.append)
    assert lines == [f"{finished} is finished already."]
    assert before == {path: path.stat().st_mtime_ns for path in finished.rglob("*") if path.name != ".lock"}


def test_a_run_without_a_checkpoint_begins_again(stopped, finished, tmp_path):
    folder = stopped(tmp_path / "run", 3)
    shutil.rmtree(folder / "checkpoints")
    training.resume(folder, log=quiet)
    assert model_bytes(folder) == model_bytes(finished)


def test_what_changed_since_is_refused(stopped, digits, tmp_path):
    from dataclasses import replace

    folder = stopped(tmp_path / "run", 3)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"learning_rate": 0.003', '"learning_rate": 0.004'))
    assert text != (folder / "config.json").read_text()
    with pytest.raises(InputError, match=r"changed since the checkpoint was written \(learning_rate\)"):
        training.resume(folder, log=quiet)
    (folder / "config.json").write_text(text)
    other = replace(digits, train=digits.validation, validation=digits.train)
    with pytest.raises(InputError, match="is not what the run was trained on"):
        training.resume(folder, log=quiet, data=other)


def test_a_run_from_before_a_setting_existed_or_was_renamed_is_resumed(stopped, finished, tmp_path):
    folder = stopped(tmp_path / "run", 3)
    place, files = latest(folder, quiet)
    state, config = json.loads(files["state.json"]), json.loads((folder / "config.json").read_text())
    del state["config"]["precision"], config["precision"]
    for fields in (state["config"], config):
        fields["batch"] = fields.pop("batch_size")
    shutil.rmtree(place)
    checkpoints.save(folder, 3, {**files, "state.json": json.dumps(state).encode()}, keep=3)
    (folder / "config.json").write_text(json.dumps(config))
    training.resume(folder, log=quiet)
    assert model_bytes(folder) == model_bytes(finished)


def test_a_second_process_in_the_folder_is_refused(stopped, tmp_path):
    import fcntl

    folder = stopped(tmp_path / "run", 3)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        half = folder / "checkpoints" / ".step-00000004.half"
        half.mkdir()
        with pytest.raises(InputError, match="another process trains in it"):
            training.resume(folder, log=quiet)
        assert half.exists()  # the other process writes it
    training.resume(folder, log=quiet)
    assert not half.exists()


def test_places_that_hold_something_are_not_trained_into(finished, small, tmp_path):
    with pytest.raises(InputError, match=r"holds a run already \(step 22\). Resume with: headwork resume"):
        training.train(small(), finished, log=quiet)
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        training.train(small(), tmp_path, log=quiet)
    with pytest.raises(InputError, match="is a file"):
        training.train(small(), tmp_path / "note.txt", log=quiet)


# --- disks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_no_more(error, small, tmp_path, monkeypatch):
    before, count = os.fsync, iter(range(10**6))

    def full(handle):
        if next(count) > 20:
            raise OSError(error, os.strerror(error))
        return before(handle)

    monkeypatch.setattr(os, "fsync", full)
    folder = tmp_path / "run"
    with pytest.raises(InputError) as told:
        training.train(small("save_every=1"), folder, log=quiet)
    message = str(told.value)
    assert "\n" not in message
    assert os.strerror(error) in message
    kept = step_folders(folder)
    assert f"The last good checkpoint is step {step_of(kept[-1])}, untouched" in message
    monkeypatch.undo()
    assert latest(folder, quiet)[0] == kept[-1]
    assert not [path for path in (folder / "checkpoints").iterdir() if path not in kept]


def test_a_folder_that_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*Not a directory"):
        training.train(small(), tmp_path / "file" / "run", log=quiet)


# --- damage ---------------------------------------------------------------------------------------


def damaged_at(folder: Path, name: str, change) -> None:
    """One file of the newest checkpoint changed: the one before it is used, and that is said."""
    newest, before = reversed(step_folders(folder)[-2:])
    file = newest / name
    good = file.read_bytes()
    file.write_bytes(change(good))
    lines: list[str] = []
    found = latest(folder, lines.append, repair=True)
    assert found is not None
    assert found[0] == before, (name, lines)
    assert len(lines) == 1, lines
    assert "is damaged and not used" in lines[0]
    aside = next((folder / "checkpoints").glob("damaged-*"))
    (aside / name).write_bytes(good)
    aside.rename(newest)
    assert latest(folder, quiet)[0] == newest


def flips(folder: Path, count: int, seed: int) -> None:
    draw = random.Random(seed)
    files = list(step_folders(folder)[-1].iterdir())
    for number in range(count):
        # By turns, for else nearly all would fall into the tensors.
        file = files[number % len(files)]
        at, bit = draw.randrange(file.stat().st_size), 1 << draw.randrange(8)
        damaged_at(
            folder,
            file.name,
            lambda good, at=at, bit=bit: good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :],
        )


def truncations(folder: Path, most: int) -> None:
    for file in sorted(step_folders(folder)[-1].iterdir()):
        size = file.stat().st_size
        for at in sorted({int(k * (size - 1) / (most - 1)) for k in range(most)}):
            damaged_at(folder, file.name, lambda good, at=at: good[:at])


@pytest.fixture
def copied(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def test_a_sample_of_bit_flips(copied):
    flips(copied, 48, seed=0)


def test_a_sample_of_truncations(copied):
    truncations(copied, 12)


def test_a_missing_file_and_a_missing_manifest(copied):
    newest, before = reversed(step_folders(copied)[-2:])
    (newest / "manifest.json").unlink()
    (before / "optimiser.safetensors").unlink()
    lines = []
    assert step_of(latest(copied, lines.append)[0]) == 16
    assert len(lines) == 2


def test_when_none_is_whole_it_says_so(copied):
    for place in step_folders(copied):
        (place / "state.json").write_bytes(b"{}")
    with pytest.raises(InputError, match="none of its 3 checkpoints is intact"):
        latest(copied, quiet)


def test_who_reads_changes_nothing(stopped, tmp_path):
    folder = stopped(tmp_path / "run", 15)
    (step_folders(folder)[-1] / "state.json").write_bytes(b"{}")
    (folder / "checkpoints" / ".step-00000016.half").mkdir()
    before = sorted(folder.rglob("*"))
    lines: list[str] = []
    training.load_model(folder, log=lines.append)
    assert "step 15 is damaged and not used" in lines[0]
    assert "this is its model at step 12" in lines[1]
    assert sorted(folder.rglob("*")) == before


def test_a_checkpoint_that_vanishes_while_it_is_read_is_not_damaged(copied, monkeypatch):
    """The training process dropped it, as it wrote a newer one."""
    newest = step_folders(copied)[-1]
    before, read = checkpoints._read_verified, []

    def meanwhile(place):
        read.append(step_of(place))
        if len(read) == 1:
            shutil.copytree(place, place.with_name("step-00000023"))
            shutil.rmtree(place)
        return before(place)

    monkeypatch.setattr(checkpoints, "_read_verified", meanwhile)
    assert latest(copied, pytest.fail)[0] == newest.with_name("step-00000023")
    assert read == [22, 23]


def test_what_is_dropped_goes_in_one_move(copied, monkeypatch):
    seen: list[str] = []
    monkeypatch.setattr(shutil, "rmtree", lambda place, **_: seen.append(place.name))
    files = {
        path.name: path.read_bytes() for path in step_folders(copied)[-1].iterdir() if path.suffix != ".json"
    }
    checkpoints.save(copied, 24, files, keep=3)
    assert ".step-00000016.old" in seen
    assert [step_of(place) for place in step_folders(copied)] == [20, 22, 24]


def test_a_damaged_one_is_passed_over_and_the_run_ends_right(stopped, finished, tmp_path):
    folder = stopped(tmp_path / "run", 15)
    newest = step_folders(folder)[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    lines = []
    training.resume(folder, log=lines.append)
    assert any("step 15 is damaged" in line for line in lines)
    assert any("from step 12 of 22" in line for line in lines)
    assert model_bytes(folder) == model_bytes(finished)


@pytest.mark.soak
def test_five_hundred_bit_flips(copied):
    flips(copied, 500, seed=1)


@pytest.mark.soak
def test_four_thousand_truncations(copied):
    truncations(copied, 1000)


# --- kills ----------------------------------------------------------------------------------------


def killed(script, folder: Path, trials: int, seed: int) -> None:
    result = script("killed_runs.py", folder, trials, seed, timeout=7200)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["resumed"] == told["identical"] == trials, (told, result.stderr)
    assert trials < 50 or len(set(told["steps"])) > 5


def test_a_sample_of_kills(script, tmp_path):
    killed(script, tmp_path, 3, seed=0)


@pytest.mark.soak
def test_a_hundred_kills(script, tmp_path):
    killed(script, tmp_path, 100, seed=1)


@pytest.mark.soak
def test_a_clock_that_goes_backwards(finished, stopped, tmp_path, monkeypatch):
    seconds = itertools.count(10**9, -60)
    for clock in ("time", "monotonic"):
        monkeypatch.setattr(time, clock, lambda: float(next(seconds)))
    folder = stopped(tmp_path / "run", 11)
    training.resume(folder, log=quiet)
    assert model_bytes(folder) == model_bytes(finished)


def test_threads_and_versions_that_differ_are_told(stopped, tmp_path):
    folder = stopped(tmp_path / "run", 3)
    torch.set_num_threads(2)
    lines = []
    try:
        training.resume(folder, log=lines.append)
    finally:
        torch.set_num_threads(1)
    assert any("set OMP_NUM_THREADS=1" in line for line in lines)


def test_a_checkpoint_that_links_to_nothing_is_damaged(copied):
    newest = step_folders(copied)[-1]
    shutil.rmtree(newest)
    newest.symlink_to(copied / "nowhere")
    lines = []
    assert step_of(latest(copied, lines.append)[0]) == 20
    assert "a link, which is not followed" in lines[0]
