"""The folder of a model, ours or the transformers library's, every byte verified."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from headwork.checkpoint_files import (
    CONFIG,
    FORMAT,
    PARAMETERS,
    TOKENIZER,
    is_foreign,
    read_folder,
    read_tensors,
)
from headwork.errors import InputError, unknown
from headwork.files import parse_json
from headwork.loading.other_libraries import read_transformers
from headwork.loading.saved import Saved, check_parameters
from headwork.mechanisms.configs import current_names
from headwork.mechanisms.definitions import DEFINITIONS, Definition
from headwork.tokenizer_files import read_tokenizer_json

MAX_DEPTH = 1000  # even shapes alone take time to lay out


def read_saved(folder: str | Path) -> Saved:
    """The model of a folder that ``save_pretrained`` or the transformers library wrote."""
    path = Path(folder)
    if is_foreign(path):
        return read_transformers(path)
    files = read_folder(path, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    where = path / PARAMETERS
    state = read_tensors(files[PARAMETERS], where)
    data = parse_json(files[CONFIG], path / CONFIG)
    definition, config = _read_config(data, path / CONFIG, max_layers=len(state))
    tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER) if TOKENIZER in files else None
    return Saved(definition, config, check_parameters(definition, config, state, where), tokenizer)


def _read_config(data: Any, where: Path, *, max_layers: int) -> tuple[Definition, Any]:
    """The definition and the config of a config.json."""
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("config"), dict):
        raise InputError(f"{where}: not the config of a Headwork model ('format' is not '{FORMAT}').")
    if str(data.get("model")) not in DEFINITIONS:
        raise unknown(f"model in {where}", data.get("model"), DEFINITIONS)
    definition = DEFINITIONS[data["model"]]
    known = [entry.name for entry in fields(definition.config_class)]
    settings = current_names(definition.config_class, data["config"])
    for name in settings:
        if name not in known:
            raise unknown(f"field of {definition.config_class.__name__} in {where}", name, known)
    depth = settings.get("depth", 1)
    if isinstance(depth, int) and depth > min(max_layers, MAX_DEPTH):
        raise InputError(f"{where}: depth {depth:,}, but {PARAMETERS} holds only {max_layers} tensors.")
    return definition, definition.config_class(**settings)
