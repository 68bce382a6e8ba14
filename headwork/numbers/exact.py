"""Exact numbers: tidy forms, comparison, and how they are written.

``together`` and factoring over the exponentials that occur are enough and quick; ``simplify`` is
never called.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache, reduce
from math import comb, lcm, prod
from typing import Any

import mpmath  # type: ignore[import-untyped]
import sympy
from sympy.core.exprtools import decompose_power
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

from headwork.errors import InputError, TooLarge

MAX_TERMS_TO_FACTOR = 8
MAX_TERMS_TO_EXPAND = 200
MAX_DEGREE_TO_FACTOR = 16
MAX_COEFFICIENTS_TO_FACTOR = 10_000
MAX_OPERATIONS_TO_COMBINE = 400
MAX_FRACTION_SIZE = 5000
MAX_DIGITS_TO_COMPARE = 400
MAX_TERMS_TO_COMBINE = 15_000  # of a whole trace: about two seconds
MAX_PARTS_TO_SHOW = 250_000
MAX_ROOT_ORDER = 27_720  # of the first twelve roots together
MAX_POWER_BITS = 10_000  # bits


class _TextPrinter(StrPrinter):  # type: ignore[misc]
    """Exact numbers in a form that our own parser reads back."""

    def _print_Exp1(self, expr: Any) -> str:
        return "e"

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
            return f"1/{inner}" if _needs_no_brackets(inner) else f"1/({inner})"
        base = self._print(expr.base)
        return f"{base if _is_single_name(base) else f'({base})'}^{self._power(expr.exp)}"

    def _print_log(self, expr: Any) -> str:
        return f"ln({self._print(expr.args[0])})"

    def _print_Abs(self, expr: Any) -> str:
        return f"abs({self._print(expr.args[0])})"

    def _print_Max(self, expr: Any) -> str:
        return f"max({', '.join(self._print(a) for a in sorted(expr.args, key=sympy.default_sort_key))})"

    def _print_Add(self, expr: Any, order: str | None = None) -> str:
        text = ""
        for term in _ordered_terms(expr):
            part = self._print(term)
            negative = part.startswith("-")
            part = part[1:] if negative else part
            text += (" - " if negative else " + ") + part if text else ("-" if negative else "") + part
        return text


class _LatexPrinter(LatexPrinter):  # type: ignore[misc]
    """SymPy's LaTeX, terms in the order of the text."""

    def _as_ordered_terms(self, expr: Any, order: str | None = None) -> Any:
        return _ordered_terms(expr)


def _ordered_terms(expr: Any) -> Any:
    """The terms of a sum, largest first, as people write it: e + 1, not 1 + e."""
    return sorted(expr.args, key=lambda t: (bool(t.is_number and t.is_Rational), t.sort_key()))


def _is_single_name(text: str) -> bool:
    return text.replace("_", "").isalnum() or (
        text.startswith("sqrt(") and text.endswith(")") and text.count("(") == 1
    )


def _needs_no_brackets(text: str) -> bool:
    """Whether no sum, product or quotient stands outside of brackets."""
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth == 0 and char in "+-*/":
            return False
    return True


@lru_cache(maxsize=20_000)
def exact_text(value: Any) -> str:
    """An exact number as text that can be typed back in.

    >>> exact_text(sympy.exp(2) / (sympy.E + 1) ** 2)
    'e^2/(e + 1)^2'
    """
    if value in (sympy.nan, sympy.zoo):
        return "nan"
    return str(_TextPrinter().doprint(value))


@lru_cache(maxsize=20_000)
def exact_latex(value: Any) -> str:
    return r"\text{undefined}" if value in (sympy.nan, sympy.zoo) else str(_LatexPrinter().doprint(value))


