"""The search for the edit of a step that gives the student's numbers.

Every edit is worked out from the student's own earlier numbers. Of those that give what was written the
simplest are kept. Few or coarse numbers may be met by chance: an edit is believed only if that is unlikely.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from headwork.exercises.case import Array, Case, Edit
from headwork.exercises.misconceptions import MISCONCEPTIONS, applicable, run_with_mistakes, same_values
from headwork.grading.edits import edits_of
from headwork.grading.misread_numbers import UNBELIEVED, edit_bits, misread_entries, misread_sizes
from headwork.grading.operand_edits import is_switch
from headwork.grading.other_formulas import other_formulas
from headwork.grading.step_graph import SLID_INPUTS, UNFIT, StepEdit, StepGraph, describe_edit, step_graph
from headwork.grading.two_edits import both_changes, two_edits
from headwork.grading.wording import Wording
from headwork.grading.wrong_step import BUT_FOR_A_SLIP, Cause, WrittenNumbers, WrongStep
from headwork.numbers import HandTensor

# How rare a mistake is, in bits: an authored one; what nobody lists, and a slip, which one wrong number among
# many mostly is.
KNOWN_BITS, UNLISTED_BITS, LONE_SLIP_BITS = 3.5, 3.0, 1.0
UNLISTED_COUNT_BITS = (
    1.5  # where sizes are counted: formulas that make sense stand in formulas.toml, others are rarer
)
RARE = 8.0  # formulas that nobody listed are tried beside an edit that is rarer
PARTLY_BITS = 9.0  # to make a mistake in some rows only
RERUN_BITS = 3.0  # to work a step out from the inputs, not from the steps before it
# Causes at most this many bits rarer than the likeliest are named beside it; where the numbers carry little
# information (fewer than FEW_BITS) the margin is wider and one more is named.
CLOSE, CLOSE_IF_FEW, FEW_BITS = 3.0, 3.5, 6.0
# Where sizes are counted: the margin and how many are named, more only if they are as likely; and how likely
# a slip must be to be told as well.
TIES_OF_COUNTS, EQUAL, SLIP_OF_COUNTS = (2.5, 3), 0.6, 0.05
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


@np.errstate(all="ignore")
def search(
    case: Case,
    wrong: WrongStep,
    authored: Sequence[Cause],
    rerun: Callable[[], Sequence[Cause]] = list,
    made_before: Collection[str] = (),
) -> list[Cause]:
    """The likeliest causes that give the student's numbers, authored or edits, each with its doubt.

    The others that give them too come last, as thin. ``rerun`` gives the authored ones that come from the
    inputs alone; an edit ``made_before`` is tried where it would be too rare otherwise.
    """
    target, graphs = WrittenNumbers(wrong), list(_graphs(case, wrong))
    matches, in_part = list[Match](), list[list[Match]]()
    for graph in graphs:
        if not matches:
            matches, partly = _edit_matches(
                graph, target, graph.earlier is wrong.starting_steps.written, made_before
            )
            in_part.append(partly)
    for graph, partly in zip(graphs, in_part, strict=False):
        matches = matches or [*(Match(x, graph, bits) for x, bits in misread_entries(graph, target)), *partly]
    if matches and min(match.bits for match in matches) > RARE:
        matches += _formula_matches(matches[0].graph, target)
    if not matches and not authored and wrong.starting_steps.written:
        from_inputs = step_graph(case, wrong.path, {})
        rerun_found = _edit_matches(from_inputs, target, False, (), most=2)[0] if from_inputs else []
        matches = [replace(match, bits=match.bits + RERUN_BITS) for match in rerun_found]
        authored = [replace(cause, bits=cause.bits + RERUN_BITS) for cause in rerun()]
    if not matches and not authored:
        matches = next(filter(None, (_formula_matches(graph, target) for graph in graphs)), [])
    own_graphs = graphs[-1:] if case.counts_sizes else []
    misread = [Match(edit, x, bits) for x in own_graphs for edit, bits in misread_sizes(x, target)]
    matches += [match for match in misread if match.edit.rarity < UNBELIEVED]
    matches = sorted(matches, key=lambda match: match.bits)
    different, said_better, again = _distinct_matches(case, matches, authored)
    candidates = [replace(cause, bits=KNOWN_BITS + cause.bits) for cause in authored]
    rarer = UNLISTED_COUNT_BITS if case.counts_sizes else 0.0
    candidates += [replace(cause, bits=cause.bits + rarer) for cause in _causes(case, wrong, different)]
    side_causes = [
        replace(cause, doubt="beside", same_as=authored[number].slug)
        for cause, number in zip(
            _causes(case, wrong, [x for x, _ in said_better]), (n for _, n in said_better), strict=True
        )
    ]
    side_causes += [replace(cause, doubt="again") for cause in _causes(case, wrong, again)]
    unlikely = _causes(case, wrong, [match for match in misread if match.edit.rarity == UNBELIEVED])
    side_causes += [replace(cause, doubt="thin") for cause in unlikely]
    return _likeliest(target, candidates, side_causes, case.counts_sizes)


def _likeliest(
    target: WrittenNumbers, candidates: list[Cause], side_causes: list[Cause], counts_sizes: bool
) -> list[Cause]:
    """The causes in doubt: how likely they are beside everything else that gives these numbers.

    One wrong number among many is mostly a slip, unless sizes are counted.
    """
    distinct: dict[str, Cause] = {}
    for cause in sorted(candidates, key=lambda cause: cause.bits):
        distinct.setdefault(cause.sentence, cause)
    if not distinct:
        return []
    least = min(cause.bits for cause in distinct.values())
    coarse = target.information_bits < FEW_BITS or target.all_equal
    close, most = (
        TIES_OF_COUNTS if counts_sizes else (CLOSE_IF_FEW, MAX_TIES + 1) if coarse else (CLOSE, MAX_TIES)
    )
    chosen = _of_one_mistake(x for x in distinct.values() if x.bits <= least + close)[:most]
    if counts_sizes:
        ties = [cause for cause in distinct.values() if cause.bits <= least + EQUAL][:MAX_TIES]
        chosen = max(chosen, ties, key=len)
    one_of_many = target.wrong_mask.sum() == 1 < target.wrong_mask.size and not counts_sizes
    evidence_bits = target.information_bits + (LONE_SLIP_BITS if one_of_many else UNLISTED_BITS)
    every = sum(2.0**-x.bits for x in distinct.values()) + 2.0**-evidence_bits + target.slip_probability
    share = sum(2.0**-x.bits for x in chosen) / every
    is_weak = target.wrong_mask.sum() == 1 and target.information_bits < FEW_BITS
    doubtful = share < CERTAIN or one_of_many or is_weak
    if counts_sizes and target.values.size == 1:
        doubtful = target.slip_probability > SLIP_OF_COUNTS * every
    zeros = target.all_equal and not target.values.any()  # much gives zeros
    only_zeros = zeros and len(distinct) > 1 and all(cause.edit_slug for cause in chosen)
    believed = BELIEVED_COUNTS if counts_sizes else BELIEVED
    doubt = "thin" if share < believed or only_zeros else "doubtful" if doubtful else ""
    if len(chosen) > 1:
        tie = "these numbers cannot tell it from the other"
        chosen = [replace(cause, evidence=tie) for cause in chosen]
    unlikely = [x for x in distinct.values() if x.sentence not in {cause.sentence for cause in chosen}]
    rated = [replace(cause, doubt=doubt) for cause in chosen] + [replace(x, doubt="thin") for x in unlikely]
    return [replace(cause, evidence_bits=evidence_bits) for cause in rated + side_causes]


def _of_one_mistake(causes: Iterable[Cause]) -> list[Cause]:
    """The first two causes of each mistake_id: they are one idea."""
    count, kept = Counter[str](), list[Cause]()
    for cause in causes:
        count[cause.mistake_id] += bool(cause.mistake_id)
        kept += [cause] if count[cause.mistake_id] <= MOST_ALIKE else []
    return kept


@np.errstate(all="ignore")
def search_pairs(case: Case, wrong: WrongStep) -> list[Cause]:
    """Two common edits at once that give the student's numbers."""
    target = WrittenNumbers(wrong)
    if (wrong.wrong_mask.sum() < 2 and not case.counts_sizes) or target.all_equal:
        return []
    matches = next(filter(None, (_pair_matches(graph, target) for graph in _graphs(case, wrong))), [])
    found = _causes(case, wrong, _distinct_matches(case, matches, [])[0])
    found = found or _rerun_pairs(case, wrong, target)
    return found if len(found) <= MAX_TIES else []


