"""``python -m benchmarks.wrong_answers``: grade every wrong answer of the file and say what was recognised.

``--list`` also names each mistake that was not; ``--write`` makes the file again from its exercises;
``--second`` takes the second set; ``--right`` checks that the right formulas get full marks on 5 seeds and 3
difficulties of every kind.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from statistics import median

from benchmarks.wrong_answers import KINDS, making
from benchmarks.wrong_answers.elsewhere import agrees, causes_elsewhere
from benchmarks.wrong_answers.judging import Said, unjudged, verdict
from benchmarks.wrong_answers.solving import Kind
from headwork.exercises import Exercise, generate
from headwork.grading import Mark, grade

EVERYDAY = ("slip-at-", "sign-slip-at-", "misread-", "row-copied-at-")
VERDICTS = ("named", "named beside others", "unknown", "slip", "shape", "wrong name")


@dataclass(frozen=True)
class Graded:
    """One wrong answer with its mark and the processor time that marking took."""

    row: making.Row
    mark: Mark
    seconds: float
    mistakes: Kind
    elsewhere: dict[str, list[set[str]]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return str(self.row["answer"][0])

    @property
    def everyday(self) -> bool:
        return any(x.startswith(EVERYDAY) for x in self.row["mistakes"])

    @property
    def first_step_found(self) -> bool:
        first = self.mark.first_wrong
        return first is not None and first.path == self.row["wrong"][0]

    @property
    def carried(self) -> list[bool]:
        """Whether each step that follows from the answer's own wrong numbers was marked correct."""
        after = self.row["asked"][self.row["asked"].index(self.row["wrong"][0]) + 1 :]
        return [self.mark.step(step).right for step in after if step not in self.row["wrong"]]

    @property
    def charged_once(self) -> bool:
        return self.mark.max_points - self.mark.points <= 1

    @property
    def causes(self) -> list[tuple[str, list[str], list[Said]]]:
        """Each mistake, those with the very same numbers, and the causes named where it first shows."""
        row, steps = self.row, [self.mark.step(step) for step in self.row["first"]]
        named = [[Said(cause.slug, cause.sentence) for cause in step.causes] for step in steps]
        return list(zip(row["mistakes"], row["same"], named, strict=True))

    @cached_property
    def verdicts(self) -> list[str]:
        firsts = zip(self.causes, self.row["first"], strict=True)
        return [verdict(self.kind, *about, partial(self._holds, step)) for about, step in firsts]

    def _holds(self, step: str, slug: str) -> bool:
        """Whether the cause gives the author's numbers of the step in other draws, too."""
        if step not in self.elsewhere:
            self.elsewhere[step] = causes_elsewhere(self.mistakes, self.row, step)
        return agrees(slug, self.elsewhere[step])

    @property
    def to_judge(self) -> list[str]:
        firsts = zip(self.causes, self.row["first"], strict=True)
        pairs = [
            (about[0], cause)
            for about, step in firsts
            for cause in unjudged(self.kind, *about)
            if not self._holds(step, cause.slug)
        ]
        return [f"{self.kind}, {mistake} = {cause.slug}: {cause.sentence}" for mistake, cause in pairs]

    @property
    def named(self) -> list[bool]:
        return [verdict.startswith("named") for verdict in self.verdicts]


def grade_all(data: Path = making.DATA) -> list[Graded]:
    exercises, answers = making.read(data)
    known: dict[tuple[str, ...], tuple[Exercise, list[str]]] = {
        tuple(row["exercise"]): (making.exercise(row), row["asked"]) for row in exercises
    }
    graded = []
    for row in answers:
        exercise, asked = known[tuple(row["answer"])]
        exercise.solution  # noqa: B018  (worked out once, before the clock starts)
        start = time.process_time()
        mark = grade(exercise, row["steps"])
        seconds, kind = time.process_time() - start, making.SETS[data][0][row["answer"][0]]
        graded.append(Graded({**row, "asked": asked}, mark, seconds, kind))
    return graded


def share(held: Iterable[bool]) -> str:
    held = list(held)
    return f"{sum(held)} of {len(held)} ({sum(held) / max(len(held), 1):.1%})"


