"""The weights inside torch's fused operations, worked out again from what the operation was given."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def fused_attention(named: Mapping[str, Any]) -> Tensor:
    """The weights (batch, head, query, key) of a fused scaled_dot_product_attention, before dropout."""
    mask = named.get("attn_mask")
    mask = named.get("attn_bias") if mask is None else mask
    scale = named.get("scale")
    return weights_of(named["query"], named["key"], mask, bool(named.get("is_causal")), scale)


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
        scores.masked_fill_(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(), -math.inf
        )
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    if causal or mask is not None:
        weights = torch.where(scores.amax(-1, keepdim=True) == -math.inf, 0.0, weights)
    return weights


def fused_layer(named: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Weights, queries, keys and values of the fast path of nn.MultiheadAttention and nn.TransformerEncoder.

    Of a nested batch they are padded with zeros.
    """
    encoder = "src" in named
    inputs = [named["src"]] * 3 if encoder else [named[name] for name in ("query", "key", "value")]
    heads = named["num_heads" if encoder else "num_head"]
    lengths = None
    if inputs[0].is_nested:
        lengths = torch.tensor([row.shape[0] for row in inputs[0].unbind()])
        inputs = [part.to_padded_tensor(0.0) for part in inputs]
    if encoder and named["norm_first"]:
        normalised = functional.layer_norm(
            inputs[0], inputs[0].shape[-1:], named["norm_weight_1"], named["norm_bias_1"], named["eps"]
        )
        inputs = [normalised] * 3
    parts = zip(inputs, named["qkv_weight"].chunk(3), named["qkv_bias"].chunk(3), strict=True)
    query, key, value = (
        functional.linear(x, weight, bias).view(*x.shape[:2], heads, -1).transpose(1, 2)
        for x, weight, bias in parts
    )
    mask = named.get("mask")
    if mask is not None:
        # Torch's masks say what is left out; of kind 1 they are (batch, key).
        mask = mask[:, None, None, :] if named.get("mask_type") == 1 else mask
        mask = ~mask if mask.dtype == torch.bool else mask
    if lengths is not None:
        there = torch.arange(key.shape[2]) < lengths[:, None]
        mask = there[:, None, None, :] & there[:, None, :, None]
    return weights_of(query, key, mask), {"query": query, "key": key, "value": value}
