r"""The initial n-gram table of a text classifier: how much likelier an n-gram is in a class than in others.

For an n-gram in n_c of the N_c training texts of class c, and in m_c of the M_c others, the ratio is
:math:`\log \frac{(n_c + 1) / (N_c + 2)}{(m_c + 1) / (M_c + 2)}`, naive Bayes with one text added to each
count (Wang and Manning 2012, Baselines and Bigrams: Simple, Good Sentiment and Topic Classification).
"""

import torch
from torch import Tensor

from headwork.models import TextClassifier
from headwork.models.text import ngram_rows
from headwork.training.examples import Examples

CHUNK_SIZE = 256  # texts


def set_log_ratios(model: TextClassifier, examples: Examples) -> None:
    """Count the n-grams of the training texts, and set a new model's ``ngrams.ratios``."""
    assert model.ngrams is not None
    rows, classes = model.ngrams.table.shape
    counts = torch.zeros(classes, rows, dtype=torch.float64)
    for indices in examples.sequential_batches(CHUNK_SIZE):
        (tokens, mask), labels = examples.batch(indices)
        hashed = ngram_rows(tokens, mask, model.config).flatten(1)
        texts = torch.arange(len(labels))[:, None].expand_as(hashed)
        # Once per text, however often it occurs in it.
        once = torch.unique((texts * rows + hashed)[mask.repeat_interleave(3, 1)])
        cells = labels[once // rows] * rows + once % rows
        counts += torch.bincount(cells, minlength=classes * rows).view(classes, rows)
    model.ngrams.ratios.copy_(log_ratios(counts, examples.labels.bincount(minlength=classes)).mT)


def log_ratios(counts: Tensor, texts: Tensor) -> Tensor:
    """The ratios (class, row) from counts (class, row) and the number of texts of each class.

    >>> log_ratios(torch.tensor([[3.0, 1.0], [0.0, 1.0]]), torch.tensor([3, 3]))[0].exp().tolist()
    [4.0, 1.0]
    """
    inside = (counts + 1) / (texts[:, None] + 2)
    outside = (counts.sum(0) - counts + 1) / (texts.sum() - texts + 2)[:, None]
    return inside.log() - outside.log()
