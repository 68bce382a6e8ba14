"""The measures measure what they say: on cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headwork.comparison import complexity, images, long_range, parallelism
from headwork.comparison.families import FAMILIES, image_model, sequence_model
from headwork.comparison.layers import Layer
from headwork.comparison.timing import Race, threads


def test_an_untrained_circular_convolution_has_no_equivariance_error():
    assert images.circular()["error"] < 1e-6


def test_the_equivariance_error_of_known_functions():
    drawn = torch.Generator().manual_seed(0)
    pictures = torch.randn(50, 1, 8, 8, generator=drawn)
    places = torch.randn(1, 1, 8, 8, generator=drawn)
    other = {id(pictures): torch.randn(50, 1, 8, 8, generator=drawn)}
    assert images.equivariance_error(lambda x: x.tanh(), pictures, 2) == 0
    assert images.equivariance_error(lambda x: x + 0.1 * places, pictures, 2) == pytest.approx(0.1, rel=0.3)
    unrelated = images.equivariance_error(
        lambda x: other.get(id(x), torch.randn(x.shape, generator=drawn)), pictures, 2
    )
    assert unrelated == pytest.approx(1, rel=0.1)
    # Averaged by fours, a shift by four rows moves the output by one place.
    assert images.equivariance_error(lambda x: torch.nn.functional.avg_pool2d(x, 4), pictures, 4) < 1e-6


@pytest.mark.parametrize("name", FAMILIES)
def test_features_stand_on_a_grid_and_give_the_scores(name):
    model = image_model(FAMILIES[name], images.SIZES[False])
    pictures = torch.randn(3, 1, 12, 12)
    found = images.features(model)(pictures)
    assert found.dim() == 4
    assert found.shape[0] == 3
    assert 12 % found.shape[-2] == 0
    assert images.SIZES[False].margin * found.shape[-2] % 12 == 0
    if name == "transformer":
        assert torch.allclose(model.head(found.mean((-2, -1))), model(pictures), atol=1e-5)


def test_the_task_needs_the_first_token():
    tokens, first = long_range.sequences(8, 400, torch.Generator().manual_seed(1))
    assert tokens.shape == (400, 10)
    assert (tokens[:, 0] == first).all()
    assert (tokens[:, -1] == long_range.QUESTION).all()
    assert int(tokens[:, :-1].max()) < long_range.SYMBOLS
    # No other place tells the answer: elsewhere it agrees as often as chance.
    agree = (tokens[:, 1:-1] == first[:, None]).double().mean()
    assert abs(float(agree) - 0.25) < 0.05


def test_gradients_are_those_of_the_whole_jacobian():
    model = sequence_model(FAMILIES["gru"], longest=6, vocabulary=5, classes=4, width=24, wanted=10_000)
    norms = long_range.gradients(model, 4, seed=3)
    tokens, _ = long_range.sequences(4, long_range.PROBED, long_range.draws(3, "probed", 4))
    squares = torch.zeros(6)
    for row in model.embedding(tokens).detach():
        jacobian = torch.autograd.functional.jacobian(lambda x: model.read(x[None])[0], row)
        squares += jacobian.square().sum((0, 2)) / long_range.PROBED
    assert torch.allclose(torch.tensor(norms, dtype=torch.float32), squares.sqrt(), rtol=1e-4)


def test_what_vanishes_is_not_taken_for_nothing():
    model = sequence_model(FAMILIES["lstm"], longest=302, vocabulary=5, classes=4, width=24, wanted=10_000)
    assert 0 < long_range.gradients(model, 300, seed=0)[0] < 1e-45


def test_a_convolution_sees_nothing_beyond_its_reach():
    model = sequence_model(FAMILIES["cnn"], longest=12, vocabulary=5, classes=4, width=24, wanted=10_000)
    norms = long_range.gradients(model, 10, seed=0)
    assert norms[:-5] == [0.0] * 7
    assert min(norms[-5:]) > 0
    assert long_range.fading(norms) is None


def test_the_recurrent_weight_passing_through_one():
    found = long_range.through_one((0.9, 1.0, 1.1), 20)["norms"]
    assert np.allclose(found["linear"], [w**19 for w in (0.9, 1.0, 1.1)], rtol=1e-9)
    assert all(bent < straight for bent, straight in zip(found["tanh"], found["linear"], strict=True))


def test_chains_grow_with_n_in_recurrences_only():
    for name, family in FAMILIES.items():
        found = [parallelism.chain(name, n) for n in parallelism.CHAINED]
        fixed, each = parallelism.line(parallelism.CHAINED, found)
        assert found == [fixed + each * n for n in parallelism.CHAINED], name
        assert (each > 0) == (family.kind == "recurrence"), name


def test_memory_of_attention_is_its_weights_where_it_keeps_them():
    plain, fast = (Layer(FAMILIES["transformer"], 8, kernel=kernel) for kernel in ("plain", "fused"))
    growth = [complexity.kept_bytes(plain, n) - complexity.kept_bytes(fast, n) for n in (256, 512)]
    assert growth[1] / growth[0] == pytest.approx(4, rel=0.1)
    doubled = complexity.kept_bytes(fast, 512) / complexity.kept_bytes(fast, 256)
    assert doubled == pytest.approx(2, rel=0.1)
    # A convolution keeps its input and its kernel, which do not count, and what ReLU gave.
    assert complexity.kept_bytes(Layer(FAMILIES["cnn"], 8), 256) == 4 * 256 * 8


def test_threads_are_put_back():
    def fail() -> None:
        with threads(before + 1):
            seen.append(torch.get_num_threads())
            raise RuntimeError

    before, seen = torch.get_num_threads(), []
    with pytest.raises(RuntimeError):
        fail()
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_a_race_keeps_the_best_and_takes_turns():
    order, now, slow = [], [0.0], iter([9, 9, 5, 7, 6, 8, 4, 9])

    def runner(name):
        def run():
            order.append(name)
            now[0] += next(slow)

        return run

    race = Race({"a": runner("a"), "b": runner("b")}, lambda: now[0])
    race.run(1)  # each once to warm up, once to count: 9 and 9, 5 and 7
    assert order == ["a", "a", "b", "b"]
    assert race.run(2) == {"a": 4, "b": 5}
    assert order[4:] == ["a", "b", "a", "b"]
    order.clear()
    slow = iter([1, 2])
    assert race.run(2, ["b"]) == {"a": 4, "b": 1}
    assert order == ["b", "b"]


def test_two_trainings_with_one_seed_give_the_same_numbers():
    torch.manual_seed(1)
    first = long_range.remembered("lstm", 2, 5, steps=4, wanted=10_000)
    torch.manual_seed(2)
    torch.rand(3)
    assert long_range.remembered("lstm", 2, 5, steps=4, wanted=10_000) == first
    assert long_range.remembered("lstm", 2, 6, steps=4, wanted=10_000)["before"] != first["before"]
    one, two = (images.classified("transformer", 40, 0, steps=3, full=False) for _ in range(2))
    assert one == two


def test_a_shuffle_moves_pixels_and_keeps_them():
    data = images.pictures(False)
    plain, _, asked, _ = images.tensors(data, 5, 0, False, 2)
    mixed, _, moved, _ = images.tensors(data, 5, 0, True, 2)
    assert plain.shape == (5, 1, 12, 12)
    assert torch.equal(plain.flatten(1).sort().values, mixed.flatten(1).sort().values)
    assert not torch.equal(plain, mixed)
    # One order for all images, of training and of test.
    place = mixed[0, 0, 2:-2, 2:-2].flatten()
    order = images.permutation(64, images.SHUFFLE)
    assert torch.equal(place, plain[0, 0, 2:-2, 2:-2].flatten()[torch.from_numpy(order)])
    assert torch.equal(
        moved[7, 0, 2:-2, 2:-2].flatten(), asked[7, 0, 2:-2, 2:-2].flatten()[torch.from_numpy(order)]
    )


@pytest.mark.soak
def test_fitted_exponents_lie_where_the_formulas_say():
    fits = complexity.fits(complexity.times_by_n(tuple(FAMILIES)))
    for name, fit in fits.items():
        low, high = (1.7, 2.2) if name == "transformer" else (0.85, 1.15)
        assert low <= fit.exponent <= high, (name, str(fit))
    assert math.isfinite(sum(fit.error for fit in fits.values()))
