"""Build and refute: any answer that works is right."""

from __future__ import annotations

import numpy as np
import pytest

from headwork.errors import InputError
from headwork.exercises import Exercise, generate
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.seeded_random import matrix_text
from headwork.grading import grade


def target(exercise: Exercise) -> np.ndarray:
    from headwork.numbers.parsing import read_tensor

    return read_tensor(str(exercise.inputs["target"])).array


@pytest.mark.parametrize("kind", [slug for slug in CHALLENGES if slug.startswith("construct")])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_anything_that_works_is_right(kind: str, seed: int) -> None:
    exercise = generate(kind, seed)
    weights = target(exercise)
    # One direction per key: each query points at the keys of its target.
    queries, keys = (
        matrix_text((weights > 0).astype(int).tolist()),
        matrix_text(np.eye(weights.shape[1], dtype=int).tolist()),
    )
    assert grade(exercise, {"query": queries, "key": keys, "beta": "oo"}).all_right
    assert grade(exercise, {"query": queries, "key": keys, "beta": "20"}).all_right
    weak = grade(exercise, {"query": queries, "key": keys, "beta": "1"})
    assert weak.steps[0].causes[0].slug == "not-sharp-enough"


def test_a_permutation_the_wrong_way_round() -> None:
    exercise = generate("construct-permutation", 1)
    weights = target(exercise)
    mark = grade(
        exercise,
        {
            "query": matrix_text(np.eye(len(weights), dtype=int).tolist()),
            "key": matrix_text(weights.astype(int).tolist()),
            "beta": "oo",
        },
    )
    turned = mark.steps[0]
    assert turned.right or turned.causes[0].slug == "transposed"
    back = grade(
        exercise,
        {
            "query": matrix_text(weights.T.astype(int).tolist()),
            "key": matrix_text(np.eye(len(weights), dtype=int).tolist()),
            "beta": "oo",
        },
    )
    assert back.steps[0].causes[0].slug == "transposed"


REFUTED = {
    "refute-small-perturbation": {
        "query": "[[1, 0]]",
        "key": "1 0; 0.99 0",
        "delta": "0 0; 0.05 0",
        "beta": "100",
    },
    "refute-own-token-wins": {"tokens": "1 0; 3 0", "beta": "1"},
    "refute-mean-of-keys": {"key": "1 0; 0 1", "value": "3 0; 0 1"},
    "refute-permutation-diagonal": {"matrix": "1 0 0; 0 0 1; 0 1 0"},
    "refute-large-perturbation": {"query": "1 0; 0 1", "key": "1 0; 0 1", "delta": "-20 0; 0 0", "beta": "1"},
    "refute-columns": {"query": "1 2 3; 4 5 6", "key": "1 2 3; 4 5 6"},
}
NOT_REFUTED = {
    "refute-small-perturbation": [
        {**REFUTED["refute-small-perturbation"], "beta": "1"},
        {**REFUTED["refute-small-perturbation"], "delta": "0 0; 5 0"},
    ],
    "refute-own-token-wins": [{"tokens": "1 0; 0 1", "beta": "1"}],
    "refute-mean-of-keys": [{"key": "1 0; 0 1", "value": "0 1; 1 0"}],
    "refute-permutation-diagonal": [{"matrix": "0 1; 1 0"}, {"matrix": "1 1; 0 0"}],
    "refute-large-perturbation": [
        {**REFUTED["refute-large-perturbation"], "delta": "-1 0; 0 0"},
        {"query": "[[1, 0]]", "key": "1 0; 0 1", "delta": "20 0; 0 0", "beta": "1"},
    ],
    "refute-columns": [{"query": "1 2; 3 4", "key": "1 2; 3 4"}],
}


@pytest.mark.parametrize("kind", list(REFUTED))
def test_a_counter_example_that_works_is_right_and_others_are_not(kind: str) -> None:
    exercise = generate(kind, 0)
    assert grade(exercise, REFUTED[kind]).all_right
    for answer in NOT_REFUTED[kind]:
        step = grade(exercise, answer).steps[0]
        assert step.state == "wrong"
        assert step.causes[0].sentence


@pytest.mark.parametrize("kind", list(CHALLENGES))
def test_nonsense_is_unreadable_or_wrong(kind: str) -> None:
    exercise = generate(kind, 0)
    fields = CHALLENGES[kind].fields
    for text in ("", "x y", "__import__('os')", "[[1]]", "1 2", "1e9999", "?", "1 2; 3"):
        mark = grade(exercise, dict.fromkeys(fields, text))
        # One row is a matrix too: [[1]] is a permutation, and 1 2 two tokens with one feature.
        assert not mark.all_right or kind in ("refute-permutation-diagonal", "refute-columns")


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("refute-mean-of-keys", {"key": "1 0", "value": "0 1"}),
        ("refute-mean-of-keys", {"key": r"\begin{bmatrix}1 & 0\end{bmatrix}", "value": "(0, 1)"}),
        ("refute-columns", {"query": "1 2 3", "key": "[[1, 2, 3]]"}),
        ("refute-small-perturbation", {**REFUTED["refute-small-perturbation"], "query": "1 0"}),
        ("refute-small-perturbation", {**REFUTED["refute-small-perturbation"], "beta": "oo"}),
        ("refute-small-perturbation", {**REFUTED["refute-small-perturbation"], "beta": "[[100]]"}),
        ("refute-large-perturbation", {**REFUTED["refute-large-perturbation"], "query": "1 0"}),
    ],
)
def test_one_row_is_a_matrix_and_beta_may_be_infinite(kind: str, answer: dict[str, str]) -> None:
    mark = grade(generate(kind, 0), answer)
    assert mark.all_right, mark.steps[0]


def test_minus_infinity_and_unknown_fields_are_refused() -> None:
    answer = REFUTED["refute-small-perturbation"]
    mark = grade(generate("refute-small-perturbation", 0), {**answer, "beta": "-oo"})
    assert "beta: a single number is expected, or oo" in mark.steps[0].remark
    with pytest.raises(InputError, match=r"unknown field .* 'querry'. Did you mean 'query'"):
        grade(generate("refute-small-perturbation", 0), {**answer, "querry": "1"})
