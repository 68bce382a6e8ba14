"""A run from its beginning, or from its last checkpoint, to its end; signals, locks, and what must be the same."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headwork.data import Images, Texts
from headwork.errors import InputError
from headwork.files import write_whole
from headwork.libc import freed_memory_kept
from headwork.models import Model
from headwork.models.checkpoints import PARAMETERS
from headwork.models.registry import build_classifier
from headwork.training import checkpoints
from headwork.training.distributed import Group, group
from headwork.training.examples import Facts, Prepared, Say, prepare, tokenizer_bytes
from headwork.training.folders import CONFIG, DATA, METRICS, RESULT, TOKENIZER, Result, load_run
from headwork.training.loop import DivergedError, InterruptedRunError, Place, Session, descend, rehearse
from headwork.training.progress import Progress, clock, quiet, tell
from headwork.training.recipes import Run, TextRun, as_text, read_run

# --- starting and resuming ----------------------------------------------------------------------


def train(run: Run, folder: str | Path, *, say: Say = tell, data: Images | Texts | None = None) -> Result:
    """Train a run from its beginning into a new folder; started again by torchrun it goes on where it was."""
    place = Path(folder)
    with group() as processes:
        say = say if processes.first else quiet
        # The first process alone sees the folder.
        if processes.restarted and processes.any(processes.first and (place / CONFIG).exists()):
            say(f"restarted by torchrun: going on with {place}")
            return _go_on(place, processes, say, data, other_processes=False)
        if processes.first:
            check_new(place, processes.world)
        prepared = _in_turn(processes, run, None, say, data)
        with _alone(place, processes):
            return _carried_out(prepared, place, processes, say, None)


def resume(
    folder: str | Path, *, say: Say = tell, data: Images | Texts | None = None, other_processes: bool = False
) -> Result:
    """Go on from the last whole checkpoint, to the bit; a finished run is only read."""
    with group() as processes:
        return _go_on(Path(folder), processes, say if processes.first else quiet, data, other_processes)


def _go_on(
    folder: Path, processes: Group, say: Say, data: Images | Texts | None, other_processes: bool
) -> Result:
    text, tokenizer = b"", b""
    if processes.first:
        text = as_text(load_run(folder)).encode()
        if (folder / TOKENIZER).exists():
            tokenizer = (folder / TOKENIZER).read_bytes()
    if processes.any(processes.first and (folder / RESULT).exists()):
        say(f"{folder} is finished already.")
        return Result.read(folder) if processes.first else Result(folder, {}, [])
    text, tokenizer = processes.shared(text), processes.shared(tokenizer)
    with _alone(folder, processes):
        return _from_the_last(folder, text, tokenizer, processes, say, data, other_processes)


def _from_the_last(
    folder: Path,
    text: bytes,
    tokenizer: bytes,
    processes: Group,
    say: Say,
    data: Images | Texts | None,
    other_processes: bool,
) -> Result:
    """From the last whole checkpoint, or from the beginning where there is none."""
    found = checkpoints.latest(folder, say, mend=True) if processes.first else None
    run = read_run(text.decode(), CONFIG)
    files = {}
    for name in (checkpoints.STATE, PARAMETERS, checkpoints.OPTIMISER):
        files[name] = processes.shared(found[1][name] if found else None)
    if not files[checkpoints.STATE]:
        say(f"{folder} has no checkpoint yet: it starts from the beginning.")
        return _carried_out(_in_turn(processes, run, None, say, data), folder, processes, say, None)
    state = json.loads(files[checkpoints.STATE])
    check_same(folder, state, json.loads(text), processes, other_processes, say)
    kept = tokenizer if isinstance(run, TextRun) else None
    prepared = _in_turn(processes, run, kept, say, data)
    check_facts(folder, Facts.read(state["facts"]), prepared.facts)
    return _carried_out(prepared, folder, processes, say, files)


def _in_turn(
    processes: Group, run: Run, tokenizer: bytes | None, say: Say, data: Images | Texts | None
) -> Prepared:
    """Prepared by the first process before the others, so that data is fetched once."""
    if not processes.first:
        processes.wait()
    prepared = prepare(run, tokenizer=tokenizer, say=say, data=data)
    if processes.first:
        processes.wait()
    return prepared


def _carried_out(
    prepared: Prepared, folder: Path, processes: Group, say: Say, files: checkpoints.Files | None
) -> Result:
    """From a beginning, or from the files of a checkpoint, to the end."""
    run = prepared.run
    config = json.loads(as_text(run))
    if files is None:
        model = prepared.model()
    else:
        kind: Any = run.model  # type: ignore[attr-defined]
        model = prepared.tokenized(build_classifier(kind))
    session = Session(prepared, model, processes, say)
    with _threads(run.threads), freed_memory_kept(), _stopping() as stopped:
        if files is None:
            files = checkpoints.packed(session.state(Place(), config), session.model, session.optimiser)
            if processes.first:
                _write_start(folder, prepared)
                checkpoints.save(folder, 0, files, keep=run.keep)
        told = json.loads(files[checkpoints.STATE])
        place = Place(**{name: told[name] for name in vars(Place())})
        say(_described(session, folder, place))
        forecast = _forecast(session, place, say)
        checkpoints.restore(files, folder, session.model, session.optimiser)
        if forecast is not None and not place.metrics:
            place.metrics.append({"step": place.step, "forecast": round(forecast, 1)})

        def save(where: Place) -> None:
            _check_finite(session.model, where, folder)
            if not processes.first:
                return
            packed = checkpoints.packed(session.state(where, config), session.model, session.optimiser)
            try:
                checkpoints.save(folder, where.step, packed, keep=run.keep)
                _write_metrics(folder, where)
            except InputError as error:
                raise checkpoints.not_saved(error, folder, where.step, processes.world) from None

        unit = "texts" if isinstance(run, TextRun) else "images"
        progress = Progress(
            session.total, session.per_epoch, start=place.step, unit=unit, shown=say is not quiet
        )
        try:
            ended = descend(session, place, save=save, stop=lambda: bool(stopped), progress=progress)
        except DivergedError as error:
            progress.clear()
            last = checkpoints.step_folders(folder)[-1:]
            kept = (
                f" The last good checkpoint, step {checkpoints.step_of(last[0]):,}, is kept." if last else ""
            )
            raise DivergedError(f"{error}{kept}") from None
        progress.clear()
        if not ended:
            code = 128 + (stopped[0] if stopped else signal.SIGTERM)
            told = f"stopped and saved at step {place.step:,} of {session.total:,}. Go on with: "
            # Once is enough: the other processes end in silence.
            told = told + checkpoints.going_on(folder, processes.world) if processes.first else ""
            raise InterruptedRunError(told, code)
        if not processes.first:
            return Result(folder, {}, [])
        from headwork.training.finishing import finish

        return finish(session, place, folder, say)


def _described(session: Session, folder: Path, place: Place) -> str:
    facts, run = session.prepared.facts, session.run
    begun = f"from step {place.step:,} of" if place.step else "in"
    many = f", {session.processes.world} processes" if session.processes.world > 1 else ""
    return (
        f"{folder}: {type(session.model).__name__}, {session.model.parameter_count:,} parameters, on {facts.name} "
        f"({facts.counts['training']:,} to train on, {facts.counts['validation']:,} to validate): "
        f"{run.epochs} epoch{'s' if run.epochs > 1 else ''} {begun} {session.total:,} steps, "
        f"{run.batch} at a time{many}"
    )


def _forecast(session: Session, place: Place, say: Say) -> float | None:
    """How long it will take, from a rehearsal of a few steps; a short run tells soon enough by itself."""
    steps = session.total - place.step
    if steps < 100 or session.processes.world > 1:
        return None
    ready, step, validation = rehearse(session)
    epochs = -(-steps // session.per_epoch)
    seconds = steps * step + epochs * validation
    compiled = f" (getting ready took {clock(ready)})" if ready > 5 else ""
    say(
        f"forecast: {clock(seconds)} at {step * 1000:.0f} ms a step and {clock(validation)} a validation{compiled}"
    )
    return seconds


def _check_finite(model: Model, place: Place, folder: Path) -> None:
    """A checkpoint of parameters that are no numbers would push out the good ones."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise DivergedError(
                f"{name} is not finite after step {place.step:,}, so {folder} keeps its earlier checkpoints."
            )


