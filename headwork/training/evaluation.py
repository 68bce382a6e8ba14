"""How good a model is on a part of the data: loss, accuracy, confusion, and its worst mistakes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwork.errors import InputError
from headwork.models import Model
from headwork.pages import Table
from headwork.training.examples import Examples


@dataclass(frozen=True)
class Evaluation:
    """Probabilities (example, class) and labels (example) of one part of the data."""

    probabilities: Tensor
    labels: Tensor
    loss: float

    @property
    def said(self) -> Tensor:
        return self.probabilities.argmax(-1)

    @property
    def accuracy(self) -> float:
        return float((self.said == self.labels).double().mean())

    @property
    def confusion(self) -> list[list[int]]:
        """How often a class (row) was said to be another (column)."""
        classes = self.probabilities.shape[-1]
        counts = torch.bincount(self.labels * classes + self.said, minlength=classes * classes)
        rows: list[list[int]] = counts.reshape(classes, classes).tolist()
        return rows

    def mistakes(self, most: int = 12) -> list[dict[str, Any]]:
        """Wrong answers, the surest first."""
        wrong = (self.said != self.labels).nonzero().squeeze(-1)
        sure = self.probabilities[wrong].amax(-1)
        order = wrong[sure.argsort(descending=True, stable=True)][:most]
        return [
            {
                "place": int(i),
                "label": int(self.labels[i]),
                "said": int(self.said[i]),
                "probability": round(float(self.probabilities[i].max()), 4),
            }
            for i in order
        ]

    def summary(self) -> dict[str, Any]:
        count = len(self.labels)
        return {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "count": count,
            "interval": interval(self.accuracy, count),
        }


def interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of right answers (Wilson 1927); it is never empty, not even at 100%.

    >>> [f"{end:.1%}" for end in interval(1.0, 100)]
    ['96.3%', '100.0%']
    """
    z = 1.96
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, (middle - half) / (1 + z * z / count)), min(1.0, (middle + half) / (1 + z * z / count))


def accuracy_told(share: float, count: int) -> str:
    """An accuracy with its interval.

    >>> accuracy_told(1.0, 100)
    '100.00% of 100 (95% interval 96.30% to 100.00%)'
    """
    lower, upper = interval(share, count)
    return f"{share:.2%} of {count:,} (95% interval {lower:.2%} to {upper:.2%})"


@torch.no_grad()
def evaluate(model: Model, examples: Examples, size: int = 256) -> Evaluation:
    """The model on a part of the data."""
    if not len(examples.labels):
        raise InputError("evaluate: this part of the data is empty.")
    model.eval()
    classes = int(model.config.classes)
    scores = torch.empty(len(examples.labels), classes, dtype=torch.float64)
    for chosen in examples.in_order(size):
        inputs, _ = examples.batch(chosen)
        scores[torch.from_numpy(chosen)] = model(*inputs).double().cpu()
    loss = torch.nn.functional.cross_entropy(scores, examples.labels).item()
    return Evaluation(scores.softmax(-1), examples.labels, loss)


def by_class(evaluation: Evaluation, classes: tuple[str, ...], title: str) -> Table:
    """Precision and recall of each class."""
    confusion = evaluation.confusion
    rows: list[tuple[Any, ...]] = []
    for number, name in enumerate(classes):
        right, truly = confusion[number][number], sum(confusion[number])
        said = sum(row[number] for row in confusion)
        rows.append((name, truly, _share(right, truly), _share(right, said)))
    told = (
        f"accuracy {accuracy_told(evaluation.accuracy, len(evaluation.labels))}, loss {evaluation.loss:.4f}"
    )
    return Table(title, ("class", "examples", "found", "right when said"), rows, [told], evaluation.summary())


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"
