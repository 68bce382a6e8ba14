"""Why a step is wrong: the known mistakes that give these very numbers, slips of the pen, rounding, or nothing known.

Every mistake is tried from the student's own earlier numbers. Those that give what the student wrote are named,
all of them; then pairs; a slip in one entry is told from a misunderstanding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from headwork.exercises.case import Case, Edit, NotApplicable, RunView, propagated_error
from headwork.exercises.misconceptions import Misconception, applicable, run_with_mistakes, same
from headwork.grading.answers import Entries, mismatches, tolerance
from headwork.readings.writing import number_text

Array = Any
MOST_PAIRS = 3  # pairs named at most
NEAR = 50  # times the rounding of an earlier number: further off than this it is not worth a closer look


@dataclass(frozen=True)
class Cause:
    """Why a step is wrong: a mistake's slug (two joined by `` + ``), a sentence, and what shows it."""

    slug: str
    sentence: str
    evidence: str = ""

    @property
    def name(self) -> str:
        return self.slug.replace("-", " ")


SLIPS = {
    "misrounded": "the last digit is not rounded rightly",
    "cut-off": "the digits are cut off instead of rounded",
    "digits-swapped": "two digits are exchanged",
    "sign-slip": "the sign is wrong",
    "point-slip": "the decimal point is in the wrong place",
    "slip": "an arithmetic slip",
    "transposed": "rows and columns are exchanged",
    "rounded-too-early": "it was worked out from numbers that were rounded too far",
    "too-few-digits": "too few digits are written to be sure that it is right",
    "shape": "the shape is not the one of this step",
    "unknown": "no known mistake gives these numbers",
}


@dataclass(frozen=True)
class Wrong:
    """A wrong step: what was typed, which entries differ from what follows, and the earlier steps it may follow from.

    ``bases`` are the two sets of earlier steps that a student may have gone on from: the right ones in full
    precision, or all as written; ``halves`` is half a unit of the last digit of each entry of the latter.
    """

    path: str
    typed: Entries
    reference: Array
    cells: Array
    bases: Sequence[Mapping[str, Array]]
    half_units: Mapping[str, Array]
    digits: int


def causes(case: Case, wrong: Wrong) -> list[Cause]:
    """Every known cause that gives the student's numbers, the likeliest first."""
    found = _mistakes(case, wrong, strict=True) or _mistakes(case, wrong, strict=False)
    if found:
        # One wrong number alone may always be a plain slip as well.
        return found + (_slips(wrong) if wrong.cells.sum() == 1 else [])
    slips = _rounded(case, wrong) or _transposed(wrong) or _slips(wrong)
    if slips and slips[0].slug != "slip":
        return slips
    return slips + _pairs(case, wrong) or [_unknown(wrong)]


# --- known mistakes -----------------------------------------------------------------------------------


def _mistakes(case: Case, wrong: Wrong, *, strict: bool) -> list[Cause]:
    found: dict[str, Cause] = {}
    for base in wrong.bases if strict else wrong.bases[1:]:
        for mistake, value in changing(case, wrong, base):
            if mistake.slug not in found and (
                gives(wrong, value) if strict else _nearly(case, wrong, mistake, value)
            ):
                found[mistake.slug] = Cause(
                    mistake.slug, mistake.sentence, _evidence(case, mistake, wrong, base)
                )
    return list(found.values())


def changing(case: Case, wrong: Wrong, base: Mapping[str, Array]) -> Iterator[tuple[Misconception, Array]]:
    """The mistakes that change this step, gone on from these earlier steps, and what they make of it."""
    right = case.run(base)
    for mistake in applicable(case, right):
        steps = run_with_mistakes(case, mistake, replacing=base)
        if (
            steps
            and wrong.path in steps
            and not same(steps[wrong.path], right[wrong.path], 2 * 10.0**-wrong.digits)
        ):
            yield mistake, steps[wrong.path]


