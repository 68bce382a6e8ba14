"""Equivalences: two ways to write one thing, shown with small numbers, counted, compared and proved.

Each side is a function that notes its steps, like any mechanism. Both run on random float64 inputs (the
largest difference), on shapes alone (weights, FLOPs), and on exact numbers or symbols of a small case, where
their difference must be exactly zero: with symbols that is a proof for every input of that size.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import headwork.mechanisms  # noqa: F401  (registers what the sides are made of)
from headwork.construct.targets import check_integer, text_of
from headwork.documents import Document, Item, Items, Renderable, Table
from headwork.errors import unknown_name
from headwork.files import load_package_toml
from headwork.note import Input, Mechanism, Step, get_mechanism, silent
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.numbers.limits import limit
from headwork.numbers.parsing import read_number, read_tensor
from headwork.readings import Trace, recorder
from headwork.readings.assembling import assemble
from headwork.readings.trace_document import trace_data

MAX_DIFFERENCE = 1e-12
SIDE_CARDS = load_package_toml(__file__, "sides.toml")
DESCRIPTIONS = load_package_toml(__file__, "equivalences.toml")  # title, reason and cases of each
Inputs = Mapping[str, Any]  # arrays or typed text by name, and options
Sample = Callable[[np.random.Generator], dict[str, Any]]  # draws a random case


@dataclass(frozen=True)
class Side:
    """One way to write it; ``weight_names`` names the inputs or steps whose numbers count as its weights."""

    mechanism: Mechanism
    weight_names: tuple[str, ...] = ()

    def run(self, case: Inputs, note: Any = silent) -> Any:
        return self.mechanism.run(self.inputs_of(case), note)

    def inputs_of(self, case: Inputs) -> dict[str, Any]:
        known = {*(card.name for card in self.mechanism.inputs), *self.mechanism.options}
        return {name: value for name, value in case.items() if name in known}


def side(function: Callable[..., Any]) -> Side:
    """A function as a side, with its cards of ``sides.toml``; it is not registered as a mechanism."""
    entry = SIDE_CARDS[function.__name__]
    inputs = [card for each in entry["inputs"] for card in _cards("inputs", Input, each)]
    steps = {card.name: card for each in entry["steps"] for card in _cards("steps", Step, each)}
    return Side(Mechanism.from_function(function, *inputs, *steps.values()), tuple(entry.get("weights", ())))


def _cards(part: str, kind: type, entry: str | list[Any]) -> Iterable[Any]:
    """A card, or those of the mechanism of that name."""
    return getattr(get_mechanism(entry), part) if isinstance(entry, str) else (kind(*entry),)


def registered_side(slug: str, weight_names: str = "") -> Side:
    """A registered mechanism as a side."""
    return Side(get_mechanism(slug), tuple(weight_names.split()))


@dataclass(frozen=True)
class Equivalence:
    """Two sides, a small case in typed text, and a function that draws random cases."""

    slug: str
    title: str
    why: str
    left: Side
    right: Side
    small_case: Inputs
    sample: Sample
    large_shapes: Inputs = field(default_factory=dict)  # shapes at which the costs are counted too
    limit: tuple[str, str] | None = None  # the left side tends to the right one as this symbol goes there

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def large_title(self) -> str:
        sizes = {
            n: " x ".join(map(str, v)) if isinstance(v, tuple) else v for n, v in self.large_shapes.items()
        }
        return ", ".join(f"{name} {size}" for name, size in sizes.items())


EQUIVALENCES: dict[str, Equivalence] = {}


def integers(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    """Random sizes from ``low`` up to ``high`` - 1."""
    return tuple(int(n) for n in rng.integers(low, high, size=count))


def normals(rng: np.random.Generator, **shapes: int | tuple[int, ...]) -> dict[str, Any]:
    """Random arrays by name, of these shapes."""
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def equivalence(left: Side, right: Side, **more: Any) -> Callable[[Sample], Equivalence]:
    """Register an equivalence under the slug of the function that draws its random cases."""

    def register(sample: Sample) -> Equivalence:
        slug = sample.__name__.replace("_", "-")
        description = dict(DESCRIPTIONS[slug])
        large_shapes = {
            n: tuple(v) if isinstance(v, list) else v for n, v in description.pop("large_shapes", {}).items()
        }
        description["why"] = " ".join(description["why"].split())
        sides: dict[str, Any] = {"left": left, "right": right}
        EQUIVALENCES[slug] = Equivalence(
            slug, **description, **sides, sample=sample, large_shapes=large_shapes, **more
        )
        return EQUIVALENCES[slug]

    return register


def equivalence_list() -> Document:
    """Every equivalence with its title.

    >>> print(equivalence_list().to_text().splitlines()[2])
      convolution-toeplitz            convolution = Toeplitz matrix
    """
    items = tuple(Item(entry.title, name) for name, entry in EQUIVALENCES.items())
    return Document("Equivalences", (Items(items),))


@dataclass(frozen=True)
class Cost:
    """The weights that one side stores and the work that it does."""

    weights: int
    flops: int
    others: int  # operations; by this name in JSON


@dataclass(frozen=True)
class Equality(Renderable):
    """The result: costs, the largest difference, and whether the small case is exactly equal."""

    equivalence: Equivalence
    left_cost: Cost
    right_cost: Cost
    difference: float
    cases: int
    proved: bool
    allowed: float = MAX_DIFFERENCE

    @property
    def holds(self) -> bool:
        return self.proved and self.difference <= self.allowed

    def traces(self) -> tuple[Trace, ...]:
        """Both sides of the small case, step by step."""
        left, right = (side_trace(side, self.equivalence.small_case) for side in self.equivalence.sides)
        if self.equivalence.limit is None:
            return left, right
        return left, left.limit(*self.equivalence.limit), right

    def as_data(self) -> dict[str, Any]:
        equivalence = self.equivalence
        large_shapes = None
        if equivalence.large_shapes:
            costs = [vars(count_cost(side, equivalence.large_shapes)) for side in equivalence.sides]
            large_shapes = {"case": equivalence.large_title, "costs": costs}
        return {
            "name": equivalence.slug,
            **{name: getattr(equivalence, name) for name in ("title", "why")},
            **{name: getattr(self, name) for name in ("holds", "proved", "difference", "allowed", "cases")},
            "left": {"name": equivalence.left.mechanism.slug, **vars(self.left_cost)},
            "right": {"name": equivalence.right.mechanism.slug, **vars(self.right_cost)},
            "large": large_shapes,
            "traces": [trace_data(trace) for trace in self.traces()],
        }

    def document(self) -> Document:
        """Both sides, their costs, how far they differ, and the exact proof of a small case."""
        equivalence = self.equivalence
        compared_cases = {
            "small, below": equivalence.small_case,
            **({equivalence.large_title: equivalence.large_shapes} if equivalence.large_shapes else {}),
        }
        rows = [
            (side.mechanism.slug, label, *vars(count_cost(side, case)).values())
            for label, case in compared_cases.items()
            for side in equivalence.sides
        ]
        costs = text_of("equal/costs")
        table = Table("", tuple(costs["columns"]), rows, costs["notes"])
        tends = " -> ".join(equivalence.limit or ()).replace("oo", "∞")
        verdict = {
            "proof": "both sides are the same" if self.proved else "THE SIDES DIFFER",
            "limit": f" in the limit {tends}" if tends else "",
            "too_much": "" if self.difference <= self.allowed else ", MORE THAN ALLOWED",
        }
        numbers = {name: getattr(self, name) for name in ("cases", "difference", "allowed")}
        text = text_of("equal/verdict", **verdict, **numbers)
        return Document(equivalence.title, (equivalence.why, table, text, *self.traces()), data=self.as_data)


def equal(name: str, /, *, cases: int = 100, seed: int = 0) -> Equality:
    """The report on whether both sides of a registered equivalence are the same thing.

    >>> same = equal("convolution-toeplitz", cases=5)
    >>> same.proved, same.left_cost.weights, same.right_cost.weights
    (True, 3, 63)
    """
    equivalence = EQUIVALENCES.get(name.replace("_", "-"))
    if equivalence is None:
        raise unknown_name("equivalence", name, EQUIVALENCES)
    cases = check_integer(cases, "cases", 1, 100_000)
    rng = np.random.default_rng(seed)
    largest = max(difference(equivalence, equivalence.sample(rng)) for _ in range(cases))
    left, right = (count_cost(side, equivalence.small_case) for side in equivalence.sides)
    return Equality(equivalence, left, right, largest, cases, is_proved(equivalence))


def difference(equivalence: Equivalence, case: Inputs) -> float:
    """The largest difference of the two outputs on one case, in float64."""
    inputs = {
        name: HandTensor(np.asarray(v, float)) if isinstance(v, np.ndarray) else v for name, v in case.items()
    }
    left, right = (side.run(inputs).array for side in equivalence.sides)
    if left.shape != right.shape:
        raise AssertionError(f"{equivalence.slug}: the sides give {left.shape} and {right.shape}")
    return float(np.abs(left - right).max())


def exact_inputs(small_case: Inputs, *sides: Side) -> dict[str, Any]:
    """The small case, typed arrays read exactly; the rest are options."""
    arrays = {card.name for side in sides for card in side.mechanism.inputs}
    return {
        name: read_tensor(v, exact=True).labelled(name) if name in arrays else v
        for name, v in small_case.items()
    }


def is_proved(equivalence: Equivalence) -> bool:
    """Whether both sides of the small case are exactly the same, every symbol left free."""
    inputs = exact_inputs(equivalence.small_case, *equivalence.sides)
    left, right = (side.run(inputs).array for side in equivalence.sides)
    if equivalence.limit:
        symbol, to = (read_number(text, exact=True) for text in equivalence.limit)
        left = np.vectorize(lambda x: limit(x, symbol, to), otypes=[object])(left)
    return left.shape == right.shape and all(map(is_zero, np.ravel(left - right)))


def is_zero(value: Any) -> bool:
    """Whether an exact expression is zero, by multiplying out its numerator.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> is_zero((x + 1) ** 2 / x - (x * x + 2 * x + 1) / x)
    True
    """
    import sympy

    if value == 0:
        return True
    numerator, _ = sympy.fraction(sympy.together(value))
    return bool(sympy.expand(numerator, trig=True) == 0)


def count_cost(side: Side, case: Inputs) -> Cost:
    """Weights stored and work done, from shapes alone; an array is typed text or its shape."""
    work = OperationCount()
    arrays = {card.name: case[card.name] for card in side.mechanism.inputs if card.name in case}
    recorded: dict[str, Any] = {
        name: ShapeTensor(v if isinstance(v, tuple) else read_tensor(v, exact=True).shape, work)
        for name, v in arrays.items()
    }
    side.run({**case, **recorded}, recorder(recorded))
    weights = sum(int(np.prod(recorded[name].shape)) for name in side.weight_names)
    return Cost(weights, work.flops, work.other_operations)


def side_trace(side: Side, small_case: Inputs) -> Trace:
    """The steps of one side on the small case, exactly."""
    case = side.inputs_of(exact_inputs(small_case, side))
    recorded: dict[str, HandTensor] = {}
    side.run(case, recorder(recorded))
    inputs = {name: v for name, v in case.items() if isinstance(v, HandTensor)}
    options = {name: v for name, v in case.items() if isinstance(v, (int, str))}
    return assemble(Trace, side.mechanism, inputs, recorded, options, exact=True)
