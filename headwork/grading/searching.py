"""The search for the edit of a step that gives the student's numbers.

Every edit is worked out from the student's own earlier numbers. Of those that give what was written the
simplest are kept. Few or coarse numbers may be met by chance: an edit is believed only if that is unlikely.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from headwork.exercises.case import Array, Case
from headwork.exercises.misconceptions import MISCONCEPTIONS, run_with_mistakes, same_values
from headwork.grading.edits import edits_of, two_edits
from headwork.grading.misread_numbers import UNBELIEVED, edit_bits, misread_entries, misread_sizes
from headwork.grading.operand_edits import is_switch
from headwork.grading.other_formulas import other_formulas
from headwork.grading.step_graph import SLID, UNFIT, StepEdit, StepGraph, describe_edit, step_graph
from headwork.grading.wording import Wording
from headwork.grading.wrong_step import Cause, Target, WrongStep
from headwork.numbers import HandTensor

# How rare a mistake is, in bits: an authored one; what nobody lists, and a slip, which one wrong number among
# many mostly is.
AUTHORED, UNLISTED, SLIP = 3.5, 3.0, 1.0
UNTHOUGHT = 1.5  # where sizes are counted: formulas that make sense stand in formulas.toml, others are rarer
RARE = 8.0  # formulas that nobody listed are tried beside an edit that is rarer
PARTLY_BITS = 9.0  # to make a mistake in some rows only
RERUN_BITS = 3.0  # to work a step out from the inputs, not from the steps before it
# Causes at most this many bits rarer than the likeliest are named beside it; where the numbers carry little
# information (fewer than FEW_BITS) the margin is wider and one more is named.
CLOSE, CLOSE_IF_FEW, FEW_BITS = 3.0, 3.5, 6.0
# Where sizes are counted: the margin and how many are named, more only if they are as likely; and how likely
# a slip must be to be told as well.
TIES_OF_COUNTS, EQUAL, SLIP_OF_COUNTS = (2.5, 2), 0.6, 0.05
BELIEVED, BELIEVED_COUNTS, CERTAIN = 0.3, 0.2, 0.8  # of the probability
PAIR_BY_CHANCE = 0.01  # pairs that would fit by chance, at most
MOST_ALIKE = 2  # of one mistake_id
MAX_TIES = 3  # told as "either ... or ...", at most
MAX_SINGLES = 70  # edits that are tried in pairs
NEAR = 50  # times the rounding of an earlier number: beyond this a closer look is not worth its time


@dataclass(frozen=True)
class Match:
    """An edit that gives the student's numbers, and how rare it is, in bits."""

    edit: StepEdit
    graph: StepGraph
    bits: float


def search(
    case: Case, wrong: WrongStep, authored: Sequence[Cause], anew: Callable[[], Sequence[Cause]] = list
) -> list[Cause]:
    """The likeliest causes that give the student's numbers, authored or edits, each with its doubt.

    The others that give them too come last, as thin. ``anew`` gives the authored ones that come from the
    inputs alone.
    """
    target, graphs = Target(wrong), list(_graphs(case, wrong))
    matches, in_part = list[Match](), list[list[Match]]()
    for graph in graphs:
        if not matches:
            matches, partly = _edit_matches(graph, target, graph.earlier is wrong.starting_steps[1])
            in_part.append(partly)
    for graph, partly in zip(graphs, in_part, strict=False):
        matches = matches or [*(Match(x, graph, bits) for x, bits in misread_entries(graph, target)), *partly]
    if matches and min(match.bits for match in matches) > RARE:
        matches += _formula_matches(matches[0].graph, target)
    if not matches and not authored and wrong.starting_steps[1]:
        whole_way = step_graph(case, wrong.path, {})
        anew_found = _edit_matches(whole_way, target, False, most=2)[0] if whole_way else []
        matches = [replace(match, bits=match.bits + RERUN_BITS) for match in anew_found]
        authored = [replace(cause, bits=cause.bits + RERUN_BITS) for cause in anew()]
    if not matches and not authored:
        matches = next(filter(None, (_formula_matches(graph, target) for graph in graphs)), [])
    own = graphs[-1:] if case.counts_sizes else []
    misread = [Match(edit, graph, bits) for graph in own for edit, bits in misread_sizes(graph, target)]
    matches += [match for match in misread if match.edit.cost < UNBELIEVED]
    different, known = _distinct_matches(case, sorted(matches, key=lambda match: match.bits), authored)
    candidates = [replace(cause, bits=AUTHORED + cause.bits) for cause in authored]
    rarer = UNTHOUGHT if case.counts_sizes else 0.0
    candidates += [replace(cause, bits=cause.bits + rarer) for cause in _causes(case, wrong, different)]
    beside = [replace(cause, doubt="beside") for cause in _causes(case, wrong, known)]
    unlikely = _causes(case, wrong, [match for match in misread if match.edit.cost == UNBELIEVED])
    beside += [replace(cause, doubt="thin") for cause in unlikely]
    return _likeliest(target, candidates, beside, case.counts_sizes)


