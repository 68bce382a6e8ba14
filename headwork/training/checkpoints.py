"""Checkpoints of a run: a new folder per step, written whole, verified by SHA-256 when read.

``state.json`` holds the step and everything that is not a tensor; ``model.safetensors`` and
``optimiser.safetensors`` the rest. Random numbers need no state: each step draws its own from (seed, step).
The schedule and the position in the epoch follow from the step as well. So a resumed run is the uninterrupted
one, to the bit.
"""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwork import model_files
from headwork.data.fetching import Log
from headwork.errors import HeadworkError, InputError
from headwork.files import parse_json, read_bytes, refuse_links
from headwork.training.schemas import check_metrics, check_schema

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from headwork.models import Model

STATE, OPTIMISER = "state.json", "optimiser.safetensors"
MAX_STATE = 100_000_000  # bytes: it holds the metrics so far
FOLDER = "checkpoints"
Files = dict[str, bytes]


def build_checkpoint(state: dict[str, Any], model: Model, optimiser: torch.optim.Optimizer) -> Files:
    """The files of a checkpoint."""
    from headwork.models.saving import as_safetensors

    state_items = optimiser.state_dict()["state"].items()
    moments = {f"{number}.{name}": value for number, entry in state_items for name, value in entry.items()}
    return {
        STATE: model_files.to_json_bytes(state),
        model_files.PARAMETERS: as_safetensors(model.state_dict()),
        OPTIMISER: as_safetensors(moments),
    }


def restore_optimiser(files: Files, where: Path, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Restore the moments; returns the rest of the state."""
    from headwork.models.saving import as_tensors

    parameters = [parameter for entry in optimiser.param_groups for parameter in entry["params"]]
    entries: dict[int, dict[str, Tensor]] = {}
    for name, value in as_tensors(model_files.read_tensors(files[OPTIMISER], where / OPTIMISER)).items():
        number, _, moment = name.partition(".")
        known = number.isdecimal() and int(number) < len(parameters)
        if not known or value.shape not in ((), parameters[int(number)].shape):
            raise InputError(f"{where / OPTIMISER}: '{name}' is of no parameter of this model.")
        entries.setdefault(int(number), {})[moment] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": entries})
    return read_state(files, where)


def read_state(files: Files, where: Path) -> dict[str, Any]:
    """What a checkpoint holds besides tensors."""
    state: dict[str, Any] = parse_json(files[STATE], where / STATE, max_bytes=MAX_STATE)
    check_schema(state, "state", where / STATE)
    check_metrics(state["metrics"], where / STATE)
    return state


def save(run_folder: Path, step: int, files: Files, *, keep: int) -> Path:
    """Write the checkpoint of a step, then drop all but the last few."""
    target = run_folder / FOLDER / f"step-{step:08d}"
    refuse_links(target, run_folder)
    if target.exists():
        # Written before, by a run that was killed and resumed from an earlier step: the same to the bit.
        return target
    model_files.write_folder(target, files)
    for old in step_folders(run_folder)[:-keep]:
        # Out of sight in one move, so that nobody who reads meets half of it and calls it damaged.
        with suppress(OSError):
            shutil.rmtree(old.rename(old.with_name(f".{old.name}.old")), ignore_errors=True)
    return target


def latest(run_folder: Path, log: Log, *, repair: bool = False) -> tuple[Path, Files] | None:
    """The newest whole checkpoint; None where there is none yet. Damaged ones are skipped, with a warning.

    Only the holder of the run's lock may ``repair``: set damaged ones aside, and remove what a killed process
    left. Others read during training, and must change nothing.
    """
    refuse_links(run_folder / FOLDER, run_folder)
    for unfinished in (run_folder / FOLDER).glob(".step-*") if repair else ():
        shutil.rmtree(unfinished, ignore_errors=True)
    damaged: list[Path] = []
    while left := [path for path in step_folders(run_folder) if path not in damaged]:
        newest = left[-1]
        try:
            return newest, _read_verified(newest)
        except (HeadworkError, OSError) as error:
            if not os.path.lexists(newest):
                continue  # dropped meanwhile by the process that trains: there are newer ones
            damaged.append(newest)
            moved = f" It is now {set_aside(newest).name}." if repair else ""
            log(f"! the checkpoint of step {step_of(newest):,} is damaged and not used: {error}{moved}")
    if damaged:
        raise InputError(
            f"{run_folder}: none of its {len(damaged)} checkpoints is intact (see above). "
            "Train again into another folder."
        )
    return None


def unfinished_state(run_folder: Path) -> dict[str, Any] | None:
    """The state.json of the newest checkpoint in which it is whole; None also for a run that is finished."""
    for folder in () if (run_folder / "result.json").exists() else reversed(step_folders(run_folder)):
        with suppress(HeadworkError, OSError):
            return read_state(_read_verified(folder, STATE), folder)
    return None


def _read_verified(folder: Path, name: str = "") -> Files:
    refuse_links(folder, folder.parents[1])
    files = model_files.read_folder(folder, needed=(STATE, model_files.PARAMETERS, OPTIMISER), file_name=name)
    # The manifest lists the others but not itself: it must be exactly what is written.
    manifest = read_bytes(folder / model_files.MANIFEST, root=folder)
    if model_files.to_json_bytes(parse_json(manifest, folder / model_files.MANIFEST)) != manifest:
        raise InputError(f"{folder / model_files.MANIFEST}: not as it was written.")
    return files


def resume_command(run_folder: Path, world_size: int) -> str:
    """The command that resumes a run: with as many processes as before, or it would be refused.

    >>> resume_command(Path("runs/v10"), 1), resume_command(Path("runs/v10"), 2)
    ('headwork resume runs/v10', 'torchrun --nproc-per-node 2 -m headwork resume runs/v10')
    """
    if world_size == 1:
        return f"headwork resume {run_folder}"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
    nodes = f"--nnodes {world_size // here} ... " if here < world_size else ""
    return f"torchrun {nodes}--nproc-per-node {here} -m headwork resume {run_folder}"


def save_failure(error: InputError, run_folder: Path, step: int, world_size: int) -> InputError:
    """Why a step was not saved, in one line, and what is left."""
    reason = str(error).rpartition(": ")[2].split(". ")[0]
    kept = step_folders(run_folder)
    last = "There is none yet"
    if kept:
        last = f"The last good checkpoint is step {step_of(kept[-1]):,}, untouched"
    command = resume_command(run_folder, world_size)
    return InputError(
        f"{run_folder}: step {step:,} cannot be saved: {reason}. "
        f"{last}. Fix that, then resume with: {command}"
    )


def step_folders(run_folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(path for path in (run_folder / FOLDER).glob("step-*") if path.name[5:].isdecimal())


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def set_aside(folder: Path) -> Path:
    """Rename what is damaged."""
    names = (folder.with_name(f"damaged-{folder.name}-{count}") for count in itertools.count(1))
    try:
        return folder.rename(next(path for path in names if not path.exists()))
    except OSError as error:
        raise InputError(f"{folder}: damaged, and cannot be moved aside: {error.strerror}.") from None