def _rerun_pairs(case: Case, wrong: WrongStep, target: WrittenNumbers) -> list[Cause]:
    """A known mistake together with another border, stride or padding: the mechanism is run again."""
    graph, causes, count = next(_graphs(case, wrong), None), list[Cause](), 0
    reruns = [edit for edit in edits_of(graph) if edit.options] if graph else []
    for edit, mistake in product(reruns, applicable(case, [wrong.path])):
        changed = Edit(lambda _, options=edit.options: options)  # type: ignore[misc]
        try:
            value = case.run(wrong.starting_steps.written, [changed, mistake.edit])[wrong.path]
            value = value[edit.changes[-1]] if edit.changes else value
        except (*UNFIT, AttributeError):  # one may take away what the other reads
            continue
        count += 1
        if graph and target.matches(value) and not any(mistake.slug in cause.slug for cause in causes):
            slug, sentence = describe_edit(edit, graph, Wording(case.mechanism, case.options))
            both = f"{mistake.sentence}; and {sentence}"
            causes.append(Cause(f"{mistake.slug} + {slug}", both, "both together give your numbers"))
    return causes if count * 2.0**-target.information_bits < PAIR_BY_CHANCE else []


def _graphs(case: Case, wrong: WrongStep) -> Iterator[StepGraph]:
    """How the step is worked out from either set of earlier steps."""
    for earlier in wrong.starting_steps:
        graph = step_graph(case, wrong.path, earlier)
        if graph and np.allclose(graph.result.array, case.run(earlier)[wrong.path], equal_nan=True):
            yield graph