def _likeliest(target: Target, candidates: list[Cause], beside: list[Cause], whole: bool) -> list[Cause]:
    """The causes in doubt: how likely they are beside everything else that gives these numbers.

    One wrong number among many is mostly a slip, unless sizes are counted.
    """
    distinct: dict[str, Cause] = {}
    for cause in sorted(candidates, key=lambda cause: cause.bits):
        distinct.setdefault(cause.sentence, cause)
    if not distinct:
        return []
    least = min(cause.bits for cause in distinct.values())
    few = target.information_bits < FEW_BITS or target.all_equal
    close, most = (CLOSE_IF_FEW if few else CLOSE, MAX_TIES + few) if not whole else TIES_OF_COUNTS
    chosen = _of_one_mistake(x for x in distinct.values() if x.bits <= least + close)[:most]
    if whole:
        ties = [cause for cause in distinct.values() if cause.bits <= least + EQUAL][:MAX_TIES]
        chosen = max(chosen, ties, key=len)
    one_of_many = target.wrong_mask.sum() == 1 < target.wrong_mask.size and not whole
    evidence_bits = target.information_bits + (SLIP if one_of_many else UNLISTED)
    every = sum(2.0**-x.bits for x in distinct.values()) + 2.0**-evidence_bits + target.slip_probability
    share = sum(2.0**-x.bits for x in chosen) / every
    little = target.wrong_mask.sum() == 1 and target.information_bits < FEW_BITS
    doubtful = share < CERTAIN or one_of_many or little
    if whole and target.values.size == 1:
        doubtful = target.slip_probability > SLIP_OF_COUNTS * every
    zeros = target.all_equal and not target.values.any()  # much gives zeros
    nothing = zeros and len(distinct) > 1 and all(cause.edit for cause in chosen)
    believed = BELIEVED_COUNTS if whole else BELIEVED
    doubt = "thin" if share < believed or nothing else "doubtful" if doubtful else ""
    if len(chosen) > 1:
        tie = "these numbers cannot tell it from the other"
        chosen = [replace(cause, evidence=tie) for cause in chosen]
    rest = [cause for cause in distinct.values() if cause.sentence not in {x.sentence for x in chosen}]
    rated = [replace(cause, doubt=doubt) for cause in chosen] + [replace(x, doubt="thin") for x in rest]
    return [replace(cause, evidence_bits=evidence_bits) for cause in rated + beside]


def _of_one_mistake(causes: Iterable[Cause]) -> list[Cause]:
    """The first two causes of each mistake_id: they are one idea."""
    count, kept = Counter[str](), list[Cause]()
    for cause in causes:
        count[cause.mistake_id] += bool(cause.mistake_id)
        kept += [cause] if count[cause.mistake_id] <= MOST_ALIKE else []
    return kept


def search_pairs(case: Case, wrong: WrongStep) -> list[Cause]:
    """Two common edits at once that give the student's numbers."""
    target = Target(wrong)
    if (wrong.wrong_mask.sum() < 2 and not case.counts_sizes) or target.all_equal:
        return []
    matches = next(filter(None, (_pair_matches(graph, target) for graph in _graphs(case, wrong))), [])
    found = _causes(case, wrong, _distinct_matches(case, matches, [])[0])
    return found if len(found) <= MAX_TIES else []


def _graphs(case: Case, wrong: WrongStep) -> Iterator[StepGraph]:
    """How the step is worked out from either set of earlier steps."""
    for earlier in wrong.starting_steps:
        graph = step_graph(case, wrong.path, earlier)
        if graph and np.allclose(graph.result.array, case.run(earlier)[wrong.path], equal_nan=True):
            yield graph