@lru_cache(maxsize=20_000)  # every renderer asks for the same cells
def as_single_fraction(value: Any) -> Any:
    """One fraction, numerator and denominator factored over the exponentials that occur.

    >>> print(as_single_fraction(2 * sympy.E / (2 * sympy.E + sympy.exp(2) + 1)))
    2*E/(1 + E)**2
    """
    if not _can_be_combined(value):
        return value
    factors = value.args if value.is_Mul else (value,)  # cells of a row share their denominator
    numerator, denominator = sympy.fraction(sympy.Mul(*map(_together, factors)))
    if denominator == 1:
        if not _expandable(numerator):
            return numerator
        expanded = sympy.expand_mul(numerator)
        return expanded if expanded.count_ops() <= numerator.count_ops() else numerator
    substitutions = _exponential_bases(sympy.Tuple(numerator, denominator))  # their sum may be 0
    # Divided before the exponentials are back: a factor of both must be seen.
    bases_of_stand_ins = {stand_in: unit for stand_in, _, unit in substitutions.values()}
    parts = (_factored(part, substitutions) for part in (numerator, denominator))
    (above, above_number), (below, below_number) = parts
    tidied = (above / below * (above_number / below_number)).xreplace(bases_of_stand_ins)
    # A sum of names says more than its fraction, if that is not shorter.
    named = any(hasattr(symbol, "definition") for symbol in value.atoms(sympy.Dummy))
    return value if named and tidied.count_ops() >= value.count_ops() else tidied


@lru_cache(maxsize=20_000)
def _can_be_combined(value: Any) -> bool:
    """Whether it is a sum or fraction, and small enough to rewrite."""
    return not (
        value.is_Atom
        or value.is_Rational
        or _node_count(value) > 4 * MAX_OPERATIONS_TO_COMBINE  # which takes less time to find out
        or value.count_ops() > MAX_OPERATIONS_TO_COMBINE
        or _has_root_of_exponentials(value)
        or not value.has(sympy.Add)
        or sum(_fraction_size(value)) > MAX_FRACTION_SIZE
    )


def few_enough_to_simplify(values: Iterable[Any]) -> bool:
    """Whether all numbers of a trace are simplified within seconds; refused if writing takes that long."""
    different = set(values)
    if (parts := sum(map(_node_count, different))) > MAX_PARTS_TO_SHOW:
        raise TooLarge(
            f"the exact numbers have {parts:,} parts together; at most {MAX_PARTS_TO_SHOW:,} are written. "
            "Leave out --exact to work in decimals, or take fewer or shorter numbers."
        )
    terms = sum(sum(_fraction_size(value)) for value in different if _can_be_combined(value))
    return terms <= MAX_TERMS_TO_COMBINE


@lru_cache(maxsize=20_000)
def _together(value: Any) -> Any:
    return sympy.together(value)


@lru_cache(maxsize=20_000)
def _node_count(value: Any) -> int:
    return 1 + sum(map(_node_count, value.args))


def _has_root_of_exponentials(value: Any) -> bool:
    """A root of a sum of exponentials: nothing combines, and trying takes minutes."""
    return any(
        power.exp.is_Rational
        and not power.exp.is_Integer
        and power.base.is_Add
        and power.base.has(sympy.exp, sympy.E)
        for power in value.atoms(sympy.Pow)
        if power.base is not sympy.E
    )


def _fraction_size(value: Any) -> tuple[int, int]:
    """About how many parts stand above and below the line once all is one fraction."""
    if value.is_Pow and value.exp.is_negative:
        above, below = _fraction_size(value.base)
        return below, above
    if not (value.is_Add or value.is_Mul):
        return 1, 0
    sizes = [_fraction_size(part) for part in value.args]
    above, below = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    return (above + (len(sizes) - 1) * below if value.is_Add else above), below


def _expanded_terms(value: Any) -> int:
    """At most how many terms there are once all is multiplied out."""
    if value.is_Add or value.is_Mul:
        return (sum if value.is_Add else prod)(_expanded_terms(part) for part in value.args)
    if value.is_Pow and value.exp.is_Integer and value.base is not sympy.E:
        terms, times = _expanded_terms(value.base), abs(int(value.exp))
        # Beyond the limit the number itself does not matter; it would only grow.
        small = times <= 100 and terms <= 1000
        return comb(terms + times - 1, times) if small or terms == 1 else 10**9
    return 1


