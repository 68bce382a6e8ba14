"""The file of wrong answers: which mistakes are made in which exercise, and how the answers are typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

from benchmarks.wrong_answers import KINDS, second
from benchmarks.wrong_answers.solving import (
    STYLES,
    Kind,
    Mistake,
    Work,
    given_numbers,
    slip,
    solve,
    type_in,
    wrong_steps,
)
from headwork.exercises import Exercise, generate

FOLDER = Path(__file__).parents[2] / "tests" / "grading"
DATA, SECOND = FOLDER / "wrong_answers.jsonl", FOLDER / "second_wrong_answers.jsonl"
SETS = {DATA: (KINDS, (11, 12, 13)), SECOND: (second.KINDS, (31, 32))}  # mistakes and seeds of each file
DIFFICULTIES = (1, 2, 3)
PAIRS, FINAL_SLIPS = 6, 3  # of each kind
UNUSABLE = (
    ValueError,
    IndexError,
    KeyError,
    ZeroDivisionError,
)  # this mistake cannot be made in this exercise

Row = dict[str, Any]


def draw(data: Path = DATA) -> list[Row]:
    """The exercises, drawn once: their numbers are kept in the file, whatever later versions draw."""
    kinds, seeds = SETS[data]
    drawn = [
        generate(kind, seed=seed, difficulty=d) for kind in kinds for seed in seeds for d in DIFFICULTIES
    ]
    return [
        {
            "exercise": [e.kind, e.seed, e.difficulty],
            "mechanism": e.mechanism,
            "inputs": dict(e.inputs),
            "options": dict(e.options),
            "asked": list(e.asked),
        }
        for e in drawn
    ]


def exercise(row: Row) -> Exercise:
    kind, seed, difficulty = row["exercise"]
    points = dict.fromkeys(row["asked"], 1)
    return Exercise(
        row["mechanism"], row["inputs"], row["options"], points, kind=kind, seed=seed, difficulty=difficulty
    )


def right_answer(exercise: Exercise, style: str = STYLES[0]) -> dict[str, str]:
    """Every asked step worked out right."""
    kind, asked = KINDS[exercise.kind], list(exercise.asked)
    work = solve(kind, given_numbers(kind, exercise.inputs, exercise.options), {}, asked)
    return {step: type_in(step, work[step], style) for step in asked}


class Sheet:
    """One exercise with every mistake that can be made in it."""

    def __init__(self, kind: Kind, row: Row) -> None:
        self.row, self.kind, self.asked = row, kind, row["asked"]
        self.given = given_numbers(self.kind, row["inputs"], row["options"])
        self.singles, self.repeated = self.kind.singles(self.given), self.kind.repeated(self.given)
        self.numbers: dict[str, tuple[str, ...]] = {}
        for name, mistake in [
            *self.singles.items(),
            *((f"{k} (each time)", x) for k, x in self.repeated.items()),
        ]:
            try:
                self.numbers[name] = self.typed(solve(self.kind, self.given, mistake.wrong, self.asked))
            except UNUSABLE:
                continue

    def typed(self, work: Work) -> tuple[str, ...]:
        return tuple(type_in(step, work[step], "3 digits") for step in self.asked)

    def same(self, wrong: dict[str, Any], but: str) -> list[str]:
        """The other mistakes that give the very same numbers in this exercise."""
        numbers = self.typed(solve(self.kind, self.given, wrong, self.asked))
        return [name for name, theirs in self.numbers.items() if theirs == numbers and name != but]

    def answer(self, group: str, *mistakes: Mistake) -> Row | None:
        """The whole answer with these mistakes; none where they change nothing or cannot be told apart."""
        title = " and ".join(x.slug for x in mistakes)
        chance = crc32(f"{self.kind.name} {group} {title}".encode())
        style = STYLES[chance % 4]
        paper = style if chance // 4 % 4 == 0 else ""
        wrong = {step: formula for x in mistakes for step, formula in x.wrong.items()}
        try:
            firsts = [self._wrong_steps(x.wrong, style, paper)[:1] for x in mistakes]
            work = solve(self.kind, self.given, wrong, self.asked, paper)
            steps = self._wrong_steps(wrong, style, paper)
            if group == "two" and self.same(wrong, ""):
                return None
        except UNUSABLE:
            return None
        shown = [step for first in firsts for step in first]
        if len(set(shown)) < len(mistakes) or not set(shown) <= set(steps):
            return None
        if group == "each time" and len(steps) < 2:
            return None
        mark = " (each time)" if group == "each time" else ""
        return {
            "answer": self.row["exercise"],
            "group": group,
            "mistakes": [x.slug for x in mistakes],
            "sentences": [x.sentence for x in mistakes],
            "first": shown,
            "wrong": steps,
            "same": [self.same(x.wrong, x.slug + mark) for x in mistakes],
            "steps": {step: type_in(step, work[step], style) for step in self.asked},
        }

    def _wrong_steps(self, wrong: dict[str, Any], style: str, paper: str) -> list[str]:
        work = solve(self.kind, self.given, wrong, self.asked, paper)
        return wrong_steps(self.kind, self.given, work, self.asked, style, paper)


def _first(sheets: list[Sheet], start: int, group: str, *slugs: str) -> Row | None:
    """The answer in the first exercise, from ``start`` on, in which these mistakes can be made and seen."""
    for i in range(len(sheets)):
        sheet = sheets[(start + i) % len(sheets)]
        known = sheet.repeated if group == "each time" else sheet.singles
        row = sheet.answer(group, *(known[x] for x in slugs)) if all(x in known for x in slugs) else None
        if row:
            return row
    return None


def answers(kind: Kind, rows: list[Row]) -> Iterator[Row]:
    """The wrong answers of one kind: single mistakes, repeated ones, two at once, and a slip at the end."""
    sheets = [Sheet(kind, row) for row in rows]
    singles = list(dict.fromkeys(x for sheet in sheets for x in sheet.singles))
    repeated = list(dict.fromkeys(x for sheet in sheets for x in sheet.repeated))
    made = [_first(sheets, i, "single", x) for i, x in enumerate(singles)]
    made += [_first(sheets, i, "each time", x) for i, x in enumerate(repeated)]
    yield from (row for row in made if row)
    authored = [x.slug for x in kind.mistakes if x.slug in singles]
    order = sorted(combinations(authored, 2), key=lambda pair: crc32(" ".join(pair).encode()))
    pairs = (_first(sheets, i, "two", *pair) for i, pair in enumerate(order))
    yield from (row for _, row in zip(range(PAIRS), (row for row in pairs if row), strict=False))
    order = sorted(authored, key=lambda x: crc32(x.encode()))
    ends = (_with_final_slip(sheets[i % len(sheets)], x) for i, x in enumerate(order))
    yield from (row for _, row in zip(range(FINAL_SLIPS), (row for row in ends if row), strict=False))


def _with_final_slip(sheet: Sheet, slug: str) -> Row | None:
    last, mistake = sheet.asked[-1], sheet.singles.get(slug)
    if mistake is None or last in mistake.wrong:
        return None
    wrong = {last: slip(sheet.kind.right(sheet.given), last)}
    sentence = f"A miscalculation in one cell of {last}."
    return sheet.answer("two", mistake, Mistake(f"slip-at-{last}", sentence, wrong))


def lines(exercises: list[Row], kinds: list[Kind] | None = None) -> Iterator[str]:
    """The lines of the file, those of the exercises first."""
    for row in exercises:
        yield json.dumps(row, separators=(",", ":"))
    for kind in kinds or KINDS.values():
        for row in answers(kind, [row for row in exercises if row["exercise"][0] == kind.name]):
            yield json.dumps(row, separators=(",", ":"))


def read(data: Path = DATA) -> tuple[list[Row], list[Row]]:
    """The exercises and the wrong answers of the file."""
    rows = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "exercise" in row], [row for row in rows if "answer" in row]


def write(data: Path = DATA) -> None:
    exercises = read(data)[0] if data.exists() else draw(data)
    made = lines(exercises, list(SETS[data][0].values()))
    data.write_text("".join(line + "\n" for line in made), encoding="utf-8")
