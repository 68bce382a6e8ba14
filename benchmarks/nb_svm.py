"""Linear references on IMDB: NB-SVM of words and pairs, and with triples too, on the official split.

    python -m benchmarks.nb_svm        about five minutes, 4 GB of memory

Each n-gram counts once per text, times the logarithm of how much likelier it is in positive than in negative
training texts, with one text added to each count (Wang and Manning 2012, Baselines and Bigrams). The text is
scaled to length 1 and classified by a linear support vector machine, fitted on all 25,000 training texts.
Nothing is chosen: C is 1, scikit-learn's default, and n-grams that occur in one text only are left out. A
word is a run of letters, digits and apostrophes, or one other sign, in lower case.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.report import RESULTS, machine
from headwork.data import load_texts
from headwork.data.fetching import to_stderr
from headwork.documents import Table
from headwork.files import write_atomic
from headwork.training.evaluation import wilson_interval

WORD = r"[\w']+|[^\w\s]"


def accuracy(longest: int) -> tuple[int, float]:
    """The number of n-grams of up to so many words, and the accuracy on the test split."""
    data = load_texts("imdb", validation=0, log=to_stderr)
    counts = CountVectorizer(
        ngram_range=(1, longest), binary=True, min_df=2, token_pattern=WORD, dtype=np.float32
    )
    training, labels = counts.fit_transform(data.train.texts), data.train.labels
    positive, negative = (np.asarray(training[labels == k].sum(0)).ravel() + 1 for k in (1, 0))
    ratio = np.log(positive / (labels == 1).sum()) - np.log(negative / (labels == 0).sum())
    classifier = LinearSVC(random_state=0).fit(normalize(training.multiply(ratio).tocsr()), labels)
    test = normalize(counts.transform(data.test.texts).multiply(ratio).tocsr())
    return training.shape[1], float((classifier.predict(test) == data.test.labels).mean())


def main() -> int:
    rows = []
    for longest, name in ((2, "words and pairs"), (3, "words, pairs and triples")):
        begun = time.monotonic()
        count, share = accuracy(longest)
        lower, upper = wilson_interval(share, 25_000)
        seconds = f"{time.monotonic() - begun:.0f} s"
        rows.append((name, f"{count:,}", f"{share:.2%}", f"{lower:.2%} to {upper:.2%}", seconds))
    columns = ("n-grams", "number", "test accuracy", "95% interval", "time")
    table = Table("NB-SVM on IMDB", columns, rows, [f"Machine: {machine()}.", (__doc__ or "").strip()])
    print(table.to_text())
    write_atomic(RESULTS / "nb-svm.md", table.to_markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
