"""Gated recurrences, RMS normalisation, ALiBi, 2-D sinusoids, chunks and whole layers, against torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms import (
    alibi_positions,
    decoder_layer,
    encoder_layer,
    gru,
    gru_cell,
    linear_attention,
    linear_attention_chunked,
    linear_attention_recurrent,
    lstm,
    lstm_cell,
    multi_head_attention,
    multi_head_linear_attention,
    rms_normalisation,
    sinusoidal_positions,
    sinusoidal_positions_2d,
)
from headwork.mechanisms.parameters import (
    AttentionParameters,
    DecoderLayerParameters,
    EncoderLayerParameters,
    group_parameters,
)
from headwork.readings import explain

CLOSE = {"rtol": 0.0, "atol": 1e-12}


@pytest.fixture(autouse=True)
def double() -> Any:
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


# --- recurrences --------------------------------------------------------------------------------------


def test_lstm_is_torchs() -> None:
    theirs, x = nn.LSTM(3, 5, batch_first=True), torch.randn(2, 6, 3)
    ours = lstm(x, theirs.weight_ih_l0, theirs.weight_hh_l0, theirs.bias_ih_l0 + theirs.bias_hh_l0)
    torch.testing.assert_close(ours, theirs(x)[0], **CLOSE)


def test_lstm_cell_is_torchs() -> None:
    theirs, x, h, c = nn.LSTMCell(3, 5), torch.randn(2, 3), torch.randn(2, 5), torch.randn(2, 5)
    bias = theirs.bias_ih + theirs.bias_hh
    for ours, expected in zip(
        lstm_cell(x, theirs.weight_ih, theirs.weight_hh, bias, h, c), theirs(x, (h, c)), strict=True
    ):
        torch.testing.assert_close(ours, expected, **CLOSE)


def test_gru_is_torchs() -> None:
    theirs, x = nn.GRU(3, 5, batch_first=True), torch.randn(2, 6, 3)
    ours = gru(x, theirs.weight_ih_l0, theirs.weight_hh_l0, theirs.bias_ih_l0, theirs.bias_hh_l0)
    torch.testing.assert_close(ours, theirs(x)[0], **CLOSE)


def test_gru_cell_is_torchs() -> None:
    theirs, x, h = nn.GRUCell(3, 5), torch.randn(2, 3), torch.randn(2, 5)
    ours = gru_cell(x, theirs.weight_ih, theirs.weight_hh, theirs.bias_ih, theirs.bias_hh, h)
    torch.testing.assert_close(ours, theirs(x, h), **CLOSE)


@pytest.mark.parametrize("mechanism", ["lstm", "gru"])
def test_a_gate_too_few_is_told(mechanism: str) -> None:
    with pytest.raises(InputError, match=r"Both stack \d gates of 2 rows"):
        explain(mechanism, inputs="1 2", W_x="1;2", W_h="1 2;3 4")


@pytest.mark.parametrize("mechanism", ["lstm", "gru"])
def test_gates_exactly_are_the_decimals(mechanism: str) -> None:
    rows = 4 if mechanism == "lstm" else 3
    given = {
        "inputs": "1 -1/2",
        "W_x": [[k / 2 - 1] for k in range(rows)],
        "W_h": [[1 - k / 2] for k in range(rows)],
    }
    exact, decimal = explain(mechanism, exact=True, **given), explain(mechanism, **given)
    for path, noted in exact.steps.items():
        assert abs(noted.values - decimal[path].values).max() < 1e-12, path


# --- normalisation and positions ----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 1e-5])
def test_rms_normalisation_is_torchs(epsilon: float) -> None:
    x, scale = torch.randn(2, 3, 7), torch.randn(7)
    torch.testing.assert_close(
        rms_normalisation(x, scale, epsilon=epsilon), functional.rms_norm(x, (7,), scale, epsilon), **CLOSE
    )


def test_slopes_of_alibi_are_the_published_ones() -> None:
    def slopes(heads: int) -> list[float]:
        return (-alibi_positions(torch.zeros(heads, 1, 2))[:, 0, 0]).tolist()

    assert slopes(8) == pytest.approx([2.0**-k for k in range(1, 9)])
    assert slopes(2) == pytest.approx([2.0**-4, 2.0**-8])
    # 12 heads: the eight of 8, then every other one of 16.
    assert slopes(12) == pytest.approx(
        [2.0**-k for k in range(1, 9)] + [2.0**-k for k in (0.5, 1.5, 2.5, 3.5)]
    )


def test_alibi_takes_the_distance() -> None:
    scores = torch.randn(4, 3, 5)
    given = torch.tensor([1.0, 0.5, 0.25, 0.125])
    query, key = torch.arange(2, 5)[:, None], torch.arange(5)[None, :]
    expected = scores - given[:, None, None] * (query - key).abs()
    torch.testing.assert_close(alibi_positions(scores, given), expected, **CLOSE)
    with pytest.raises(InputError, match="one slope per head"):
        alibi_positions(scores, given[:3])


def test_sinusoids_of_an_image_are_those_of_row_and_column() -> None:
    rows, columns = torch.arange(3.0), torch.arange(2.0)
    grid = sinusoidal_positions_2d(rows, columns, width=8).reshape(3, 2, 8)
    for i in range(3):
        for j in range(2):
            torch.testing.assert_close(grid[i, j, :4], sinusoidal_positions(rows, width=4)[i], **CLOSE)
            torch.testing.assert_close(grid[i, j, 4:], sinusoidal_positions(columns, width=4)[j], **CLOSE)
    with pytest.raises(InputError, match="multiple of 4"):
        sinusoidal_positions_2d(rows, columns, width=6)


# --- linear attention ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("chunk", [1, 4, 7, 9, 20])
def test_the_three_forms_are_one(mask: str | None, chunk: int) -> None:
    query, key, value = torch.randn(3, 2, 9, 4)
    whole = linear_attention(query, key, value, features="elu+1", mask=mask)
    chunked = linear_attention_chunked(query, key, value, features="elu+1", mask=mask, chunk=chunk)
    recurrent = linear_attention_recurrent(query, key, value, features="elu+1", mask=mask)
    torch.testing.assert_close(chunked, whole, **CLOSE)
    torch.testing.assert_close(recurrent, whole, **CLOSE)


def test_chunks_of_other_lengths_and_bad_ones() -> None:
    query, key, value = torch.rand(5, 4), torch.rand(9, 4), torch.rand(9, 3)
    torch.testing.assert_close(
        linear_attention_chunked(query, key, value, chunk=2), linear_attention(query, key, value), **CLOSE
    )
    with pytest.raises(InputError, match="5 queries and 9 keys"):
        linear_attention_chunked(query, key, value, mask="causal", chunk=2)
    with pytest.raises(InputError, match="at least 1 token per chunk"):
        linear_attention_chunked(query, key, value, chunk=0)


def test_a_mask_hides_keys_from_linear_attention() -> None:
    query, key, value = torch.rand(2, 5, 4), torch.rand(2, 9, 4), torch.rand(2, 9, 3)
    mask = torch.ones(2, 1, 9)
    mask[..., 6:] = 0
    torch.testing.assert_close(
        linear_attention(query, key, value, mask=mask),
        linear_attention(query, key[:, :6], value[:, :6]),
        **CLOSE,
    )


def test_one_linear_head_is_linear_attention() -> None:
    tokens = torch.randn(2, 5, 4)
    matrices = torch.randn(4, 4, 4)
    q, k, v = (tokens @ m.mT for m in matrices[:3])
    expected = linear_attention(q, k, v, features="elu+1", mask="causal") @ matrices[3].mT
    torch.testing.assert_close(
        multi_head_linear_attention(tokens, AttentionParameters(*matrices), heads=1, mask="causal"),
        expected,
        **CLOSE,
    )


# --- layers -------------------------------------------------------------------------------------------


def attention_of(theirs: nn.MultiheadAttention, prefix: str = "") -> dict[str, torch.Tensor]:
    matrices, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    named = {f"{prefix}W_{k}": m for k, m in zip("qkv", matrices, strict=True)}
    named |= {f"{prefix}b_{k}": b for k, b in zip("qkv", biases, strict=True)}
    return named | {f"{prefix}W_o": theirs.out_proj.weight, f"{prefix}b_o": theirs.out_proj.bias}


def layer_of(theirs: Any, normalisations: int) -> dict[str, Any]:
    """Random values everywhere, so that no bias or scale is missed."""
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    named = attention_of(theirs.self_attn)
    named |= {"W_1": theirs.linear1.weight.mT, "b_1": theirs.linear1.bias}
    named |= {"W_2": theirs.linear2.weight.mT, "b_2": theirs.linear2.bias}
    for k in range(1, normalisations + 1):
        norm = getattr(theirs, f"norm{k}")
        named |= {f"scale_{k}": norm.weight, f"shift_{k}": norm.bias}
    return named


def test_multi_head_attention_with_biases_is_torchs() -> None:
    theirs = nn.MultiheadAttention(6, 3, batch_first=True)
    nn.init.normal_(theirs.in_proj_bias)
    nn.init.normal_(theirs.out_proj.bias)
    tokens, memory = torch.randn(2, 4, 6), torch.randn(2, 5, 6)
    ours = multi_head_attention(tokens, AttentionParameters(**attention_of(theirs)), memory, heads=3)
    torch.testing.assert_close(ours, theirs(tokens, memory, memory)[0], **CLOSE)
    with pytest.raises(InputError, match="b_k is 5"):
        multi_head_attention(tokens, AttentionParameters(b_k=torch.zeros(5)), heads=3)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer_is_torchs(placement: str, activation: str) -> None:
    theirs: Any = nn.TransformerEncoderLayer(
        6, 3, 10, dropout=0.0, activation=activation, norm_first=placement == "pre", batch_first=True
    )
    tokens, named = torch.randn(2, 4, 6), layer_of(theirs, 2)
    ours = encoder_layer(
        tokens,
        group_parameters(EncoderLayerParameters, named),
        heads=3,
        normalisation=placement,  # type: ignore[arg-type]
        activation=activation,  # type: ignore[arg-type]
        epsilon=1e-5,
    )
    torch.testing.assert_close(ours, theirs(tokens), **CLOSE)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_decoder_layer_is_torchs(placement: str) -> None:
    theirs: Any = nn.TransformerDecoderLayer(
        6, 3, 10, dropout=0.0, norm_first=placement == "pre", batch_first=True
    )
    tokens, memory = torch.randn(2, 4, 6), torch.randn(2, 5, 6)
    named = layer_of(theirs, 3) | attention_of(theirs.multihead_attn, "cross_")
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    ours = decoder_layer(
        tokens,
        memory,
        group_parameters(DecoderLayerParameters, named),
        heads=3,
        normalisation=placement,  # type: ignore[arg-type]
        epsilon=1e-5,
        memory_mask=~hidden[:, None, None, :],
    )
    later = nn.Transformer.generate_square_subsequent_mask(4)
    expected = theirs(tokens, memory, tgt_mask=later, tgt_is_causal=True, memory_key_padding_mask=hidden)
    torch.testing.assert_close(ours, expected, **CLOSE)
