"""Other libraries' checkpoints, read and written: BERT and ViT of ``transformers``, torch's own transformer.

The tables of names are in ``parameter_names.py``. A tensor that they do not list is refused, except what our
models have no use for (a pooler, a head for pretraining); so is what our models cannot express.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.checkpoint_files import CONFIG, PARAMETERS, TOKENIZER, read_foreign_folder
from headwork.errors import InputError, unknown
from headwork.files import parse_json
from headwork.mechanisms.configs import TextEncoderConfig, TransformerConfig, VisionTransformerConfig
from headwork.mechanisms.texts import mean_of_tokens
from headwork.models.checkpoints import tensors, write_model
from headwork.models.model import Model
from headwork.models.parameter_names import BERT, TORCH, VIT, NameMap, State, from_theirs, to_theirs
from headwork.models.text import TextEncoder
from headwork.models.transformer import Decoder, Encoder
from headwork.models.vision import VisionTransformer
from headwork.tokenizer_files import read_tokenizer_json


# --- the transformers library -----------------------------------------------------------------
@dataclass(frozen=True)
class Family:
    """One kind of model of the transformers library."""

    kind: type[Model]
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


def from_transformers(
    folder: str | Path, *, image: int | None = None, classes: int | None = None
) -> TextEncoder | VisionTransformer:
    """The BERT or ViT of a folder that the transformers library wrote, with its tokenizer if there is one.

    A ViT may be read for another ``image`` size: its positions are resized (bicubic). ``classes`` gives it a
    new head; a checkpoint without a classifier needs it.
    """
    path = Path(folder)
    files = read_foreign_folder(path)
    theirs = parse_json(files[CONFIG], path / CONFIG)
    kind = theirs.get("model_type") if isinstance(theirs, dict) else None
    if kind not in FAMILIES:
        raise unknown(f"model_type in {path / CONFIG}", kind, FAMILIES)
    family = FAMILIES[kind]
    config = family.read_config(theirs, str(path / CONFIG))
    state = _current_names(tensors(files[PARAMETERS], path / PARAMETERS), family)
    where = str(path / PARAMETERS)
    if isinstance(config, VisionTransformerConfig):
        config, state = _for_images(config, state, image, classes, where)
    elif image is not None or classes is not None:
        raise InputError(
            f"{path}: a text encoder takes neither image nor classes. For a head: TextClassifier.on(it)."
        )
    model: Any = from_theirs(family.table, state, family.kind, config, where)
    if TOKENIZER in files:
        model.tokenizer = read_tokenizer_json(files[TOKENIZER], path / TOKENIZER)
        # The file may truncate as its author's last script did; the model's own length counts.
        model.tokenizer.max_length = config.max_length
    return model  # type: ignore[no-any-return]


def to_transformers(model: Model, folder: str | Path) -> Path:
    """Write a TextEncoder of BERT's shape, or a VisionTransformer, for the transformers library."""
    family = next((f for f in FAMILIES.values() if f.kind is type(model)), None)
    if family is None:
        known = " or ".join(f.kind.__name__ for f in FAMILIES.values())
        raise InputError(
            f"{type(model).__name__}: the transformers library has no such model. Expected a {known}."
        )
    config = family.write_config(model.config)
    state = to_theirs(family.table, {n: p.detach().cpu() for n, p in model.state_dict().items()})
    prefixed = {n if n.startswith("classifier.") else family.prefix + n: p for n, p in state.items()}
    return write_model(folder, config, prefixed, model.tokenizer)


def _current_names(state: State, family: Family) -> dict[str, Tensor]:
    """Names without the prefix of the whole model, in the current spelling, without what we do not use."""
    plain = {}
    for name, value in state.items():
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(family.prefix))
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if not re.match(family.unused, name):
            plain[name] = value
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
    "bert": Family(TextEncoder, BERT, "bert.", BERT_UNUSED, _read_bert, _write_bert),
    "vit": Family(VisionTransformer, VIT, "vit.", r"pooler\.", _read_vit, _write_vit),
}


def _for_images(
    config: VisionTransformerConfig,
    state: dict[str, Tensor],
    image: int | None,
    classes: int | None,
    where: str,
) -> tuple[VisionTransformerConfig, dict[str, Tensor]]:
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
        state["classifier.weight"] = torch.zeros(config.classes, config.width)
        state["classifier.bias"] = torch.zeros(config.classes)
    return config, state


