"""What a text model has to beat: counts of words and of pairs of words, weighted by TF-IDF, and a linear machine.

Fitted on the same training texts and measured on the same test. Words that stand in one text only are left out, a
count enters by its logarithm (Manning, Raghavan & Schütze 2008, chapter 6), and the classifier is a linear support
vector machine. It reads whole texts, however long.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from headwork.data import Texts, TextSplit
from headwork.training.examples import Say

MOST_TEXTS = 200_000  # beyond, the counts of pairs no longer fit an ordinary computer's memory
NAME = "TF-IDF of words and pairs, linear SVM"


def baseline(data: Texts, say: Say) -> dict[str, Any] | None:
    """Its name, test accuracy and seconds; None, with a word, where it cannot be had.

    >>> import numpy as np
    >>> from headwork.data import TextSplit
    >>> split = TextSplit(["good", "bad", "good film", "bad film"], np.array([1, 0, 1, 0]))
    >>> baseline(Texts("films", ("no", "yes"), split, split, lambda: split), print)["accuracy"]
    1.0
    """
    begun = time.monotonic()
    fitted = _fitted(data.train)
    if isinstance(fitted, str):
        say(f"! no TF-IDF to compare with: {fitted}.")
        return None
    right = fitted.predict(data.test.texts) == data.test.labels
    return {"name": NAME, "accuracy": float(right.mean()), "seconds": round(time.monotonic() - begun, 1)}


def _fitted(split: TextSplit) -> Any:
    """The fitted machine, or why there is none."""
    if len(split) > MOST_TEXTS:
        return f"more than {MOST_TEXTS:,} texts"
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC
    except ImportError:
        return "scikit-learn is not installed"
    counts = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a machine that has not quite settled is still something to beat
            return make_pipeline(counts, LinearSVC(random_state=0)).fit(split.texts, split.labels)
    except ValueError:
        return "no word stands in two texts"
