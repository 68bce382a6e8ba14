"""HandTensor against numpy and torch, method by method; and exact numbers against decimals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays

from headwork.numbers import HandTensor, OperationCount, ShapeTensor, cat, stack
from headwork.numbers.exact import to_float
from headwork.numbers.parsing import tensor_from_lists

settings.register_profile("quick", max_examples=25, deadline=None)
settings.load_profile("quick")
numbers = st.integers(-12, 12).map(lambda n: n / 4)
matrices = arrays(float, array_shapes(min_dims=2, max_dims=4, max_side=3), elements=numbers)


def exact(array: Any) -> HandTensor:
    return tensor_from_lists([Fraction(x) for x in np.ravel(array).tolist()], exact=True).reshape(
        *np.shape(array)
    )


def floats(tensor: HandTensor) -> Any:
    return (
        np.array([to_float(x) for x in tensor.array.flat], float).reshape(tensor.shape)
        if tensor.exact
        else tensor.array
    )


def agree(body: Any, *operands: Any) -> None:
    """The same body on torch, in decimals, exactly, and on shapes."""
    theirs = body(*(torch.tensor(a) for a in operands)).numpy()
    for kind in (HandTensor, exact):
        ours = body(*(kind(a) for a in operands))
        assert isinstance(ours, HandTensor)
        assert ours.exact == (kind is exact)
        np.testing.assert_allclose(floats(ours), theirs, rtol=1e-12, atol=1e-12)
        assert ours.shape == theirs.shape
    work = OperationCount()
    assert body(*(ShapeTensor(a.shape, work) for a in operands)).shape == theirs.shape


SIMPLE = {
    "exp": lambda x: x.exp(),
    "tanh": lambda x: x.tanh(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "erf": lambda x: x.erf(),
    "abs": lambda x: x.abs(),
    "relu": lambda x: x.relu(),
    "sigmoid": lambda x: x.sigmoid(),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "negative": lambda x: -x,
    "mT": lambda x: x.mT,
    "sum": lambda x: x.sum(-1),
    "sum of rows": lambda x: x.sum(-2, keepdim=True),
    "mean": lambda x: x.mean(0),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "cumsum": lambda x: x.cumsum(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax of columns": lambda x: x.softmax(0),
    "transpose": lambda x: x.transpose(0, -1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "reshape": lambda x: x.reshape(-1, x.shape[-1]),
    "first": lambda x: x[0],
    "last": lambda x: x[..., -1],
    "slice": lambda x: x[..., ::2],
    "range": lambda x: x[1:],
    "tril": lambda x: x.tril(),
    "tril 1": lambda x: x.tril(1),
    "unfold": lambda x: x.unfold(-1, 1 if x.shape[-1] == 1 else 2, 1),
    "unfold rows": lambda x: x.unfold(0, 1, 2),
    "plus": lambda x: x + 2,
    "from": lambda x: 2 - x,
    "times": lambda x: 3 * x,
    "over": lambda x: x / 4,
    "under": lambda x: 1 / (x * x + 1),
    "power": lambda x: x**2,
    "base": lambda x: x.new_tensor(2) ** x,
    "greater": lambda x: (x > 0).to(x),
    "at least": lambda x: (x >= 1).to(x),
    "equal": lambda x: (x == 0).to(x),
    "filled": lambda x: x.masked_fill(x > 1, -7),
    "zeros": lambda x: x + x.new_zeros(*x.shape),
    "ones": lambda x: x * x.new_ones(x.shape[-1]),
    "gram": lambda x: x @ x.mT,
    "cat": lambda x: cat([x, -x], -1),
    "stack": lambda x: stack([x, 2 * x], 0),
    "stack last": lambda x: stack([x, x], -1),
}


@pytest.mark.parametrize("name", SIMPLE)
@settings(max_examples=12)
@given(matrices)
def test_one_operand(name: str, array: Any) -> None:
    agree(SIMPLE[name], array)


@given(st.data())
def test_arithmetic_broadcasts(data: Any) -> None:
    left = data.draw(matrices)
    shape = tuple(
        data.draw(st.sampled_from([1, size])) for size in left.shape[data.draw(st.integers(0, 2)) :]
    )
    right = data.draw(arrays(float, shape, elements=numbers.filter(lambda x: x != 0)))
    for body in (
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: b * a,
        lambda a, b: a / b,
        lambda a, b: (a >= b).to(a),
    ):
        agree(body, left, right)


@given(st.data())
def test_products_of_matrices_broadcast(data: Any) -> None:
    rows, inner, columns, batch = (data.draw(st.integers(1, 3)) for _ in range(4))
    left = data.draw(arrays(float, (batch, rows, inner), elements=numbers))
    right = data.draw(
        arrays(
            float,
            data.draw(st.sampled_from([(inner, columns), (1, inner, columns), (inner,)])),
            elements=numbers,
        )
    )
    agree(lambda a, b: a @ b, left, right)


@pytest.mark.parametrize("kind", [HandTensor, exact])
def test_minus_infinity_has_no_weight(kind: Any) -> None:
    scores = kind(np.array([[1.0, 2.0, 3.0]])).masked_fill(kind(np.array([[0.0, 1.0, 1.0]])), -math.inf)
    assert floats(scores.softmax(-1)).tolist() == [[1, 0, 0]]
    assert floats(scores.amax(-1)).tolist() == [1]
    hidden = scores.masked_fill(kind(np.array([[1.0, 1.0, 1.0]])), -math.inf)
    assert np.isnan(floats(hidden.softmax(-1))).all()


def test_exact_numbers_stay_exact() -> None:
    x = exact(np.array([[1.0, 2.0]])) / 3
    assert [str(v) for v in (x @ x.mT).array.flat] == ["5/9"]
    assert [str(v) for v in x.new_tensor(2).sqrt().array.flat] == ["sqrt(2)"]


def test_exact_and_decimal_numbers_do_not_mix() -> None:
    with pytest.raises(TypeError, match="do not mix"):
        exact(np.ones(2)) + HandTensor(np.ones(2))


def test_a_long_nested_number_still_has_a_positive_part() -> None:
    tokens = tensor_from_lists([["e/(e+e^2)", "7/(1+sqrt(2))"]], exact=True)
    centred = tokens - tokens.mean(-1, keepdim=True)
    scaled = centred / (centred * centred).mean(-1, keepdim=True).sqrt()
    assert floats(scaled.relu()).tolist() == [[0, 1]]
