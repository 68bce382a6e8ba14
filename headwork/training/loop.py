"""The training loop: one for every classifier, alone or under torchrun.

Everything random in a step is drawn from (seed, step), the order of the batches from (seed, epoch), and the
learning rate is a function of the step. So config, step and tensors determine the rest of a run, and it
resumes to the bit. AdamW (Loshchilov and Hutter 2017, arXiv 1711.05101) or Muon, SGD with momentum for n-gram
tables, warm-up and cosine decay, label smoothing, clipped gradients.
"""

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwork.data.fetching import Log
from headwork.data.splits import Indices
from headwork.errors import HeadworkError
from headwork.models import Model
from headwork.training import checkpoints
from headwork.training.distributed import DistributedContext
from headwork.training.evaluation import evaluate, losses
from headwork.training.optimisers import build_optimiser
from headwork.training.preparation import PreparedRun
from headwork.training.progress import Progress
from headwork.training.recipes import run_to_json
from headwork.training.seeds import DROPOUT_STREAM, derive_seed

METRICS_INTERVAL = 50  # steps between two lines in metrics.jsonl


class DivergedError(HeadworkError):
    """The loss or a gradient is no longer a number."""


class InterruptedRunError(HeadworkError):
    """Stopped by a signal, and saved."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class TrainState:
    """How far a run has come: what a checkpoint holds besides tensors."""

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0  # sums over this epoch so far
    correct: float = 0.0
    seen: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)


class Trainer:
    """A run with its model and optimiser: all that a step needs."""

    def __init__(self, prepared: PreparedRun, model: Model, group: DistributedContext, log: Log) -> None:
        self.run, self.prepared, self.group, self.log = prepared.run, prepared, group, log
        self.model = model.to(group.device)
        self.optimiser = build_optimiser(self.model, self.run)
        self.eager: nn.Module = group.wrap_model(self.model)
        self.compiled: Callable[..., Tensor] | None = None
        self.steps_per_epoch = -(-len(prepared.training.labels) // self.run.batch_size)
        self.total_steps = self.steps_per_epoch * self.run.epochs
        if self.run.compiled and (reason := compile_unsupported_reason()):
            self._skip_compiling(reason)
        elif self.run.compiled:
            self.compiled = torch.compile(self.eager, dynamic=False)

    def _skip_compiling(self, reason: str) -> None:
        self.compiled = None
        self.log(f"! torch.compile is skipped: {reason}. Everything works without it, more slowly.")

    def _logits(self, inputs: tuple[Tensor, ...], full_batch: bool) -> Tensor:
        """The model's logits; compiled for full batches, unless the compiler turns out not to work."""
        if full_batch and self.compiled is not None:
            from torch._dynamo.exc import BackendCompilerFailed

            random_state = torch.get_rng_state()
            try:
                return self.compiled(*inputs)
            except BackendCompilerFailed as error:
                self._skip_compiling(str(error).strip().partition("\n")[0])
            torch.set_rng_state(random_state)
        return self.eager(*inputs)  # type: ignore[no-any-return]

    def step(self, indices: Indices, step: int) -> tuple[float, float]:
        """One optimiser step on a batch; the sums of loss and correct predictions over its own part."""
        run, group = self.run, self.group
        torch.manual_seed(derive_seed(DROPOUT_STREAM, run.seed, step, group.rank))
        # A process that gets nothing of a small last batch takes one example along, at weight 0.
        part, share = (group.batch_slice, 1.0) if group.rank < len(indices) else (slice(0, 1), 0.0)
        inputs, labels = self.prepared.training.batch(indices, part=part, augmentation_seed=(run.seed, step))
        inputs, (labels,) = group.to_device(inputs), group.to_device((labels,))
        self.model.train()
        logits = self._logits(inputs, len(indices) == run.batch_size)
        smoothed, plain, correct = losses(logits, labels, run.label_smoothing)
        # Gradients are averaged over processes, the loss over the whole batch: hence the number of processes.
        loss = smoothed.sum() * (share * group.world_size / len(indices))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), run.max_grad_norm)
        if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
            self._diverged(loss.item(), norm.item(), indices, step)
        rate = run.learning_rate * schedule(step, self.total_steps, run.warm_up)
        for parameter_group in self.optimiser.param_groups:
            parameter_group["lr"] = rate * parameter_group.get("rate_factor", 1.0)
        self.optimiser.step()
        return share * plain.sum().item(), share * correct.sum().item()

    def _diverged(self, loss: float, norm: float, indices: Indices, step: int) -> None:
        epoch, number = divmod(step, self.steps_per_epoch)
        examples = " ".join(map(str, indices[:8])) + (" ..." if len(indices) > 8 else "")
        raise DivergedError(
            f"the loss is {loss:g} and the gradient's norm {norm:g} at step {step:,}: "
            f"batch {number} of epoch {epoch + 1}, training examples {examples}. "
            "That step changed nothing. Look at those examples, "
            f"or train again, into another --out, with learning_rate below {self.run.learning_rate:g}."
        )

    def save(self, folder: Path, state: TrainState) -> None:
        """Write the checkpoint of a step into the folder of the run."""
        config, data_info = json.loads(run_to_json(self.run)), asdict(self.prepared.info)
        content = {**vars(state), "config": config, "facts": data_info}
        content |= {"processes": self.group.world_size, "threads": torch.get_num_threads()}
        content["torch"] = torch.__version__
        files = checkpoints.build_checkpoint(content, self.model, self.optimiser)
        checkpoints.save(folder, state.step, files, keep=self.run.keep_checkpoints)


