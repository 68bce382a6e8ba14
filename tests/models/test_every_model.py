"""What holds of every model: shapes, gradients, learning, both kernels, the compiler, steps and cards."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.readings import recorder


def test_shape_and_every_parameter_gets_a_gradient(case: Any) -> None:
    model, batch = case.model(), case.batch()
    result = model(*batch)
    assert tuple(result.shape) == case.out
    direction = torch.randn_like(result)
    (result * direction).sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None, name
        assert torch.isfinite(gradient).all(), name
        # A key bias shifts all scores of a query alike, so softmax never sees it.
        if not (name.endswith("attention.b_k") and case.config.attention == "softmax"):
            assert gradient.abs().max() > 0, name


def test_a_batch_of_one(case: Any) -> None:
    model, batch = case.model(), case.batch()
    one = model(*(t[:1] for t in batch))
    torch.testing.assert_close(one, model(*batch)[:1], rtol=1e-5, atol=1e-5)


def test_overfits_one_batch(case: Any) -> None:
    model, batch = case.model(backend="fused").train(), case.batch()
    targets = torch.randn(case.out)
    if case.out[-1] == case.config.width:
        # Vectors that leave a normalisation: only such can be learned, and those of padding are left out.
        targets = torch.nn.functional.layer_norm(targets, targets.shape[-1:])
        batch = tuple(t for t in batch if t.is_floating_point()) or batch[:1]
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses: list[float] = []
    while len(losses) < 300 and (not losses or losses[-1] > 0.1 * losses[0]):
        optimiser.zero_grad()
        loss = (model(*batch) - targets).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] <= 0.1 * losses[0]


def test_fused_is_plain_on_the_same_parameters(case: Any) -> None:
    plain, batch = case.model(), case.batch()
    fused = plain.with_backend("fused")
    assert [id(p) for p in fused.parameters()] == [id(p) for p in plain.parameters()]
    assert plain.config == case.config
    assert fused.config.backend == "fused"
    torch.testing.assert_close(fused(*batch), plain(*batch), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fused.with_backend("plain")(*batch), plain(*batch), rtol=0, atol=0)


def test_every_step_has_its_card(case: Any) -> None:
    model, batch = case.model(), case.batch()
    kept: dict[str, Tensor] = {}
    with torch.no_grad():
        noted = model(*batch, note=recorder(kept))
        torch.testing.assert_close(noted, model(*batch), rtol=0, atol=0)
    for path, value in kept.items():
        cards = [card for card in model.steps if card.matches(path)]
        assert len(cards) == 1, path
        # The batch, and nothing else, comes before the axes of the card.
        assert value.dim() - len(cards[0].axes.split()) in (0, 1), (path, value.shape, cards[0].axes)
    for card in model.steps:
        assert card.when or any(card.matches(path) for path in kept), card.name


def test_a_fused_model_refuses_to_be_traced(case: Any) -> None:
    kept: dict[str, Tensor] = {}
    with pytest.raises(InputError, match=r"with_backend\('plain'\)"):
        case.model(backend="fused")(*case.batch(), note=recorder(kept))
    assert not kept


def test_a_config_goes_through_json(case: Any) -> None:
    plain = json.loads(json.dumps(asdict(case.config)))
    assert type(case.config)(**plain) == case.config


@pytest.mark.only("case", lambda case: hasattr(case.config, "dropout"))
def test_dropout_acts_in_training_only(case: Any) -> None:
    model, batch = case.model(dropout=0.5), case.batch()
    torch.testing.assert_close(model(*batch), case.model()(*batch), rtol=0, atol=0)
    model.train()
    assert not torch.equal(model(*batch), model(*batch))


# A sample in the suite: captured whole, forward and backward, and one small model made into machine code.
SAMPLE = [
    ("encoder-decoder", "plain"),
    ("vision, mean", "fused"),
    ("text, gru", "fused"),
    ("language model, linear", "fused"),
]


@pytest.mark.parametrize(("name", "backend"), SAMPLE, ids=str)
def test_a_sample_is_captured_whole(cases: dict[str, Any], name: str, backend: str) -> None:
    compiled_like(cases[name], backend, "aot_eager", depth=1)


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_compiled_is_plain(case: Any, backend: str) -> None:
    compiled_like(case, backend, "inductor")


def compiled_like(case: Any, backend: str, compiler: str, **changes: Any) -> None:
    torch.compiler.reset()
    model, batch = case.model(backend=backend, **changes), case.batch()
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    results = []
    for run in (model, compiled):
        model.zero_grad()
        result = run(*batch)
        result.square().mean().backward()
        results.append((result.detach(), {n: p.grad.clone() for n, p in model.named_parameters()}))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-5, atol=1e-5)
    for name, gradient in results[0][1].items():
        torch.testing.assert_close(results[1][1][name], gradient, rtol=1e-4, atol=1e-5)
