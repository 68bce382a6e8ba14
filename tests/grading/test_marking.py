"""Marking: the key in every form, tolerance by the digits written, carrying forward, rounding policies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.grading import right_answers, texts
from headwork.documents.style import Style
from headwork.errors import InputError
from headwork.exercises import Exercise, generate
from headwork.exercises.generation import EXERCISE_KINDS
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


@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
def test_the_key_gets_full_marks_in_every_form(kind: str) -> None:
    for seed in (1, 5):
        exercise = generate(kind, seed, 1 + seed % 3)
        for form, answers in right_answers(exercise, exact=seed == 1).items():
            mark = grade(exercise, answers)
            assert mark.points == mark.max_points, (form, mark.first_wrong)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
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


def test_a_last_digit_off_by_one_is_right_with_a_remark() -> None:
    published = WEIGHTS.replace("0.1966 0.5344", "0.1967 0.5343")
    for rounding in ("free", "part", "wrong"):
        step = grade(replace(A2, rounding=rounding), {**ANSWER, "weights": published}).step("weights")
        assert (step.state, step.points) == ("right", 2)
        assert "the last digit is off by one" in step.remark
    assert not grade(A2, {**ANSWER, "weights": WEIGHTS.replace("0.5344", "0.5346")}).step("weights").right


@pytest.mark.parametrize(
    ("text", "right"),
    [("0.1428", True), ("0.142", True), ("0.14", True), ("0.1430", True), ("0.1427", False), ("0.1", False)],
)
def test_digits_cut_off_instead_of_rounded_cost_nothing(text: str, right: bool) -> None:
    exercise = Exercise("recurrence", {"inputs": "1", "W_x": "1/7", "W_h": "1"}, points={"output": 1})
    assert grade(exercise, {"output": text}).all_right == right


def test_a_number_that_ends_where_it_was_written_is_not_cut_off() -> None:
    exercise = Exercise("recurrence", {"inputs": "1", "W_x": "3/2", "W_h": "1"}, points={"output": 1})
    assert not grade(exercise, {"output": "1.6"}).all_right
    assert not grade(exercise, {"output": "1.51"}).all_right
    assert grade(exercise, {"output": "1.4999"}).all_right


def test_rounding_too_early_is_not_wrong_and_can_cost() -> None:
    # 300 * 0.1966 + 100 * 0.0723 with rounded weights, where the key says 66.2159.
    hundred = replace(A2, inputs={**A2.inputs, "W_v": "0 0; 0 100"})
    early = {**ANSWER, "output": "0 66.2100; 0 32.9200; 0 100; 0 66.2100"}
    free = grade(hundred, early).step("output")
    assert (free.points, free.remark) == (2, "follows from your rounded numbers")
    assert grade(replace(hundred, rounding="part"), early).step("output").points == 1
    strict = grade(replace(hundred, rounding="wrong"), early).step("output")
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
    wrong = exercise.solution["query"] + np.array([[1, 0]] + [[0, 0]] * (len(exercise.solution["query"]) - 1))
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
    assert mark.first_wrong.wrong_cells == ((1, 1),)
    assert "slip" in [cause.slug for cause in mark.first_wrong.causes]


def test_halves_for_pairs_is_a_convention() -> None:
    exercise = generate("sinusoidal-positions", 1)
    answers = texts(exercise, exercise.solution, 4)
    halves = exercise.solution["output"][:, [0, 2, 1, 3]]
    mark = grade(exercise, {**answers, "output": str(halves.round(4).tolist())})
    assert mark.all_right
    assert "halves" in mark.step("output").remark


DENSE = Exercise(
    "convolution-counts",
    {"height": 256, "width": 256, "channels": 3, "filters": 32, "kernel": 5},
    {"stride": 2},
    {"weights": 1, "dense": 1},
)


@pytest.mark.parametrize(
    ("dense", "exact", "about"),
    [
        ("99,883,155,456", True, True),
        ("99883155456", True, True),
        ("99 883 155 456", True, True),
        ("196608*508032", True, True),
        ("9.9883155456e10", True, True),
        ("9.988e10", False, True),
        (r"9.988 \times 10^{10}", False, True),
        ("99880000000", False, True),
        ("99 880 000 000", False, True),
        ("9.98e10", False, True),  # cut off
        ("1e11", False, False),  # one digit
        ("99883155457", False, False),
        ("99883155455.9999", False, True),
        ("9.994e10", False, False),  # the published value has two digits exchanged in one factor
    ],
)
def test_counts_are_exact_unless_about_how_many_is_asked(dense: str, exact: bool, about: bool) -> None:
    answers = {"weights": "2400", "dense": dense}
    assert grade(DENSE, answers).all_right == exact
    assert grade(replace(DENSE, question="About how many weights?"), answers).all_right == about


@pytest.mark.parametrize("wrong", ["37057", "3.7e4", "37000", "3.7056001e4", "37056.4", "37055.99999", "4e4"])
def test_no_wrong_count_is_accepted(wrong: str) -> None:
    exercise = Exercise("attention-parameters", {"width": 96, "heads": 4}, {"biases": 1}, {"total": 1})
    assert not grade(exercise, {"total": wrong}).all_right
    assert grade(exercise, {"total": "4*(96^2+96)"}).all_right


def test_scores_without_beta_are_right_where_the_weights_show_it() -> None:
    exercise = generate("self-attention", 3, 2)
    key, right = exercise.solution, texts(exercise, exercise.solution, 4)
    unscaled = str((key["scores"] * np.sqrt(2)).round(4).tolist())
    mark = grade(exercise, {**right, "scores": unscaled})
    assert mark.all_right
    assert mark.step("scores").remark == "written without beta"
    forgotten = texts(exercise, exercise.case.run({"scores": key["scores"] * np.sqrt(2)}), 4)
    assert grade(exercise, {**forgotten}).first_wrong.path == "scores"  # type: ignore[union-attr]
    assert not grade(exercise, {**right, "scores": unscaled, "weights": ""}).step("scores").right


def test_masked_and_unmasked_scores() -> None:
    exercise = generate("masked-attention", 4, 1)
    right = texts(exercise, exercise.solution, 4)
    hidden = exercise.case.run()["masked"]
    assert np.isinf(hidden).any()
    mark = grade(exercise, {**right, "scores": str(hidden.tolist()).replace("inf", "oo")})
    assert mark.all_right
    assert mark.step("scores").remark == "written with the mask"
    linear = generate("linear-attention", 4, 3)
    products = linear.case.inputs["query"].array @ linear.case.inputs["key"].array.T
    right = texts(linear, linear.solution, 4)
    mark = grade(linear, {**right, "scores": str(products.tolist())})
    assert mark.all_right
    assert mark.step("scores").remark == "written before masking"
    assert not grade(linear, {"scores": str(products.tolist())}).step("scores").right
    assert "0 where the causal mask hides" in linear.question


@pytest.mark.parametrize("seed", range(4))
def test_several_heads_with_tokens_as_columns_lose_no_points(seed: int) -> None:
    exercise = generate("multi-head-attention", seed, 1 + seed % 3)
    below, beside = {}, {}
    for path in exercise.asked:
        value = exercise.solution[path]
        if value.ndim == 3 and path in ("scores", "weights"):
            below[path] = np.swapaxes(value, 1, 2).reshape(-1, value.shape[1])
            beside[path] = np.concatenate([head.T for head in value], 1)
        else:
            below[path] = beside[path] = value.reshape(len(value), -1).T
    for answer in (below, beside):
        written = {path: str(value.round(4).tolist()) for path, value in answer.items()}
        mark = grade(exercise, written, tokens_as="columns")
        assert mark.points == mark.max_points, mark.first_wrong


def test_unknown_words_are_errors_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"unknown tokens_as 'row'. Did you mean 'rows'"):
        grade(A2, ANSWER, tokens_as="row")
    with pytest.raises(InputError, match=r"unknown step .* 'score'. Did you mean 'scores'"):
        grade(A2, {**ANSWER, "score": "1"})
    assert grade(A2, {**ANSWER, "query": "1 2; 2 0; 0 1; 1 1"}).points == 5  # a step, though not asked


def idle(kind: str, seed: int, path: str, value: object) -> list[str]:
    """The steps that earn points by following from one that holds ``value`` everywhere or as it is."""
    exercise = generate(kind, seed, 2)
    shape = exercise.solution[path].shape
    wrong = np.full(shape, value) if np.ndim(value) == 0 else value
    answers = texts(exercise, exercise.case.run({path: wrong}), 4)
    return [s.path for s in grade(exercise, answers).steps if s.right and "own numbers" in s.remark]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("self-attention", "scores", 0.0),
        ("self-attention", "scores", 1e9),
        ("self-attention", "scores", 1e9 * np.eye(3)),
        ("self-attention", "value", 0.0),
        ("self-attention", "weights", 0.0),
        ("linear-attention", "scores", 1e9),
        ("feed-forward", "hidden", 0.0),
        ("feed-forward", "hidden", -1e9),
        ("sinusoidal-positions", "frequencies", 0.0),
        ("patch-counts", "down", 0.0),
        ("attention-parameters", "head width", 0.0),
    ],
)
def test_a_degenerate_answer_makes_no_later_step_free(kind: str, path: str, value: object) -> None:
    later = idle(kind, 3, path, value)
    # Hard attention has an output; a class token is still added; the sums of these scores are equal anyway.
    assert set(later) <= {"output", "tokens", "sums"}, later
    if np.ndim(value) == 0:
        assert "output" not in later


def test_a_slip_that_leaves_zeros_is_no_nonsense() -> None:
    inputs = {"tokens": "1 0; 0 1", "W_1": "1 0; 0 -1", "W_2": "2 1; 1 2", "b_1": "0 0", "b_2": "1 3"}
    exercise = Exercise("feed-forward", inputs)
    mark = grade(exercise, {"hidden": "1 0; 0 -1", "activated": "0 0; 0 0", "output": "1 3; 1 3"})
    assert [step.state for step in mark.steps] == ["right", "wrong", "right"]


def test_own_numbers_that_are_no_nonsense_still_count() -> None:
    exercise = generate("self-attention", 3, 2)
    wrong = exercise.solution["scores"] + np.array([[0, 0.3, 0], [0.7, 0, 0], [0, 0, -0.4]])
    assert idle("self-attention", 3, "scores", wrong) == ["weights", "output"]


def test_blank_and_unreadable_entries() -> None:
    mark = grade(A2, {"scores": "1 2 0 ?; 2 4 0 2; 0 0 0 0; 1 2 0 1", "weights": "import os", "output": ""})
    assert [step.state for step in mark.steps] == ["missing", "unreadable", "missing"]
    assert "unknown name" in mark.step("weights").remark


def test_hints_rise_and_a_teacher_can_switch_the_last_off() -> None:
    exercise = generate("self-attention", 7)
    columns = np.exp(exercise.solution["scores"])
    wrong = {**exercise.solution, "weights": columns / columns.sum(0)}
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
@settings(max_examples=10, deadline=None)
def test_any_numbers_are_marked(numbers: list[float]) -> None:
    exercise = Exercise("attention", {"query": "1 0; 0 2", "key": "1 1; 0 1", "value": "1 0; 0 2"})
    rows = np.array(numbers).round(6).reshape(3, 2, 2)
    mark = grade(exercise, {p: str(rows[i].tolist()) for i, p in enumerate(exercise.asked)})
    assert all(step.state == "right" or step.causes for step in mark.steps)