def gives(wrong: Wrong, value: Array, more: Any = 0.0) -> bool:
    """Whether a value is what the student wrote, to the digits written."""
    typed = wrong.typed.fitted(value.shape)
    if typed is None:
        return False
    return not (mismatches(typed, value, tolerance(typed, wrong.digits) + more) & ~typed.open).any()


def _nearly(case: Case, wrong: Wrong, mistake: Misconception, value: Array) -> bool:
    """Whether the rounding of own earlier numbers makes the difference."""
    if not any((half_units > 0).any() for half_units in wrong.half_units.values()):
        return False
    if not gives(
        wrong,
        value,
        NEAR * max(float(np.max(h, initial=0)) for h in wrong.half_units.values()) * (1 + np.abs(value)),
    ):
        return False
    return gives(
        wrong, value, propagated_error(case, wrong.bases[1], wrong.half_units, wrong.path, [mistake.edit])
    )


def _evidence(case: Case, mistake: Misconception, wrong: Wrong, base: Mapping[str, Array]) -> str:
    steps = case.run(base)
    if mistake.evidence:
        typed = wrong.typed.fitted(steps[wrong.path].shape)
        if typed is not None:
            return mistake.evidence(typed.values, RunView({**case.inputs, **case.options}, steps, wrong.path))
    if wrong.typed.values.size == 1:
        return f"it gives {number_text(wrong.typed.values.reshape(-1)[0], wrong.digits)}, as you have"
    place = (
        tuple(int(i) for i in np.argwhere(wrong.cells)[0])
        if wrong.cells.any()
        else (0,) * wrong.typed.values.ndim
    )
    shown = number_text(wrong.typed.values[place], wrong.digits)
    return f"it gives all {wrong.typed.values.size} of your entries, such as {list(place)} = {shown}"


def _pairs(case: Case, wrong: Wrong) -> list[Cause]:
    """Two mistakes at once."""
    found: dict[frozenset[str], Cause] = {}
    for base in wrong.bases:
        singles = [mistake for mistake, _ in changing(case, wrong, base)]
        for first, second in permutations(singles, 2):
            pair = frozenset((first.slug, second.slug))
            steps = None if pair in found else run_with_mistakes(case, first, second, replacing=base)
            if steps and gives(wrong, steps[wrong.path]):
                sentence = f"{first.sentence}; and {second.sentence}"
                found[pair] = Cause(
                    f"{first.slug} + {second.slug}", sentence, "both together give your numbers"
                )
    return list(found.values())[:MOST_PAIRS]


# --- rounding -----------------------------------------------------------------------------------------


def rounding(digits: int) -> Edit:
    """Every step rounded before it is used."""
    return Edit(steps={"*": lambda run: np.round(run.current, digits)})


def rounded_exponentials(digits: int) -> Edit:
    """The exponentials of a softmax rounded before they are divided by their sum."""

    def weights(run: RunView) -> Array:
        try:
            scores = run.masked
        except NotApplicable:
            scores = run.scores
        powers = np.round(np.exp(scores), digits)
        total = powers.sum(-1, keepdims=True)
        if run.path.startswith("beta oo") or not np.allclose(
            np.exp(scores) / np.exp(scores).sum(-1, keepdims=True), run.current
        ):
            return run.current
        return powers / np.where(total == 0, 1, total)

    return Edit(steps={"weights": weights})


def rounded_early(
    case: Case, path: str, typed: Entries, digits: int, base: Mapping[str, Array], ends: Sequence[int]
) -> int | None:
    """To how many digits earlier numbers must have been rounded to give what was typed, if that explains it."""
    for end in ends:
        for edit in (rounding(end), rounded_exponentials(end)):
            try:
                value = case.run(base, [edit])[path]
            except NotApplicable:
                continue
            fitted = typed.fitted(value.shape)
            loose = tolerance(typed, digits) if fitted is not None else 0
            if fitted is not None and not mismatches(fitted, value, np.maximum(loose, 0)).any():
                return end
    return None


def _rounded(case: Case, wrong: Wrong) -> list[Cause]:
    for base in wrong.bases:
        end = rounded_early(case, wrong.path, wrong.typed, wrong.digits, base, (1, 0))
        if end is not None:
            return [
                Cause(
                    "rounded-too-early",
                    SLIPS["rounded-too-early"],
                    f"numbers rounded to {end} digits give yours",
                )
            ]
    return []


