"""A run from its beginning, or its last checkpoint, to its end; signals, locks, checks before resuming."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from headwork.data import Texts
from headwork.data.fetching import Log, to_stderr
from headwork.errors import HeadworkError, InputError
from headwork.files import open_file, refuse_links, write_atomic
from headwork.libc import keep_freed_memory
from headwork.mechanisms import native
from headwork.model_files import MANIFEST, manifest_bytes, to_json_bytes
from headwork.models import Model, from_pretrained
from headwork.models.saving import torch_model
from headwork.training import checkpoints, run_folders
from headwork.training.checkpoints import Files
from headwork.training.distributed import DistributedContext, process_group
from headwork.training.evaluation import baseline, evaluate
from headwork.training.loop import DivergedError, InterruptedRunError, Trainer, TrainState, train_loop
from headwork.training.preparation import Data, PreparedRun, prepare
from headwork.training.progress import Progress, format_duration, quiet
from headwork.training.recipes import RunConfig, TextRunConfig, read_run, run_to_json
from headwork.training.run_folders import CONFIG, DATA, METRICS, MODEL_FOLDER, RESULT, TOKENIZER, Result

MAX_CHARACTERS = 600  # of a text among the mistakes


# --- starting and resuming ----------------------------------------------------------------------
def train(run: RunConfig, folder: str | Path, *, log: Log = to_stderr, data: Data | None = None) -> Result:
    """Train a run from its beginning into a new folder; restarted by torchrun, it resumes."""
    path = Path(folder)
    with process_group() as group:
        log = log if group.is_main else quiet
        # Only the first process sees the folder.
        if group.restarted and group.any_process(group.is_main and (path / CONFIG).exists()):
            log(f"restarted by torchrun: resuming {path}")
            return _resume(path, group, log, data, other_processes=False)
        if group.is_main:
            check_new_folder(path, group.world_size)
        prepared = _choose_backend(_prepare_in_turn(group, run, None, log, data), group)
        with lock_folder(path, group):
            return run_to_end(prepared, path, group, log)


def resume(
    folder: str | Path, *, log: Log = to_stderr, data: Data | None = None, other_processes: bool = False
) -> Result:
    """Resume from the last whole checkpoint, to the bit; a finished run is only read."""
    with process_group() as group:
        return _resume(Path(folder), group, log if group.is_main else quiet, data, other_processes)


def _resume(
    folder: Path, group: DistributedContext, log: Log, data: Data | None, other_processes: bool
) -> Result:
    """From the last whole checkpoint, or from the beginning where there is none."""
    is_main = group.is_main
    start_files = {CONFIG: run_to_json(run_folders.load_run_config(folder)).encode()} if is_main else None
    if group.any_process(is_main and (folder / RESULT).exists()):
        if is_main:
            _rebuild_model(folder, group, log)
        log(f"{folder} is finished already.")
        return Result.read(folder) if is_main else Result(folder, {}, [])
    if start_files and (folder / TOKENIZER).exists():
        start_files[TOKENIZER] = run_folders.load_tokenizer_bytes(folder)
    start_files = group.broadcast(start_files) or {}
    run = read_run(start_files[CONFIG], CONFIG)
    with lock_folder(folder, group):
        checkpoint = checkpoints.latest(folder, log, repair=True) if is_main else None
        files = group.broadcast(checkpoint[1] if checkpoint else None)
        if files is None:
            log(f"{folder} has no checkpoint yet: it starts from the beginning.")
            return run_to_end(_prepare_in_turn(group, run, None, log, data), folder, group, log)
        state = checkpoints.read_state(files, folder)
        check_same_setup(folder, state, run.threads, group, other_processes, log)
        before = run_folders.DataInfo.read(state["facts"], folder / DATA)
        prepared = _prepare_in_turn(group, run, start_files.get(TOKENIZER), log, data)
        check_data(folder, before, prepared.info)
        return run_to_end(prepared, folder, group, log, files)


def _prepare_in_turn(
    group: DistributedContext, run: RunConfig, tokenizer: bytes | None, log: Log, data: Data | None
) -> PreparedRun:
    """Prepared by the first process before the others, so that data is fetched once."""
    if not group.is_main:
        group.barrier()
    prepared = prepare(run, tokenizer=tokenizer, log=log, data=data)
    if group.is_main:
        group.barrier()
    return prepared


def _choose_backend(prepared: PreparedRun, group: DistributedContext) -> PreparedRun:
    """The fused kernels instead of native ones that are not faster here: asked once, for the whole run."""
    run: Any = prepared.run
    if getattr(run.model, "backend", "") != "native":
        return prepared
    with use_threads(run.threads):
        slower = group.device.type != "cpu" or not native.is_faster(run.model)
    if group.any_process(slower):
        run = replace(run, model=replace(run.model, backend="fused"))
    return replace(prepared, run=run)


def run_to_end(
    prepared: PreparedRun, folder: Path, group: DistributedContext, log: Log, files: Files | None = None
) -> Result:
    """Train from the beginning, or from the files of a checkpoint, and write the result."""
    run: Any = prepared.run
    cuda = [group.device] if group.device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        use_threads(run.threads),
        keep_freed_memory(),
        _stop_signals() as signals,
    ):
        if files is None:
            model = prepared.new_model()
        else:
            model = torch_model(run_folders.checkpoint_model(run, folder, files)).train()
        trainer = Trainer(prepared, prepared.fit_to_run(model), group, log)
        state = TrainState()
        if files is not None:
            restored = checkpoints.restore_optimiser(files, folder, trainer.optimiser)
            state = TrainState(**{name: restored[name] for name in vars(state)})
        elif group.is_main:
            for name, data in _start_files(prepared).items():
                write_atomic(folder / name, data)
            trainer.save(folder, state)

        def save() -> None:
            _check_finite(trainer.model, state, folder)
            if group.is_main:
                try:
                    trainer.save(folder, state)
                    write_atomic(folder / METRICS, _metrics_lines(state))
                except InputError as error:
                    raise checkpoints.save_failure(error, folder, state.step, group.world_size) from None

        log(_describe(trainer, folder, state))
        unit = "texts" if isinstance(run, TextRunConfig) else "images"
        total, visible = trainer.total_steps, log is not quiet
        progress = Progress(total, trainer.steps_per_epoch, start=state.step, unit=unit, visible=visible)
        try:
            finished = train_loop(trainer, state, save=save, stop=lambda: bool(signals), progress=progress)
        except DivergedError as error:
            last = checkpoints.step_folders(folder)[-1:]
            kept = (
                f" The last good checkpoint, step {checkpoints.step_of(last[0]):,}, is kept." if last else ""
            )
            raise DivergedError(f"{error}{kept}") from None
        except Exception:
            if not signals:
                raise
            # A compiler that is interrupted fails in ways of its own; the last checkpoint stands.
            finished, state.step = False, checkpoints.step_of(checkpoints.step_folders(folder)[-1])
        finally:
            progress.clear()
        if not finished:
            command = checkpoints.resume_command(folder, group.world_size)
            message = f"stopped and saved at step {state.step:,} of {total:,}. Resume with: {command}"
            # Once is enough: the other processes end in silence.
            code = 128 + (signals[0] if signals else signal.SIGTERM)
            raise InterruptedRunError(message if group.is_main else "", code)
        return _finish(trainer, state, folder, log) if group.is_main else Result(folder, {}, [])


def _finish(trainer: Trainer, state: TrainState, folder: Path, log: Log) -> Result:
    """Save the model, use the test set once, and write the result: with it the run is finished."""
    prepared, data, model = trainer.prepared, trainer.prepared.data, trainer.model.to("cpu")
    model.save_pretrained(folder / MODEL_FOLDER)
    test = prepared.read_test()
    log(f"evaluating the test set, {len(test.labels):,} examples, once ...")
    evaluation = evaluate(model, test, trainer.run.batch_size)
    mistakes = evaluation.mistakes()
    if isinstance(data, Texts):
        for mistake in mistakes:
            mistake["text"] = str(data.test.texts[mistake["place"]])[:MAX_CHARACTERS]
    ended = [line for line in state.metrics if line.get("ended")][-1]
    record: dict[str, Any] = {"test": evaluation.summary(), "validation": ended.get("validation")}
    record |= {"steps": state.step, "seconds": round(state.seconds, 1), "parameters": model.parameter_count}
    record |= {"threads": torch.get_num_threads(), "processes": trainer.group.world_size}
    record |= {"confusion": evaluation.confusion, "mistakes": mistakes}
    record["calibration"] = evaluation.calibration()
    if isinstance(data, Texts) and (reference := baseline(data, log)) is not None:
        record["baseline"] = reference
    files, result = {**_start_files(prepared), METRICS: _metrics_lines(state)}, to_json_bytes(record)
    # The result last: with it the run is finished, and all that the manifest lists is there.
    listed = manifest_bytes({**files, RESULT: result})
    for name, content in {**files, MANIFEST: listed, RESULT: result}.items():
        write_atomic(folder / name, content)
    tested = f"test accuracy {evaluation.accuracy:.2%} of {len(evaluation.labels):,}"
    log(f"{tested}, after {state.step:,} steps in {format_duration(state.seconds)}.")
    if reference := record.get("baseline"):
        log(f"{reference['name']}, on the same texts: {reference['accuracy']:.2%}")
    return Result(folder, record, state.metrics, data)


def _describe(trainer: Trainer, folder: Path, state: TrainState) -> str:
    run, total, count = trainer.run, trainer.total_steps, trainer.group.world_size
    info, epochs = trainer.prepared.info, f"{run.epochs} epoch{'s' if run.epochs > 1 else ''}"
    model = f"{type(trainer.model).__name__}, {trainer.model.parameter_count:,} parameters"
    parts = f"{info.counts['training']:,} to train on, {info.counts['validation']:,} to validate"
    steps = f"from step {state.step:,} of {total:,}" if state.step else f"in {total:,} steps"
    batches = f"batches of {run.batch_size}" + (f", {count} processes" if count > 1 else "")
    return f"{folder}: {model}, on {info.name} ({parts}): {epochs} {steps}, {batches}"


def _check_finite(model: Model, state: TrainState, folder: Path) -> None:
    """A checkpoint of parameters that are not finite would push out the good ones."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise DivergedError(
                f"{name} is not finite after step {state.step:,}, so {folder} keeps its earlier checkpoints."
            )


