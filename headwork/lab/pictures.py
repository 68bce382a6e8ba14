"""Pictures for a model, from what a page sends: bytes of grey or colour, never a file to be decoded."""

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge

Array = NDArray[Any]
MAX_SIDE = 224  # of a picture that the page sends
# How the shapes in the training images fill their square: digits are as high as it, and at most this wide.
WIDEST = {"digits": 0.8, "fashion-mnist": 1.0}
FINER = {"digits": 8, "fashion-mnist": 4}  # of drawings, how many dots make up one of the model's
INK = 0.25  # of the brightest, for a dot to belong to the shape
LEAST = 1 / 3  # of the side: a smaller shape is not made larger than if it were so high


def decoded(text: str, name: str, most: int) -> bytes:
    """The bytes that base64 stands for."""
    if not isinstance(text, str) or len(text) > most * 4 // 3 + 4:
        raise TooLarge(f"{name}: more than {most:,} bytes.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{name}: not readable (it is no base64).") from None


def overlaps(start: float, length: float, count: int, dots: int) -> Array:
    """For ``count`` equal parts of a stretch, the share of each that lies on each of ``dots`` dots.

    >>> overlaps(0, 4, 2, 4).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    ends = start + length / count * np.arange(count + 1)
    at = np.arange(dots)
    common = np.minimum(ends[1:, None], at + 1) - np.maximum(ends[:-1, None], at)
    return np.asarray(common.clip(0) * count / length)


def prepared(dots: Array, size: int, widest: float | None) -> tuple[Array, list[str]]:
    """A drawing (channel, height, width) as an image of that size, and what was done to it.

    With ``widest``, its shape becomes light on dark, and is centred and scaled: to the height of the image,
    and if it is then wider than this share of it, narrower; with 1, as it is.
    """
    side, image = dots.shape[-1], dots.astype(np.float64)
    remarks: list[str] = []
    if widest is None:
        rows = overlaps(0, side, size, side)
        return (rows @ image @ rows.T).round().astype(np.uint8), remarks
    edge = np.concatenate([image[:, [0, -1]].ravel(), image[:, :, [0, -1]].ravel()])
    if edge.mean() > 127:
        image, remarks = 255 - image, ["Light and dark are exchanged: the model knows light shapes on black."]
    shape = image.max(0) > max(INK * image.max(), 16)
    if not shape.any():
        return np.zeros((len(dots), size, size), np.uint8), [
            "Nothing is drawn yet: this is an empty picture."
        ]
    across, down = np.flatnonzero(shape.any(0)), np.flatnonzero(shape.any(1))
    height, width = float(np.ptp(down)) + 1, float(np.ptp(across)) + 1
    tall = max(height, width if widest == 1 else width / 2, side * LEAST)
    wide = max(tall, width / widest)
    top, left = down[0] + (height - tall) / 2, across[0] + (width - wide) / 2
    rows, columns = overlaps(top, tall, size, side), overlaps(left, wide, size, side)
    remarks.append("Scaled and centred, as the images were that the model was trained on.")
    return (rows @ image @ columns.T).round().clip(0, 255).astype(np.uint8), remarks
