"""What is impossible is proved; what was not found is called that; malformed asks are refused in words."""

import json

import numpy as np
import pytest

from headwork.construct import build
from headwork.errors import InputError, TooLarge

SHUFFLED = [7, 2, 11, 4, 20, 6, 1, 8, 15, 10, 3, 12, 19, 14, 9, 16, 17, 18, 13, 5]
OF_RANK_2 = "0.6 0.3 0.1; 0.1 0.8 0.1; 0.3 0.3 0.4"


def ask(target, **details):
    return {"target": target, **details}


IMPOSSIBLE = {
    "negative weights in one head: entry [0,1] is -0.5": ask("matrix", matrix="1.5 -0.5; 0 1"),
    "negative weights in one head: output 1 adds": ask("convolution", tokens=5, taps="1 0 -1", heads=1),
    "rows that do not sum to 1: row 1 sums to 0.9": ask("matrix", matrix="1/2 1/2; 0.4 0.5"),
    "commutes with every permutation": ask("shift", tokens=4, positions="none"),
    "a token of content 0 has score 0": ask("identity", tokens=4, positions="none"),
    "rotary positions turn queries and keys, not values": ask(
        "convolution", tokens=5, taps="1 1 1", ends="zero", positions="rotary"
    ),
}
NOT_FOUND = {
    "4 heads, where at most 2": ask("convolution", tokens=5, taps="1 2 1", ends="zero", heads=2, width=3),
    "2 heads, where at most 1": ask("convolution", tokens=5, taps="1 -1", heads=1),
    "heads of that width, which miss by": ask("matrix", matrix=OF_RANK_2, head_width=1, tolerance=1e-3),
    "epsilon below what the number format can hold": ask("identity", tokens=4, tolerance=1e-17),
    "no scores over sinusoidal positions of width 2": ask(
        "permutation", order=[*SHUFFLED, 21, 22, 23, 24], positions="sinusoidal", position_width=2
    ),
}
POSSIBLE = [  # refused by an earlier version
    ask("convolution", tokens=5, taps="1 1 1", ends="zero", heads=5),
    ask("convolution", tokens=2, taps="1 1", ends="zero"),
    ask("convolution-2d", grid="2x3", kernel="1 2; -1 1", ends="zero", positions="grid"),
    ask("shift", tokens=4, by=-2, ends="zero", positions="sinusoidal"),
    ask("shift", tokens=3, by=4, ends="zero"),
    ask("matrix", matrix=np.eye(4), head_width=2, tolerance=1e-3),
    ask("matrix", matrix=np.eye(2)[[0, 1, 1]] @ np.eye(2, 3), head_width=1, tolerance=1e-3),
    ask("matrix", matrix="1.02 -0.02; 0 1", tolerance=0.1),
    ask("permutation", order="1 3 2 4", grid="2x2", positions="grid"),
    ask("permutation", order="4 2 3 1", grid="2x2", positions="grid"),
    ask("permutation", order="2 3 4 5 1 6", grid="2x3", positions="grid"),
    ask("permutation", order="7 3 8 6 9 1 4 2 5", grid="3x3", positions="grid", heads=4),
    ask("permutation", order=[5 * k % 36 + 1 for k in range(36)][::-1], grid="6x6", positions="grid"),
    ask("running-mean", tokens=20, window=10, causal=True, positions="rotary", heads=1),
    ask("permutation", order="2 4 1 3", positions="rotary"),
    ask("permutation", order=SHUFFLED, positions="sinusoidal"),
    ask("shift", tokens=4, by=-1, ends="wrap", positions="rotary", heads=1),
    ask("shift", tokens=3, by=3, ends="wrap", positions="rotary", heads=1),
    ask("running-mean", tokens=5, window=3, positions="sinusoidal", heads=1),
    ask("running-mean", tokens=5, positions="rotary", heads=1),
    ask("convolution", tokens=5, taps="1 2 1", heads=2, positions="sinusoidal"),
]