def _edit_matches(
    graph: StepGraph,
    target: WrittenNumbers,
    from_rounded_steps: bool,
    made_before: Collection[str],
    most: float = 3,
) -> tuple[list[Match], list[Match]]:
    """The edits that give all numbers, and those that give the wrong ones, where some rows are right."""
    found, partly = list[StepEdit](), list[tuple[StepEdit, str]]()
    tried: Counter[tuple[str, float]] = Counter()
    right, counted = graph.result.array, graph.case.counts_sizes
    windows = any(name in graph.case.inputs for name in SLID_INPUTS)  # whose outputs have no diagonal
    for edit in edits_of(graph):
        again = edit.mistake_id in made_before or edit_slug(edit) in made_before
        value = graph.apply(edit) if edit.rarity <= most or again else None
        tried[edit.slug, edit.rarity] += value is not None
        if value is None or (value.shape == right.shape and (value == right).all()):
            continue
        if target.all_equal and edit.rarity > (1.4 if not target.values.any() else 2) and not again:
            continue  # zeros everywhere, or one number, are no work: only a common mistake leads there
        if target.matches(value) or (from_rounded_steps and _within_rounding(graph, edit, value, target)):
            found.append(edit)
        elif counted and target.values.all() and target.matches(np.floor(value)):
            tried[edit.slug, edit.rarity + 1] += 1
            found.append(edit._replace(says=f"{edit.says}, and rounded down", rarity=edit.rarity + 1))
        elif (where := target.partial_match(value)) and not (windows and "diagonal" in where):
            partly.append((edit, where))
    # The more edits of a kind there are, the less likely is each of them.
    bits = {x: edit_bits(x[1]) + math.log2(count) / 2 for x, count in tried.items() if count}
    # A slip says nothing of its own number.
    slip = PARTLY_BITS + target.information_bits / max(1, target.wrong_count)
    axes = {f"axis_{axis}": (graph.path, axis) for axis in range(right.ndim)}
    in_part = []
    for edit, where in partly:
        rarity = bits[edit.slug, edit.rarity] + (slip if BUT_FOR_A_SLIP in where else PARTLY_BITS)
        edit = edit._replace(says=f"{edit.says} ({where})", placeholders={**edit.placeholders, **axes})
        in_part.append(Match(edit, graph, rarity))
    return [Match(x, graph, bits[x.slug, x.rarity]) for x in found], in_part


