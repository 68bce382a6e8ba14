"""Roles of heads: right for what Build makes, with noise; the order of precedence; grids and causal masks."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.trust import built_head, scores_of
from headwork import build
from headwork.construct.targets import TARGETS
from headwork.errors import InputError
from headwork.inspection.roles import _HeadWeights, role

ROLES = ("identity", "previous", "next", "first", "window", "permutation", "uniform")


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("kind", [*ROLES, "shifted window", "content"])
def test_noisy_built_heads_keep_their_roles(kind):
    generator = np.random.default_rng(5)
    for _ in range(6):
        scores = scores_of(None if kind == "content" else built_head(kind, generator), generator)
        scores += 0.1 * (scores.max() - scores.min()) * generator.normal(size=scores.shape)
        assert role(softmax(scores)).name == kind.removeprefix("shifted ")


@pytest.mark.parametrize(
    ("details", "expected", "offset"),
    [
        ({"by": 1}, "next", None),
        ({"by": -1, "ends": "wrap"}, "previous", None),
        ({"by": 3}, "window", 3),
        ({"by": 0}, "identity", None),
    ],
)
def test_shifts_are_named_by_their_offset(details, expected, offset):
    found = role(TARGETS["shift"](tokens=9, **details).matrix)
    assert (found.name, found.offset) == (expected, offset)


def test_a_window_has_its_offset_and_size():
    found = role(TARGETS["running-mean"](tokens=9, window=4, causal=True).matrix)
    assert (found.name, found.offset, found.size) == ("window", -1.5, 4)
    assert found.text == "window of 4 at offset -1.5"
    assert found.share > 0.99


def test_windows_are_those_that_build_is_asked_for():
    case = _HeadWeights(np.full((1, 7, 7), 1 / 7), None)
    wanted = TARGETS["running-mean"](tokens=7, window=3, ends="shrink").matrix
    assert np.allclose(case._layout((0, -1), (1, 3), "shrink"), wanted)
    for ends in ("clamp", "wrap"):
        wanted = TARGETS["shift"](tokens=7, by=2, ends=ends).matrix
        assert np.allclose(case._layout((0, 2), (1, 1), ends), wanted)


def test_on_a_grid_a_window_has_two_offsets():
    kernel = np.zeros((3, 3))
    kernel[0, 1] = 1  # the patch above
    above = TARGETS["convolution-2d"](grid=(4, 5), kernel=kernel).matrix
    found = role(above, grid=(4, 5))
    assert (found.name, found.offset, found.size) == ("window", (-1, 0), (1, 1))
    first = np.zeros((21, 21))
    first[1:, 1:], first[0, 0] = above, 1  # behind a class token
    assert role(first, grid=(4, 5)).offset == (-1, 0)


def test_precedence_where_roles_coincide():
    assert role(np.eye(2)[[1, 0]]).name == "previous"  # and next, and a permutation
    assert role(np.eye(4)[[1, 2, 3, 0]]).name == "next"  # wrapped around: a permutation, too
    assert role(np.eye(4)[[1, 0, 3, 2]]).order == (1, 0, 3, 2)


def test_causal_heads_are_compared_with_causal_uniform_ones():
    allowed = np.tril(np.ones((6, 6)))
    assert role(allowed / allowed.sum(1, keepdims=True)).name == "uniform"
    sharp = np.eye(6)[[0, 0, 1, 2, 3, 4]]
    assert role(sharp).name == "previous"


def test_the_same_weights_on_every_input_are_no_content():
    generator = np.random.default_rng(0)
    varied = softmax(3 * generator.normal(size=(12, 8, 8)))
    assert role(varied).name == "content"
    assert role(varied).share > 0.8
    assert role(np.repeat(varied[:1], 12, 0)).fixed > 0.99


def test_cross_attention_may_attend_to_the_first_key():
    assert role(np.eye(5)[[0, 0, 0]]).name == "first"
    assert np.isnan(role(np.eye(5)[[0, 0, 0]]).distance)


@pytest.mark.parametrize("weights", [[], [1.0, 2.0], [[np.nan, 1.0]], [[-1.0, 2.0]]])
def test_what_are_no_weights_is_refused(weights):
    with pytest.raises(InputError, match="each row"):
        role(weights)


def test_distance_is_measured_in_patches():
    right = build("convolution-2d", grid="3x3", kernel="0 0 0; 0 0 1; 0 0 0", ends="wrap").matrix
    assert role(right, grid=(3, 3)).distance == pytest.approx(4 / 3)  # two steps of 1, one of 2 back
