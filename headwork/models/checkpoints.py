"""Checkpoints: one folder per model, verified whenever it is read.

``config.json`` (which model, and its config), ``model.safetensors`` (the parameters), ``tokenizer.json``
where the model has one, and ``manifest.json`` with the size and SHA-256 of each. A folder is written whole
under another name and renamed, so nobody ever reads half of one. Nothing is unpickled: that can run code.
"""

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwork.errors import HeadworkError, InputError, TooLarge, sizes_in_words, unknown
from headwork.files import open_file, parse_json, read_text, write_atomic
from headwork.libc import swap_directories
from headwork.mechanisms.configs import current_names
from headwork.models.model import MODELS, Model
from headwork.tokenizer_files import read_tokenizer_json

FORMAT = "headwork checkpoint 1"
MANIFEST, CONFIG = "manifest.json", "config.json"
PARAMETERS, TOKENIZER = "model.safetensors", "tokenizer.json"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
MAX_UNSAVED_VALUES = 2**24  # numbers in tables that a config asks for and no file holds, such as sinusoids
MAX_DEPTH = 1000  # even shapes alone take time to lay out


# --- a model ----------------------------------------------------------------------------------
def save_pretrained(model: Model, folder: str | Path) -> Path:
    """Write a model into a folder of its own; an older checkpoint there is replaced once this one is whole.

    >>> import tempfile; from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     saved = save_pretrained(ConvolutionalClassifier(ConvolutionalConfig(width=2)), f"{parent}/small")
    ...     sorted(path.name for path in saved.iterdir())
    ['config.json', 'manifest.json', 'model.safetensors']
    """
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise unknown("model to save", name, MODELS)
    state = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    again = empty_model(type(model), model.config, state, name)
    check_tensors(name, again.state_dict(), state, "Only what its config describes can be read again.")
    config = {"format": FORMAT, "model": name, "config": asdict(model.config)}
    return write_model(folder, config, state, model.tokenizer)


def write_model(folder: str | Path, config: Any, state: dict[str, Tensor], tokenizer: Any) -> Path:
    """Write the config and the parameters, and the tokenizer if there is one."""
    from safetensors.torch import save

    files = {CONFIG: as_json(config), PARAMETERS: save(state, {"format": "pt"})}
    if tokenizer is not None:
        files[TOKENIZER] = tokenizer.to_str(pretty=True).encode()
    return write_folder(folder, files)


def from_pretrained(folder: str | Path) -> Model:
    """The model of a folder, every byte verified, ready to use (in eval mode)."""
    path = Path(folder)
    files = read_folder(path, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    state = tensors(files[PARAMETERS], path / PARAMETERS)
    kind, config = _read_config(
        parse_json(files[CONFIG], path / CONFIG), path / CONFIG, max_layers=len(state)
    )
    where = str(path / PARAMETERS)
    model = fill(empty_model(kind, config, state, where), state, where)
    if TOKENIZER in files:
        model.tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER)
    return model


class SkipInitialisation(TorchFunctionMode):
    """Makes parameters without random numbers, since others replace them at once, and refuses a config that
    asks for more than ``max_numbers`` numbers."""

    def __init__(self, max_numbers: int) -> None:
        super().__init__()
        self.left = max_numbers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.empty, torch.zeros, torch.ones, torch.randn, torch.arange):
            count = math.prod(size for size in args if isinstance(size, int))
            self.left -= count
            if self.left < 0:
                raise TooLarge(f"the config asks for {count:,} numbers at once, more than its file holds.")
        if func is torch.randn:
            func = torch.empty
        if func is torch.Tensor.uniform_:
            return args[0]
        return func(*args, **(kwargs or {}))


def empty_model(kind: type[Model], config: Any, state: Mapping[str, Tensor], where: str) -> Model:
    """A model of that config for these parameters to fill."""
    try:
        with SkipInitialisation(sum(value.numel() for value in state.values()) + MAX_UNSAVED_VALUES):
            return kind(config)
    except TooLarge as error:
        raise TooLarge(f"{where}: {error}") from None


