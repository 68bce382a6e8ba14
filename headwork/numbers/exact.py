"""Exact numbers: tidy forms, comparison, limits, and how they are written.

``together`` and factoring over the exponentials that occur are enough and quick; ``simplify`` is
never called. Limits come from comparing exponents, not from a general algorithm.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import sympy
from sympy.printing.str import StrPrinter

from headwork.errors import InputError

MOST_TERMS_TO_FACTOR = 16
HIGHEST_DEGREE_TO_FACTOR = 40
MOST_OPERATIONS_TO_TIDY = 400


class _Text(StrPrinter):
    """Exact numbers in a form that our own parser reads back."""

    def _print_Exp1(self, expr: Any) -> str:
        return "e"

    def _print_ExpBase(self, expr: Any) -> str:
        return f"e^{self._power(expr.exp)}"

    def _print_exp(self, expr: Any) -> str:
        return f"e^{self._power(expr.args[0])}"

    def _power(self, exponent: Any) -> str:
        text = self._print(exponent)
        return str(text) if text.isalnum() else f"({text})"

    def _print_Pow(self, expr: Any, rational: bool = False) -> str:
        if expr.exp == sympy.S.Half:
            return f"sqrt({self._print(expr.base)})"
        if expr.exp == -sympy.S.Half:
            return f"1/sqrt({self._print(expr.base)})"
        if expr.exp.is_negative and expr.exp.is_Number:
            inner = self._print(1 / expr)
            return f"1/{inner}" if _tight(inner) else f"1/({inner})"
        base = self._print(expr.base)
        return f"{base if _atomic(base) else f'({base})'}^{self._power(expr.exp)}"

    def _print_Infinity(self, expr: Any) -> str:
        return "oo"

    def _print_log(self, expr: Any) -> str:
        return f"ln({self._print(expr.args[0])})"

    def _print_Max(self, expr: Any) -> str:
        return f"max({', '.join(self._print(a) for a in sorted(expr.args, key=sympy.default_sort_key))})"

    def _print_Add(self, expr: Any, order: str | None = None) -> str:
        # Largest first, as people write it: e + 1, not 1 + e.
        terms = sorted(expr.args, key=lambda t: (bool(t.is_number and t.is_Rational), t.sort_key()))
        text = ""
        for term in terms:
            part = self._print(term)
            negative = part.startswith("-")
            part = part[1:] if negative else part
            text += (" - " if negative else " + ") + part if text else ("-" if negative else "") + part
        return text


def _atomic(text: str) -> bool:
    return text.isalnum() or (text.startswith("sqrt(") and text.count("(") == 1)


def _tight(text: str) -> bool:
    """Whether no sum, product or quotient stands outside of brackets."""
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign in "+-*/":
            return False
    return True


def exact_text(value: Any) -> str:
    """An exact number as text that can be typed back in.

    >>> exact_text(sympy.exp(2) / (sympy.E + 1) ** 2)
    'e^2/(e + 1)^2'
    """
    if value in (sympy.nan, sympy.zoo):
        return "nan"
    return str(_Text().doprint(value))


def exact_latex(value: Any) -> str:
    return r"\text{undefined}" if value in (sympy.nan, sympy.zoo) else str(sympy.latex(value))


def tidy(value: Any) -> Any:
    """One fraction, numerator and denominator factored over the exponentials that occur.

    >>> print(tidy(2 * sympy.E / (2 * sympy.E + sympy.exp(2) + 1)))
    2*E/(1 + E)**2
    """
    if value.is_Atom or value.is_Rational or value.count_ops() > MOST_OPERATIONS_TO_TIDY:
        return value
    if not value.has(sympy.Add):
        return value
    numerator, denominator = sympy.fraction(sympy.together(value))
    if denominator == 1:
        expanded = sympy.expand_mul(numerator)
        return expanded if expanded.count_ops() <= numerator.count_ops() else numerator
    bases = _exponential_bases(numerator + denominator)
    return _factored(numerator, bases) / _factored(denominator, bases)


def _exponential_bases(value: Any) -> dict[Any, Any]:
    """Each exponential as a power of a stand-in symbol: e^(1/2), e -> t, t^2."""
    groups: list[list[Any]] = []
    # In order of size, so that the outcome does not depend on the order of a set.
    for one in sorted(value.atoms(sympy.exp) | value.atoms(sympy.E.func), key=sympy.default_sort_key):
        exponent = one.exp if one is not sympy.E else sympy.S.One
        for group in groups:
            if (exponent / group[0]).is_Rational:
                group.append(exponent)
                break
        else:
            groups.append([exponent])
    swaps = {}
    for group in groups:
        ratios = [exponent / group[0] for exponent in group]
        unit = reduce(sympy.gcd, ratios, sympy.S.Zero)
        stand_in = sympy.Dummy(positive=True)
        for exponent, ratio in zip(group, ratios, strict=True):
            swaps[sympy.exp(exponent)] = (stand_in, int(ratio / unit), sympy.exp(group[0] * unit))
    return swaps


def _factored(value: Any, bases: dict[Any, Any]) -> Any:
    swapped = value.xreplace({one: stand_in**power for one, (stand_in, power, _) in bases.items()})
    back = {stand_in: unit for stand_in, _, unit in bases.values()}
    degree = max((power for _, power, _ in bases.values()), default=0)
    terms = sympy.Add.make_args(sympy.expand_mul(swapped))
    if len(terms) <= MOST_TERMS_TO_FACTOR and degree <= HIGHEST_DEGREE_TO_FACTOR:
        swapped = sympy.factor(swapped)
    return swapped.xreplace(back)


def sign(value: Any) -> int:
    """The sign of an exact number: -1, 0 or 1; a symbolic one is refused."""
    if value.is_Rational or value in (sympy.oo, -sympy.oo):
        return int(bool(value > 0)) - int(bool(value < 0))
    if value.free_symbols:
        raise InputError(
            f"comparing needs numbers, but an entry is {exact_text(value)}. "
            "Give its symbols values, or use a step that does not compare."
        )
    number = sympy.N(value, 40)
    if abs(number) < sympy.Float("1e-30") and value.equals(0):
        return 0
    return 1 if number > 0 else -1


def decimal(value: Any) -> float | None:
    """The float64 nearest to an exact number; None where symbols remain."""
    if value.free_symbols:
        return None
    if value in (sympy.nan, sympy.zoo):
        return float("nan")
    return float(sympy.N(value, 20)) if value.is_finite is not False else float(value)


# --- limits, by comparing exponents -------------------------------------------------------------


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
    if to != sympy.oo:
        result = value.xreplace({symbol: to})
        if result.has(sympy.nan, sympy.zoo):
            result = value.together().cancel().subs(symbol, to)
        return result
    try:
        return _at_infinity(value, symbol)
    except _NoLimit:
        raise InputError(
            f"limit: {exact_text(value)} as {symbol} -> oo is beyond comparing exponents. "
            "Only sums, products and quotients of powers and of exponentials linear in the symbol are."
        ) from None


def _at_infinity(value: Any, symbol: Any) -> Any:
    coefficient, rate, power = _leading(value, symbol)
    order = sign(rate) or sign(power)
    if order == 0:
        return tidy(coefficient)
    return sympy.S.Zero if order < 0 else sympy.oo * sign(coefficient)


def _leading(value: Any, symbol: Any) -> tuple[Any, Any, Any]:
    """(c, a, p) where value ~ c symbol^p e^(a symbol)."""
    zero = sympy.S.Zero
    if symbol not in value.free_symbols:
        return value, zero, zero
    if value == symbol:
        return sympy.S.One, zero, sympy.S.One
    if value.is_Mul:
        coefficient, rate, power = sympy.S.One, zero, zero
        for factor in value.args:
            c, a, p = _leading(factor, symbol)
            coefficient, rate, power = coefficient * c, rate + a, power + p
        return coefficient, rate, power
    if value.is_Add:
        return _leading_sum(value, symbol)
    if isinstance(value, sympy.exp) or (value.is_Pow and value.base is sympy.E):
        return _leading_exponential(value.exp, symbol)
    if value.is_Pow and value.exp.is_Rational:
        c, a, p = _leading(value.base, symbol)
        return c**value.exp, a * value.exp, p * value.exp
    if value.is_Function and len(value.args) == 1:
        inner = _at_infinity(value.args[0], symbol)
        return value.func(inner), zero, zero
    raise _NoLimit


def _leading_exponential(exponent: Any, symbol: Any) -> tuple[Any, Any, Any]:
    rate = exponent.expand().coeff(symbol, 1)
    rest = (exponent - rate * symbol).expand()
    if symbol in rest.free_symbols:
        at_end = _at_infinity(exponent, symbol)
        if at_end in (sympy.oo, -sympy.oo):
            raise _NoLimit
        return sympy.exp(at_end), sympy.S.Zero, sympy.S.Zero
    return sympy.exp(rest), rate, sympy.S.Zero


def _leading_sum(value: Any, symbol: Any, expanded: bool = False) -> tuple[Any, Any, Any]:
    terms = [_leading(term, symbol) for term in value.args]
    top = terms[0]
    for term in terms[1:]:
        if (sign(term[1] - top[1]) or sign(term[2] - top[2])) > 0:
            top = term
    coefficient = sum(t[0] for t in terms if t[1] == top[1] and t[2] == top[2])
    if coefficient != 0:
        return coefficient, top[1], top[2]
    # The largest terms cancel: bring all to one fraction once, so that what is left shows.
    numerator, denominator = sympy.fraction(sympy.together(value))
    apart = numerator.expand() / denominator
    if expanded or apart == value:
        raise _NoLimit
    if apart == 0:
        return sympy.S.Zero, sympy.S.Zero, sympy.S.Zero
    if apart.is_Add:
        return _leading_sum(apart, symbol, expanded=True)
    return _leading(apart, symbol)
