"""The folder of a model, every byte verified: ours, or the transformers library's, whose models become ours.

Each other library has a table from its names to ours (``other_libraries.toml``). A tensor that no table lists
is refused, except what our models have no use for (a pooler, a head for pretraining); so is what ours cannot
express.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, check_known
from headwork.files import load_package_toml, parse_json
from headwork.loading.model import SavedModel, check_parameters, check_tensors, expected_shapes
from headwork.mechanisms.configs import VisionTransformerConfig, checked_settings
from headwork.mechanisms.definitions import DEFINITIONS, Definition
from headwork.model_files import (
    CONFIG,
    FORMAT,
    PARAMETERS,
    TOKENIZER,
    half_to_float32,
    is_transformers_folder,
    read_folder,
    read_tensors,
    read_transformers_folder,
)
from headwork.numbers import cat
from headwork.tokenizer_files import read_tokenizer_json

MAX_DEPTH = 1000  # even shapes alone take time to lay out
Array = NDArray[Any]
NameMap = Mapping[str, str]  # their name for a parameter, and ours
State = Mapping[str, Array]


def read_saved(folder: str | Path) -> SavedModel:
    """The model of a folder that ``save_pretrained`` or the transformers library wrote."""
    path = Path(folder)
    if is_transformers_folder(path):
        return read_transformers(path)
    files = read_folder(path, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    where = path / PARAMETERS
    state = read_tensors(files[PARAMETERS], where)
    data = parse_json(files[CONFIG], path / CONFIG)
    definition, config = _read_config(data, path / CONFIG, max_layers=len(state))
    tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER) if TOKENIZER in files else None
    return SavedModel(definition, config, check_parameters(definition, config, state, where), tokenizer)


def _read_config(data: Any, where: Path, *, max_layers: int) -> tuple[Definition, Any]:
    """The definition and the config of a config.json."""
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("config"), dict):
        raise InputError(f"{where}: not the config of a Headwork model ('format' is not '{FORMAT}').")
    check_known(f"model in {where}", str(data.get("model")), DEFINITIONS)
    definition = DEFINITIONS[data["model"]]
    config_class = definition.config_class
    settings = checked_settings(config_class, data["config"], f"field of {config_class.__name__} in {where}")
    depth = settings.get("depth", 1)
    if isinstance(depth, int) and depth > min(max_layers, MAX_DEPTH):
        raise InputError(f"{where}: depth {depth:,}, but {PARAMETERS} holds only {max_layers} tensors.")
    return definition, config_class(**settings)


# --- other libraries' names for our parameters ----------------------------------------------------
TRANSPOSED = (".W_1", ".W_2")  # ours are applied as x W, everybody else's as W x
# The number of axes of size 1 that theirs put first.
LEADING_SINGLETON_AXES = {"embeddings.cls_token": 2, "embeddings.position_embeddings": 1}


def layer_rows(table: NameMap, ours: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """The rows of a table for each layer, those that a model of ours has."""
    layers = [int(n) for name in ours for n in re.findall(r"blocks\.(\d+)\.", name)]
    rows = []
    for their_name, names in table.items():
        for layer in range(1 + max(layers, default=-1)) if "*" in their_name else (0,):
            ours_here = tuple(names.replace("*", str(layer)).split())
            if ours_here[0] in ours:
                rows.append((their_name.replace("*", str(layer)), ours_here))
    return rows


def to_theirs(table: NameMap, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Our parameters, or their shapes, under their names, in their layout."""
    result = {}
    for theirs, names in layer_rows(table, ours):
        parts = [ours[name].mT if name.endswith(TRANSPOSED) else ours[name] for name in names]
        joined = parts[0] if len(parts) == 1 else cat(parts, 0)
        result[theirs] = joined.reshape(*(1,) * LEADING_SINGLETON_AXES.get(theirs, 0), *joined.shape)
    return result


