"""What a text model has to beat: TF-IDF of words and pairs of words, and a linear support vector machine.

Fitted on the same training texts and evaluated on the same test set. Words that occur in one text only are
left out, and a count enters by its logarithm (Manning, Raghavan & Schütze 2008, chapter 6). It reads whole
texts, however long.
"""

import time
import warnings
from typing import Any

from headwork.data import Texts, TextSplit
from headwork.data.fetching import Log

MAX_TEXTS = 200_000  # beyond, the counts of pairs no longer fit an ordinary computer's memory
NAME = "TF-IDF of words and pairs, linear SVM"


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
    return {"name": NAME, "accuracy": float(correct.mean()), "seconds": round(time.monotonic() - start, 1)}


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
