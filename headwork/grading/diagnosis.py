"""Why a step is wrong: the known mistakes that give exactly these numbers, slips, rounding, or nothing known.

Every mistake is tried from the student's own earlier numbers. All that give what the student wrote are named;
then pairs; a slip in one entry is distinguished from a misunderstanding.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np

from headwork.exercises.case import Array, Case, Edit, NotApplicable, RunView, Steps
from headwork.exercises.misconceptions import Misconception, applicable, run_with_mistakes, same_values
from headwork.exercises.misconceptions.attention_parts import masked_scores, normalise
from headwork.grading.answers import Entries, mismatches, tolerance
from headwork.grading.searching import NEAR, search, search_pairs
from headwork.grading.wording import WORD_TABLES
from headwork.grading.wrong_step import Cause, WrongStep

ONE_OFF = 6.5  # bits of one too many or too few, for no known reason
MAX_PAIRS, MAX_PAIRS_BESIDE = 3, 2  # pairs named at most; beside a slip
IN_PART = 16.0  # bits: a rarer mistake gives only some of the numbers
COMMON_BITS = 1.0  # bits: rarer mistakes are not tried in pairs

PROJECTIONS = ("query", "key", "value")
SLIPS = WORD_TABLES["slips"]
Tried = list[tuple[Misconception, Array]]
CERTAIN_SLIPS = ("rounded-too-early", "transposed", "cut-off", "misrounded")  # their numbers show them


def _slip_cause(slug: str, evidence: str = "") -> Cause:
    return Cause(slug, SLIPS[slug], evidence)


def find_causes(case: Case, wrong: WrongStep, made_before: Collection[str] = ()) -> list[Cause]:
    """Every cause that gives the student's numbers, the likeliest first.

    Authored mistakes come before edits of the definition, those before slips. What may be chance comes last,
    marked as thin.
    """
    counted, tried = case.counts_sizes, [_mistakes_at_step(case, wrong, x) for x in wrong.starting_steps]
    authored = _authored_causes(case, wrong, tried, strict=True) or _authored_causes(
        case, wrong, tried, strict=False
    )
    early = [] if authored else _early_rounding_causes(case, wrong)
    slips = early or ([] if authored else _transposed_causes(wrong)) or _slip_causes(wrong)
    if not authored and not early and slips and slips[0].slug in CERTAIN_SLIPS:
        return slips
    if slips and counted:
        slips = _one_off_causes(wrong) + slips
    found = search(case, wrong, authored, partial(_authored_causes_anew, case, wrong), made_before)
    named = [cause for cause in found if cause.doubt in ("", "doubtful")]
    others = [cause for cause in found if cause not in named]
    if early and any(cause.doubt for cause in named):
        return early
    if named and all(cause.edit_slug == "other-formula" or cause.bits > IN_PART for cause in named):
        named = _two_mistakes(case, wrong, tried) or named  # rather two known ones than a formula
    if named:
        doubted = any(cause.doubt for cause in named)
        more = slips if doubted else [replace(x, doubt="thin") for x in slips if x.mistake_id and counted]
        return named + more + others
    if slips and counted:
        slips += _pair_causes(case, wrong, tried)[:MAX_PAIRS_BESIDE]
    return (slips or _two_mistakes(case, wrong, tried) or [_unknown_cause(wrong)]) + others


def cell_text(index: Sequence[int]) -> str:
    """The index of an entry as it is written: [0,1]."""
    return f"[{','.join(map(str, index))}]"


# --- known mistakes -----------------------------------------------------------------------------------
def _authored_causes(case: Case, wrong: WrongStep, tried: list[Tried], *, strict: bool) -> list[Cause]:
    causes: dict[str, Cause] = {}
    for earlier, mistakes in list(zip(wrong.starting_steps, tried, strict=True))[not strict :]:
        for mistake, value in mistakes:
            slug = mistake.slug
            if case.counts_sizes and np.floor(value).all() and wrong.matches(np.floor(value)):
                value = np.floor(value)
            met = wrong.matches(value) if strict else _matches_within_rounding(case, wrong, mistake, value)
            if slug not in causes and met:
                evidence = _evidence(case, mistake, wrong, earlier)
                causes[slug] = Cause(
                    slug,
                    mistake.sentence,
                    evidence,
                    wrong.path,
                    mistake_id=mistake.mistake_id,
                    bits=mistake.bits,
                )
    return list(causes.values())


def _authored_causes_anew(case: Case, wrong: WrongStep) -> list[Cause]:
    """Mistakes of a step worked out from the inputs, or without the step before it, written otherwise."""
    before = dict(list(wrong.starting_steps.written.items())[:-1])
    tried = (found for earlier in (before, {}) for found in _mistakes_at_step(case, wrong, earlier))
    mistakes = {mistake.slug: mistake for mistake, value in tried if wrong.matches(value)}
    evidence = "worked out anew, without the step before it, it gives your numbers"
    return [
        Cause(m.slug, m.sentence, evidence, wrong.path, mistake_id=m.mistake_id, bits=m.bits)
        for m in mistakes.values()
    ]


def _mistakes_at_step(case: Case, wrong: WrongStep, earlier: Steps) -> Tried:
    """The mistakes that change this step when continued from these earlier steps, with their values."""
    right, found = case.run(earlier), []
    for mistake in applicable(case, (path for path in right if path not in earlier)):
        try:
            value = case.edited_step(wrong.path, mistake.edit, right, earlier)
        except NotApplicable:
            continue
        if value is not None and not same_values(value, right[wrong.path], 2 * 10.0**-wrong.digits):
            found.append((mistake, value))
    return found


def _matches_within_rounding(case: Case, wrong: WrongStep, mistake: Misconception, value: Array) -> bool:
    """Whether rounding of the student's earlier numbers explains the difference."""
    largest = max((float(np.max(sizes, initial=0)) for sizes in wrong.half_units.values()), default=0.0)
    if largest == 0 or not wrong.matches(value, NEAR * largest * (1 + np.abs(value))):
        return False
    error = case.propagated_error(wrong.starting_steps.written, wrong.half_units, wrong.path, [mistake.edit])
    return wrong.matches(value, error)


