"""Exercises read from TOML: a teacher's own file, or a kind with its seed."""

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from headwork.errors import InputError, TooLarge, check_all_known, check_known
from headwork.exercises.exercise import Exercise
from headwork.exercises.generation import generate
from headwork.files import read_toml

ROUNDING = ("free", "part", "wrong")
MAX_DIGITS, MAX_POINTS = 12, 1_000_000
MAX_ENTRIES, MAX_STEPS = 4_000, 60  # of an input or step; of all: marking works each out a thousand times


def read_exercise(path: str | Path) -> Exercise:
    """An exercise from its file, checked by solving it once."""
    return exercise_from(read_toml(path), str(path))


def exercise_from(data: Mapping[str, Any], where: str) -> Exercise:
    """An exercise from its entries; ``kind`` with a ``seed`` and no numbers is generated."""
    check_all_known("entry", data, [f.name for f in fields(Exercise)], where)
    if "mechanism" not in data:
        if "kind" not in data:
            raise InputError(
                f"{where}: neither a mechanism nor a kind. "
                'Expected mechanism = "self-attention", or kind and seed.'
            )
        seed, difficulty = read_integer(data, "seed", 0, where), read_integer(data, "difficulty", 1, where)
        return generate(str(data["kind"]), seed, difficulty)
    tables = {name: data.get(name, {}) for name in ("inputs", "options", "points")}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise InputError(f"{where}: {name} is {table!r}. Expected a table [{name}].")
    exercise = Exercise(
        mechanism=str(data["mechanism"]).replace("_", "-"),
        inputs=tables["inputs"],
        options=tables["options"],
        points=read_points(tables["points"], where),
        **{name: str(data[name]) for name in ("kind", "title", "question") if name in data},
        seed=data.get("seed"),
        difficulty=read_integer(data, "difficulty", 1, where),
        digits=read_integer(data, "digits", 4, where, maximum=MAX_DIGITS),
        hints=read_integer(data, "hints", 3, where, maximum=3),
        rounding=_choice(data, "rounding", ROUNDING, where),
        tokens_as=_choice(data, "tokens_as", ("rows", "columns"), where),
    )
    try:
        if exercise.asked and not exercise.is_challenge:
            if (count := len(exercise.trace.steps)) > MAX_STEPS:
                raise TooLarge(f"{count:,} steps; an exercise has at most {MAX_STEPS}. Give fewer tokens.")
            for name, value in {**exercise.trace.inputs, **exercise.trace.steps}.items():
                if (size := value.raw.array.size) > MAX_ENTRIES:
                    raise TooLarge(f"{name} has {size:,} entries; an exercise has at most {MAX_ENTRIES:,}.")
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return exercise


def read_points(points: Mapping[str, Any], where: str) -> dict[str, float]:
    """The points of each step: numbers, of which none is below 0, huge or undefined."""
    read: dict[str, float] = {}
    for path, value in points.items():
        try:
            read[path] = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            read[path] = math.nan
        if not 0 <= read[path] < MAX_POINTS:
            raise InputError(
                f"{where}: points of {path} are {value!r}. Expected a number from 0 to {MAX_POINTS:,}."
            )
    return read


def read_integer(data: Mapping[str, Any], name: str, default: int, where: str, maximum: int = 2**63) -> int:
    value = data.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise InputError(f"{where}: {name} is {value!r}. Expected a whole number from 0 to {maximum}.")
    return value


def _choice(data: Mapping[str, Any], name: str, choices: tuple[str, ...], where: str) -> Any:
    value = data.get(name, choices[0])
    check_known(name, value, choices, where)
    return value
