"""Answers of outside examiners, who saw only the questions: right ones pass, first wrong steps are theirs."""

import pytest

from benchmarks.wrong_answers.outside import charged_once, graded, holds, read

ROWS = read()


def refused(rows: list[dict]) -> list[str]:
    return [row["id"] for row in rows if not holds(row, graded(row))]


def test_a_sample_of_answers() -> None:
    assert refused(ROWS[::14]) == []


def test_another_first_step_is_noticed() -> None:
    row = next(row for row in ROWS if row["group"] == "single" and len(row["steps"]) > 1)
    other = next(step for step in row["steps"] if step != row["wrong"][0])
    assert refused([{**row, "wrong": [other]}]) == [row["id"]]
    assert refused([{**row, "group": "right"}]) == [row["id"]]


@pytest.mark.parametrize("number", ["c-062", "c-130"])
def test_zeros_are_explained_by_what_a_later_step_shows(number: str) -> None:
    row = next(row for row in ROWS if row["id"] == number)
    assert charged_once(graded(row))


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        ("b-014", "kernel-not-subtracted"),  # no name of another mistake in its place
        ("b-028", "channels-averaged"),
        ("b-152", "padding-left-out"),
        ("b-214", "channels-multiplied"),
        ("d-183", "stride-one-way"),
        ("a-100", "scaled-by-habit"),
        ("a-038", "root-mean-square"),
        ("g-264", "sine-and-cosine-swapped"),  # which had been read in halves
        ("h-206", "delta-subtracted + no-scaling"),  # two mistakes, in known words
        ("h-046", "kernel-flipped + border-constant"),  # one of them another border
    ],
)
def test_causes_that_were_missed(number: str, cause: str) -> None:
    row = next(row for row in ROWS if row["id"] == number)
    step = graded(row).step(row["mistakes"][0]["step"])
    assert step.causes[0].slug == cause


def test_a_mistake_in_a_step_that_was_written_otherwise_is_named() -> None:
    mark = graded(next(row for row in ROWS if row["id"] == "a-100"))
    assert [cause.slug for cause in mark.step("output").causes] == ["mask-forgotten"]


@pytest.mark.parametrize("number", ["a-062", "a-122", "b-236", "c-205", "c-208", "d-150"])
def test_one_idea_in_several_steps_is_charged_once(number: str) -> None:
    assert charged_once(graded(next(row for row in ROWS if row["id"] == number)))


@pytest.mark.soak
def test_all_answers() -> None:
    assert refused(ROWS) == []
