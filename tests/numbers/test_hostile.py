"""Text meant to run code, to hang or to fill the memory: refused, quickly, in words, with exit code 2."""

from __future__ import annotations

import random
import re
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headwork.errors import InputError
from headwork.readings import explain

CODE = """__import__('os').system('echo ran') | open('/etc/passwd').read() | eval('1') | exec('1')
compile('1','','eval') | ().__class__ | ().__class__.__bases__[0].__subclasses__() | (1).__class__
x.__class__ | x.y | sqrt.__globals__ | sqrt.func | e.__class__ | lambda: 0 | (lambda x: x)(1)
[x for x in (1,2)] | {1:2} | {1,2} | x if x else y | x and y | not x | x or 1 | x is y | x in y
print(1) | input() | exit() | quit() | getattr(x,y) | setattr(x,y,1) | globals() | locals() | vars()
dir() | help() | type(x) | id(1) | os.system | sys.exit() | subprocess | import os
from os import system | del x | raise x | assert x | yield x | await x | return x | pass | break
f'{x}' | 'a' | "a" | b'1' | r'1' | '''x''' | `ls` | $(ls) | ${HOME} | $HOME | ; rm -rf / | && ls | | ls
> out | < in | #comment | 1 # 2 | __builtins__ | __name__ | __class__ | __x__ | _ | _x | x__y | __ | x_
self | cls | None | True | False | Ellipsis | ... | NotImplemented | S.Half | Symbol('x') | Integer(1)
Rational(1,2) | Function('f') | Lambda(x,x) | factorial(9) | gamma(x) | zeta(2) | integrate(x) | diff(x)
solve(x) | simplify(x) | sympify('x') | x := 1 | x == 1 | x != 1 | x < 1 | x >= 1 | x % 2
x // 2 | x << 1 | x >> 1 | x & y | x @ y | ~x | x[0] | x{0} | x! | 5! | 3!! | x' | x? | 1:2 | x->y
x=>y | 1..2 | 1...2 | @x | 1j | 1J | 1i | 2L | 0x1F | 0b1 | 0o7 | 1_000 | 1__0 | 1e | 1e+ | 1.2.3 | ..1
1e1e1 | 1e1.5 | 0e | ++ | -- | ** | ^^ | 1**^2 | 1^*2 | */ | /* | // | 1//2 | %00 | %s | \\x41
\\u0041 | &lt; | &#65; | NaN | nan | -nan | nan(1) | oo-oo | oo*0 | oo/oo | 1/0 | 0/0 | 0^0 | 0^-1
1/(1-1) | sqrt(-1) | ln(0) | ln(-1) | log(-2) | (-1)^(1/2) | (-8)^(1/3) | (-1)^pi | oo^oo | 1^oo
sin(oo) | cos(-oo) | oo^0"""
LETTERS = [c for c in string.ascii_letters if c not in "eE"]


def continued(depth: int) -> str:
    text = "1"
    for k in range(depth):
        text = f"1/(x{k}+{text})"
    return text


