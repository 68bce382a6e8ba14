"""Counting: the body of a mechanism run on shapes alone, its inputs sized by their cards.

A card names the axes of each input in words (``W_q``: key_width x width), so a size for each word fixes the
shape of everything. The work between two notes belongs to the later one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from operator import index
from typing import Any

import headwork.mechanisms  # noqa: F401  (registers the cards)
from headwork.documents.formulas import formula_for
from headwork.errors import InputError, TooLarge
from headwork.note import Input, Mechanism, get_mechanism
from headwork.numbers import OperationCount, ShapeTensor
from headwork.sizes.ledger import Row

MAX_SIZE = 10**9  # for one size: their products stay within what ShapeTensor can move about
MAX_GROUPS = 10_000  # the mechanism works group by group
BIASES = re.compile(r"(b|bias|shift)(_\w+)?")


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


def check_heads_divide_width(where: str, width: int, heads: int) -> None:
    """Refuse a number of heads that does not divide the width, and name the nearest ones that do."""
    check_sizes(where, width=width, heads=heads)
    if width % heads:
        divisors = [h for h in range(1, min(width, 1024) + 1) if width % h == 0]
        nearest = sorted(divisors, key=lambda h: abs(h - heads))[:3]
        raise InputError(
            f"{where}: width {width} cannot be cut into {heads} heads of one size "
            f"(remainder {width % heads}). Choose a number of heads that divides {width}, such as "
            f"{', '.join(map(str, sorted(nearest)))}; or the width {-(-width // heads) * heads}."
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
        if entry.name in without or (optional and not entry.trained and entry.name not in sizes):
            continue
        shape = tuple(sizes[_word(entry, word, sizes)] for word in entry.axes.split())
        shapes[entry.name] = shape if entry.trained or batch is None else (batch, *shape)
    return shapes


def _word(entry: Input, word: str, sizes: Mapping[str, int]) -> str:
    # A kernel of a grouped convolution reads only the channels of its group.
    return "group_channel" if entry.trained and word == "channel" and "group_channel" in sizes else word


def count_rows(
    name: str,
    sizes: Mapping[str, int],
    *,
    without: Sequence[str] = (),
    batch: int | None = None,
    columns: bool = False,
    **options: Any,
) -> list[Row]:
    """One row per input, then one per step, of a mechanism at these sizes.

    ``sizes`` has a number for each axis word of the inputs' cards; an input that is neither trained nor
    needed takes part when ``sizes`` names it (``memory=1``). ``without`` leaves inputs out, ``batch`` puts an
    axis before the others, ``columns`` writes formulas for tokens as columns.

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
        rows.append(
            Row(
                name=path,
                shape=value.shape,
                axes=axis_words(step.axes, value.shape),
                formula=formula_for(step, columns=columns, convention=applied, missing=missing),
                **work.pop_counts(),
            )
        )
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
    bias = entry.trained and BIASES.fullmatch(entry.name) is not None
    return Row(
        name=entry.name,
        shape=shape,
        axes=axis_words(entry.axes, shape),
        weights=prod(shape) if entry.trained and not bias else None,
        biases=prod(shape) if bias else None,
    )


def axis_words(axes: str, shape: Sequence[int]) -> str:
    """The axis words of a shape, with the leading batch that cards leave out."""
    words = axes.split()[-len(shape) :] if shape else []
    return " ".join(["batch"] * (len(shape) - len(words)) + words)
