"""What a student typed, read as numbers that know how exactly they were written.

Decimals, fractions, exact expressions and matrices come through ``headwork.numbers.typed``; nothing is ever
evaluated. A ``?`` or an empty entry is left open.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwork.errors import InputError
from headwork.files import read_toml
from headwork.numbers.typed import SymbolFound, nested_array, nested_texts

LARGEST_FILE = 200_000
MOST_CELLS = 4_000
DECIMAL = re.compile(r"[-+]?(\d*)(?:\.(\d*))?(?:[eE]([-+]?\d+))?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:([ ,_'])\d{3})(?:\1\d{3})*")
Array = Any


@dataclass(frozen=True)
class Entries:
    """One step as it was written. ``half`` is half a unit of the last digit written, 0 where exact."""

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
        """Half a unit of the last digit of the most exactly written decimal; 0 where there is none."""
        decimals = self.half_unit[(self.half_unit > 0) & (self.significant >= 2)]
        decimals = decimals if decimals.size else self.half_unit[self.half_unit > 0]
        return float(decimals.min()) if decimals.size else 0.0

    @property
    def open(self) -> Array:
        return np.isnan(self.values)

    def moved(self, move: Any) -> Entries:
        """The same entries in other places."""
        return Entries(
            *(
                move(part)
                for part in (self.values, self.half_unit, self.decimals, self.significant, self.texts)
            )
        )

    def fitted(self, shape: tuple[int, ...]) -> Entries | None:
        """The entries in that shape, where they fit: axes of one may be left out, several be written as one."""
        if self.shape == shape:
            return self
        same = _without_ones(self.shape) == _without_ones(shape)
        stacked = len(shape) > 2 and self.shape in (
            (math.prod(shape[:-1]), shape[-1]),
            (shape[0], math.prod(shape[1:])),
        )
        return self.moved(lambda part: part.reshape(shape)) if same or stacked else None


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
    nested = _entries(text)
    if isinstance(nested, str):
        nested = _filled(nested)
    blank = _mapped(nested, lambda entry: "0" if entry == "?" else entry)
    if _count(nested) > MOST_CELLS:
        raise InputError(f"more than {MOST_CELLS:,} entries.")
    try:
        numbers = nested_array(blank).array
    except SymbolFound as symbol:
        raise InputError(f"'{symbol}' is a symbol; a number is expected here.") from None
    except (OverflowError, RecursionError, ZeroDivisionError) as error:
        raise InputError(f"a number that cannot be worked with ({type(error).__name__}).") from None
    texts = np.array(nested, dtype=object).reshape(numbers.shape)
    values = np.where(texts == "?", np.nan, numbers)
    written = [_written(str(entry)) for entry in texts.flat]
    half_unit, decimals, significant = (
        np.array(part, float).reshape(numbers.shape) for part in zip(*written, strict=True)
    )
    # A bare 0 or 1 among decimals is rounded like them.
    plain = Entries(values, half_unit, decimals, significant, texts)
    whole = (half_unit == 0) & (decimals == 0) & (plain.finest > 0)
    finest = np.round(-np.log10(2 * plain.finest)) if plain.finest else 0
    return Entries(
        values,
        np.where(whole, plain.finest, half_unit),
        np.where(whole, finest, decimals),
        significant,
        texts,
    )


def _entries(text: str) -> Any:
    return nested_texts(text)


def _filled(entry: str) -> str:
    return entry.strip() or "?"


def _mapped(nested: Any, change: Any) -> Any:
    return [_mapped(part, change) for part in nested] if isinstance(nested, list) else change(nested)


def _count(nested: Any) -> int:
    return sum(map(_count, nested)) if isinstance(nested, list) else 1


def _written(entry: str) -> tuple[float, float, float]:
    """Half a unit of the last digit, digits after the point and significant digits; exact forms are (0, inf, inf)."""
    match = DECIMAL.fullmatch(entry.strip())
    if not match or not (match[1] or match[2]):
        return 0.0, math.inf, math.inf
    whole, part, power = match[1] or "", match[2] or "", int(match[3] or 0)
    significant = len((whole + part).lstrip("0"))
    decimals = len(part) - power
    # A whole number is taken at its word; how many digits it has decides whether it may be a rounded one.
    half_unit = 0.5 * 10.0**-decimals if part or power else 0.0
    return half_unit, float(decimals), float(significant)


# --- comparing ----------------------------------------------------------------------------------------


def has_enough_digits(typed: Entries, digits: int) -> Array:
    """Where at least the asked digits were written, after the point or in all."""
    return (typed.decimals >= digits) | (typed.significant >= digits)


def tolerance(typed: Entries, digits: int) -> Array:
    """How far each entry may be off: half a unit of the last digit written or asked, the larger of both.

    Fewer digits than asked still count, down to half as many; fewer than that say too little to be right.
    """
    asked = 0.5 * 10.0**-digits
    least = (digits + 1) // 2
    rounded = np.where(typed.half_unit > 0, typed.half_unit, np.where(typed.significant < math.inf, 0.5, 0.0))
    whole = (typed.half_unit == 0) & (typed.significant < max(digits, 3))
    sparse = (typed.decimals < least) & (typed.significant < max(least, 2))
    # A short entry among longer ones (0.1 for 0.100, 0.0 for 0.0003) has lost its last zeros: it is as exact as they.
    short = max(asked, typed.finest if typed.finest <= 0.5 * 10.0**-least else 0.0)
    return np.where(sparse | whole, short, np.maximum(asked, rounded))


def mismatches(typed: Entries, reference: Array, allowed: Array) -> Array:
    """Which entries are further off than allowed (a value that is undefined is never met)."""
    with np.errstate(all="ignore"):
        gap = np.abs(typed.values - reference)
        near = gap <= allowed * (1 + 1e-6) + 1e-12 * np.abs(reference)
    return ~(near | (typed.values == reference))


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
    if source.is_symlink():
        raise InputError(f"{source}: a symbolic link. Hand in the file itself.")
    if not source.is_file():
        raise InputError(f"{source}: not a plain file.")
    data = read_toml(source, most=LARGEST_FILE)
    answers = data.get("answers")
    if not isinstance(answers, dict) or not all(isinstance(part, dict) for part in answers.values()):
        raise InputError(
            f"{source}: no table [answers.NAME]. Fill in the answer sheet that came with the exercise."
        )
    conventions = data.get("conventions", {})
    exercises = data.get("exercise", {})
    if not isinstance(conventions, dict) or not isinstance(exercises, dict):
        raise InputError(f"{source}: [conventions] and [exercise.NAME] must be tables.")
    texts = {
        str(name): {str(step): _text(value, f"{source}: {name}, {step}") for step, value in part.items()}
        for name, part in answers.items()
    }
    return AnswerFile(texts, str(data.get("student", "")), str(data.get("sheet", "")), exercises, conventions)


def _text(value: Any, where: str) -> str:
    """A step as text; a TOML list or number is as good."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, list)):
        raise InputError(f'{where}: expected numbers in quotes, such as "0.5 0.25".')
    return str(value).replace("'", "")
