"""intervene changes single heads, leaves the others and the module alone, and tells the effect in numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwork
from headwork.errors import InputError
from headwork.inspection.intervening import ChangedHeads


class Layer(nn.Module):
    """Self-attention whose heads are read off its output: nothing joins them."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.fused = nn.Linear(8, 24), fused

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 2)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v)
        return (q @ k.mT / 2**0.5).softmax(-1) @ v


X, Y = torch.randn(2, 5, 8), torch.randn(2, 5, 8)


def value_of(layer: Layer, x: Tensor) -> Tensor:
    return layer.project(x).chunk(3, -1)[2].unflatten(-1, (4, 2)).transpose(1, 2)


@pytest.mark.parametrize("fused", [True, False])
@torch.no_grad()
def test_each_change_moves_its_head_alone(fused: bool) -> None:
    layer = Layer(fused)
    value, other = value_of(layer, X), headwork.attention_of(layer, Y).records[0].weights
    order = headwork.build("permutation", order="2 3 4 5 1")
    expected = {
        "off": (headwork.head(1, 3).off(), torch.zeros_like(value)),
        "uniform": (headwork.head(1, 3).uniform(), value.mean(2, keepdim=True).expand_as(value)),
        "identity": (headwork.head(1, 3).identity(), value),
        "built": (
            headwork.head(1, 3).fixed(order),
            torch.tensor(order.trace()["weights"].values).float() @ value,
        ),
        "given": (headwork.head(1, 3).fixed(torch.eye(5).flip(0)), value.flip(2)),
        "other weights": (headwork.head(1, 3).weights_from(Y), other @ value),
        "other output": (headwork.head(1, 3).output_from(Y), layer(Y)),
    }
    for name, (change, wanted) in expected.items():
        effect = headwork.intervene(layer, {"": change}, X)
        assert torch.equal(effect.output[:, [0, 2]], layer(X)[:, [0, 2]]), name
        torch.testing.assert_close(effect.output[:, [1, 3]], wanted[:, [1, 3]], atol=1e-5, rtol=0, msg=name)
        gap = (effect.output - layer(X)).abs()
        assert effect.largest == pytest.approx(gap.max().item())
        assert effect.mean == pytest.approx(gap.mean().item(), rel=1e-5)
        assert effect.relative == pytest.approx((gap.norm() / layer(X).norm()).item(), rel=1e-5)
    assert "of the predictions change" in str(effect)


@torch.no_grad()
def test_a_change_of_nothing_has_no_effect_and_a_function_waits_for_its_input() -> None:
    layer = Layer(fused=True)
    same = headwork.intervene(layer, {"": headwork.head().weights_from(X)})(X)
    assert same.largest < 1e-6
    assert same.changed == 0


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@torch.no_grad()
def test_a_model_of_transformers_against_zeroed_parameters(kind: str) -> None:
    """A head that is off is one whose columns of the output projection are zero."""
    sizes = {"vocab_size": 20, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4}
    model = transformers.GPT2LMHeadModel._from_config(
        transformers.GPT2Config(**sizes), attn_implementation=kind
    ).eval()
    ids = torch.randint(3, 20, (2, 6))
    effect = headwork.intervene(model, {"transformer.h.1": headwork.head(2).off()}, ids)
    assert torch.equal(effect.before.logits, model(ids).logits)
    model.transformer.h[1].attn.c_proj.weight[8:12] = 0
    torch.testing.assert_close(effect.output.logits, model(ids).logits, atol=1e-6, rtol=0)
    assert 0 < effect.relative < 1


@torch.no_grad()
def test_torchs_own_encoder_leaves_its_fast_path_and_returns_to_it() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    effect = headwork.intervene(encoder, {"layers.0": headwork.head(0).uniform()}, X)
    assert effect.largest > 0
    assert torch.backends.mha.get_fastpath_enabled()
    torch.testing.assert_close(effect.before, encoder(X), atol=1e-5, rtol=0)


class Mixed(Layer):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 2)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        return torch.einsum("bhij,hg->bgij", (q @ k.mT).softmax(-1), self.project.weight[:4, :4]) @ v


WRONG: list[tuple[nn.Module, dict[str, Any], str]] = [
    (Layer(True), {"": headwork.head(4).off()}, "has heads 0 to 3, not 4"),
    (Layer(True), {"": headwork.head(1)}, r"Give, for instance, head\(2\)\.off\(\)"),
    (Layer(True), {"nowhere": headwork.head(1).off()}, "unknown path of an attention 'nowhere'"),
    (
        Layer(True),
        {"": headwork.head(1).fixed(torch.eye(4))},
        r"weights are 4 x 4 \(query, key\), expected 2 x 1 x 5 x 5",
    ),
    (Layer(False), {"": headwork.head(1).weights_from(X[:, :3])}, "Sizes must be the same"),
    (Mixed(False), {"": headwork.head(1).off()}, "heads are mixed after the softmax"),
]


@pytest.mark.parametrize(("module", "changes", "message"), WRONG)
@torch.no_grad()
def test_what_cannot_be_done_is_refused(
    module: nn.Module, changes: dict[str, ChangedHeads], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        headwork.intervene(module, changes, X)