def resize_positions(positions: Tensor, before: int, after: int, where: str = "positions") -> Tensor:
    """Learned positions (1, 1 + before^2, width) of a square of patches, resized to another (bicubic).

    >>> tuple(resize_positions(torch.zeros(1, 5, 8), 2, 3).shape)
    (1, 10, 8)
    """
    if positions.dim() != 3 or positions.shape[1] != 1 + before**2:
        raise InputError(
            f"{where}: positions for {positions.shape[1] - 1} patches, but the config says {before**2}."
        )
    first, grid = positions[:, :1], positions[:, 1:].float()
    square = grid.reshape(1, before, before, -1).permute(0, 3, 1, 2)
    resized = functional.interpolate(square, size=(after, after), mode="bicubic", align_corners=False)
    return torch.cat([first, resized.permute(0, 2, 3, 1).flatten(1, 2).to(first)], 1)


# --- texts through a pretrained encoder --------------------------------------------------------
def tokens_of(model: Model, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Texts as tokens (batch, token), padded together, and the mask: 1 for each token, 0 for padding."""
    if model.tokenizer is None:
        raise InputError(
            f"{type(model).__name__}: it has no tokenizer. Load one that has, or set model.tokenizer."
        )
    rows = [model.tokenizer.encode(text) for text in texts]
    if not rows or not all(rows):
        raise InputError("texts: none given, or one of them has no token. Give at least one word each.")
    length = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return tokens, mask


def sentence_vectors(model: TextEncoder, texts: Sequence[str]) -> Tensor:
    """One vector per text: the mean over its tokens."""
    tokens, mask = tokens_of(model, texts)
    with torch.no_grad():
        vectors: Tensor = mean_of_tokens(model(tokens, mask), mask)
        return vectors


# --- torch's own transformer -------------------------------------------------------------------
def from_torch(
    source: nn.Module | State, config: TransformerConfig | None = None
) -> Encoder | Decoder | tuple[Encoder, Decoder]:
    """An nn.TransformerEncoder as Encoder, an nn.TransformerDecoder as Decoder, an nn.Transformer as both.

    A state dict alone does not tell the number of heads, where it normalises or its activation: give a
    ``config``. Ours take the batch first, and masks with 1 for positions to attend to (torch's True hides
    them); our decoder is always causal.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> from_torch(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)).config.heads
    2
    """
    state: State = source.state_dict() if isinstance(source, nn.Module) else source
    if any(name.startswith("decoder.") for name in state):

        def side(name: str) -> Any:
            if isinstance(source, nn.Module):
                return from_torch(getattr(source, name), config)
            own = {n.removeprefix(f"{name}."): p for n, p in state.items() if n.startswith(f"{name}.")}
            return from_torch(own, config)

        return side("encoder"), side("decoder")
    if isinstance(source, nn.Module):
        config = _torch_config(source)
    if config is None:
        raise InputError(
            "from_torch: a state dict does not tell its heads. Give config=TransformerConfig(...) as well."
        )
    kind = Decoder if any(".multihead_attn." in name for name in state) else Encoder
    return from_theirs(TORCH, state, kind, config, "torch's state")  # type: ignore[return-value]


def to_torch(model: Encoder | Decoder, decoder: Decoder | None = None) -> nn.Module:
    """An Encoder or a Decoder as torch's own module (batch first), or both together as an nn.Transformer."""
    result = first = _torch_module(model)
    if decoder is not None:
        sizes, second = (model.config.width, model.config.heads), _torch_module(decoder)
        result = nn.Transformer(*sizes, custom_encoder=first, custom_decoder=second, batch_first=True)
        # It draws all parameters anew, also those of stacks that it is given: fill them afterwards.
        second.load_state_dict(to_theirs(TORCH, decoder.state_dict()))
    first.load_state_dict(to_theirs(TORCH, model.state_dict()))
    return result.eval()


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
            f"from_torch: {type(module).__name__} is not read. Expected nn.TransformerEncoder, "
            "nn.TransformerDecoder, nn.Transformer or the state dict of one."
        )
    layer: Any = module.layers[0]
    activations = {"relu": (functional.relu, nn.ReLU), "gelu": (functional.gelu, nn.GELU)}
    names = [
        n for n, (f, m) in activations.items() if layer.activation is f or isinstance(layer.activation, m)
    ]
    if not names or getattr(layer.activation, "approximate", "none") != "none":
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
        activation=names[0],  # type: ignore[arg-type]
        dropout=layer.dropout1.p,
        epsilon=layer.norm1.eps,
    )
