"""Other libraries' checkpoints, read and written: BERT and ViT of ``transformers``, torch's own transformer.

They are read by ``headwork.loading``; here they become modules, and modules become theirs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.loading.folders import FAMILIES, TORCH_NAMES, from_theirs, read_transformers, to_theirs
from headwork.mechanisms.configs import TransformerConfig
from headwork.mechanisms.texts import mean_of_tokens
from headwork.models.model import Model
from headwork.models.saving import torch_model, write_model
from headwork.models.text import TextEncoder
from headwork.models.transformer import Decoder, Encoder
from headwork.models.vision import VisionTransformer

State = Mapping[str, Tensor]


# --- the transformers library -----------------------------------------------------------------
def from_transformers(
    folder: str | Path, *, image_size: int | None = None, classes: int | None = None
) -> TextEncoder | VisionTransformer:
    """The BERT or ViT of a folder that the transformers library wrote, with its tokenizer if there is one.

    A ViT may be read for another ``image_size``: its positions are resized (bicubic). ``classes`` gives it a
    new head; a checkpoint without a classifier needs it.
    """
    return torch_model(read_transformers(folder, image_size=image_size, classes=classes))  # type: ignore[return-value]


def to_transformers(model: Model, folder: str | Path) -> Path:
    """Write a TextEncoder of BERT's shape, or a VisionTransformer, for the transformers library."""
    family = next((f for f in FAMILIES.values() if f.definition_name == type(model).__name__), None)
    if family is None:
        known = " or ".join(f.definition_name for f in FAMILIES.values())
        raise InputError(
            f"{type(model).__name__}: the transformers library has no such model. Expected a {known}."
        )
    config = family.write_config(model.config)
    state = to_theirs(family.names, model.state_dict())
    prefixed = {n if n.startswith("classifier.") else family.prefix + n: p for n, p in state.items()}
    return write_model(folder, config, prefixed, model.tokenizer)


# --- texts through a pretrained encoder --------------------------------------------------------
def tokenize_texts(model: Model, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
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
    tokens, mask = tokenize_texts(model, texts)
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
    kind = "Decoder" if any(".multihead_attn." in name for name in state) else "Encoder"
    arrays = {
        name: (value if value.dtype == torch.float64 else value.float()).detach().cpu().numpy()
        for name, value in state.items()
    }
    return torch_model(from_theirs(TORCH_NAMES, arrays, kind, config, "torch's state"))  # type: ignore[return-value]


def to_torch(model: Encoder | Decoder, decoder: Decoder | None = None) -> nn.Module:
    """An Encoder or a Decoder as torch's own module (batch first), or both together as an nn.Transformer."""
    result = module = _torch_module(model)
    if decoder is not None:
        sizes, second = (model.config.width, model.config.heads), _torch_module(decoder)
        result = nn.Transformer(*sizes, custom_encoder=module, custom_decoder=second, batch_first=True)
        # It draws all parameters anew, also those of stacks that it is given: fill them afterwards.
        second.load_state_dict(to_theirs(TORCH_NAMES, decoder.state_dict()))
    module.load_state_dict(to_theirs(TORCH_NAMES, model.state_dict()))
    return result.eval()


def _torch_module(model: Encoder | Decoder) -> nn.Module:
    config = model.config
    if config.attention != "softmax":
        raise InputError("to_torch: torch's transformer has softmax attention only, not linear.")
    options: Any = {"batch_first": True, "norm_first": config.normalisation == "pre"}
    options |= {"dropout": config.dropout, "activation": config.activation, "layer_norm_eps": config.epsilon}
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
            f"from_torch: {type(module).__name__} is not read. "
            "Expected nn.TransformerEncoder, nn.TransformerDecoder, nn.Transformer or the state dict of one."
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
    sizes = {"width": layer.self_attn.embed_dim, "heads": layer.self_attn.num_heads}
    sizes |= {"hidden": layer.linear1.out_features, "depth": len(module.layers)}
    placement: Any = {"normalisation": "pre" if layer.norm_first else "post", "activation": names[0]}
    placement |= {"final_normalisation": module.norm is not None}
    return TransformerConfig(**sizes, **placement, dropout=layer.dropout1.p, epsilon=layer.norm1.eps)
