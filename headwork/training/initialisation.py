r"""Initial parameters that are not random: of the heads of a vision transformer, and of an n-gram table.

A 3 x 3 convolution: each patch's position starts as the sum of a code for its row and one for its column, all
codes orthonormal, and each head's W_q and W_k as the shift to one of the nine neighbours, built and certified
by ``headwork.build``; the rest stays random, W_o and W_2 smaller by 1/sqrt(2 depth), so that the codes still
count in the last block. The idea, with W_q and W_k fitted instead of built, is from Structured Initialization
for Vision Transformers (arXiv 2505.19985). Its effect is measured in docs/experiments.md.

N-grams: how much likelier one is in a class than in others. For an n-gram in n_c of the N_c training texts of
class c, and in m_c of the M_c others, the ratio is :math:`\log \frac{(n_c + 1) / (N_c + 2)}{(m_c + 1) /
(M_c + 2)}`, naive Bayes with one text added to each count (Wang and Manning 2012, Baselines and Bigrams:
Simple, Good Sentiment and Topic Classification).
"""

import math
from typing import Any

import torch
from torch import Tensor

from headwork.construct import build
from headwork.errors import InputError
from headwork.models import TextClassifier, VisionTransformer, VisionTransformerConfig
from headwork.models.text import hashed_ngram_rows
from headwork.training.examples import Examples

SHARPNESS = 4.0  # by how much the neighbour's score stands above one that shares only its row or column
CHUNK_SIZE = 256  # texts


def convolution_unsupported_reason(config: VisionTransformerConfig) -> str:
    """Why such heads cannot start as a convolution; empty where they can.

    >>> convolution_unsupported_reason(VisionTransformerConfig(width=32))
    'heads of width 8 cannot hold the codes of 7 rows and 7 columns'
    """
    side, head_width = config.image_size // config.patch_size, config.width // config.heads
    if config.positions != "learned" or config.attention != "softmax":
        return f"{config.positions} positions and {config.attention} attention have no codes to build on"
    if side < 3:
        return f"{side} x {side} patches are too few for a convolution of 3 x 3"
    if 2 * side > head_width:
        return f"heads of width {head_width} cannot hold the codes of {side} rows and {side} columns"
    return ""


def initialise_as_convolution(model: VisionTransformer) -> None:
    """Set positions, W_q and W_k of a new model, in place.

    >>> from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(depth=1))
    >>> initialise_as_convolution(model)
    >>> tuple(model.positions.table.shape)
    (50, 64)
    """
    config = model.config
    side = config.image_size // config.patch_size
    head_width = config.width // config.heads
    reason = convolution_unsupported_reason(config)
    if reason:
        raise InputError(f"start convolution: {reason}. Change the model, or start at random.")
    heads = build(
        "convolution-2d", grid=(side, side), kernel=[[1.0] * 3] * 3, positions="grid", width=1, ends="clamp"
    )
    codes = torch.from_numpy(heads.codes)
    basis = torch.linalg.qr(torch.randn(config.width, codes.shape[1], dtype=torch.float64)).Q.mT
    shifts = [[torch.from_numpy(W[:, 1:]) @ basis for W in matrices] for matrices in (heads.W_q, heads.W_k)]
    # A normalised token holds its two codes at half of its square, width.
    sharpness = SHARPNESS * math.sqrt(head_width) / (config.width / 4)
    with torch.no_grad():
        # Codes as large as embedded patches of pixels of variance 1; the class token has no position.
        size, table = model.patch_embedding.filters.norm().double() / math.sqrt(2), model.positions.table
        table.zero_()
        table[-len(codes) :] = (size * (codes @ basis)).to(table)
        for number in range(config.depth * config.heads):
            layer, head = divmod(number, config.heads)
            attention = model.transformer.blocks[layer].attention
            # The head's other rows stay random, and so can learn.
            rows = slice(head * head_width, head * head_width + codes.shape[1])
            tap = (4 + number) % 9  # every neighbour in turn, the patch itself first
            attention.W_q[rows] = (sharpness * shifts[0][tap]).to(attention.W_q)
            attention.W_k[rows] = shifts[1][tap].to(attention.W_k)
        block: Any
        for block in model.transformer.blocks:
            for matrix in (block.attention.W_o, block.feed_forward.W_2):
                matrix.mul_(1 / math.sqrt(2 * config.depth))


def set_log_ratios(model: TextClassifier, examples: Examples) -> None:
    """Count the n-grams of the training texts, and set a new model's ``ngrams.ratios``."""
    assert model.ngrams is not None
    rows, classes = model.ngrams.table.shape
    counts = torch.zeros(classes, rows, dtype=torch.float64)
    for indices in examples.sequential_batches(CHUNK_SIZE):
        (tokens, mask), labels = examples.batch(indices)
        hashed = hashed_ngram_rows(tokens, mask, model.config).flatten(1)
        text_indices = torch.arange(len(labels))[:, None].expand_as(hashed)
        # Once per text, however often it occurs in it.
        once = torch.unique((text_indices * rows + hashed)[mask.repeat_interleave(3, 1)])
        cells = labels[once // rows] * rows + once % rows
        counts += torch.bincount(cells, minlength=classes * rows).view(classes, rows)
    model.ngrams.ratios.copy_(log_ratios(counts, examples.labels.bincount(minlength=classes)).mT)


def log_ratios(counts: Tensor, texts_per_class: Tensor) -> Tensor:
    """The ratios (class, row) from counts (class, row) and the number of texts of each class.

    >>> log_ratios(torch.tensor([[3.0, 1.0], [0.0, 1.0]]), torch.tensor([3, 3]))[0].exp().tolist()
    [4.0, 1.0]
    """
    inside = (counts + 1) / (texts_per_class[:, None] + 2)
    outside = (counts.sum(0) - counts + 1) / (texts_per_class.sum() - texts_per_class + 2)[:, None]
    return inside.log() - outside.log()
