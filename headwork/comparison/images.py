"""Images: a model of each family taught on so many of them, how often it is right, and how it takes a shift.

Equivariance error: how far f(shifted x) lies from shifted f(x), root mean square, in units in which two unrelated
outputs have 1. f(x) are the vectors of all places before they are pooled. An image has a blank margin all round and is
shifted down by that margin, a whole number of places for every family; in a circle, so that nothing is lost. A
convolution that is padded in a circle has error 0: the test that the measure works.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from headwork.comparison.families import FAMILIES, ImageSize, image_model
from headwork.comparison.rows import Measurement, Settings
from headwork.comparison.teaching import BATCH, RATE, Batch, accuracy, draws, started, teach
from headwork.comparison.timing import threads
from headwork.data import Images, load_images
from headwork.data.splits import permutation
from headwork.models import ConvolutionalClassifier, Model, RecurrentClassifier, VisionTransformer

DATA = {False: "digits", True: "fashion-mnist"}
COUNTS = {False: (40, 250, 1438), True: (100, 300, 1000, 3000, 10_000)}
SIZES = {
    False: ImageSize(image=12, margin=2, patch=2, wanted=10_000, width=24, depth=2),
    True: ImageSize(image=36, margin=4, patch=4, wanted=50_000, width=48, depth=3),
}
PROBED = 200  # test images on which the error is measured
SHUFFLE = 7  # decides the one fixed order of the pixels


def measurement(
    settings: Settings, family: str, count: int, seed: int, *, shuffle: bool = False
) -> Measurement:
    """A training on so many images; the largest one serves the row of best uses too."""
    full = settings.full
    decided_by = {
        "family": family,
        "data": DATA[full],
        "count": count,
        "seed": seed,
        "steps": settings.steps,
        "batch": BATCH,
        "rate": RATE,
        "shuffle": SHUFFLE if shuffle else None,
        "size": vars(SIZES[full]),
    }
    return Measurement(
        name_of(family, count, seed, shuffle),
        decided_by,
        lambda: classified(family, count, seed, steps=settings.steps, full=full, shuffle=shuffle),
        3 + settings.steps * 0.03 if full else settings.steps * 0.005,
    )


def name_of(family: str, count: int, seed: int, shuffle: bool = False) -> str:
    return f"images {family} {count}{' shuffled' if shuffle else ''} seed {seed}"


@cache
def pictures(full: bool) -> Images:
    """The digits that come with the libraries, or Fashion-MNIST."""
    return load_images(DATA[full], validation=0)


def tensors(
    data: Images, count: int, seed: int, shuffle: bool, margin: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalised training images, the same for every family, and all the test images, with their labels."""
    chosen = data.train.at(permutation(len(data.train), seed)[:count])
    found = []
    for part in (chosen, data.test):
        images, labels = part.tensors()
        images = data.normalise(images)
        if shuffle:
            order = torch.from_numpy(permutation(images[0].numel(), SHUFFLE))
            images = images.flatten(1)[:, order].reshape(images.shape)
        # Grey, the mean of all, so that the margin is what zero padding takes it for.
        found += [torch.nn.functional.pad(images, (margin,) * 4), labels]
    return found[0], found[1], found[2], found[3]


def classified(
    family: str, count: int, seed: int, *, steps: int, full: bool, shuffle: bool = False
) -> dict[str, Any]:
    """A model taught on so many images: right answers on the test images, and its equivariance before and after."""
    images, labels, asked, answers = tensors(pictures(full), count, seed, shuffle, SIZES[full].margin)
    words = (seed, family, f"{DATA[full]} {count} {shuffle}")
    model = started(lambda: image_model(FAMILIES[family], SIZES[full]), *words)
    assert isinstance(model, Model)
    drawn = draws(seed, "images", count)  # the same batches for every family

    def batch(step: int) -> Batch:
        places = torch.randint(0, count, (BATCH,), generator=drawn)
        return (images[places],), labels[places]

    margin = SIZES[full].margin
    before = equivariance_error(features(model), asked[:PROBED], margin)
    teach(model, batch, *words, steps=steps)
    return {
        "accuracy": accuracy(model, asked, answers),
        "tested": len(answers),
        "parameters": model.parameter_count,
        "error before": before,
        "error after": equivariance_error(features(model), asked[:PROBED], margin),
        "shifted": accuracy(model, asked.roll(margin, -2), answers),
    }


def features(model: Model) -> Callable[[Tensor], Tensor]:
    """The vectors of all places before they are pooled: (image, channel, row, column)."""

    def found(images: Tensor) -> Tensor:
        kept: dict[str, Tensor] = {}

        def keep(name: str) -> Any:
            return lambda module, given, output: kept.update({name: output})

        part = _before_pooling(model)
        hook = part.register_forward_hook(keep("vectors"))
        try:
            model(images)
        finally:
            hook.remove()
        return _on_a_grid(model, kept["vectors"])

    return found


def _before_pooling(model: Model) -> torch.nn.Module:
    if isinstance(model, VisionTransformer):
        return model.transformer
    if isinstance(model, RecurrentClassifier):
        return model.recurrent
    assert isinstance(model, ConvolutionalClassifier)
    return model.blocks[-1]


def _on_a_grid(model: Model, vectors: Tensor) -> Tensor:
    if isinstance(model, VisionTransformer):
        side = math.isqrt(vectors.shape[1])
        return vectors.mT.reshape(*vectors.mT.shape[:-1], side, side)
    return vectors.mT.unsqueeze(-1) if vectors.dim() == 3 else vectors


@torch.no_grad()
def equivariance_error(function: Callable[[Tensor], Tensor], images: Tensor, shift: int) -> float:
    """How far the output of shifted images is from the shifted output; 0 moves along, 1 is unrelated.

    >>> images = torch.arange(16.0).reshape(1, 1, 16, 1)
    >>> equivariance_error(lambda x: 3 * x, images, 4)
    0.0
    """
    with threads(1):
        plain = function(images).double()
        moved = function(images.roll(shift, -2)).double()
    rows = shift * plain.shape[-2] // images.shape[-2]
    difference = (moved - plain.roll(rows, -2)).square().sum()
    spread = (plain - plain.mean((0, -2, -1), keepdim=True)).square().sum()
    # Two independent outputs of this spread differ by twice its square.
    return float((difference / (2 * spread)).sqrt()) if spread > 0 else 0.0


def circular(layers: int = 2, width: int = 8) -> dict[str, Any]:
    """The error of an untrained convolution that is padded in a circle: zero but for rounding."""
    drawn = draws("circular")
    kernels = [torch.randn(width, width if k else 1, 3, 3, generator=drawn) / 3 for k in range(layers)]

    def convolved(images: Tensor) -> Tensor:
        for kernel in kernels:
            padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="circular")
            images = torch.nn.functional.conv2d(padded, kernel).relu()
        return images

    return {"error": equivariance_error(convolved, torch.randn(16, 1, 8, 8, generator=drawn), 2)}
