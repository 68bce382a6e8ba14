"""A student's answer, read as numbers that know to how many digits they were written.

Decimals, fractions, exact expressions and matrices are read by ``headwork.numbers.parsing``; nothing is ever
evaluated. A ``?`` or an empty entry is blank.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from headwork.errors import InputError, truncate, unknown_name
from headwork.exercises.case import Array
from headwork.files import read_toml
from headwork.numbers.parsing import join_mixed_numbers, read_number, split_entries, tensor_from_lists
from headwork.numbers.pasted import strip_wrappers

LARGEST_FILE, LONGEST_NAME = 200_000, 200
MAX_CELLS = 4_000
CONVENTIONS = {"tokens_as": ("rows", "columns")}
# A decimal as typed: 0.5, 5e-1, 5*10^(-1), (0.5), 50%.
DECIMAL = re.compile(
    r"\(?[-+]?([0-9]*)(?:\.([0-9]*))?(?:(?:[eE]| ?\* ?10 ?\^ ?\(?)([-+]?[0-9]{1,4})\)?)?\)? ?(%?)"
)
ONE_CELL = re.compile(r"\A\|[ \t]+([^|\n]*?)[ \t]+\|\Z")  # a Markdown table of one number
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:([ ,_'])\d{3})(?:\1\d{3})*")


@dataclass(frozen=True)
class Entries:
    """The entries of one step. ``half_unit`` is half a unit of the last digit written, 0 where exact."""

    values: Array
    half_unit: Array
    decimal_places: Array
    significant: Array
    texts: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def smallest_half_unit(self) -> float:
        """Half a unit of the last digit of the most precise decimal; 0 where there is none."""
        half_units = self.half_unit[(self.half_unit > 0) & (self.significant >= 2)]
        half_units = half_units if half_units.size else self.half_unit[self.half_unit > 0]
        return float(half_units.min()) if half_units.size else 0.0

    @property
    def blank(self) -> Array:
        return np.isnan(self.values)

    def rearrange(self, change: Callable[[Array], Array]) -> "Entries":
        """The same entries at other positions."""
        return Entries(*(change(getattr(self, f.name)) for f in fields(self)))

    def fit(self, shape: tuple[int, ...]) -> "Entries | None":
        """The entries in that shape, or None: axes of size 1 may be left out, several written as one."""
        if self.shape == shape:
            return self
        same_sizes = _without_ones(self.shape) == _without_ones(shape)
        stacked = len(shape) > 2 and self.shape in (
            (math.prod(shape[:-1]), shape[-1]),
            (shape[0], math.prod(shape[1:])),
        )
        return self.rearrange(lambda part: part.reshape(shape)) if same_sizes or stacked else None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def read_entries(text: str, *, shape: tuple[int, ...] | None = None, axes: str = "") -> Entries | None:
    """The entries of one step, or None where nothing was filled in; ``shape`` tells 2 1/3 from two entries.

    >>> entries = read_entries("1/3 0.25; ? 2")
    >>> entries.values.round(3).tolist(), entries.half_unit.tolist()
    ([[0.333, 0.25], [nan, 2.0]], [[0.0, 0.005], [0.0, 0.005]])
    >>> float(read_entries("2 1/4", shape=()).values)
    2.25
    """
    text = ONE_CELL.sub(r"\1", str(text).strip())
    if not text.strip(" ?;,[]\n\t"):
        return None
    if axes == "axis":  # a shape: [1, 5, 12, 64], (1, 5, 12, 64) or 1 x 5 x 12 x 64
        text = re.sub(r"[x*()\[\];\s]", " ", strip_wrappers(text))
    if shape == ():
        if THOUSANDS.fullmatch(text):
            text = re.sub(r"[ ,_']", "", text)
        with suppress(InputError):
            return _read(*split_entries(text, single=True))
    nested, factor = split_entries(text)
    if shape and not _fits(nested, shape) and _fits(joined := join_mixed_numbers(nested), shape):
        nested = joined
    return _read(nested, factor)


def _fits(nested: Any, shape: tuple[int, ...]) -> bool:
    return _without_ones(np.shape(np.array(nested, object))) in (
        _without_ones(shape),
        _without_ones(shape[::-1]),
    )


def _read(nested: Any, factor: str) -> Entries:
    if isinstance(nested, str):
        nested = nested.strip() or "?"
    if _count(nested) > MAX_CELLS:
        raise InputError(f"more than {MAX_CELLS:,} entries.")
    try:
        numbers = tensor_from_lists(_fill_blanks(nested)).array
    except (OverflowError, RecursionError, ZeroDivisionError) as error:
        raise InputError(f"a number that cannot be computed ({type(error).__name__}).") from None
    texts = np.array(nested, dtype=object).reshape(numbers.shape)
    values = np.where(texts == "?", np.nan, numbers)
    precisions = [_precision(str(entry)) for entry in texts.flat]
    half_unit, decimal_places, significant = (
        np.array(part, float).reshape(numbers.shape) for part in zip(*precisions, strict=True)
    )
    if factor:  # what is no decimal is exact, and so is its multiple
        number, exact = read_number(factor), half_unit == 0
        values, half_unit = values * number, half_unit * abs(number)
        decimal_places = np.where(exact, math.inf, decimal_places)
        significant = np.where(exact, math.inf, significant)
    entries = Entries(values, half_unit, decimal_places, significant, texts)
    # A bare 0 or 1 among decimals is rounded like them.
    smallest_half_unit = entries.smallest_half_unit
    integers = (half_unit == 0) & (decimal_places == 0) & (smallest_half_unit > 0)
    digits = np.round(-np.log10(2 * smallest_half_unit)) if smallest_half_unit else 0
    decimal_places = np.where(integers, digits, decimal_places)
    return replace(
        entries, half_unit=np.where(integers, smallest_half_unit, half_unit), decimal_places=decimal_places
    )


def as_counts(entries: Entries, *, about: bool) -> Entries:
    """The entries of what is counted: exact, or where "about" is asked, with the zeros at the end as rounded.

    What is no whole number keeps its digits: it is no count, but a later step may follow from it.

    >>> as_counts(read_entries("37000"), about=True).half_unit.tolist()
    500.0
    """
    if not about:
        is_whole = entries.values == np.round(entries.values)
        half_unit = np.where(is_whole, 0.0, entries.half_unit)
        decimal_places, significant = (
            np.where(is_whole, math.inf, x) for x in (entries.decimal_places, entries.significant)
        )
        return replace(entries, half_unit=half_unit, decimal_places=decimal_places, significant=significant)
    zeros = [len(text) - len(text.rstrip("0")) if text.isdigit() else 0 for text in entries.texts.flat]
    rounded = np.array(zeros, float).reshape(entries.shape)
    return replace(
        entries,
        half_unit=np.where(rounded > 0, 0.5 * 10.0**rounded, entries.half_unit),
        decimal_places=np.where(rounded > 0, -rounded, entries.decimal_places),
        significant=np.where(rounded > 0, entries.significant - rounded, entries.significant),
    )


def _fill_blanks(nested: Any) -> Any:
    """The same texts with 0 at blank entries."""
    if isinstance(nested, list):
        return [_fill_blanks(part) for part in nested]
    return "0" if nested == "?" else nested


def _count(nested: Any) -> int:
    return sum(map(_count, nested)) if isinstance(nested, list) else 1


def _precision(entry: str) -> tuple[float, float, float]:
    """Half a unit of the last digit, decimal places, significant digits; an exact form has (0, inf, inf)."""
    match = DECIMAL.fullmatch(entry.strip())
    if not match or not (match[1] or match[2]):
        return 0.0, math.inf, math.inf
    integer, fraction = match[1] or "", match[2] or ""
    power = int(match[3] or 0) - (2 if match[4] else 0)
    significant = len((integer + fraction).lstrip("0"))
    decimal_places = len(fraction) - power
    # An integer counts as exact; ``tolerance`` decides by its digits whether it may be a rounded number.
    half_unit = 0.5 * 10.0**-decimal_places if fraction or power else 0.0
    return half_unit, float(decimal_places), float(significant)


# --- comparing ----------------------------------------------------------------------------------------
def tolerance(entries: Entries, digits: int) -> Array:
    """How far each entry may be off: half a unit of the last digit written or asked, the larger of both.

    Fewer digits than asked are accepted, down to half as many.
    """
    asked = 0.5 * 10.0**-digits
    least = (digits + 1) // 2
    rounded = np.where(
        entries.half_unit > 0, entries.half_unit, np.where(entries.significant < math.inf, 0.5, 0.0)
    )
    integers = (entries.half_unit == 0) & (entries.significant < max(digits, 3))
    sparse = (entries.decimal_places < least) & (entries.significant < max(least, 2))
    # A short entry among longer ones (0.1 for 0.100, 0.0 for 0.0003) has lost its last zeros.
    short = max(
        asked, entries.smallest_half_unit if entries.smallest_half_unit <= 0.5 * 10.0**-least else 0.0
    )
    return np.where(sparse | integers, short, np.maximum(asked, rounded))


def one_unit_tolerance(entries: Entries, reference: Array, digits: int) -> Array:
    """How far an entry may be off if its last digit may be off by one, as when digits are cut off.

    That takes two significant digits. With fewer digits than asked the right number must not end there too:
    0.26 for 0.2689 is cut off, 0.26 for 0.25 is not.
    """
    unit = 2 * entries.half_unit
    with np.errstate(all="ignore"):
        ends = np.abs(reference / unit - np.round(reference / unit)) < 1e-6
    allowed = (unit > 0) & (entries.significant >= 2) & (~ends | (entries.decimal_places >= digits))
    return np.where(allowed, 1.5 * unit, 0.0)


def mismatches(entries: Entries, reference: Array, allowed: Array) -> Array:
    """Which entries are further off than allowed; nothing matches an undefined value."""
    with np.errstate(all="ignore"):
        distance = np.abs(entries.values - reference)
        near = distance <= allowed * (1 + 1e-6) + 1e-12 * np.abs(np.nan_to_num(reference, posinf=0, neginf=0))
    return ~(near | (entries.values == reference))


# --- files --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AnswerFile:
    """A filled-in answer sheet: for each exercise the text of each step."""

    answers: Mapping[str, Mapping[str, str]]
    student: str = ""
    sheet: str = ""
    exercises: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    conventions: Mapping[str, str] = field(default_factory=dict)


def read_answers(path: str | Path) -> AnswerFile:
    """An answer file, or an InputError that says why it cannot be read."""
    source = Path(path)
    return answers_from(read_toml(source, max_bytes=LARGEST_FILE, root=source.parent), source)


def answers_from(data: Mapping[str, Any], source: str | Path) -> AnswerFile:
    """An answer file from its entries."""
    answers = data.get("answers")
    if not isinstance(answers, dict) or not all(isinstance(part, dict) for part in answers.values()):
        raise InputError(f"{source}: no table [answers.NAME]. Fill in the answer sheet of the exercise.")
    conventions = data.get("conventions", {})
    exercises = data.get("exercise", {})
    if not isinstance(conventions, dict) or not isinstance(exercises, dict):
        raise InputError(f"{source}: [conventions] and [exercise.NAME] must be tables.")
    for name, value in conventions.items():
        if name not in CONVENTIONS:
            raise InputError(f"{source}: {unknown_name('convention', name, CONVENTIONS)}")
        if value not in CONVENTIONS[name]:
            raise InputError(f"{source}: {unknown_name(name, value, CONVENTIONS[name])}")
    texts = {
        str(name): {str(step): _text(value, f"{source}: {name}, {step}") for step, value in part.items()}
        for name, part in answers.items()
    }
    student, sheet = (truncate(str(data.get(name, "")), LONGEST_NAME) for name in ("student", "sheet"))
    return AnswerFile(texts, student, sheet, exercises, conventions)


def _text(value: Any, where: str) -> str:
    """A step as text; a TOML list or number is accepted too."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, list)):
        raise InputError(f'{where}: expected numbers in quotes, such as "0.5 0.25".')
    return str(value).replace("'", "")
