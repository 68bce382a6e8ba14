"""Answers as variables of a notebook: their names, and their values as a person types them."""

import builtins
import keyword
import re
from decimal import Decimal
from numbers import Number
from typing import Any

from headwork.errors import InputError
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.exercise import Exercise
from headwork.grading.answers import LARGEST_FILE

MAX_DECIMALS = 17


def variables(exercise: Exercise, prefix: str = "") -> dict[str, str]:
    """The variable that each asked step (or field of a challenge) is written into.

    >>> variables(Exercise("softmax", {"scores": "0 0"}), "q2_")
    {'exponentials': 'q2_exponentials', 'total': 'q2_total', 'weights': 'q2_weights'}
    """
    names: dict[str, str] = {}
    for blank in CHALLENGES[exercise.mechanism].fields if exercise.is_challenge else exercise.asked:
        name = prefix + re.sub(r"\W+", "_", blank).strip("_")
        name = name if name.isidentifier() else f"step_{name}"
        while keyword.iskeyword(name) or hasattr(builtins, name) or name in names.values():
            name += "_"
        names[blank] = name
    return names


def value_text(value: Any) -> str:
    """A value as a person types it. Floats of one array get as many decimals as the longest of them needs.

    >>> value_text([[0.5, 0.25], [1.0, 2.0]]), value_text("1/2 1/4")
    ('[[0.50, 0.25], [1.00, 2.00]]', '1/2 1/4')
    """
    plain = _plain(value)
    text = _nested_text(plain, min(_decimals(plain), MAX_DECIMALS))
    if len(text) > LARGEST_FILE:
        raise InputError(f"{len(text):,} characters; at most {LARGEST_FILE:,} are read.")
    return text


def _plain(value: Any) -> Any:
    """The value as lists, strings and numbers; arrays and tensors become lists."""
    if value is None or isinstance(value, str):
        return value or ""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    numeric = isinstance(value, Number) or type(value).__module__.startswith("sympy.")
    if isinstance(value, bool) or not numeric:
        raise InputError(
            f"a value of type {type(value).__name__}; expected numbers, a list, an array or a string."
        )
    return value


def _decimals(plain: Any) -> int:
    """The most decimals that any float of it needs."""
    if isinstance(plain, list):
        return max(map(_decimals, plain), default=0)
    exponent = Decimal(repr(float(plain))).normalize().as_tuple().exponent if isinstance(plain, float) else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _nested_text(plain: Any, decimals: int) -> str:
    if isinstance(plain, list):
        return "[" + ", ".join(_nested_text(part, decimals) for part in plain) + "]"
    if isinstance(plain, float):
        return "?" if plain != plain else f"{plain:.{decimals}f}"
    return str(plain)