def from_theirs(table: NameMap, their_state: State, name: str, config: Any, where: str) -> SavedModel:
    """A model of ours with their parameters; errors name what is missing or misshapen as they call it."""
    if config.depth > (count := len(their_state)):
        raise InputError(f"{where}: {config.depth} layers by its config, but only {count} tensors.")
    definition, state = DEFINITIONS[name], {}
    ours = expected_shapes(definition, config, their_state, where)
    check_tensors(where, to_theirs(table, ours), their_state)
    for row, names in layer_rows(table, ours):
        joined = their_state[row].reshape(their_state[row].shape[LEADING_SINGLETON_AXES.get(row, 0) :])
        for part, to in zip(np.split(joined, len(names)), names, strict=True):
            state[to] = part.mT if to.endswith(TRANSPOSED) else part
    return SavedModel(definition, config, state)


# --- the transformers library -----------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class TransformersFamily:
    """One kind of model of the transformers library, as ``other_libraries.toml`` describes it."""

    model_type: str
    definition_name: str
    architecture: str
    prefix: str
    unused: str
    size_fields: Mapping[str, str]  # ours -> theirs
    their_fixed: Mapping[str, Any]
    our_fixed: Mapping[str, Any]
    names: NameMap

    def read_config(self, their_config: Mapping[str, Any], where: str) -> Any:
        """Our config for theirs, after what ours cannot do was refused."""
        for name in self.size_fields.values():
            value = their_config.get(name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{where}: {name} is {value!r}. Expected a whole number, at least 1.")
        activation = their_config.get("hidden_act", "gelu")
        if activation not in ("gelu", "relu"):
            raise InputError(
                f"{where}: hidden_act is '{activation}'. Ours are 'gelu' (the exact one, with erf, not its "
                "tanh approximation) and 'relu': another one would give other numbers."
            )
        for name, value in {"is_decoder": False, "add_cross_attention": False, **self.their_fixed}.items():
            if their_config.get(name, value) != value:
                raise InputError(f"{where}: {name} is {their_config[name]!r}. Only {value!r} is read.")
        settings = {ours: their_config[name] for ours, name in self.size_fields.items()}
        settings |= {"activation": activation, "epsilon": their_config.get("layer_norm_eps", 1e-12)}
        settings |= {"dropout": their_config.get("hidden_dropout_prob", 0.0), **self.our_fixed}
        settings |= {"token_types": their_config.get("type_vocab_size", 2)}
        config_class = DEFINITIONS[self.definition_name].config_class
        field_names = {entry.name for entry in fields(config_class)}
        return config_class(**{n: v for n, v in settings.items() if n in field_names})

    def write_config(self, config: Any) -> dict[str, Any]:
        """Their config for ours, if ours has what theirs always has."""
        for name, value in {"attention": "softmax", "positions": "learned", **self.our_fixed}.items():
            if getattr(config, name) != value:
                raise InputError(
                    f"{type(config).__name__}: {name} is {getattr(config, name)!r}, but this model of the "
                    f"transformers library always has {value!r}."
                )
        more: dict[str, Any]
        if isinstance(config, VisionTransformerConfig):
            labels = {str(k): f"LABEL_{k}" for k in range(config.classes)}
            more = {"id2label": labels, "label2id": {name: int(k) for k, name in labels.items()}}
        elif config.token_types:
            more = {"type_vocab_size": config.token_types}
        else:
            raise InputError(
                "TextEncoderConfig: token_types is 0, but a BERT has at least one. Build it with 1 or 2."
            )
        return {
            "model_type": self.model_type,
            "architectures": [self.architecture],
            **self.their_fixed,
            **{theirs: getattr(config, ours) for ours, theirs in self.size_fields.items()},
            "hidden_act": config.activation,
            "layer_norm_eps": config.epsilon,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": 0.0,
            **more,
        }


LIBRARIES = load_package_toml(__file__, "other_libraries.toml")
TORCH_NAMES: NameMap = LIBRARIES["torch"]
FAMILIES = {t: TransformersFamily(model_type=t, **data) for t, data in LIBRARIES["transformers"].items()}


def read_transformers(
    folder: str | Path, *, image_size: int | None = None, classes: int | None = None
) -> SavedModel:
    """The BERT or ViT of a folder that the transformers library wrote, with its tokenizer if there is one.

    Half precision is read as single. ``image_size`` and ``classes`` are for another size or head of a ViT.
    """
    path = Path(folder)
    files = read_transformers_folder(path)
    theirs = parse_json(files[CONFIG], path / CONFIG)
    kind = str(theirs.get("model_type") if isinstance(theirs, dict) else None)
    check_known(f"model_type in {path / CONFIG}", kind, FAMILIES)
    family = FAMILIES[kind]
    config = family.read_config(theirs, str(path / CONFIG))
    where = str(path / PARAMETERS)
    state = _normalise_names(read_tensors(files[PARAMETERS], where), family)
    if isinstance(config, VisionTransformerConfig):
        config, state = _adapt_vision(config, state, image_size, classes, where)
    elif image_size is not None or classes is not None:
        raise InputError(
            f"{path}: a text encoder takes neither image_size nor classes. For a head: TextClassifier.on(it)."
        )
    saved = from_theirs(family.names, state, family.definition_name, config, where)
    if TOKENIZER not in files:
        return saved
    tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER)
    # The file may truncate as its author's last script did; the model's own length counts.
    tokenizer.max_length = config.max_length
    return replace(saved, tokenizer=tokenizer)