def _edit_matches(
    graph: StepGraph, target: Target, from_rounded_steps: bool, most: float = 3
) -> tuple[list[Match], list[Match]]:
    """The edits that give all numbers, and those that give the wrong ones, where some rows are right."""
    found, partly = list[StepEdit](), list[tuple[StepEdit, str]]()
    tried: Counter[tuple[str, float]] = Counter()
    right, counted = graph.result.array, graph.case.counts_sizes
    windows = any(name in graph.case.inputs for name in SLID)  # whose outputs have no diagonal
    for edit in edits_of(graph):
        value = graph.apply(edit) if edit.cost <= most else None
        tried[edit.cause, edit.cost] += value is not None
        if value is None or (value.shape == right.shape and np.array_equal(value.array, right)):
            continue
        if target.all_equal and edit.cost > (1.4 if not target.values.any() else 2):
            continue  # zeros everywhere, or one number, are no work: only a common mistake leads there
        if target.matches(value.array) or (
            from_rounded_steps and _within_rounding(graph, edit, value, target)
        ):
            found.append(edit)
        elif counted and target.values.all() and target.matches(np.floor(value.array)):
            tried[edit.cause, edit.cost + 1] += 1
            found.append(edit._replace(says=f"{edit.says}, and rounded down", cost=edit.cost + 1))
        elif (where := target.partial_match(value.array)) and not (windows and "diagonal" in where):
            partly.append((edit, where))
    # The more edits of a kind there are, the less likely is each of them.
    bits = {x: edit_bits(x[1]) + math.log2(count) / 2 for x, count in tried.items() if count}
    axes = {f"axis_{axis}": (graph.path, axis) for axis in range(right.ndim)}
    in_part = [(x, x._replace(says=f"{x.says} ({where})", words={**x.words, **axes})) for x, where in partly]
    return [Match(x, graph, bits[x.cause, x.cost]) for x in found], [
        Match(said, graph, bits[x.cause, x.cost] + PARTLY_BITS) for x, said in in_part
    ]


def _formula_matches(graph: StepGraph, target: Target) -> list[Match]:
    """Formulas that nobody listed: functions of the step's own numbers, and then whatever gives these."""
    if target.all_equal or target.information_bits < FEW_BITS:
        return []
    found = list[Match]()
    with np.errstate(all="ignore"):
        for edit, tried in other_formulas(graph, target.matching):
            bits = edit_bits(1) + math.log2(tried)
            value = graph.apply(edit) if not found or bits < found[0].bits + CLOSE else None
            if value is not None and target.matches(value.array):
                found.append(Match(edit, graph, bits))
    return found


def _within_rounding(graph: StepGraph, edit: StepEdit, value: HandTensor, target: Target) -> bool:
    """Whether the rounding of the student's earlier numbers explains the difference."""
    sizes = {
        label: target.wrong.half_units[label] for label in graph.earlier if label in target.wrong.half_units
    }
    largest = max((float(np.max(size, initial=0)) for size in sizes.values()), default=0.0)
    if largest == 0 or not target.matches(value.array, NEAR * largest * (1 + np.abs(value.array))):
        return False
    total = np.zeros_like(value.array)
    for label, size in sizes.items():
        if edit.options or label not in graph.known or graph.known[label].shape != size.shape:
            continue
        for index in map(tuple, np.argwhere(size > 0)):
            moved = graph.known[label].array.copy()
            moved[index] += size[index]
            known = {**graph.known, label: HandTensor(moved).labelled(label)}
            other = replace(graph, known=known).apply(edit)
            if other is None:
                return False
            with np.errstate(invalid="ignore"):  # infinity less infinity
                total += np.nan_to_num(np.abs(other.array - value.array), posinf=0.0)
    return target.matches(value.array, 1.05 * total)


