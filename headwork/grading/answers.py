"""A student's answer, read as numbers that know to how many digits they were written.

Decimals, fractions, exact expressions and matrices are read by ``headwork.numbers.typed``; nothing is ever
evaluated. A ``?`` or an empty entry is blank.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from headwork.errors import InputError, cut
from headwork.exercises.case import Array
from headwork.files import read_toml
from headwork.numbers.typed import nested_array, nested_texts

LARGEST_FILE, LONGEST_NAME = 200_000, 200
MAX_CELLS = 4_000
DECIMAL = re.compile(r"[-+]?(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d+))?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:([ ,_'])\d{3})(?:\1\d{3})*")


@dataclass(frozen=True)
class Entries:
    """The entries of one step. ``half_unit`` is half a unit of the last digit written, 0 where exact."""

    values: Array
    half_unit: Array
    decimals: Array
    significant: Array
    texts: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def finest(self) -> float:
        """Half a unit of the last digit of the most precise decimal; 0 where there is none."""
        decimals = self.half_unit[(self.half_unit > 0) & (self.significant >= 2)]
        decimals = decimals if decimals.size else self.half_unit[self.half_unit > 0]
        return float(decimals.min()) if decimals.size else 0.0

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
        same = _without_ones(self.shape) == _without_ones(shape)
        stacked = len(shape) > 2 and self.shape in (
            (math.prod(shape[:-1]), shape[-1]),
            (shape[0], math.prod(shape[1:])),
        )
        return self.rearrange(lambda part: part.reshape(shape)) if same or stacked else None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def read_entries(text: str, *, shape: tuple[int, ...] = (), axes: str = "") -> Entries | None:
    """The entries of one step, or None where nothing was filled in.

    >>> entries = read_entries("1/3 0.25; ? 2")
    >>> entries.values.round(3).tolist(), entries.half_unit.tolist()
    ([[0.333, 0.25], [nan, 2.0]], [[0.0, 0.005], [0.0, 0.005]])
    """
    text = str(text).strip()
    if shape == () and THOUSANDS.fullmatch(text):
        text = re.sub(r"[ ,_']", "", text)
    if axes == "axis":  # a shape: [1, 5, 12, 64], (1, 5, 12, 64) or 1 x 5 x 12 x 64
        text = re.sub(r"[x×*()]", " ", text).replace("[", " ").replace("]", " ").strip()
    if not text.strip(" ?;,[]\n\t"):
        return None
    nested = nested_texts(text)
    if isinstance(nested, str):
        nested = nested.strip() or "?"
    if _count(nested) > MAX_CELLS:
        raise InputError(f"more than {MAX_CELLS:,} entries.")
    try:
        numbers = nested_array(_fill_blanks(nested)).array
    except (OverflowError, RecursionError, ZeroDivisionError) as error:
        raise InputError(f"a number that cannot be computed ({type(error).__name__}).") from None
    texts = np.array(nested, dtype=object).reshape(numbers.shape)
    values = np.where(texts == "?", np.nan, numbers)
    precisions = [_precision(str(entry)) for entry in texts.flat]
    half_unit, decimals, significant = (
        np.array(part, float).reshape(numbers.shape) for part in zip(*precisions, strict=True)
    )
    entries = Entries(values, half_unit, decimals, significant, texts)
    # A bare 0 or 1 among decimals is rounded like them.
    finest = entries.finest
    integers = (half_unit == 0) & (decimals == 0) & (finest > 0)
    digits = np.round(-np.log10(2 * finest)) if finest else 0
    half_unit, decimals = np.where(integers, finest, half_unit), np.where(integers, digits, decimals)
    return replace(entries, half_unit=half_unit, decimals=decimals)


def _fill_blanks(nested: Any) -> Any:
    """The same texts with 0 at blank entries."""
    if isinstance(nested, list):
        return [_fill_blanks(part) for part in nested]
    return "0" if nested == "?" else nested


def _count(nested: Any) -> int:
    return sum(map(_count, nested)) if isinstance(nested, list) else 1


def _precision(entry: str) -> tuple[float, float, float]:
    """Half a unit of the last digit, decimals and significant digits; an exact form has (0, inf, inf)."""
    match = DECIMAL.fullmatch(entry.strip())
    if not match or not (match[1] or match[2]):
        return 0.0, math.inf, math.inf
    integer, fraction, power = match[1] or "", match[2] or "", int(match[3] or 0)
    significant = len((integer + fraction).lstrip("0"))
    decimals = len(fraction) - power
    # An integer counts as exact; ``tolerance`` decides by its digits whether it may be a rounded number.
    half_unit = 0.5 * 10.0**-decimals if fraction or power else 0.0
    return half_unit, float(decimals), float(significant)


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
    sparse = (entries.decimals < least) & (entries.significant < max(least, 2))
    # A short entry among longer ones (0.1 for 0.100, 0.0 for 0.0003) has lost its last zeros.
    short = max(asked, entries.finest if entries.finest <= 0.5 * 10.0**-least else 0.0)
    return np.where(sparse | integers, short, np.maximum(asked, rounded))


def mismatches(entries: Entries, reference: Array, allowed: Array) -> Array:
    """Which entries are further off than allowed; nothing matches an undefined value."""
    with np.errstate(all="ignore"):
        distance = np.abs(entries.values - reference)
        near = distance <= allowed * (1 + 1e-6) + 1e-12 * np.abs(reference)
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
    data = read_toml(source, max_bytes=LARGEST_FILE, root=source.parent)
    answers = data.get("answers")
    if not isinstance(answers, dict) or not all(isinstance(part, dict) for part in answers.values()):
        raise InputError(f"{source}: no table [answers.NAME]. Fill in the answer sheet of the exercise.")
    conventions = data.get("conventions", {})
    exercises = data.get("exercise", {})
    if not isinstance(conventions, dict) or not isinstance(exercises, dict):
        raise InputError(f"{source}: [conventions] and [exercise.NAME] must be tables.")
    texts = {
        str(name): {str(step): _text(value, f"{source}: {name}, {step}") for step, value in part.items()}
        for name, part in answers.items()
    }
    student, sheet = (cut(str(data.get(name, "")), LONGEST_NAME) for name in ("student", "sheet"))
    return AnswerFile(texts, student, sheet, exercises, conventions)


def _text(value: Any, where: str) -> str:
    """A step as text; a TOML list or number is accepted too."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, list)):
        raise InputError(f'{where}: expected numbers in quotes, such as "0.5 0.25".')
    return str(value).replace("'", "")
