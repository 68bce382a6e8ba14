"""Muon's updates are orthogonal, descent is torch's, everything else AdamW's."""

import math
from copy import deepcopy

import pytest
import torch

from headwork.errors import InputError
from headwork.models import TextClassifier, TextClassifierConfig
from headwork.training import changed, text, vision
from headwork.training.optimisers import NGRAM_FACTOR, MixedOptimiser, build_optimiser, orthogonal


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 20), (2, 20, 8)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    given = torch.randn(shape, dtype=torch.float64)
    made = orthogonal(given)
    values = torch.linalg.svdvals(made)
    assert ((values > 0.6) & (values < 1.3)).all()
    # The independent truth: U V^T of the singular value decomposition, which has the same directions.
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    inside = left.mT @ made @ right.mT
    torch.testing.assert_close(
        inside, torch.diag_embed(inside.diagonal(dim1=-2, dim2=-1)), rtol=0, atol=1e-10
    )


def test_a_first_step_is_the_orthogonal_gradient_and_the_decay():
    matrix = torch.nn.Parameter(torch.eye(4, 6))
    gradient = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    matrix.grad = gradient.clone()
    MixedOptimiser([{"params": [matrix], "update_rule": "muon"}], lr=0.1, weight_decay=0.5).step()
    expected = 0.95 * torch.eye(4, 6) - 0.1 * 0.2 * math.sqrt(6) * orthogonal(gradient)
    torch.testing.assert_close(matrix.detach(), expected, rtol=1e-5, atol=1e-6)


def test_sgd_is_torchs_own():
    start = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    both = (
        MixedOptimiser([{"params": [ours], "update_rule": "sgd"}], lr=0.3),
        torch.optim.SGD([theirs], lr=0.3, momentum=0.9),
    )
    for seed in range(4):
        for parameter, optimiser in zip((ours, theirs), both, strict=True):
            parameter.grad = torch.randn(5, 2, generator=torch.Generator().manual_seed(seed))
            optimiser.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_rest_moves_as_with_adamw(small, digits):
    from headwork.training.preparation import prepare

    moved = {}
    for name in ("adamw", "muon"):
        run = small(f"optimiser={name}")
        model = prepare(run, log=lambda _: None, data=digits).new_model()
        optimiser = build_optimiser(model, run)
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
        optimiser.step()
        moved[name] = dict(model.named_parameters())
    for name, parameter in moved["adamw"].items():
        hidden = ".blocks." in name and parameter.dim() == 2
        assert torch.equal(parameter, moved["muon"][name]) != hidden


def test_what_is_kept_between_steps_is_loaded_to_the_bit():
    def made():
        matrix, bias = torch.nn.Parameter(torch.eye(3)), torch.nn.Parameter(torch.ones(3))
        return [matrix, bias], MixedOptimiser(
            [{"params": [matrix], "update_rule": "muon"}, {"params": [bias]}], lr=0.1
        )

    def step(parameters, optimiser, seed):
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
        optimiser.step()

    whole, first = made()
    step(whole, first, 0)
    resumed, second = made()
    second.load_state_dict(deepcopy(first.state_dict()))  # loading shares tensors
    for old, new in zip(whole, resumed, strict=True):
        new.data.copy_(old.data)
    step(whole, first, 1)
    step(resumed, second, 1)
    assert all(map(torch.equal, whole, resumed))
    assert first.state[whole[0]]["step"] == 2


@pytest.mark.parametrize("run", [vision("digits", "cnn"), text("imdb", "lstm")])
def test_a_model_without_blocks_takes_adamw(run):
    with pytest.raises(InputError, match="blocks of a transformer"):
        changed(run, ["optimiser=muon"])


def test_an_ngram_table_has_a_larger_learning_rate():
    run = text("imdb", optimiser="muon")
    model = TextClassifier(TextClassifierConfig(width=8, hidden=8, heads=2, depth=1, ngrams=30))
    groups = {group.get("update_rule"): group for group in build_optimiser(model, run).param_groups}
    assert groups["sgd"]["params"] == [model.ngrams.table]
    assert groups["sgd"]["rate_factor"] == NGRAM_FACTOR
    assert len(groups["muon"]["params"]) == 6
    total = sum(len(group["params"]) for group in build_optimiser(model, run).param_groups)
    assert total == len(list(model.parameters()))