def _expandable(value: Any) -> bool:
    """Whether all can be multiplied out, also inside of functions, where SymPy goes on by itself."""
    nodes = [node for node in sympy.preorder_traversal(value) if not (node.is_Add or node.is_Mul)]
    parts = (value, *(part for node in nodes for part in node.args))
    return all(_expanded_terms(part) <= MAX_TERMS_TO_EXPAND for part in parts)


def _factorable(value: Any) -> bool:
    """Whether it is a small polynomial: few terms, and few coefficients if all are written, as SymPy does.

    12^(17/97) is of degree 17 in 12^(1/97), as SymPy sees it.
    """
    if not _expandable(value):
        return False
    terms = sympy.Add.make_args(value.expand())
    degrees: Counter[Any] = Counter()
    highest = 0
    for term in terms:
        factors = [decompose_power(factor) for factor in sympy.Mul.make_args(term) if not factor.is_Number]
        degrees |= Counter({unit: abs(degree) for unit, degree in factors})
        highest = max(highest, sum(abs(degree) for _, degree in factors))
    size = prod(degree + 1 for degree in degrees.values())
    roots = [part.base for part in sympy.Mul.make_args(value) if part.is_Pow and not part.exp.is_Integer]
    has_few_terms = len(terms) <= MAX_TERMS_TO_FACTOR and highest <= MAX_DEGREE_TO_FACTOR
    # SymPy factors below a root as well.
    return has_few_terms and size <= MAX_COEFFICIENTS_TO_FACTOR and all(map(_factorable, roots))


def _exponential_bases(value: Any) -> dict[Any, Any]:
    """Each exponential as a power of a stand-in symbol: e^(1/2), e -> t, t^2; a named number too."""
    groups: dict[Any, list[tuple[Any, Any]]] = {}
    # In order of size, so that the outcome does not depend on the order of a set.
    for one in sorted(value.atoms(sympy.exp) | value.atoms(sympy.E.func), key=sympy.default_sort_key):
        exponent = one.exp if one is not sympy.E else sympy.S.One
        content, primitive = exponent.primitive()
        if primitive.could_extract_minus_sign():
            content, primitive = -content, -primitive
        groups.setdefault(primitive, []).append((one, content))
    substitutions = {}
    for primitive, members in groups.items():
        unit = reduce(sympy.Rational.gcd, (content for _, content in members), sympy.S.Zero)
        stand_in = sympy.Dummy(positive=True)
        for one, content in members:
            substitutions[one] = (stand_in, int(content / unit), sympy.exp(primitive * unit))
    # SymPy takes what has no free symbols for a constant, and would not divide by it.
    named = (symbol for symbol in value.atoms(sympy.Dummy) if hasattr(symbol, "definition"))
    for name in sorted(named, key=sympy.default_sort_key):
        substitutions[name] = (sympy.Dummy(), 1, name)
    return substitutions


def _factored(value: Any, substitutions: dict[Any, Any]) -> tuple[Any, Any]:
    """The factors, and the number among them apart: of x - 3 and 9 - 3x, one factor is the same."""
    swapped = value.xreplace({one: stand_in**power for one, (stand_in, power, _) in substitutions.items()})
    factored = sympy.factor(swapped) if _factorable(swapped) else swapped
    number, rest = factored.as_coeff_Mul()
    factors = sympy.Mul.make_args(rest)
    negated = [factor for factor in factors if factor.is_Add and factor.could_extract_minus_sign()]
    return sympy.Mul(*(-f if f in negated else f for f in factors)), number * (-1) ** len(negated)


def root_order(values: Iterable[Any]) -> int:
    """The order of all their roots together. In products exponents add, so that no root becomes higher."""
    powers = (power.exp for value in values for power in value.atoms(sympy.Pow))
    return lcm(*(exponent.q for exponent in powers if exponent.is_Rational))


