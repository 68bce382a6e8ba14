"""Mechanisms that torch has no layer for, against plain loops over numbers that share no code with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headwork import mechanisms as m
from headwork.mechanisms.parameters import AttentionParameters
from headwork.numbers import HandTensor

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def random(*shape: int, seed: int = 0, low: float = -2.0) -> Any:
    return np.random.default_rng(seed).uniform(low, 2.0, shape)


def hand(array: Any) -> HandTensor:
    return HandTensor(np.asarray(array, float))


def linear_attention_by_loops(Q: Any, K: Any, V: Any, features: str, causal: bool) -> Any:
    def phi(x: float) -> float:
        return x if features == "none" else (x + 1 if x > 0 else math.exp(x))

    output = np.zeros((len(Q), V.shape[1]))
    for i, q in enumerate(Q):
        last = len(K) - len(Q) + i if causal else len(K) - 1
        total = 0.0
        for j in range(last + 1):
            score = sum(phi(a) * phi(b) for a, b in zip(q, K[j], strict=True))
            total += score
            output[i] += score * V[j]
        output[i] /= total
    return output


@pytest.mark.parametrize("mechanism", [m.linear_attention, m.linear_attention_recurrent])
@pytest.mark.parametrize("features", ["none", "elu+1"])
@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5)])
def test_linear_attention(mechanism: Any, features: str, mask: str | None, queries: int, keys: int) -> None:
    low = 0.1 if features == "none" else -2.0
    Q, K, V = random(queries, 3, low=low), random(keys, 3, seed=1, low=low), random(keys, 2, seed=2)
    expected = linear_attention_by_loops(Q, K, V, features, mask == "causal")
    ours = mechanism(hand(Q), hand(K), hand(V), features=features, mask=mask)
    np.testing.assert_allclose(ours.array, expected, **CLOSE)


@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7])
def test_linear_attention_in_chunks(mask: str | None, chunk: int) -> None:
    Q, K, V = random(5, 3), random(5, 3, seed=1), random(5, 2, seed=2)
    expected = linear_attention_by_loops(Q, K, V, "elu+1", mask == "causal")
    ours = m.linear_attention_chunked(hand(Q), hand(K), hand(V), features="elu+1", mask=mask, chunk=chunk)
    np.testing.assert_allclose(ours.array, expected, **CLOSE)


def test_multi_head_linear_attention() -> None:
    tokens, W = random(3, 4), {n: random(4, 4, seed=i) for i, n in enumerate(("W_q", "W_k", "W_v", "W_o"))}
    heads = []
    for h in range(2):
        Q, K, V = ((tokens @ W[n].T)[:, 2 * h : 2 * h + 2] for n in ("W_q", "W_k", "W_v"))
        heads.append(linear_attention_by_loops(Q, K, V, "elu+1", False))
    parameters = AttentionParameters(**{n: hand(a) for n, a in W.items()})
    ours = m.multi_head_linear_attention(hand(tokens), parameters, heads=2)
    np.testing.assert_allclose(ours.array, np.hstack(heads) @ W["W_o"].T, **CLOSE)


def sinusoids_by_loops(places: Any, width: int, base: float = 10000.0) -> Any:
    table = np.zeros((len(places), width))
    for row, t in enumerate(places):
        for k in range(width // 2):
            angle = t / base ** (2 * k / width)
            table[row, 2 * k], table[row, 2 * k + 1] = math.sin(angle), math.cos(angle)
    return table


def test_sinusoidal_positions() -> None:
    places = np.array([0.0, 1.0, 2.0, 17.0])
    ours = m.sinusoidal_positions(hand(places), width=8).array
    np.testing.assert_allclose(ours, sinusoids_by_loops(places, 8), **CLOSE)
    # The dot product of two depends on their distance alone.
    shifted = m.sinusoidal_positions(hand(places + 5), width=8).array
    np.testing.assert_allclose(ours @ ours.T, shifted @ shifted.T, **CLOSE)


def test_sinusoidal_positions_of_an_image() -> None:
    ours = m.sinusoidal_positions_2d(hand([0, 1, 2]), hand([0, 1]), width=8).array
    for place, row in enumerate(ours):
        expected = [*sinusoids_by_loops([place // 2], 4)[0], *sinusoids_by_loops([place % 2], 4)[0]]
        np.testing.assert_allclose(row, expected, **CLOSE)


def rotated_by_loops(X: Any, places: Any, base: float = 10000.0) -> Any:
    result = np.zeros_like(X)
    width = X.shape[1]
    for i, t in enumerate(places):
        for k in range(width // 2):
            angle = t * base ** (-2 * k / width)
            turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
            result[i, 2 * k : 2 * k + 2] = turn @ X[i, 2 * k : 2 * k + 2]
    return result


def test_rotary_positions() -> None:
    X = random(4, 6)
    np.testing.assert_allclose(m.rotary_positions(hand(X)).array, rotated_by_loops(X, range(4)), **CLOSE)
    ours = m.rotary_positions(hand(X), hand([3, 0, 9, 4]), base=100).array
    np.testing.assert_allclose(ours, rotated_by_loops(X, [3, 0, 9, 4], 100), **CLOSE)


def test_rotated_queries_and_keys_see_only_their_distance() -> None:
    Q, K = random(1, 6), random(1, 6, seed=1)
    products = [
        float(
            (m.rotary_positions(hand(Q), hand([i])) @ m.rotary_positions(hand(K), hand([i + 3])).mT).array[
                0, 0
            ]
        )
        for i in (0, 1, 50)
    ]
    assert products == pytest.approx([products[0]] * 3, abs=1e-12)


def test_relative_learned_and_plain_positions() -> None:
    S, bias, X, table = random(3, 3), random(5, seed=1), random(3, 2, seed=2), random(4, 2, seed=3)
    ours = m.relative_positions(hand(S), hand(bias)).array
    for i in range(3):
        for j in range(3):
            assert ours[i, j] == S[i, j] + bias[j - i + 2]
    assert m.learned_positions(hand(X), hand(table)).array.tolist() == [
        [X[i, j] + table[i, j] for j in range(2)] for i in range(3)
    ]
    assert m.natural_positions(hand([0, 1, 2])).array.tolist() == [[0], [1], [2]]
    assert m.normalised_positions(hand([0, 1, 2, 3])).array.tolist() == [[0], [1 / 3], [2 / 3], [1]]
    assert m.normalised_positions(hand([0])).array.tolist() == [[0]]


def test_alibi_positions() -> None:
    S = random(4, 3, 3)
    ours = m.alibi_positions(hand(S)).array
    for h in range(4):
        for i in range(3):
            for j in range(3):
                assert ours[h, i, j] == pytest.approx(
                    S[h, i, j] - 2 ** (-8 * (h + 1) / 4) * abs(i - j), abs=1e-12
                )


def slid_by_loops(x: Any, kernels: Any, stride: int, padding: int) -> list[float]:
    count = (len(x) + 2 * padding - kernels.shape[1]) // stride + 1
    outputs = []
    for i in range(count):
        total = 0.0
        for j, k in enumerate(kernels[i]):
            place = i * stride + j - padding
            total += k * x[place] if 0 <= place < len(x) else 0.0
        outputs.append(total)
    return outputs


@pytest.mark.parametrize(
    ("length", "size", "stride", "padding"),
    [(5, 3, 1, 0), (5, 3, 1, 2), (7, 2, 2, 1), (6, 4, 3, 3), (3, 5, 1, 2)],
)
def test_toeplitz_and_locally_connected(length: int, size: int, stride: int, padding: int) -> None:
    x, k = random(length), random(size, seed=1)
    count = (length + 2 * padding - size) // stride + 1
    shared = slid_by_loops(x, np.tile(k, (count, 1)), stride, padding)
    ours = m.toeplitz(hand(x), hand(k), stride=stride, padding=padding)
    np.testing.assert_allclose(ours.array, shared, **CLOSE)
    same = m.convolution_1d(hand(x), hand(k), stride=stride, padding=padding)
    np.testing.assert_allclose(same.array, shared, **CLOSE)
    own = random(count, size, seed=2)
    ours = m.locally_connected(hand(x), hand(own), stride=stride, padding=padding)
    np.testing.assert_allclose(ours.array, slid_by_loops(x, own, stride, padding), **CLOSE)


def test_the_closed_form_of_the_linear_recurrence() -> None:
    x, W_x, W_h = random(5, 2), random(3, 2, seed=1), random(3, 3, seed=2)
    state = np.zeros(3)
    for row in x:
        state = W_x @ row + W_h @ state
    np.testing.assert_allclose(m.recurrence_closed_form(hand(x), hand(W_x), hand(W_h)).array, state, **CLOSE)
    np.testing.assert_allclose(m.recurrence(hand(x), hand(W_x), hand(W_h)).array, state, **CLOSE)


@pytest.mark.parametrize("inputs", [[1, 2, 4], [5]])
def test_a_plain_row_is_a_sequence_of_single_numbers(inputs: list[float]) -> None:
    state = 0.5
    for x in inputs:
        state = math.tanh(2 * x - 0.5 * state + 0.25)
    ours = m.recurrence(
        hand(inputs), hand(2), hand(-0.5), hand(3), bias=hand([0.25]), h_0=hand([0.5]), activation="tanh"
    )
    np.testing.assert_allclose(ours.array, [3 * state], **CLOSE)
