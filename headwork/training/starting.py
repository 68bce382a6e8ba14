r"""Where a vision transformer starts: heads that look at their neighbours, as a convolution of 3 x 3 does.

Each patch's position starts as the sum of a code for its row and one for its column, all codes orthonormal, and each
head's W_q and W_k as the shift to one of the nine neighbours, built and certified by ``headwork.build``; W_v, W_o and
the rest stay random. The idea, with W_q and W_k fitted instead of built, is from Structured Initialization for
Vision Transformers (arXiv 2505.19985). What it brings is measured in docs/experiments.md.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from headwork.construct import build
from headwork.errors import InputError
from headwork.models import VisionTransformer

SHARPNESS = 4.0  # by how much the neighbour's score stands above one that shares only its row or column


def start_as_convolution(model: VisionTransformer) -> None:
    """Give positions, W_q and W_k of a new model their start, in place.

    >>> from headwork.models import VisionTransformerConfig
    >>> model = VisionTransformer(VisionTransformerConfig(depth=1))
    >>> start_as_convolution(model)
    >>> tuple(model.positions.table.shape)
    (50, 64)
    """
    config = model.config
    side = config.image // config.patch
    room = config.width // config.heads
    if config.positions != "learned" or config.attention != "softmax" or 2 * side > room or side < 3:
        raise InputError(
            f"start convolution: {side} x {side} patches, {config.positions} positions, {config.attention} attention, "
            f"heads of width {room}. It needs at least 3 x 3 patches, learned positions, softmax, and heads of width "
            f"{2 * side}, which hold the codes of rows and columns. Change the model, or --set start=random."
        )
    built = build("convolution-2d", grid=(side, side), kernel=[[1.0] * 3] * 3, positions="grid", width=1, ends="clamp")
    codes = torch.from_numpy(built.positions)
    basis = torch.linalg.qr(torch.randn(config.width, codes.shape[1], dtype=torch.float64)).Q.mT
    with torch.no_grad():
        # As large as what the patches bring: their embedding of pixels of variance 1.
        scale = (model.patch_embedding.filters.flatten(1).norm() / math.sqrt(2)).double()
        table = torch.zeros_like(model.positions.table)
        table[-side * side :] = scale * codes @ basis
        model.positions.table.copy_(table)
        # A normalised token holds its two codes at half of its square, width.
        sharpness = SHARPNESS * math.sqrt(room) / (config.width / 4)
        for number, tap in enumerate(_taps(config.depth * config.heads)):
            block, head = divmod(number, config.heads)
            attention = model.transformer.blocks[block].attention
            for matrix, small, factor in ((attention.W_q, built.W_q, sharpness), (attention.W_k, built.W_k, 1.0)):
                shift = torch.from_numpy(np.asarray(small[tap])[:, -codes.shape[1] :])
                _fill(matrix[head * room : (head + 1) * room], factor * shift @ basis)


def _taps(count: int) -> list[int]:
    """Which of the nine neighbours each head looks at: all of them in turn."""
    return [(4 + number) % 9 for number in range(count)]


def _fill(rows: Tensor, start: Tensor) -> None:
    """The rows that the codes need; the others stay random, else nothing would ever move them from zero."""
    rows[: start.shape[0]] = start.to(rows)
