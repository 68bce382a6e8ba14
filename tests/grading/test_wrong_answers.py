"""The benchmark of wrong answers: its right formulas are right, and its file is what its script writes."""

from fnmatch import fnmatchcase
from fractions import Fraction

import pytest

from benchmarks.wrong_answers import KINDS, making, second
from benchmarks.wrong_answers.elsewhere import agrees, causes_elsewhere
from benchmarks.wrong_answers.judging import Said, judgements, verdict
from headwork.exercises import generate, kind_slugs
from headwork.grading import grade

EXERCISES, ANSWERS = making.read()


def test_every_numeric_kind_has_wrong_answers() -> None:
    numeric = {slug for slug in kind_slugs() if not slug.startswith(("construct-", "refute-"))}
    assert {row["answer"][0] for row in ANSWERS} == set(KINDS) == numeric
    assert len(ANSWERS) >= 500
    assert making.DATA.stat().st_size < 600_000


@pytest.mark.parametrize("kind", KINDS)
def test_right_formulas_get_full_marks(kind: str) -> None:
    kept = [making.exercise(row) for row in EXERCISES if row["exercise"][0] == kind]
    for exercise in [*kept, generate(kind, seed=5, difficulty=3)]:
        for style in ("4 digits", "fractions"):
            mark = grade(exercise, making.right_answer(exercise, style))
            assert mark.points == mark.max_points, (exercise.seed, exercise.difficulty, style)


@pytest.mark.parametrize("kind", ["masked-attention", "feed-forward", "convolution-2d", "recurrence"])
def test_the_script_writes_the_file_again(kind: str) -> None:
    lines = making.DATA.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if f'"answer":["{kind}"' in line]
    assert list(making.lines(EXERCISES, [KINDS[kind]]))[len(EXERCISES) :] == kept


def test_the_second_set_covers_every_kind_and_is_written_again() -> None:
    exercises, answers = making.read(making.SECOND)
    assert {row["answer"][0] for row in answers} == set(second.KINDS) == set(KINDS)
    assert len(answers) >= 400
    kind = second.KINDS["recurrence"]
    lines = making.SECOND.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if '"answer":["recurrence"' in line]
    assert list(making.lines(exercises, [kind]))[len(exercises) :] == kept


def test_a_cause_must_hold_in_other_draws() -> None:
    assert agrees("a", [{"a", "b"}, {"a"}, {"a"}, {"b"}])
    assert not agrees("a", [{"a"}, {"b"}, {"b"}])
    assert not agrees("a", [{"a"}])


def test_a_mistake_made_elsewhere_is_found_there() -> None:
    row = next(x for x in making.read(making.SECOND)[1] if x["mistakes"] == ["variance-for-deviation"])
    elsewhere = causes_elsewhere(second.KINDS["layer-normalisation"], row, "deviation")
    assert len(elsewhere) == 4
    assert agrees("variance-for-deviation", elsewhere)


def test_every_answer_is_wrong_where_it_says() -> None:
    right = {tuple(row["exercise"]): making.right_answer(making.exercise(row)) for row in EXERCISES}
    for row in ANSWERS:
        first = row["wrong"][0]
        ours, theirs = (numbers(steps[first]) for steps in (right[tuple(row["answer"])], row["steps"]))
        assert first in row["first"]
        assert len(ours) != len(theirs) or max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) > 0.0009


def numbers(text: str) -> list[float]:
    return [float(Fraction(x)) for x in text.replace(";", " ").split()]


def test_judgements_are_of_mistakes_that_are_made() -> None:
    rows = ANSWERS + making.read(making.SECOND)[1]
    made = {(row["answer"][0], slug) for row in rows for slug in row["mistakes"]}
    judged = [(kind, x) for table in judgements().values() for kind, rows in table.items() for x in rows]
    for kind, pattern in judged:
        assert any(kind in (k, "every-kind") and fnmatchcase(slug, pattern) for k, slug in made), (
            kind,
            pattern,
        )


@pytest.mark.parametrize(
    ("mistake", "same", "said", "expected"),
    [
        ("b-1-forgotten", [], ["first-bias-forgotten"], "named"),
        ("b-1-forgotten", [], ["first-bias-forgotten", "activation-forgotten"], "named beside others"),
        ("b-1-forgotten", [], ["activation-forgotten"], "wrong name"),
        ("b-1-twice", [], ["first-bias-forgotten"], "wrong name"),
        ("b-1-twice", ["b-1-forgotten (each time)"], ["first-bias-forgotten"], "named"),
        ("b-1-forgotten", [], ["slip"], "slip"),
        ("slip-at-hidden", [], ["slip"], "named"),
        ("b-1-forgotten", [], ["unknown"], "unknown"),
    ],
)
def test_a_cause_counts_only_if_it_was_accepted(
    mistake: str, same: list[str], said: list[str], expected: str
) -> None:
    assert verdict("feed-forward", mistake, same, [Said(slug) for slug in said]) == expected
