"""``practice check``: numbers that hide mistakes, and the change that reveals them."""

from __future__ import annotations

from headwork.exercises import Exercise
from headwork.exercises.checking import check


def test_the_courses_symmetric_matrices_hide_transposes() -> None:
    exercise = Exercise(
        "self-attention",
        {"tokens": "1 2; 2 0; 0 1; 1 1", "W_q": "1 0; 0 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1"},
        {"beta": 1},
    )
    result = check(exercise)
    assert "matrix-transposed" in result.detection.undetected
    assert result.change is not None
    assert "matrix-transposed" not in result.change.detection.undetected
    assert result.change.name in ("W_q", "W_k", "W_v")
    assert "cannot reveal:\n\n  " in result.to_text()
    assert "The smallest change that reveals more: W_" in result.to_text()


def test_a_change_of_one_is_preferred_to_one_of_two() -> None:
    result = check(Exercise("convolution-1d", {"signal": "1 2 4 3", "kernel": "1 1"}))
    assert result.detection.undetected == ("kernel-flipped",)
    assert result.change is not None
    assert abs(result.change.new - result.change.old) == 1


def test_good_numbers_are_reported_as_good() -> None:
    result = check(Exercise("convolution-1d", {"signal": "1 2 4 3", "kernel": "1 2"}))
    assert result.good
    assert "Every known mistake shows" in result.to_text()