def _normalise_names(state: State, family: TransformersFamily) -> dict[str, Array]:
    """Names without the prefix of the whole model, in the current spelling, without what we do not use."""
    plain = {}
    for name, value in state.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(family.prefix))
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if not re.match(family.unused, name):
            plain[name] = half_to_float32(value)
    return plain


def _adapt_vision(
    config: VisionTransformerConfig,
    state: dict[str, Array],
    image_size: int | None,
    classes: int | None,
    where: str,
) -> tuple[VisionTransformerConfig, dict[str, Array]]:
    """Positions for another image size, and a head for other classes."""
    before, config = config, config if image_size is None else replace(config, image_size=image_size)
    table = "embeddings.position_embeddings"
    if config.image_size != before.image_size and table in state:
        sides = before.image_size // before.patch_size, config.image_size // config.patch_size
        state[table] = resize_positions(state[table], *sides, where)
    trained = state["classifier.bias"].shape[0] if "classifier.bias" in state else None
    count = trained if classes is None else classes
    if count is None:
        raise InputError(f"{where}: it has no classifier. Give classes=..., for a new, untrained head.")
    config = replace(config, classes=count)
    if config.classes != trained:
        state["classifier.weight"] = np.zeros((config.classes, config.width), np.float32)
        state["classifier.bias"] = np.zeros(config.classes, np.float32)
    return config, state


def resize_positions(positions: Array, before: int, after: int, where: str = "positions") -> Array:
    """Learned positions (1, 1 + before^2, width) of a square of patches, resized to another (bicubic).

    >>> resize_positions(np.zeros((1, 5, 8)), 2, 3).shape
    (1, 10, 8)
    """
    if positions.ndim != 3 or positions.shape[1] != 1 + before**2:
        raise InputError(
            f"{where}: positions for {positions.shape[1] - 1} patches, but the config says {before**2}."
        )
    centres = (np.arange(after) + 0.5) * before / after - 0.5
    rows, left = np.zeros((after, before)), np.floor(centres).astype(int)
    for neighbour in left + np.arange(-1, 3)[:, None]:
        # Keys 1981, with a = -0.75 as torch has it; beyond the edge the last row is repeated.
        gap = abs(centres - neighbour)
        inner, outer = ((1.25 * gap - 2.25) * gap**2 + 1, ((-0.75 * gap + 3.75) * gap - 6) * gap + 3)
        index = np.arange(after), neighbour.clip(0, before - 1)
        np.add.at(rows, index, np.where(gap <= 1, inner, outer))
    grid = positions[0, 1:].reshape(before, before, -1)
    resized = np.einsum("yi,xj,ijw->yxw", rows, rows, grid).reshape(1, after**2, -1)
    return np.concatenate([positions[:, :1], resized.astype(positions.dtype)], 1)
