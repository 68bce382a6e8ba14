"""Models of other libraries that are on this machine, for "Look inside" with the server.

Listed is what is there: in the caches of Headwork and of Hugging Face, and what was offered when the server
was started. Nothing is fetched, and a page can only name what stands in the list. torch is imported when a
model is opened that needs it.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwork.checkpoint_files import MANIFEST, PARAMETERS
from headwork.errors import InputError, unknown
from headwork.files import cache_folder
from headwork.inspection.model_folders import (
    DEFAULT_MEAN_STD,
    ModelSource,
    open_model,
    read_settings,
    transformers_class,
)
from headwork.lab.inside import FOREIGN
from headwork.lab.pictures import MAX_SIDE
from headwork.loading.folders import FAMILIES
from headwork.training.folders import MODEL

MAX_LISTED, MAX_BYTES = 100, 2_000_000_000
OFFERED: dict[str, Path | ModelSource] = {}
REMEDIES = {"torch": 'pip install ".[train]"'}


@dataclass(frozen=True)
class Foreign:
    """A model: where it is, the library that builds it (none: we read it), and what is missing for that."""

    title: str
    path: Path = Path()
    library: str = ""
    missing: str = ""


def offer(
    title: str,
    model: Any,
    *,
    size: int = 0,
    mean: Sequence[float] = DEFAULT_MEAN_STD,
    std: Sequence[float] = DEFAULT_MEAN_STD,
    classes: Sequence[str] = (),
) -> None:
    """Add a model to the list: a folder, or a torch module for images of ``size`` pixels.

    ``mean`` and ``std`` are those of its images, a number per channel.
    """
    if isinstance(model, (str, Path)):
        if not Path(model).is_dir():
            raise InputError(f"{model}: no such folder. Give that of a model.")
        OFFERED[title] = Path(model)
        return
    if not 0 < size <= MAX_SIDE:
        raise InputError(f"{title}: images of {size} pixels. Expected a size from 1 to {MAX_SIDE}.")
    moments = tuple(mean), tuple(std)
    OFFERED[title] = ModelSource(Path(title), None, model, tuple(classes), *moments, size=size)


# --- which there are ------------------------------------------------------------------------------------
def foreign_models() -> dict[str, Foreign]:
    """The models by the names that a page gives them; inside a page there are none."""
    if sys.platform == "emscripten":
        return {}
    offered = [
        Foreign(title) if isinstance(model, ModelSource) else _in_folder(title, model)
        for title, model in OFFERED.items()
    ]
    listed = [*offered, _minilm(), *_of_hugging_face()]
    return {f"{FOREIGN}{one.title}": one for one in listed[:MAX_LISTED]}


def _minilm() -> Foreign:
    folder = cache_folder() / "minilm"
    if not (folder / PARAMETERS).is_file():
        return Foreign("MiniLM", missing="not on this machine: headwork data get minilm")
    return _in_folder("MiniLM", folder)


def _of_hugging_face() -> Iterator[Foreign]:
    """The newest snapshot of each model."""
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    home = os.environ.get("HF_HOME") or usual
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    for repository in sorted(hub.glob("models--*")):
        snapshots = sorted(repository.glob("snapshots/*/config.json"), key=lambda path: path.lstat().st_mtime)
        if snapshots:
            yield _in_folder(repository.name[8:].replace("--", "/"), snapshots[-1].parent)


def _in_folder(title: str, folder: Path) -> Foreign:
    try:
        settings = read_settings(folder)
    except InputError:
        return Foreign(title, folder, missing="its config.json cannot be read")
    library = (
        "transformers" if transformers_class(settings) else "timm" if "pretrained_cfg" in settings else ""
    )
    ours = settings.get("model_type") in FAMILIES or (folder / MANIFEST).exists()
    parameters = [path for path in (folder / PARAMETERS, folder / MODEL / PARAMETERS) if path.is_file()]
    if not library and not ours:
        missing = "of another kind than those shown here: classifiers, language models, BERT"
    elif not parameters:
        missing = f"no {PARAMETERS} on this machine, and pickles are not read"
    elif parameters[0].stat().st_size > MAX_BYTES:
        missing = f"more than {MAX_BYTES // 10**9} GB"
    else:
        missing = _not_installed(library)
    return Foreign(title, folder, library, missing)


def _not_installed(library: str) -> str:
    needed = ("torch", library) if library else ()
    lacking = next((name for name in needed if find_spec(name) is None), "")
    return lacking and f"needs {lacking}: {REMEDIES.get(lacking, f'pip install {lacking}')}"


# --- one of them ------------------------------------------------------------------------------------------
def open_foreign(name: str) -> ModelSource:
    """A model of the list, opened."""
    listed = foreign_models()
    if name not in listed:
        raise unknown("model", name, listed)
    one = listed[name]
    if one.missing:
        raise InputError(f"{one.title}: {one.missing}.")
    offered = OFFERED.get(one.title)
    return offered if isinstance(offered, ModelSource) else _opened(one)


@lru_cache(maxsize=2)
def _opened(one: Foreign) -> ModelSource:
    from headwork.lab.known_models import check_shown

    try:
        if one.library == "timm":
            from headwork.inspection.libraries import timm_source

            source = timm_source(one.path)
        else:
            source = open_model(one.path, torch=None if one.library else False)
        check_shown(source)
    except InputError as error:
        raise InputError(str(error).replace(str(one.path), one.title)) from None
    return source
