"""The loop: its loss, its rate, that it learns, that it stops where numbers end."""

from __future__ import annotations

import json
import platform

import numpy as np
import pytest
import torch

from headwork import training
from headwork.errors import TooLarge
from headwork.libc import keep_freed_memory
from headwork.mechanisms import native
from headwork.training import loop
from headwork.training.checkpoints import step_folders, step_of
from headwork.training.preparation import prepare
from headwork.training.progress import Progress, quiet


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torch_s(smoothing):
    scores, labels = torch.randn(9, 5, dtype=torch.float64), torch.randint(5, (9,))
    smoothed, plain, correct = loop.losses(scores, labels, smoothing)
    entropy = torch.nn.functional.cross_entropy
    torch.testing.assert_close(smoothed, entropy(scores, labels, label_smoothing=smoothing, reduction="none"))
    torch.testing.assert_close(plain, entropy(scores, labels, reduction="none"))
    assert correct.tolist() == (scores.argmax(-1) == labels).tolist()


def test_the_rate_rises_and_falls_to_nearly_nothing():
    rates = [loop.schedule(step, 1000, 0.1) for step in range(1000)]
    assert rates[0] == 0.01
    assert rates[99] == rates[100] == 1
    assert (np.diff(rates[:100]) > 0).all()
    assert (np.diff(rates[100:]) <= 0).all()
    assert 0 < rates[-1] < 1e-5
    assert loop.schedule(0, 10, 0.0) == 1


@pytest.mark.parametrize(("images", "side"), [(160, 200), (80, 200), (160, 28)])
def test_a_batch_that_would_fill_the_memory_is_refused(images, side, tmp_path):
    """An .npz of 7 kB took 4.7 GB, one of 25 kB 20 GB."""
    labels = np.arange(images) % 2
    np.savez_compressed(tmp_path / "zeros.npz", images=np.zeros((images, side, side), "u1"), labels=labels)
    run = training.vision(str(tmp_path / "zeros.npz"), "cnn")
    if (images, side) != (160, 200):
        assert prepare(run, log=quiet).info.size == side
    else:
        with pytest.raises(TooLarge, match=r"128 images .* smaller batches: --set batch_size=\d+"):
            prepare(run, log=quiet)


def test_matrices_decay_and_the_rest_does_not(small, digits):
    from headwork.training.preparation import prepare

    run = small("optimiser=adamw")
    model = prepare(run, log=quiet, data=digits).new_model()
    decayed, free = loop.build_optimiser(model, run).param_groups
    assert decayed["weight_decay"] == 0.05
    assert free["weight_decay"] == 0
    assert all(p.dim() > 1 for p in decayed["params"])
    assert all(p.dim() <= 1 for p in free["params"])
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))


def test_dropout_is_drawn_anew_in_each_step_and_the_same_again(small, digits):
    from headwork.training.distributed import DistributedContext
    from headwork.training.preparation import prepare

    run = small("model.dropout=0.5", "learning_rate=1e-30", "augmentation.shift=0")
    prepared = prepare(run, log=quiet, data=digits)
    trainer = loop.Trainer(prepared, prepared.new_model(), DistributedContext(), quiet)
    first, second, again = (trainer.step(np.arange(64), step)[0] for step in (0, 1, 0))
    assert first == again != second


@pytest.mark.parametrize("model", ["transformer", "cnn", "lstm", "gru", "rnn"])
def test_every_image_model_learns(model, digits, tmp_path):
    size = ["model.width=16", "epochs=6", "batch_size=64", "learning_rate=0.01", "augmentation.shift=0"]
    more = ["model.hidden=16", "model.depth=2", "epochs=8"] if model == "transformer" else []
    run = training.changed(training.vision("digits", model), [*size, *more])
    result = training.train(run, tmp_path / "run", log=quiet, data=digits)
    losses = [line["training"]["loss"] for line in result.metrics if line.get("ended")]
    assert losses[-1] < 0.75 * losses[0]
    assert result.test_accuracy > 0.3


