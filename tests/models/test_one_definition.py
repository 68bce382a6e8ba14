"""One body on every kind of tensor: torch plain and fused, numbers by hand, shapes; and each step is used."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.mechanisms import parameters as params
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.mechanisms.kernels import PLAIN
from headwork.models.model import MODELS
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.readings import recorder, replacer


def by_hand(value: Any) -> Any:
    return HandTensor(value.detach().numpy().astype(float)) if isinstance(value, Tensor) else value


def inputs_of(model: Any, batch: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """What the body takes: the batch, and the rows of n-grams where the model has them."""
    found = model.ngrams_of(*batch) if hasattr(model, "ngrams_of") else None
    return batch, {} if found is None else {"ngrams": found}


def hand_run(model: Any, batch: tuple[Tensor, ...]) -> Any:
    inputs, more = inputs_of(model, batch)
    more = {name: tuple(map(by_hand, pair)) for name, pair in more.items()}
    tree = params.map_tree(lambda name, leaf: by_hand(leaf), model.tree())
    return model.definition.function(tree, model.config, *map(by_hand, inputs), **more)


def test_every_definition_has_its_model_and_a_case(cases: dict[str, Any]) -> None:
    assert set(DEFINITIONS) == set(MODELS) == {type(case.model()).__name__ for case in cases.values()}


def test_plain_fused_and_by_hand_are_one(case: Any) -> None:
    plain, batch = case.model(), case.batch()
    results = [plain(*batch), plain.with_backend("fused")(*batch), torch.tensor(hand_run(plain, batch).array)]
    largest = results[2].abs().max()
    for result in results[:2]:
        assert (result.double() - results[2]).abs().max() <= 1e-5 * largest


def test_gradients_of_plain_and_fused_are_one(case: Any) -> None:
    plain, batch = (
        case.model().double(),
        tuple(t.double() if t.is_floating_point() else t for t in case.batch()),
    )
    gradients = []
    for model in (plain, plain.with_backend("fused")):
        result = model(*batch)
        direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(3), dtype=result.dtype)
        gradients.append(torch.autograd.grad((result * direction).sum(), list(model.parameters())))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_shapes_alone_give_the_shapes(case: Any) -> None:
    model, batch = case.model(), case.batch()
    inputs, more = inputs_of(model, batch)
    work = OperationCount()

    def shape(value: Any) -> ShapeTensor:
        return ShapeTensor(value.shape, work)

    kept: dict[str, Any] = {}
    recorded: dict[str, Any] = {}
    tree = params.map_tree(lambda name, leaf: shape(leaf), model.definition.specs(model.config))
    options = {name: tuple(map(shape, pair)) for name, pair in more.items()}
    model.definition.function(
        tree, model.config, *map(shape, inputs), **options, kernels=PLAIN.with_note(recorder(kept))
    )
    with torch.no_grad():
        model(*batch, note=recorder(recorded))
    assert {n: tuple(v.shape) for n, v in kept.items()} == {n: tuple(v.shape) for n, v in recorded.items()}


# What nothing follows: there is no cell before the first step that a forget gate could keep.
FINAL = ("step 0/forget gate",)


def test_replacing_a_step_moves_what_follows_and_nothing_before(case: Any) -> None:
    model, batch = case.model(), tuple(t[:2] for t in case.batch())
    recorded: dict[str, Tensor] = {}
    with torch.no_grad():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)  # no bias is 0, so that every gate has an effect
        model(*batch, note=recorder(recorded))
        paths = list(recorded)
        for i, path in enumerate(paths[:-1]):
            changed: dict[str, Tensor] = {}
            old = recorded[path]
            other = torch.where(old.isfinite(), old + 0.25 + torch.rand(old.shape), old)
            model(*batch, note=replacer(recorder(changed), {path: other}))
            same = [torch.equal(changed[p], recorded[p]) for p in paths]
            assert all(same[:i]), path
            assert not all(same[i + 1 :]) or path.endswith(FINAL), path


# --- the tree -----------------------------------------------------------------------------------------
def test_a_tree_is_built_from_flat_names_and_back(case: Any) -> None:
    model = case.model()
    template, state = model.definition.specs(model.config), dict(model.state_dict())
    fixed = {n: t for n, t in model.named_buffers() if n not in state}
    tree = params.fill_tree(template, state | fixed)
    assert {n: id(t) for n, t in params.flatten_tree(tree).items()} == {
        n: id(t) for n, t in (state | fixed).items()
    }
    paths = params.parameter_paths(template)
    assert len(set(paths.values())) == len(paths)
    again = params.fill_tree(template, {paths[name]: value for name, value in (state | fixed).items()})
    assert params.flatten_tree(again).keys() == params.flatten_tree(tree).keys()
    first = next(iter(state))
    with pytest.raises(InputError, match=r"is missing\. Expected"):
        params.fill_tree(template, {n: t for n, t in (state | fixed).items() if n != first})
    with pytest.raises(InputError, match="unknown parameter in a file 'W_x_y'"):
        params.fill_tree(template, {**state, **fixed, "W_x_y": state[first]}, "a file")
    with pytest.raises(InputError, match=r"is 1 x 1 x 1 x 1 x 1, expected"):
        params.fill_tree(template, {**state, **fixed, first: np.zeros((1, 1, 1, 1, 1))})


def test_paths_are_those_of_the_steps(cases: dict[str, Any]) -> None:
    paths = params.parameter_paths(DEFINITIONS["VisionTransformer"].specs(cases["vision"].config))
    assert paths["transformer.blocks.1.feed_forward.W_1"] == "block 1/feed-forward/W_1"
    assert paths["transformer.blocks.0.normalisation_2.scale"] == "block 0/normalisation 2/scale"
    assert paths["class_token"] == "class token"


def test_definitions_and_configs_need_no_torch() -> None:
    code = (
        "import sys; from headwork.mechanisms.definitions import find_definition; import headwork.mechanisms;"
        "d = find_definition('vision'); d.specs(d.config_class()); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
