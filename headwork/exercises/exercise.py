"""An exercise: a mechanism, its numbers, and which steps are asked for how many points.

The key is the recorded trace, so an exercise holds no answers. It is written as TOML.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_type_hints

from headwork.errors import InputError, unknown_name
from headwork.exercises.case import Case, Steps
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.exercise_mechanisms import EXERCISE_MECHANISMS
from headwork.files import toml_text
from headwork.note import MECHANISMS, Mechanism
from headwork.numbers import HandTensor
from headwork.numbers.options import read_option
from headwork.numbers.parsing import read_tensor
from headwork.readings import Trace, explain
from headwork.readings.assembling import assemble, effective_options
from headwork.readings.explaining import check_names
from headwork.readings.recording import recorder

Rounding = Literal["free", "part", "wrong"]


@dataclass(frozen=True)
class Exercise:
    """One exercise. ``points`` names the asked steps; with none, every step is asked for one point.

    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 2})
    >>> exercise.solution["weights"].tolist()
    [0.5, 0.5]
    """

    mechanism: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    points: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""
    title: str = ""
    question: str = ""
    seed: int | None = None
    difficulty: int = 1
    digits: int = 4
    rounding: Rounding = "free"  # what rounding too early costs: nothing, part of the points, or all
    hints: int = 3  # the highest level of hint that may be asked for
    tokens_as: Literal["rows", "columns"] = "rows"

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields go to another process; the trace and the key are computed again there."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def trace(self) -> Trace:
        """The solution in decimals, step by step."""
        trace = self.solve(exact=False)
        if trace.exact:
            raise InputError(f"{self.name}: symbols among the inputs. Give numbers: only they can be marked.")
        return trace

    def solve(self, *, exact: bool, replacing: Mapping[str, Any] | None = None) -> Trace:
        """The solution step by step; ``replacing`` continues from a student's own steps."""
        slug, arguments = self.mechanism.replace("_", "-"), {**self.inputs, **self.options}
        if slug in EXERCISE_MECHANISMS:
            return _formula_trace(EXERCISE_MECHANISMS[slug], arguments, exact, self.digits)
        if slug not in MECHANISMS:
            raise unknown_name("mechanism", self.mechanism, [*MECHANISMS, *EXERCISE_MECHANISMS])
        settings: dict[str, Any] = {"tokens_as": self.tokens_as, "digits": self.digits}
        return explain(slug, exact=exact, replacing=replacing, **settings, **arguments)

    @cached_property
    def case(self) -> Case:
        """The exercise ready to run on its own numbers."""
        mechanism = self.trace.mechanism
        mechanism = MECHANISMS.get(mechanism.slug, mechanism)  # where a typed mask is an option
        types = get_type_hints(mechanism.function) if mechanism.slug in EXERCISE_MECHANISMS else {}
        arguments = {
            name: int(value.raw.array) if types.get(name) is int else value.raw
            for name, value in self.trace.inputs.items()
        }
        options = {name: _option_value(value) for name, value in self.trace.options.items()}
        options |= {name: arguments.pop(name) for name in mechanism.options if name in arguments}
        return Case(mechanism, arguments, options)

    @cached_property
    def solution(self) -> Steps:
        """The right value of every step."""
        return self.case.run()

    @cached_property
    def asked(self) -> dict[str, float]:
        """The asked steps with their points, in the order in which they are computed."""
        if self.is_challenge:
            return dict(self.points) or {"answer": 2.0}
        points = self.points or dict.fromkeys(self.trace.steps, 1.0)
        for path in points:
            if path not in self.trace.steps:
                raise unknown_name(f"step of {self.mechanism}", path, self.trace.steps)
        return {path: float(points[path]) for path in self.trace.steps if path in points}

    @property
    def is_challenge(self) -> bool:
        """Whether any answer that works is right, so that there is no key."""
        return self.mechanism in CHALLENGES

    @property
    def is_counting(self) -> bool:
        """Whether everything given is a whole number that counts or measures something, and so is the key."""
        return self.case.counts_sizes

    @property
    def asks_approximately(self) -> bool:
        """Whether the question asks for about how many: then a rounded count is as good."""
        return re.search(r"\babout\b", self.question, re.IGNORECASE) is not None

    @property
    def name(self) -> str:
        return self.title or self.mechanism

    @property
    def origin(self) -> dict[str, Any]:
        """What it was generated from; empty for a teacher's own."""
        if not self.kind or self.seed is None:
            return {}
        return {"kind": self.kind, "seed": self.seed, "difficulty": self.difficulty}

    @property
    def max_points(self) -> float:
        return sum(self.asked.values())

    # --- as TOML ------------------------------------------------------------------------------------

    def to_toml(self, table: str = "") -> str:
        """The exercise as TOML that ``exercise_from`` reads back, in its own table where one is named."""
        values = self.__getstate__()
        tables = {name: values.pop(name) for name in ("inputs", "options", "points")}
        lines = [f"[{table}]"] if table else []
        lines += [f"{key} = {toml_text(v)}" for key, v in values.items() if v not in ("", None)]
        for name, entries in tables.items():
            if entries:
                lines += ["", f"[{table}.{name}]" if table else f"[{name}]", *toml_lines(entries)]
        return "\n".join(lines) + "\n"


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """Strings and numbers as the lines of a TOML table."""
    return [f"{toml_text(key)} = {toml_text(value)}" for key, value in entries.items()]


def _option_value(value: Any) -> Any:
    """An option as the mechanisms take it: numbers plain, masks as tensors."""
    if value is None or isinstance(value, (str, int, HandTensor)):
        return value
    return float(value)


def _formula_trace(formula: Mechanism, arguments: Mapping[str, Any], exact: bool, digits: int) -> Trace:
    """The trace of a formula, as ``explain`` gives it for a mechanism."""
    check_names(formula, arguments)
    hints = get_type_hints(formula.function, include_extras=True)

    def read(name: str, value: Any) -> Any:
        where = f"{formula.slug}: {name}"
        if hints[name] is Any:
            return read_tensor(value, exact=exact, where=where)
        number = read_option(hints[name], value, where=where, exact=exact)
        if hints[name] is int and number < 0:
            raise InputError(f"{where} is {value}. Expected a whole number.")
        return number

    values = {name: read(name, value) for name, value in arguments.items() if value is not None}
    recorded: dict[str, Any] = {}
    try:
        formula.run(values, recorder(recorded))
    except InputError:
        raise
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"{formula.slug}: the numbers do not fit together ({error}).") from None
    options = {name: value for name, value in values.items() if name in formula.options}
    effective = effective_options(formula, options)
    return assemble(Trace, formula, values, recorded, effective, exact=exact, digits=digits)
