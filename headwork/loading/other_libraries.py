"""Other libraries' models as ours and back: names and layouts of parameters, and the configs of BERT and ViT.

Each library has a table from its names to ours; ``*`` stands for the number of a layer. Several names of ours
for one of theirs: their matrix holds ours one below the other. A tensor that no table lists is refused,
except what our models have no use for (a pooler, a head for pretraining); so is what ours cannot express.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.checkpoint_files import (
    CONFIG,
    PARAMETERS,
    TOKENIZER,
    half_as_float32,
    read_foreign_folder,
    read_tensors,
)
from headwork.errors import InputError, unknown
from headwork.files import parse_json
from headwork.loading.saved import Saved, check_tensors, expected_shapes
from headwork.mechanisms.configs import TextEncoderConfig, TransformerConfig, VisionTransformerConfig
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.numbers import cat
from headwork.tokenizer_files import read_tokenizer_json

Array = NDArray[Any]
NameMap = Mapping[str, tuple[str, ...]]
State = Mapping[str, Array]


def with_biases(rows: Mapping[str, str]) -> NameMap:
    """Rows for a layer's weight and bias: ``{"dense": "head.matrix head.bias"}``.

    >>> with_biases({"dense": "head.matrix head.bias"})
    {'dense.weight': ('head.matrix',), 'dense.bias': ('head.bias',)}
    """
    ends = ("weight", "bias")
    return {
        f"{theirs}.{end}": (ours,)
        for theirs, pair in rows.items()
        for end, ours in zip(ends, pair.split(), strict=True)
    }


def in_each_layer(theirs: str, ours: str, rows: NameMap) -> NameMap:
    return {f"{theirs}.*.{name}": tuple(f"{ours}.*.{n}" for n in names) for name, names in rows.items()}


def encoder_layers(attention: str, first_norm: str, second_norm: str) -> NameMap:
    """The layers of BERT and ViT, which differ in these three names."""
    rows = {
        f"{attention}.query": "attention.W_q attention.b_q",
        f"{attention}.key": "attention.W_k attention.b_k",
        f"{attention}.value": "attention.W_v attention.b_v",
        "attention.output.dense": "attention.W_o attention.b_o",
        first_norm: "normalisation_1.scale normalisation_1.shift",
        "intermediate.dense": "feed_forward.W_1 feed_forward.b_1",
        "output.dense": "feed_forward.W_2 feed_forward.b_2",
        second_norm: "normalisation_2.scale normalisation_2.shift",
    }
    return in_each_layer("encoder.layer", "transformer.blocks", with_biases(rows))


BERT: NameMap = {
    "embeddings.word_embeddings.weight": ("embedding.table",),
    "embeddings.position_embeddings.weight": ("positions.table",),
    "embeddings.token_type_embeddings.weight": ("types.table",),
    **with_biases({"embeddings.LayerNorm": "normalisation.scale normalisation.shift"}),
    **encoder_layers("attention.self", "attention.output.LayerNorm", "output.LayerNorm"),
}
VIT: NameMap = {
    "embeddings.cls_token": ("class_token",),
    "embeddings.position_embeddings": ("positions.table",),
    **with_biases({"embeddings.patch_embeddings.projection": "patch_embedding.filters patch_embedding.bias"}),
    **encoder_layers("attention.attention", "layernorm_before", "layernorm_after"),
    **with_biases({"layernorm": "transformer.normalisation.scale transformer.normalisation.shift"}),
    **with_biases({"classifier": "head.matrix head.bias"}),
}
TORCH: NameMap = {
    **in_each_layer(
        "layers",
        "blocks",
        {
            "self_attn.in_proj_weight": tuple(f"attention.W_{x}" for x in "qkv"),
            "self_attn.in_proj_bias": tuple(f"attention.b_{x}" for x in "qkv"),
            "multihead_attn.in_proj_weight": tuple(f"cross_attention.W_{x}" for x in "qkv"),
            "multihead_attn.in_proj_bias": tuple(f"cross_attention.b_{x}" for x in "qkv"),
            **with_biases(
                {
                    "self_attn.out_proj": "attention.W_o attention.b_o",
                    "multihead_attn.out_proj": "cross_attention.W_o cross_attention.b_o",
                    "linear1": "feed_forward.W_1 feed_forward.b_1",
                    "linear2": "feed_forward.W_2 feed_forward.b_2",
                    "norm1": "normalisation_1.scale normalisation_1.shift",
                    "norm2": "normalisation_2.scale normalisation_2.shift",
                    "norm3": "normalisation_3.scale normalisation_3.shift",
                }
            ),
        },
    ),
    **with_biases({"norm": "normalisation.scale normalisation.shift"}),
}

TRANSPOSED = (".W_1", ".W_2")  # ours are applied as x W, everybody else's as W x
# The number of axes of size 1 that theirs put first.
LEADING_SINGLETON_AXES = {"embeddings.cls_token": 2, "embeddings.position_embeddings": 1}


def rows_of(table: NameMap, ours: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """The rows of a table for each layer, those that a model of ours has."""
    layers = [int(n) for name in ours for n in re.findall(r"blocks\.(\d+)\.", name)]
    rows = []
    for theirs, names in table.items():
        for layer in range(1 + max(layers, default=-1)) if "*" in theirs else (0,):
            here = tuple(name.replace("*", str(layer)) for name in names)
            if here[0] in ours:
                rows.append((theirs.replace("*", str(layer)), here))
    return rows


def to_theirs(table: NameMap, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Our parameters, or their shapes, under their names, in their layout."""
    result = {}
    for theirs, names in rows_of(table, ours):
        parts = [ours[name].mT if name.endswith(TRANSPOSED) else ours[name] for name in names]
        whole = parts[0] if len(parts) == 1 else cat(parts, 0)
        result[theirs] = whole.reshape(*(1,) * LEADING_SINGLETON_AXES.get(theirs, 0), *whole.shape)
    return result


