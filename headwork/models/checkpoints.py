"""Models as checkpoints: the folders of ``headwork.checkpoint_files`` as torch models, and back."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwork.checkpoint_files import (
    BFLOAT16,
    CONFIG,
    FORMAT,
    PARAMETERS,
    TOKENIZER,
    as_json,
    read_folder,
    read_tensors,
    write_folder,
)
from headwork.errors import InputError, TooLarge, sizes_in_words, unknown
from headwork.files import parse_json
from headwork.mechanisms.configs import current_names
from headwork.models.model import MODELS, Model
from headwork.tokenizer_files import read_tokenizer_json

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
    """What a safetensors file holds, in its own precision, every number finite."""
    result = {}
    for name, values in read_tensors(data, where, widen=False).items():
        # A copy, since the file's bytes are not to be written.
        brief = values.dtype == BFLOAT16
        own = torch.from_numpy(values.view(np.int16).copy() if brief else values.copy())
        result[name] = own.view(torch.bfloat16) if brief else own
    return result
