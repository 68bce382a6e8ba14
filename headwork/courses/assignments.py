"""The exercises of an assignment, from kinds, files, keys and folders; of a folder of keys, all variants."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

from headwork.courses.autograder import pack_variants
from headwork.courses.cohort import keys_by_student
from headwork.courses.sheets import Sheet, read_key
from headwork.courses.variables import variables
from headwork.errors import InputError
from headwork.exercises.exercise import Exercise
from headwork.exercises.exercise_files import read_exercise
from headwork.exercises.generation import generate
from headwork.exercises.questions import Blank, build_question
from headwork.files import read_toml
from headwork.readings.notebook_cells import array_text


@dataclass(frozen=True)
class AssignmentPart:
    """One exercise of an assignment: its label, and the prefix of its variables.

    ``sheets`` are those of all students, by ID; ``exercise`` is then that of the first of them.
    """

    label: str
    name: str
    exercise: Exercise
    prefix: str
    hint: int
    sheets: Mapping[str, Sheet] = field(default_factory=dict)

    @property
    def variants(self) -> dict[str, Exercise]:
        return {student: sheet.exercises[self.name] for student, sheet in self.sheets.items()}

    @property
    def variable_names(self) -> dict[str, str]:
        return variables(self.exercise, self.prefix)

    @cached_property
    def blanks(self) -> tuple[Blank, ...]:
        """What to fill in; of a shape that is not the same for all, only that there is one."""
        first, *others = (build_question(one).blanks for one in (self.exercise, *self.variants.values()))
        same = [all(blank.shape == other[i].shape for other in others) for i, blank in enumerate(first)]
        other = "as on your sheet"
        return tuple(
            b if ok else replace(b, shape_text=other, shape=()) for b, ok in zip(first, same, strict=True)
        )

    @cached_property
    def data(self) -> str:
        """The exercise, or those of all students, as a literal of Python."""
        if self.variants:
            variants = {who: _plain_data(exercise) for who, exercise in self.variants.items()}
            return repr(pack_variants(variants))
        return pformat(_plain_data(self.exercise), width=110, sort_dicts=False)

    @property
    def call_arguments(self) -> str:
        return f"prefix={self.prefix!r}, hint={self.hint}"

    def correct_text(self, path: str) -> str:
        """The right value of a step as it is typed; a challenge has no key."""
        if self.exercise.is_challenge:
            return ""
        value = np.transpose(self.exercise.solution[path], self.exercise.trace.steps[path].order)
        return array_text(value.round(self.exercise.digits))


def _plain_data(exercise: Exercise) -> dict[str, Any]:
    """An exercise as plain data, without what marking does not need: the seed and the question."""
    return tomllib.loads(replace(exercise, seed=None, question="").to_toml())


def read_student_sheets(folder: str | Path) -> dict[str, Sheet]:
    """The sheets of all students, by ID, from the folder of keys that ``headwork practice sheet`` wrote."""
    sheets = {path.stem: read_key(path) for path in keys_by_student(Path(folder)).values()}
    asked = {tuple((n, *e.asked) for n, e in sheet.exercises.items()) for sheet in sheets.values()}
    if len(asked) > 1:
        raise InputError(
            f"{folder}: the keys do not all ask for the same steps. Export each sheet by itself."
        )
    return sheets


def is_key_folder(source: str) -> bool:
    """Whether a source is a folder of keys, and not one with a single exercise."""
    path = Path(source)
    return path.is_dir() and not (path / "exercise.toml").is_file() and bool(keys_by_student(path))


def read_exercises(sources: Sequence[str], *, seed: int = 0, difficulty: int = 1) -> dict[str, Exercise]:
    """Exercises by name, from kinds, TOML files, key files, and folders written by ``headwork practice new``.

    >>> list(read_exercises(["output-size", "output-size"], seed=3))
    ['output-size', 'output-size-2']
    """
    exercises: dict[str, Exercise] = {}
    for source in sources:
        for name, exercise in _read_source(source, seed, difficulty).items():
            count = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None for other in exercises)
            exercises[f"{name}-{count + 1}" if count else name] = exercise
    return exercises


def _read_source(source: str, seed: int, difficulty: int) -> Mapping[str, Exercise]:
    path = Path(source)
    if path.is_dir():
        file = path / "exercise.toml"
        if not file.is_file():
            raise InputError(
                f"{path}: no exercise.toml in it. Make one with headwork practice new KIND --out {path}."
            )
        exercise = read_exercise(file)
        return {exercise.kind or path.resolve().name: exercise}
    if not source.endswith(".toml"):
        return {source.replace("_", "-"): generate(source, seed, difficulty)}
    if isinstance(read_toml(path).get("exercise"), dict):
        return read_key(path).exercises
    return {path.stem: read_exercise(path)}
