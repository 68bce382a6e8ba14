"""Tidy forms, signs, decimals and limits of exact numbers, and their text, which can be typed back in."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import hypothesis.strategies as st
import pytest
import sympy
from hypothesis import example, given, settings

from headwork.errors import InputError
from headwork.numbers.exact import as_single_fraction, exact_text, sign, to_float
from headwork.numbers.limits import limit
from headwork.numbers.parsing import read_number

x, b = sympy.Symbol("x", real=True), sympy.Symbol("beta", real=True)
atoms = st.one_of(
    st.fractions(-9, 9, max_denominator=9).map(lambda f: sympy.Rational(f.numerator, f.denominator)),
    st.sampled_from(
        [sympy.E, sympy.pi, sympy.sqrt(2), sympy.exp(-3), x, b, sympy.sqrt(x**2 + 1), sympy.exp(b / 2)]
    ),
)


def combined(parts: Any) -> Any:
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: p[0] / (p[1] ** 2 + 1)),
        st.tuples(parts, st.integers(-3, 3)).map(lambda p: (p[0] ** 2 + 1) ** p[1]),
        parts.map(sympy.sin),
        parts.map(sympy.tanh),
        parts.map(lambda p: sympy.exp(p / 100)),
        parts.map(lambda p: sympy.Max(p, 1)),
        parts.map(sympy.Abs),
        parts.map(lambda p: sympy.log(p**2 + 2)),
        parts.map(sympy.erf),
        parts.map(lambda p: -p),
    )


expressions = st.recursive(atoms, combined, max_leaves=5)


def near(value: Any) -> float:
    return float(sympy.N(value.subs({x: sympy.Rational(7, 10), b: sympy.Rational(-13, 10)}), 30))


@settings(max_examples=150, deadline=None)
@given(expressions)
@example((sympy.sqrt(2) + sympy.E) ** 2)
def test_text_can_be_typed_back_in(value: Any) -> None:
    if value.has(sympy.zoo, sympy.nan) or value.count_ops() > 60:
        return
    assert near(read_number(exact_text(value), exact=True)) == pytest.approx(
        near(value), rel=1e-12, abs=1e-12
    )


@settings(max_examples=150, deadline=None)
@given(expressions)
def test_tidying_changes_no_value(value: Any) -> None:
    assert near(as_single_fraction(value)) == pytest.approx(near(value), rel=1e-11, abs=1e-11)


@settings(max_examples=100, deadline=None)
@given(expressions)
def test_decimals_and_signs_are_those_of_sympy(value: Any) -> None:
    number = value.subs({x: sympy.Rational(7, 10), b: sympy.Rational(-13, 10)})
    expected = near(number)
    assert to_float(number) == pytest.approx(expected, rel=1e-14, abs=1e-300)
    if abs(expected) > 1e-12:
        assert sign(number) == (1 if expected > 0 else -1)


def root(n: int) -> Any:
    return sympy.sqrt(n)


HIDDEN_ZEROS = [
    (root(2) + root(3)) ** 2 - 5 - 2 * root(6),
    (root(2) + root(3) + root(5) + root(7)) ** 2
    - 17
    - 2 * (root(6) + root(10) + root(14) + root(15) + root(21) + root(35)),
    sympy.sin(1) ** 2 + sympy.cos(1) ** 2 - 1,
    sympy.exp(2) / (sympy.E + 1) ** 2 - sympy.exp(2) / (1 + 2 * sympy.E + sympy.exp(2)),
    root(5 + 2 * root(6)) - root(2) - root(3),
]


@pytest.mark.parametrize("zero", HIDDEN_ZEROS, ids=str)
def test_a_zero_in_disguise_has_no_sign(zero: Any) -> None:
    assert sign(zero) == 0


@pytest.mark.parametrize(
    "small",
    [
        sympy.exp(-200),
        1 - sympy.erf(12),
        sympy.exp(sympy.pi * root(163)) * -1 + 262537412640768744,
        sympy.Rational(1, 10**90),
    ],
    ids=str,
)
def test_a_number_near_zero_keeps_its_sign(small: Any) -> None:
    assert (sign(small), sign(-small)) == (1, -1)


def test_a_symbol_has_no_sign() -> None:
    with pytest.raises(InputError, match="comparing needs numbers, but an entry is beta"):
        sign(b)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (sympy.exp(2) / (sympy.E + sympy.exp(2) + 1 + sympy.E), "e^2/(e + 1)^2"),
        (sympy.exp(b) / (sympy.exp(b) + sympy.exp(2 * b)), "1/(e^beta + 1)"),
        (sympy.sqrt(2) / 2, "sqrt(2)/2"),
        (-sympy.oo, "-oo"),
        (sympy.nan, "nan"),
    ],
)
def test_tidy_text(value: Any, text: str) -> None:
    assert exact_text(as_single_fraction(value)) == text


def test_an_expression_too_large_to_multiply_out_is_left_as_it_is() -> None:
    letters = sympy.symbols("a0:40", real=True)
    product = sympy.prod([letters[2 * i] + letters[2 * i + 1] for i in range(20)])
    nested = sympy.S.One
    for letter in letters:
        nested = 1 / (letter + nested)
    many = sum(1 / (letters[2 * i] + letters[2 * i + 1]) for i in range(20))
    power = 1 / (sum(letters[:6]) ** 100 + 1)
    for value in (product, nested, many, power, sympy.exp(product), 1 / (x**1000 + 1), sympy.exp(nested)):
        tidied = as_single_fraction(value)
        numbers = {letter: sympy.Rational(k + 1, 7) for k, letter in enumerate(letters)} | {
            x: sympy.Rational(3, 2)
        }
        assert to_float(tidied.xreplace(numbers)) == pytest.approx(
            to_float(value.xreplace(numbers)), rel=1e-12
        )


# --- limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "to", "expected"),
    [
        (sympy.exp(2 * b) / (sympy.exp(2 * b) + sympy.exp(b)), sympy.oo, 1),
        (sympy.exp(b) / (2 * sympy.exp(b) + 1), sympy.oo, sympy.Rational(1, 2)),
        (sympy.exp(b) / (2 * sympy.exp(b) + 1), -sympy.oo, 0),
        (sympy.exp(-b) * b**5, sympy.oo, 0),
        (b / (b + 1), sympy.oo, 1),
        (3 * b, sympy.oo, sympy.oo),
        (-3 * b, sympy.oo, -sympy.oo),
        (3 * b, -sympy.oo, -sympy.oo),
        (b**2, -sympy.oo, sympy.oo),
        (sympy.exp(sympy.sqrt(2) * b) / sympy.exp(sympy.Rational(141, 100) * b), sympy.oo, sympy.oo),
        (sympy.tanh(b), sympy.oo, 1),
        ((sympy.exp(b) - 1) / (sympy.exp(b) + 1) - 1, sympy.oo, 0),
        (sympy.exp(-(b**2)) + x, sympy.oo, x),
        ((b**2 - 1) / (b - 1), 1, 2),
        (sympy.exp(b), 0, 1),
        (sympy.S(7), sympy.oo, 7),
    ],
    ids=str,
)
def test_limits(value: Any, to: Any, expected: Any) -> None:
    assert limit(value, b, to) == expected


weights = st.lists(st.integers(-3, 3), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(weights)
def test_the_limit_of_softmax_is_one_hot_with_ties_shared(scores: list[int]) -> None:
    powers = [sympy.exp(b * s) for s in scores]
    for s, power in zip(scores, powers, strict=True):
        expected = sympy.Rational(s == max(scores), scores.count(max(scores)))
        assert limit(power / sum(powers), b, sympy.oo) == expected


@settings(max_examples=30, deadline=None)
@given(weights, weights)
def test_limits_of_quotients_are_those_far_out(above: list[int], below: list[int]) -> None:
    value = sum((k + 1) * sympy.exp(b * s) for k, s in enumerate(above)) / sum(
        sympy.exp(b * s) for s in below
    )
    found, far = limit(value, b, sympy.oo), float(sympy.N(value.subs(b, 60), 20))
    if found.is_finite:
        assert far == pytest.approx(float(found), abs=1e-9)
    else:
        assert far > 1e20


def test_a_limit_beyond_comparing_exponents_is_refused() -> None:
    with pytest.raises(InputError, match="beyond comparing exponents"):
        limit(sympy.exp(sympy.exp(b)) / sympy.Max(b, x), b, sympy.oo)


def test_decimals_of_what_is_not_finite() -> None:
    assert to_float(-sympy.oo) == -math.inf
    assert math.isnan(to_float(sympy.nan) or 0.0)
    assert to_float(b) is None


def test_names_that_use_names_are_gone_through_once():
    """Each uses the one before it twice: reached in 2**40 ways, evaluated once."""
    from headwork.numbers.naming import NamedNumber

    number = sympy.Symbol("x")
    for i in range(40):
        name = NamedNumber(f"u_{i}")
        name.definition = number / 2 + sympy.sin(number) / 2
        number = name
    assert number.free_symbols == {sympy.Symbol("x")}
    number = sympy.Rational(1, 3)
    for i in range(40):
        name = NamedNumber(f"u_{i}")
        name.definition = number / 2 + sympy.sin(number) / 2
        number = name
    assert 0 < number.evalf() < 1


SAME = """
from headwork.numbers.exact import exact_text, tidy
from headwork.numbers.naming import NamedNumber
from sympy import sqrt
u = []
for i in range(8):
    u.append(NamedNumber(f"u_{i + 67}", real=True))
    u[-1].definition = sqrt(i + 2)
for a, b, c, d in zip(u, u[1:], u[2:], u[3:]):
    print(exact_text(tidy(-a / d + 2 * b / d - c / d + 3)))
"""


def test_forms_do_not_depend_on_the_order_of_a_set():
    def run(seed):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        return subprocess.run([sys.executable, "-c", SAME], env=environment, capture_output=True).stdout

    assert len({run(seed) for seed in range(3)}) == 1