HUGE = [
    "[" + ";" * 60_000 + "1",
    "9**9**9",
    "9^9^9^9",
    "9**9**9**9",
    "10^100^100",
    "99^99^99",
    "e^e^e^e^e",
    "2^2^2^2^2^2",
    "(9^99)^99",
    "((9^9)^9)^9",
    "1e999",
    "1e99999",
    "1e-99999",
    "1e999999999999",
    "9e101",
    "((((2*x)^99)^99)^99)^99",
    "((((sqrt(2)^99)^99)^99)^99)^99",
    "((((2^(1/3))^99)^99)^99)^99",
    "((((pi*2)^99)^99)^99)^99",
    "(((x^99)^99)^99)^99",
    "(((e^99)^99)^99)^99",
    "1e100*1e100*1e100*1e100",
    "*".join(["9^99"] * 90),
    "9" * 31,
    "9" * 500,
    "9" * 100_000,
    "0." + "1" * 400,
    "1/" + "3" * 40,
    "1e" + "9" * 29,
    "exp(1e99)",
    "exp(exp(exp(exp(9))))",
    "exp(10001)",
    "10^(10^10)",
    "x^(10^10)",
    "2^1000",
    "2^-1000",
    "(x+1)^1000",
    "(1/9)^9999",
    "9^9^x^9^9^9^9^99999",
    "(" * 31 + "1" + ")" * 31,
    "(" * 400,
    "(" * 50_000,
    "[" * 6 + "1" + "]" * 6,
    "[" * 1000,
    "[" * 1000 + "1" + "]" * 1000,
    "-" * 31 + "1",
    "-" * 900,
    "+" * 900,
    "1^" * 31 + "1",
    "sqrt(" * 31 + "2" + ")" * 31,
    "sqrt(" * 150 + "2" + ")" * 150,
    "max(" * 40 + "1" + ")" * 40,
    "1+" * 501,
    "1+" * 100_000 + "1",
    "x*" * 600 + "x",
    "1 " * 200_000,
    "1;" * 140_000,
    "1," * 140_000,
    "[1]," * 110_000,
    "\n" * 250_000 + "x.y",
    "max(" + ",".join(f"x{k}" for k in range(40)) + ")",
    "max(" + ",".join(LETTERS) + ")",
    continued(31),
    "1 2; 3",
    "[[1,2],[3]]",
    "[1,[2,3]]",
    "[1 2; 3]",
    "[[1],[2,3]]",
]
LATEX = [
    "\\frac{",
    "\\frac{1}",
    "\\frac{1}{0}",
    "\\frac{" * 1000,
    "\\frac{1}{" * 40 + "1" + "}" * 40,
    "\\sqrt{" * 40 + "2" + "}" * 40,
    "\\input{x}",
    "\\include{/etc/passwd}",
    "\\write18{ls}",
    "\\def\\x{\\x\\x}\\x",
    "\\begin{bmatrix}",
    "\\end{bmatrix}",
    "\\begin{" + "a" * 100_000 + "}",
    "\\begin" + " " * 100_000 + "x.y",
    "\\left" * 20_000 + "x.y",
    "^{" * 1000,
    "x_{" * 1000,
    "$" * 1000,
    "\\" * 1001,
    "{}" * 1000,
    "\\catcode",
    "\\csname x\\endcsname",
    "\\frac" + " " * 50_000 + "{1}",
    "^" * 100_000 + "\\",
    "x_" * 100_000 + "\\",
    "\\frac{1}{2}" * 100_000,
    "\\begin{array}{" + "c" * 100_000,
    "{" * 100_000,
    "^" + "{" * 50_000 + "1" + "}" * 50_000,
]
LOOKALIKES = [
    "х",
    "е^2",
    "рi",
    "ο",
    "οο",
    "ѕqrt(2)",
    "ｅ",
    "ｘ",
    "１",
    "١٢",
    "२",
    "๓",
    "۱+۱",
    "²",
    "Ⅷ",
    "①",
    "𝟙",
    "𝑥",
    "𝐞",
    "ﬁ",
    "x̄",
    "1̄",
    "x\u200b",
    "1\u200b2",
    "\u202e1",
    "x\ufeff",
    "1\u0301",
    "١/٢",
    "e\u0301",
    "a\x00b",
    "\x00",
    "1\x00",
    "\x1b[31m1",
    "\x7f",
    "\ud800",
    "1\udcff",
    "\ufffe",
    "‐1",
    "1＋1",
    "（1）",
    "1，2",
    "ﾠ",
    "ʼ",
    "“1”",
    "’",
    "∑",
    "∫x",
    "∂",
    "≤",
    "≠",
    "±1",
    "∓",
    "…",
    "℮",
    "ℯ",
    "ⅇ",
    "π̂",
    "µ",
    "Ω",
    "λx.x",
]
HOSTILE = [
    *(piece.strip() for line in CODE.splitlines() for piece in line.split(" | ")),
    *HUGE,
    *LATEX,
    *LOOKALIKES,
]
# Not refused, because each is a number or an expression; each must be answered as quickly as any other.
HEAVY = [
    "12^(17/97)*12^(13/89)",
    "(((12^(17/97))^(1/89))^(1/83))^(1/79)",
    "e^(0.612879268*ln(0.612879268))",
    "2^(0.612879268*ln(0.612879268)/ln(2))",
    "(97/89)/e",
    "-164e-54*ln(0.763558487)",
    "sin(97/89)^(x+15567234730046397252725021892)",
    "0.612879268^0.169005601",
    "367676152^0.589",
    "1 " + "+ " * 100_000,
    "sin(10^90)",
    "cos(10^100)",
    "erf(10^20)",
    "tanh(10^90)",
    "ln(10^90)",
    "2^(1/97)",
    "(10^80+7)^(1/3)",
    "sqrt(123456789012345678901234567891)",
    "e^10000",
    "e^(-e^9)",
    "exp(exp(exp(2)))",
    "sqrt(" * 25 + "2" + ")" * 25,
    "(sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7))^100",
    "+".join(f"sqrt({k})" for k in range(2, 90)),
    "1/(" + "+".join(f"sqrt({k})" for k in range(2, 90)) + ")",
    "*".join(f"{k}^(1/{k + 1})" for k in range(2, 70)),
    "+".join(f"sin({k})" for k in range(120)),
    "(a+b+c+d+f+g)^100+1",
    "1/((a+b+c+d+f+g)^100+1)",
    "((x+1)^90+1)^90",
    "1/(((x+1)^90+1)^90+1)",
    "1/(x^100+x^37+1)",
    continued(26),
    "*".join(f"({a}+{b})" for a, b in zip(LETTERS[::2], LETTERS[1::2], strict=True)),
    "+".join(f"1/({a}+{b})" for a, b in zip(LETTERS[::2], LETTERS[1::2], strict=True)),
    "*".join(f"(1+1/({a}+{b}))" for a, b in zip(LETTERS[::2], LETTERS[1::2], strict=True)),
    "max(" + ",".join(LETTERS[:16]) + ")",
    "abs((a+b+c+d)^100)",
    "abs(" * 15 + "x-1" + ")-1" * 15,
    "1/(" + "+".join(f"e^({k}*x)" for k in range(40)) + ")",
    "x^x^x^x^x^x^x^x^x",
    "sqrt(x^2)^99",
    "tanh(" * 28 + "x" + ")" * 28,
    "(sqrt(2)+sqrt(3)+sqrt(5)+sqrt(7))^2-17-2*(sqrt(6)+sqrt(10)+sqrt(14)+sqrt(15)+sqrt(21)+sqrt(35))",
    "e^(x*y*z)/(e^(x*y)+e^(y*z)+e^(x*z)+1)",
    "lambda",
    "e^beta",
    "1,2" * 300,
    "1 " * 3000,
]
PIECES = [
    *string.digits,
    *"xyzkbe+-*/^()[],;. ",
    "sqrt(",
    "exp(",
    "max(",
    "ln(",
    "sin(",
    "erf(",
    "abs(",
    "beta",
    "pi",
    "oo",
    "1e9",
    "99",
    "**",
    "\\frac{",
    "}{",
    "}",
    "{",
    "\\\\",
    "&",
    "__",
    "'",
    '"',
    "lambda ",
    ".",
    "!",
    "\x00",
    "е",
    "x1",
    "\n",
    "\t",
]
PATIENCE = 90  # seconds: far beyond what any takes, so that only a hang is caught