def _formula_matches(graph: StepGraph, target: WrittenNumbers) -> list[Match]:
    """Formulas that nobody listed: functions of the step's own numbers, and then whatever gives these."""
    if target.all_equal or target.information_bits < FEW_BITS:
        return []
    found, most_bits = list[Match](), target.information_bits + UNLISTED_BITS - edit_bits(1)
    for edit, tried in other_formulas(graph, target.matching, most_bits):
        bits = edit_bits(edit.rarity - 2) + math.log2(tried)
        value = graph.apply(edit) if not found or bits < found[0].bits + CLOSE else None
        if value is not None and target.matches(value):
            found.append(Match(edit, graph, bits))
    return found


def _within_rounding(graph: StepGraph, edit: StepEdit, value: Array, target: WrittenNumbers) -> bool:
    """Whether the rounding of the student's earlier numbers explains the difference."""
    sizes = {
        label: target.wrong.half_units[label] for label in graph.earlier if label in target.wrong.half_units
    }
    largest = max((float(np.max(size, initial=0)) for size in sizes.values()), default=0.0)
    if largest == 0 or not target.matches(value, NEAR * largest * (1 + np.abs(value))):
        return False
    total = np.zeros_like(value)
    for label, size in sizes.items():
        if edit.options or label not in graph.tensors or graph.tensors[label].shape != size.shape:
            continue
        for index in map(tuple, np.argwhere(size > 0)):
            moved = graph.tensors[label].array.copy()
            moved[index] += size[index]
            tensors = {**graph.tensors, label: HandTensor(moved).labelled(label)}
            other = replace(graph, tensors=tensors).apply(edit)
            if other is None:
                return False
            total += np.nan_to_num(np.abs(other - value), posinf=0.0)
    return target.matches(value, 1.05 * total)


def _pair_matches(graph: StepGraph, target: WrittenNumbers) -> list[Match]:
    """Two common edits at once, at different places; one may be rarer, done to the result."""
    singles, done_to_result = list[StepEdit](), list[StepEdit]()
    for edit in edits_of(graph):
        group = singles if edit.rarity < 2 else done_to_result
        rarer = edit.rarity == 2 and [*edit.changes] == [len(graph.operations) - 1]
        common = (edit.rarity < 2 or rarer) and not edit.options and "taken-as" not in edit.slug
        value = graph.apply(edit) if common else None
        if value is not None and value.shape == graph.result.shape and len(group) < MAX_SINGLES:
            group.append(edit)
    count, found = 0, []
    for edit_a, edit_b in (*combinations(singles, 2), *product(singles, done_to_result)):
        changes = both_changes(graph, edit_a, edit_b)
        value = graph.apply(edit_a._replace(changes=changes)) if changes else None
        count += value is not None
        if value is not None and target.matches(value):
            found.append((edit_a, edit_b, changes))
    by_chance = count * 2.0**-target.information_bits
    if by_chance >= PAIR_BY_CHANCE or len(found) > MAX_TIES**2:
        return []
    worded = {id(edit): _in_known_words(graph, edit) for pair in found for edit in pair[:2]}
    pairs = ((two_edits(worded[id(a)], worded[id(b)]), changes) for a, b, changes in found)
    return [Match(pair._replace(changes=changes), graph, 0.0) for pair, changes in pairs]


