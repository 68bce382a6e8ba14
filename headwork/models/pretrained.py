"""Other libraries' checkpoints, read and written: BERT and ViT of the ``transformers`` library, torch's transformer.

The tables of names are in ``translation.py``. What they do not name is refused, save what our models have no use for
(a pooler, a head for pretraining); what our models cannot express is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError, unknown
from headwork.models.checkpoints import (
    CONFIG,
    MANIFEST,
    PARAMETERS,
    TOKENIZER,
    as_json,
    parsed,
    read_folder,
    refuse_pickles,
    tensors,
    tokenizer_of,
    write_folder,
)
from headwork.models.model import Model
from headwork.models.text import TextEncoder, TextEncoderConfig, mean_of_tokens
from headwork.models.transformer import Decoder, Encoder, TransformerConfig
from headwork.models.translation import BERT, TORCH, VIT, State, Table, read, written
from headwork.models.vision import VisionTransformer, VisionTransformerConfig

# --- the transformers library -----------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """One kind of model of the transformers library."""

    kind: type[Model]
    table: Table
    prefix: str
    unused: str
    config: Callable[[Mapping[str, Any], str], Any]
    told: Callable[[Any], dict[str, Any]]


SIZES = {
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "heads": "num_attention_heads",
    "depth": "num_hidden_layers",
}
BERT_SIZES = {**SIZES, "vocabulary": "vocab_size", "max_length": "max_position_embeddings"}
VIT_SIZES = {**SIZES, "image": "image_size", "patch": "patch_size", "channels": "num_channels"}


def from_transformers(
    folder: str | Path, *, image: int | None = None, classes: int | None = None
) -> TextEncoder | VisionTransformer:
    """The BERT or ViT of a folder that the transformers library wrote, with its own tokenizer where there is one.

    A ViT may be read for another ``image`` size: its positions are resized (bicubic). ``classes`` gives it a new
    head; a checkpoint without a classifier needs it.
    """
    place = Path(folder)
    files = _files(place)
    told = parsed(files[CONFIG], place / CONFIG)
    family = _family(told, str(place / CONFIG))
    config = family.config(told, str(place / CONFIG))
    state = _named(tensors(files[PARAMETERS], place / PARAMETERS), family)
    where = str(place / PARAMETERS)
    if isinstance(config, VisionTransformerConfig):
        config, state = _for_images(config, state, image, classes, where)
    elif image is not None or classes is not None:
        raise InputError(
            f"{place}: a text encoder takes neither image nor classes. For a head: TextClassifier.on(it)."
        )
    model: Any = read(family.table, state, family.kind, config, where)
    if TOKENIZER in files:
        model.tokenizer = tokenizer_of(files[TOKENIZER], place / TOKENIZER)
        # The file may pad and cut as its author's last script did: the model's own length is what counts.
        model.tokenizer.no_padding()
        model.tokenizer.enable_truncation(config.max_length)
    return model  # type: ignore[no-any-return]


def to_transformers(model: Model, folder: str | Path) -> Path:
    """Write a TextEncoder of BERT's shape, or a VisionTransformer, for the transformers library."""
    from safetensors.torch import save

    family = next((f for f in FAMILIES.values() if f.kind is type(model)), None)
    if family is None:
        known = " or ".join(f.kind.__name__ for f in FAMILIES.values())
        raise InputError(
            f"{type(model).__name__}: the transformers library has no such model. Expected a {known}."
        )
    told = family.told(model.config)
    state = written(family.table, {n: p.detach().cpu() for n, p in model.state_dict().items()})
    prefixed = {n if n.startswith("classifier.") else family.prefix + n: p for n, p in state.items()}
    files = {CONFIG: as_json(told), PARAMETERS: save(prefixed, {"format": "pt"})}
    if model.tokenizer is not None:
        files[TOKENIZER] = str(model.tokenizer.to_str(pretty=True)).encode()
    return write_folder(folder, files)


