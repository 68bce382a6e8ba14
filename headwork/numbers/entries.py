r"""One typed entry, read by a parser of our own: never ``eval``, never SymPy's parser.

An entry is a number (``2``, ``0.5``, ``1e-3``), a fraction, a constant (``e``, ``pi``, ``oo``), a free
symbol (``beta``, ``k1``, ``x_2``) or an expression of these with ``+ - * / ^`` and a few functions.
Everything is limited: length, depth, digits, exponents.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from headwork.errors import InputError
from headwork.numbers.pasted import FUNCTIONS, GREEK, MAX_NESTING, MIXED_SIGN, plain_text, unreadable

MAX_ENTRY_LENGTH = 1000
MAX_DIGITS = 30
MAX_BITS = 512
MAX_OPERANDS = 16
MAX_EXPONENT = 100
MAX_EXPONENT_OF_E = 10_000  # the weights of a saturated softmax must be typed back in

SYMBOL = re.compile(rf"(?:[A-Za-z]|{GREEK})(?:[0-9]{{1,3}}|_(?:[0-9]{{1,3}}|[A-Za-z]))?")
CONSTANTS = {"oo": "oo", "inf": "oo", "infinity": "oo", "e": "e", "E": "e", "pi": "pi"}
TOKEN = re.compile(
    # [0-9], because \d takes the digits of every script.
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<mark>\*\*|[-+*/^(),%\u2064]))"
)


def _tokenize(text: str) -> list[tuple[str, str]]:
    """The tokens of one entry, each with its kind: number, name or mark."""
    if len(text) > MAX_ENTRY_LENGTH:
        raise unreadable(text, f"{len(text)} characters; an entry may have {MAX_ENTRY_LENGTH}.")
    if not text.strip():
        raise unreadable(text, "empty. Expected a number, such as 2, 1/3, 0.5 or sqrt(2).")
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = TOKEN.match(text, position)
        if not match:
            char = text[position:].lstrip()[0]
            name = unicodedata.name(char, f"code {ord(char)}")
            raise unreadable(text, f"unexpected character {char!r} ({name.lower()}).")
        kind = str(match.lastgroup)
        if kind == "number" and sum(c.isdigit() for c in match[kind]) > MAX_DIGITS:
            raise unreadable(text, f"a number of more than {MAX_DIGITS} digits.")
        tokens.append((kind, match[kind]))
        position = match.end()
    return tokens


class _EntryParser:
    """Precedence climbing over the tokens of one entry. ``numbers`` makes the numbers."""

    def __init__(
        self, text: str, tokens: list[tuple[str, str]], numbers: "ExactNumbers | FloatNumbers"
    ) -> None:
        self.text, self.tokens, self.numbers = text, [*tokens, ("end", "")], numbers
        self.position = self.depth = 0

    def parse(self) -> Any:
        value = self.sum()
        kind, word = self.tokens[self.position]
        if kind != "end":
            hint = " Two entries in one? A comma separates; a decimal comma is written 0.5."
            raise unreadable(self.text, f"{word!r} is not expected there.{hint if word[0].isalnum() else ''}")
        return value

    def accept(self, *marks: str) -> str:
        """The next mark if it is one of these, else nothing."""
        word = self.tokens[self.position][1]
        if word not in marks:
            return ""
        self.position += 1
        return word

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise unreadable(self.text, f"a {mark!r} is missing.")

    def sum(self) -> Any:
        value = self.product()
        while mark := self.accept("+", "-"):
            right = self.product()
            value = value + right if mark == "+" else value - right
        return value

    def product(self) -> Any:
        value = self.unary()
        divided = False
        while mark := self.accept("*", "/") or self._implicit_times(divided):
            divided = mark == "/"
            right = self.unary()
            if mark == "/" and self.numbers.is_zero(right):
                raise unreadable(self.text, "division by zero.")
            value = self.numbers.check_product(self.text, value * right if mark == "*" else value / right)
        return value

    def _implicit_times(self, divided: bool) -> str:
        """``*`` where it is understood: 2sqrt(2), 2(1+e), 3pi, 2e^2; after a division it is ambiguous."""
        (kind, last), (_, word) = self.tokens[self.position - 1 : self.position + 1]
        if not (kind == "number" or last == ")"):
            return ""
        power = word in ("e", "E") and self.tokens[self.position + 1][1] in ("^", "**")
        if not (word in FUNCTIONS or word in ("(", "pi") or power):
            return ""
        if divided:
            raise unreadable(
                self.text,
                f"ambiguous: does the division include {word!r}? Write 1/(2*sqrt(2)) or (1/2)*sqrt(2).",
            )
        return "*"

    def unary(self) -> Any:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise unreadable(self.text, f"nested more than {MAX_NESTING} deep.")
        try:
            if self.accept("-"):
                return -self.unary()
            if self.accept("+"):
                return self.unary()
            value = self.primary()
            if self.accept("^", "**"):
                value = self.numbers.power(self.text, value, self.unary())
            return value / self.numbers.number("100") if self.accept("%") else value
        finally:
            self.depth -= 1

    def primary(self) -> Any:
        if self.accept("("):
            value = self.sum()
            self.expect(")")
            return value
        kind, word = self.tokens[self.position]
        if kind == "end":
            raise unreadable(self.text, "it ends where a number is expected.")
        self.position += 1
        if kind == "number":
            value = self.numbers.number(word)
            return value + self._fraction_part() if self.accept(MIXED_SIGN) else value
        if kind == "mark":
            raise unreadable(self.text, f"{word!r} stands where a number is expected.")
        if word in FUNCTIONS:
            self.expect("(")
            values = [self.sum()]
            while self.accept(","):
                values.append(self.sum())
            self.expect(")")
            if len(values) > 1 and word != "max":
                raise unreadable(self.text, f"{word} takes one number.")
            return self.numbers.function(self.text, word, values)
        if word in ("nan", "NaN", "NAN"):
            raise unreadable(self.text, "nan is not a number. Leave no cell undefined.")
        if word in CONSTANTS:
            return self.numbers.constant(CONSTANTS[word])
        if SYMBOL.fullmatch(word):
            return self.numbers.symbol(self.text, word)
        raise unreadable(
            self.text,
            f"unknown name {word!r}. Functions: {', '.join(FUNCTIONS)}. Constants: e, pi, oo. "
            "A symbol is a letter or a Greek name, perhaps with an index: beta, k1, x_2.",
        )

    def _fraction_part(self) -> Any:
        """The 1/3 of a mixed number such as 2 1/3."""
        (upper, above), (_, slash), (lower, below) = [*self.tokens, *[("end", "")] * 2][self.position :][:3]
        if (upper, slash, lower) != ("number", "/", "number") or not (above + below).isdigit():
            raise unreadable(self.text, "a mixed number is written 2 1/3.")
        if not int(above) < int(below):
            raise unreadable(self.text, f"a number before {above}/{below}: write + or * between.")
        self.position += 3
        return self.numbers.number(above) / self.numbers.number(below)


class ExactNumbers:
    """Builds SymPy numbers."""

    def __init__(self) -> None:
        import sympy

        self.sympy = sympy

    def number(self, word: str) -> Any:
        fraction = _fraction(word)
        return self.sympy.Rational(fraction.numerator, fraction.denominator)

    def constant(self, name: str) -> Any:
        return {"oo": self.sympy.oo, "e": self.sympy.E, "pi": self.sympy.pi}[name]

    def symbol(self, text: str, name: str) -> Any:
        # Real, so that roots and limits behave as on paper.
        return self.sympy.Symbol(name, real=True)

    def is_zero(self, value: Any) -> bool:
        return bool(value.is_zero)

    def check_product(self, text: str, product: Any) -> Any:
        from headwork.numbers.exact import MAX_ROOT_ORDER, root_order

        if root_order([product]) > MAX_ROOT_ORDER:
            raise unreadable(text, "roots of too many orders. Leave out --exact for decimals.")
        return product

    def power(self, text: str, base: Any, exponent: Any) -> Any:
        from headwork.numbers.exact import exponential

        largest = MAX_EXPONENT_OF_E if base is self.sympy.E else MAX_EXPONENT
        if exponent.is_number:
            size = abs(exponent.evalf(15)) if exponent.is_finite else self.sympy.oo
            if size > largest:
                raise unreadable(text, f"an exponent beyond {largest}.")
            # Every number inside the base, because (2 x)^99 and sqrt(2)^99 multiply out at once.
            if size * _max_bits(base) > MAX_BITS:
                raise unreadable(text, "a power with too many digits.")
            # SymPy multiplies out 12^(17/97) as (12^17)^(1/97), and takes y^(17/97) for a polynomial in
            # y^(1/97).
            root = exponent.is_Rational and not exponent.is_Integer and base is not self.sympy.E
            if root and max(abs(exponent.p), exponent.q) > MAX_EXPONENT:
                raise unreadable(text, "a root of too high an order. Leave out --exact for decimals.")
        if (base.is_zero and not exponent.is_positive) or (base.is_infinite and exponent.is_zero):
            raise unreadable(text, "zero to a power that is not positive, or oo to the power 0.")
        if base.is_number and base.is_negative and not exponent.is_integer:
            raise unreadable(text, "a root of a negative number.")
        if base is self.sympy.E or (base.is_Rational and exponent.has(self.sympy.log)):
            value = exponential(exponent * self.sympy.log(base))
        else:
            value = base**exponent
        powers = [power.exp for power in value.atoms(self.sympy.Pow, self.sympy.exp)]
        if any(abs(power) > largest for power in powers if power.is_Rational):
            raise unreadable(text, f"powers of powers beyond an exponent of {largest}.")
        return value

    def function(self, text: str, name: str, values: list[Any]) -> Any:
        value = values[0]
        positive = value.is_positive or (name == "sqrt" and value.is_zero)
        if name in ("sqrt", "ln", "log") and value.is_number and not positive:
            raise unreadable(text, f"{name} of a number that is not positive.")
        if name == "exp":
            return self.power(text, self.sympy.E, value)
        if name in ("floor", "ceil"):
            if not value.is_Rational:
                raise unreadable(
                    text, f"{name} of something that is not a fraction. Leave out --exact for decimals."
                )
            return self.sympy.Integer(getattr(math, name)(Fraction(int(value.p), int(value.q))))
        count = sum(len(v.args) if v.func is self.sympy.Max else 1 for v in values)
        if name == "max" and count > MAX_OPERANDS:
            raise unreadable(text, f"max of more than {MAX_OPERANDS} numbers.")
        try:
            result = getattr(self.sympy, {"ln": "log", "max": "Max", "abs": "Abs"}.get(name, name))(*values)
        except ValueError:  # two numbers that are equal, which SymPy cannot tell
            raise unreadable(text, f"{name} of numbers that cannot be compared.") from None
        if result.has(self.sympy.AccumBounds):
            raise unreadable(text, f"{name} of infinity is not a number.")
        return result


class FloatNumbers:
    """Builds float64 numbers; a free symbol needs exact numbers."""

    def number(self, word: str) -> Any:
        return float(_fraction(word))

    def constant(self, name: str) -> Any:
        return {"oo": math.inf, "e": math.e, "pi": math.pi}[name]

    def symbol(self, text: str, name: str) -> Any:
        raise SymbolInDecimals(f"'{name}' is a symbol; a number is expected here.")

    def is_zero(self, value: float) -> bool:
        return value == 0

    def check_product(self, text: str, product: float) -> float:
        return product

    def power(self, text: str, base: float, exponent: float) -> float:
        largest = MAX_EXPONENT_OF_E if base == math.e else MAX_EXPONENT
        if abs(exponent) > largest:
            raise unreadable(text, f"an exponent beyond {largest}.")
        if (base == 0 and exponent <= 0) or (math.isinf(base) and exponent == 0):
            raise unreadable(text, "zero to a power that is not positive, or oo to the power 0.")
        try:
            value = base**exponent
        except OverflowError:
            raise unreadable(text, "a power that is too large.") from None
        if isinstance(value, complex):
            raise unreadable(text, "a root of a negative number.")
        return float(value)

    def function(self, text: str, name: str, values: list[float]) -> float:
        if name == "exp":
            return self.power(text, math.e, values[0])
        if name in ("floor", "ceil"):  # 0.3/0.1 is a little less than 3 in decimals
            values = [round(value, 9) for value in values]
        functions: dict[str, Callable[..., float]] = {"ln": math.log, "max": lambda *v: max(v), "abs": abs}
        try:
            return float((functions.get(name) or getattr(math, name))(*values))
        except OverflowError:
            raise unreadable(text, f"{name} of infinity is not a number.") from None
        except ValueError:
            raise unreadable(text, f"{name} of a number that is not positive.") from None


class SymbolInDecimals(InputError):
    """A free symbol among decimals: the problem is worked in exact numbers, or refused."""


def _fraction(word: str) -> Fraction:
    _, _, exponent = word.lower().partition("e")
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        raise unreadable(word, f"an exponent beyond {MAX_EXPONENT}.")
    return Fraction(word)


def read_number(text: str, *, exact: bool = False) -> Any:
    """One entry as a SymPy number, or as a float.

    >>> read_number("1/2 + 0.25", exact=True), read_number("sqrt(4)")
    (3/4, 2.0)
    """
    plain = plain_text(text)
    tokens = _tokenize(plain)
    value = _EntryParser(plain, tokens, ExactNumbers() if exact else FloatNumbers()).parse()
    if exact:
        return _check_value(text, value)
    if value != value:
        raise unreadable(text, "not a real number.")
    if math.isinf(value) and all(CONSTANTS.get(word) != "oo" for _, word in tokens):
        raise unreadable(text, "too large for decimals.")
    return value


def _check_value(text: str, value: Any) -> Any:
    """An exact value as it is read, unless it is too long, undefined, or infinite in part."""
    import sympy

    if value in (sympy.oo, -sympy.oo):
        return value
    if value.has(sympy.nan, sympy.zoo, sympy.AccumBounds) or (
        value.is_number and value.is_extended_real is not True
    ):
        raise unreadable(text, "not a real number.")
    if value.has(sympy.oo, -sympy.oo):
        raise unreadable(text, "oo inside an expression. Infinity stands alone; use a limit for the rest.")
    if _max_bits(value) > MAX_BITS:
        raise unreadable(text, "a number with too many digits.")
    return value


def _max_bits(value: Any) -> int:
    """The binary digits of the longest number inside an exact expression."""
    from sympy import Rational

    return max((max(abs(n.p).bit_length(), n.q.bit_length()) for n in value.atoms(Rational)), default=0)