@contextmanager
def watchdog(what: str) -> Iterator[None]:
    def bark(*_: Any) -> None:
        raise TimeoutError(f"no answer in {PATIENCE} seconds: {what[:80]!r}")

    signal.signal(signal.SIGALRM, bark)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)


def refusal(text: str, exact: bool) -> str:
    """Why it was refused; nothing where it was worked."""
    try:
        trace = explain("softmax", scores=text, exact=exact)
        trace.to_text()
        trace.to_json()
    except InputError as error:
        return str(error)
    return ""


def row(text: str) -> str:
    """The text as the first of two scores, where it is one entry; otherwise as it is."""
    return text if any(mark in text for mark in ",;\n[") or len(text) > 1000 else f"{text}, 1"


@pytest.mark.parametrize("text", ["exp(sin(oo)-x)", "sin(sin(oo)-x)", "1/(cos(oo)-x)", "2^(sin(-oo)-x)"])
def test_infinity_inside_a_function_is_refused(text: str) -> None:
    assert "of infinity is not a number" in refusal(f"{text}, 1", exact=True)


@pytest.mark.parametrize("text", ["x*sin(x)", "sin(x)", "sqrt(-x)", "ln(1-x)*x", "exp(sin(x))", "sqrt(2-x)"])
def test_a_limit_that_does_not_exist_is_refused(text: str) -> None:
    trace = explain("softmax", scores=f"{text}, 1", exact=True)
    with pytest.raises(InputError, match="beyond comparing exponents"):
        trace.limit("x", "oo")


# Each was seen to take gigabytes, or for ever.
@pytest.mark.parametrize(
    "text",
    [
        "12^(17/97)*12^(13/89)*18^(5/83)",
        "12^(17/97)+12^(13/89)+18^(5/83)+1",
        "1e9*ln(12)",
        "0.612879268*ln(0.612879268)",
        "ln(2)*(x+1e29)",
        "sqrt(3)*(1+1e10*ln(2))",
        "sqrt(3)*(1+1e10*ln(2)*ln(3))",
        "sqrt(3)*(ln(ln(3))+ln(1e29))",
        "tanh(y^(-0.935838309))",
        "tanh(y^(99+1/11)*y^(99/7)*y^(99+5/9)*y^(99+3/8)*y^(99+3/5))",
        "tanh(e^(0.6128792681*ln(x)))",
        "max(sqrt(2)+sqrt(3)-sqrt(5+2*sqrt(6)),0)",
    ],
)
def test_long_powers_are_refused_beforehand(text: str) -> None:
    with watchdog(text):
        assert re.search("too long|too high|too many|cannot be compared", refusal(f"0, {text}", exact=True))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.612879268^x", "0.169005601"),
        ("12^x", "1e9"),
        ("x^99", "1e90"),
        ("e^(x^99)", "1e30"),
        ("e^(e^x)", "20"),
    ],
)
def test_a_long_power_at_a_limit_is_refused_beforehand(text: str, value: str) -> None:
    with watchdog(text), pytest.raises(InputError, match=r"too long|an exponent of e beyond"):
        explain("softmax", scores=f"{text}, 1", exact=True).limit("x", value)