def exponential(value: Any) -> Any:
    """e^value, unless that is too long. SymPy makes 12^c of e^(c ln 12) and multiplies it out."""
    # Also as it would be after multiplying out, and inside of factors: SymPy does both by itself.
    sums = sympy.expand_mul(value) if value.has(sympy.log) and _expandable(value) else value
    for term in value.atoms(sympy.Mul) | sums.atoms(sympy.Mul) if value.has(sympy.log) else ():
        factor, rest = term.as_coeff_Mul()
        logs = [part.args[0] for part in sympy.Mul.make_args(rest) if isinstance(part, sympy.log)]
        if logs and factor.is_Rational:
            bits = max(max(base.p, base.q).bit_length() if base.is_Rational else 1 for base in logs)
            if bits * max(abs(factor.p), factor.q) > MAX_POWER_BITS:
                raise TooLarge(f"e^({exact_text(term)}) is too long to be exact. Write fewer digits.")
    if any(one.args[0].has(sympy.log) for one in value.atoms(sympy.log)):  # ln(ln 3) + ln 10^29: 3^(10^29)
        numbers = [part for part in sympy.preorder_traversal(value) if part.is_Rational]
        if prod(max(abs(number.p), number.q) for number in numbers) > MAX_POWER_BITS:
            raise TooLarge(f"e^({exact_text(value)}) is too long to be exact. Write fewer digits.")
    return sympy.exp(value)


def sign(value: Any) -> int:
    """The sign of an exact number: -1, 0 or 1; a symbolic one is refused."""
    if value.is_Rational or value in (sympy.oo, -sympy.oo):
        return int(bool(value > 0)) - int(bool(value < 0))
    if value.free_symbols:
        raise InputError(
            f"comparing needs numbers, but an entry is {exact_text(value)}. "
            "Give its symbols values, or use a step that does not compare."
        )
    if (number := _decimal_if_certain(value)) is not None:
        return int(number > 0) - int(number < 0)
    # evalf adds digits until two are certain; a number that still has none is zero.
    number = value.evalf(2, maxn=MAX_DIGITS_TO_COMPARE)
    return 0 if number == 0 or getattr(number, "_prec", 2) == 1 else 1 if number > 0 else -1


def positive_part(value: Any) -> Any:
    """max(0, x). A number is compared here, because SymPy's Max gives up on long ones."""
    if value.free_symbols:
        return sympy.Max(0, value)
    return value if sign(value) > 0 else sympy.S.Zero


def sigmoid(value: Any) -> Any:
    return 1 / (1 + exponential(-value))


def to_float(value: Any) -> float | None:
    """The float64 nearest to an exact number; None where symbols remain.

    >>> to_float(sympy.exp(2) / (sympy.E + 1) ** 2)
    0.534446645388523
    """
    if (number := _decimal_if_certain(value)) is not None:
        return float(number)
    if value.free_symbols:
        return None
    return float("nan" if value in (sympy.nan, sympy.zoo) else sympy.N(value, 20))


LOW, HIGH = mpmath.MPContext(), mpmath.MPContext()
LOW.dps, HIGH.dps = 50, 80


def _decimal_if_certain(value: Any) -> Any:
    """The number on which two precisions agree; None where digits cancel or a function is unknown here."""
    try:
        first, second = _evaluate(value, LOW), _evaluate(value, HIGH)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return None
    return second if abs(HIGH.convert(first) - second) <= abs(second) * HIGH.mpf("1e-25") else None


@lru_cache(maxsize=200_000)
def _evaluate(value: Any, context: Any) -> Any:
    """One number in a context of mpmath. Unlike in SymPy's evalf, repeated parts are computed once."""
    if value.is_Rational:
        return context.mpf(value.p) / value.q
    if value is sympy.E or value is sympy.pi:
        return +(context.e if value is sympy.E else context.pi)
    if definition := getattr(value, "definition", None):  # a name (``naming``)
        return _evaluate(definition, context)
    parts = [_evaluate(part, context) for part in value.args]
    if value.is_Add or value.is_Mul:
        return context.fsum(parts) if value.is_Add else context.fprod(parts)
    if value.is_Pow:
        return parts[0] ** parts[1]
    name = {"Abs": "fabs"}.get(value.func.__name__, value.func.__name__)
    if name == "Max":
        return max(parts)
    if name not in ("exp", "log", "sin", "cos", "tanh", "erf", "fabs"):
        raise NotImplementedError(name)
    return getattr(context, name)(*parts)