def test_a_run_is_the_same_again_and_another_seed_another(small, finished, tmp_path):
    again = training.train(small("model.dropout=0.1"), tmp_path / "again", log=quiet)
    assert model_bytes(again.folder) == model_bytes(finished)
    other = training.train(small("model.dropout=0.1", "seed=1"), tmp_path / "other", log=quiet)
    assert model_bytes(other.folder) != model_bytes(finished)


def model_bytes(folder):
    return (folder / "model" / "model.safetensors").read_bytes()


def test_the_test_set_is_touched_once_and_at_the_end(small, digits, tmp_path, monkeypatch):
    from dataclasses import replace

    events = []
    watched = replace(digits, read_test=lambda: events.append("test") or digits.test)
    before = loop.Trainer.step
    monkeypatch.setattr(loop.Trainer, "step", lambda *a: events.append("step") or before(*a))
    training.train(small(), tmp_path / "run", log=quiet, data=watched)
    assert events.count("test") == 1
    assert events[-1] == "test"


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_no_number_stops_the_run_and_names_the_batch(where, small, tmp_path, monkeypatch):
    number, count = 13, iter(range(10**6))
    if where == "loss":
        before = loop.losses

        def losses(scores, labels, smoothing):
            smoothed, plain, right = before(scores, labels, smoothing)
            return (
                (smoothed * float("nan") if scores.requires_grad and next(count) == number else smoothed),
                plain,
                right,
            )

        monkeypatch.setattr(loop, "losses", losses)
    else:
        clip = torch.nn.utils.clip_grad_norm_
        monkeypatch.setattr(
            torch.nn.utils,
            "clip_grad_norm_",
            lambda *a: torch.tensor(float("inf")) if next(count) == number else clip(*a),
        )
    with pytest.raises(training.DivergedError) as told:
        training.train(small(), tmp_path / "run", log=quiet)
    message = str(told.value)
    assert "at step 13: batch 2 of epoch 2, training examples " in message
    first = training.vision("digits")
    from headwork.data import batches

    assert " ".join(map(str, batches(1293, 128, seed=first.seed, epoch=1)[2][:8])) in message
    assert "The last good checkpoint, step 12, is kept." in message
    assert step_of(step_folders(tmp_path / "run")[-1]) == 12


def test_parameters_that_are_no_numbers_are_never_saved(small, tmp_path, monkeypatch):
    before = loop.Trainer.step

    def step(self, chosen, number):
        told = before(self, chosen, number)
        if number == 5:
            next(self.model.parameters()).data.fill_(float("nan"))
        return told

    monkeypatch.setattr(loop.Trainer, "step", step)
    with pytest.raises(training.DivergedError, match="step"):
        training.train(small("save_every=1"), tmp_path / "run", log=quiet)
    assert step_of(step_folders(tmp_path / "run")[-1]) == 5


def test_metrics_and_what_a_run_leaves(finished):
    names = {path.name for path in finished.iterdir()}
    expected = (
        "config.json data.json metrics.jsonl result.json curves.png curves.svg report.html model checkpoints"
    )
    assert names >= set(expected.split())
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    ended = [line for line in lines if line.get("ended")]
    assert [line["epoch"] for line in ended] == [1, 2]
    assert all(0 <= line[part]["accuracy"] <= 1 for line in ended for part in ("training", "validation"))
    told = json.loads((finished / "result.json").read_text())
    confusion = np.array(told["confusion"])
    assert confusion.sum() == told["test"]["count"] == 359
    assert confusion.trace() / 359 == pytest.approx(told["test"]["accuracy"])