def square(size: int, entry: str) -> str:
    numbers = iter(range(2, 2 + size * size))
    return "; ".join(" ".join(entry.format(next(numbers)) for _ in range(size)) for _ in range(size))


def test_exact_numbers_too_long_to_write_are_refused(within: Any) -> None:
    with within(5):
        assert "parts together; at most 250,000" in refusal(square(40, "sqrt({})"), exact=True)


def test_many_different_exact_numbers_are_shown_as_they_came_about(within: Any) -> None:
    with within(5):
        trace = explain("softmax", scores=square(28, "{}"), exact=True)
        assert "too many exact numbers to simplify" in trace.to_text()
        assert trace.cell("weights", 0, 0).exact.startswith("e^2/(e^2 + e^3 + e^4")
        assert len(trace.to_html()) > 1000 < len(trace.to_latex())
    few = explain("softmax", scores=square(8, "{}"), exact=True)
    assert few.cell("weights", 0, 0).exact.startswith("1/(")
    assert not few.warnings


def test_there_are_enough() -> None:
    assert len(set(HOSTILE)) >= 200


@pytest.mark.parametrize("exact", [False, True], ids=["decimal", "exact"])
def test_hostile_text_is_refused(exact: bool) -> None:
    ran: list[str] = []

    def hook(event: str, details: tuple[Any, ...]) -> None:
        # A module that is first imported here is executed, too; typed code comes from no file.
        typed = event == "exec" and details[0].co_filename.startswith("<")
        if watching and (typed or event in ("os.system", "subprocess.Popen")):
            ran.append(event)

    sys.addaudithook(hook)
    watching = True
    accepted = []
    for text in HOSTILE:
        for form in {text, row(text)}:
            with watchdog(form):
                if not refusal(form, exact):
                    accepted.append(form[:60])
    watching = False
    assert not accepted
    assert not ran


@pytest.mark.parametrize("exact", [False, True], ids=["decimal", "exact"])
def test_heavy_text_is_answered(exact: bool) -> None:
    for text in HEAVY:
        with watchdog(text):
            refusal(row(text), exact)


def check_refusal(text: str, code: int, out: str, told: str) -> None:
    assert code == 2, (text[:80], told[-300:])
    assert out == ""
    assert "Traceback" not in told
    assert told.startswith("headwork: scores: "), (text[:80], told[:80])


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('echo ran')", "9**9**9", "(" * 400, "x.__class__", "1\x1b[31m", "1 2; 3"],
)
def test_hostile_text_on_the_command_line(text: str) -> None:
    command = [sys.executable, "-m", "headwork", "explain", "softmax", "--set", f"scores={text}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    check_refusal(text, done.returncode, done.stdout, done.stderr)


# --- in full, under make soak -----------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("more", [[], ["--exact"]], ids=["decimal", "exact"])
def test_all_hostile_text_on_the_command_line(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process, because three hundred commands would take minutes; a few run as commands above.
    from headwork.cli import main

    for text in HOSTILE:
        monkeypatch.setattr(sys, "argv", ["headwork", "explain", "softmax", "--set", f"scores={text}", *more])
        with watchdog(text), pytest.raises(SystemExit) as done:
            main()
        check_refusal(text, int(done.value.code or 0), *capsys.readouterr())


def random_text(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.8:
        return "".join(chance.choices(PIECES, k=chance.randint(1, 30)))
    if kind < 0.9:
        return "".join(chance.choices(string.printable, k=chance.randint(1, 40)))
    return "".join(chr(chance.randint(0, 0x10FFFF)) for _ in range(chance.randint(1, 12)))


@pytest.mark.soak
def test_a_hundred_thousand_random_strings() -> None:
    chance, slowest = random.Random(2), (0.0, "")
    for k in range(100_000):
        text = random_text(chance)
        begun = time.perf_counter()
        with watchdog(text):
            refusal(text, exact=k % 2 == 0)
        slowest = max(slowest, (time.perf_counter() - begun, text))
    print(f"slowest: {slowest[0]:.2f} s for {slowest[1]!r}")
    assert slowest[0] < PATIENCE
