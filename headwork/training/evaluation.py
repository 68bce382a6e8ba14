"""How good a model is on a part of the data: loss, accuracy, confusion matrix, most confident mistakes.

What a text model has to beat is fitted on the same training texts and evaluated on the same test set: TF-IDF
of words and pairs of words, and a linear support vector machine. Words that occur in one text only are left
out, and a count enters by its logarithm (Manning, Raghavan & Schütze 2008, chapter 6). It reads whole texts,
however long.
"""

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwork.data import Texts, TextSplit
from headwork.data.fetching import Log
from headwork.errors import InputError
from headwork.loading.model import probabilities_of
from headwork.models import Model
from headwork.training.distributed import DistributedContext
from headwork.training.examples import Examples

MOST_MISTAKES = 12
MAX_TEXTS = 200_000  # beyond, the counts of pairs no longer fit an ordinary computer's memory
BASELINE = "TF-IDF of words and pairs, linear SVM"
Z_95 = 1.96  # standard errors on either side, for 95%


@dataclass(frozen=True)
class Evaluation:
    """Probabilities (example, class) and labels (example) of one part of the data, and the mean loss."""

    probabilities: Tensor
    labels: Tensor
    loss: float

    @property
    def predicted(self) -> Tensor:
        return self.probabilities.argmax(-1)

    @property
    def accuracy(self) -> float:
        return float((self.predicted == self.labels).double().mean())

    @property
    def confusion(self) -> list[list[int]]:
        """The confusion matrix: how often a true class (row) was predicted as each class (column)."""
        classes = self.probabilities.shape[-1]
        counts = torch.bincount(self.labels * classes + self.predicted, minlength=classes * classes)
        rows: list[list[int]] = counts.reshape(classes, classes).tolist()
        return rows

    def mistakes(self) -> list[dict[str, Any]]:
        """Wrong predictions, the most confident first, by the names that result.json gives their parts."""
        wrong = (self.predicted != self.labels).nonzero().squeeze(-1)
        confidence = self.probabilities[wrong].amax(-1)
        return [
            {
                "place": int(index),
                "label": int(self.labels[index]),
                "said": int(self.predicted[index]),
                "probability": round(float(self.probabilities[index].max()), 4),
            }
            for index in wrong[confidence.argsort(descending=True, stable=True)][:MOST_MISTAKES]
        ]

    def calibration(self, bins: int = 10) -> list[dict[str, Any]]:
        """By confidence, from low to high: how many predictions, how confident they are, how many correct."""
        confidence = self.probabilities.amax(-1)
        parts = (confidence * bins).long().clamp(max=bins - 1)
        correct = (self.predicted == self.labels).double()
        return [
            {
                "from": part / bins,
                "to": (part + 1) / bins,
                "count": int(here.sum()),
                "confidence": round(float(confidence[here].mean()), 4),
                "accuracy": round(float(correct[here].mean()), 4),
            }
            for part in range(bins)
            if (here := parts == part).any()
        ]

    def summary(self) -> dict[str, Any]:
        share, count = self.accuracy, len(self.labels)
        interval = wilson_interval(share, count)
        return {"loss": self.loss, "accuracy": share, "count": count, "interval": interval}


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share of correct predictions (Wilson 1927); it is never empty, not even at 100%.

    >>> [f"{end:.1%}" for end in wilson_interval(1.0, 100)]
    ['96.3%', '100.0%']
    """
    z = Z_95
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, (middle - half) / (1 + z * z / count)), min(1.0, (middle + half) / (1 + z * z / count))


def losses(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """For each example: the smoothed loss, which is minimised, the plain one, and whether it is correct.

    >>> smoothed, plain, correct = losses(torch.tensor([[0.0, 0.0]]), torch.tensor([1]), 0.1)
    >>> round(plain.item(), 4), correct.item()
    (0.6931, False)
    """
    logarithms = logits.log_softmax(-1)
    plain = -logarithms.gather(-1, labels[:, None]).squeeze(-1)
    smoothed = (1 - smoothing) * plain - smoothing * logarithms.mean(-1) if smoothing else plain
    return smoothed, plain.detach(), logits.detach().argmax(-1) == labels


@torch.no_grad()
def evaluate(
    model: Model, examples: Examples, batch_size: int = 256, group: DistributedContext | None = None
) -> Evaluation:
    """The model on a part of the data, its batches shared out among the processes."""
    if not len(examples.labels):
        raise InputError("evaluate: this part of the data is empty.")
    group = group or DistributedContext()
    model.eval()
    loss, probabilities = 0.0, torch.zeros(len(examples.labels), model.config.classes, dtype=torch.float64)
    for indices in examples.sequential_batches(batch_size)[group.batch_slice]:
        inputs, labels = examples.batch(indices)
        logits = model(*group.to_device(inputs))
        loss += losses(logits, labels.to(logits.device))[1].sum().item()
        names = [f"example {index}" for index in indices]
        rows = probabilities_of(logits.double().cpu().numpy(), names)
        probabilities[torch.from_numpy(indices)] = torch.from_numpy(rows)
    (total,) = group.sum_numbers(loss)
    return Evaluation(group.all_reduce(probabilities), examples.labels, total / len(examples.labels))


# --- what a text model has to beat ---------------------------------------------------------------------
def baseline(data: Texts, log: Log) -> dict[str, Any] | None:
    """Its name, test accuracy and seconds; None, with a logged reason, where it cannot be fitted.

    >>> import numpy as np
    >>> from headwork.data import TextSplit
    >>> split = TextSplit(["good", "bad", "good film", "bad film"], np.array([1, 0, 1, 0]))
    >>> baseline(Texts("films", ("no", "yes"), split, split, lambda: split), print)["accuracy"]
    1.0
    """
    start = time.monotonic()
    classifier = _fit(data.train)
    if isinstance(classifier, str):
        log(f"! no TF-IDF to compare with: {classifier}.")
        return None
    correct = classifier.predict(data.test.texts) == data.test.labels
    seconds = round(time.monotonic() - start, 1)
    return {"name": BASELINE, "accuracy": float(correct.mean()), "seconds": seconds}


def _fit(split: TextSplit) -> Any:
    """The fitted classifier, or why there is none."""
    if len(split) > MAX_TEXTS:
        return f"more than {MAX_TEXTS:,} texts"
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC
    except ImportError:
        return "scikit-learn is not installed"
    counts = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one that has not quite converged is still something to beat
            return make_pipeline(counts, LinearSVC(random_state=0)).fit(split.texts, split.labels)
    except ValueError:
        return "no word occurs in two texts"
