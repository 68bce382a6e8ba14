"""Checkpoints of a run that never lie: a new folder a step, written whole, verified by SHA-256 when read.

``state.json`` holds the step and everything that is no tensor; ``model.safetensors`` and ``optimiser.safetensors`` the
rest. Random numbers need no state: each step draws its own from (seed, step). The schedule and the place in the epoch
follow from the step as well. So a resumed run is the uninterrupted one, to the bit.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwork.errors import HeadworkError, InputError
from headwork.models import Model
from headwork.models.checkpoints import (
    MANIFEST,
    PARAMETERS,
    as_json,
    parsed,
    read_folder,
    tensors,
    write_folder,
)

STATE, OPTIMISER = "state.json", "optimiser.safetensors"
FOLDER = "checkpoints"
Files = dict[str, bytes]


def packed(state: dict[str, Any], model: Model, optimiser: torch.optim.Optimizer) -> Files:
    """The files of a checkpoint."""
    from safetensors.torch import save

    moments = {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, entry in optimiser.state_dict()["state"].items()
        for name, value in entry.items()
    }
    parameters = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    return {STATE: as_json(state), PARAMETERS: save(parameters), OPTIMISER: save(moments)}


def restore(files: Files, where: Path, model: Model, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Put parameters and moments back in place; what else the checkpoint tells is returned."""
    parameters = tensors(files[PARAMETERS], where / PARAMETERS)
    model.load_state_dict(parameters)
    entries: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors(files[OPTIMISER], where / OPTIMISER).items():
        number, _, moment = name.partition(".")
        entries.setdefault(int(number), {})[moment] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": entries})
    state: dict[str, Any] = parsed(files[STATE], where / STATE)
    return state


def save(run_folder: Path, step: int, files: Files, *, keep: int) -> Path:
    """Write the checkpoint of a step, then drop all but the last few."""
    folder = run_folder / FOLDER
    place = folder / f"step-{step:08d}"
    if place.exists():
        # Written before, by a run that was killed and went on from an earlier step: the same to the bit.
        return place
    write_folder(place, files)
    for old in step_folders(run_folder)[:-keep]:
        # Out of sight in one move, so that nobody who reads meets half of it and calls it damaged.
        with suppress(OSError):
            shutil.rmtree(old.rename(old.with_name(f".{old.name}.old")), ignore_errors=True)
    return place


def latest(run_folder: Path, say: Callable[[str], None], *, mend: bool = False) -> tuple[Path, Files] | None:
    """The newest checkpoint that is whole; None where there is none yet. A damaged one is passed over, loudly.

    Only who holds the run's lock may ``mend``: set damaged ones aside, and clear away what a killed process left.
    Others read while the run goes on, and must change nothing.
    """
    for litter in (run_folder / FOLDER).glob(".step-*") if mend else ():
        shutil.rmtree(litter, ignore_errors=True)
    damaged: list[Path] = []
    while left := [place for place in step_folders(run_folder) if place not in damaged]:
        place = left[-1]
        try:
            return place, _read(place)
        except (HeadworkError, OSError) as error:
            if not place.exists():
                continue  # dropped meanwhile by the process that trains: there are newer ones
            damaged.append(place)
            told = f" It is now {_aside(place).name}." if mend else ""
            say(f"! the checkpoint of step {step_of(place):,} is damaged and not used: {error}{told}")
    if damaged:
        raise InputError(
            f"{run_folder}: none of its {len(damaged)} checkpoints is whole (see above). "
            "Train again into another folder."
        )
    return None


def _read(place: Path) -> Files:
    files = read_folder(place, needed=(STATE, PARAMETERS, OPTIMISER))
    # The manifest lists the others but not itself: it must be just what is written.
    manifest = (place / MANIFEST).read_bytes()
    if as_json(parsed(manifest, place / MANIFEST)) != manifest:
        raise InputError(f"{place / MANIFEST}: not as it was written.")
    return files


def going_on(run_folder: Path, processes: int) -> str:
    """The command that goes on with a run: as many processes as before, or it would be refused.

    >>> going_on(Path("runs/v10"), 1), going_on(Path("runs/v10"), 2)
    ('headwork resume runs/v10', 'torchrun --nproc-per-node 2 -m headwork resume runs/v10')
    """
    if processes == 1:
        return f"headwork resume {run_folder}"
    here = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    nodes = f"--nnodes {processes // here} ... " if here < processes else ""
    return f"torchrun {nodes}--nproc-per-node {here} -m headwork resume {run_folder}"


def not_saved(error: InputError, run_folder: Path, step: int, processes: int) -> InputError:
    """Why a step was not saved, in one line, and what is left."""
    reason = str(error).rpartition(": ")[2].split(". ")[0]
    kept = step_folders(run_folder)
    told = (
        f"The last good checkpoint is step {step_of(kept[-1]):,}, untouched" if kept else "There is none yet"
    )
    return InputError(
        f"{run_folder}: step {step:,} cannot be saved: {reason}. {told}. "
        f"Mend that, then go on with: {going_on(run_folder, processes)}"
    )


def step_folders(run_folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(path for path in (run_folder / FOLDER).glob("step-*") if path.name[5:].isdecimal())


def step_of(place: Path) -> int:
    return int(place.name.removeprefix("step-"))


def _aside(place: Path) -> Path:
    for count in range(1, 1000):
        aside = place.with_name(f"damaged-{place.name}-{count}")
        if not aside.exists():
            try:
                return place.rename(aside)
            except OSError as error:
                raise InputError(f"{place}: damaged, and cannot be moved aside: {error.strerror}.") from None
    raise InputError(f"{place}: damaged, and so were many before it. Is the disk failing?")
