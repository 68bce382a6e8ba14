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

from headwork.errors import InputError, check_known
from headwork.files import cache_folder
from headwork.inspection.model_folders import (
    DEFAULT_MEAN_STD,
    ModelSource,
    open_model,
    read_settings,
    transformers_class,
)
from headwork.lab.look_inside import FOREIGN_PREFIX
from headwork.lab.pictures import MAX_SIDE
from headwork.loading.folders import FAMILIES
from headwork.model_files import MANIFEST, PARAMETERS
from headwork.training.run_folders import MODEL_FOLDER

MAX_LISTED, MAX_BYTES = 100, 2_000_000_000
OFFERED: dict[str, Path | ModelSource] = {}
REMEDIES = {"torch": 'pip install ".[train]"', "transformers": "pip install transformers"}


@dataclass(frozen=True)
class ListedModel:
    """A model: where it is, whether the transformers library builds it, and what is missing for that."""

    title: str
    path: Path = Path()
    by_library: bool = False
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
    OFFERED[title] = ModelSource(
        Path(title), module=model, classes=tuple(classes), mean=tuple(mean), std=tuple(std), size=size
    )


# --- which there are ------------------------------------------------------------------------------------
def foreign_models() -> dict[str, ListedModel]:
    """The models by the names that a page gives them; inside a page there are none."""
    if sys.platform == "emscripten":
        return {}
    offered = [
        ListedModel(title) if isinstance(model, ModelSource) else _model_in_folder(title, model)
        for title, model in OFFERED.items()
    ]
    listed = [*offered, _minilm(), *_hugging_face_models()]
    return {f"{FOREIGN_PREFIX}{one.title}": one for one in listed[:MAX_LISTED]}


def _minilm() -> ListedModel:
    folder = cache_folder() / "minilm"
    if not (folder / PARAMETERS).is_file():
        return ListedModel("MiniLM", missing="not on this machine: headwork data get minilm")
    return _model_in_folder("MiniLM", folder)


def _hugging_face_models() -> Iterator[ListedModel]:
    """The newest snapshot of each model."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{caches}/huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    for repository in sorted(hub.glob("models--*")):
        snapshots = sorted(repository.glob("snapshots/*/config.json"), key=lambda path: path.lstat().st_mtime)
        if snapshots:
            yield _model_in_folder(repository.name[8:].replace("--", "/"), snapshots[-1].parent)


def _model_in_folder(title: str, folder: Path) -> ListedModel:
    try:
        settings = read_settings(folder)
    except InputError:
        return ListedModel(title, folder, missing="its config.json cannot be read")
    by_library = bool(transformers_class(settings))
    ours = settings.get("model_type") in FAMILIES or (folder / MANIFEST).exists()
    paths = (folder / PARAMETERS, folder / MODEL_FOLDER / PARAMETERS)
    parameters = [path for path in paths if path.is_file()]
    needed = next((name for name in REMEDIES if by_library and find_spec(name) is None), "")
    missing = needed and f"needs {needed}: {REMEDIES[needed]}"
    if not by_library and not ours:
        missing = "of another kind than those shown here: classifiers, language models, BERT"
    elif not parameters:
        missing = f"no {PARAMETERS} on this machine, and pickles are not read"
    elif parameters[0].stat().st_size > MAX_BYTES:
        missing = f"more than {MAX_BYTES // 10**9} GB"
    return ListedModel(title, folder, by_library, missing)


# --- one of them ------------------------------------------------------------------------------------------
def open_foreign(name: str) -> ModelSource:
    """A model of the list, opened."""
    known = foreign_models()
    check_known("model", name, known)
    listed = known[name]
    if listed.missing:
        raise InputError(f"{listed.title}: {listed.missing}.")
    offered = OFFERED.get(listed.title)
    return offered if isinstance(offered, ModelSource) else _open(listed)


@lru_cache(maxsize=2)
def _open(listed: ListedModel) -> ModelSource:
    from headwork.lab.known_models import check_showable

    try:
        source = open_model(listed.path, on_torch=None if listed.by_library else False)
        check_showable(source)
    except InputError as error:
        raise InputError(str(error).replace(str(listed.path), listed.title)) from None
    return source
