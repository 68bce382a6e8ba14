"""Patches: an image cut into squares, each laid out as one row (channel, then row, then column).

That is the order in which a convolution's kernel is laid out, so a patch embedding is a convolution
whose stride equals its kernel (Dosovitskiy et al. 2020, arXiv 2010.11929).
"""

from __future__ import annotations

from headwork.errors import InputError, sizes_in_words
from headwork.mechanisms.attention import Tensor
from headwork.note import Input, Note, Step, mechanism, silent


@mechanism(
    Input("image", "I", "channel height width", "one channel may be given as a plain matrix"),
    Step("output", "X", r"\text{one row per patch}", "patch feature"),
)
def patches(image: Tensor, *, size: int, note: Note = silent) -> Tensor:
    """Cuts an image into squares that do not overlap, one row per patch.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> patches(HandTensor(np.arange(8.0).reshape(2, 4)), size=2).array.tolist()
    [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]
    """
    image = image if len(image.shape) > 2 else image.unsqueeze(0)
    *batch, channels, height, width = image.shape
    if size < 1 or height % size or width % size:
        raise InputError(
            f"patches: an image of {sizes_in_words((height, width), 'height width')} "
            f"cannot be cut into squares of {size}. Choose a size that divides both."
        )
    rows, columns = height // size, width // size
    grid = image.reshape(*batch, channels, rows, size, columns, size)
    # channel, row, inner row, column, inner column -> row, column, channel, inner row, inner column
    moved = grid.transpose(-5, -4).transpose(-4, -2).transpose(-3, -2)
    return note("output", moved.reshape(*batch, rows * columns, channels * size * size))


@mechanism(
    Input("rows", "X", "patch feature", "one row per patch"),
    Step("output", "I", r"\text{patches put back}", "channel height width"),
)
def patches_inverse(rows: Tensor, *, size: int, columns: int, note: Note = silent) -> Tensor:
    """Puts patches back together; ``columns`` is the number of patches along one row of the image.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> patches_inverse(HandTensor(np.arange(8.0).reshape(2, 4)), size=2, columns=2).array.tolist()
    [[[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]]
    """
    *batch, count, features = rows.shape
    if size < 1 or columns < 1 or count % columns or features % (size * size):
        raise InputError(
            f"patches inverse: {sizes_in_words(rows.shape, 'patch feature')} cannot be laid out with "
            f"{columns} patches of {size} x {size} per row. The features are channels x {size} x {size}."
        )
    channels = features // (size * size)
    grid = rows.reshape(*batch, count // columns, columns, channels, size, size)
    moved = grid.transpose(-3, -2).transpose(-4, -2).transpose(-5, -4)
    return note("output", moved.reshape(*batch, channels, count // columns * size, columns * size))