def _start_files(prepared: PreparedRun) -> dict[str, bytes]:
    """The files that a run begins with."""
    files = {CONFIG: run_to_json(prepared.run).encode(), DATA: to_json_bytes(asdict(prepared.info))}
    return files | ({TOKENIZER: prepared.tokenizer.to_bytes()} if prepared.tokenizer else {})


def _metrics_lines(state: TrainState) -> bytes:
    # Whole every time: nobody ever meets half a line, or lines of steps that were taken back.
    return "".join(json.dumps(line) + "\n" for line in state.metrics).encode()


def _rebuild_model(folder: Path, group: DistributedContext, log: Log) -> None:
    """Write a damaged model of a finished run again, from its last checkpoint: the same to the bit."""
    path = folder / MODEL_FOLDER
    try:
        refuse_links(path, folder)
        from_pretrained(path)
    except HeadworkError as error:
        steps, checkpoint = Result.read(folder).record["steps"], checkpoints.latest(folder, log)
        there = os.path.lexists(path)
        if checkpoint is not None and checkpoints.step_of(checkpoint[0]) == steps:
            with lock_folder(folder, group):
                aside = checkpoints.set_aside(path).name if there else "missing"
                saved = run_folders.checkpoint_model_with_tokenizer(folder, *checkpoint)
                torch_model(saved).save_pretrained(path)
            log(f"! {path} was damaged ({aside}): rebuilt from the checkpoint of step {steps:,}.")
        elif there:
            why = "This finished run has no checkpoint of its last step to rebuild its model from."
            raise InputError(f"{error} {why}") from None


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Signals to stop, recorded here and obeyed after the step; a second one stops at once."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            # None: set by C code, which Python can neither see nor set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def catch(number: int, frame: Any) -> None:
        caught.append(number)
        restore()

    for number in before:
        signal.signal(number, catch)
    try:
        yield caught
    finally:
        restore()


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use so many threads inside the block (0: as many as before), and restore the number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def lock_folder(folder: Path, group: DistributedContext) -> Iterator[None]:
    """Nobody else trains in this folder; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    if not group.is_main:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}. Choose another folder with --out."
        ) from None
    with open_file(folder / ".lock", max_bytes=None, root=folder, for_locking=True) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"{folder}: another process trains in it. Wait for it, or stop it.") from None
        yield


# --- checks -------------------------------------------------------------------------------------
def check_new_folder(folder: Path, world_size: int) -> None:
    if (folder / CONFIG).exists():
        kept = checkpoints.step_folders(folder)
        step = f" (step {checkpoints.step_of(kept[-1]):,})" if kept else ""
        command = checkpoints.resume_command(folder, world_size)
        raise InputError(
            f"{folder} holds a run already{step}. Resume with: {command}, or choose another --out."
        )
    if folder.is_file():
        raise InputError(f"{folder} is a file. Choose a folder with --out.")
    if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder} is not empty and holds no run. Choose another folder with --out.")


def check_same_setup(
    folder: Path, state: Any, threads: int, group: DistributedContext, other_processes: bool, log: Log
) -> None:
    """Refuse a checkpoint of another number of processes; warn of what else may change the last bits."""
    if state["processes"] != group.world_size:
        changed = f"trained so far by {state['processes']} process(es), now there are {group.world_size}"
        if not other_processes:
            raise InputError(
                f"{folder}: {changed}. Sums would be rounded, and dropout drawn, "
                "in another order, so the run would no longer be the uninterrupted one. "
                "Start as many, or accept it with --other-processes."
            )
        log(f"! {changed}: from here on the run is no longer reproducible to the bit.")
    threads = threads or torch.get_num_threads()
    if state["threads"] != threads:
        log(
            f"! trained so far with {state['threads']} threads, now with {threads}: "
            f"sums may be rounded differently. For the same bits set OMP_NUM_THREADS={state['threads']}."
        )
    if (before := state["torch"]) != (now := torch.__version__):
        log(f"! trained so far with torch {before}, now with {now}: the last bits may differ.")


def check_data(folder: Path, before: run_folders.DataInfo, now: run_folders.DataInfo) -> None:
    if before.digest != now.digest:
        raise InputError(
            f"{folder}: the data '{now.name}' is not what the run was trained on (its digest differs). "
            "Restore the same files, or train a new run."
        )
    if before.tokenizer != now.tokenizer:
        raise InputError(
            f"{folder / TOKENIZER}: damaged or changed: it is not the tokenizer that the run began with."
        )