def _evidence(case: Case, mistake: Misconception, wrong: WrongStep, earlier: Steps) -> str:
    steps = case.run(earlier)
    entries = wrong.entries.fit(steps[wrong.path].shape)
    if mistake.evidence and entries is not None:
        return mistake.evidence(entries.values, RunView({**case.inputs, **case.options}, steps, wrong.path))
    return wrong.evidence_text


def _two_mistakes(case: Case, wrong: WrongStep, tried: list[Tried]) -> list[Cause]:
    return _pair_causes(case, wrong, tried) or search_pairs(case, wrong)


def _pair_causes(case: Case, wrong: WrongStep, tried: list[Tried]) -> list[Cause]:
    """Two mistakes at once."""
    causes: dict[frozenset[str], Cause] = {}
    for earlier, mistakes in zip(wrong.starting_steps, tried, strict=True):
        singles = [mistake for mistake, _ in mistakes if mistake.bits < COMMON_BITS]
        for first, second in permutations(singles, 2):
            pair = frozenset((first.slug, second.slug))
            steps = None if pair in causes else run_with_mistakes(case, first, second, replacing=earlier)
            if steps and wrong.matches(steps[wrong.path]):
                slug, sentence = f"{first.slug} + {second.slug}", f"{first.sentence}; and {second.sentence}"
                causes[pair] = Cause(slug, sentence, "both together give your numbers")
    return list(causes.values())[:MAX_PAIRS]


# --- rounding -----------------------------------------------------------------------------------------
def _round_steps(digits: int) -> Edit:
    """Every step rounded before it is used."""
    return Edit(change_steps={"*": lambda run: np.round(run.current, digits)})


def _round_exponentials(digits: int) -> Edit:
    """The exponentials of a softmax rounded before they are divided by their sum."""

    def weights(run: RunView) -> Array:
        exponentials = np.exp(masked_scores(run))
        if run.path.startswith("beta oo") or not np.allclose(normalise(exponentials), run.current):
            return run.current
        return normalise(np.round(exponentials, digits))

    return Edit(change_steps={"weights": weights})


def rounding_digits(
    case: Case, path: str, entries: Entries, digits: int, earlier: Steps, tried: Sequence[int]
) -> int | None:
    """The number of digits to which earlier numbers must have been rounded to give these entries, if any."""
    for count in tried:
        for edit in (_round_steps(count), _round_exponentials(count)):
            try:
                value = case.run(earlier, [edit])[path]
            except NotApplicable:
                continue
            fitted = entries.fit(value.shape)
            if fitted is not None and not mismatches(fitted, value, tolerance(fitted, digits)).any():
                return count
    return None


def _early_rounding_causes(case: Case, wrong: WrongStep) -> list[Cause]:
    for earlier in wrong.starting_steps:
        count = rounding_digits(case, wrong.path, wrong.entries, wrong.digits, earlier, (1, 0))
        if count is not None:
            return [_slip_cause("rounded-too-early", f"numbers rounded to {count} digits give yours")]
    return []


