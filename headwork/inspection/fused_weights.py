"""The weights inside torch's fused operations, worked out again from what the operation was given."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def weights_of_fused_attention(arguments: Mapping[str, Any]) -> Tensor:
    """The weights (batch, head, query, key) of a fused scaled_dot_product_attention, before dropout."""
    mask = arguments.get("attn_mask")
    mask = arguments.get("attn_bias") if mask is None else mask
    scale = arguments.get("scale")
    return weights_of(arguments["query"], arguments["key"], mask, bool(arguments.get("is_causal")), scale)


def weights_of(
    query: Tensor, key: Tensor, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """softmax(scale Q K^T + mask), in at least single precision; a fully masked row is zero, as in torch.

    >>> weights_of(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 4, 2)).tolist()
    [[[[0.25, 0.25, 0.25, 0.25]]]]
    """
    if query.dtype in (torch.float16, torch.bfloat16):
        query, key = query.float(), key.float()
    if key.shape[-3] != query.shape[-3]:  # grouped queries
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query @ key.mT
    scores *= 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if causal:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores.masked_fill_(~allowed, -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    if causal or mask is not None:
        weights = torch.where(scores.amax(-1, keepdim=True) == -math.inf, 0.0, weights)
    return weights


def weights_of_fused_layer(arguments: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Weights, queries, keys and values of the fast path of nn.MultiheadAttention and nn.TransformerEncoder.

    Of a nested batch they are padded with zeros.
    """
    encoder = "src" in arguments
    inputs = [arguments["src"]] * 3 if encoder else [arguments[name] for name in ("query", "key", "value")]
    heads = arguments["num_heads" if encoder else "num_head"]
    lengths = None
    if inputs[0].is_nested:
        lengths = torch.tensor([row.shape[0] for row in inputs[0].unbind()])
        inputs = [part.to_padded_tensor(0.0) for part in inputs]
    if encoder and arguments["norm_first"]:
        normalised = functional.layer_norm(
            inputs[0],
            inputs[0].shape[-1:],
            arguments["norm_weight_1"],
            arguments["norm_bias_1"],
            arguments["eps"],
        )
        inputs = [normalised] * 3
    parts = zip(inputs, arguments["qkv_weight"].chunk(3), arguments["qkv_bias"].chunk(3), strict=True)
    query, key, value = (
        functional.linear(x, weight, bias).view(*x.shape[:2], heads, -1).transpose(1, 2)
        for x, weight, bias in parts
    )
    mask = arguments.get("mask")
    if mask is not None:
        # Torch's masks say what is left out; of kind 1 they are (batch, key).
        mask = mask[:, None, None, :] if arguments.get("mask_type") == 1 else mask
        mask = ~mask if mask.dtype == torch.bool else mask
    if lengths is not None:
        is_token = torch.arange(key.shape[2]) < lengths[:, None]
        mask = is_token[:, None, None, :] & is_token[:, None, :, None]
    return weights_of(query, key, mask), {"query": query, "key": key, "value": value}
