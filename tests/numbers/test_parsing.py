"""What a person types: every form that is accepted, every error in its words, and no way round the limits."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import sympy
from hypothesis import given, settings

from headwork.errors import InputError
from headwork.numbers import entries, parsing, pasted
from headwork.numbers.exact import exact_text, to_float
from headwork.numbers.parsing import SymbolInDecimals, read_number, read_tensor, tensor_from_lists

NUMBERS = [
    ("2", 2),
    ("-3", -3),
    ("+3", 3),
    ("0.5", 0.5),
    (".5", 0.5),
    ("5.", 5),
    ("1e-3", 1e-3),
    ("2E2", 200),
    ("1/3", 1 / 3),
    ("-1/2", -0.5),
    ("--2", 2),
    ("1-2-3", -4),
    ("2/3/4", 1 / 6),
    ("2*3+4", 10),
    ("2+3*4", 14),
    ("(2+3)*4", 20),
    ("2^3^2", 512),
    ("2**3", 8),
    ("-2^2", -4),
    ("(-2)^2", 4),
    ("2^-1", 0.5),
    ("4^(1/2)", 2),
    ("2*-3", -6),
    ("1 + 2", 3),
    ("1 - 2", -1),
    ("6 / 3", 2),
    ("sqrt(2)", math.sqrt(2)),
    ("sqrt(0)", 0),
    ("e", math.e),
    ("E", math.e),
    ("e^2", math.e**2),
    ("exp(2)", math.e**2),
    ("pi", math.pi),
    ("π/2", math.pi / 2),
    ("ln(2)", math.log(2)),
    ("log(2)", math.log(2)),
    ("sin(1)", math.sin(1)),
    ("cos(1)", math.cos(1)),
    ("tanh(1)", math.tanh(1)),
    ("erf(1)", math.erf(1)),
    ("max(1, 3, 2)", 3),
    ("max(7)", 7),
    ("abs(-4)", 4),
    ("e^2/(e + 1)^2", math.e**2 / (math.e + 1) ** 2),
    ("oo", math.inf),
    ("-oo", -math.inf),
    ("inf", math.inf),
    ("∞", math.inf),
    ("−2", -2),
    ("–2", -2),
    ("2·3", 6),
    ("2×3", 6),
    ("6÷3", 2),
    (" 2 ", 2),
    ("\u00a02", 2),
    (r"\frac{1}{2}", 0.5),
    (r"\frac{1}{\sqrt{2}}", 0.5**0.5),
    (r"\dfrac{1}{2}^{2}", 0.25),
    (r"2 \cdot 3", 6),
    (r"$-\frac12$", -0.5),
    (r"-2\sqrt{2}", -2 * math.sqrt(2)),
    ("2sqrt(2)", 2 * math.sqrt(2)),
    ("2(1+e)", 2 + 2 * math.e),
    ("3pi", 3 * math.pi),
    ("2e^2", 2 * math.e**2),
    (r"\tfrac13", 1 / 3),
    (r"\frac1{\sqrt2}", 0.5**0.5),
    (r"\sqrt[3]{8}", 2),
    (r"2\,\sqrt{3}", 2 * math.sqrt(3)),
    (r"\frac{2\sqrt{3}}{3}", 2 / math.sqrt(3)),
    (r"2\left(1+2\right)", 6),
    (r"3 \times 4", 12),
    (r"6 \div 3", 2),
    (r"\ln 12", math.log(12)),
    (r"\mathrm{e}^{-1}", math.exp(-1)),
    (r"50\%", 0.5),
    ("√2", math.sqrt(2)),
    ("2√12", 2 * math.sqrt(12)),
    ("√(1+1)", math.sqrt(2)),
    ("3²", 9),
    ("e⁻²", math.exp(-2)),
    ("⅓", 1 / 3),
    ("-1½", -1.5),
    ("2⋅3", 6),
    ("1⁄4", 0.25),
    (r"1\frac{1}{2}", 1.5),
    (r"-2\tfrac13", -7 / 3),
    ("50%", 0.5),
    ("12.5%", 0.125),
    ("floor(37/3)+1", 13),
    ("ceil(37/3)", 13),
    ("floor(0.3/0.1)", 3),
    (r"\lfloor 37/3 \rfloor + 1", 13),
    ("⌊37/3⌋+1", 13),
    ("3.7×10⁴", 37000),
    (r"3.7 \times 10^{-1}", 0.37),
    (r"\pi", math.pi),
    (r"\sin(1)", math.sin(1)),
    (r"\max(1, 2)", 2),
    (r"-\infty", -math.inf),
    (r"e^{2}", math.e**2),
    (r"\left(1+2\right)", 3),
]


@pytest.mark.parametrize(("text", "value"), NUMBERS)
def test_numbers(text: str, value: float) -> None:
    assert read_number(text) == pytest.approx(value, rel=1e-15)
    assert to_float(read_number(text, exact=True)) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "exact"), [("0.1", "1/10"), ("1e-3", "1/1000"), ("0.1+0.2", "3/10"), ("sqrt(8)", "2*sqrt(2)")]
)
def test_exact_numbers_are_what_was_written(text: str, exact: str) -> None:
    assert exact_text(read_number(text, exact=True)) == exact


@pytest.mark.parametrize(
    "name", ["x", "beta", "k1", "x_2", "W_q", "lambda", "x12", "theta_1", "β", "S", "N", "I", "Q"]
)
def test_symbols(name: str) -> None:
    value = read_number(name, exact=True)
    assert value.is_Symbol
    assert value.is_real
    with pytest.raises(SymbolInDecimals):
        read_number(name)


def test_a_symbol_is_the_same_wherever_it_is_typed() -> None:
    assert read_number("x^2-x*x", exact=True) == 0


MATRICES = [
    ("5", ()),
    ("1 2 3", (3,)),
    ("1, 2, 3", (3,)),
    ("1,2,", (2,)),
    ("1 2; 2 0", (2, 2)),
    ("1 2;", (1, 2)),
    ("1; 2; 3", (3, 1)),
    ("[[1,2],[2,0]]", (2, 2)),
    ("[1, 2]", (2,)),
    ("[[1 2], [2 0]]", (2, 2)),
    ("[[1. 2.]\n [2. 0.]]", (2, 2)),
    ("[1 2; 2 0]", (2, 2)),
    ("[[[1],[2]],[[3],[4]]]", (2, 2, 1)),
    ("1\t2\n2\t0", (2, 2)),
    ("1,2\r\n2,0\r\n", (2, 2)),
    ("max(1, 2), 3", (2,)),
    (r"\begin{bmatrix} 1 & 2 \\ 2 & 0 \end{bmatrix}", (2, 2)),
    (r"\begin{pmatrix}1&2\\2&0\\\end{pmatrix}", (2, 2)),
    (r"\left[\begin{array}{cc} 1 & \frac{1}{2} \\ 2 & 0 \end{array}\right]", (2, 2)),
    ("1/2 sqrt(2)", (2,)),
    ("-1 -2; 3 -4", (2, 2)),
    ("1 + 2 3", (2,)),
    ("1 -2", (2,)),
    ("array([[1, 2], [2, 0]])", (2, 2)),
    ("np.array([[1., 2.],\n       [2., 0.]], dtype=float32)", (2, 2)),
    ("tensor([[1., 2.],\n        [2., 0.]], grad_fn=<MmBackward0>)", (2, 2)),
    ("Matrix([[1, 2], [2, 0]])", (2, 2)),
    ("[array([1, 2]), array([2, 0])]", (2, 2)),
    ("[[np.float64(1.0), np.float64(2.0)], [np.float64(2.0), np.float64(0.0)]]", (2, 2)),
    ("((1, 2), (2, 0))", (2, 2)),
    ("[(1, 2), (2, 0)]", (2, 2)),
    ("(1, 2)\n(2, 0)", (2, 2)),
    ("[1, 2], [2, 0]", (2, 2)),
    ("(1, 2, 3)", (3,)),
    ("((1+0)*1, max(1, 2)), (2, 0)", (2, 2)),
    ("| 1 | 2 |\n|---|---|\n| 2 | 0 |", (2, 2)),
    ("| | |\n|--|--|\n| 1 | 2 |\n| 2 | 0 |", (2, 2)),
    ("1 | 2\n--|--\n2 | 0", (2, 2)),
    ("|  | k0 | k1 |\n|:-|-:|-:|\n| q0 | 1 | 2 |\n| q1 | 2 | 0 |", (2, 2)),
    ("Q = 1 2; 2 0", (2, 2)),
    ("Q = X W_q = [[1, 2], [2, 0]]", (2, 2)),
    (r"\[ Q K^\top = \begin{bmatrix} 1 & 2 \\ 2 & 0 \end{bmatrix} \]", (2, 2)),
    ("1/2 * [2 4; 4 0]", (2, 2)),
    ("[2 4; 4 0]/2", (2, 2)),
    (r"\frac{1}{4}\begin{bmatrix}4 & 8\\8 & 0\end{bmatrix}", (2, 2)),
    (r"\left[\begin{matrix}1 & 2\\2 & 0\end{matrix}\right]", (2, 2)),
    (r"\left(\begin{array}{cc}1 & 2\\[2pt]2 & 0\end{array}\right)", (2, 2)),
    (r"\begin{bmatrix} 1 & 2 \end{bmatrix}", (2,)),
    ("1 1/2, 2 1/3", (2,)),
    ("1\t2\n" + r"\frac{4}{2}" + "\t0", (2, 2)),
    ("2 sqrt(2), 3", (2,)),
]


@pytest.mark.parametrize(("text", "shape"), MATRICES)
@pytest.mark.parametrize("exact", [False, True])
def test_matrices(text: str, shape: tuple[int, ...], exact: bool) -> None:
    tensor = read_tensor(text, exact=exact)
    assert tensor.shape == shape
    assert tensor.exact == exact
    if shape == (2, 2) and "frac" not in text and "-" not in text:
        assert [[float(x) for x in row] for row in tensor.array] == [[1, 2], [2, 0]]


def test_what_python_gives() -> None:
    for nested in (
        [[1, 2.5], [Fraction(1, 3), "1/4"]],
        np.array([[1, 2], [3, 4]]).tolist(),
        ((1, 2), (3, 4)),
    ):
        assert tensor_from_lists(nested).shape == tensor_from_lists(nested, exact=True).shape == (2, 2)
    assert (
        str(tensor_from_lists([0.1, np.float64(0.25), np.int64(3)], exact=True).array.tolist())
        == "[1/10, 1/4, 3]"
    )
    assert tensor_from_lists([-math.inf], exact=True).array[0] == -sympy.oo
    assert tensor_from_lists([sympy.sqrt(2)], exact=True).array[0] == sympy.sqrt(2)


ERRORS = [
    ("", "empty"),
    ("  ", "empty"),
    ("[]", "empty"),
    ("1 2; 3", r"ragged rows: row 0 has 2 entries and row 1 has 1"),
    ("0,5 1,5; 2", "decimal comma"),
    ("1 2, 3 4", "Two entries in one"),
    ("1,,2", "empty"),
    ("[[1,2],[3]]", "ragged"),
    ("[1,[2]]", "ragged"),
    ("[1,2", "a ']' is missing"),
    ("1]", "not expected|unexpected"),
    ("[1]]", "too many"),
    ("[1[2]]", "comma is missing"),
    ("[1] 2", "outside"),
    ("[1 2] + [3 4]", "outside"),
    ("x[0]", "outside"),
    ("1/2sqrt(2)", r"Write 1/\(2\*sqrt\(2\)\) or \(1/2\)\*sqrt\(2\)"),
    (r"2\frac{3}{2}", "write \\+ between for a sum"),
    (r"\foo{2}", r"the LaTeX command \\foo is not known"),
    (r"\begin{tabular}{c}1\end{tabular}", "not a matrix"),
    ("{1, 2}", "braces cannot be used for a list"),
    ("1 == 1", "unexpected character '='"),
    ("1e", "not expected there"),
    ("floor(oo)", "not a number|not a fraction"),
    ("| 1 | 2 |\n| 3 |", "ragged"),
    ("(1", r"'\)' is missing"),
    ("1)", "not expected"),
    ("1+", "ends where a number is expected"),
    ("*2", "stands where"),
    ("2x", "not expected there"),
    ("2 3x", "not expected there"),
    ("1 +", "ends where"),
    ("foo", "unknown name 'foo'"),
    ("foo(2)", "unknown name 'foo'"),
    ("sqrt", r"'\(' is missing"),
    ("sqrt()", "stands where"),
    ("sqrt(1,2)", "takes one number"),
    ("sqrt(-1)", "not positive"),
    ("ln(0)", "not positive"),
    ("1/0", "division by zero"),
    ("1/(2-2)", "division by zero"),
    ("0^-1", "zero to a power|not a number"),
    ("(-8)^(1/3)", "root of a negative"),
    ("nan", "nan is not a number"),
    ("oo-oo", "not a real number"),
    ("0*oo", "not a real number"),
    ("1e999", "exponent beyond 100"),
    ("9^999", "exponent beyond 100"),
    ("9**9**9", "exponent beyond 100"),
    ("e^e^e^e", "exponent beyond"),
    ("1" * 31, "more than 30 digits"),
    ("1+" * 600 + "1", "an entry may have 1000"),
    ("(" * 40 + "1" + ")" * 40, "nested more than 30 deep"),
    ("-" * 40 + "1", "nested more than 30 deep"),
    ("[" * 9 + "1" + "]" * 9, "more than 5 axes"),
    ("x.y", "unexpected character '.'"),
    ("x!", "unexpected character '!'"),
    ("a\x00b", "unexpected character"),
    ("е", "cyrillic small letter ie"),
    ("１", "fullwidth digit one"),
    ("x1234", "unknown name"),
    ("__x__", "unexpected character '_'"),
    ("1_000", "unexpected character '_'"),
    ("0x10", "not expected"),
    ("1;" * 120_000, "more than 100000 entries"),
    ("1 " * 200_000, "at most 300000"),
]


@pytest.mark.parametrize(("text", "words"), ERRORS, ids=[repr(text[:20]) for text, _ in ERRORS])
def test_errors_in_words(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_tensor(text)
    with pytest.raises(InputError):
        read_tensor(text, exact=True)


EXACT_ERRORS = [
    ("sin(oo)", "not a number"),
    ("x*oo", "Infinity stands alone"),
    ("0^x", "zero to a power"),
    ("0^(-x)", "zero to a power"),
    ("((((2*x)^99)^99)^99)^99", "too many digits"),
    ("((((sqrt(2)^99)^99)^99)^99)^99", "too many digits"),
    ("(x^50)^50", "powers of powers|too many digits"),
    ("1e100*1e100*1e100", "too many digits"),
    ("max(" + ",".join(f"x{i}" for i in range(20)) + ")", "max of more than 16"),
    ("1 " * 11_000, "at most 20000 are read as exact"),
]


@pytest.mark.parametrize(("text", "words"), EXACT_ERRORS, ids=[text[:20] for text, _ in EXACT_ERRORS])
def test_errors_of_exact_numbers(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_tensor(text, exact=True)


def test_errors_of_decimals() -> None:
    with pytest.raises(InputError, match="too large for decimals"):
        read_number("1e100*1e100*1e100*1e100")


def test_errors_say_where() -> None:
    with pytest.raises(InputError, match=r"^W_q: cannot read 'foo'"):
        read_tensor("foo 1", where="W_q")


@pytest.mark.parametrize(
    "value", [[math.nan], [None], [True], [object()], [10**400], [[[[[[[1]]]]]]], [[1, 2], [3]], [], [b"1"]]
)
@pytest.mark.parametrize("exact", [False, True])
def test_errors_of_what_python_gives(value: Any, exact: bool) -> None:
    with pytest.raises(InputError):
        tensor_from_lists(value, exact=exact)


# --- at random ------------------------------------------------------------------------------------------

PIECES = [
    "1",
    "2.5",
    "x",
    "beta",
    "e",
    "pi",
    "oo",
    "(",
    ")",
    "+",
    "-",
    "*",
    "/",
    "^",
    "**",
    ",",
    " ",
    ";",
    "[",
    "]",
    "sqrt(",
    "max(",
    "exp(",
    "ln(",
    "\\frac{",
    "}",
    "{",
    "&",
    "\\\\",
    "_",
    ".",
    "!",
    "1e9",
    "\n",
    "\t",
    "'",
    "nan",
    "k1",
    "abs(",
    "·",
    "β",
    "√",
    "½",
    "²",
    "%",
    "|",
    "(1, 2)",
    "array(",
    "Q = ",
    "floor(",
    "\\sqrt",
    "\\tfrac1",
    "\\begin{bmatrix}",
    "\\end{bmatrix}",
    "1/4*[",
]
typing_errors = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=30), typing_errors))
def test_random_text_is_read_or_refused(text: str) -> None:
    for exact in (False, True):
        try:
            tensor = read_tensor(text, exact=exact)
        except (InputError, SymbolInDecimals):
            continue
        assert tensor.array.size >= 1
        for value in tensor.array.flat:
            assert isinstance(value, sympy.Expr) if exact else value == value


@settings(max_examples=150, deadline=None)
@given(typing_errors)
def test_exact_and_decimal_reading_agree(text: str) -> None:
    try:
        ours, exactly = read_number(text), read_number(text, exact=True)
    except (InputError, SymbolInDecimals):
        return
    assert to_float(exactly) == pytest.approx(ours, rel=1e-9, abs=1e-9)


def test_no_code_of_others_reads_text() -> None:
    source = "".join(Path(module.__file__).read_text() for module in (parsing, entries, pasted))
    for forbidden in ("eval(", "exec(", "compile(", "sympify", "parse_expr", "__import__", "pickle"):
        assert forbidden not in source.replace("re.compile(", ""), forbidden
