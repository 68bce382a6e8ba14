"""Counting: the body of a mechanism run on shapes alone, its inputs sized by their cards; and how that grows.

A card names the axes of each input in words (``W_q``: key_width x width), so a size for each word fixes the
shape of everything. The work between two notes belongs to the later one.

For growth the body runs at a few sizes, the polynomial through the counts is found exactly, and other sizes
verify it. Sizes: n (tokens, queries, time steps or positions), m (keys of another sequence), d (width,
channels, states), k (taps of a kernel along one side), s (side of an image).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from math import prod
from operator import index
from typing import Any

import headwork.mechanisms  # noqa: F401  (registers the cards)
from headwork.documents.formulas import formula_for
from headwork.errors import InputError, TooLarge
from headwork.note import MECHANISMS, Input, Mechanism, get_mechanism
from headwork.numbers import OperationCount, ShapeTensor
from headwork.sizes.ledger import Ledger, Row, sum_rows, text_of
from headwork.sizes.polynomial import Polynomial, interpolate, verify

MAX_SIZE = 10**9  # for one size: their products stay within what ShapeTensor can move about
MAX_GROUPS = 10_000  # the mechanism works group by group
BIAS_NAME = re.compile(r"(b|bias|shift)(_\w+)?")


def check_sizes(where: str, minimum: int = 1, **sizes: Any) -> None:
    """Refuse sizes that are not whole numbers, or too small or large.

    >>> check_sizes("patches", patch=0)
    Traceback (most recent call last):
    headwork.errors.InputError: patches: patch is 0. Expected a whole number from 1 to 1,000,000,000.
    """
    for name, size in sizes.items():
        try:
            fits = not isinstance(size, bool) and minimum <= index(size) <= MAX_SIZE
        except TypeError:
            fits = False
        if not fits:
            text = size if len(str(size)) < 40 else f"{str(size)[:12]}..."
            name = name.replace("_", " ")
            raise InputError(
                f"{where}: {name} is {text}. Expected a whole number from {minimum} to {MAX_SIZE:,}."
            )


def shapes_of(
    mechanism: Mechanism, sizes: Mapping[str, int], *, without: Sequence[str] = (), batch: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The shape of each input by the words of its card; what is neither trained nor needed is left out.

    >>> sizes = {"token": 5, "width": 8, "key_width": 4, "value_width": 8}
    >>> shapes_of(get_mechanism("self-attention"), sizes)["W_q"]
    (4, 8)
    """
    shapes = {}
    for entry in mechanism.inputs:
        optional = entry.name not in mechanism.required
        if entry.name in without or (optional and not entry.trainable and entry.name not in sizes):
            continue
        # A kernel of a grouped convolution reads only the channels of its group.
        parameter_sizes = {**sizes, "channel": sizes["group_channel"]} if "group_channel" in sizes else sizes
        shape = tuple((parameter_sizes if entry.trainable else sizes)[word] for word in entry.axes.split())
        shapes[entry.name] = shape if entry.trainable or batch is None else (batch, *shape)
    return shapes


def count_rows(
    name: str,
    sizes: Mapping[str, int],
    *,
    without: Sequence[str] = (),
    batch: int | None = None,
    tokens_as_columns: bool = False,
    **options: Any,
) -> list[Row]:
    """One row per input, then one per step, of a mechanism at these sizes.

    ``sizes`` has a number for each axis word of the inputs' cards; an input that is neither trained nor
    needed takes part when ``sizes`` names it (``memory=1``). ``without`` leaves inputs out, ``batch`` puts an
    axis before the others, ``tokens_as_columns`` writes formulas for tokens as columns.

    >>> rows = count_rows("feed-forward", {"token": 5, "width": 4, "hidden": 16})
    >>> [(row.name, row.shape, row.multiply_adds) for row in rows if row.multiply_adds]
    [('hidden', (5, 16), 320), ('output', (5, 4), 320)]
    """
    mechanism = get_mechanism(name)
    work = OperationCount()
    shapes = shapes_of(mechanism, sizes, without=without, batch=batch)
    rows = [_input_row(entry, shapes[entry.name]) for entry in mechanism.inputs if entry.name in shapes]
    convention = mechanism.options.get("convention")
    applied = "x W" if convention is None else options.get("convention", convention.default)
    missing = [entry.name for entry in mechanism.inputs if entry.name not in shapes]

    def note(path: str, value: Any, /) -> Any:
        step = mechanism.step(path)
        axes = axis_words(step.axes, value.shape)
        formula = formula_for(step, tokens_as_columns=tokens_as_columns, convention=applied, missing=missing)
        rows.append(Row(name=path, shape=value.shape, axes=axes, formula=formula, **work.pop_counts()))
        return value

    with size_limit(mechanism.slug):
        mechanism.run({**{n: ShapeTensor(s, work) for n, s in shapes.items()}, **options}, note)
    return rows