def _files(place: Path) -> dict[str, bytes]:
    """The files of a foreign folder; verified too, where a manifest of ours lies beside them."""
    if (place / MANIFEST).exists():
        return read_folder(place, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    refuse_pickles(place, (PARAMETERS,))
    if (place / f"{PARAMETERS}.index.json").exists():
        raise InputError(
            f"{place}: the parameters are split into several files. Save the model as one file first."
        )
    for name in (CONFIG, PARAMETERS):
        if not (place / name).is_file():
            raise InputError(
                f"{place}: {name} is missing. Give the folder of one model of the transformers library."
            )
    return {
        name: (place / name).read_bytes()
        for name in (CONFIG, PARAMETERS, TOKENIZER)
        if (place / name).is_file()
    }


def _family(told: Any, where: str) -> Family:
    kind = told.get("model_type") if isinstance(told, dict) else None
    if kind not in FAMILIES:
        raise unknown(f"model_type in {where}", kind, FAMILIES)
    return FAMILIES[kind]


def _named(state: State, family: Family) -> dict[str, Tensor]:
    """Names without the prefix of the whole model, in today's spelling, without what we have no use for."""
    plain = {}
    for name, value in state.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(family.prefix))
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if not re.match(family.unused, name):
            plain[name] = value
    return plain


def _sizes(told: Mapping[str, Any], names: Mapping[str, str], where: str) -> dict[str, Any]:
    for theirs in names.values():
        value = told.get(theirs)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{where}: {theirs} is {value!r}. Expected a whole number, at least 1.")
    return {ours: told[theirs] for ours, theirs in names.items()}


def _shared(told: Mapping[str, Any], where: str, **needed: Any) -> dict[str, Any]:
    """What both families tell alike, after what ours cannot do was refused."""
    activation = told.get("hidden_act", "gelu")
    if activation not in ("gelu", "relu"):
        raise InputError(
            f"{where}: hidden_act is '{activation}'. Ours are 'gelu' (the exact one, with erf, not its tanh "
            "approximation) and 'relu': another one would give other numbers."
        )
    for name, value in {"is_decoder": False, "add_cross_attention": False, **needed}.items():
        if told.get(name, value) != value:
            raise InputError(f"{where}: {name} is {told[name]!r}. Only {value!r} is read.")
    return {
        "activation": activation,
        "epsilon": told.get("layer_norm_eps", 1e-12),
        "dropout": told.get("hidden_dropout_prob", 0.0),
    }


def _bert_config(told: Mapping[str, Any], where: str) -> TextEncoderConfig:
    return TextEncoderConfig(
        **_sizes(told, BERT_SIZES, where),
        **_shared(told, where, position_embedding_type="absolute"),
        token_types=told.get("type_vocab_size", 2),
        embedding_normalisation=True,
        normalisation="post",
    )


def _vit_config(told: Mapping[str, Any], where: str) -> VisionTransformerConfig:
    return VisionTransformerConfig(**_sizes(told, VIT_SIZES, where), **_shared(told, where, qkv_bias=True))


