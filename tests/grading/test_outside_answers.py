"""Answers of outside examiners, who saw only the questions: right ones pass, first wrong steps are theirs."""

import pytest

from benchmarks.wrong_answers.outside import graded, holds, read

ROWS = read()


def refused(rows: list[dict]) -> list[str]:
    return [row["id"] for row in rows if not holds(row, graded(row))]


def test_a_sample_of_answers() -> None:
    assert refused(ROWS[::10]) == []


def test_another_first_step_is_noticed() -> None:
    row = next(row for row in ROWS if row["group"] == "single" and len(row["steps"]) > 1)
    other = next(step for step in row["steps"] if step != row["wrong"][0])
    assert refused([{**row, "wrong": [other]}]) == [row["id"]]
    assert refused([{**row, "group": "right"}]) == [row["id"]]


@pytest.mark.soak
def test_all_answers() -> None:
    assert refused(ROWS) == []