def _write_start(folder: Path, prepared: Prepared) -> None:
    write_whole(folder / CONFIG, as_text(prepared.run))
    write_whole(folder / DATA, json.dumps(prepared.facts.as_data(), indent=2) + "\n")
    if prepared.tokenizer is not None:
        write_whole(folder / TOKENIZER, tokenizer_bytes(prepared.tokenizer))


def _write_metrics(folder: Path, place: Place) -> None:
    # Whole every time: nobody ever meets half a line, or lines of steps that were taken back.
    write_whole(folder / METRICS, "".join(json.dumps(line) + "\n" for line in place.metrics))


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """Signals to stop, noted here and obeyed after the step; a second one stops at once."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    known = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in known}

    def note(number: int, frame: Any) -> None:
        caught.append(number)
        for one, handler in before.items():
            signal.signal(one, handler)

    for number in known:
        signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _threads(wanted: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _alone(folder: Path, processes: Group) -> Iterator[None]:
    """Nobody else trains in this folder; the lock goes with the process, however it ends."""
    if not processes.first:
        yield
        return
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("w")
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}. Choose another place with --out."
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{folder}: another process trains in it. Wait for it, or stop it.") from None
        yield


# --- checks -------------------------------------------------------------------------------------


def check_new(folder: Path, processes: int) -> None:
    if (folder / CONFIG).exists():
        kept = checkpoints.step_folders(folder)
        told = f" (step {checkpoints.step_of(kept[-1]):,})" if kept else ""
        raise InputError(
            f"{folder} holds a run already{told}. Go on with: {checkpoints.going_on(folder, processes)}, "
            "or choose another --out."
        )
    if folder.is_file():
        raise InputError(f"{folder} is a file. Choose a folder with --out.")
    if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run. Choose another folder with --out.")


def check_same(
    folder: Path, state: Any, config: Any, processes: Group, other_processes: bool, say: Say
) -> None:
    """The checkpoint is of this run, and of as many processes."""
    # Read and written again: fields that are new since then have their defaults.
    before = json.loads(as_text(read_run(json.dumps(state["config"]), str(folder / CONFIG))))
    if before != config:
        names = [name for name in config if config[name] != before.get(name)]
        raise InputError(
            f"{folder / CONFIG}: changed since the checkpoint was written ({', '.join(names)}), so going on would be "
            "another run. Put it back, or train anew with --set."
        )
    if state["processes"] != processes.world:
        told = f"{state['processes']} process(es), now there are {processes.world}"
        if not other_processes:
            raise InputError(
                f"{folder}: trained so far by {told}. Sums would be rounded, and dropout drawn, in another order, so "
                "the run would no longer be the uninterrupted one. Start as many, or accept it with --other-processes."
            )
        say(f"! trained so far by {told}: from here on the run is not to the bit what it would have been.")
    threads = config["threads"] or torch.get_num_threads()
    if state["threads"] != threads:
        say(
            f"! trained so far with {state['threads']} threads, now with {threads}: sums may be "
            f"rounded otherwise. For the same bits set OMP_NUM_THREADS={state['threads']}."
        )
    if state["torch"] != torch.__version__:
        say(
            f"! trained so far with torch {state['torch']}, now with {torch.__version__}: the last bits may differ."
        )


def check_facts(folder: Path, before: Facts, now: Facts) -> None:
    if before.digest != now.digest:
        raise InputError(
            f"{folder}: the data '{now.name}' is not what the run was trained on (its digest differs). "
            "Bring the same files back, or train anew."
        )
    if before.tokenizer != now.tokenizer:
        raise InputError(
            f"{folder / TOKENIZER}: damaged or changed: it is not the tokenizer that the run began with."
        )