def schedule(step: int, total_steps: int, warm_up: float) -> float:
    """The share of the full learning rate at a step: linear warm-up, then half a cosine to 0.

    >>> [round(schedule(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    warm_up_steps = round(warm_up * total_steps)
    if step < warm_up_steps:
        return (step + 1) / warm_up_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up_steps) / max(1, total_steps - warm_up_steps)))


def train_loop(
    trainer: Trainer,
    state: TrainState,
    *,
    save: Callable[[], None],
    stop: Callable[[], bool],
    progress: Progress,
) -> bool:
    """Train from a state to the end; False where ``stop`` asked to stop, after saving."""
    run, training, group = trainer.run, trainer.prepared.training, trainer.group
    start_time = time.monotonic() - state.seconds
    while state.step < trainer.total_steps:
        epoch, done = divmod(state.step, trainer.steps_per_epoch)
        for indices in training.shuffled_batches(run.batch_size, run.seed, epoch)[done:]:
            loss, correct = trainer.step(indices, state.step)
            loss, correct, stopping = group.sum_numbers(loss, correct, float(stop()))
            state.step += 1
            state.loss += loss
            state.correct += correct
            state.seen += len(indices)
            state.seconds = time.monotonic() - start_time
            means = {"loss": state.loss / state.seen, "accuracy": state.correct / state.seen}
            progress.step(state.step, len(indices), **means)
            if state.step % METRICS_INTERVAL == 0:
                epochs = state.step / trainer.steps_per_epoch
                state.metrics.append({"step": state.step, "epoch": epochs, "training": means})
            ends_epoch = state.step % trainer.steps_per_epoch == 0
            if ends_epoch:
                _finish_epoch(trainer, state, means, progress, start_time)
            if stopping or state.step % run.save_every == 0 or ends_epoch:
                save()
            if stopping and state.step < trainer.total_steps:
                return False
    return True


def _finish_epoch(
    trainer: Trainer, state: TrainState, training: dict[str, float], progress: Progress, start_time: float
) -> None:
    """Validate, and append the epoch's line of metrics."""
    run, epoch, validation = trainer.run, state.step // trainer.steps_per_epoch, trainer.prepared.validation
    measured = {"training": training}
    if len(validation.labels):
        evaluation = evaluate(trainer.model, validation, run.batch_size, trainer.group)
        measured["validation"] = {"loss": evaluation.loss, "accuracy": evaluation.accuracy}
    state.seconds = time.monotonic() - start_time
    line = {"step": state.step, "epoch": epoch, "ended": True, "seconds": round(state.seconds, 3)}
    state.metrics.append(line | measured)
    parts = (
        f"{name} loss {part['loss']:.4f} accuracy {part['accuracy']:.2%}" for name, part in measured.items()
    )
    progress.line(f"epoch {epoch}/{run.epochs}  {'  '.join(parts)}")
    state.loss, state.correct, state.seen = 0.0, 0.0, 0


def compile_unsupported_reason() -> str:
    """Why torch.compile cannot be used here; empty where it can."""
    if sys.platform == "win32":
        return "" if shutil.which("cl") else "no C++ compiler (cl) was found"
    named = os.environ.get("CXX")
    compilers = [named] if named else ["g++", "clang++", "c++"]
    return "" if any(map(shutil.which, compilers)) else "no C++ compiler (g++ or clang++) was found"
