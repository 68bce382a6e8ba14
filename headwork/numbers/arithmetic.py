"""The arithmetic of one cell: a small tree, and one generator per style.

A cell of a step expands into cells of the steps noted before it or of the inputs, no further:
``S[0,1] = 1*2 + 2*0``. ``HandTensor`` builds the tree on demand; here it becomes text.
"""

from __future__ import annotations

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
    parts: tuple[Tree, ...]


Tree = Cell | Number | Operation


def operation(kind: str, *parts: Tree) -> Tree:
    return parts[0] if kind in ("sum", "product") and len(parts) == 1 else Operation(kind, parts)


def cells(tree: Tree) -> Iterator[Cell]:
    """Every cell in the tree, in reading order."""
    if isinstance(tree, Cell):
        yield tree
    elif isinstance(tree, Operation):
        for part in tree.parts:
            yield from cells(part)


Writer = Callable[[Any], str]


def _visible_terms(parts: tuple[Tree, ...]) -> list[Tree | None]:
    if len(parts) <= MAX_TERMS:
        return list(parts)
    return [*parts[: MAX_TERMS // 2], None, *parts[-2:]]


def _is_scalar_one(tree: Tree) -> bool:
    """A factor such as beta = 1 is left out; a cell of a matrix that happens to be 1 is not."""
    return isinstance(tree, Cell) and tree.index == () and tree.value == 1


def in_text(tree: Tree, leaf: Writer) -> str:
    """The tree as one line of text; ``leaf`` writes a Cell or a Number."""
    return _text(tree, leaf)[0]


def _text(tree: Tree, leaf: Writer) -> tuple[str, int]:
    """The text and how tightly it binds; a part that binds less tightly is put in brackets."""
    if not isinstance(tree, Operation):
        text = leaf(tree)
        if not any(c in text for c in "+-*/ "):
            return text, 9
        return text, 2 if text.startswith("-") and not any(c in text[1:] for c in "+-*/ ") else 1

    def bound(part: Tree, least: int) -> str:
        text, binding = _text(part, leaf)
        return text if binding >= least else f"({text})"

    kind, parts = tree.kind, tree.parts
    if kind == "sum":
        terms = ["..." if p is None else bound(p, 1) for p in _visible_terms(parts)]
        text = terms[0]
        for term in terms[1:]:
            text += f" - {term[1:]}" if term.startswith("-") and " " not in term else f" + {term}"
        return text, 1
    if kind == "difference":
        return f"{bound(parts[0], 1)} - {bound(parts[1], 3)}", 1
    if kind == "product":
        factors = [p for p in parts if not _is_scalar_one(p)] or [parts[0]]
        if len(factors) == 1:
            return _text(factors[0], leaf)
        return "*".join([bound(factors[0], 2)] + [bound(p, 3) for p in factors[1:]]), 3
    if kind == "quotient":
        return f"{bound(parts[0], 3)}/{bound(parts[1], 5)}", 3
    if kind == "power":
        return f"{bound(parts[0], 9)}^{bound(parts[1], 9)}", 5
    if kind == "negative":
        return f"-{bound(parts[0], 3)}", 2
    if kind == "exp":
        inner = in_text(parts[0], leaf)
        if inner in ("0", "1"):
            return {"0": "1", "1": "e"}[inner], 9
        return f"e^{bound(parts[0], 9)}", 5
    return f"{kind}({', '.join('...' if p is None else in_text(p, leaf) for p in _visible_terms(parts))})", 9


def in_latex(tree: Tree, leaf: Writer) -> str:
    """The tree in LaTeX; ``leaf`` writes a Cell or a Number."""
    return _latex(tree, leaf)[0]


LATEX_FUNCTIONS = {"max": r"\max", "sin": r"\sin", "cos": r"\cos", "tanh": r"\tanh"}


def _latex(tree: Tree, leaf: Writer) -> tuple[str, int]:
    if not isinstance(tree, Operation):
        text = leaf(tree)
        return text, 2 if text.startswith("-") else 1 if "+" in text or " - " in text else 9

    def bound(part: Tree, least: int) -> str:
        text, binding = _latex(part, leaf)
        return text if binding >= least else rf"\left({text}\right)"

    kind, parts = tree.kind, tree.parts
    if kind == "sum":
        terms = [
            r"\cdots" if p is None else bound(p, 1 if i == 0 else 3)
            for i, p in enumerate(_visible_terms(parts))
        ]
        return " + ".join(terms), 1
    if kind == "difference":
        return f"{bound(parts[0], 1)} - {bound(parts[1], 3)}", 1
    if kind == "product":
        factors = [p for p in parts if not _is_scalar_one(p)] or [parts[0]]
        if len(factors) == 1:
            return _latex(factors[0], leaf)
        return r" \cdot ".join(bound(p, 3) for p in factors), 3
    if kind == "quotient":
        return rf"\frac{{{in_latex(parts[0], leaf)}}}{{{in_latex(parts[1], leaf)}}}", 9
    if kind == "power":
        return f"{bound(parts[0], 9)}^{{{in_latex(parts[1], leaf)}}}", 5
    if kind == "negative":
        return f"-{bound(parts[0], 3)}", 2
    if kind == "exp":
        inner = in_latex(parts[0], leaf)
        return ({"0": "1", "1": "e"}.get(inner) or f"e^{{{inner}}}"), 9
    if kind == "sqrt":
        return rf"\sqrt{{{in_latex(parts[0], leaf)}}}", 9
    name = LATEX_FUNCTIONS.get(kind, rf"\operatorname{{{kind}}}")
    inner = ", ".join(r"\ldots" if p is None else in_latex(p, leaf) for p in _visible_terms(parts))
    return rf"{name}\left({inner}\right)", 9
