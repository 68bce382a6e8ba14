"""Causes: each known mistake has a counter-example and is recognised; so are slips, pairs and rounding."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.grading import judge_answer, mistaken_answers, slipped_answers, texts
from headwork.exercises import Exercise, generate
from headwork.exercises.checking import detect
from headwork.exercises.generation import EXERCISE_KINDS
from headwork.exercises.misconceptions import (
    MISCONCEPTIONS,
    applicable,
    registry,
    run_with_mistakes,
    same_values,
)
from headwork.exercises.seeded_random import SeededRandom
from headwork.grading import grade
from headwork.grading.marks import StepMark, keep_agreeing_causes
from headwork.grading.wrong_step import Cause
from headwork.readings.notebook_cells import array_text

EXAMPLES = tomllib.loads(Path(__file__).with_name("misconception_examples.toml").read_text()).values()


@pytest.mark.parametrize("slug", list(MISCONCEPTIONS))
def test_every_mistake_has_a_sentence_and_shows_in_a_small_problem(slug: str) -> None:
    mistake = MISCONCEPTIONS[slug]
    assert len(mistake.sentence) > 10
    problems = (Exercise(e["mechanism"], {n: v for n, v in e.items() if n != "mechanism"}) for e in EXAMPLES)
    cases = [problem.case for problem in problems if problem.mechanism in mistake.on]
    runs = [(case.run(), run_with_mistakes(case, mistake) or {}) for case in cases]
    assert any(
        not same_values(right[path], wrong[path]) for right, wrong in runs for path in right if path in wrong
    )


@pytest.mark.soak
def test_every_mistake_can_be_made_in_some_exercise() -> None:
    applied = set()
    for kind in EXERCISE_KINDS:
        for seed, difficulty in ((1, 1), (2, 2), (3, 3), (4, 1)):
            exercise = generate(kind, seed, difficulty)
            for mistake in applicable(exercise.case, exercise.solution):
                if mistake.slug not in applied and run_with_mistakes(exercise.case, mistake):
                    applied.add(mistake.slug)
    # Biases of convolutions are asked for only in exercises of a teacher's own.
    assert set(MISCONCEPTIONS) - applied <= {"convolution-bias-forgotten"}


def graded_counts(kind: str, seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        exercise = generate(kind, seed, 1 + seed % 3)
        for wrong in [
            *mistaken_answers(exercise, 4),
            *slipped_answers(exercise, 4, SeededRandom("test", kind, seed)),
        ]:
            total.update(judge_answer(wrong))
    return total


@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
def test_first_wrong_step_and_cause_are_found(kind: str) -> None:
    total = graded_counts(kind, range(701, 702))
    assert total["step"] >= 0.99 * total["answers"]
    assert total["cause"] >= 0.95 * total["answers"]
    assert total["once"] >= 0.99 * total["answers"]
    assert (
        total["named"] <= 4 * total["answers"]
    )  # three and a slip, where small integers cannot tell, "naming everything is naming nothing"


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
def test_first_wrong_step_and_cause_are_found_for_many_seeds(kind: str) -> None:
    total = graded_counts(kind, range(1000, 1040))
    assert total["step"] >= 0.99 * total["answers"]
    assert total["cause"] >= 0.95 * total["answers"]
    assert total["once"] >= 0.99 * total["answers"]


EXERCISE = Exercise(
    "self-attention",
    {"tokens": "1 2; 2 0; 0 1", "W_q": "1 1; 0 1", "W_k": "1 0; 1 1", "W_v": "2 1; 0 1"},
    {"beta": "1/2"},
    {"scores": 1, "weights": 1, "output": 1},
)


def causes(answers: dict[str, str], step: str) -> list[str]:
    return [cause.slug for cause in grade(EXERCISE, answers).step(step).causes]


def with_steps(**steps: object) -> dict[str, str]:
    return texts(
        EXERCISE, EXERCISE.case.run({name: np.asarray(value, float) for name, value in steps.items()}), 4
    )


def test_equal_numbers_name_both_causes() -> None:
    assert set(causes(with_steps(scores=EXERCISE.solution["scores"].T), "scores")) == {
        "scores-transposed",
        "queries-and-keys-swapped",
    }


def test_two_mistakes_at_once() -> None:
    both = -(EXERCISE.solution["scores"].T)
    assert "scores-transposed + wrong-sign" in [
        " + ".join(sorted(slug.split(" + "))) for slug in causes(with_steps(scores=both), "scores")
    ]


def test_two_mistakes_in_two_steps_are_two_causes() -> None:
    scores = EXERCISE.solution["scores"] * 2
    powers = np.exp(scores)
    answers = with_steps(scores=scores, weights=powers / powers.sum(0))
    assert causes(answers, "scores") == ["no-scaling"]
    assert causes(answers, "weights") == ["softmax-over-columns"]
    assert grade(EXERCISE, answers).points == 1


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        ("0.8348", "digits-swapped"),
        ("-0.8438", "sign-slip"),
        ("8.438", "point-slip"),
        ("0.7438", "slip"),
    ],
)
def test_slips_are_distinguished(entry: str, cause: str) -> None:
    exercise = Exercise("softmax", {"scores": "0 1 3"}, points={"weights": 1})
    assert grade(exercise, {"weights": "0.0420 0.1142 0.8438"}).all_right
    step = grade(exercise, {"weights": f"0.0420 0.1142 {entry}"}).steps[0]
    assert (step.causes[0].slug, step.wrong_cells) == (cause, ((2,),))


def test_numbers_that_nothing_explains_are_listed_by_their_entries() -> None:
    answers = {**texts(EXERCISE, EXERCISE.solution, 4), "output": "9 8; 7 6; 5 4"}
    step = grade(EXERCISE, answers).step("output")
    assert step.causes[0].slug == "unknown"
    assert len(step.wrong_cells) == 6


def test_rows_and_columns_swapped() -> None:
    answers = texts(EXERCISE, EXERCISE.solution, 4)
    step = grade(EXERCISE, {**answers, "output": str(EXERCISE.solution["output"].T.round(4).tolist())}).step(
        "output"
    )
    assert [cause.slug for cause in step.causes] == ["transposed"]


def test_a_transposed_matrix_of_another_shape_is_recognised() -> None:
    exercise = generate("toeplitz", 1)
    answers = texts(exercise, exercise.solution, 4)
    mark = grade(exercise, {**answers, "matrix": str(exercise.solution["matrix"].T.tolist())})
    assert mark.first_wrong is not None
    assert mark.first_wrong.causes[0].slug == "toeplitz-transposed"
    assert mark.step("output").right


def test_a_point_moved_is_no_swap_of_digits() -> None:
    exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 1})
    step = grade(exercise, {"weights": "0.5 0.05"}).steps[0]
    assert "point-slip" in [cause.slug for cause in step.causes]
    assert "digits-swapped" not in [cause.slug for cause in step.causes]


def test_of_causes_that_agree_equally_well_the_order_decides_not_their_hash() -> None:
    causes = tuple(Cause(f"mistake-{x}", f"mistake {x}", mistake_id=f"mistake-{x}") for x in "hgfedcbaijkl")
    steps = [StepMark(path, "wrong", 0.0, 1.0, causes=causes) for path in ("scores", "weights")]
    kept = [[cause.slug for cause in step.causes] for step in keep_agreeing_causes(steps)]
    assert kept == 2 * [["mistake-a", "mistake-b", "mistake-c"]]


def test_a_table_of_one_cell_is_read() -> None:
    exercise = generate("recurrence", 1)
    answers = {
        path: f"| {value.item():g} |" for path, value in exercise.solution.items() if path in exercise.asked
    }
    assert grade(exercise, answers).all_right


PLAUSIBLE: dict[str, tuple[str, dict[str, object], str, str, str]] = {
    "both-squared": (
        "complexity",
        {"tokens": 10, "width": 6, "kernel": 5},
        "scores",
        "3600",
        "both squared",
    ),
    "one-output-position": (
        "complexity",
        {"tokens": 10, "width": 6, "kernel": 5},
        "convolution",
        "180",
        "one output position",
    ),
    "channels-doubled-in-convolution": (
        "complexity",
        {"tokens": 10, "width": 6, "kernel": 5},
        "convolution",
        "600",
        "are added; each is connected with each",
    ),
    "without-borders": (
        "complexity",
        {"tokens": 21, "width": 6, "kernel": 5},
        "convolution",
        "3060",
        "only positions where the whole kernel fits",
    ),
    "causal-pairs": (
        "complexity",
        {"tokens": 10, "width": 6, "kernel": 5},
        "scores",
        "330",
        "n (n + 1)/2",
    ),
    "every-pixel-and-class-token": (
        "patch-counts",
        {"height": 64, "width": 208, "patch": 16, "channels": 4, "class_token": 1},
        "tokens",
        "13313",
        "every pixel is counted",
    ),
    "half-kernel": (
        "output-size",
        {"size": 7, "kernel": 7, "stride": 3, "padding": 2},
        "span",
        "8",
        "half of the kernel",
    ),
    "one-weight": (
        "sharing-counts",
        {"size": 34, "kernel": 3, "stride": 2, "padding": 3},
        "shared",
        "1",
        "one weight is counted",
    ),
    "heads-not-joined-heads-first": (
        "head-shapes",
        {"batch": 1, "tokens": 13, "width": 192, "heads": 12},
        "joined",
        "1 12 13 16",
        "the heads are not joined",
    ),
    "feed-forward-added": (
        "attention-parameters",
        {"width": 128, "heads": 4, "biases": 1},
        "total",
        "197120",
        "the feed-forward layer",
    ),
    "powers-of-both-weights": (
        "recurrence-closed-form",
        {"inputs": "-1 -2 1 2", "W_x": "-1", "W_h": "3"},
        "powers",
        "-27; 9; -3; 1",
        "W_x is raised to the power too",
    ),
}


@pytest.mark.parametrize("slug", list(PLAUSIBLE))
def test_a_formula_that_makes_sense_is_told_before_a_coincidence(slug: str) -> None:
    mechanism, given, step, written, sentence = PLAUSIBLE[slug]
    steps = Exercise(mechanism, given).solution
    asked = list(steps)[: list(steps).index(step) + 1]
    exercise = Exercise(mechanism, given, {}, dict.fromkeys(asked, 1))
    answers = {**texts(exercise, steps, 4), step: written}
    cause = grade(exercise, answers).step(step).causes[0]
    assert (cause.slug, sentence in cause.sentence) == (slug, True)


def test_exercises_are_not_chosen_by_formulas() -> None:
    formulas = {slug for slug, mistake in MISCONCEPTIONS.items() if not mistake.must_show}
    detection = detect(generate("patch-counts", 1))
    assert formulas
    assert not formulas & {*detection.detected, *detection.undetected}


def test_no_two_mistakes_have_one_name() -> None:
    folder = Path(registry.__file__)
    tables = [
        tomllib.loads(folder.with_name(name).read_text("utf-8"))
        for name in ("formulas.toml", "misconceptions.toml")
    ]
    formulas = [slug for group in tables[0].values() for slug in group["formulas"]]
    assert len(MISCONCEPTIONS) == len(formulas) + len(tables[1]) - 1  # less the groups of mechanisms


def test_a_large_answer_of_many_digits_is_marked():
    """Its numbers hold more bits than a float has exponents."""
    draws = np.random.default_rng(0)
    tokens = draws.integers(-3, 4, (14, 6))
    inputs = {"tokens": array_text(tokens)}
    exercise = Exercise("self-attention", inputs, {"beta": "1"}, points={"scores": 1}, digits=8)
    mark = grade(exercise, {"scores": array_text(tokens @ tokens.T + draws.normal(0, 1, (14, 14)))})
    assert [cause.slug for cause in mark.step("scores").causes] == ["unknown"]


def test_one_number_among_zeros_is_hardly_evidence() -> None:
    answers = {
        "scores": "0 0 0; 0 -1 0; 0 0 0",
        "weights": "1 0 0; 0.5 0.5 0; 0.3333 0.3333 0.3333",
        "output": "4 0; 2 0; 1.3333 0",
    }
    mark = grade(generate("masked-attention", 7, 1), answers)
    assert [[cause.slug for cause in mark.step(path).causes] for path in ("scores", "weights")] == [
        ["unknown"],
        ["equal-weights"],
    ]


def test_a_mistake_made_before_is_tried_where_it_would_be_too_rare() -> None:
    answers = {
        "step 0/state": "1 2; 2 4",
        "step 0/key sum": "1 2",
        "step 1/state": "4 5; 4 6",
        "step 1/key sum": "4 4",  # all keys, too, and all numbers equal
        "step 2/state": "10 11; 10 12",
        "step 2/key sum": "7 7",
        "output": "1 2; 1 1.4167; 1.4286 1.6429",
    }
    mark = grade(generate("linear-attention-recurrent", 402, 2), answers)
    assert [step.state for step in mark.steps if not step.right] == ["wrong"] + ["again"] * 6


def test_one_idea_in_other_words_is_charged_once() -> None:
    states = {f"step {time}/state": value for time, value in enumerate(["2", "-10", "20", "-43"])}
    mark = grade(generate("recurrence", 404, 2), states)
    assert [step.state for step in mark.steps[:4]] == ["wrong", "again", "again", "again"]
    assert len(mark.steps[0].causes) == 1
