r"""What a person types, read by a parser of our own: never ``eval``, never SymPy's parser.

An entry is a number (``2``, ``0.5``, ``1e-3``), a fraction, a constant (``e``, ``pi``, ``oo``), a free
symbol (``beta``, ``k1``, ``x_2``) or an expression of these with ``+ - * / ^`` and a few functions.
A matrix is ``1 2; 2 0``, ``[[1, 2], [2, 0]]``, a LaTeX ``bmatrix`` or cells pasted from a spreadsheet.
Everything is limited: length, depth, digits, exponents, number of entries.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.numbers.hand import HandTensor

LONGEST_TEXT = 300_000
LONGEST_EXACT_TEXT = 20_000
LONGEST_ENTRY = 1000
MOST_ENTRIES = 100_000
DEEPEST = 30
MOST_DIGITS = 30
MOST_BITS = 512
MOST_IN_MAX = 16
LARGEST_EXPONENT = 100
LARGEST_EXPONENT_OF_E = 10_000  # the weights of a saturated softmax must be typed back in
MOST_AXES = 5

GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega"
)
SYMBOL = re.compile(rf"(?:[A-Za-z]|{'|'.join(GREEK.split())})(?:[0-9]{{1,3}}|_(?:[0-9]{{1,3}}|[A-Za-z]))?")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip
PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{0,15})?")  # most entries are: read them at once
FUNCTIONS = ("sqrt", "exp", "ln", "log", "sin", "cos", "tanh", "erf", "max", "abs")
# What PDFs and word processors put in place of the plain characters.
LOOKALIKES = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/", "π": "pi", "β": "beta", "∞": "oo"})
TOKEN = re.compile(
    # [0-9], because \d takes the digits of every script.
    r"\s*(?:((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|([A-Za-z][A-Za-z0-9_]*)|(\*\*|[-+*/^(),]))"
)


@dataclass(frozen=True)
class Tokens:
    """One entry cut into tokens, and where each begins."""

    text: str
    kinds: tuple[str, ...]
    words: tuple[str, ...]


def _wrong(text: str, why: str) -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InputError(f"cannot read {shown!r}: {why}")


def _cut(text: str) -> Tokens:
    if len(text) > LONGEST_ENTRY:
        raise _wrong(text, f"{len(text)} characters; an entry may have {LONGEST_ENTRY}.")
    if not text.strip():
        raise _wrong(text, "empty. Expected a number, such as 2, 1/3, 0.5 or sqrt(2).")
    kinds, words, place = [], [], 0
    end = len(text.rstrip())
    while place < end:
        match = TOKEN.match(text, place)
        if not match:
            sign = text[place:].lstrip()[0]
            name = unicodedata.name(sign, f"code {ord(sign)}")
            raise _wrong(text, f"unexpected character {sign!r} ({name.lower()}).")
        number, name, mark = match.groups()
        if number and sum(c.isdigit() for c in number) > MOST_DIGITS:
            raise _wrong(text, f"a number of more than {MOST_DIGITS} digits.")
        kinds.append("number" if number else "name" if name else "mark")
        words.append(number or name or mark)
        place = match.end()
    return Tokens(text, tuple(kinds), tuple(words))


class _Reader:
    """Precedence climbing over the tokens of one entry. ``build`` makes the numbers."""

    def __init__(self, tokens: Tokens, build: _Exact | _Decimal) -> None:
        self.tokens, self.build, self.place, self.depth = tokens, build, 0, 0

    def whole(self) -> Any:
        value = self.sum()
        if self.place < len(self.tokens.words):
            word = self.tokens.words[self.place]
            hint = (
                " Two entries in one? A comma separates; a decimal comma is written 0.5." if word[0].isalnum() else ""
            )
            raise _wrong(self.tokens.text, f"{word!r} is not expected there.{hint}")
        return value

    def take(self, *marks: str) -> str:
        """The next mark if it is one of these, else nothing."""
        at = self.place
        if at < len(self.tokens.words) and self.tokens.kinds[at] == "mark" and self.tokens.words[at] in marks:
            self.place += 1
            return self.tokens.words[at]
        return ""

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise _wrong(self.tokens.text, f"a {mark!r} is missing.")

    def sum(self) -> Any:
        value = self.product()
        while mark := self.take("+", "-"):
            right = self.product()
            value = OPERATORS[mark](value, right)
        return value

    def product(self) -> Any:
        value = self.signed()
        while mark := self.take("*", "/"):
            right = self.signed()
            if mark == "/" and self.build.is_zero(right):
                raise _wrong(self.tokens.text, "division by zero.")
            value = OPERATORS[mark](value, right)
        return value

    def signed(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _wrong(self.tokens.text, f"nested more than {DEEPEST} deep.")
        try:
            if self.take("-"):
                return -self.signed()
            if self.take("+"):
                return self.signed()
            value = self.atom()
            if self.take("^", "**"):
                return self.build.power(self.tokens.text, value, self.signed())
            return value
        finally:
            self.depth -= 1

    def atom(self) -> Any:
        if self.take("("):
            value = self.sum()
            self.expect(")")
            return value
        if self.place == len(self.tokens.words):
            raise _wrong(self.tokens.text, "it ends where a number is expected.")
        kind, word = self.tokens.kinds[self.place], self.tokens.words[self.place]
        self.place += 1
        if kind == "number":
            return self.build.number(word)
        if kind == "mark":
            raise _wrong(self.tokens.text, f"{word!r} stands where a number is expected.")
        if word in FUNCTIONS:
            self.expect("(")
            values = [self.sum()]
            while self.take(","):
                values.append(self.sum())
            self.expect(")")
            if len(values) > 1 and word != "max":
                raise _wrong(self.tokens.text, f"{word} takes one number.")
            return self.build.function(self.tokens.text, word, values)
        if word in ("nan", "NaN", "NAN"):
            raise _wrong(self.tokens.text, "nan is not a number that can be worked with. Leave no cell undefined.")
        if word in ("oo", "inf", "infinity"):
            return self.build.constant("oo")
        if word in ("e", "E"):
            return self.build.constant("e")
        if word == "pi":
            return self.build.constant("pi")
        if SYMBOL.fullmatch(word):
            return self.build.symbol(self.tokens.text, word)
        raise _wrong(
            self.tokens.text,
            f"unknown name {word!r}. Functions: {', '.join(FUNCTIONS)}. Constants: e, pi, oo. "
            "A symbol is a letter or a Greek name, perhaps with an index: beta, k1, x_2.",
        )


class _Exact:
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

    def power(self, text: str, base: Any, exponent: Any) -> Any:
        most = LARGEST_EXPONENT_OF_E if base is self.sympy.E else LARGEST_EXPONENT
        if exponent.is_number:
            size = abs(exponent.evalf(15)) if exponent.is_finite else self.sympy.oo
            if size > most:
                raise _wrong(text, f"an exponent beyond {most}.")
            # Every number inside the base, because (2 x)^99 and sqrt(2)^99 multiply out at once.
            if size * _bits(base) > MOST_BITS:
                raise _wrong(text, "a power with too many digits.")
        if (base.is_zero and not exponent.is_positive) or (base.is_infinite and exponent.is_zero):
            raise _wrong(text, "zero to a power that is not positive, or oo to the power 0.")
        if base.is_number and base.is_negative and not exponent.is_integer:
            raise _wrong(text, "a root of a negative number.")
        value = base**exponent
        if any(abs(power.exp) > most for power in value.atoms(self.sympy.Pow, self.sympy.exp) if power.exp.is_Rational):
            raise _wrong(text, f"powers of powers beyond an exponent of {most}.")
        return value

    def function(self, text: str, name: str, values: list[Any]) -> Any:
        value = values[0]
        if (
            name in ("sqrt", "ln", "log")
            and value.is_number
            and not (value.is_positive or (name == "sqrt" and value.is_zero))
        ):
            raise _wrong(text, f"{name} of a number that is not positive.")
        if name == "exp":
            return self.power(text, self.sympy.E, value)
        if name == "max" and sum(len(v.args) if v.func is self.sympy.Max else 1 for v in values) > MOST_IN_MAX:
            raise _wrong(text, f"max of more than {MOST_IN_MAX} numbers.")
        return getattr(self.sympy, {"ln": "log", "max": "Max", "abs": "Abs"}.get(name, name))(*values)


class _Decimal:
    """Builds float64 numbers; a free symbol needs exact numbers."""

    def number(self, word: str) -> Any:
        return float(_fraction(word))

    def constant(self, name: str) -> Any:
        return {"oo": math.inf, "e": math.e, "pi": math.pi}[name]

    def symbol(self, text: str, name: str) -> Any:
        raise SymbolFound(name)

    def is_zero(self, value: float) -> bool:
        return value == 0

    def power(self, text: str, base: float, exponent: float) -> float:
        most = LARGEST_EXPONENT_OF_E if base == math.e else LARGEST_EXPONENT
        if abs(exponent) > most:
            raise _wrong(text, f"an exponent beyond {most}.")
        if (base == 0 and exponent <= 0) or (math.isinf(base) and exponent == 0):
            raise _wrong(text, "zero to a power that is not positive, or oo to the power 0.")
        try:
            value = base**exponent
        except OverflowError:
            raise _wrong(text, "a power that is too large.") from None
        if isinstance(value, complex):
            raise _wrong(text, "a root of a negative number.")
        return float(value)

    def function(self, text: str, name: str, values: list[float]) -> float:
        if name == "exp":
            return self.power(text, math.e, values[0])
        functions: dict[str, Callable[..., float]] = {"ln": math.log, "max": max, "abs": abs}
        try:
            return float((functions.get(name) or getattr(math, name))(*values))
        except ValueError:
            raise _wrong(text, f"{name} of a number that is not positive.") from None


class SymbolFound(Exception):
    """A free symbol was met in decimals: the whole problem must be worked exactly."""


def _fraction(word: str) -> Fraction:
    _, _, exponent = word.lower().partition("e")
    if exponent and abs(int(exponent)) > LARGEST_EXPONENT:
        raise _wrong(word, f"an exponent beyond {LARGEST_EXPONENT}.")
    return Fraction(word)


def read_number(text: str, *, exact: bool = False) -> Any:
    """One entry as a SymPy number, or as a float.

    >>> read_number("1/2 + 0.25", exact=True), read_number("sqrt(4)")
    (3/4, 2.0)
    """
    tokens = _cut(_plain(text))
    value = _Reader(tokens, _Exact() if exact else _Decimal()).whole()
    if exact:
        return _checked(text, value)
    if value != value:
        raise _wrong(text, "not a real number.")
    if math.isinf(value) and not {"oo", "inf", "infinity"} & set(tokens.words):
        raise _wrong(text, "too large for decimals.")
    return value


def _checked(text: str, value: Any) -> Any:
    """An exact value as it is read, unless it is too long, undefined, or infinite in part."""
    import sympy

    if value in (sympy.oo, -sympy.oo):
        return value
    if value.has(sympy.nan, sympy.zoo, sympy.AccumBounds) or (value.is_number and value.is_extended_real is not True):
        raise _wrong(text, "not a real number.")
    if value.has(sympy.oo, -sympy.oo):
        raise _wrong(text, "oo inside an expression. Infinity stands alone; use a limit for the rest.")
    if _bits(value) > MOST_BITS:
        raise _wrong(text, "a number with too many digits.")
    return value


def _bits(value: Any) -> int:
    """The binary digits of the longest number inside an exact expression."""
    from sympy import Rational

    return max((max(abs(n.p).bit_length(), n.q.bit_length()) for n in value.atoms(Rational)), default=0)


def _plain(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise InputError(f"cannot read the text: {len(text)} characters; at most {LONGEST_TEXT}.")
    plain = text.translate(LOOKALIKES)
    return _from_latex(plain) if any(mark in plain for mark in "\\{$") else plain


def _from_latex(text: str) -> str:
    text = re.sub(r"\\begin\s*\{[a-z]*matrix\}|\\begin\s*\{array\}\s*\{[^{}]*\}", "", text)
    text = re.sub(r"\\end\s*\{(?:[a-z]*matrix|array)\}", "", text)
    text = re.sub(r"\\(?:left|right)\s*[\[\]().|]?|\\[,;!]|[$]", " ", text)
    for _ in range(DEEPEST):
        text, changed = re.subn(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))", text)
        text, more = re.subn(r"\\sqrt\s*\{([^{}]*)\}", r"sqrt(\1)", text)
        text, still = re.subn(r"\^\s*\{([^{}]*)\}", r"^(\1)", text)
        text = re.sub(r"([A-Za-z])_\{?([A-Za-z0-9]{1,3})\}?", r"\1_\2", text)
        if not changed + more + still:
            break
    text = text.replace(r"\\", "\n").replace("&", ",").replace(r"\cdot", "*").replace(r"\infty", "oo")
    known = {*GREEK.split(), *FUNCTIONS, "pi"}
    return re.sub(r"\\([a-z]+)", lambda found: found[1] if found[1] in known else found[0], text)


def read_array(text: str, *, exact: bool = False, where: str = "") -> HandTensor:
    """A single number, a row, a matrix or a nested list, as a HandTensor.

    >>> read_array("1 2; 2 0").array.tolist()
    [[1.0, 2.0], [2.0, 0.0]]
    """
    try:
        if exact and len(text) > LONGEST_EXACT_TEXT:
            raise InputError(
                f"cannot read the text: {len(text)} characters; at most {LONGEST_EXACT_TEXT} are read as exact "
                "numbers. Leave out --exact to work in decimals."
            )
        nested = _nested(_plain(text))
        return nested_array(nested, exact=exact)
    except InputError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from None


def nested_array(nested: Any, *, exact: bool = False) -> HandTensor:
    """Nested lists of numbers or typed entries as a HandTensor, all rows of one length."""
    shape = _shape(nested)
    flat: list[Any] = []
    _flatten(nested, len(shape), flat)
    build: _Exact | _Decimal = _Exact() if exact else _Decimal()
    values = [_entry(x, build) for x in flat]
    if exact:
        array = np.empty(len(values), object)
        array[:] = values
    else:
        array = np.array(values, float)
    return HandTensor(array.reshape(shape))


def _entry(value: Any, build: _Exact | _Decimal) -> Any:
    """One cell given as text, a Python or numpy number, or (from Python code) a SymPy expression."""
    exact = isinstance(build, _Exact)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return read_number(value, exact=exact) if exact or not PLAIN.fullmatch(value) else float(value)
    if hasattr(value, "free_symbols"):
        if not exact and value.free_symbols:
            raise SymbolFound(str(value))
        return value if exact else float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise InputError(f"cannot read {value!r}: expected a number or text.")
    if value != value:
        raise InputError("nan is not a number that can be worked with. Leave no cell undefined.")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise InputError("cannot read a number with too many digits.")
    if not exact:
        return float(value)
    if value in (math.inf, -math.inf):
        return read_number("oo" if value > 0 else "-oo", exact=True)
    return build.number(str(value)) if value >= 0 else -build.number(str(-value))


def _nested(text: str) -> Any:
    stripped = text.strip()
    if not stripped:
        raise InputError("empty. Expected numbers, such as 1 2; 2 0.")
    if len(re.findall(r"[\s,;]+", stripped)) >= MOST_ENTRIES:
        raise InputError(f"cannot read the text: more than {MOST_ENTRIES} entries.")
    if re.fullmatch(r"\[[^\[\]]*;[^\[\]]*\]", stripped):  # [1 2; 2 0], as some programs write a matrix
        stripped = stripped[1:-1]
    if stripped.startswith("["):
        return _brackets(stripped)
    rows = [row for row in re.split(r"[;\n\r]+", stripped) if row.strip(" ,\t")]
    if len(rows) == 1 and not re.search(r"[;\n]", stripped):
        cells = _cells(rows[0])
        return cells[0] if len(cells) == 1 else cells
    return [_cells(row) for row in rows]


def _cells(row: str) -> list[str]:
    """A row cut at its commas, or else its tabs, or else its spaces, outside of brackets."""
    depths = list(accumulate((c == "(") - (c == ")") for c in row))
    for separator in (",", "\t", None):
        marks = [i for i, c in enumerate(row) if depths[i] == 0 and (c == separator if separator else c.isspace())]
        if marks or separator is None:
            pieces = [row[a:b].strip() for a, b in zip([0, *[m + 1 for m in marks]], [*marks, len(row)], strict=True)]
            if separator == ",":
                return pieces[:-1] if pieces[-1] == "" else pieces
            return _rejoined([p for p in pieces if p])
    raise AssertionError("unreachable")


def _rejoined(pieces: list[str]) -> list[str]:
    """``1 + 2 3`` is 1+2 and 3: an operator that stands alone joins what is beside it; ``1 -2`` is two entries."""
    entries: list[str] = []
    for piece in pieces:
        if entries and (entries[-1][-1] in "+-*/^" or piece in "+-" or piece[0] in "*/^"):
            entries[-1] += piece
        else:
            entries.append(piece)
    return entries


def _brackets(text: str) -> Any:
    """``[[1, 2], [2, 0]]`` as nested lists, by hand: what is inside is parsed later."""
    root: list[Any] = []
    open_lists = [root]
    entry, round_depth = "", 0
    for sign in text:
        round_depth += (sign == "(") - (sign == ")")
        if sign == "[":
            if len(open_lists) > MOST_AXES:
                raise _wrong(text, f"more than {MOST_AXES} axes.")
            if entry.strip():
                raise _wrong(text, "a comma is missing before '['.")
            inner: list[Any] = []
            open_lists[-1].append(inner)
            open_lists.append(inner)
        elif sign == "]" or (sign in ",;\n" and round_depth <= 0):
            if entry.strip():
                open_lists[-1].extend(_cells(entry))
            entry = ""
            if sign == "]":
                if len(open_lists) == 1:
                    raise _wrong(text, "a ']' too many.")
                open_lists.pop()
        elif len(open_lists) == 1 and not sign.isspace():
            raise _wrong(text, f"{sign!r} stands outside of the brackets.")
        else:
            entry += sign
    if len(open_lists) > 1:
        raise _wrong(text, "a ']' is missing.")
    if len(root) != 1:
        raise _wrong(text, "several lists side by side. Put one more pair of brackets round them.")
    return root[0]


def _shape(nested: Any, depth: int = 0) -> tuple[int, ...]:
    if not isinstance(nested, (list, tuple)):
        return ()
    if not nested:
        raise InputError("empty. Expected numbers, such as 1 2; 2 0.")
    if depth == MOST_AXES:
        raise InputError(f"more than {MOST_AXES} axes.")
    shapes = [_shape(part, depth + 1) for part in nested]
    if len(set(shapes)) > 1:
        lengths = [s[0] if s else 1 for s in shapes]
        odd = next(i for i, s in enumerate(shapes) if s != shapes[0])
        raise InputError(
            f"ragged rows: row 0 has {lengths[0]} entries and row {odd} has {lengths[odd]}. "
            "All rows need one length. A decimal comma? Write 0.5, because a comma separates entries."
        )
    return (len(nested), *shapes[0])


def _flatten(nested: Any, depth: int, flat: list[Any]) -> None:
    if depth == 0:
        flat.append(nested)
        return
    for part in nested:
        _flatten(part, depth - 1, flat)
