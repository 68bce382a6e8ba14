"""Sizes, parameters and FLOPs are those of torch's own layers (on the meta device: no numbers are made)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from headwork import sizes


def parameters(layer: nn.Module) -> int:
    return sum(p.numel() for p in layer.parameters())


def flops(layer, *inputs) -> int:
    with FlopCounterMode(display=False) as counter:
        layer(*inputs)
    return counter.get_total_flops()


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta")


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 7), st.integers(0, 5))
def test_the_output_size_is_that_of_torch(size, kernel, stride, padding):
    if kernel > size + 2 * padding:
        with pytest.raises(ValueError, match="does not fit"):
            sizes.output_size(size, kernel, stride, padding)
        return
    layer = nn.Conv1d(1, 1, kernel, stride=stride, padding=padding, device="meta")
    assert sizes.output_size(size, kernel, stride, padding) == layer(meta(1, 1, size)).shape[-1]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_convolution_has_the_shape_parameters_and_flops_of_torch(data):
    draw = data.draw
    groups, stride, padding = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    channels, filters = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    height, width = draw(st.integers(4, 12)), draw(st.integers(4, 12))
    layer = nn.Conv2d(channels, filters, kernel, stride=stride, padding=padding, groups=groups, device="meta")
    ledger = sizes.convolution(
        (channels, height, width),
        filters=filters,
        kernel=kernel,
        stride=stride,
        padding=padding,
        groups=groups,
    )
    row = ledger.row("as a convolution")
    assert ledger["output"] == tuple(layer(meta(1, channels, height, width)).shape[1:])
    assert row.parameters == parameters(layer)
    assert row.weights == layer.weight.numel()
    assert row.flops == flops(layer, meta(1, channels, height, width))


def test_a_convolution_of_a_signal_too():
    layer = nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2, device="meta")
    ledger = sizes.convolution(9, channels=4, filters=6, kernel=3, stride=2, padding=1, groups=2)
    assert ledger["output"] == tuple(layer(meta(1, 4, 9)).shape[1:])
    assert ledger.row("as a convolution").parameters == parameters(layer)
    assert ledger.row("as a convolution").flops == flops(layer, meta(1, 4, 9))


@pytest.mark.parametrize(
    ("tokens", "memory", "width", "heads", "batch"), [(5, 5, 768, 12, 1), (7, 3, 24, 4, 2)]
)
def test_multi_head_attention_has_the_parameters_and_flops_of_torch(tokens, memory, width, heads, batch):
    layer = nn.MultiheadAttention(width, heads, batch_first=True, device="meta")
    asked = None if memory == tokens else memory
    ledger = sizes.attention_ledger(
        tokens=tokens, width=width, heads=heads, batch=batch, memory=asked, biases=True
    )
    queries, keys = meta(batch, tokens, width), meta(batch, memory, width)
    assert ledger.total.parameters == parameters(layer)
    assert ledger.total.flops == flops(layer, queries, keys, keys)
    bare = sizes.attention_ledger(tokens=tokens, width=width, heads=heads, batch=batch, memory=asked)
    assert bare.total.parameters == ledger.total.weights == parameters(layer) - 4 * width


@pytest.mark.parametrize("options", [{}, {"width": 24, "depth": 2, "heads": 4, "hidden": 40}])
def test_the_transformer_is_torchs_without_its_last_normalisations(options):
    ledger = sizes.transformer(vocabulary=0, tokens=11, target_tokens=7, **options)
    width, depth = options.get("width", 512), options.get("depth", 6)
    shape = width, options.get("heads", 8), depth, depth, options.get("hidden", 2048)
    model = nn.Transformer(*shape, batch_first=True, device="meta")
    last = parameters(model.encoder.norm) + parameters(model.decoder.norm)
    assert ledger.total.parameters == parameters(model) - last
    biases = sum(p.numel() for name, p in model.named_parameters() if name.endswith("bias"))
    assert ledger.total.biases == biases - last // 2
    assert ledger["parameters of the encoder"] == parameters(model.encoder) - last // 2
    assert ledger["parameters of the decoder"] == parameters(model.decoder) - last // 2
    assert ledger.total.flops == flops(model, meta(1, 11, width), meta(1, 7, width))


class Vision(nn.Module):
    """A vision transformer of torch's own layers, for images of 32 x 48 in patches of 8."""

    def __init__(self, class_token: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 8, stride=8)
        self.class_token = nn.Parameter(torch.empty(1, 1, 24)) if class_token else None
        self.positions = nn.Parameter(torch.empty(1, 24 + class_token, 24))
        layer = nn.TransformerEncoderLayer(24, 3, 56, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(
            [layer, nn.TransformerEncoderLayer(24, 3, 56, batch_first=True, norm_first=True)]
        )
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(image).flatten(2).mT
        if self.class_token is not None:
            tokens = torch.cat([self.class_token, tokens], 1)
        tokens = tokens + self.positions
        for layer in self.layers:
            tokens = layer(tokens)
        tokens = self.norm(tokens)
        return self.head(tokens[:, 0] if self.class_token is not None else tokens.mean(1))


@pytest.mark.parametrize("class_token", [True, False])
def test_a_vision_transformer_is_one_built_of_torchs_layers(class_token):
    with torch.device("meta"):
        model = Vision(class_token)
    ledger = sizes.vit(
        image=(32, 48), patch=8, width=24, depth=2, heads=3, hidden=56, classes=10, class_token=class_token
    )
    assert ledger["tokens"] == 24 + class_token
    assert ledger.total.parameters == parameters(model)
    assert ledger.total.flops == flops(model, meta(1, 3, 32, 48))