def from_theirs(table: NameMap, theirs: State, name: str, config: Any, where: str) -> Saved:
    """A model of ours with their parameters; errors name what is missing or misshapen as they call it."""
    if config.depth > len(theirs):
        raise InputError(f"{where}: {config.depth} layers by its config, but only {len(theirs)} tensors.")
    definition, state = DEFINITIONS[name], {}
    ours = expected_shapes(definition, config, theirs, where)
    check_tensors(where, to_theirs(table, ours), theirs)
    for row, names in rows_of(table, ours):
        whole = theirs[row].reshape(theirs[row].shape[LEADING_SINGLETON_AXES.get(row, 0) :])
        for part, to in zip(np.split(whole, len(names)), names, strict=True):
            state[to] = part.mT if to.endswith(TRANSPOSED) else part
    return Saved(definition, config, state)


# --- the transformers library -----------------------------------------------------------------
@dataclass(frozen=True)
class TransformersFamily:
    """One kind of model of the transformers library."""

    name: str  # of our model
    table: NameMap
    prefix: str
    unused: str
    read_config: Callable[[Mapping[str, Any], str], Any]
    write_config: Callable[[Any], dict[str, Any]]


SIZES = {
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "heads": "num_attention_heads",
    "depth": "num_hidden_layers",
}
BERT_SIZES = {**SIZES, "vocabulary": "vocab_size", "max_length": "max_position_embeddings"}
VIT_SIZES = {**SIZES, "image_size": "image_size", "patch_size": "patch_size", "channels": "num_channels"}


def read_transformers(folder: str | Path, *, image: int | None = None, classes: int | None = None) -> Saved:
    """The BERT or ViT of a folder that the transformers library wrote, with its tokenizer if there is one.

    Half precision is read as single. ``image`` and ``classes`` are for another size or head of a ViT.
    """
    path = Path(folder)
    files = read_foreign_folder(path)
    theirs = parse_json(files[CONFIG], path / CONFIG)
    kind = str(theirs.get("model_type")) if isinstance(theirs, dict) else None
    if kind not in FAMILIES:
        raise unknown(f"model_type in {path / CONFIG}", kind, FAMILIES)
    family = FAMILIES[kind]
    config = family.read_config(theirs, str(path / CONFIG))
    where = str(path / PARAMETERS)
    state = _current_names(read_tensors(files[PARAMETERS], where), family)
    if isinstance(config, VisionTransformerConfig):
        config, state = _for_images(config, state, image, classes, where)
    elif image is not None or classes is not None:
        raise InputError(
            f"{path}: a text encoder takes neither image nor classes. For a head: TextClassifier.on(it)."
        )
    saved = from_theirs(family.table, state, family.name, config, where)
    if TOKENIZER not in files:
        return saved
    tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER)
    # The file may truncate as its author's last script did; the model's own length counts.
    tokenizer.max_length = config.max_length
    return replace(saved, tokenizer=tokenizer)


def _current_names(state: State, family: TransformersFamily) -> dict[str, Array]:
    """Names without the prefix of the whole model, in the current spelling, without what we do not use."""
    plain = {}
    for name, value in state.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(family.prefix))
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if not re.match(family.unused, name):
            plain[name] = half_as_float32(value)
    return plain