def _told(config: TransformerConfig, sizes: Mapping[str, str], needed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that both families have, if ours has what theirs always has."""
    for name, value in {"attention": "softmax", "positions": "learned", **needed}.items():
        if getattr(config, name) != value:
            raise InputError(
                f"{type(config).__name__}: {name} is {getattr(config, name)!r}, but this model of the transformers "
                f"library always has {value!r}."
            )
    return {
        **{theirs: getattr(config, ours) for ours, theirs in sizes.items()},
        "hidden_act": config.activation,
        "layer_norm_eps": config.epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
    }


def _bert_told(config: TextEncoderConfig) -> dict[str, Any]:
    needed = {"normalisation": "post", "ends_normalised": False, "embedding_normalisation": True}
    if not config.token_types:
        raise InputError(
            "TextEncoderConfig: token_types is 0, but a BERT has at least one. Build it with 1 or 2."
        )
    told = _told(config, BERT_SIZES, needed)
    kind = {"model_type": "bert", "architectures": ["BertModel"], "position_embedding_type": "absolute"}
    return {**kind, **told, "type_vocab_size": config.token_types}


def _vit_told(config: VisionTransformerConfig) -> dict[str, Any]:
    told = _told(
        config, VIT_SIZES, {"normalisation": "pre", "ends_normalised": True, "pooling": "class token"}
    )
    labels = {str(k): f"LABEL_{k}" for k in range(config.classes)}
    kind = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "qkv_bias": True}
    return {**kind, **told, "id2label": labels, "label2id": {name: int(k) for k, name in labels.items()}}


FAMILIES = {
    "bert": Family(
        TextEncoder,
        BERT,
        "bert.",
        r"embeddings\.position_ids$|pooler\.|cls\.|classifier\.",
        _bert_config,
        _bert_told,
    ),
    "vit": Family(VisionTransformer, VIT, "vit.", r"pooler\.", _vit_config, _vit_told),
}


def _for_images(
    config: VisionTransformerConfig,
    state: dict[str, Tensor],
    image: int | None,
    classes: int | None,
    where: str,
) -> tuple[VisionTransformerConfig, dict[str, Tensor]]:
    """Positions for another image size, and a head for other classes."""
    before, config = config, replace(config, image=image or config.image)
    table = "embeddings.position_embeddings"
    if config.image != before.image and table in state:
        state[table] = resized(
            state[table], before.image // before.patch, config.image // config.patch, where
        )
    known = state["classifier.bias"].shape[0] if "classifier.bias" in state else None
    wanted = known if classes is None else classes
    if wanted is None:
        raise InputError(
            f"{where}: there is no classifier in it. Say how many classes=... a new, untrained head has."
        )
    config = replace(config, classes=wanted)
    if config.classes != known:
        state["classifier.weight"] = torch.zeros(config.classes, config.width)
        state["classifier.bias"] = torch.zeros(config.classes)
    return config, state


def resized(positions: Tensor, before: int, after: int, where: str = "positions") -> Tensor:
    """Learned positions (1, 1 + before^2, width) of a square of patches, stretched to another (bicubic).

    >>> tuple(resized(torch.zeros(1, 5, 8), 2, 3).shape)
    (1, 10, 8)
    """
    if positions.dim() != 3 or positions.shape[1] != 1 + before**2:
        raise InputError(
            f"{where}: positions for {positions.shape[1] - 1} patches, but the config says {before**2}."
        )
    first, grid = positions[:, :1], positions[:, 1:].float()
    square = grid.reshape(1, before, before, -1).permute(0, 3, 1, 2)
    stretched = functional.interpolate(square, size=(after, after), mode="bicubic", align_corners=False)
    return torch.cat([first, stretched.permute(0, 2, 3, 1).flatten(1, 2).to(first)], 1)


# --- texts through a pretrained encoder --------------------------------------------------------


def tokens_of(model: Model, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Texts as tokens (batch, token), padded together, and the mask: 1 for each token, 0 for padding."""
    if model.tokenizer is None:
        raise InputError(
            f"{type(model).__name__}: it has no tokenizer. Load one that has, or set model.tokenizer."
        )
    rows = [encoding.ids for encoding in model.tokenizer.encode_batch(list(texts))]
    if not rows or not all(rows):
        raise InputError("texts: none given, or one of them has no token. Give at least one word each.")
    length = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return tokens, mask


def sentence_vectors(model: TextEncoder, texts: Sequence[str]) -> Tensor:
    """One vector a text: the mean over its tokens."""
    tokens, mask = tokens_of(model, texts)
    with torch.no_grad():
        return mean_of_tokens(model(tokens, mask), mask)


# --- torch's own transformer -------------------------------------------------------------------


def from_torch(
    source: nn.Module | State, config: TransformerConfig | None = None
) -> Encoder | Decoder | tuple[Encoder, Decoder]:
    """An nn.TransformerEncoder as Encoder, an nn.TransformerDecoder as Decoder, an nn.Transformer as both.

    A state dict alone does not say how many heads there are, where it normalises or by what it is activated: give
    a ``config``. Ours take the batch first, and masks with 1 where one may look (torch's True hides); our decoder is
    always causal.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> from_torch(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)).config.heads
    2
    """
    state: State = source.state_dict() if isinstance(source, nn.Module) else source
    if any(name.startswith("decoder.") for name in state):
        sides = ("encoder", "decoder")
        parts = [
            from_torch(getattr(source, side), config)
            if isinstance(source, nn.Module)
            else from_torch(
                {n.removeprefix(f"{side}."): p for n, p in state.items() if n.startswith(f"{side}.")}, config
            )
            for side in sides
        ]
        return parts[0], parts[1]  # type: ignore[return-value]
    if isinstance(source, nn.Module):
        config = _torch_config(source)
    if config is None:
        raise InputError(
            "from_torch: a state dict does not tell its heads. Give config=TransformerConfig(...) as well."
        )
    kind = Decoder if any(".multihead_attn." in name for name in state) else Encoder
    return read(TORCH, state, kind, config, "torch's state")  # type: ignore[return-value]


def to_torch(model: Encoder | Decoder, decoder: Decoder | None = None) -> nn.Module:
    """An Encoder or a Decoder as torch's own module (batch first), or the two together as an nn.Transformer."""
    if decoder is None:
        module = _torch_module(model)
        module.load_state_dict(written(TORCH, model.state_dict()))
        return module.eval()
    width, heads, parts = (
        model.config.width,
        model.config.heads,
        (_torch_module(model), _torch_module(decoder)),
    )
    both = nn.Transformer(width, heads, custom_encoder=parts[0], custom_decoder=parts[1], batch_first=True)
    # nn.Transformer draws all parameters anew, also those of stacks that it is given: fill them afterwards.
    for module, ours in zip(parts, (model, decoder), strict=True):
        module.load_state_dict(written(TORCH, ours.state_dict()))
    return both.eval()


def _torch_module(model: Encoder | Decoder) -> nn.Module:
    config = model.config
    if config.attention != "softmax":
        raise InputError("to_torch: torch's transformer has softmax attention only, not linear.")
    options: Any = {
        "dropout": config.dropout,
        "activation": config.activation,
        "layer_norm_eps": config.epsilon,
        "batch_first": True,
        "norm_first": config.normalisation == "pre",
    }
    sizes = (config.width, config.heads, config.hidden)
    last = nn.LayerNorm(config.width, config.epsilon) if config.ends_normalised else None
    if isinstance(model, Decoder):
        return nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **options), config.depth, last)
    layer = nn.TransformerEncoderLayer(*sizes, **options)
    return nn.TransformerEncoder(layer, config.depth, last, enable_nested_tensor=False)


