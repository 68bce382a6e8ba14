"""An exercise worked out in plain numpy, right or with mistakes, and typed as a student would type it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np

Formula = Callable[..., Any]
Formulas = dict[str, Formula]


class Work(dict[str, Any]):
    """The given numbers and the steps so far; ``work.query`` is ``work["query"]``."""

    __getattr__ = dict.__getitem__


@dataclass(frozen=True)
class Mistake:
    """``wrong`` holds the formula that the student used instead, for each step where it was used."""

    slug: str
    sentence: str
    wrong: Formulas


def m(slug: str, sentence: str, *places: Any) -> Mistake:
    """A mistake from its slug, its sentence, and a step and a formula in turn."""
    return Mistake(slug, sentence, dict(zip(places[::2], places[1::2], strict=True)))


@dataclass(frozen=True)
class Kind:
    """One kind of exercise: its right formulas and the mistakes made in it.

    ``slips``, ``copied`` and ``misread`` name the steps where a cell is miscalculated, a row is copied from
    the row above, or an entry of an input is read as one more than it is.
    """

    name: str
    right: Callable[[Work], Formulas]
    mistakes: list[Mistake]
    slips: str = ""
    copied: str = ""
    misread: str = ""  # "step < input, ..."
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def singles(self, given: Work) -> dict[str, Mistake]:
        """Mistakes made at one step; one of a repeated step is made at its second turn."""
        known = [Mistake(x.slug, x.sentence, _turn(x.wrong, 1)) for x in self.mistakes if len(x.wrong) == 1]
        return {x.slug: x for x in (*known, *self._everyday(given)) if set(x.wrong) <= set(self.right(given))}

    def repeated(self, given: Work) -> dict[str, Mistake]:
        """Mistakes made at every step where they can be made."""
        steps = self.right(given)
        every = [Mistake(x.slug, x.sentence, _every_turn(x.wrong, list(steps))) for x in self.mistakes]
        return {x.slug: x for x in every if len(x.wrong) > 1 and set(x.wrong) <= set(steps)}

    def _everyday(self, given: Work) -> list[Mistake]:
        right, made = self.right(given), []
        for step in _names(self.slips):
            sentence = f"A miscalculation in one cell of {step}."
            made.append(m(f"slip-at-{slug(step)}", sentence, step, slip(right, step)))
            sentence = f"The sign of one cell of {step} is wrong."
            made.append(m(f"sign-slip-at-{slug(step)}", sentence, step, slip(right, step, flip=True)))
        for step in _names(self.copied):
            sentence = f"Row 1 of {step} is a copy of row 0."
            made.append(m(f"row-copied-at-{slug(step)}", sentence, step, _copied(right, step)))
        for step, name in (pair.split(" < ") for pair in _names(self.misread)):
            sentence = f"One entry of {name} is read as one more than it is while working out {step}."
            made.append(
                m(f"misread-{slug(name)}-at-{slug(step)}", sentence, step, _misread(right, step, name))
            )
        return made


def _names(text: str) -> list[str]:
    return text.split(", ") if text else []


def slug(name: str) -> str:
    return name.replace("/", "-").replace(" ", "-").replace("_", "-").lower()


def _turn(wrong: Formulas, turn: int) -> Formulas:
    """A mistake in a step of each turn, made at one of them."""
    return {
        step.replace("*", str(turn)): (lambda s, f=formula, t=turn: f(s, t)) if "*" in step else formula
        for step, formula in wrong.items()
    }


def _every_turn(wrong: Formulas, steps: list[str]) -> Formulas:
    turns = [_turn(wrong, turn) for turn in range(len(steps))]
    return {
        step: formula for made in turns for step, formula in made.items() if "*" not in step and step in steps
    }


def _cell(step: str, value: Any, wanted: Any) -> tuple[int, ...]:
    """A cell among those ``wanted``, another in each exercise."""
    cells = np.argwhere(wanted)
    if not len(cells):
        raise ValueError(f"no such cell in {step}")
    return tuple(cells[crc32((step + str(np.round(value, 6).tolist())).encode()) % len(cells)])


def slip(right: Formulas, step: str, *, flip: bool = False) -> Formula:
    """One cell off by 1 (by 0.1 where it is not an integer), or with the other sign."""

    def formula(s: Work) -> Any:
        value = np.array(right[step](s), dtype=float)
        cell = _cell(step, value, value != 0 if flip else np.ones(value.shape, bool))
        value[cell] = -value[cell] if flip else value[cell] + (1 if float(value[cell]).is_integer() else 0.1)
        return value

    return formula


def _copied(right: Formulas, step: str) -> Formula:
    def formula(s: Work) -> Any:
        value = np.array(right[step](s), dtype=float)
        value[1] = value[0]
        return value

    return formula


def _misread(right: Formulas, step: str, name: str) -> Formula:
    def formula(s: Work) -> Any:
        value = np.array(s[name], dtype=float)
        value[_cell(step + name, value, np.ones(value.shape, bool))] += 1
        return right[step](Work({**s, name: value}))

    return formula


# --- reading what is given, typing what is found ----------------------------------------------------
def read(text: Any) -> Any:
    """A number, a row or a matrix as exercises write them."""
    if not isinstance(text, str):
        return text
    if text.startswith("["):
        return np.array(json.loads(text), dtype=float)
    try:
        rows = [[float(Fraction(x)) for x in row.split()] for row in text.split(";")]
    except ValueError:
        return text
    if ";" in text:
        return np.array(rows)
    return np.array(rows[0]) if len(rows[0]) > 1 else rows[0][0]


STYLES = ("4 digits", "4 digits with zeros", "3 digits", "fractions")
SIDE_BY_SIDE = ("query", "key", "value", "per head")


def type_number(number: float, style: str) -> str:
    if abs(number - round(number)) < 1e-9:
        return str(round(number))
    near = Fraction(number).limit_denominator(24)
    if style == "fractions" and abs(float(near) - number) < 1e-12:
        return str(near)
    text = f"{number:.{int(style[0]) if style[0].isdigit() else 4}f}"
    text = text if style == "4 digits with zeros" else text.rstrip("0").rstrip(".")
    return text.removeprefix("-") if not text.strip("-0.") else text


def as_matrix(step: str, value: Any) -> Any:
    """Three axes as the question wants them: heads side by side, or one below the other."""
    value = np.asarray(value, dtype=float)
    if value.ndim < 3:
        return value
    return value.reshape(len(value), -1) if step in SIDE_BY_SIDE else value.reshape(-1, value.shape[-1])


def type_in(step: str, value: Any, style: str) -> str:
    value = np.asarray(as_matrix(step, value))
    rows = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
    between = "; " if style in ("fractions", "3 digits") else "\n"
    return between.join(" ".join(type_number(float(x), style) for x in row) for row in rows)


def on_paper(step: str, value: Any, style: str) -> Any:
    """The numbers as they were typed."""
    rows = type_in(step, value, style).replace(";", "\n").splitlines()
    numbers = [float(Fraction(x)) for row in rows for x in row.split()]
    return np.array(numbers).reshape(np.shape(value))


# --- working an exercise out ------------------------------------------------------------------------
def given_numbers(kind: Kind, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> Work:
    return Work({**kind.defaults, **{k: read(v) for k, v in {**inputs, **options}.items()}})


def solve(kind: Kind, given: Work, wrong: Formulas, asked: list[str], paper: str = "") -> Work:
    """Every step in turn, each from the steps before it: from the typed numbers if a style is named."""
    work = Work(given)
    with np.errstate(all="ignore"):
        for step, formula in kind.right(given).items():
            value = wrong.get(step, formula)(work)
            if not np.isfinite(value).all():
                raise ValueError(f"{step} is not finite")
            work[step] = on_paper(step, value, paper) if paper and step in asked else value
    return work


def wrong_steps(kind: Kind, given: Work, answer: Work, asked: list[str], style: str, paper: str) -> list[str]:
    """The asked steps that do not follow by the right formula from the answer's own earlier steps."""
    unit = 0.001 if style == "3 digits" else 0.0001
    same, own, wrong = 0.5001 * unit if paper else 1e-9, Work(given), []
    with np.errstate(all="ignore"):
        for step, formula in kind.right(given).items():
            value = np.asarray(formula(own), dtype=float)
            own[step] = answer[step] if step in asked else value
            if step not in asked:
                continue
            mine = np.asarray(answer[step], dtype=float)
            off = np.inf if mine.shape != value.shape else float(np.abs(mine - value).max(initial=0))
            if off > 10 * unit:
                wrong.append(step)
            elif off > same:
                raise ValueError(f"{step} is off by too little to be seen")
    return wrong
