"""The families have equally many parameters, and their counted work is torch's, to the last FLOP."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork.comparison import best_uses, long_range
from headwork.comparison.families import (
    FAMILIES,
    CountedKernels,
    Layer,
    build_with_parameters,
    flops,
    flops_at,
    parameter_count,
)
from headwork.comparison.inductive_bias import TASKS, image_model
from headwork.comparison.long_range import sequence_model
from headwork.errors import InputError
from headwork.mechanisms.kernels import Kernels

FORMULAS = {
    "cnn": "2 k^2 d^2 n",
    "rnn": "4 n d^2 - 2 d^2",
    "lstm": "16 n d^2 - 8 d^2",
    "gru": "12 n d^2",
    "transformer": "4 n^2 d + 8 n d^2",
    "linear": "12 n d^2 + 2 n d",
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("full", [False, True])
def test_parameters_are_equal_within_five_percent(name, full):
    target = long_range.PARAMETERS[full]
    for gap in (long_range.GAPS[full][0], long_range.GAPS[full][-1]):
        with torch.device("meta"):
            model = sequence_model(FAMILIES[name], max_length=gap + 2, parameters=target)
        assert abs(parameter_count(model) - target) <= 0.05 * target
    with torch.device("meta"):
        model = image_model(FAMILIES[name], TASKS[full])
    assert abs(model.parameter_count - TASKS[full].parameters) <= 0.05 * TASKS[full].parameters


@pytest.mark.parametrize("name", FAMILIES)
def test_models_of_texts_are_of_equal_size_too(name):
    with torch.device("meta"):
        model = best_uses.text_model(FAMILIES[name])
    assert abs(model.parameter_count - best_uses.TEXT_PARAMETERS) <= 0.05 * best_uses.TEXT_PARAMETERS


def test_a_number_of_parameters_out_of_reach_is_refused():
    with pytest.raises(InputError, match="parameters are the nearest to 3"):
        build_with_parameters(lambda size: torch.nn.Linear(10, size), 3)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("n", "d"), [(48, 4), (160, 6)])
def test_counted_flops_are_the_formula_and_what_torch_counts(name, n, d):
    layer = Layer(FAMILIES[name], d, kernels=CountedKernels)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(layer.inputs(n))
    assert str(flops(name)) == FORMULAS[name]
    assert counter.get_total_flops() == flops_at(name, n, d)


@pytest.mark.parametrize("name", ["cnn", "gru", "linear"])  # torch's counter sees inside these fast forms
def test_the_fast_form_does_the_same_work(name):
    layer = Layer(FAMILIES[name], 6)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(layer.inputs(64))
    assert counter.get_total_flops() == flops_at(name, 64, 6)


def test_the_fast_form_gives_what_the_definition_gives():
    for name, family in FAMILIES.items():
        fast = Layer(family, 8)
        plain = Layer(family, 8, kernels=Kernels)
        plain.load_state_dict(fast.state_dict())
        inputs = fast.inputs(32)
        assert torch.allclose(fast(inputs), plain(inputs), atol=1e-5), name
