"""One small model of each kind with an input, for tests that hold for every model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headwork import models

torch.set_num_threads(1)

STACK: dict[str, Any] = {"width": 16, "hidden": 24, "heads": 2, "depth": 2}
TEXT: dict[str, Any] = {**STACK, "vocabulary": 13, "max_length": 9}
SEEN: dict[str, Any] = {"image": 8, "channels": 2, "classes": 3}


def words(*shape: int) -> torch.Tensor:
    return torch.randint(13, shape)


def cases() -> dict[str, tuple[Any, dict[str, torch.Tensor]]]:
    torch.manual_seed(0)
    vectors, images = {"tokens": torch.randn(2, 7, 16)}, {"images": torch.randn(2, 2, 8, 8)}
    sentences = {"tokens": words(2, 7), "mask": torch.tensor([[1] * 7, [1] * 4 + [0] * 3])}
    found = {
        "encoder": (models.Encoder(models.TransformerConfig(**STACK)), vectors),
        "encoder, pre, linear": (
            models.Encoder(models.TransformerConfig(**STACK, attention="linear", normalisation="pre")),
            vectors,
        ),
        "decoder": (
            models.Decoder(models.TransformerConfig(**STACK)),
            {**vectors, "memory": torch.randn(2, 5, 16)},
        ),
        "encoder-decoder": (
            models.EncoderDecoder(models.EncoderDecoderConfig(**TEXT)),
            {"source": words(2, 7), "target": words(2, 5), "mask": sentences["mask"]},
        ),
        "language": (models.LanguageModel(models.LanguageModelConfig(**TEXT)), {"tokens": words(2, 7)}),
        "vision": (models.VisionTransformer(models.VisionTransformerConfig(**STACK, **SEEN)), images),
        "vision, mean": (
            models.VisionTransformer(
                models.VisionTransformerConfig(**STACK, **SEEN, pooling="mean", positions="sinusoidal")
            ),
            images,
        ),
        "convolutional": (
            models.ConvolutionalClassifier(models.ConvolutionalConfig(**SEEN, width=4, depth=2)),
            images,
        ),
        "text encoder": (
            models.TextEncoder(models.TextEncoderConfig(**TEXT, embedding_normalisation=True, token_types=2)),
            sentences,
        ),
    }
    for cell in ("plain", "lstm", "gru"):
        config = models.RecurrentConfig(**SEEN, width=5, cell=cell, bidirectional=True)  # type: ignore[arg-type]
        found[f"recurrent, {cell}"] = models.RecurrentClassifier(config), images
    for encoder in ("transformer", "plain", "lstm", "gru", "convolution"):
        text = models.TextClassifierConfig(**TEXT, encoder=encoder)  # type: ignore[arg-type]
        found[f"text, {encoder}"] = models.TextClassifier(text), sentences
    return found


CASES = cases()


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Any, dict[str, torch.Tensor]]:
    return CASES[request.param]