def fill(model: Model, state: Mapping[str, Tensor], where: str) -> Model:
    """The model with these parameters, in their own precision; errors name what does not fit."""
    state = model.current_parameters(state)
    check_tensors(where, model.state_dict(), state)
    model.load_state_dict(state, assign=True)
    kinds = {value.dtype for value in state.values()}
    return model.to(kinds.pop()).eval() if len(kinds) == 1 else model.eval()


def check_tensors(
    where: str, expected: Mapping[str, Tensor], state: Mapping[str, Tensor], advice: str = ""
) -> None:
    """Refuse a missing tensor, an unexpected one, or one of the wrong shape, by its name."""
    missing, unexpected = expected.keys() - state.keys(), state.keys() - expected.keys()
    for fault, names in (("is missing", missing), ("is not expected", unexpected)):
        if names:
            others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise InputError(f"{where}: the tensor '{min(names)}' {fault}{others}. {advice}".rstrip())
    for name, like in expected.items():
        if state[name].dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            raise InputError(
                f"{where}: the tensor '{name}' holds {state[name].dtype}, expected decimal numbers."
            )
        if state[name].shape != like.shape:
            raise InputError(
                f"{where}: the tensor '{name}' is {sizes_in_words(state[name].shape, '')}, expected "
                f"{sizes_in_words(like.shape, '')}. {advice}".rstrip()
            )


def _read_config(data: Any, where: Path, *, max_layers: int) -> tuple[type[Model], Any]:
    """The class and the config of a config.json."""
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("config"), dict):
        raise InputError(f"{where}: not the config of a Headwork model ('format' is not '{FORMAT}').")
    if str(data.get("model")) not in MODELS:
        raise unknown(f"model in {where}", data.get("model"), MODELS)
    kind = MODELS[data["model"]]
    known = [entry.name for entry in fields(kind.config_class)]
    settings = current_names(kind.config_class, data["config"])
    for name in settings:
        if name not in known:
            raise unknown(f"field of {kind.config_class.__name__} in {where}", name, known)
    depth = settings.get("depth", 1)
    if isinstance(depth, int) and depth > min(max_layers, MAX_DEPTH):
        raise InputError(f"{where}: depth {depth:,}, but {PARAMETERS} holds only {max_layers} tensors.")
    return kind, kind.config_class(**settings)