def _torch_config(module: nn.Module) -> TransformerConfig:
    """The config of an nn.TransformerEncoder or nn.TransformerDecoder, read off its first layer."""
    if not isinstance(module, (nn.TransformerEncoder, nn.TransformerDecoder)):
        raise InputError(
            f"from_torch: {type(module).__name__} is not read. Expected nn.TransformerEncoder, nn.TransformerDecoder, "
            "nn.Transformer or the state dict of one."
        )
    layer: Any = module.layers[0]
    activations = {"relu": (functional.relu, nn.ReLU), "gelu": (functional.gelu, nn.GELU)}
    activation = next(
        (n for n, (f, m) in activations.items() if layer.activation is f or isinstance(layer.activation, m)),
        None,
    )
    if activation is None or getattr(layer.activation, "approximate", "none") != "none":
        raise InputError(
            f"from_torch: the activation is {layer.activation!r}. Ours are relu and the exact gelu."
        )
    return TransformerConfig(
        width=layer.self_attn.embed_dim,
        hidden=layer.linear1.out_features,
        heads=layer.self_attn.num_heads,
        depth=len(module.layers),
        normalisation="pre" if layer.norm_first else "post",
        final_normalisation=module.norm is not None,
        activation=activation,  # type: ignore[arg-type]
        dropout=layer.dropout1.p,
        epsilon=layer.norm1.eps,
    )