def _verdict_line(graded: list[Graded]) -> str:
    counts = Counter(x.verdicts[0] for x in graded)
    return ", ".join(f"{name} {counts[name]} ({counts[name] / max(len(graded), 1):.1%})" for name in VERDICTS)


def report(graded: list[Graded]) -> str:
    groups = {name: [x for x in graded if x.row["group"] == name] for name in ("single", "each time", "two")}
    authored = [x for x in groups["single"] if not x.everyday]
    everyday = [x for x in groups["single"] if x.everyday]
    seconds = [x.seconds for x in graded]
    found = {name: share(x.first_step_found for x in group) for name, group in groups.items()}
    return "\n".join(
        [
            f"wrong answers: {len(graded)} of {len({x.kind for x in graded})} kinds",
            f"first wrong step found: {share(x.first_step_found for x in graded)}; single {found['single']}",
            f"cause, {len(groups['single'])} single mistakes: {_verdict_line(groups['single'])}",
            f"  of these {len(authored)} mistakes of understanding: {_verdict_line(authored)}",
            f"  of these {len(everyday)} slips, misread entries and copied rows: {_verdict_line(everyday)}",
            f"cause, {len(groups['each time'])} made each time: {_verdict_line(groups['each time'])}",
            f"made each time and charged once: {share(x.charged_once for x in groups['each time'])}",
            f"two mistakes of understanding: {_both(x for x in groups['two'] if not x.everyday)}",
            f"a mistake and a slip at the end: {_both(x for x in groups['two'] if x.everyday)}",
            f"later steps carried forward: {share(held for x in graded for held in x.carried)}",
            f"time per answer: median {median(seconds):.3f} s, worst {max(seconds):.3f} s (processor time)",
            "",
            *_by_kind(authored),
            *(f"to be judged: {pair}" for pair in dict.fromkeys(pair for x in graded for pair in x.to_judge)),
        ]
    )


def _both(graded: Iterable[Graded]) -> str:
    named = [x.named for x in graded]
    return f"both named {share(map(all, named))}, at least one {share(map(any, named))}"


def _by_kind(authored: list[Graded]) -> list[str]:
    kinds = dict.fromkeys(x.kind for x in authored)
    named = {kind: [all(x.named) for x in authored if x.kind == kind] for kind in kinds}
    return [f"  {kind:28} named {share(held)}" for kind, held in named.items()]


def not_named(graded: list[Graded]) -> list[str]:
    """Each single mistake whose cause was not named, with what was said instead."""
    rows = [x for x in graded if x.row["group"] == "single" and not all(x.named)]
    said = [", ".join(cause.slug for cause in x.causes[0][2]) for x in rows]
    return [
        f"{x.kind}: {x.row['mistakes'][0]} ({x.row['sentences'][0]}) {x.verdicts[0]}: {slugs}"
        for x, slugs in zip(rows, said, strict=True)
    ]


def missed_steps(graded: list[Graded]) -> list[str]:
    """What else went wrong: the first step missed, a later step not credited, a mistake charged twice."""
    steps = [x for x in graded if not x.first_step_found]
    later = [x for x in graded if not all(x.carried)]
    twice = [x for x in graded if x.row["group"] == "each time" and not x.charged_once]
    said = {"first step missed": steps, "not carried forward": later, "charged more than once": twice}
    return [f"{what}: {x.row['answer']} {x.row['mistakes']}" for what, rows in said.items() for x in rows]


def right_answers() -> list[bool]:
    """Whether the right formulas get full marks, on exercises drawn afresh."""
    drawn = [
        generate(kind, seed=seed, difficulty=d) for kind in KINDS for seed in range(5) for d in (1, 2, 3)
    ]
    marks = [grade(exercise, making.right_answer(exercise)) for exercise in drawn]
    return [mark.points == mark.max_points for mark in marks]


def main(arguments: list[str]) -> int:
    data = making.SECOND if "--second" in arguments else making.DATA
    if "--write" in arguments:
        making.write(data)
        return 0
    if "--right" in arguments:
        held = right_answers()
        print(f"right answers with full marks: {share(held)}")
        return 0 if all(held) else 1
    graded = grade_all(data)
    print(report(graded))
    if "--list" in arguments:
        print("\n".join(["", *not_named(graded), *missed_steps(graded)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
