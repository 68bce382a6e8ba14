"""Names and layouts of other libraries' parameters, and the conversion from theirs to ours and back.

Each library has a table from its names to ours; ``*`` stands for the number of a layer. Several names of ours
for one of theirs: their matrix holds ours one below the other.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.models.checkpoints import check_tensors, empty_model, fill
from headwork.models.model import Model

NameMap = Mapping[str, tuple[str, ...]]
State = Mapping[str, Tensor]


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


def to_theirs(table: NameMap, ours: State) -> dict[str, Tensor]:
    """Our parameters under their names, in their layout."""
    result = {}
    for theirs, names in rows_of(table, ours):
        parts = [ours[name].mT if name.endswith(TRANSPOSED) else ours[name] for name in names]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        result[theirs] = whole.reshape(
            (1,) * LEADING_SINGLETON_AXES.get(theirs, 0) + tuple(whole.shape)
        ).contiguous()
    return result


def from_theirs(table: NameMap, theirs: State, kind: type[Model], config: Any, where: str) -> Model:
    """A model of ours with their parameters; errors name what is missing or misshapen as they call it."""
    if config.depth > len(theirs):
        raise InputError(f"{where}: {config.depth} layers by its config, but only {len(theirs)} tensors.")
    model = empty_model(kind, config, theirs, where)
    ours = model.state_dict()
    check_tensors(where, to_theirs(table, ours), theirs)
    state = {}
    for name, names in rows_of(table, ours):
        whole = theirs[name].reshape(theirs[name].shape[LEADING_SINGLETON_AXES.get(name, 0) :])
        whole = whole if whole.dtype == torch.float64 else whole.float()
        for part, to in zip(whole.chunk(len(names)), names, strict=True):
            # A copy: training ours must not change theirs.
            part = part.mT if to.endswith(TRANSPOSED) else part
            state[to] = part.clone(memory_format=torch.contiguous_format)
    return fill(model, state, where)