@pytest.mark.parametrize("reason", [*IMPOSSIBLE, *NOT_FOUND])
def test_what_is_not_built_has_its_own_reason(reason):
    details = dict({**IMPOSSIBLE, **NOT_FOUND}[reason])
    result = build(details.pop("target"), **details)
    assert result.possible is (False if reason in IMPOSSIBLE else None)
    assert reason in result.reason
    assert not result.holds
    assert result.W_q == []
    data = result.as_data()
    assert set(data) == {"possible", "proved", "target", "reason"}
    assert data["proved"] is (reason in IMPOSSIBLE)
    others = [other for other in (*IMPOSSIBLE, *NOT_FOUND) if other != reason and other in result.reason]
    assert not others, others
    assert ("impossible" if reason in IMPOSSIBLE else "none found") in result.to_text()
    assert result.reason.split(":")[0] in result.to_html()


@pytest.mark.parametrize("details", POSSIBLE, ids=str)
def test_what_can_be_done_is_built(details, other_error):
    target, tolerance = details["target"], details.get("tolerance", 1e-3)
    result = build(target, **{name: value for name, value in details.items() if name != "target"})
    assert result.possible, result.reason
    assert result.heads <= details.get("heads", 100)
    data = json.loads(result.to_json())
    contents = np.random.default_rng(0).normal(size=(500, result.tokens, 2))
    contents /= np.linalg.norm(contents, axis=-1, keepdims=True)
    assert other_error(data, np.concatenate([contents, 0.5 * contents])) <= data["bound"] <= tolerance


def test_zero_padding_is_what_is_said():
    x = np.arange(1.0, 6)
    result = build("convolution", tokens=5, taps="1 2 3", ends="zero")
    assert np.allclose(result.matrix @ x, np.convolve(np.pad(x, 1), [3, 2, 1], "valid"))
    assert np.allclose(build("running-mean", tokens=3, ends="zero").matrix.sum(axis=1), [2 / 3, 1, 2 / 3])
    grid = build("convolution-2d", grid="2x2", kernel="0 1; 0 0", ends="zero").matrix
    assert np.allclose(grid, [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])


def test_a_zero_tap_still_belongs_to_the_window():
    result = build("convolution", taps="0 3 -2", tokens=8, ends="none", positions="rotary")
    assert result.queries == tuple(range(1, 7))


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
    "not a permutation": {"target": "permutation", "order": "1 1 2"},
    "for 4 tokens: not a permutation": {"target": "permutation", "order": "1 2 3", "tokens": 4},
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
    "taps: 'x' is a symbol": {"target": "convolution", "tokens": 4, "taps": "1 x"},
    "matrix: 'a' is a symbol": {"target": "matrix", "matrix": "a b; 1/2 1/2"},
    "kernel: 'a' is a symbol": {"target": "convolution-2d", "grid": "2x2", "kernel": "a b; c d"},
    "window is 0": {"target": "running-mean", "tokens": 5, "window": 0},
    "head_width is 0": {"target": "matrix", "matrix": "1/2 1/2; 1/2 1/2", "head_width": 0},
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "odd", [{"norm": 1e-300}, {"norm": 1e300}, {"tolerance": 1e9}, {"tolerance": 1e-12}], ids=str
)
@pytest.mark.parametrize(
    "details",
    [
        ask("convolution", tokens=4, taps="1 0 -1", ends="zero"),
        ask("running-mean", tokens=4, positions="sinusoidal"),
        ask("convolution-2d", grid="2x2", kernel="1 1; 1 1", ends="zero", positions="grid"),
    ],
    ids=str,
)
def test_extreme_numbers_are_built_or_refused_in_words(details, odd):
    inputs = {name: value for name, value in details.items() if name != "target"}
    result = build(details["target"], **inputs, **odd)
    assert result.holds if result.possible else result.reason


def test_heads_for_wide_content_are_refused_by_their_size():
    with pytest.raises(TooLarge, match="for content of width 1024"):
        build("convolution", tokens=4, taps="1 0 -1", ends="zero", width=1024)