def _pair_matches(graph: StepGraph, target: Target) -> list[Match]:
    """Two common edits at once, at different places; of windows one may be rarer, done to the result."""
    singles, done_to_result = list[StepEdit](), list[StepEdit]()
    windows = any(name in graph.known for name in SLID)
    for edit in edits_of(graph):
        group = singles if edit.cost < 2 else done_to_result
        rarer = windows and edit.cost == 2 and [*edit.changes] == [len(graph.operations) - 1]
        common = (edit.cost < 2 or rarer) and not edit.options and "taken-as" not in edit.cause
        value = graph.apply(edit) if common else None
        if value is not None and value.shape == graph.result.shape and len(group) < MAX_SINGLES:
            group.append(edit)
    count, found = 0, []
    for first, second in (*combinations(singles, 2), *product(singles, done_to_result)):
        if set(first.changes) & set(second.changes):
            continue
        count += 1
        both = first._replace(changes={**first.changes, **second.changes})
        value = graph.apply(both)
        if value is not None and target.matches(value.array):
            found.append((first, second))
    by_chance = count * 2.0**-target.information_bits
    return [Match(two_edits(*pair), graph, 0.0) for pair in found] if by_chance < PAIR_BY_CHANCE else []


def _distinct_matches(
    case: Case, matches: list[Match], authored: Sequence[Cause]
) -> tuple[list[Match], list[Match]]:
    """The edits that differ from those before them on other numbers, too; and those that an authored mistake
    says better.
    """
    if not matches:
        return [], []
    others = [_with_other_numbers(matches[0].graph, seed) for seed in range(3)]
    said_better = [[_authored_value(case, other, cause.slug) for other in others] for cause in authored]
    seen, kept, known_already = list[list[Array]](), list[Match](), list[Match]()
    for match in matches:
        values = [None if match.edit.options else other.apply(match.edit) for other in others]
        arrays = [value.array for value in values if value is not None]
        if len(arrays) < len(others):
            kept.append(match)
        elif any(_all_same(better, arrays) for better in said_better):
            known_already.append(match)
        elif not any(_all_same(before, arrays) for before in seen):
            kept.append(match)
            seen.append(arrays)
    return kept, known_already


def _with_other_numbers(graph: StepGraph, seed: int) -> StepGraph:
    """The step with other numbers; sizes stay large beside strides, so that quotients tell them apart."""
    draws, known = np.random.default_rng(seed), {}
    whole = all(tensor.shape == () for tensor in graph.known.values())
    for label, tensor in graph.known.items():
        if is_switch(tensor):
            known[label] = tensor
            continue
        least, most = (2, 7) if label in graph.case.options else (30, 400)
        drawn = draws.integers(least, most, ()) * 1.0 if whole else draws.normal(2, 3, tensor.shape)
        known[label] = HandTensor(np.asarray(drawn, tensor.array.dtype)).labelled(label)
    return replace(graph, known=known)


def _all_same(left: Sequence[Array | None], right: Sequence[Array]) -> bool:
    return all(a is not None and same_values(a, b) for a, b in zip(left, right, strict=True))


def _authored_value(case: Case, graph: StepGraph, slug: str) -> Array | None:
    """What an authored mistake gives with the known numbers of a graph."""
    numbers = {label: tensor.array for label, tensor in graph.known.items()}
    given = [
        {
            name: int(numbers[name])
            if isinstance(value, int)
            else HandTensor(numbers[name])
            if isinstance(value, HandTensor)
            else value
            for name, value in part.items()
            if name in numbers
        }
        for part in (case.inputs, case.options)
    ]
    elsewhere = replace(case, inputs={**case.inputs, **given[0]}, options={**case.options, **given[1]})
    own = {step: numbers[step] for step in graph.earlier if step in numbers}
    try:
        steps = run_with_mistakes(elsewhere, MISCONCEPTIONS[slug], replacing=own)
    except UNFIT:
        return None
    return steps.get(graph.path) if steps else None


def _causes(case: Case, wrong: WrongStep, matches: list[Match]) -> list[Cause]:
    wording, causes = Wording(case.mechanism, case.options), []
    for match in matches:
        slug, sentence = describe_edit(match.edit, match.graph, wording)
        operands = tuple(wording.name(x) for x in match.edit.words.values() if isinstance(x, HandTensor))
        kind, same = match.edit.cause.replace("{", "").replace("}", ""), match.edit.mistake_id or slug
        evidence = wrong.evidence_text
        causes.append(Cause(slug, sentence, evidence, wrong.path, kind, operands, same, bits=match.bits))
    return causes
