"""Every mechanism that torch has a layer of its own for, against that layer, in float64 to 1e-12."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwork import mechanisms as m
from headwork.mechanisms.parameters import (
    AttentionParameters,
    DecoderLayerParameters,
    EncoderLayerParameters,
    group_parameters,
)

torch.set_default_dtype(torch.float32)  # every tensor here names its own


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def same(ours: Any, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_softmax() -> None:
    scores = randn(3, 5) * 30
    same(m.softmax(scores), functional.softmax(scores, -1))


@pytest.mark.parametrize("beta", [None, 0.0, 0.3, 2.5])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_attention(beta: float | None, batch: tuple[int, ...]) -> None:
    query, key, value = randn(*batch, 4, 6), randn(*batch, 5, 6, seed=1), randn(*batch, 5, 3, seed=2)
    same(
        m.attention(query, key, value, beta=beta),
        functional.scaled_dot_product_attention(query, key, value, scale=beta),
    )


def test_attention_causal() -> None:
    query, key, value = randn(2, 5, 6), randn(2, 5, 6, seed=1), randn(2, 5, 3, seed=2)
    theirs = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    same(m.attention(query, key, value, mask="causal"), theirs)


def test_attention_causal_with_fewer_queries_than_keys() -> None:
    query, key, value = randn(2, 6), randn(5, 6, seed=1), randn(5, 3, seed=2)
    allowed = torch.ones(2, 5, dtype=torch.bool).tril(3)
    theirs = functional.scaled_dot_product_attention(query[None], key[None], value[None], attn_mask=allowed)[
        0
    ]
    same(m.attention(query, key, value, mask="causal"), theirs)


@pytest.mark.parametrize("shape", [(4, 5), (1, 5), (2, 1, 4, 5), (1, 3, 4, 5), (2, 3, 4, 5), (2, 3, 1, 5)])
@pytest.mark.parametrize("kind", [torch.float64, torch.bool, torch.int64])
def test_attention_with_a_given_mask_with_batch_and_heads(shape: tuple[int, ...], kind: torch.dtype) -> None:
    query, key, value = randn(2, 3, 4, 6), randn(2, 3, 5, 6, seed=1), randn(2, 3, 5, 7, seed=2)
    allowed = randn(*shape, seed=3) > -0.5
    allowed[..., 0] = True  # every query may look at one key
    theirs = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    same(m.attention(query, key, value, mask=allowed.to(kind)), theirs)


def stacked(layer: nn.MultiheadAttention) -> dict[str, torch.Tensor]:
    parameters = dict(zip(("W_q", "W_k", "W_v"), layer.in_proj_weight.detach().chunk(3), strict=True))
    return {**parameters, "W_o": layer.out_proj.weight.detach()}


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("mask", [None, "causal"])
def test_multi_head_attention(heads: int, mask: str | None) -> None:
    torch.manual_seed(heads)
    layer = nn.MultiheadAttention(8, heads, bias=False, batch_first=True, dtype=torch.float64)
    tokens = randn(2, 5, 8)
    hidden = None if mask is None else ~torch.ones(5, 5, dtype=torch.bool).tril()
    kept: dict[str, Any] = {}

    def note(name: str, value: Any, /) -> Any:
        kept[name] = value
        return value

    with torch.no_grad():
        output, weights = layer(tokens, tokens, tokens, attn_mask=hidden, average_attn_weights=False)
    same(
        m.multi_head_attention(
            tokens, AttentionParameters(**stacked(layer)), heads=heads, mask=mask, note=note
        ),
        output,
    )
    same(kept["weights"], weights)


def test_multi_head_cross_attention_with_biases() -> None:
    torch.manual_seed(5)
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    tokens, memory = randn(2, 3, 8), randn(2, 6, 8, seed=1)
    biases = dict(zip(("b_q", "b_k", "b_v"), layer.in_proj_bias.detach().chunk(3), strict=True))
    with torch.no_grad():
        output = layer(tokens, memory, memory)[0]
    parameters = AttentionParameters(**stacked(layer), **biases, b_o=layer.out_proj.bias.detach())
    ours = m.multi_head_attention(tokens, parameters, memory, heads=2)
    same(ours, output)


def test_self_and_cross_attention_are_one_head_without_mixing() -> None:
    tokens, memory = randn(4, 6), randn(5, 6, seed=1)
    W_q, W_k, W_v = randn(3, 6, seed=2), randn(3, 6, seed=3), randn(2, 6, seed=4)
    theirs = functional.scaled_dot_product_attention(tokens @ W_q.T, memory @ W_k.T, memory @ W_v.T)
    same(m.cross_attention(tokens, memory, W_q, W_k, W_v), theirs)
    theirs = functional.scaled_dot_product_attention(tokens @ W_q.T, tokens @ W_k.T, tokens @ W_v.T)
    same(m.self_attention(tokens, W_q, W_k, W_v), theirs)


def layer_parameters(layer: Any) -> dict[str, torch.Tensor]:
    found = stacked(layer.self_attn)
    biases = layer.self_attn.in_proj_bias.chunk(3)
    found |= dict(zip(("b_q", "b_k", "b_v"), biases, strict=True)) | {"b_o": layer.self_attn.out_proj.bias}
    found |= {"W_1": layer.linear1.weight.T, "b_1": layer.linear1.bias}
    found |= {"W_2": layer.linear2.weight.T, "b_2": layer.linear2.bias}
    for k, norm in enumerate([layer.norm1, layer.norm2, getattr(layer, "norm3", None)], 1):
        if norm is not None:
            found |= {f"scale_{k}": norm.weight, f"shift_{k}": norm.bias}
    return {name: value.detach() for name, value in found.items()}


def randomised(layer: nn.Module) -> nn.Module:
    torch.manual_seed(11)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.7)
    return layer.eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("mask", [None, "causal"])
def test_encoder_layer(placement: str, activation: str, mask: str | None) -> None:
    layer = randomised(
        nn.TransformerEncoderLayer(
            8,
            2,
            12,
            dropout=0.0,
            activation=activation,
            norm_first=placement == "pre",
            batch_first=True,
            dtype=torch.float64,
        )
    )
    tokens = randn(2, 5, 8)
    hidden = None if mask is None else ~torch.ones(5, 5, dtype=torch.bool).tril()
    theirs = layer(tokens, src_mask=hidden).detach()
    ours = m.encoder_layer(
        tokens,
        group_parameters(EncoderLayerParameters, layer_parameters(layer)),
        heads=2,
        mask=mask,
        normalisation=placement,
        activation=activation,
        epsilon=1e-5,
    )
    same(ours, theirs)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_decoder_layer(placement: str) -> None:
    layer = randomised(
        nn.TransformerDecoderLayer(
            8, 2, 12, dropout=0.0, norm_first=placement == "pre", batch_first=True, dtype=torch.float64
        )
    )
    tokens, memory = randn(2, 4, 8), randn(2, 6, 8, seed=1)
    hidden = ~torch.ones(4, 4, dtype=torch.bool).tril()
    theirs = layer(tokens, memory, tgt_mask=hidden).detach()
    cross = layer.multihead_attn
    parts = {**stacked(cross), **dict(zip(("b_q", "b_k", "b_v"), cross.in_proj_bias.chunk(3), strict=True))}
    parts["b_o"] = cross.out_proj.bias
    second = {f"cross_{name}": value.detach() for name, value in parts.items()}
    parameters = group_parameters(DecoderLayerParameters, layer_parameters(layer) | second)
    ours = m.decoder_layer(tokens, memory, parameters, heads=2, normalisation=placement, epsilon=1e-5)
    same(ours, theirs)


def test_layer_normalisation() -> None:
    tokens, scale, shift = randn(3, 4, 6), randn(6, seed=1), randn(6, seed=2)
    same(
        m.layer_normalisation(tokens, scale, shift, epsilon=1e-5),
        functional.layer_norm(tokens, (6,), scale, shift, 1e-5),
    )
    same(m.layer_normalisation(tokens), functional.layer_norm(tokens, (6,), eps=0))


def test_rms_normalisation() -> None:
    tokens, scale = randn(3, 4, 6), randn(6, seed=1)
    same(m.rms_normalisation(tokens, scale, epsilon=1e-6), functional.rms_norm(tokens, (6,), scale, 1e-6))


def test_activations() -> None:
    values = randn(4, 5) * 3
    same(m.relu(values), functional.relu(values))
    same(m.gelu(values), functional.gelu(values))


def test_feed_forward() -> None:
    tokens, W_1, W_2, b_1, b_2 = (
        randn(3, 4),
        randn(4, 7, seed=1),
        randn(7, 4, seed=2),
        randn(7),
        randn(4, seed=3),
    )
    same(
        m.feed_forward(tokens, W_1, W_2, b_1, b_2),
        functional.linear(functional.relu(functional.linear(tokens, W_1.T, b_1)), W_2.T, b_2),
    )


@pytest.mark.parametrize(("stride", "padding", "groups"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_convolutions(stride: int, padding: int, groups: int, batch: tuple[int, ...]) -> None:
    options = {"stride": stride, "padding": padding, "groups": groups}
    signal, kernel, bias = randn(*batch, 4, 9), randn(6, 4 // groups, 3, seed=1), randn(6, seed=2)
    same(
        m.convolution_1d(signal, kernel, bias, **options), functional.conv1d(signal, kernel, bias, **options)
    )
    image, kernel = randn(*batch, 4, 7, 9), randn(6, 4 // groups, 3, 2, seed=1)
    same(m.convolution_2d(image, kernel, bias, **options), functional.conv2d(image, kernel, bias, **options))
    same(m.convolution_2d(image, kernel, **options), functional.conv2d(image, kernel, **options))


@pytest.mark.parametrize(("size", "stride"), [(2, None), (3, 1), (2, 3)])
def test_pooling(size: int, stride: int | None) -> None:
    image = randn(2, 3, 7, 8)
    same(m.average_pooling(image, size=size, stride=stride), functional.avg_pool2d(image, size, stride))
    same(m.max_pooling(image, size=size, stride=stride), functional.max_pool2d(image, size, stride))


def test_patches_are_an_unfolding_and_have_an_inverse() -> None:
    image = randn(2, 3, 8, 12)
    rows = m.patches(image, size=4)
    same(rows, functional.unfold(image, 4, stride=4).mT)
    same(m.patches_inverse(rows, size=4, columns=3), image)


def test_a_patch_embedding_is_a_convolution() -> None:
    image, kernel = randn(3, 8, 12), randn(5, 3, 4, 4, seed=1)
    embedded = m.patches(image, size=4) @ kernel.reshape(5, 48).T
    same(embedded, functional.conv2d(image, kernel, stride=4).reshape(5, 6).T)


@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrences(layer: Any) -> None:
    theirs = layer(3, 4, batch_first=True, dtype=torch.float64)
    torch.manual_seed(7)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    inputs = randn(2, 5, 3)
    with torch.no_grad():
        states = theirs(inputs)[0]
    W_x, W_h = theirs.weight_ih_l0.detach(), theirs.weight_hh_l0.detach()
    b_x, b_h = theirs.bias_ih_l0.detach(), theirs.bias_hh_l0.detach()
    if layer is nn.RNN:
        same(m.recurrence(inputs, W_x, W_h, bias=b_x + b_h, activation="tanh"), states[:, -1])
    elif layer is nn.LSTM:
        same(m.lstm(inputs, W_x, W_h, b_x + b_h), states)
    else:
        same(m.gru(inputs, W_x, W_h, b_x, b_h), states)


def test_hardness_beyond_any_number_gives_the_values_of_the_winners() -> None:
    query, key, value = randn(4, 3), randn(6, 3, seed=1), randn(6, 2, seed=2)
    winners = (query @ key.T).argmax(-1)
    same(m.attention(query, key, value, beta=math.inf), value[winners])
    same(m.attention(query, key, value, beta=0.0), value.mean(0).expand(4, 2))
