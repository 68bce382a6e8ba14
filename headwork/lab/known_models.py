"""The models that "Look inside" knows: of the package, runs of this machine, and those opened in the page."""

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwork.errors import InputError, TooLarge, check_all_known, unknown_name
from headwork.inspection.model_folders import PREPROCESSOR, ModelSource, open_model
from headwork.lab.foreign import open_foreign
from headwork.lab.look_inside import FOREIGN_PREFIX
from headwork.lab.pictures import MAX_SIDE, decode_base64
from headwork.model_files import CONFIG, MANIFEST, PARAMETERS, TOKENIZER, refuse_pickles
from headwork.training.run_folders import DATA, METRICS, MODEL_FOLDER, PACKAGED_NAMES, RESULT

MAX_OPENED, MAX_MODEL = 3, 24_000_000  # models of one's own, and the bytes of each
MAX_NUMBERS = 50_000_000  # that a model has on the way, on one input
RUNS, RUN_PREFIX, MAX_RUNS = Path("runs"), "run ", 100
OPENED: "OrderedDict[str, ModelSource]" = OrderedDict()
RUN_FILES = (CONFIG, DATA, METRICS, RESULT, MANIFEST, TOKENIZER, PREPROCESSOR)
MODEL_FILES = (CONFIG, PARAMETERS, MANIFEST, TOKENIZER)
KNOWN_FILES = {*RUN_FILES, *MODEL_FILES, *(f"{MODEL_FOLDER}/{name}" for name in MODEL_FILES)}


def run_names() -> list[str]:
    """The finished runs of this machine, in the folder where Headwork was started."""
    return sorted(path.parent.name for path in RUNS.glob(f"*/{RESULT}"))[:MAX_RUNS]


@lru_cache(maxsize=MAX_OPENED + len(PACKAGED_NAMES))
def _open(folder: str | Path, _written: int = 0) -> ModelSource:
    source = open_model(folder, on_torch=False)
    check_showable(source)
    return source


def find_model(name: str) -> ModelSource:
    """A model of the package, a run or a foreign model of this machine, or one that was opened; no path."""
    if name in PACKAGED_NAMES:
        return _open(name)
    if name.startswith(FOREIGN_PREFIX):
        return open_foreign(name)
    if name in OPENED:
        return OPENED[name]
    run = name.removeprefix(RUN_PREFIX)
    if name.startswith(RUN_PREFIX) and run in run_names():
        return _open(RUNS / run, (RUNS / run / RESULT).stat().st_mtime_ns)
    if name.startswith("own "):
        raise InputError("This model is no longer open. Choose its files again.")
    raise unknown_name("model", name, PACKAGED_NAMES)


def open_files(files: Mapping[str, str], others: list[str]) -> str:
    """Open a model from the files of its folder (base64, by name), checked as every folder is; its name here.

    ``others`` are the names of files that were not sent, so that a pickle is refused by its name.
    """
    if PARAMETERS not in files and f"{MODEL_FOLDER}/{PARAMETERS}" not in files:
        for name in others:
            refuse_pickles(Path(Path(name).name))
        raise InputError(
            f"No {PARAMETERS} among the files. Choose the folder of a run, or one that save_pretrained or "
            "the transformers library wrote."
        )
    check_all_known("file of a model", files, sorted(KNOWN_FILES))
    contents = {name: decode_base64(text, name, MAX_MODEL) for name, text in files.items()}
    if sum(map(len, contents.values())) > MAX_MODEL:
        raise TooLarge(f"Files of more than {MAX_MODEL:,} bytes together. Use: headwork inspect FOLDER")
    with tempfile.TemporaryDirectory(prefix="headwork-") as temporary:
        folder = Path(temporary) / "model"
        (folder / MODEL_FOLDER).mkdir(parents=True)
        for name, data in contents.items():
            (folder / name).write_bytes(data)
        if not any((folder / MODEL_FOLDER).iterdir()):
            (folder / MODEL_FOLDER).rmdir()
        try:
            source = open_model(folder, on_torch=False)
        except InputError as error:
            raise InputError(
                str(error).replace(f"{folder}/", "").replace(str(folder), "the folder")
            ) from None
    check_showable(source)
    digest = hashlib.sha256(b"".join(hashlib.sha256(contents[name]).digest() for name in sorted(contents)))
    name = f"own {digest.hexdigest()[:12]}"
    OPENED[name] = source
    while len(OPENED) > MAX_OPENED:
        OPENED.popitem(last=False)
    return name


def check_showable(source: ModelSource) -> None:
    """Refuse a model that this screen cannot show."""
    if source.input_kind not in ("images", "texts"):
        raise InputError("This screen shows classifiers of images and of texts. Use: headwork inspect FOLDER")
    size = source.image_shape[1] if source.input_kind == "images" else 0
    if size > MAX_SIDE:
        raise TooLarge(f"Images of {size} pixels; here at most {MAX_SIDE}. Use: headwork inspect FOLDER")
    if source.array_model is None:
        return
    config: Any = source.array_model.config
    of_patches = source.input_kind == "texts" or hasattr(config, "patch_size")
    if not of_patches or not hasattr(config, "heads") or getattr(config, "attention", "") == "linear":
        name = source.array_model.definition.name
        raise InputError(f"This {name} has no attention weights to look at. Choose a transformer.")
    check_size(source, (size // config.patch_size) ** 2 + 1 if size else 1)


def check_size(source: ModelSource, tokens: int) -> None:
    """Refuse a model whose numbers on so many tokens, weights and activations, would fill the memory."""
    config = source.array_model.config
    numbers = config.depth * tokens * (config.heads * tokens + 4 * (config.width + config.hidden))
    if numbers > MAX_NUMBERS:
        raise TooLarge(
            f"On {tokens:,} tokens this model has about {numbers:,} weights and activations; at most "
            f"{MAX_NUMBERS:,} are handled here. Use: headwork inspect FOLDER"
        )