def _read_fields(
    theirs: Mapping[str, Any], sizes: Mapping[str, str], where: str, **needed: Any
) -> dict[str, Any]:
    """The fields that both families have, after what ours cannot do was refused."""
    for name in sizes.values():
        value = theirs.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{where}: {name} is {value!r}. Expected a whole number, at least 1.")
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ("gelu", "relu"):
        raise InputError(
            f"{where}: hidden_act is '{activation}'. Ours are 'gelu' (the exact one, with erf, not its tanh "
            "approximation) and 'relu': another one would give other numbers."
        )
    for name, value in {"is_decoder": False, "add_cross_attention": False, **needed}.items():
        if theirs.get(name, value) != value:
            raise InputError(f"{where}: {name} is {theirs[name]!r}. Only {value!r} is read.")
    return {
        **{ours: theirs[name] for ours, name in sizes.items()},
        "activation": activation,
        "epsilon": theirs.get("layer_norm_eps", 1e-12),
        "dropout": theirs.get("hidden_dropout_prob", 0.0),
    }


def _read_bert(theirs: Mapping[str, Any], where: str) -> TextEncoderConfig:
    return TextEncoderConfig(
        **_read_fields(theirs, BERT_SIZES, where, position_embedding_type="absolute"),
        token_types=theirs.get("type_vocab_size", 2),
        embedding_normalisation=True,
        normalisation="post",
    )


def _read_vit(theirs: Mapping[str, Any], where: str) -> VisionTransformerConfig:
    return VisionTransformerConfig(**_read_fields(theirs, VIT_SIZES, where, qkv_bias=True))


def _write_fields(config: TransformerConfig, sizes: Mapping[str, str], **needed: Any) -> dict[str, Any]:
    """The fields that both families have, if ours has what theirs always has."""
    for name, value in {"attention": "softmax", "positions": "learned", **needed}.items():
        if getattr(config, name) != value:
            raise InputError(
                f"{type(config).__name__}: {name} is {getattr(config, name)!r}, but this model of the "
                f"transformers library always has {value!r}."
            )
    return {
        **{theirs: getattr(config, ours) for ours, theirs in sizes.items()},
        "hidden_act": config.activation,
        "layer_norm_eps": config.epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
    }


def _write_bert(config: TextEncoderConfig) -> dict[str, Any]:
    if not config.token_types:
        raise InputError(
            "TextEncoderConfig: token_types is 0, but a BERT has at least one. Build it with 1 or 2."
        )
    needed = {"normalisation": "post", "ends_normalised": False, "embedding_normalisation": True}
    fields = _write_fields(config, BERT_SIZES, **needed)
    kind = {"model_type": "bert", "architectures": ["BertModel"], "position_embedding_type": "absolute"}
    return {**kind, **fields, "type_vocab_size": config.token_types}


def _write_vit(config: VisionTransformerConfig) -> dict[str, Any]:
    needed = {"normalisation": "pre", "ends_normalised": True, "pooling": "class token"}
    fields = _write_fields(config, VIT_SIZES, **needed)
    labels = {str(k): f"LABEL_{k}" for k in range(config.classes)}
    kind = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "qkv_bias": True}
    return {**kind, **fields, "id2label": labels, "label2id": {name: int(k) for k, name in labels.items()}}


BERT_UNUSED = r"embeddings\.position_ids$|pooler\.|cls\.|classifier\."
FAMILIES = {
    "bert": TransformersFamily("TextEncoder", BERT, "bert.", BERT_UNUSED, _read_bert, _write_bert),
    "vit": TransformersFamily("VisionTransformer", VIT, "vit.", r"pooler\.", _read_vit, _write_vit),
}


def _for_images(
    config: VisionTransformerConfig,
    state: dict[str, Array],
    image: int | None,
    classes: int | None,
    where: str,
) -> tuple[VisionTransformerConfig, dict[str, Array]]:
    """Positions for another image size, and a head for other classes."""
    before, config = config, config if image is None else replace(config, image_size=image)
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
        near = abs(centres - neighbour)
        inner, outer = (1.25 * near - 2.25) * near**2 + 1, ((-0.75 * near + 3.75) * near - 6) * near + 3
        place = np.arange(after), neighbour.clip(0, before - 1)
        np.add.at(rows, place, np.where(near <= 1, inner, outer))
    grid = positions[0, 1:].reshape(before, before, -1)
    resized = np.einsum("yi,xj,ijw->yxw", rows, rows, grid).reshape(1, after**2, -1)
    return np.concatenate([positions[:, :1], resized.astype(positions.dtype)], 1)
