"""The measures measure what they say: on cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headwork.comparison import complexity, inductive_bias, long_range, parallelism
from headwork.comparison.experiment import generator_from
from headwork.comparison.families import FAMILIES, Layer
from headwork.comparison.inductive_bias import TASKS, equivariance_error, image_tensors
from headwork.comparison.long_range import gradient_norms, sequence_model, train_on_gap
from headwork.comparison.timing import InterleavedTimer
from headwork.mechanisms.fused import FusedKernels
from headwork.mechanisms.kernels import PLAIN, Kernels
from headwork.training.runs import use_threads


def test_an_untrained_circular_convolution_has_no_equivariance_error():
    assert inductive_bias.circular_convolution_error()["error"] < 1e-6


def test_the_equivariance_error_of_known_functions():
    rng = torch.Generator().manual_seed(0)
    images = torch.randn(50, 1, 8, 8, generator=rng)
    offsets = torch.randn(1, 1, 8, 8, generator=rng)
    other = {id(images): torch.randn(50, 1, 8, 8, generator=rng)}
    assert equivariance_error(lambda x: x.tanh(), images, 2) == 0
    assert equivariance_error(lambda x: x + 0.1 * offsets, images, 2) == pytest.approx(0.1, rel=0.3)
    unrelated = equivariance_error(lambda x: other.get(id(x), torch.randn(x.shape, generator=rng)), images, 2)
    assert unrelated == pytest.approx(1, rel=0.1)
    # Averaged by fours, a shift by four rows moves the output by one position.
    assert equivariance_error(lambda x: torch.nn.functional.avg_pool2d(x, 4), images, 4) < 1e-6


@pytest.mark.parametrize("name", FAMILIES)
def test_features_stand_on_a_grid_and_give_the_logits(name):
    model = inductive_bias.image_model(FAMILIES[name], TASKS[False])
    images = torch.randn(3, 1, 12, 12)
    features = inductive_bias.features(model, images)
    assert features.dim() == 4
    assert features.shape[0] == 3
    assert 12 % features.shape[-2] == 0
    assert TASKS[False].margin * features.shape[-2] % 12 == 0
    if name == "transformer":
        logits = PLAIN.linear(features.mean((-2, -1)), model.head.matrix, model.head.bias)
        assert torch.allclose(logits, model(images), atol=1e-5)


def test_the_task_needs_the_first_token():
    tokens, first = long_range.sequences(8, 400, torch.Generator().manual_seed(1))
    assert tokens.shape == (400, 10)
    assert (tokens[:, 0] == first).all()
    assert (tokens[:, -1] == long_range.QUESTION).all()
    assert int(tokens[:, :-1].max()) < long_range.SYMBOLS
    # No other position gives the answer: elsewhere symbols agree as often as chance.
    agree = (tokens[:, 1:-1] == first[:, None]).double().mean()
    assert abs(float(agree) - 0.25) < 0.05


def test_gradients_are_those_of_the_whole_jacobian():
    model = sequence_model(FAMILIES["gru"], max_length=6, parameters=10_000)
    norms = gradient_norms(model, 4, seed=3)
    tokens, _ = long_range.sequences(4, long_range.PROBE_SEQUENCES, generator_from(3, "probed", 4))
    squares = torch.zeros(6)
    for row in model.embed(tokens).detach():
        jacobian = torch.autograd.functional.jacobian(lambda x: model.logits(x[None])[0], row)
        squares += jacobian.square().sum((0, 2)) / long_range.PROBE_SEQUENCES
    assert torch.allclose(torch.tensor(norms, dtype=torch.float32), squares.sqrt(), rtol=1e-4)


def test_a_vanishing_gradient_is_not_rounded_to_zero():
    model = sequence_model(FAMILIES["lstm"], max_length=302, parameters=10_000)
    assert 0 < gradient_norms(model, 300, seed=0)[0] < 1e-45


def test_a_convolution_has_no_gradient_beyond_its_reach():
    model = sequence_model(FAMILIES["cnn"], max_length=12, parameters=10_000)
    norms = gradient_norms(model, 10, seed=0)
    assert norms[:-5] == [0.0] * 7
    assert min(norms[-5:]) > 0
    assert long_range.decay_per_position(norms) is None


def test_the_recurrent_weight_passing_through_one():
    norms = long_range.sweep_recurrent_weight((0.9, 1.0, 1.1), 20)["norms"]
    assert np.allclose(norms["linear"], [w**19 for w in (0.9, 1.0, 1.1)], rtol=1e-9)
    assert all(tanh < linear for tanh, linear in zip(norms["tanh"], norms["linear"], strict=True))


def test_chains_grow_with_n_in_recurrences_only():
    for name, family in FAMILIES.items():
        result = parallelism.chains([name])
        formula = parallelism.chain_formulas(result)[name]
        assert result["chains"][name] == [formula(n=n) for n in result["lengths"]], name
        assert (formula.coefficient(n=1) > 0) == (family.kind == "recurrence"), name


def test_memory_of_plain_attention_is_its_weights():
    plain, fast = (Layer(FAMILIES["transformer"], 8, kernels=kernels) for kernels in (Kernels, FusedKernels))
    growth = [complexity.saved_bytes(plain, n) - complexity.saved_bytes(fast, n) for n in (256, 512)]
    assert growth[1] / growth[0] == pytest.approx(4, rel=0.1)
    doubled = complexity.saved_bytes(fast, 512) / complexity.saved_bytes(fast, 256)
    assert doubled == pytest.approx(2, rel=0.1)
    # A convolution saves its input and its kernel, which do not count, and the output of ReLU.
    assert complexity.saved_bytes(Layer(FAMILIES["cnn"], 8), 256) == 4 * 256 * 8


def test_the_number_of_threads_is_restored():
    def fail() -> None:
        with use_threads(before + 1):
            inside.append(torch.get_num_threads())
            raise RuntimeError

    before, inside = torch.get_num_threads(), []
    with pytest.raises(RuntimeError):
        fail()
    assert inside == [before + 1]
    assert torch.get_num_threads() == before


def test_timed_functions_take_turns_and_the_best_round_counts():
    order, now, slow = [], [0.0], iter([9, 9, 5, 7, 6, 8, 4, 9])

    def runner(name):
        def run():
            order.append(name)
            now[0] += next(slow)

        return run

    timer = InterleavedTimer({"a": runner("a"), "b": runner("b")}, lambda: now[0])
    timer.run(1)  # each once to warm up, once to count: 9 and 9, 5 and 7
    assert order == ["a", "a", "b", "b"]
    assert timer.run(2) == {"a": 4, "b": 5}
    assert order[4:] == ["a", "b", "a", "b"]
    order.clear()
    slow = iter([1, 2])
    assert timer.run(2, ["b"]) == {"a": 4, "b": 1}
    assert order == ["b", "b"]


def test_two_trainings_with_one_seed_give_the_same_numbers():
    torch.manual_seed(1)
    first = train_on_gap("lstm", 2, 5, steps=4, parameters=10_000)
    torch.manual_seed(2)
    torch.rand(3)
    assert train_on_gap("lstm", 2, 5, steps=4, parameters=10_000) == first
    assert train_on_gap("lstm", 2, 6, steps=4, parameters=10_000)["before"] != first["before"]
    one, two = (inductive_bias.train_on_images("transformer", 40, 0, steps=3, full=False) for _ in range(2))
    assert one == two


def test_a_shuffle_moves_pixels_and_keeps_them():
    plain, _, plain_test, _ = image_tensors(TASKS[False], 5, 0, False)
    shuffled, _, shuffled_test, _ = image_tensors(TASKS[False], 5, 0, True)
    assert plain.shape == (5, 1, 12, 12)
    assert torch.equal(plain.flatten(1).sort().values, shuffled.flatten(1).sort().values)
    assert not torch.equal(plain, shuffled)
    # One order for all images, of training and of test.
    order = torch.from_numpy(inductive_bias.permutation(64, inductive_bias.SHUFFLE_SEED))
    for before, after in ((plain[0], shuffled[0]), (plain_test[7], shuffled_test[7])):
        before, after = (image[0, 2:-2, 2:-2].flatten() for image in (before, after))
        assert torch.equal(after, before[order])


@pytest.mark.soak
def test_fitted_exponents_agree_with_the_formulas():
    laws = complexity.fit_times(complexity.times_by_n(tuple(FAMILIES)))
    for name, law in laws.items():
        low, high = (1.7, 2.2) if name == "transformer" else (0.85, 1.15)
        assert low <= law.exponent <= high, (name, str(law))
    assert math.isfinite(sum(law.error for law in laws.values()))
