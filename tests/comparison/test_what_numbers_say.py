"""Fits, margins and the sentences: other numbers give other words."""

from __future__ import annotations

import numpy as np
import pytest

from headwork.comparison import bias, complexity, long_range, parallelism
from headwork.comparison.fitting import Fit, crossing, fitted, share
from headwork.comparison.rows import times


def test_a_fit_finds_the_power_and_its_error():
    sizes = np.array([1024, 2048, 4096, 8192])
    exact = fitted(sizes, 3 * sizes**1.9)
    assert exact.exponent == pytest.approx(1.9)
    assert exact.error == pytest.approx(0, abs=1e-9)
    noisy = fitted(sizes, sizes**2.0 * np.array([1, 1.5, 0.7, 1.2]))
    assert not noisy.sure
    # The standard error of a slope, by the textbook's formula.
    x, y = np.log(sizes), np.log(sizes**2.0 * np.array([1, 1.5, 0.7, 1.2]))
    left = y - np.polyval(np.polyfit(x, y, 1), x)
    assert noisy.error == pytest.approx(np.sqrt((left**2).sum() / 2 / ((x - x.mean()) ** 2).sum()))


def test_crossings():
    assert crossing([1, 2, 4, 8], [1, 4, 16, 64], [4, 8, 16, 32]) == pytest.approx(4)
    assert crossing([1, 2], [5, 9], [1, 2]) is None  # above from the start
    assert crossing([1, 2], [1, 2], [5, 9]) is None  # never above


def test_shares_differ_only_beyond_their_margins():
    assert not share([0.90], 359).differs(share([0.87], 359))
    assert share([0.90], 359).above(share([0.80], 359))
    assert not share([0.53], 400).above(0.5)
    assert share([1.0], 100).margin > 0
    # Seeds that disagree widen the margin.
    assert share([0.5, 0.9], 1000).margin > share([0.7, 0.7], 1000).margin


def fit(exponent: float, error: float = 0.01) -> Fit:
    return Fit(exponent, error, 2048, 16384)


def test_the_verdict_on_complexity_follows_the_powers():
    said = complexity.verdict({"lstm": fit(1.02), "transformer": fit(1.97)})
    assert said == "With n the time grows linearly in lstm (n^1.02); with the square in transformer (n^1.97)."
    said = complexity.verdict({"lstm": fit(2.02), "transformer": fit(1.1)})
    assert "with the square in lstm" in said
    assert "linearly in transformer" in said
    assert "by no clear power in cnn (n^1.00 ± 0.40)" in complexity.verdict({"cnn": fit(1.0, 0.4)})


def shares(**values: float) -> dict:
    return {name: {64: share([value], 1000)} for name, value in values.items()}


@pytest.mark.parametrize(
    ("attention", "recurrent", "words"),
    [
        (1.0, 0.25, "attention is ahead of lstm"),
        (0.25, 1.0, "lstm ahead of attention, against the usual claim"),
        (0.25, 0.26, "no difference was seen between attention and lstm"),
    ],
)
def test_the_usual_claim_is_told_only_where_the_numbers_say_it(attention, recurrent, words):
    assert words in long_range._claim(shares(transformer=attention, lstm=recurrent), 64)


def test_how_far_each_reaches():
    by = {
        "lstm": {2: share([1.0], 1000), 64: share([0.25], 1000)},
        "gru": {2: share([0.26], 1000), 64: share([0.24], 1000)},
    }
    said = long_range._reached(by, 0.25, [2, 64])
    assert "lstm is right up to a gap of 2, no better than chance from 64 on" in said
    assert "gru is at no gap above chance" in said
    assert "every gap up to 64" in long_range._reached(
        {"linear": {2: share([1.0], 9), 64: share([1.0], 9)}}, 0.2, [2, 64]
    )


def test_fading_words():
    said = long_range._fading_sentence(
        {"lstm": [1e-9, 0.5, 1.0, 2.0], "cnn": [0.0, 0.0, 1.0, 1.0]}, 2, "Before"
    )
    assert "in lstm the gradient all but vanishes" in said
    assert "in cnn nothing of the first token" in said
    assert "in gru the gradient is kept" in long_range._fading_sentence(
        {"gru": [0.9, 1.0, 1.0, 1.0]}, 2, "Before"
    )


def test_threads_words():
    said = parallelism._thread_sentence({"cnn": 1.9, "lstm": 1.0, "gru": 0.5}, 2)
    assert said == (
        "On 2 threads the threads are used well in cnn (1.9 x); nothing is gained in lstm (1.0 x); it is slower than "
        "on one in gru (0.5 x)."
    )


def test_a_difference_within_the_margin_is_no_difference():
    assert bias.leaders({"cnn": share([0.92], 359), "gru": share([0.90], 359)}).startswith(
        "no difference is seen"
    )
    assert (
        bias.leaders({"cnn": share([0.92], 359), "gru": share([0.60], 359)})
        == "cnn leads (92.0%), ahead of gru (60.0%)"
    )


def test_memory_words_follow_the_powers():
    said = complexity._memory_words({"transformer": fit(1.0), "plain attention": fit(1.9)}, ["transformer"])
    assert "The square in the memory is not the mechanism's" in said
    said = complexity._memory_words({"transformer": fit(1.9), "plain attention": fit(1.9)}, ["transformer"])
    assert "not the mechanism's" not in said
    assert "n^1.90 for transformer" in said


def test_ratios():
    assert [times(x) for x in (0.034, 0.5, 1.0, 9.94, 31.4)] == ["0.034 x", "0.5 x", "1.0 x", "9.9 x", "31 x"]
