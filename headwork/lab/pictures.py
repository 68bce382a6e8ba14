"""Pictures for a model, from what a page sends: bytes of grey or colour, never a file to be decoded."""

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge

Array = NDArray[Any]
MAX_SIDE = 224  # of a picture that the page sends
# How the shapes in the training images fill their square: digits are as high as it, and at most this wide.
MAX_ASPECT = {"digits": 0.8, "fashion-mnist": 1.0}
DRAWING_SCALE = {"digits": 8, "fashion-mnist": 4}  # of drawings, how many dots make up one of the model's
INK_THRESHOLD = 0.25  # of the brightest, for a dot to belong to the shape
MIN_SHAPE_HEIGHT = 1 / 3  # of the side: a smaller shape is not made larger than if it were so high


def decode_base64(text: str, name: str, max_bytes: int) -> bytes:
    """The bytes that base64 stands for."""
    if not isinstance(text, str) or len(text) > max_bytes * 4 // 3 + 4:
        raise TooLarge(f"{name}: more than {max_bytes:,} bytes.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{name}: not readable (it is not valid base64).") from None


def overlap_shares(start: float, length: float, count: int, dots: int) -> Array:
    """For ``count`` equal parts of a stretch, the share of each that lies on each of ``dots`` dots.

    >>> overlap_shares(0, 4, 2, 4).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    ends = start + length / count * np.arange(count + 1)
    at = np.arange(dots)
    common = np.minimum(ends[1:, None], at + 1) - np.maximum(ends[:-1, None], at)
    return np.asarray(common.clip(0) * count / length)


def fit_drawing(dots: Array, size: int, max_aspect: float | None) -> tuple[Array, list[str]]:
    """A drawing (channel, height, width) as an image of that size, and what was done to it.

    With ``max_aspect``, its shape becomes light on dark, and is centred and scaled: to the height of the
    image, and if it is then wider than this share of it, narrower; with 1, as it is.
    """
    side, image = dots.shape[-1], dots.astype(np.float64)
    remarks: list[str] = []
    if max_aspect is None:
        rows = overlap_shares(0, side, size, side)
        return (rows @ image @ rows.T).round().astype(np.uint8), remarks
    edge = np.concatenate([image[:, [0, -1]].ravel(), image[:, :, [0, -1]].ravel()])
    if edge.mean() > 127:
        image, remarks = 255 - image, ["Light and dark are exchanged: the model knows light shapes on black."]
    shape = image.max(0) > max(INK_THRESHOLD * image.max(), 16)
    if not shape.any():
        remarks = ["Nothing is drawn yet: this is an empty picture."]
        return np.zeros((len(dots), size, size), np.uint8), remarks
    across, down = np.flatnonzero(shape.any(0)), np.flatnonzero(shape.any(1))
    height, width = float(np.ptp(down)) + 1, float(np.ptp(across)) + 1
    tall = max(height, width if max_aspect == 1 else width / 2, side * MIN_SHAPE_HEIGHT)
    wide = max(tall, width / max_aspect)
    top, left = down[0] + (height - tall) / 2, across[0] + (width - wide) / 2
    rows, columns = overlap_shares(top, tall, size, side), overlap_shares(left, wide, size, side)
    remarks.append("Scaled and centred, as the images were that the model was trained on.")
    return (rows @ image @ columns.T).round().clip(0, 255).astype(np.uint8), remarks


def read_picture(text: str, channels: int, size: int, max_aspect: float | None) -> tuple[Array, list[str]]:
    """The image (channel, height, width) that base64 stands for, or a finer drawing of it, fitted."""
    data = decode_base64(text, "the picture", 3 * MAX_SIDE**2)
    side = math.isqrt(len(data) // channels)
    if not data or channels * side**2 != len(data) or side < size:
        raise InputError(
            f"A picture of {len(data):,} bytes. Expected {channels} x {size} x {size}, or a larger square."
        )
    pixels = np.frombuffer(data, np.uint8).reshape(channels, side, side)
    return fit_drawing(pixels, size, max_aspect) if side > size else (pixels, [])
