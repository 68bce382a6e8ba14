"""Accuracies with their margins: which families lead, what changes, and whether the budget was large enough.

The 95% margin is half of Wilson's interval, which also holds near 100%. Two accuracies differ if they are
more than one and a half margins apart (99.7%), because a comparison looks at dozens of pairs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.comparison.section import clauses, join_names, text_of
from headwork.training.evaluation import Z_95, wilson_interval

MARGINS_APART = 1.5


@dataclass(frozen=True)
class Accuracy:
    """The fraction of correct predictions, over one seed or several, with its 95% margin."""

    value: float
    margin: float = 0.0

    def __str__(self) -> str:
        return f"{self.value:.1%} ± {100 * self.margin:.1f}"

    def differs_from(self, other: "Accuracy") -> bool:
        """Whether the difference is larger than both margins allow.

        >>> mean_accuracy([0.5], 100).differs_from(mean_accuracy([0.55], 100))
        False
        """
        return abs(self.value - other.value) > MARGINS_APART * math.hypot(self.margin, other.margin)

    def is_above(self, other: "Accuracy") -> bool:
        return self.differs_from(other) and self.value > other.value


def mean_accuracy(values: Sequence[float], count: int) -> Accuracy:
    """The mean over seeds of accuracies on ``count`` examples; the margin includes the spread between seeds.

    >>> print(mean_accuracy([0.5], 96))
    50.0% ± 9.8
    """
    mean = float(np.mean(values))
    lower, upper = wilson_interval(mean, count)
    between = Z_95 * float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Accuracy(mean, math.hypot((upper - lower) / 2, between))


def mean_accuracies(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], count: int, field: str = "accuracy"
) -> dict[str, Accuracy]:
    """The mean over the runs of each family, one per seed, all tested on ``count`` examples."""
    return {name: mean_accuracy([run[field] for run in by_seed], count) for name, by_seed in runs.items()}


def budget_sentence(accuracies: Iterable[Accuracy], chance: float, steps: int) -> str:
    """A sentence that says so if no accuracy is above chance; otherwise nothing."""
    if any(accuracy.is_above(Accuracy(chance)) for accuracy in accuracies):
        return ""
    return str(text_of("accuracy/too_small", steps=steps, chance=chance))


def leaders_sentence(accuracies: Mapping[str, Accuracy]) -> str:
    """Which families are best, and which are measurably worse.

    >>> half = mean_accuracy([0.5], 400)
    >>> leaders_sentence({"cnn": mean_accuracy([0.9], 400), "lstm": mean_accuracy([0.89], 400), "gru": half})
    'cnn and lstm lead (90.0%, 89.0%: no measurable difference), ahead of gru (50.0%)'
    """
    best = max(accuracies, key=lambda name: accuracies[name].value)
    leaders = [best, *(n for n in accuracies if n != best and not accuracies[best].is_above(accuracies[n]))]
    behind = [name for name in accuracies if name not in leaders]
    values, values_behind = (
        ", ".join(f"{accuracies[name].value:.1%}" for name in names) for names in (leaders, behind)
    )
    if len(leaders) > 1 and not behind:
        return f"there is no measurable difference between {join_names(leaders)} ({values})"
    if not behind:
        return f"{best} has {values}"
    tied = f"{join_names(leaders)} lead ({values}: no measurable difference)"
    leading = tied if len(leaders) > 1 else f"{best} leads ({values})"
    return f"{leading}, ahead of {join_names(behind)} ({values_behind})"


def changes_sentence(before: Mapping[str, Accuracy], after: Mapping[str, Accuracy]) -> str:
    """For which families the accuracy drops, rises, or does not measurably change.

    >>> low, high = mean_accuracy([0.5], 400), mean_accuracy([0.9], 400)
    >>> changes_sentence({"cnn": high, "lstm": low}, {"cnn": low, "lstm": low})
    'accuracy drops for cnn (-40.0 points); there is no measurable change for lstm (+0.0 points)'
    """
    changes = {}
    for name, accuracy in before.items():
        gain = after[name].value - accuracy.value
        change = f"accuracy {'rises' if gain > 0 else 'drops'}"
        change = change if accuracy.differs_from(after[name]) else "there is no measurable change"
        changes[name] = (change, f"{100 * gain:+.1f} points")
    return clauses(changes)