@contextmanager
def size_limit(slug: str) -> Iterator[None]:
    """Sizes beyond what ShapeTensor can move about, as an error that says so."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        if "too large" not in str(error) and "too big" not in str(error):
            raise
        raise TooLarge(
            f"{slug}: shapes of more than 2^63 entries are not counted. Take smaller sizes."
        ) from None


def _input_row(entry: Input, shape: tuple[int, ...]) -> Row:
    bias = entry.trainable and BIAS_NAME.fullmatch(entry.name) is not None
    return Row(
        name=entry.name,
        shape=shape,
        axes=axis_words(entry.axes, shape),
        weights=prod(shape) if entry.trainable and not bias else None,
        biases=prod(shape) if bias else None,
    )


def axis_words(axes: str, shape: Sequence[int]) -> str:
    """The axis words of a shape, with the leading batch that cards leave out."""
    card_words = axes.split()[-len(shape) :] if shape else []
    return " ".join(["batch"] * (len(shape) - len(card_words)) + card_words)


# Four values of a size fix a cubic; pooling has k to the fourth. Pairs need an even width; padding keeps the
# number of positions only for an odd kernel.
NODES = {"n": range(8, 12), "m": range(8, 12), "d": range(2, 10, 2), "k": range(1, 11, 2), "s": range(12, 16)}
CHECKS = ({"n": 13, "m": 17, "d": 10, "k": 11, "s": 17}, {"n": 21, "m": 12, "d": 14, "k": 13, "s": 20})
SIZE_OF = {word: size for size, axes in text_of("growth/axes").items() for word in axes.split()}


def countable_mechanisms() -> tuple[str, ...]:
    """The mechanisms whose growth can be counted: those whose every input is made of these sizes.

    >>> "self-attention" in countable_mechanisms(), "patches" in countable_mechanisms()
    (True, False)
    """
    return tuple(slug for slug, mechanism in MECHANISMS.items() if _countable(mechanism))


def _countable(mechanism: Mechanism) -> bool:
    axes = {word for entry in _inputs(mechanism) for word in entry.axes.split()}
    known = {"heads", *(card.name for card in mechanism.inputs)}
    known |= {"size"} if "stride" in mechanism.options else set()
    return axes <= {*SIZE_OF, "hidden"} and set(mechanism.required) <= known


def _inputs(mechanism: Mechanism) -> list[Input]:
    return [entry for entry in mechanism.inputs if entry.trainable or entry.name in mechanism.required]


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
            f"growth: {chosen.slug} has sizes that cannot be varied independently. "
            f"Known: {', '.join(countable_mechanisms())}."
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
        def count(letter_sizes: Mapping[str, int]) -> int:
            return counts(tuple(letter_sizes[name] for name in names))[step][column]

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
    facts: dict[str, Any] = {"multiply-adds": products, "FLOPs": 2 * products, "other operations": others}
    facts["order"] = f"O({(products + others).order()})"
    notes = tuple(_notes(chosen, names, products, heads, hidden, depthwise))
    return Ledger(title=f"growth of {chosen.slug}", rows=rows, facts=facts, notes=notes, summed=True)


def _sizes_of(mechanism: Mechanism) -> list[str]:
    """Which of n, m, d, k, s its inputs are made of."""
    image = any("height" in entry.axes.split() for entry in mechanism.inputs)
    axes = [word for entry in _inputs(mechanism) for word in entry.axes.split()]
    used = {"s" if image and word == "width" else SIZE_OF.get(word, "d") for word in axes}
    used |= {"k"} if "size" in mechanism.options else set()
    return [name for name in NODES if name in used]


def _counts(
    mechanism: Mechanism, letter_sizes: Mapping[str, int], heads: int, hidden: int, depthwise: bool
) -> dict[str, tuple[int, int]]:
    """Multiply-adds and other operations of each step's card; the steps of a recurrence are one."""
    sizes = {word: letter_sizes[size] for word, size in SIZE_OF.items() if size in letter_sizes}
    sizes["hidden"] = hidden * letter_sizes.get("d", 1)
    if "s" in letter_sizes:
        sizes["width"] = letter_sizes["s"]
    if mechanism.slug.startswith("recurrence"):
        sizes["output"] = letter_sizes["d"]
    options: dict[str, Any] = {"heads": heads} if "heads" in mechanism.options else {}
    if "padding" in mechanism.options:
        options["padding"] = letter_sizes["k"] // 2
    if "size" in mechanism.options:
        options |= {"size": letter_sizes["k"], "stride": 1}
    if depthwise:
        options["groups"] = letter_sizes["d"]
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
    meanings = text_of("growth/meanings")
    notes = ["; ".join(f"{name}: {meanings[name]}" for name in names) + "."]
    if "heads" in mechanism.options:
        notes.append(f"{heads} heads." if heads > 1 else "1 head.")
    if any("hidden" in entry.axes.split() for entry in mechanism.inputs):
        notes.append(f"The hidden width is {hidden} d.")
    notes += [
        text_of(f"growth/options/{option}") for option in ("padding", "size") if option in mechanism.options
    ]
    notes += [text_of("growth/depthwise")] * depthwise
    square, linear = products.coefficient(n=2, d=1), products.coefficient(n=1, d=2)
    if square and linear:
        ratio = Fraction(linear) / Fraction(square)
        notes.append(text_of("growth/overtakes", ratio="" if ratio == 1 else f"{ratio} "))
    return [*notes, text_of("growth/counted")]
