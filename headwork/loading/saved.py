"""The folder of a model, every byte verified: its definition, its config, and parameters that fit them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headwork.checkpoint_files import (
    BFLOAT16,
    CONFIG,
    FORMAT,
    PARAMETERS,
    TOKENIZER,
    is_foreign,
    read_folder,
    read_tensors,
)
from headwork.errors import InputError, TooLarge, sizes_in_words, unknown
from headwork.files import parse_json
from headwork.mechanisms.configs import current_names
from headwork.mechanisms.definitions import DEFINITIONS, Definition
from headwork.mechanisms.parameters import flatten
from headwork.numbers import OperationCount, ShapeTensor
from headwork.tokenizer_files import PlainTokenizer, read_tokenizer_json

MAX_UNSAVED_VALUES = 2**24  # numbers in tables that a config asks for and no file holds, such as sinusoids
MAX_DEPTH = 1000  # even shapes alone take time to lay out
PRECISIONS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Saved:
    """A definition with its config and its parameters, by their names in saved files, in their precision."""

    definition: Definition
    config: Any
    parameters: Mapping[str, NDArray[Any]]
    tokenizer: PlainTokenizer | None = None


def read_saved(folder: str | Path) -> Saved:
    """The model of a folder that ``save_pretrained`` or the transformers library wrote."""
    path = Path(folder)
    if is_foreign(path):
        from headwork.loading.other_libraries import read_transformers

        return read_transformers(path)
    files = read_folder(path, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    where = path / PARAMETERS
    state = read_tensors(files[PARAMETERS], where)
    data = parse_json(files[CONFIG], path / CONFIG)
    definition, config = _read_config(data, path / CONFIG, max_layers=len(state))
    tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER) if TOKENIZER in files else None
    return Saved(definition, config, fitting(definition, config, state, where), tokenizer)


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


def fitting(
    definition: Definition, config: Any, state: Mapping[str, Any], where: str | Path, advice: str = ""
) -> dict[str, Any]:
    """The parameters under their current names, if they are what the config describes."""
    current = definition.current_parameters(state)
    check_tensors(where, expected_shapes(definition, config, current, where), current, advice)
    return current


def expected_shapes(
    definition: Definition, config: Any, state: Mapping[str, Any], where: str | Path
) -> dict[str, ShapeTensor]:
    """The parameters that a file of this model holds; a config that asks for much more is refused."""
    left = sum(math.prod(value.shape) for value in state.values()) + MAX_UNSAVED_VALUES
    shapes, work = {}, OperationCount()
    for name, initial in flatten(definition.parameters(config)).items():
        count = math.prod(initial.shape)
        left -= count
        if left < 0:
            raise TooLarge(
                f"{where}: the config asks for {count:,} numbers at once, more than its file holds."
            )
        if initial.values is None:
            shapes[name] = ShapeTensor(initial.shape, work)
    return shapes


def check_tensors(
    where: str | Path, expected: Mapping[str, Any], state: Mapping[str, Any], advice: str = ""
) -> None:
    """Refuse a missing tensor, an unexpected one, or one of the wrong shape, by its name."""
    missing, unexpected = expected.keys() - state.keys(), state.keys() - expected.keys()
    for fault, names in (("is missing", missing), ("is not expected", unexpected)):
        if names:
            others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise InputError(f"{where}: the tensor '{min(names)}' {fault}{others}. {advice}".rstrip())
    for name, like in expected.items():
        kind, shape = str(state[name].dtype).removeprefix("torch."), tuple(state[name].shape)
        if kind not in PRECISIONS and state[name].dtype != BFLOAT16:
            raise InputError(f"{where}: the tensor '{name}' holds {kind}, expected decimal numbers.")
        if shape != tuple(like.shape):
            raise InputError(
                f"{where}: the tensor '{name}' is {sizes_in_words(shape, '')}, expected "
                f"{sizes_in_words(like.shape, '')}. {advice}".rstrip()
            )
