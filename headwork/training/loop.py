"""The loop: one for every classifier of ours, alone or under torchrun.

Everything random in a step is drawn from (seed, step), the order of the batches from (seed, epoch), and the rate is a
function of the step: so a run is known by its config, its step and its tensors, and resumes to the bit.
AdamW (Loshchilov and Hutter 2017, arXiv 1711.05101) or Muon, descent with momentum for tables of n-grams, warm-up
and cosine decay, label smoothing, clipped gradients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwork.data.splits import Indices
from headwork.errors import HeadworkError
from headwork.models import Model
from headwork.training.distributed import Group
from headwork.training.examples import Examples, Prepared, Say
from headwork.training.optimisers import optimiser_of
from headwork.training.progress import Progress
from headwork.training.seeds import DROPOUT, mix

NOTED_EVERY = 50  # steps between two lines in metrics.jsonl
TRIED, TIMED, REHEARSED = 2, 6, 2.0  # steps of the rehearsal that count not, that count, and seconds at least


class DivergedError(HeadworkError):
    """The loss or a gradient is no longer a number."""


class InterruptedRunError(HeadworkError):
    """Stopped by a signal, and saved."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Place:
    """Where a run is: what a checkpoint holds besides tensors."""

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0  # sums over this epoch so far
    correct: float = 0.0
    seen: int = 0
    metrics: list[dict[str, Any]] = field(default_factory=list)


class Session:
    """A run with its model and optimiser: all that a step needs."""

    def __init__(self, prepared: Prepared, model: Model, processes: Group, say: Say) -> None:
        self.run, self.prepared, self.processes, self.say = prepared.run, prepared, processes, say
        self.model = model.to(processes.device)
        self.optimiser = optimiser_of(self.model, self.run)
        self.any_size: nn.Module = processes.wrapped(self.model)
        self.whole: Callable[..., Tensor] = self.any_size
        self.per_epoch = -(-len(prepared.training.labels) // self.run.batch)
        self.total = self.per_epoch * self.run.epochs
        if self.run.compiled:
            self._compile()

    def _compile(self) -> None:
        reason = no_compiler()
        if reason:
            self.say(f"! torch.compile is skipped: {reason}. All works without it, more slowly.")
        else:
            self.whole = torch.compile(self.any_size, dynamic=False)

    def _scores(self, inputs: tuple[Tensor, ...], full: bool) -> Tensor:
        """What the model says; compiled for full batches, unless the compiler turns out not to work."""
        if not full or self.whole is self.any_size:
            return self.any_size(*inputs)  # type: ignore[no-any-return]
        from torch._dynamo.exc import BackendCompilerFailed

        drawn = torch.get_rng_state()
        try:
            return self.whole(*inputs)
        except BackendCompilerFailed as error:
            reason = str(error).strip().partition("\n")[0]
            self.say(f"! torch.compile is skipped: {reason}. All works without it, more slowly.")
        self.whole = self.any_size
        torch.set_rng_state(drawn)
        return self.any_size(*inputs)  # type: ignore[no-any-return]

    def step(self, chosen: Indices, step: int) -> tuple[float, float]:
        """One step of gradient descent on a batch; the sums of loss and of right answers over this process's part."""
        run, processes = self.run, self.processes
        torch.manual_seed(mix(DROPOUT, run.seed, step, processes.rank))
        # A process that gets nothing of a small last batch takes one example along, at weight 0.
        part, share = (processes.part, 1.0) if processes.rank < len(chosen) else (slice(0, 1), 0.0)
        inputs, labels = self.prepared.training.batch(chosen, part=part, drawn_by=(run.seed, step))
        inputs, (labels,) = processes.to_device(inputs), processes.to_device((labels,))
        self.model.train()
        smoothed, plain, right = losses(self._scores(inputs, len(chosen) == run.batch), labels, run.smoothing)
        # Gradients are averaged over processes, the loss over the whole batch: hence the number of processes.
        loss = smoothed.sum() * (share * processes.world / len(chosen))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), run.clipping)
        if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
            self._diverged(loss.item(), norm.item(), chosen, step)
        rate = run.learning_rate * schedule(step, self.total, run.warm_up)
        for entry in self.optimiser.param_groups:
            entry["lr"] = rate * entry.get("times", 1.0)
        self.optimiser.step()
        return share * plain.sum().item(), share * right.sum().item()

    def _diverged(self, loss: float, norm: float, chosen: Indices, step: int) -> None:
        epoch, number = divmod(step, self.per_epoch)
        shown = " ".join(map(str, chosen[:8])) + (" ..." if len(chosen) > 8 else "")
        raise DivergedError(
            f"the loss is {loss:g} and the gradient's norm {norm:g} at step {step:,}: batch {number} of epoch "
            f"{epoch + 1}, training examples {shown}. Nothing was changed by that step. Look at those examples, or "
            f"train anew, into another --out, with learning_rate below {self.run.learning_rate:g}."
        )

    def state(self, place: Place, config: Any) -> dict[str, Any]:
        return {
            **vars(place),
            "config": config,
            "facts": self.prepared.facts.as_data(),
            "processes": self.processes.world,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }


