"""Every equivalence: to 1e-12 in float64 on random cases of random sizes, and exactly on its small case."""

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest

from headwork.construct import EQUIVALENCES, equal
from headwork.construct.equivalence import Side, difference, exact_inputs, is_proved, is_zero
from headwork.errors import InputError
from headwork.note import Mechanism, silent

COUNT = 14


def test_all_are_there():
    assert len(EQUIVALENCES) == COUNT


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_equal_in_float64_and_exactly(name):
    same = equal(name, cases=100, seed=7)
    assert same.difference <= 1e-12
    assert same.proved
    assert same.holds


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_random_cases_have_random_sizes_and_outputs_that_are_not_trivial(name):
    pair = EQUIVALENCES[name]
    random = np.random.default_rng(0)
    cases = [pair.sample(random) for _ in range(30)]
    shapes = {
        tuple(np.shape(value) for value in case.values() if isinstance(value, np.ndarray)) for case in cases
    }
    assert len(shapes) > 5
    first = pair.left.run(exact_inputs(pair.small_case, pair.left)).array
    assert any(entry != 0 for entry in first.flat)


@pytest.mark.parametrize("name", EQUIVALENCES)
def test_a_side_that_is_wrong_is_found(name):
    """The check is no formality: the right side scaled by 1 + 1e-9 fails both ways."""
    pair = EQUIVALENCES[name]
    right = pair.right

    def spoiled(note=silent, **case):
        output = right.run(case, note)
        return output + output / 10**9

    spoiled.__signature__ = inspect.signature(right.mechanism.function)
    bad = replace(pair, right=Side(Mechanism.from_function(spoiled, *right.mechanism.inputs)))
    case = pair.sample(np.random.default_rng(3))
    assert difference(bad, case) > 1e-12
    assert not is_proved(bad)


def test_vanishes_tells_zero_from_nearly_zero():
    import sympy

    x = sympy.Symbol("x")
    assert is_zero(sympy.sin(x + 1) - sympy.sin(x) * sympy.cos(1) - sympy.cos(x) * sympy.sin(1))
    assert not is_zero(x / 10**20)


def test_costs_are_those_of_the_course():
    same = equal("convolution-toeplitz", cases=1)
    assert (same.left_cost.weights, same.right_cost.weights) == (3, 63)
    assert equal("locally-connected-banded", cases=1).left_cost.weights == 21
    assert equal("linear-rnn-convolution", cases=1).left_cost.weights == 2


def test_the_trace_shows_the_matrices():
    text = equal("convolution-toeplitz", cases=1).to_text()
    assert "k1  k2  k3   0" in text
    assert "FLOPs" in text
    data = json.loads(equal("softmax-argmax", cases=1).to_json())
    assert data["holds"]
    assert data["name"] == "softmax-argmax"
    assert len(data["traces"]) == 3


@pytest.mark.parametrize("name", ["heads-convolution", "sinusoidal-rotation", "linear-attention-chunks"])
def test_renderers(name):
    same = equal(name, cases=1)
    assert same.to_markdown().startswith("# ")
    assert same.to_html().startswith("<!doctype html>")
    assert r"\begin{bmatrix}" in same.to_latex()
    assert same.to_latex().rstrip().endswith(r"\end{document}")


def test_bad_asks():
    with pytest.raises(InputError, match="Did you mean 'softmax-argmax'"):
        equal("softmax-argmx")
    with pytest.raises(InputError, match="cases is 0"):
        equal("softmax-argmax", cases=0)
