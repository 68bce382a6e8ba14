"""Each impossible ask gives its own reason; malformed ones are refused in words."""

import numpy as np
import pytest

from headwork.construct import build
from headwork.errors import InputError

SHUFFLED = [7, 2, 11, 4, 20, 6, 1, 8, 15, 10, 3, 12, 19, 14, 9, 16, 17, 18, 13, 5]
OF_RANK_2 = "0.6 0.3 0.1; 0.1 0.8 0.1; 0.3 0.3 0.4"


def ask(target, **details):
    return {"target": target, **details}


IMPOSSIBLE = {
    "negative weights in one head: entry [0,1] is -0.5": ask("matrix", matrix="1.5 -0.5; 0 1"),
    "negative weights in one head: softmax weights are positive": ask(
        "convolution", tokens=5, taps="1 -1", heads=1
    ),
    "rows that do not sum to 1: row 1 sums to 0.9": ask("matrix", matrix="1/2 1/2; 0.4 0.5"),
    "commutes with every permutation": ask("shift", tokens=4, positions="none"),
    "a token of content 0 has score 0": ask("identity", tokens=4, positions="none"),
    "zero padding at the ends": ask("convolution", tokens=5, taps="1 1 1", ends="zero"),
    "a window that needs more heads": ask(
        "convolution", tokens=5, taps="1 2 1", heads=2, positions="sinusoidal"
    ),
    "a window that shrinks": ask("running-mean", tokens=5, positions="rotary"),
    "a rank too small: the row-centred scores": ask("matrix", matrix=OF_RANK_2, head_width=1, tolerance=1e-3),
    "a rank too small: sinusoidal codes": ask("permutation", order=SHUFFLED, positions="sinusoidal"),
    "epsilon below what the number format can hold": ask("identity", tokens=4, tolerance=1e-17),
    "a score depends on the distance": ask("shift", tokens=5, ends="wrap", positions="rotary"),
    "row and column codes": ask("permutation", order="4 2 3 1", grid="2x2", positions="grid"),
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_an_impossible_ask_has_its_own_reason(reason):
    details = dict(IMPOSSIBLE[reason])
    result = build(details.pop("target"), **details)
    assert not result.possible
    assert reason in result.reason
    assert not result.holds
    assert result.W_q == []
    assert set(result.as_data()) == {"possible", "target", "reason"}
    others = [other for other in IMPOSSIBLE if other != reason and other in result.reason]
    assert not others, others
    assert "impossible" in result.to_text()
    assert result.reason.split(":")[0] in result.to_html()


def test_number_format_reasons_promise_what_can_be_had():
    for ask in (
        {"target": "identity", "tokens": 40},
        {"target": "convolution", "tokens": 9, "taps": "3 -5 1", "norm": 100},
        {"target": "copy"},
    ):
        details = dict(ask)
        target = details.pop("target")
        refused = build(target, tolerance=1e-17, **details)
        assert "number format" in refused.reason
        promised = float(refused.reason.split("cannot be promised; ")[1].split(" can")[0])
        assert build(target, tolerance=promised, **details).holds


def test_zero_padding_is_no_matter_where_nothing_looks_beyond_the_ends():
    assert build("convolution", tokens=4, taps="0 2 0", ends="zero").possible
    assert build("convolution-2d", grid="2x2", kernel="2", ends="zero").possible


def test_one_sign_fits_into_one_head_and_two_signs_into_two():
    assert build("convolution", tokens=5, taps="-1 -2 -3", heads=1).holds
    assert build("convolution", tokens=5, taps="1 2 -3 4", heads=2, ends="wrap").holds


MALFORMED = {
    "unknown target 'permutatoin'. Did you mean 'permutation'?": {"target": "permutatoin"},
    "unknown input of identity 'order'": {"target": "identity", "tokens": 3, "order": "1 2 3"},
    "tokens missing": {"target": "identity"},
    "order missing": {"target": "permutation"},
    "no permutation": {"target": "permutation", "order": "1 1 2"},
    "for 4 tokens: no permutation": {"target": "permutation", "order": "1 2 3", "tokens": 4},
    "stand outside of the cycles": {"target": "permutation", "order": "(1 2) 3"},
    "Expected whole numbers from 1": {"target": "permutation", "order": "a b"},
    "tolerance is -1": {"target": "identity", "tokens": 3, "tolerance": -1},
    "norm is 0": {"target": "identity", "tokens": 3, "norm": 0},
    "width is 0": {"target": "identity", "tokens": 3, "width": 0},
    "tokens is 0": {"target": "identity", "tokens": 0},
    "at most 512": {"target": "identity", "tokens": 100_000},
    "unknown positions 'sinus'": {"target": "identity", "tokens": 3, "positions": "sinus"},
    "Give grid": {"target": "identity", "tokens": 4, "positions": "grid"},
    "do not fill a grid": {"target": "identity", "tokens": 5, "grid": "2x2"},
    "grid is '2'": {"target": "convolution-2d", "grid": "2", "kernel": "1"},
    "unknown ends 'reflect'": {"target": "shift", "tokens": 3, "ends": "reflect"},
    "a causal window that wraps": {"target": "running-mean", "tokens": 5, "causal": True, "ends": "wrap"},
    "window is 9": {"target": "running-mean", "tokens": 5, "window": 9},
    "every tap is 0": {"target": "convolution", "tokens": 5, "taps": "0 0 0"},
    "7 taps for 5 tokens": {"target": "convolution", "tokens": 5, "taps": "1 1 1 1 1 1 1"},
    "no token has its whole window": {"target": "shift", "tokens": 3, "by": 5, "ends": "none"},
    "a kernel of 3 x 1 on a grid of 2 x 2": {"target": "convolution-2d", "grid": "2x2", "kernel": "1; 1; 1"},
    "matrix missing": {"target": "matrix"},
    "at most one row per column": {"target": "matrix", "matrix": "1; 1"},
    "ragged rows": {"target": "matrix", "matrix": "1 0; 1"},
    "split into pairs": {"target": "identity", "tokens": 3, "positions": "sinusoidal", "position_width": 5},
    "one-hot positions only": {"target": "matrix", "matrix": "1/2 1/2; 1/2 1/2", "positions": "sinusoidal"},
    "heads is 0": {"target": "convolution", "tokens": 3, "taps": "1 1", "heads": 0},
}


@pytest.mark.parametrize("words", MALFORMED)
def test_a_malformed_ask_is_refused_in_words(words):
    details = dict(MALFORMED[words])
    with pytest.raises(InputError) as error:
        build(details.pop("target"), **details)
    assert words in str(error.value)


def test_without_positions_the_reasons_are_true():
    """Random heads without positions: they commute with permutations, and a zero token gets the mean."""
    random = np.random.default_rng(0)
    X = random.normal(size=(5, 3))
    X[2] = 0
    W_q, W_k = random.normal(size=(2, 4, 3))

    def attended(rows):
        powers = np.exp((rows @ W_q.T) @ (rows @ W_k.T).T)
        return powers / powers.sum(1, keepdims=True) @ rows

    order = [3, 0, 4, 1, 2]
    assert np.allclose(attended(X)[2], X.mean(0))
    assert np.allclose(attended(X[order]), attended(X)[order])
