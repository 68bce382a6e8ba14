"""Marking: the key in every form, tolerance by the digits written, carrying forward, rounding policies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.grading import right_answers, texts
from headwork.documents.style import Style
from headwork.exercises import Exercise, generate
from headwork.exercises.generation import KINDS
from headwork.grading import feedback, grade

# The course's own problem: see A2 of the problem book.
A2 = Exercise(
    "self-attention",
    {"tokens": "1 2; 2 0; 0 1; 1 1", "W_q": "1 0; 0 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1"},
    {"beta": 1},
    {"scores": 1, "weights": 2, "output": 2},
)
WEIGHTS = (
    "0.1966 0.5344 0.0723 0.1966; 0.1050 0.7758 0.0142 0.1050; 1/4 1/4 1/4 1/4; 0.1966 0.5344 0.0723 0.1966"
)
ANSWER = {
    "scores": "1 2 0 1; 2 4 0 2; 0 0 0 0; 1 2 0 1",
    "weights": WEIGHTS,
    "output": "0 0.6622; 0 0.3292; 0 1; 0 (3*e+1)/(e+1)^2",
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_key_gets_full_marks_in_every_form(kind: str) -> None:
    for seed in (1, 5):
        exercise = generate(kind, seed, 1 + seed % 3)
        for form, answers in right_answers(exercise, exact=seed == 1).items():
            mark = grade(exercise, answers)
            assert mark.points == mark.max_points, (form, mark.first_wrong)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_key_gets_full_marks_for_a_hundred_seeds(kind: str) -> None:
    for seed in range(100):
        exercise = generate(kind, seed, 1 + seed % 3)
        for form, answers in right_answers(
            exercise, exact=seed < 10 or exercise.case.mechanism.slug != "copying"
        ).items():
            mark = grade(exercise, answers)
            assert mark.points == mark.max_points, (seed, form, mark.first_wrong)


def test_infinity_where_things_are_counted_is_marked() -> None:
    exercise = generate("complexity", 2, 1)
    mark = grade(exercise, {"projections": "oo", "scores": "oo", "mixing": "nan", "attention": "oo"})
    assert [step.state for step in mark.steps][:3] == ["wrong", "wrong", "unreadable"]


def test_the_courses_problem_with_decimals_fractions_and_exact_forms() -> None:
    assert grade(A2, ANSWER).points == 5


def test_a_misrounded_digit_is_distinguished_from_a_misunderstanding() -> None:
    published = WEIGHTS.replace("0.1966 0.5344", "0.1967 0.5343")
    step = grade(A2, {**ANSWER, "weights": published}).step("weights")
    assert (step.state, len(step.cells)) == ("wrong", 4)
    assert {cause.slug for cause in step.causes} <= {"misrounded", "unknown"}
    one = grade(A2, {**ANSWER, "weights": WEIGHTS.replace("0.1966 0.5344", "0.1967 0.5344", 1)}).first_wrong
    assert one is not None
    assert (one.causes[0].slug, one.cells) == ("misrounded", ((0, 0),))


def test_rounding_too_early_is_not_wrong_and_can_cost() -> None:
    # 3 * 0.1966 + 0.0723 with rounded weights, where the key says 0.6622.
    early = {**ANSWER, "output": "0 0.6621; 0 0.3292; 0 1; 0 0.6621"}
    free = grade(A2, early).step("output")
    assert (free.points, free.remark) == (2, "follows from your rounded numbers")
    assert grade(replace(A2, rounding="part"), early).step("output").points == 1
    strict = grade(replace(A2, rounding="wrong"), early).step("output")
    assert (strict.points, strict.causes[0].slug) == (0, "rounded-too-early")


def test_fewer_digits_than_asked_are_a_matter_of_policy_and_too_few_are_wrong() -> None:
    exercise = Exercise("softmax", {"scores": "0 1"}, points={"weights": 1})
    assert grade(exercise, {"weights": "0.27 0.73"}).points == 1
    assert grade(replace(exercise, rounding="wrong"), {"weights": "0.27 0.73"}).points == 0
    assert grade(exercise, {"weights": "0.3 0.7"}).points == 0
    assert grade(exercise, {"weights": "0 1"}).points == 0


def test_digits_beyond_those_asked_cost_nothing() -> None:
    exercise = Exercise("softmax", {"scores": "0 1"}, points={"weights": 1})
    assert grade(exercise, {"weights": "0.268941 0.731062"}).points == 1


def test_one_early_error_costs_exactly_one_step() -> None:
    exercise = generate("self-attention", 3)
    wrong = exercise.key["query"] + np.array([[1, 0]] + [[0, 0]] * (len(exercise.key["query"]) - 1))
    steps = exercise.case.run({"query": wrong})
    for digits in (3, 4, 6):
        mark = grade(exercise, texts(exercise, steps, digits))
        assert mark.points == mark.max_points - 1
        assert mark.first_wrong is not None
        assert mark.first_wrong.path == "query"
    assert mark.step("output").remark == "follows from your own numbers"


def test_the_same_mistake_again_is_counted_once() -> None:
    exercise = Exercise(
        "self-attention", {"tokens": "1 2; 2 0", "W_q": "1 2; 0 1", "W_k": "1 1; 0 2"}, {"beta": 1}
    )
    turned = exercise.case.run(
        {
            "query": np.array([[1.0, 2], [2, 0]]) @ np.array([[1.0, 2], [0, 1]]),
            "key": np.array([[1.0, 2], [2, 0]]) @ np.array([[1.0, 1], [0, 2]]),
        }
    )
    mark = grade(exercise, texts(exercise, turned, 4))
    assert [step.state for step in mark.steps][:2] == ["wrong", "again"]
    assert mark.points == mark.max_points - 1


def test_a_later_step_that_is_the_keys_is_right_whatever_came_before() -> None:
    mark = grade(A2, {**ANSWER, "scores": "1 2 0 1; 2 4 0 2; 0 0 0 7; 1 2 0 1"})
    assert [step.state for step in mark.steps] == ["wrong", "right", "right"]


def test_which_entry_is_wrong() -> None:
    mark = grade(A2, {**ANSWER, "scores": "1 2 0 1; 2 5 0 2; 0 0 0 0; 1 2 0 1"})
    assert mark.first_wrong is not None
    assert mark.first_wrong.cells == ((1, 1),)
    assert "slip" in [cause.slug for cause in mark.first_wrong.causes]


def test_halves_for_pairs_is_a_convention() -> None:
    exercise = generate("sinusoidal-positions", 1)
    answers = texts(exercise, exercise.key, 4)
    halves = exercise.key["output"][:, [0, 2, 1, 3]]
    mark = grade(exercise, {**answers, "output": str(halves.round(4).tolist())})
    assert mark.all_right
    assert "halves" in mark.step("output").remark


def test_a_large_number_with_separators_or_rounded() -> None:
    exercise = Exercise(
        "convolution-counts",
        {"height": 256, "width": 256, "channels": 3, "filters": 32, "kernel": 5},
        {"stride": 2},
        {"weights": 1, "dense": 1},
    )
    for dense in ("99,883,155,456", "99883155456", "9.988e10", "99 883 155 456"):
        assert grade(exercise, {"weights": "2400", "dense": dense}).points == 2, dense
    # The published value has two digits exchanged in one factor.
    assert grade(exercise, {"weights": "2400", "dense": "9.994e10"}).points == 1


def test_blank_and_unreadable_entries() -> None:
    mark = grade(A2, {"scores": "1 2 0 ?; 2 4 0 2; 0 0 0 0; 1 2 0 1", "weights": "import os", "output": ""})
    assert [step.state for step in mark.steps] == ["missing", "unreadable", "missing"]
    assert "unknown name" in mark.step("weights").remark


def test_hints_rise_and_a_teacher_can_switch_the_last_off() -> None:
    exercise = generate("self-attention", 7)
    columns = np.exp(exercise.key["scores"])
    wrong = {**exercise.key, "weights": columns / columns.sum(0)}
    mark = grade(exercise, texts(exercise, exercise.case.run({"weights": wrong["weights"]}), 4))
    texts_by_hint = [feedback(mark, hint) for hint in range(4)]
    assert "where" not in texts_by_hint[0]
    assert "[0.5" in texts_by_hint[1] or "    0  [" in texts_by_hint[1]
    assert "softmax" not in texts_by_hint[1]
    assert "column 0 of yours sums to 1" in texts_by_hint[2]
    assert "it is" not in texts_by_hint[2]
    assert "A[0,0] = " in texts_by_hint[3]
    strict = grade(
        replace(exercise, hints=2), texts(exercise, exercise.case.run({"weights": wrong["weights"]}), 4)
    )
    assert feedback(strict, 3) == texts_by_hint[2]


def test_colour_only_where_it_is_asked_for() -> None:
    mark = grade(A2, {**ANSWER, "output": ""})
    assert "\x1b" not in feedback(mark)
    coloured = feedback(mark, style=Style(colour=True))
    assert "\x1b[1mweights\x1b[0m  \x1b[32mcorrect\x1b[0m  2 of 2" in coloured
    assert "output\x1b[0m  missing" in coloured


@given(st.dictionaries(st.sampled_from(["scores", "weights", "output"]), st.text(max_size=60)))
@settings(max_examples=150, deadline=None)
def test_nothing_that_is_typed_can_break_the_grader(answers: dict[str, str]) -> None:
    mark = grade(A2, answers)
    assert 0 <= mark.points <= mark.max_points
    feedback(mark, 3)


@given(st.lists(st.floats(-50, 50), min_size=12, max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_numbers_are_marked(numbers: list[float]) -> None:
    exercise = Exercise("attention", {"query": "1 0; 0 2", "key": "1 1; 0 1", "value": "1 0; 0 2"})
    rows = np.array(numbers).round(6).reshape(3, 2, 2)
    mark = grade(exercise, {p: str(rows[i].tolist()) for i, p in enumerate(exercise.asked)})
    assert all(step.state == "right" or step.causes for step in mark.steps)
