"""Exercises: every kind draws, reads back, is asked in every format, and is the same everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from headwork.courses.answer_page import answer_page
from headwork.documents.formulas import plain_formula
from headwork.errors import InputError
from headwork.exercises import Exercise, exercise_from, generate, kind_slugs, questions
from headwork.exercises.checking import detect
from headwork.exercises.exercise_mechanisms import EXERCISE_MECHANISMS
from headwork.exercises.generation import EXERCISE_KINDS
from headwork.grading import grade

# Mistakes that no numbers of a kind can reveal.
ALWAYS_HIDDEN = {"copying": {"scores-transposed"}}


@pytest.mark.parametrize("kind", kind_slugs())
@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_every_kind_draws_at_every_difficulty_and_reads_back(kind: str, difficulty: int) -> None:
    exercise = generate(kind, 5, difficulty)
    assert exercise.max_points > 0
    again = exercise_from(tomllib.loads(exercise.to_toml()), "test")
    assert again == exercise


def test_numbers_do_not_depend_on_the_process() -> None:
    code = "from headwork.exercises import generate; print(generate('self-attention', 11, 2).to_toml())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {generate("self-attention", 11, 2).to_toml() + "\n"}


def test_grading_needs_neither_torch_nor_sympy() -> None:
    code = (
        "import sys; from headwork.exercises import generate; from headwork.grading import grade, feedback\n"
        "from headwork.courses import cohort\n"
        "e = generate('self-attention', 3); feedback(grade(e, {'weights': '1 2; 3 4'}), 2)\n"
        "print([name for name in ('torch', 'sympy') if name in sys.modules])"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert text.strip() == "[]"


def test_seed_and_difficulty_change_the_numbers() -> None:
    texts = {generate("self-attention", seed, level).to_toml() for seed in range(5) for level in (1, 2)}
    assert len(texts) == 10


@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_what_is_given_and_what_is_asked_have_symbols_of_their_own(kind, difficulty):
    trace = generate(kind, seed=1, difficulty=difficulty).trace
    parts = (trace.inputs, trace.steps)
    given, steps = ({plain_formula(value.symbol) for value in part.values()} for part in parts)
    assert given & steps == set()


@pytest.mark.parametrize("kind", list(EXERCISE_KINDS))
def test_known_mistakes_change_the_answer(kind: str) -> None:
    hidden = [
        set(detect(generate(kind, seed, 1)).undetected) - ALWAYS_HIDDEN.get(kind, set()) for seed in range(3)
    ]
    assert sum(map(len, hidden)) <= 2, hidden


@pytest.mark.parametrize("slug", list(EXERCISE_MECHANISMS))
def test_a_formula_notes_the_steps_of_its_card(slug: str) -> None:
    kind = next(kind for kind in EXERCISE_KINDS.values() if kind.mechanism == slug)
    exercise = generate(kind.slug, 1)
    for path in exercise.solution:
        assert EXERCISE_MECHANISMS[slug].step(path)


def test_counts_agree_with_the_sizes_package() -> None:
    from headwork.sizes.layers import convolution, output_size

    key = Exercise(
        "convolution-counts",
        {"height": 256, "width": 256, "channels": 3, "filters": 32, "kernel": 5},
        {"stride": 2},
    ).solution
    ledger = convolution((256, 256), channels=3, filters=32, kernel=5, stride=2)
    assert (key["weights"], key["dense"]) == (ledger.facts["weights"], ledger.facts["dense weights"])
    assert Exercise("output-size", {"size": 9, "kernel": 3}, {"stride": 2, "padding": 1}).solution[
        "output"
    ] == output_size(9, 3, 2, 1)


@pytest.mark.parametrize("kind", kind_slugs())
def test_a_question_in_every_format_and_an_empty_sheet(kind: str) -> None:
    exercise = generate(kind, 2, 2)
    asked = questions.build_question(exercise)
    for text in (
        asked.to_text(),
        asked.to_markdown(),
        asked.to_latex(),
        asked.to_html(),
    ):
        assert all(
            blank.name.replace("_", "") in text.replace("\\_", "").replace("_", "") for blank in asked.blanks
        )
    assert json.loads(asked.to_notebook())["nbformat"] == 4
    sheet = tomllib.loads(questions.answer_sheet({kind: exercise}))
    assert {step.state for step in grade(exercise, sheet["answers"][kind]).steps} == {"missing"}
    page = answer_page({kind: exercise})
    assert "http" not in page.replace("http://www.w3.org", ""), "the page must open offline"


def test_the_notebook_runs_and_marks(capsys: pytest.CaptureFixture[str]) -> None:
    exercise = generate("output-size", 4)
    cells = json.loads(questions.build_question(exercise).to_notebook())["cells"]
    space: dict[str, object] = {}
    exec("".join(cells[1]["source"]), space)
    space["answers"] = {path: str(float(exercise.solution[path])) for path in exercise.asked}
    exec("".join(cells[2]["source"]), space)
    assert "2 of 2 points" in capsys.readouterr().out


def test_a_question_contains_no_answers() -> None:
    exercise = generate("self-attention", 7)
    text = questions.build_question(exercise).to_text() + questions.answer_sheet({"a": exercise})
    assert f"{exercise.solution['weights'][0, 0]:.4f}" not in text


@pytest.mark.parametrize(
    ("entries", "wording"),
    [
        ({"mechanism": "self-atention"}, "Did you mean 'self-attention'"),
        (
            {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "points": {"weight": 1}},
            "Did you mean 'weights'",
        ),
        (
            {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "points": {"weights": "many"}},
            "Expected a number from 0",
        ),
        (
            {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "rounding": "maybe"},
            "Known: free, part, wrong",
        ),
        ({"mechanism": "softmax", "inputs": {"scores": "0 1"}, "digits": 99}, "whole number from 0 to 12"),
        ({"mechanism": "output-size", "inputs": {"size": 9}}, "kernel missing"),
        ({"mechanism": "output-size", "inputs": {"size": "9.5", "kernel": 3}}, "whole number"),
        ({"title": "nothing"}, "neither a mechanism nor a kind"),
        ({"mechanism": "softmax", "colour": 1}, "unknown entry 'colour'"),
    ],
)
def test_a_teachers_own_exercise_is_checked(entries: dict[str, object], wording: str) -> None:
    with pytest.raises(InputError, match="own") as error:
        exercise_from(entries, "own.toml")
    assert wording in str(error.value)


def test_tokens_as_columns() -> None:
    exercise = Exercise("self-attention", {"tokens": "1 0; 2 1"}, {"beta": 1}, tokens_as="columns")
    rows = Exercise("self-attention", {"tokens": "1 2; 0 1"}, {"beta": 1})
    assert np.allclose(exercise.solution["output"], rows.solution["output"])
    answers = {path: str(exercise.trace[path].values.round(4).tolist()) for path in exercise.asked}
    assert grade(exercise, answers).all_right
    declared = {path: str(rows.trace[path].values.T.round(4).tolist()) for path in rows.asked}
    assert grade(rows, declared, tokens_as="columns").all_right