def _in_known_words(graph: StepGraph, edit: StepEdit) -> StepEdit:
    """An edit in the words of the known mistake that it is, if it is one."""
    graphs = [_with_other_numbers(graph, seed) for seed in range(3)]
    values = [other.apply(edit) for other in graphs]
    arrays = [value for value in values if value is not None]
    for mistake in applicable(graph.case, [graph.path]) if len(arrays) == len(graphs) else ():
        if _all_same([_authored_value(graph.case, other, mistake.slug) for other in graphs], arrays):
            sentence = mistake.sentence.replace("{", "{{").replace("}", "}}")
            return edit._replace(says=sentence, placeholders={}, slug=mistake.slug)
    return edit


def _distinct_matches(
    case: Case, matches: list[Match], authored: Sequence[Cause]
) -> tuple[list[Match], list[tuple[Match, int]], list[Match]]:
    """The edits that differ from those before them on other numbers, too; those that an authored mistake says
    better, and which; and those that are one of the first.
    """
    if not matches:
        return [], [], []
    graphs = [_with_other_numbers(matches[0].graph, seed) for seed in range(3)]
    authored_values = [[_authored_value(case, graph, cause.slug) for graph in graphs] for cause in authored]
    seen, kept, known_already, again = (
        list[list[Array]](),
        list[Match](),
        list[tuple[Match, int]](),
        list[Match](),
    )
    for match in matches:
        values = [None if match.edit.options else graph.apply(match.edit) for graph in graphs]
        arrays = [value for value in values if value is not None]
        if len(arrays) < len(graphs):
            kept.append(match)
        elif better := [n for n, values in enumerate(authored_values) if _all_same(values, arrays)]:
            known_already.append((match, better[0]))
        elif any(_all_same(before, arrays) for before in seen):
            again.append(match)
        else:
            kept.append(match)
            seen.append(arrays)
    return kept, known_already, again


def _with_other_numbers(graph: StepGraph, seed: int) -> StepGraph:
    """The step with other numbers; sizes stay large beside strides, so that quotients tell them apart."""
    rng, tensors = np.random.default_rng(seed), {}
    scalars_only = all(tensor.shape == () for tensor in graph.tensors.values())
    for label, tensor in graph.tensors.items():
        if is_switch(tensor):
            tensors[label] = tensor
            continue
        least, most = (2, 7) if label in graph.case.options else (30, 400)
        drawn = rng.integers(least, most, ()) * 1.0 if scalars_only else rng.normal(2, 3, tensor.shape)
        tensors[label] = HandTensor(np.asarray(drawn, tensor.array.dtype)).labelled(label)
    return replace(graph, tensors=tensors)


def _all_same(left: Sequence[Array | None], right: Sequence[Array]) -> bool:
    return all(a is not None and same_values(a, b) for a, b in zip(left, right, strict=True))


def _authored_value(case: Case, graph: StepGraph, slug: str) -> Array | None:
    """What an authored mistake gives with the known numbers of a graph."""
    numbers = {label: tensor.array for label, tensor in graph.tensors.items()}
    changed = [
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
    elsewhere = replace(case, inputs={**case.inputs, **changed[0]}, options={**case.options, **changed[1]})
    own_steps = {step: numbers[step] for step in graph.earlier if step in numbers}
    try:
        steps = run_with_mistakes(elsewhere, MISCONCEPTIONS[slug], replacing=own_steps)
    except UNFIT:
        return None
    return steps.get(graph.path) if steps else None


def edit_slug(edit: StepEdit) -> str:
    """The name of an edit, whatever its operands are."""
    return edit.slug.replace("{", "").replace("}", "")


def _causes(case: Case, wrong: WrongStep, matches: list[Match]) -> list[Cause]:
    wording, causes = Wording(case.mechanism, case.options), []
    for match in matches:
        edit = match.edit
        slug, sentence = describe_edit(edit, match.graph, wording)
        operands = tuple(wording.name(x) for x in edit.placeholders.values() if isinstance(x, HandTensor))
        shown = (slug, sentence, wrong.evidence_text, wrong.path)
        causes.append(Cause(*shown, edit_slug(edit), operands, edit.mistake_id or slug, bits=match.bits))
    return causes
