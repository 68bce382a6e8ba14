"""Polynomials with whole coefficients in named sizes, found exactly from a few counts.

A count that is a polynomial of degree at most p in a size is fixed by its values at p + 1 numbers, and in
several sizes by a grid of them (Lagrange, in fractions: nothing is rounded); other sizes then verify it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from headwork.errors import HeadworkError


@dataclass(frozen=True)
class Polynomial:
    """Coefficients by exponents, one exponent per size.

    >>> work = Polynomial(("n", "d"), {(1, 2): 4, (2, 1): 2})
    >>> str(work), work.order(), work(n=10, d=3)
    ('2 n^2 d + 4 n d^2', 'n^2 d + n d^2', 960)
    """

    variables: tuple[str, ...]
    terms: Mapping[tuple[int, ...], Fraction | int]

    def __call__(self, **sizes: int) -> Fraction | int:
        values = [sizes[size] for size in self.variables]
        total = sum(c * prod(map(pow, values, powers)) for powers, c in self.terms.items())
        return int(total) if total == int(total) else total

    def __add__(self, other: "Polynomial | int") -> "Polynomial":
        more = other.terms if isinstance(other, Polynomial) else {(0,) * len(self.variables): other}
        both = {p: self.terms.get(p, 0) + more.get(p, 0) for p in (*self.terms, *more)}
        return Polynomial(self.variables, {p: c for p, c in both.items() if c})

    __radd__ = __add__

    def __mul__(self, factor: int) -> "Polynomial":
        return Polynomial(self.variables, {p: c * factor for p, c in self.terms.items() if c * factor})

    __rmul__ = __mul__

    def __str__(self) -> str:
        text = ""
        for powers, c in sorted(self.terms.items(), key=lambda t: (-sum(t[0]), tuple(-e for e in t[0]))):
            sign = ("" if c > 0 else "-") if not text else (" + " if c > 0 else " - ")
            factors = [s if e == 1 else f"{s}^{e}" for s, e in zip(self.variables, powers, strict=True) if e]
            lead = [] if abs(c) == 1 and factors else [str(abs(c))]
            text += sign + " ".join(lead + factors)
        return text or "0"

    def latex(self) -> str:
        """The same for LaTeX.

        >>> Polynomial(("n", "d"), {(2, 1): 2, (0, 0): -1}).latex()
        '2 n^{2} d - 1'
        """
        return re.sub(r"\^(\d+)", r"^{\1}", str(self))

    def order(self) -> str:
        """What it grows like: the terms that no other term outgrows, without their coefficients."""
        top = [p for p in self.terms if not any(p != q and all(map(int.__le__, p, q)) for q in self.terms)]
        return str(Polynomial(self.variables, dict.fromkeys(top, 1)))

    def coefficient(self, **powers: int) -> Fraction | int:
        """The coefficient of one term.

        >>> Polynomial(("n", "d"), {(1, 2): 4}).coefficient(n=1, d=2)
        4
        """
        return self.terms.get(tuple(powers.get(s, 0) for s in self.variables), 0)


def interpolate(count: Callable[[Mapping[str, int]], int], nodes: Mapping[str, Sequence[int]]) -> Polynomial:
    """The polynomial through the counts at every combination of the nodes.

    >>> str(interpolate(lambda at: 2 * at["n"] ** 2 + 1, {"n": (1, 2, 3)}))
    '2 n^2 + 1'
    """
    variables = tuple(nodes)
    counts = [Fraction(count(dict(zip(variables, at, strict=True)))) for at in product(*nodes.values())]
    values = np.array(counts, object).reshape([len(nodes[size]) for size in variables])
    # One size after another, values at its nodes give way to coefficients of its powers.
    for axis, size in enumerate(variables):
        values = np.moveaxis(np.tensordot(_lagrange(nodes[size]), values, (0, axis)), 0, axis)
    terms = ((powers, c) for powers, c in np.ndenumerate(values) if c)
    return Polynomial(variables, {powers: int(c) if c.denominator == 1 else c for powers, c in terms})


def verify(formula: Polynomial, count: Callable[[Mapping[str, int]], int], sizes: Mapping[str, int]) -> None:
    """Compare with a count at sizes that were not used to find it."""
    if (counted := count(sizes)) != (expected := formula(**sizes)):
        raise HeadworkError(
            f"the count at {dict(sizes)} is {counted:,}, but {formula} gives {expected}: no such polynomial."
        )


def _lagrange(nodes: Sequence[int]) -> Any:
    """For each node a row: the coefficients of the polynomial that is 1 there and 0 at the others."""
    rows = []
    for sizes in nodes:
        others = np.array([Fraction(node) for node in nodes if node != sizes], object)
        rows.append(np.poly(others)[::-1] / np.prod(sizes - others))
    return np.array(rows)