def tensors(data: bytes, where: Path) -> dict[str, Tensor]:
    """What a safetensors file holds, every number finite."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        state = dict(load(data))
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"{where}: not a whole safetensors file ({error}). Fetch or save it again."
        ) from None
    for name, value in state.items():
        decimals = value.is_floating_point() and value.itemsize > 1
        # The sum is quick, and finite only if all are; that of large numbers may overflow: look closer then.
        if decimals and not bool(value.sum().isfinite()) and not bool(value.isfinite().all()):
            raise InputError(
                f"{where}: the tensor '{name}' holds numbers that are not finite (NaN or infinity), so "
                "nothing could be predicted. Fetch or train it again."
            )
    return state


# --- a folder with a manifest -----------------------------------------------------------------
def as_json(data: Any) -> bytes:
    return (json.dumps(data, indent=2) + "\n").encode()


def manifest(files: Mapping[str, bytes]) -> bytes:
    """The size and SHA-256 of each file, as manifest.json lists them."""
    listed = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    }
    return as_json({"format": FORMAT, "files": listed})


def write_folder(folder: str | Path, files: Mapping[str, bytes]) -> Path:
    """Write files and their manifest into a new folder, then rename it to its own name in one step."""
    if os.path.islink(folder):
        raise InputError(f"{folder}: a link, which is not followed. Choose another folder.")
    target = Path(folder).resolve()
    _check_replaceable(target)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        for name, data in files.items():
            write_atomic(fresh / name, data)
        write_atomic(fresh / MANIFEST, manifest(files))
        _sync(fresh)
        _put(fresh, target)
        _sync(target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}. Choose another folder.") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def read_folder(
    folder: str | Path, *, needed: tuple[str, ...], optional: tuple[str, ...] = (), only: str = ""
) -> dict[str, bytes]:
    """The files of such a folder, or one of them, compared with the manifest before anybody looks inside."""
    path = Path(folder)
    refuse_pickles(path, needed)
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Give the folder that save_pretrained wrote.")
    listed = _manifest(path, (*needed, *optional))
    for name in needed:
        if name not in listed:
            raise InputError(f"{path / MANIFEST}: {name} is not listed, but a checkpoint needs it.")
    for name in optional:
        if (path / name).exists() and name not in listed:
            raise InputError(
                f"{path / MANIFEST}: {name} is there but not listed: it came from elsewhere. Remove it."
            )
    return {name: _verified(path / name, entry) for name, entry in listed.items() if only in ("", name)}


def refuse_pickles(path: Path, needed: tuple[str, ...] = ()) -> None:
    """A pickle is refused wherever it is offered as the model."""
    pickles = [path] if path.suffix in PICKLES else []
    if path.is_dir() and not all((path / name).exists() for name in needed):
        pickles += sorted(file for file in path.iterdir() if file.suffix in PICKLES)
    if pickles:
        raise InputError(
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so it is not read. Ask for "
            "the safetensors file. If you trust it, convert it yourself: load it with torch.load(..., "
            "weights_only=True) and save it with safetensors.torch.save_file(state, 'model.safetensors')."
        )


def _manifest(path: Path, known: tuple[str, ...]) -> dict[str, Any]:
    where = path / MANIFEST
    if not where.exists():
        advice = " It looks like one of the transformers library: read it with from_transformers."
        raise InputError(
            f"{path}: no {MANIFEST}, so this is no checkpoint of Headwork.{advice * _foreign(path)}"
        )
    data = parse_json(read_text(where, root=path), where)
    whole = isinstance(data, dict) and data.keys() == {"format", "files"}
    if not whole or not isinstance(data["files"], dict):
        raise InputError(f"{where}: expected 'format' and 'files', and nothing else.")
    if data["format"] != FORMAT:
        raise InputError(f"{where}: format {data['format']!r}, expected '{FORMAT}'.")
    listed: dict[str, Any] = data["files"]
    for name, entry in listed.items():
        if name not in known:
            raise unknown(f"file in {where}", name, known)
        if not isinstance(entry, dict) or entry.keys() != {"bytes", "sha256"}:
            raise InputError(f"{where}: {name} needs 'bytes' and 'sha256', and nothing else.")
    return listed


def _foreign(path: Path) -> bool:
    try:
        return "model_type" in json.loads(read_text(path / CONFIG))
    except (HeadworkError, ValueError, TypeError):
        return False


def _verified(path: Path, entry: Mapping[str, Any]) -> bytes:
    if not path.exists():
        raise InputError(
            f"{path}: missing, though the manifest lists it. Fetch or save the checkpoint again."
        )
    expected = entry["bytes"]
    try:
        with open_file(path, max_bytes=None, root=path.parent) as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected:
                word = "truncated" if isinstance(expected, int) and size < expected else "the wrong size"
                raise InputError(
                    f"{path}: {word}: {size:,} bytes, the manifest says {expected}. Fetch it again."
                )
            data = file.read()
    except (OSError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read: {error or 'too large for the memory'}.") from None
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise InputError(f"{path}: damaged or changed: its SHA-256 is not the manifest's. Fetch it again.")
    return data


def _check_replaceable(target: Path) -> None:
    """Only an older checkpoint may be replaced, and only if nobody put anything else beside it."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target} is a file. A checkpoint is a folder: choose another name.")
    others = sorted(
        p.name for p in target.iterdir() if p.name not in (MANIFEST, CONFIG, PARAMETERS, TOKENIZER)
    )
    if others or (any(target.iterdir()) and not (target / MANIFEST).exists()):
        reason = f"it holds {others[0]}" if others else f"it has no {MANIFEST}"
        raise InputError(
            f"{target} is no checkpoint of Headwork ({reason}), so it is not replaced. Choose another folder."
        )


def _put(fresh: Path, target: Path) -> None:
    """Rename to the target's name. An older folder is exchanged in one step where the system can, so that at
    every moment one of the two is there, whole; what ``fresh`` then holds is the old one."""
    if not target.exists():
        os.rename(fresh, target)
    elif not swap_directories(fresh, target):
        aside = fresh.with_name(f"{fresh.name}.old")
        os.rename(target, aside)
        try:
            os.rename(fresh, target)
        except OSError:
            os.rename(aside, target)
            raise
        os.rename(aside, fresh)


def _sync(folder: Path) -> None:
    """A rename is on the disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
