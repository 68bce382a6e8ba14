"""Relevance against a truth that is known, and the verdict on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.trust import agreement, planted
from headwork import inspect
from headwork.inspection.model_on_input import AttentionMap, ModelOnInput
from headwork.inspection.relevance import (
    RANDOM_ORDERS,
    gradient_attention,
    insertion_and_deletion,
    relevance,
    rollout,
    trust,
)

COEFFICIENTS = np.array([3.0, 0.0, -1.0, 0.5, 0.0, 2.0])


@pytest.fixture
def linear():
    """A model whose logit is a sum over its parts: every order of them can be worked out by hand."""

    def run(hidden):
        logits = (~hidden) @ COEFFICIENTS
        return np.stack([logits, -logits], -1)

    count = len(COEFFICIENTS)
    layers = [AttentionMap("all", np.full((1, count, count), 1 / count))]
    return ModelOnInput(
        name="linear",
        labels=tuple("abcdef"),
        parts=tuple(range(count)),
        outputs_with_hidden=run,
        attention_pass=lambda choose: (run(np.zeros((1, count), bool))[0], layers),
        hidden_note="",
        classes=("yes", "no"),
    )


def test_occlusion_has_the_order_and_the_signs_of_the_truth(linear):
    values = relevance(linear)["occlusion"]
    assert np.array_equal(np.argsort(-values), np.argsort(-COEFFICIENTS))
    assert np.array_equal(np.sign(values.round(9)), np.sign(COEFFICIENTS))


def test_insertion_and_deletion_by_hand(linear):
    order = np.array([[0, 5, 3, 1, 4, 2]])
    inserted, deleted = insertion_and_deletion(linear, order)
    sums = np.cumsum([0, *COEFFICIENTS[order[0]]])
    up = 1 / (1 + np.exp(-2 * sums))
    down = 1 / (1 + np.exp(-2 * (sums[-1] - sums)))
    assert inserted[0] == pytest.approx(np.trapezoid(up, dx=1 / 6))
    assert deleted[0] == pytest.approx(np.trapezoid(down, dx=1 / 6))


def test_the_right_order_is_above_random_and_its_reverse_below(linear):
    # Exactly one order of 720 is best here; the methods know it, its reverse, and nothing.
    verdicts = trust(linear, {"occlusion": COEFFICIENTS, "reverse": -COEFFICIENTS})
    assert verdicts["occlusion"].verdict == "above random"
    assert verdicts["reverse"].verdict == "below random"
    assert verdicts["reverse"].value == pytest.approx(-verdicts["occlusion"].value)
    assert "occlusion reaches" in verdicts["reverse"].sentence


def test_random_orders_are_beyond_the_interval_one_time_in_twenty(linear):
    generator = np.random.default_rng(0)
    beyond = 0
    for seed in range(200):
        values = {"occlusion": COEFFICIENTS, "random": generator.normal(size=6)}
        beyond += trust(linear, values, seed=seed)["random"].verdict != "not distinguishable from random"
    assert RANDOM_ORDERS == 19
    assert 2 <= beyond <= 20  # 10 expected


def test_rollout_and_gradients_follow_their_papers():
    generator = np.random.default_rng(1)
    weights = generator.dirichlet(np.ones(4), size=(2, 3, 4))
    gradients = generator.normal(size=weights.shape)
    layers = [AttentionMap(str(i), weights[i], gradients[i]) for i in range(2)]
    half = [(weights[i].mean(0) + np.eye(4)) / 2 for i in range(2)]
    assert np.allclose(rollout(layers), half[1] @ half[0])
    first, second = ((weights[i] * gradients[i]).clip(0).mean(0) for i in range(2))
    assert np.allclose(gradient_attention(layers), first + second @ (np.eye(4) + first))


@pytest.mark.parametrize("decoys", [False, True])
def test_a_planted_truth_is_found(decoys):
    """Occlusion finds all of the relevant tokens; a head that is thrown away misleads rollout alone."""
    shares: dict[str, list[float]] = {}
    for seed in range(6):
        model, true_class = planted(seed, decoys)
        for name, values in relevance(model).items():
            shares.setdefault(name, []).append(agreement(values, true_class))
    assert np.mean(shares["occlusion"]) == 1
    assert np.mean(shares["gradient x attention"]) > np.mean(shares["attention rollout"])


def test_our_models_give_the_same_on_numpy_and_on_torch():
    from headwork.inspection.model_folders import open_model
    from headwork.inspection.model_on_input import ArrayModel
    from headwork.training.run_folders import example_images, find_run, saved_model

    source, pixels = open_model("digits"), example_images("digits").images[0]
    on_torch = source.on_image(pixels)
    on_numpy = type(source)(
        source.path, ArrayModel(saved_model(find_run("digits")), on_torch=False), None, source.classes,
        source.mean, source.std,
    ).on_image(pixels)  # fmt: skip
    assert on_torch.attention_maps[0].gradient is not None
    assert on_numpy.attention_maps[0].gradient is None
    assert [layer.path for layer in on_torch.attention_maps] == [
        layer.path for layer in on_numpy.attention_maps
    ]
    assert np.allclose(on_torch.attention_maps[3].weights, on_numpy.attention_maps[3].weights, atol=1e-5)
    assert np.allclose(relevance(on_torch)["occlusion"], relevance(on_numpy)["occlusion"], atol=1e-5)
    for one, other in zip(on_torch.score_lost_per_head, on_numpy.score_lost_per_head, strict=True):
        assert np.allclose(one, other, atol=1e-5)
    assert np.allclose(on_torch.position_similarity, on_numpy.position_similarity, atol=1e-5)


def test_positions_before_training_are_like_none():
    from headwork.inspection.model_on_input import ArrayModel
    from headwork.training.run_folders import find_run, saved_model

    saved = saved_model(find_run("digits"))
    name = next(name for name in saved.parameters if name.startswith("positions"))
    zeros = {**saved.parameters, name: 0 * saved.parameters[name]}
    model = ArrayModel(replace(saved, parameters=zeros), on_torch=False)
    with np.errstate(all="raise"):
        assert not model.position_similarity.any()


def test_gradients_of_our_models_are_those_of_attention_of():
    """The note of our definition and the pass watched from below agree."""
    from headwork import example_images, load

    values = torch.from_numpy(example_images("digits").inputs[:1])
    model = load("digits", torch=True).with_backend("plain")
    below = inspect(torch.nn.Sequential(model), values).on_input.attention_maps
    above = inspect("digits", index=0).on_input.attention_maps
    assert len(below) == len(above)
    for one, other in zip(below, above, strict=True):
        assert np.allclose(one.weights, other.weights, atol=1e-5)
        assert np.allclose(one.gradient, other.gradient, atol=1e-4)