def test_no_compiler_is_told_and_the_run_goes_on(small, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    lines = []
    training.train(small("compiled=true", "epochs=1"), tmp_path / "run", log=lines.append)
    assert any("torch.compile is skipped: no C++ compiler" in line for line in lines)


def test_a_compiler_that_does_not_work_is_told_and_the_run_goes_on(small, finished, tmp_path, monkeypatch):
    from torch._inductor.exc import CppCompileError, InductorError

    def failing(model, **_):
        def call(*inputs):
            torch.rand(3)  # what a part that was compiled before may have drawn
            raise InductorError(CppCompileError(["g++"], "Python.h: No such file"), None)

        return call

    monkeypatch.setattr(torch, "compile", failing)
    monkeypatch.setattr(loop, "compile_unsupported_reason", lambda: "")
    lines = []
    result = training.train(small("compiled=true", "model.dropout=0.1"), tmp_path / "run", log=lines.append)
    told = [line for line in lines if "torch.compile" in line]
    assert len(told) == 1
    assert told[0].startswith("! torch.compile is skipped: ")
    assert "\n" not in told[0]
    assert model_bytes(result.folder) == model_bytes(finished)


def test_old_results_are_read_and_new_ones_hold_no_forecast(finished, tmp_path):
    import shutil

    from headwork.inspection.run_report import result_table

    assert "forecast" not in json.loads((finished / "result.json").read_text())
    assert not any("forecast" in line for line in training.load_metrics(finished))
    old = shutil.copytree(finished, tmp_path / "old", ignore=shutil.ignore_patterns("manifest.json"))
    record = json.loads((old / "result.json").read_text())
    (old / "result.json").write_text(json.dumps({**record, "forecast": 7.5}))
    (old / "metrics.jsonl").write_text('{"step": 0, "forecast": 7.5}\n' + (old / "metrics.jsonl").read_text())
    result = training.Result.read(old)
    assert ("steps", 22) in result_table(result, training.load_run_config(old)).rows
    assert result.told == result.record


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another library hands out memory here")
def test_large_tensors_need_no_fresh_pages_at_each_step_while_training():
    import resource

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(4):
            torch.ones(1 << 24)  # 64 MB
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with keep_freed_memory():
        faults()
        inside = faults()
    assert 4 * inside < faults()  # and afterwards all is as it was


def test_progress_without_a_terminal_is_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr("headwork.training.progress.LINE_INTERVAL", 0.0)
    progress = Progress(20, 10, unit="texts")
    progress.step(7, 32, 0.5, 0.875)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "epoch 1/2  step 7/20  loss 0.500  accuracy 87.5%\n"


def test_the_time_left_is_that_of_the_steps_after_the_first_ones(capsys, monkeypatch):
    """Ten seconds for each of the first steps, which compile; then one second each."""
    now = 0.0
    monkeypatch.setattr("headwork.training.progress.LINE_INTERVAL", 0.0)
    monkeypatch.setattr("headwork.training.progress.time.monotonic", lambda: now)
    progress = Progress(100, 50, start=20)
    for step in range(21, 41):
        now += 10 if step <= 25 else 1
        progress.step(step, 32, 0.5, 0.875)
    lines = capsys.readouterr().err.splitlines()
    assert [line.endswith("left") for line in lines] == [False] * 9 + [True] * 11
    assert lines[9].endswith("32 images/s  1:10 left")
    assert lines[-1].endswith("32 images/s  1:00 left")


@pytest.mark.real("compiler")
def test_a_native_run_follows_the_fused_one(small, digits, tmp_path, monkeypatch):
    sizes = ("model.width=32", "model.hidden=32", "model.heads=2", "initialisation=random")
    run = small("model.backend=native", *sizes)
    monkeypatch.setattr(native, "MAX_TIME_RATIO", 1e9)
    fast = training.train(run, tmp_path / "native", log=quiet, data=digits)
    monkeypatch.setattr(native, "MAX_TIME_RATIO", 0.0)  # slower than anything: the fused kernels are taken
    fused = training.train(run, tmp_path / "fused", log=quiet, data=digits)
    backends = [training.load_run_config(tmp_path / name).model.backend for name in ("native", "fused")]
    assert backends == ["native", "fused"]
    losses = [[line["training"]["loss"] for line in result.metrics] for result in (fast, fused)]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, rtol=1e-4)
