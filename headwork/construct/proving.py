"""Equivalences: two ways to write one thing, shown with small numbers, counted, compared and proved.

Each side is a function that notes its steps, like any mechanism. Both run on random float64 inputs (the largest
difference), on shapes alone (weights, FLOPs), and on exact numbers or symbols of a small case, where their difference
must be exactly zero: with symbols that is a proof for every input of that size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import headwork.mechanisms  # noqa: F401  (registers what the sides are made of)
from headwork.errors import InputError, unknown
from headwork.note import Input, Mechanism, Step, card, silent
from headwork.numbers import HandTensor, ShapeTensor, Work
from headwork.numbers.typed import read_array
from headwork.readings import Trace, recorder
from headwork.readings.assembling import assemble

if TYPE_CHECKING:
    from headwork.readings.report import Report

ALLOWED = 1e-12
Inputs = Mapping[str, Any]  # arrays or typed text by name, and options
Sample = Callable[[np.random.Generator], dict[str, Any]]  # makes a random case


@dataclass(frozen=True)
class Side:
    """One way to write it; ``stored`` names the inputs or steps whose numbers it keeps as weights."""

    what: Mechanism
    stored: tuple[str, ...] = ()

    @property
    def slug(self) -> str:
        return self.what.slug

    @property
    def about(self) -> str:
        return self.what.about

    def run(self, given: Inputs, note: Any = silent) -> Any:
        known = inspect.signature(self.what.function).parameters
        return self.what.function(
            **{name: value for name, value in given.items() if name in known}, note=note
        )


def side(*cards: Input | Step, stored: str = "") -> Callable[[Callable[..., Any]], Side]:
    """A side of its own, with its cards; it is no mechanism that people look up."""

    def build(function: Callable[..., Any]) -> Side:
        return Side(Mechanism.of(function, *cards), tuple(stored.split()))

    return build


def plain_side(slug: str, stored: str = "") -> Side:
    """A side that is a mechanism as it is."""
    return Side(card(slug), tuple(stored.split()))


@dataclass(frozen=True)
class Equivalence:
    """Two sides, a small case in typed text, and a maker of random cases."""

    slug: str
    title: str
    why: str
    left: Side
    right: Side
    small: Inputs
    sample: Sample
    large: Inputs = field(default_factory=dict)  # shapes at which the costs are told too
    limit: tuple[str, str] | None = None  # the left side tends to the right one as this symbol goes there

    @property
    def exactly(self) -> str:
        return f" in the limit {self.limit[0]} -> {self.limit[1]}" if self.limit else ""

    @property
    def large_words(self) -> str:
        return ", ".join(
            f"{n} {' x '.join(map(str, v)) if isinstance(v, tuple) else v}" for n, v in self.large.items()
        )


EQUIVALENCES: dict[str, Equivalence] = {}


def equivalence(
    *,
    title: str,
    why: str,
    left: Side,
    right: Side,
    small: Inputs,
    large: Inputs | None = None,
    limit: tuple[str, str] | None = None,
) -> Callable[[Sample], Equivalence]:
    """Registers an equivalence under the slug of the function that makes its random cases."""

    def register(sample: Sample) -> Equivalence:
        slug = sample.__name__.replace("_", "-")
        told = " ".join(why.split())
        EQUIVALENCES[slug] = Equivalence(slug, title, told, left, right, small, sample, large or {}, limit)
        return EQUIVALENCES[slug]

    return register


@dataclass(frozen=True)
class Cost:
    """What one side keeps and does."""

    weights: int
    flops: int
    others: int


@dataclass(frozen=True)
class Equality:
    """What was found: costs, the largest difference, and whether the small case is exactly equal."""

    what: Equivalence
    left: Cost
    right: Cost
    difference: float
    cases: int
    proved: bool
    allowed: float = field(default=ALLOWED)

    @property
    def holds(self) -> bool:
        return self.proved and self.difference <= self.allowed

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.what.left, self.what.right

    def traces(self) -> tuple[Trace, ...]:
        """Both sides of the small case, step by step."""
        both = tuple(side_trace(one, self.what.small) for one in self.sides)
        if self.what.limit is None:
            return both
        return both[0], both[0].limit(*self.what.limit), both[1]

    def as_data(self) -> dict[str, Any]:
        from headwork.readings.json import as_data

        return {
            "name": self.what.slug,
            "title": self.what.title,
            "why": self.what.why,
            "holds": self.holds,
            "proved": self.proved,
            "difference": self.difference,
            "allowed": self.allowed,
            "cases": self.cases,
            "left": {"name": self.what.left.slug, **vars(self.left)},
            "right": {"name": self.what.right.slug, **vars(self.right)},
            "large": {
                "case": self.what.large_words,
                "costs": [vars(cost(one, self.what.large)) for one in self.sides],
            }
            if self.what.large
            else None,
            "traces": [as_data(trace) for trace in self.traces()],
        }

    def report(self) -> Report:
        from headwork.construct.showing import equality_report

        return equality_report(self)

    def to_text(self) -> str:
        return self.report().to_text()

    def to_markdown(self) -> str:
        return self.report().to_markdown()

    def to_latex(self, fragment: bool = False) -> str:
        return self.report().to_latex(fragment)

    def to_html(self) -> str:
        return self.report().to_html()

    def to_json(self) -> str:
        import json

        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return self.to_text()


def equal(name: str, /, *, cases: int = 100, seed: int = 0) -> Equality:
    """Show that two things are the same thing.

    >>> found = equal("convolution-toeplitz", cases=5)
    >>> found.proved, found.left.weights, found.right.weights
    (True, 3, 63)
    """
    what = found_equivalence(name)
    if isinstance(cases, bool) or not isinstance(cases, int) or not 1 <= cases <= 100_000:
        raise InputError(f"cases is {cases!r}. Expected a whole number from 1 to 100000.")
    random = np.random.default_rng(seed)
    largest = max(difference(what, what.sample(random)) for _ in range(cases))
    return Equality(
        what, cost(what.left, what.small), cost(what.right, what.small), largest, cases, proved(what)
    )


def found_equivalence(name: str) -> Equivalence:
    slug = name.replace("_", "-")
    if slug not in EQUIVALENCES:
        raise unknown("equivalence", name, EQUIVALENCES)
    return EQUIVALENCES[slug]


def difference(what: Equivalence, case: Inputs) -> float:
    """The largest difference of the two outputs on one case, in float64."""
    given = {
        name: HandTensor(np.asarray(v, float)) if isinstance(v, np.ndarray) else v for name, v in case.items()
    }
    left, right = what.left.run(given).array, what.right.run(given).array
    if left.shape != right.shape:
        raise AssertionError(f"{what.slug}: the sides give {left.shape} and {right.shape}")
    return float(np.abs(left - right).max())


def exact_inputs(small: Inputs, *sides: Side) -> dict[str, Any]:
    """The small case, typed arrays read exactly; the rest are options."""
    names = {given.name for one in sides for given in one.what.inputs}
    return {
        name: read_array(v, exact=True).labelled(name) if name in names else v for name, v in small.items()
    }


def proved(what: Equivalence) -> bool:
    """Whether both sides of the small case are exactly the same, every symbol left free."""
    given = exact_inputs(what.small, what.left, what.right)
    left, right = what.left.run(given).array, what.right.run(given).array
    if what.limit:
        from headwork.numbers.exact import limit
        from headwork.numbers.typed import read_number

        symbol, to = (read_number(text, exact=True) for text in what.limit)
        left = np.vectorize(lambda x: limit(x, symbol, to), otypes=[object])(left)
    return left.shape == right.shape and all(
        vanishes(a - b) for a, b in zip(left.flat, right.flat, strict=True)
    )


def vanishes(value: Any) -> bool:
    """Whether an exact expression is zero, by multiplying out its numerator.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> vanishes((x + 1) ** 2 / x - (x * x + 2 * x + 1) / x)
    True
    """
    import sympy

    if value == 0:
        return True
    numerator, _ = sympy.fraction(sympy.together(value))
    return bool(sympy.expand(numerator, trig=True) == 0)


def cost(one: Side, case: Inputs) -> Cost:
    """Weights kept and work done, from shapes alone; an array is typed text or its shape."""
    work = Work()
    names = {given.name for given in one.what.inputs}
    shapes = {
        name: value if isinstance(value, tuple) else read_array(value, exact=True).shape
        for name, value in case.items()
        if name in names
    }
    kept: dict[str, Any] = {name: ShapeTensor(shape, work) for name, shape in shapes.items()}
    one.run({**case, **kept}, recorder(kept))
    return Cost(sum(int(np.prod(kept[name].shape)) for name in one.stored), work.flops, work.others)


def side_trace(one: Side, small: Inputs) -> Trace:
    """The steps of one side on the small case, exactly."""
    given = exact_inputs(small, one)
    known = inspect.signature(one.what.function).parameters
    recorded: dict[str, HandTensor] = {}
    one.run(given, recorder(recorded))
    inputs = {n: v for n, v in given.items() if isinstance(v, HandTensor) and n in known}
    options = {n: v for n, v in given.items() if n in known and isinstance(v, (int, str))}
    return assemble(Trace, one.what, inputs, recorded, options, exact=True)