def schedule(step: int, total: int, warm_up: float) -> float:
    """The share of the full rate at a step: a line up over the first share of steps, then half a cosine down to 0.

    >>> [round(schedule(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    rising = round(warm_up * total)
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, total - rising)))


def losses(scores: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """For each example: the smoothed loss that is minimised, the plain one that is shown, and whether it is right.

    >>> smoothed, plain, right = losses(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), 0.1)
    >>> round(plain.item(), 4), right.item()
    (0.6931, False)
    """
    logarithms = scores.log_softmax(-1)
    plain = -logarithms.gather(-1, labels[:, None]).squeeze(-1)
    smoothed = (1 - smoothing) * plain - smoothing * logarithms.mean(-1) if smoothing else plain
    return smoothed, plain.detach(), scores.detach().argmax(-1) == labels


@torch.no_grad()
def measured(model: Model, examples: Examples, size: int, processes: Group) -> tuple[float, float]:
    """The mean loss and the accuracy over a part of the data, shared out among the processes."""
    model.eval()
    loss = correct = 0.0
    for chosen in examples.in_order(size)[processes.part]:
        inputs, labels = examples.batch(chosen)
        scores = model(*processes.to_device(inputs))
        _, plain, right = losses(scores, labels.to(scores.device), 0.0)
        loss, correct = loss + plain.sum().item(), correct + right.sum().item()
    loss, correct = processes.sums(loss, correct)
    count = max(1, len(examples.labels))
    return loss / count, correct / count


def rehearse(session: Session) -> tuple[float, float, float]:
    """Seconds for getting ready (compiling), for a step, and for the validation; the caller puts the state back."""
    run, batches = session.run, session.prepared.training.order(session.run.batch, session.run.seed, 0)
    wanted = batches[:-1] or batches
    begun = time.monotonic()
    for number in range(TRIED):
        session.step(wanted[number % len(wanted)], number)
    ready, count = time.monotonic(), 0
    # A few slow steps, or as many quick ones as the clock can tell apart.
    while count < TIMED or (time.monotonic() - ready < REHEARSED and count < session.total // 10):
        session.step(wanted[(TRIED + count) % len(wanted)], TRIED + count)
        count += 1
    stepped = time.monotonic()
    held = session.prepared.validation
    order = held.in_order(run.batch)
    sample = order[:: max(1, len(order) // 4)]
    session.model.eval()
    with torch.no_grad():
        for batch in sample:
            session.model(*session.processes.to_device(held.batch(batch)[0]))
    evaluated = (time.monotonic() - stepped) / len(sample) * len(order) / session.processes.world
    return ready - begun, (stepped - ready) / count, evaluated


def descend(
    session: Session,
    place: Place,
    *,
    save: Callable[[Place], None],
    stop: Callable[[], bool],
    progress: Progress,
) -> bool:
    """Train from a place to the end; False where it was told to stop, having saved."""
    run, training, processes = session.run, session.prepared.training, session.processes
    begun, before = time.monotonic(), place.seconds
    order: list[Indices] = []
    epoch_of_order = -1
    while place.step < session.total:
        epoch, number = divmod(place.step, session.per_epoch)
        if epoch != epoch_of_order:
            order, epoch_of_order = training.order(run.batch, run.seed, epoch), epoch
        loss, correct = session.step(order[number], place.step)
        loss, correct, stopping = processes.sums(loss, correct, float(stop()))
        place.step += 1
        place.loss, place.correct, place.seen = (
            place.loss + loss,
            place.correct + correct,
            place.seen + len(order[number]),
        )
        place.seconds = before + time.monotonic() - begun
        progress.step(place.step, len(order[number]), place.loss / place.seen, place.correct / place.seen)
        if place.step % NOTED_EVERY == 0:
            place.metrics.append(
                {
                    "step": place.step,
                    "epoch": place.step / session.per_epoch,
                    "training": {"loss": place.loss / place.seen, "accuracy": place.correct / place.seen},
                }
            )
        if number + 1 == session.per_epoch:
            _end_epoch(session, place, progress, begun, before)
        if stopping or place.step % run.save_every == 0 or number + 1 == session.per_epoch:
            save(place)
        if stopping and place.step < session.total:
            return False
    return True


def _end_epoch(session: Session, place: Place, progress: Progress, begun: float, before: float) -> None:
    """Validation, and a line of metrics for the epoch."""
    run, epoch = session.run, place.step // session.per_epoch
    loss, accuracy = measured(session.model, session.prepared.validation, run.batch, session.processes)
    place.seconds = before + time.monotonic() - begun
    place.metrics.append(
        {
            "step": place.step,
            "epoch": epoch,
            "ended": True,
            "seconds": round(place.seconds, 3),
            "training": {"loss": place.loss / place.seen, "accuracy": place.correct / place.seen},
            "validation": {"loss": loss, "accuracy": accuracy},
        }
    )
    progress.line(
        f"epoch {epoch}/{run.epochs}  training loss {place.loss / place.seen:.4f} "
        f"accuracy {place.correct / place.seen:.2%}  "
        f"validation loss {loss:.4f} accuracy {accuracy:.2%}"
    )
    place.loss, place.correct, place.seen = 0.0, 0.0, 0


def no_compiler() -> str:
    """Why torch.compile cannot be used here; empty where it can."""
    import os
    import shutil
    import sys

    if sys.platform == "win32":
        return "" if shutil.which("cl") else "no C++ compiler (cl) was found"
    named = os.environ.get("CXX")
    found = [name for name in ([named] if named else ["g++", "clang++", "c++"]) if shutil.which(name)]
    return "" if found else "no C++ compiler (g++ or clang++) was found"