# --- slips --------------------------------------------------------------------------------------------
def _slip_causes(wrong: WrongStep) -> list[Cause]:
    """The slip that explains the one wrong entry, or every wrong entry."""
    entries, positions = wrong.entries, wrong.wrong_positions
    if entries.shape != wrong.reference.shape:
        return []
    slugs = [_slip_slug(wrong, index) for index in positions]
    once = len({(entries.values[x], round(float(wrong.reference[x]), 9)) for x in positions}) == 1
    copied = once and 2 * len(positions) <= entries.values.size  # one number, wherever it stands
    if not positions or (len(positions) > 1 and (len(set(slugs)) > 1 or ("slip" in slugs and not copied))):
        return []
    if entries.values.size == 1:
        return [_slip_cause(slugs[0])]
    evidence = f"{'entry' if len(positions) == 1 else 'entries'} {', '.join(map(cell_text, positions))}"
    if len(positions) == 1:
        evidence += f": you have {entries.texts[positions[0]]}, all other entries are correct"
    return [_slip_cause(slugs[0], evidence)]


def _one_off_causes(wrong: WrongStep) -> list[Cause]:
    """A count that is one too large or too small, which needs no slip."""
    off = float(wrong.entries.values.sum() - wrong.reference.sum()) if wrong.reference.size == 1 else 0.0
    slug = "one-too-many" if off > 0 else "one-too-few"
    return [replace(_slip_cause(slug), mistake_id=slug, bits=ONE_OFF)] if abs(off) == 1 else []


def _transposed_causes(wrong: WrongStep) -> list[Cause]:
    """The right numbers with rows and columns swapped, as with tokens as columns."""
    turned = wrong.entries.rearrange(np.transpose)
    if turned.shape != wrong.reference.shape or wrong.entries.values.ndim != 2:
        return []
    if mismatches(turned, wrong.reference, tolerance(turned, wrong.digits)).any():
        return []
    cause = _slip_cause("transposed", "say so in [conventions] if your tokens are columns")
    return [replace(cause, mistake_id="transposed")]


def _slip_slug(wrong: WrongStep, index: tuple[int, ...]) -> str:
    """Which slip turns the right number at this index into the student's."""
    value, right = float(wrong.entries.values[index]), float(wrong.reference[index])
    half_unit = float(wrong.entries.half_unit[index])
    distance = abs(value - right)
    if not np.isfinite(right) or not np.isfinite(value):
        return "slip"
    written_out = half_unit <= 10.0**-wrong.digits  # 0.2 for 0.167 is more than another last digit
    if half_unit and distance <= 3 * half_unit + 1e-12 and written_out:
        return "cut-off" if abs(value) < abs(right) and distance < 2 * half_unit else "misrounded"
    if value == -right or (half_unit and abs(value + right) <= half_unit * 1.01):
        return "sign-slip"
    powers = (10.0**k for k in (-3, -2, -1, 1, 2, 3))
    if right and any(abs(value - right * p) <= max(half_unit, 1e-9 * abs(value)) for p in powers):
        return "point-slip"
    if _digits_swapped(str(wrong.entries.texts[index]), right, half_unit):
        return "digits-swapped"
    if half_unit and distance <= half_unit and wrong.digits:
        return "too-few-digits"
    return "slip"


def _digits_swapped(text: str, right: float, half_unit: float) -> bool:
    """Whether swapping two digits of the typed number gives the right one."""
    decimals = len(text.partition(".")[2]) if "." in text else 0
    target = f"{right:.{decimals}f}"
    typed = text.strip().lstrip("+")
    if typed.startswith((".", "-.")):
        typed = typed.replace(".", "0.", 1)
    if len(typed) != len(target) or (not half_unit and right != round(right)):
        return False
    off = [i for i, (a, b) in enumerate(zip(typed, target, strict=True)) if a != b]
    return len(off) == 2 and typed[off[0]] == target[off[1]] and typed[off[1]] == target[off[0]]


def _unknown_cause(wrong: WrongStep) -> Cause:
    shape, expected = wrong.entries.shape, wrong.reference.shape
    if shape != expected:
        sizes = [" x ".join(map(str, size)) or "a single number" for size in (shape, expected)]
        return _slip_cause("shape", f"yours is {sizes[0]}, it should be {sizes[1]}")
    if wrong.entries.values.size == 1:
        return _slip_cause("unknown")
    cells = [cell_text(index) for index in wrong.wrong_positions]
    more = " and more" if len(cells) > 8 else ""
    cause = _slip_cause("unknown", f"entries {', '.join(cells[:8])}{more} differ")
    role = wrong.path.rpartition("/")[2]  # the same step, turn after turn, is one mistake
    return replace(cause, mistake_id="unknown " + ("projection" if role in PROJECTIONS else role))
