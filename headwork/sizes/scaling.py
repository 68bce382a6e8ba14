"""How the work of a mechanism grows with its sizes, counted from its definition.

The body runs on shapes at a few sizes, the polynomial through the counts is found exactly, and other
sizes verify it. Sizes: n (tokens, queries, time steps or positions), m (keys of another sequence), d
(width, channels, states), k (taps of a kernel along one side), s (side of an image).
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from headwork.errors import InputError
from headwork.note import MECHANISMS, Input, Mechanism, get_mechanism
from headwork.sizes.counting import check_sizes, count_rows
from headwork.sizes.ledger import WORDS, Ledger, Row, sum_rows
from headwork.sizes.polynomial import Polynomial, interpolate, verify

# Four values of a size fix a cubic; pooling has k to the fourth. Pairs need an even width; padding keeps the
# number of positions only for an odd kernel.
NODES = {"n": range(8, 12), "m": range(8, 12), "d": range(2, 10, 2), "k": range(1, 11, 2), "s": range(12, 16)}
CHECKS = ({"n": 13, "m": 17, "d": 10, "k": 11, "s": 17}, {"n": 21, "m": 12, "d": 14, "k": 13, "s": 20})
SIZE_OF = {word: size for size, words in WORDS["growth"]["axes"].items() for word in words.split()}


def countable_mechanisms() -> tuple[str, ...]:
    """The mechanisms whose growth can be counted: those whose every input is made of these sizes.

    >>> "self-attention" in countable_mechanisms(), "patches" in countable_mechanisms()
    (True, False)
    """
    return tuple(slug for slug, mechanism in MECHANISMS.items() if _countable(mechanism))


def _countable(mechanism: Mechanism) -> bool:
    words = {word for entry in _inputs(mechanism) for word in entry.axes.split()}
    known = {"heads", *(card.name for card in mechanism.inputs)}
    known |= {"size"} if "stride" in mechanism.options else set()
    return words <= {*SIZE_OF, "hidden"} and set(mechanism.required) <= known


def _inputs(mechanism: Mechanism) -> list[Input]:
    return [entry for entry in mechanism.inputs if entry.trained or entry.name in mechanism.required]


@cache
def growth(mechanism: str, *, heads: int = 1, hidden: int = 4, depthwise: bool = False) -> Ledger:
    """The multiply-adds, FLOPs and other operations of each step as polynomials in the sizes.

    ``heads`` is fixed; the hidden width of a feed-forward layer is ``hidden`` times d; ``depthwise``
    gives a convolution as many groups as channels.

    >>> growth("self-attention")["order"]
    'O(n^2 d + n d^2)'
    >>> str(growth("multi-head-attention", heads=2)["multiply-adds"])
    '2 n^2 d + 4 n d^2'
    """
    chosen = get_mechanism(mechanism)
    check_sizes("growth", heads=heads, hidden=hidden)
    if not _countable(chosen):
        raise InputError(
            f"growth: {chosen.slug} has sizes that cannot be varied independently. Known: "
            f"{', '.join(countable_mechanisms())}."
        )
    names = _sizes_of(chosen)
    if depthwise and "groups" not in chosen.options:
        raise InputError(
            f"growth: {chosen.slug} has no groups. Only convolution-1d and convolution-2d can be depthwise."
        )

    @cache
    def counts(values: tuple[int, ...]) -> dict[str, tuple[int, int]]:
        return _counts(chosen, dict(zip(names, values, strict=True)), heads, hidden, depthwise)

    scale = {name: heads if name == "d" else 1 for name in names}
    nodes = {name: [x * scale[name] for x in NODES[name]] for name in names}
    steps = counts(tuple(values[0] for values in nodes.values()))

    def polynomial_of(step: str, column: int) -> Polynomial:
        def count(at: Mapping[str, int]) -> int:
            return counts(tuple(at[name] for name in names))[step][column]

        polynomial = interpolate(count, nodes)
        for check in CHECKS:
            verify(polynomial, count, {name: check[name] * scale[name] for name in names})
        return polynomial

    rows = tuple(
        Row(name=step, multiply_adds=polynomial_of(step, 0), other_operations=polynomial_of(step, 1))
        for step in steps
    )
    total = sum_rows("total", rows)
    products, others = total.multiply_adds, total.other_operations
    if not isinstance(products, Polynomial) or not isinstance(others, Polynomial):
        raise InputError(f"growth: {chosen.slug} notes no steps that could be counted.")
    return Ledger(
        title=f"growth of {chosen.slug}",
        rows=rows,
        facts={
            "multiply-adds": products,
            "FLOPs": 2 * products,
            "other operations": others,
            "order": f"O({(products + others).order()})",
        },
        notes=tuple(_notes(chosen, names, products, heads, hidden, depthwise)),
        summed=True,
    )


def _sizes_of(mechanism: Mechanism) -> list[str]:
    """Which of n, m, d, k, s its inputs are made of."""
    image = any("height" in entry.axes.split() for entry in mechanism.inputs)
    words = [word for entry in _inputs(mechanism) for word in entry.axes.split()]
    used = {"s" if image and word == "width" else SIZE_OF.get(word, "d") for word in words}
    used |= {"k"} if "size" in mechanism.options else set()
    return [name for name in NODES if name in used]


def _counts(
    mechanism: Mechanism, at: Mapping[str, int], heads: int, hidden: int, depthwise: bool
) -> dict[str, tuple[int, int]]:
    """Multiply-adds and other operations of each step's card; the steps of a recurrence are one."""
    sizes = {word: at[size] for word, size in SIZE_OF.items() if size in at}
    sizes["hidden"] = hidden * at.get("d", 1)
    if "s" in at:
        sizes["width"] = at["s"]
    if mechanism.slug.startswith("recurrence"):
        sizes["output"] = at["d"]
    options: dict[str, Any] = {"heads": heads} if "heads" in mechanism.options else {}
    if "padding" in mechanism.options:
        options["padding"] = at["k"] // 2
    if "size" in mechanism.options:
        options |= {"size": at["k"], "stride": 1}
    if depthwise:
        options["groups"] = at["d"]
        sizes["group_channel"] = 1
    totals: dict[str, tuple[int, int]] = {}
    for row in count_rows(mechanism.slug, sizes, **options):
        if not isinstance(row.multiply_adds, int) or not isinstance(row.other_operations, int):
            continue
        name = mechanism.step(row.name).name
        products, others = totals.get(name, (0, 0))
        totals[name] = (products + row.multiply_adds, others + row.other_operations)
    return totals


def _notes(
    mechanism: Mechanism, names: list[str], products: Polynomial, heads: int, hidden: int, depthwise: bool
) -> list[str]:
    words = WORDS["growth"]["notes"]
    notes = ["; ".join(f"{name}: {WORDS['growth']['meanings'][name]}" for name in names) + "."]
    if "heads" in mechanism.options:
        notes.append(f"{heads} heads." if heads > 1 else "1 head.")
    if any("hidden" in entry.axes.split() for entry in mechanism.inputs):
        notes.append(f"The hidden width is {hidden} d.")
    notes += [words[option] for option in ("padding", "size") if option in mechanism.options]
    notes += [words["depthwise"]] * depthwise
    square, linear = products.coefficient(n=2, d=1), products.coefficient(n=1, d=2)
    if square and linear:
        ratio = Fraction(linear) / Fraction(square)
        notes.append(words["overtakes"].format(ratio="" if ratio == 1 else f"{ratio} "))
    return [*notes, words["counted"]]