# --- slips --------------------------------------------------------------------------------------------


def _slips(wrong: Wrong) -> list[Cause]:
    """What one entry, or the same in every wrong entry, may have suffered."""
    typed, reference = wrong.typed, wrong.reference
    if typed.shape != reference.shape:
        return []
    places = [tuple(int(i) for i in place) for place in np.argwhere(wrong.cells)]
    kinds = [
        _slip(
            str(typed.texts[p]),
            float(typed.values[p]),
            float(reference[p]),
            float(typed.half_unit[p]),
            wrong.digits,
        )
        for p in places
    ]
    if not places or (len(places) > 1 and ("slip" in kinds or len(set(kinds)) > 1)):
        return []
    where = ", ".join(_place(p) for p in places) if typed.values.size > 1 else ""
    evidence = f"{'entry' if len(places) == 1 else 'entries'} {where}" if where else ""
    if len(places) == 1 and typed.values.size > 1:
        evidence += f": you have {typed.texts[places[0]]}, all other entries are right"
    return [Cause(kinds[0], SLIPS[kinds[0]], evidence)]


def _transposed(wrong: Wrong) -> list[Cause]:
    """The right numbers with rows and columns exchanged, as with tokens as columns."""
    turned = wrong.typed.moved(np.transpose)
    if turned.shape != wrong.reference.shape or wrong.typed.values.ndim != 2:
        return []
    if mismatches(turned, wrong.reference, tolerance(turned, wrong.digits)).any():
        return []
    return [Cause("transposed", SLIPS["transposed"], "say so in [conventions] if your tokens are columns")]


def _slip(text: str, value: float, right: float, half_unit: float, digits: int) -> str:
    unit = 2 * half_unit
    if not np.isfinite(right) or not np.isfinite(value):
        return "slip"
    if half_unit and abs(value - right) <= 1.5 * unit + 1e-12:
        return "cut-off" if abs(value) < abs(right) and abs(value - right) < unit else "misrounded"
    if value == -right or (half_unit and abs(value + right) <= half_unit * 1.01):
        return "sign-slip"
    if _swapped(text, right, half_unit):
        return "digits-swapped"
    if (
        any(abs(value - right * 10.0**k) <= max(half_unit, 1e-9 * abs(value)) for k in (-3, -2, -1, 1, 2, 3))
        and right
    ):
        return "point-slip"
    if half_unit and abs(value - right) <= half_unit and digits:
        return "too-few-digits"
    return "slip"


def _swapped(text: str, right: float, half_unit: float) -> bool:
    """Whether exchanging two digits of what was typed gives the right number."""
    decimals = len(text.partition(".")[2]) if "." in text else 0
    target = f"{right:.{decimals}f}"
    typed = text.strip().lstrip("+")
    if typed.startswith((".", "-.")):
        typed = typed.replace(".", "0.", 1)
    if len(typed) != len(target) or (not half_unit and right != round(right)):
        return False
    off = [i for i, (a, b) in enumerate(zip(typed, target, strict=True)) if a != b]
    return len(off) == 2 and typed[off[0]] == target[off[1]] and typed[off[1]] == target[off[0]]


def _unknown(wrong: Wrong) -> Cause:
    if wrong.typed.shape != wrong.reference.shape:
        came = " x ".join(map(str, wrong.typed.shape)) or "a single number"
        due = " x ".join(map(str, wrong.reference.shape)) or "a single number"
        return Cause("shape", SLIPS["shape"], f"yours is {came}, it should be {due}")
    places = [_place(tuple(int(i) for i in p)) for p in np.argwhere(wrong.cells)]
    shown = ", ".join(places[:8]) + (" and more" if len(places) > 8 else "")
    return Cause(
        "unknown", SLIPS["unknown"], f"entries {shown} differ" if wrong.typed.values.size > 1 else ""
    )


def _place(index: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, index))}]"
