"""Right answers, worked out in plain numpy and written as students write them, get full marks.

The solutions (``plain_solutions``) know nothing of the package's mechanisms; the forms below nothing of how
they are read. ``--soak`` grades some thousands of both.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from benchmarks.plain_solutions import COUNTED, SOLUTIONS, number, solve
from headwork.exercises import Exercise, generate
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.generation import EXERCISE_KINDS
from headwork.grading import grade

Write = Callable[[float], str]
GLYPHS = {"1/2": "½", "1/3": "⅓", "2/3": "⅔", "1/4": "¼", "3/4": "¾", "1/5": "⅕", "1/6": "⅙", "1/8": "⅛"}
COLUMNS = ("self-attention", "cross-attention", "masked-attention", "multi-head-attention", "feed-forward")
COLUMNS += ("layer-normalisation", "add-and-normalise")


# --- one number -----------------------------------------------------------------------------------------
def whole(x: float) -> bool:
    return abs(x - round(x)) < 1e-9


def rounded(digits: int) -> Write:
    return lambda x: "-oo" if x == -math.inf else str(round(x)) if whole(x) else f"{x:.{digits}f}"


def cut_off(digits: int) -> Write:
    """Digits cut off, where at least two significant ones are left."""

    def write(x: float) -> str:
        if not math.isfinite(x) or whole(x):
            return rounded(digits)(x)
        text = f"{math.trunc(x * 10**digits + math.copysign(1e-7, x)) / 10**digits:.{digits}f}"
        return text if len(text.strip("-").replace(".", "").lstrip("0")) >= 2 else rounded(digits)(x)

    return write


def fraction(x: float) -> Fraction | None:
    if not math.isfinite(x):
        return None
    near = Fraction(x).limit_denominator(60)
    return near if abs(float(near) - x) < 1e-12 * max(1, abs(x)) else None


def exact(plain: Write, root: str, over: str, times: str = "") -> Write:
    """A fraction, or one times the root of 2 or 3, in the given signs; else decimals."""

    def write(x: float) -> str:
        if not math.isfinite(x) or whole(x):
            return plain(x)
        sign = "-" if x < 0 else ""
        if (part := fraction(abs(x))) is not None:
            return sign + over.format(part.numerator, part.denominator)
        for n in (2, 3):
            if (part := fraction(abs(x) / math.sqrt(n))) is not None:
                before = "" if part == 1 else str(part) if part.denominator == 1 else f"({part})"
                before = (
                    over.format(part.numerator, part.denominator)
                    if "frac" in over and part.denominator > 1
                    else before
                )
                return sign + before + (times if before else "") + root.format(n)
        return plain(x)

    return write


def mixed(x: float) -> str:
    part = fraction(abs(x)) if not whole(x) else None
    if part is None:
        return rounded(4)(x)
    units, rest = divmod(part.numerator, part.denominator)
    rest_text = f"{rest}/{part.denominator}"
    glyph = GLYPHS.get(rest_text)
    if glyph:
        return f"{'-' if x < 0 else ''}{units or ''}{glyph}"
    return f"{'-' if x < 0 else ''}{f'{units} ' if units else ''}{rest_text}"


def percent(x: float) -> str:
    return f"{100 * x:.2f}%" if 0 <= x <= 1 and not whole(x) else rounded(4)(x)


NUMBERS: dict[str, Write] = {
    "4 digits": rounded(4),
    "3 digits": rounded(3),
    "7 digits": rounded(7),
    "cut off": cut_off(4),
    "cut off at 3": cut_off(3),
    "fractions": exact(rounded(4), "sqrt({})", "{}/{}", "*"),
    "2sqrt(2)": exact(rounded(4), "sqrt({})", "{}/{}"),
    "2√2": exact(rounded(4), "√{}", "{}/{}"),
    "minus sign": lambda x: rounded(4)(x).replace("-", "−"),
    "mixed numbers": mixed,
    "percent": percent,
    "powers of ten": lambda x: f"{x:.4e}" if math.isfinite(x) else "-oo",
}
LATEX: dict[str, Write] = {
    "frac": exact(rounded(4), r"\sqrt{{{}}}", r"\frac{{{}}}{{{}}}"),
    "tfrac": exact(rounded(4), r"\sqrt {}", r"\tfrac{{{}}}{{{}}}", " "),
    "times": lambda x: f"{x * 10:.5f} \\times 10^{{-1}}" if math.isfinite(x) else r"-\infty",
}


# --- a whole step ---------------------------------------------------------------------------------------
def by_rows(between: str, rows: str, start: str = "", end: str = "") -> Callable[[Any, Write], str]:
    def write(value: Any, one: Write) -> str:
        lines = [between.join(one(float(x)) for x in row) for row in np.atleast_2d(value)]
        return start + rows.join(lines) + end

    return write


def listed(opening: str, closing: str, start: str = "", end: str = "") -> Callable[[Any, Write], str]:
    def inner(value: Any, one: Write) -> str:
        if np.ndim(value) == 0:
            return one(float(value))
        return opening + ", ".join(inner(part, one) for part in value) + closing

    return lambda value, one: start + inner(value, one) + end


def table(value: Any, one: Write) -> str:
    rows = [" | ".join(one(float(x)) for x in row) for row in np.atleast_2d(value)]
    rule = "|".join("---" for _ in np.atleast_2d(value)[0])
    lines = [f"| {rows[0]} |", f"|{rule}|", *(f"| {row} |" for row in rows[1:])]
    return "\n".join(lines)


def with_factor(value: Any, one: Write) -> str:
    """The smallest denominator before the matrix, where there is one."""
    parts = [fraction(float(x)) for x in np.ravel(value)]
    if any(part is None for part in parts) or np.ndim(value) != 2:
        return by_rows(" ", "; ")(value, one)
    n = math.lcm(*(part.denominator for part in parts if part is not None))
    return by_rows(" ", "; ", f"1/{n} * [", "]")(np.asarray(value) * n, rounded(4))


def with_latex_factor(value: Any, one: Write) -> str:
    text = with_factor(value, one)
    if not text.startswith("1/"):
        return MATRICES["bmatrix"](value, LATEX["frac"])
    factor, _, rest = text.partition(" * ")
    cells = rest.strip("[]").replace("; ", r" \\ ").replace(" ", " & ").replace(r" & \\ & ", r" \\ ")
    return rf"\frac{{1}}{{{factor[2:]}}}\begin{{bmatrix}} {cells} \end{{bmatrix}}"


SPACED = ("rows", "lines", "brackets", "name", "factor")  # a space separates: no mixed numbers there
PLAIN: dict[str, Callable[[Any, Write], str]] = {
    "rows": by_rows(" ", "; "),
    "lines": by_rows("  ", "\n"),
    "commas": by_rows(", ", "\n"),
    "tabs": by_rows("\t", "\n"),
    "brackets": by_rows(" ", "; ", "[", "]"),
    "list": listed("[", "]"),
    "tuple": listed("(", ")"),
    "array": listed("[", "]", "array(", ")"),
    "tensor": listed("[", "]", "tensor(", ", dtype=torch.float64)"),
    "name": by_rows(" ", "; ", "Q = "),
    "table": table,
    "factor": with_factor,
}
MATRICES: dict[str, Callable[[Any, Write], str]] = {
    "bmatrix": by_rows(" & ", r" \\ ", r"\begin{bmatrix} ", r" \end{bmatrix}"),
    "pmatrix": by_rows(" & ", r" \\ ", r"$$S = \begin{pmatrix} ", r" \\ \end{pmatrix}$$"),
    "matrix": by_rows(" & ", r"\\", r"\left[\begin{matrix}", r"\end{matrix}\right]"),
    "array environment": by_rows(" & ", r"\\", r"\left(\begin{array}{ccc}", r"\end{array}\right)"),
    "factor": with_latex_factor,
}


def written(value: Any, draw: random.Random) -> str:
    """A step in a form drawn at random."""
    value = np.asarray(value, float)
    latex = draw.random() < 0.3
    one = draw.choice([*LATEX.values()] if latex else [*NUMBERS.values()])
    if value.ndim == 0:
        return draw.choice(("{}", "{}", "x = {}", "({})" if not latex else "${}$")).format(one(float(value)))
    form = draw.choice([*(MATRICES if latex else PLAIN)])
    if form in SPACED and not latex:
        one = draw.choice([write for name, write in NUMBERS.items() if name != "mixed numbers"])
    if value.ndim == 3:
        return listed("[", "]")(value, one)
    return (MATRICES if latex else PLAIN)[form](value, one)


def written_count(n: int, draw: random.Random) -> str:
    factor = next((k for k in (12, 8, 7, 5, 3, 2) if n % k == 0), 1)
    forms = [f"{n}", f"{n:,}", f"{n:,}".replace(",", " "), f"{n}.0", f"N = {n}", f"({n})", f"{float(n)!r}"]
    forms += [f"{factor}*{n // factor}", f"{factor} × {n // factor}", rf"{factor} \times {n // factor}"]
    forms += [f"floor({2 * n + 1}/2)", rf"\lfloor {3 * n + 2}/3 \rfloor", f"⌊{3 * n + 1}/3⌋", f"{n - 1} + 1"]
    return draw.choice(forms)


def written_shape(shape: Any, draw: random.Random) -> str:
    sizes = [str(round(float(n))) for n in shape]
    forms = [
        ", ".join(sizes),
        " ".join(sizes),
        f"[{', '.join(sizes)}]",
        f"({', '.join(sizes)})",
        " x ".join(sizes),
    ]
    forms += [" × ".join(sizes), r" \times ".join(sizes), f"torch.Size([{', '.join(sizes)}])"]
    forms += [rf"\begin{{bmatrix}} {between.join(sizes)} \end{{bmatrix}}" for between in (" & ", r" \\ ")]
    return draw.choice(forms)


# --- right answers --------------------------------------------------------------------------------------
def answer(exercise: Exercise, draw: random.Random) -> tuple[dict[str, str], str]:
    """A right answer in a form drawn at random, and whether its tokens are rows or columns."""
    steps = {path: solve(exercise)[path] for path in exercise.asked}
    if exercise.kind == "head-shapes":
        shapes = {path: written_shape(v, draw) for path, v in steps.items() if np.ndim(v)}
        return {**shapes, "head width": written_count(int(steps["head width"]), draw)}, ""
    if exercise.kind in COUNTED:
        return {path: written_count(int(value), draw) for path, value in steps.items()}, ""
    if "scores" in steps and draw.random() < 0.3:
        steps["scores"] = other_form(exercise, steps["scores"])
    columns = exercise.kind in COLUMNS and draw.random() < 0.3
    if columns:
        steps = {path: turned(exercise, path, value) for path, value in steps.items()}
    return {path: written(value, draw) for path, value in steps.items()}, "columns" if columns else ""


def other_form(exercise: Exercise, scores: Any) -> Any:
    """The scores without beta, or with or without the mask."""
    if exercise.kind == "linear-attention":
        return number(exercise.inputs["query"]) @ number(exercise.inputs["key"]).T
    if exercise.kind == "masked-attention":
        hidden = exercise.options["mask"]
        allowed = np.tri(len(scores)) if hidden == "causal" else np.ones((len(scores), 1)) * number(hidden)
        return np.where(allowed == 1, scores, -np.inf)
    if exercise.kind == "copying":
        return scores
    beta = exercise.options.get("beta", 1 / math.sqrt(2))
    return scores / float(number(beta) if isinstance(beta, str) else beta)


def turned(exercise: Exercise, path: str, value: Any) -> Any:
    if exercise.kind == "multi-head-attention" and path in ("scores", "weights"):
        return np.concatenate([head.T for head in np.split(value, 2)])
    return np.asarray(value).T


def challenge_answer(exercise: Exercise, draw: random.Random) -> dict[str, str]:
    size, large = draw.uniform(0.5, 3), draw.choice(["oo", "60", "∞", "1e3", "200/2"])
    if exercise.kind.startswith("construct"):
        target = number(str(exercise.inputs["target"]))
        values = {"query": (target > 0) * size + 0.0, "key": np.eye(target.shape[1]) * (1 + size)}
        return {**{name: written(value, draw) for name, value in values.items()}, "beta": large}
    rows = draw.randint(1, 3)
    answers: dict[str, dict[str, Any]] = {
        "refute-small-perturbation": {
            "query": np.array([[1.0, 0]] * rows),
            "key": np.array([[1, 0], [0.99, 0]]),
            "delta": np.array([[0, 0], [0.05, 0]]),
            "beta": draw.choice(["oo", "100", "10^3"]),
        },
        "refute-own-token-wins": {"tokens": np.array([[1.0, 0], [3, draw.randint(0, 3)]]), "beta": "1"},
        "refute-mean-of-keys": {"key": np.eye(3)[:rows], "value": 5 + np.eye(3)[:rows]},
        "refute-permutation-diagonal": {"matrix": np.eye(3)[[[0, 2, 1], [2, 1, 0], [1, 0, 2]][rows - 1]]},
        "refute-large-perturbation": {
            "query": np.array([[1.0, 0], [0, 1]])[: max(1, rows - 1)],
            "key": np.eye(2),
            "delta": np.array([[-20.0, 0], [0, 0]]),
            "beta": "1",
        },
        "refute-columns": {"query": np.ones((rows, 4)), "key": np.ones((rows, 4)) * 2},
    }
    fields = answers[exercise.kind]
    return {name: v if isinstance(v, str) else written(v, draw) for name, v in fields.items()}


def check(kind: str, seeds: range, forms: int, difficulties: tuple[int, ...] = (1, 2, 3)) -> int:
    """Grade right answers of every difficulty, and return how many."""
    count = 0
    for seed in seeds:
        for difficulty in difficulties:
            exercise = generate(kind, seed, difficulty)
            draw = random.Random(f"{kind} {seed} {difficulty}")
            for _ in range(forms):
                if kind in CHALLENGES:
                    answers, tokens_as = challenge_answer(exercise, draw), ""
                else:
                    answers, tokens_as = answer(exercise, draw)
                mark = grade(exercise, answers, tokens_as=tokens_as)
                first = mark.first_wrong
                told = first and (first.path, first.remark, [c.slug for c in first.causes], answers)
                assert mark.points == mark.max_points, (kind, seed, difficulty, tokens_as, told)
                count += 1
    return count


def test_every_kind_is_solved_here() -> None:
    assert set(SOLUTIONS) == set(EXERCISE_KINDS)


@pytest.mark.parametrize("kind", [*EXERCISE_KINDS, *CHALLENGES])
def test_right_answers_get_full_marks(kind: str) -> None:
    assert check(kind, range(1), 4, (3,)) == 4


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*EXERCISE_KINDS, *CHALLENGES])
def test_thousands_of_right_answers_get_full_marks(kind: str) -> None:
    assert check(kind, range(5000, 5008), 4) == 96


# --- wrong counts ---------------------------------------------------------------------------------------
def wrong_counts(n: int) -> set[str]:
    """Numbers near a count that are not the count, in forms that might pass for it."""
    near = {str(n + 1), str(n - 1), str(2 * n), f"{n}.5", f"{n + 0.0001:.4f}", f"{n - 0.0001:.4f}", f"{n}0"}
    for digits in (1, 2, 3, 4, 5):
        short = f"{n:.{digits - 1}e}"
        if float(short) != n:
            near |= {short, str(round(float(short))), short.replace("e+", "*10^")}
    return near


def refuse(kind: str, seeds: range) -> int:
    count = 0
    for seed in seeds:
        exercise = generate(kind, seed, 1 + seed % 3)
        right = {path: int(value) for path, value in solve(exercise).items() if np.ndim(value) == 0}
        for path in exercise.asked:
            for wrong in wrong_counts(right[path]) if path in right else ():
                step = grade(exercise, {path: wrong}).step(path)
                assert step.points == 0, (kind, seed, path, right[path], wrong, step.remark)
                count += 1
    return count


@pytest.mark.parametrize("kind", COUNTED)
def test_wrong_counts_are_refused(kind: str) -> None:
    assert refuse(kind, range(2)) > 10


@pytest.mark.soak
@pytest.mark.parametrize("kind", COUNTED)
def test_thousands_of_wrong_counts_are_refused(kind: str) -> None:
    assert refuse(kind, range(100, 130)) > 200
