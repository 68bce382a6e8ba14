"""Limits of exact numbers: they come from comparing exponents, not from a general algorithm."""

from typing import Any

import sympy

from headwork.errors import InputError, TooLarge
from headwork.numbers.entries import MAX_EXPONENT_OF_E
from headwork.numbers.exact import as_single_fraction, exact_text, exponential, sign


class _NoLimit(Exception):
    """The comparison of exponents does not decide this one."""


def limit(value: Any, symbol: Any, to: Any) -> Any:
    """The limit of an exact expression as one symbol goes to a number or to oo or -oo.

    >>> b = sympy.Symbol("beta")
    >>> limit(sympy.exp(2 * b) / (sympy.exp(2 * b) + sympy.exp(b)), b, sympy.oo)
    1
    """
    if symbol not in value.free_symbols:
        return value
    if to == -sympy.oo:
        return limit(value.xreplace({symbol: -symbol}), symbol, sympy.oo)
    powers = [power for power in value.atoms(sympy.Pow, sympy.exp) if symbol in power.free_symbols]
    inner_first = sorted(powers, key=lambda power: power.count_ops())
    for power in inner_first if to != sympy.oo else ():
        at_limit = (power.exp * sympy.log(power.base)).subs(symbol, to)
        if at_limit.is_number and at_limit.is_finite and abs(at_limit.evalf(5)) > MAX_EXPONENT_OF_E:
            raise TooLarge(
                f"limit: an exponent of e beyond {MAX_EXPONENT_OF_E} as {symbol} -> {exact_text(to)}. "
                f"Let {symbol} go to oo."
            )
        exponential(at_limit)  # or it is refused
    try:
        result = _at_infinity(value, symbol) if to == sympy.oo else value.xreplace({symbol: to})
        if to != sympy.oo and result.has(sympy.nan, sympy.zoo):
            result = value.together().cancel().subs(symbol, to)
        if result.has(sympy.AccumBounds, sympy.I):  # it swings, or is not real
            raise _NoLimit
        return result
    except (_NoLimit, TypeError):  # a TypeError: SymPy compared what is not real
        raise InputError(
            f"limit: {exact_text(value)} as {symbol} -> {exact_text(to)} is beyond comparing exponents. "
            "It does sums, products and quotients of powers and of exponentials of polynomials."
        ) from None


def _at_infinity(value: Any, symbol: Any) -> Any:
    coefficient, rate, power = _leading_term(value, symbol)
    order = _growth(rate, symbol) or sign(power)
    if order == 0:
        return as_single_fraction(coefficient)
    return sympy.S.Zero if order < 0 else sympy.oo * sign(coefficient)


def _growth(rate: Any, symbol: Any) -> int:
    """Whether e^rate grows (1), stays (0) or fades (-1); the rate is a polynomial without constant term."""
    return sign(sympy.Poly(rate, symbol).LC()) if rate != 0 else 0


def _leading_term(value: Any, symbol: Any) -> tuple[Any, Any, Any]:
    """(c, a, p) where value ~ c symbol^p e^a and a is a polynomial in the symbol."""
    zero = sympy.S.Zero
    if symbol not in value.free_symbols:
        return value, zero, zero
    if value == symbol:
        return sympy.S.One, zero, sympy.S.One
    if value.is_Mul:
        coefficient, rate, power = sympy.S.One, zero, zero
        for factor in value.args:
            c, a, p = _leading_term(factor, symbol)
            coefficient, rate, power = coefficient * c, rate + a, power + p
        return coefficient, rate, power
    if value.is_Add:
        return _leading_sum(value, symbol)
    if isinstance(value, sympy.exp) or (value.is_Pow and value.base is sympy.E):
        return _leading_exponential(value.exp, symbol)
    if value.is_Pow and value.exp.is_Rational:
        c, a, p = _leading_term(value.base, symbol)
        return c**value.exp, a * value.exp, p * value.exp
    if value.is_Function and len(value.args) == 1:
        return value.func(_at_infinity(value.args[0], symbol)), zero, zero
    raise _NoLimit


def _leading_exponential(exponent: Any, symbol: Any) -> tuple[Any, Any, Any]:
    if exponent.is_polynomial(symbol):
        polynomial = exponent.expand()
        rest = polynomial.as_independent(symbol, as_Add=True)[0]
        return sympy.exp(rest), polynomial - rest, sympy.S.Zero
    at_end = _at_infinity(exponent, symbol)
    if at_end in (sympy.oo, -sympy.oo):
        raise _NoLimit
    return sympy.exp(at_end), sympy.S.Zero, sympy.S.Zero


def _leading_sum(value: Any, symbol: Any, combined: bool = False) -> tuple[Any, Any, Any]:
    terms = [_leading_term(term, symbol) for term in value.args]
    leading = terms[0]
    for term in terms[1:]:
        if (_growth(sympy.expand(term[1] - leading[1]), symbol) or sign(term[2] - leading[2])) > 0:
            leading = term
    coefficient = sum(t[0] for t in terms if sympy.expand(t[1] - leading[1]) == 0 and t[2] == leading[2])
    if coefficient != 0:
        return coefficient, leading[1], leading[2]
    # The largest terms cancel: bring all to one fraction once, to see what remains.
    numerator, denominator = sympy.fraction(sympy.together(value))
    left = numerator.expand()
    if combined or left / denominator == value:
        raise _NoLimit
    if left == 0:
        return sympy.S.Zero, sympy.S.Zero, sympy.S.Zero
    above = _leading_sum(left, symbol, combined=True) if left.is_Add else _leading_term(left, symbol)
    below = _leading_term(denominator, symbol)
    return above[0] / below[0], above[1] - below[1], above[2] - below[2]
