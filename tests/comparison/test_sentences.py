"""Fits, margins and the sentences made from them: other numbers give other sentences."""

from __future__ import annotations

import numpy as np
import pytest

from headwork.comparison import complexity, long_range, parallelism
from headwork.comparison.accuracy import Accuracy, leaders_sentence, mean_accuracy
from headwork.comparison.section import format_ratio
from headwork.comparison.timing import PowerLaw, crossing_size, fit_power_law


def test_a_fit_finds_the_exponent_and_its_error():
    sizes = np.array([1024, 2048, 4096, 8192])
    exact = fit_power_law(sizes, 3 * sizes**1.9)
    assert exact.exponent == pytest.approx(1.9)
    assert exact.error == pytest.approx(0, abs=1e-9)
    noisy = fit_power_law(sizes, sizes**2.0 * np.array([1, 1.5, 0.7, 1.2]))
    assert not noisy.is_reliable
    # The standard error of a slope, by the textbook's formula.
    x, y = np.log(sizes), np.log(sizes**2.0 * np.array([1, 1.5, 0.7, 1.2]))
    residuals = y - np.polyval(np.polyfit(x, y, 1), x)
    assert noisy.error == pytest.approx(np.sqrt((residuals**2).sum() / 2 / ((x - x.mean()) ** 2).sum()))


def test_crossings():
    assert crossing_size([1, 2, 4, 8], [1, 4, 16, 64], [4, 8, 16, 32]) == pytest.approx(4)
    assert crossing_size([1, 2], [5, 9], [1, 2]) == 0  # above from the start
    assert crossing_size([1, 2], [1, 2], [5, 9]) == np.inf  # never above


def test_accuracies_differ_only_beyond_their_margins():
    assert not mean_accuracy([0.90], 359).differs_from(mean_accuracy([0.87], 359))
    assert mean_accuracy([0.90], 359).is_above(mean_accuracy([0.80], 359))
    assert mean_accuracy([0.5], 100).differs_from(Accuracy(0.25))
    assert not mean_accuracy([0.53], 400).is_above(Accuracy(0.5))
    assert mean_accuracy([1.0], 100).margin > 0
    # Seeds that disagree widen the margin.
    assert mean_accuracy([0.5, 0.9], 1000).margin > mean_accuracy([0.7, 0.7], 1000).margin


def law(exponent: float, error: float = 0.01) -> PowerLaw:
    return PowerLaw(exponent, error, 2048, 16384)


def test_the_verdict_on_complexity_follows_the_exponents():
    verdict = complexity.growth_sentence({"lstm": law(1.02), "transformer": law(1.97)})
    assert verdict == (
        "With n the time grows linearly for lstm (n^1.02); quadratically for transformer (n^1.97)."
    )
    verdict = complexity.growth_sentence({"cnn": law(1.0, 0.4), "lstm": law(2.02), "transformer": law(1.1)})
    assert "quadratically for lstm" in verdict
    assert "linearly for transformer" in verdict
    assert verdict.endswith("with no clear exponent for cnn (n^1.00 ± 0.40).")


@pytest.mark.parametrize(
    ("attention", "recurrent", "words"),
    [
        (1.0, 0.25, "transformer leads (100.0%), ahead of lstm"),
        (0.25, 1.0, "lstm leads (100.0%), ahead of transformer (25.0%), against the usual claim"),
        (0.25, 0.26, "there is no measurable difference between lstm and transformer"),
    ],
)
def test_the_usual_claim_is_made_only_where_the_numbers_support_it(attention, recurrent, words):
    values = {"transformer": attention, "lstm": recurrent}
    accuracies = {64: {name: mean_accuracy([value], 1000) for name, value in values.items()}}
    assert words in long_range.claim_sentence(accuracies)


def test_the_reach_of_each_family():
    values = {"lstm": (1.0, 0.25), "gru": (0.26, 0.24), "rnn": (0.6, 0.4), "linear": (1.0, 1.0)}
    accuracies = {
        gap: {name: mean_accuracy([pair[index]], 1000) for name, pair in values.items()}
        for index, gap in enumerate((2, 64))
    }
    sentence = long_range.reach_sentence(accuracies)
    assert "90% or more up to gap 2 for lstm (100% at gap 2, 25% at gap 64)" in sentence
    assert "at chance at every gap for gru" in sentence
    assert "below 90% and above chance up to gap 64 for rnn" in sentence
    assert "90% or more up to gap 64 for linear" in sentence


def test_the_decay_of_gradients():
    norms = {"lstm": [1e-9, 0.5, 1.0, 2.0], "cnn": [0.0, 0.0, 1.0, 1.0], "gru": [0.9, 1.0, 1.0, 1.0]}
    sentence = long_range.decay_sentence(norms, 2, "Untrained")
    assert "all but vanishes for lstm" in sentence
    assert "is zero for cnn" in sentence
    assert "is preserved for gru" in sentence


def test_the_speed_up_with_threads():
    sentence = parallelism.thread_sentence({"cnn": 1.9, "lstm": 1.0, "gru": 0.5}, 2)
    assert sentence == (
        "On 2 threads the speed-up is good for cnn (1.9 x); there is no speed-up for lstm (1.0 x); the layer "
        "is slower than on one for gru (0.5 x)."
    )


def test_a_busy_machine_is_named_beside_its_speed_up():
    quiet, busy = (parallelism.thread_sentence({"cnn": 0.7}, 2, load) for load in (2.0, 13.6))
    assert "busy" not in quiet
    assert busy.startswith(quiet)
    assert "busy (load 13.6 on 2 cores), so these speed-ups mean little" in busy
    assert parallelism.time_threads(["cnn"], 1)["load"] > 0


def test_a_difference_within_the_margin_is_no_difference():
    best = mean_accuracy([0.92], 359)
    assert leaders_sentence({"cnn": best, "gru": mean_accuracy([0.90], 359)}).startswith(
        "there is no measurable difference"
    )
    ahead = leaders_sentence({"cnn": best, "gru": mean_accuracy([0.60], 359)})
    assert ahead == "cnn leads (92.0%), ahead of gru (60.0%)"


def test_the_sentence_on_memory_follows_the_exponents():
    laws = {"transformer": law(1.0), "plain attention": law(1.9)}
    sentence = complexity.memory_sentence(laws)
    assert "Quadratic memory is not inherent in attention" in sentence
    sentence = complexity.memory_sentence({**laws, "transformer": law(1.9)})
    assert "not inherent" not in sentence
    assert "quadratically for transformer (n^1.90)" in sentence


def test_ratios():
    ratios = [format_ratio(x) for x in (0.034, 0.5, 1.0, 9.94, 31.4)]
    assert ratios == ["0.034 x", "0.5 x", "1.0 x", "9.9 x", "31 x"]
