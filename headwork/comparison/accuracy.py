"""Accuracies with their margins: which families lead, what changes, and whether the budget was large enough.

The 95% margin is half of Wilson's interval, which also holds near 100%. Two accuracies differ if they are
more than one and a half margins apart (99.7%), because a comparison looks at dozens of pairs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.comparison import section
from headwork.comparison.section import words
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


BySize = Mapping[int, Mapping[str, Accuracy]]  # at a size, of a family


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
    return str(words("accuracy/too_small", steps=steps, chance=chance))


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
        return f"there is no measurable difference between {section.join_names(leaders)} ({values})"
    if not behind:
        return f"{best} has {values}"
    tied = f"{section.join_names(leaders)} lead ({values}: no measurable difference)"
    leading = tied if len(leaders) > 1 else f"{best} leads ({values})"
    return f"{leading}, ahead of {section.join_names(behind)} ({values_behind})"


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
    return section.clauses(changes)


def all_accuracies(by_size: BySize) -> list[Accuracy]:
    return [accuracy for families in by_size.values() for accuracy in families.values()]


def family_by_size(by_size: BySize, name: str) -> dict[int, Accuracy]:
    return {size: families[name] for size, families in by_size.items()}


def values_by_size(by_size: BySize) -> dict[str, dict[str, float]]:
    """The numbers alone, by family, for JSON."""
    return {
        name: {str(size): accuracy.value for size, accuracy in family_by_size(by_size, name).items()}
        for name in next(iter(by_size.values()))
    }


def plot_by_size(by_size: BySize, chance: float, title: str, xlabel: str) -> tuple[Any, Any, str]:
    """A figure of accuracy against size with its axes, and a sentence on the margins for its caption."""
    figure, axes = section.new_panel(title, xlabel, "accuracy in %", log="x")
    style = {"color": "#777777", "linewidth": 1, "linestyle": (0, (2, 3))}
    axes.axhline(100 * chance, label=f"chance, {chance:.0%}", **style)
    names = list(next(iter(by_size.values())))
    for index, name in enumerate(names):
        x = [size * section.dodge_factor(index, len(names)) for size in by_size]
        section.draw_line(
            axes, name, (x, [100 * accuracy.value for accuracy in family_by_size(by_size, name).values()])
        )
    section.set_ticks(axes, list(by_size))
    axes.set_ylim(0, 104)
    section.add_legend(figure)
    margin = max(accuracy.margin for accuracy in all_accuracies(by_size))
    return figure, axes, f"95% margins are at most {100 * margin:.1f} points."
