"""The arithmetic of one cell: a small tree, and its text and LaTeX.

A cell of a step expands into cells of the steps noted before it or of the inputs, no further:
``S[0,1] = 1*2 + 2*0``. The rules of the operations build the tree on demand; here it becomes text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_TERMS = 24  # a longer sum is shown by its first and last terms


@dataclass(frozen=True)
class Cell:
    """A cell of a noted step or of an input."""

    label: str
    index: tuple[int, ...]
    value: Any


@dataclass(frozen=True)
class Number:
    value: Any


@dataclass(frozen=True)
class Operation:
    """A sum, difference, product, quotient, power, negative, or a function by its name."""

    kind: str
    parts: tuple[Expression, ...]


Expression = Cell | Number | Operation


def expression(kind: str, *parts: Expression) -> Expression:
    return parts[0] if kind in ("sum", "product") and len(parts) == 1 else Operation(kind, parts)


def leaf_cells(tree: Expression) -> Iterator[Cell]:
    """Every cell in the tree, in reading order."""
    if isinstance(tree, Cell):
        yield tree
    elif isinstance(tree, Operation):
        for part in tree.parts:
            yield from leaf_cells(part)


def evaluate(tree: Expression) -> float:
    """What a tree comes to, by Python's own arithmetic.

    >>> evaluate(Operation("sum", (Number(1), Operation("product", (Number(2), Number(3))))))
    7.0
    """
    if not isinstance(tree, Operation):
        return float(tree.value)
    return float(FUNCTIONS[tree.kind](*map(evaluate, tree.parts)))


FUNCTIONS: dict[str, Callable[..., float]] = {
    "sum": lambda *parts: math.fsum(parts),
    "product": lambda *parts: math.prod(parts),
    "difference": lambda a, b: a - b,
    "quotient": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "negative": lambda a: -a,
    "max": max,
    "abs": abs,
    "ln": math.log,
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    **{name: getattr(math, name) for name in ("exp", "sqrt", "erf", "tanh", "sin", "cos", "floor")},
}
WriteLeaf = Callable[[Any], str]


def _visible_terms(parts: tuple[Expression, ...]) -> list[Expression | None]:
    if len(parts) <= MAX_TERMS:
        return list(parts)
    return [*parts[: MAX_TERMS // 2], None, *parts[-2:]]


def to_text(tree: Expression, write_leaf: WriteLeaf) -> str:
    """The tree as one line of text; ``write_leaf`` writes a Cell or a Number."""
    return _write(tree, write_leaf, latex=False)[0]


def to_latex(tree: Expression, write_leaf: WriteLeaf) -> str:
    """The tree in LaTeX; ``write_leaf`` writes a Cell or a Number."""
    return _write(tree, write_leaf, latex=True)[0]


LATEX_FUNCTIONS = {"max": r"\max", "sin": r"\sin", "cos": r"\cos", "tanh": r"\tanh", "ln": r"\ln"}


def _leaf_precedence(text: str, latex: bool) -> int:
    if latex:
        return 2 if text.startswith("-") else 1 if "+" in text or " - " in text else 9
    if not any(c in text for c in "+-*/ "):
        return 9
    return 2 if text.startswith("-") and not any(c in text[1:] for c in "+-*/ ") else 1


def _write(tree: Expression, write_leaf: WriteLeaf, latex: bool) -> tuple[str, int]:
    """The text and how tightly it binds; a part that binds less tightly is put in brackets."""
    if not isinstance(tree, Operation):
        text = write_leaf(tree)
        return text, _leaf_precedence(text, latex)

    def bracketed(part: Expression, at_least: int) -> str:
        text, precedence = _write(part, write_leaf, latex)
        return text if precedence >= at_least else rf"\left({text}\right)" if latex else f"({text})"

    def inner(part: Expression) -> str:
        return bracketed(part, 0)

    kind, parts = tree.kind, tree.parts
    if kind == "sum":
        dots, at_least = (r"\cdots", 3) if latex else ("...", 1)
        visible = enumerate(_visible_terms(parts))
        terms = [dots if p is None else bracketed(p, at_least if i else 1) for i, p in visible]
        text = terms[0]
        for term in terms[1:]:
            minus = not latex and term.startswith("-") and " " not in term
            text += f" - {term[1:]}" if minus else f" + {term}"
        return text, 1
    if kind == "difference":
        return f"{bracketed(parts[0], 1)} - {bracketed(parts[1], 3)}", 1
    if kind == "product":
        # A factor such as beta = 1 is left out; a cell of a matrix that happens to be 1 is not.
        factors = [p for p in parts if not (isinstance(p, Cell) and (p.index, p.value) == ((), 1))]
        factors = factors or [parts[0]]
        if len(factors) == 1:
            return _write(factors[0], write_leaf, latex)
        sign, at_least = (r" \cdot ", 3) if latex else ("*", 2)
        return sign.join([bracketed(factors[0], at_least)] + [bracketed(p, 3) for p in factors[1:]]), 3
    if kind == "quotient":
        if latex:
            return rf"\frac{{{inner(parts[0])}}}{{{inner(parts[1])}}}", 9
        return f"{bracketed(parts[0], 3)}/{bracketed(parts[1], 5)}", 3
    if kind == "power":
        exponent = f"{{{inner(parts[1])}}}" if latex else bracketed(parts[1], 9)
        return f"{bracketed(parts[0], 9)}^{exponent}", 5
    if kind == "negative":
        return f"-{bracketed(parts[0], 3)}", 2
    if kind == "exp":
        if (text := inner(parts[0])) in ("0", "1"):
            return {"0": "1", "1": "e"}[text], 9
        return (f"e^{{{text}}}", 9) if latex else (f"e^{bracketed(parts[0], 9)}", 5)
    if kind == "sqrt" and latex:
        return rf"\sqrt{{{inner(parts[0])}}}", 9
    dots = r"\ldots" if latex else "..."
    listed = ", ".join(dots if p is None else inner(p) for p in _visible_terms(parts))
    if not latex:
        return f"{kind}({listed})", 9
    name = LATEX_FUNCTIONS.get(kind, rf"\operatorname{{{kind}}}")
    return rf"{name}\left({listed}\right)", 9
