"""One table of small models, so that what must hold of every model is tested of every model.

A test that takes ``case`` runs once for each; ``case.model()`` is in evaluation, the same numbers each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from headwork.models import (
    ConvolutionalClassifier,
    ConvolutionalConfig,
    Decoder,
    Encoder,
    EncoderDecoder,
    EncoderDecoderConfig,
    LanguageModel,
    LanguageModelConfig,
    RecurrentClassifier,
    RecurrentConfig,
    TextClassifier,
    TextClassifierConfig,
    TextEncoder,
    TextEncoderConfig,
    TransformerConfig,
    VisionTransformer,
    VisionTransformerConfig,
)

# Small tensors gain nothing from threads, and lose much where several tests run side by side.
torch.set_num_threads(1)

SMALL: dict[str, Any] = {"width": 16, "hidden": 24, "heads": 2, "depth": 2, "dropout": 0.0}
WORDS, BATCH, TOKENS, CLASSES = 13, 4, 7, 3


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Any], Any]
    config: Any
    inputs: Callable[[], tuple[Tensor, ...]]
    out: tuple[int, ...]

    def __str__(self) -> str:
        return self.name

    def model(self, **changes: Any) -> Any:
        torch.manual_seed(0)
        return self.make(replace(self.config, **changes)).eval()

    def batch(self) -> tuple[Tensor, ...]:
        torch.manual_seed(1)
        return self.inputs()


def words(*shape: int) -> Tensor:
    return torch.randint(WORDS, shape)


def images() -> tuple[Tensor, ...]:
    return (torch.randn(BATCH, 2, 8, 8),)


def sentences() -> tuple[Tensor, ...]:
    mask = torch.arange(TOKENS) < torch.tensor([7, 5, 1, 6])[:, None]
    return words(BATCH, TOKENS), mask.long()


SEEN = {"image": 8, "channels": 2, "classes": CLASSES}
TEXT = {"vocabulary": WORDS, "max_length": 9}
SCORES, STATES = (BATCH, CLASSES), (BATCH, TOKENS, 16)


def vectors() -> tuple[Tensor, ...]:
    return (torch.randn(*STATES),)


def vision(name: str, **changes: Any) -> Case:
    return Case(name, VisionTransformer, VisionTransformerConfig(**SMALL, **SEEN, **changes), images, SCORES)


def text(name: str, **changes: Any) -> Case:
    config = TextClassifierConfig(**SMALL, **TEXT, classes=CLASSES, **changes)
    return Case(name, TextClassifier, config, sentences, SCORES)


def language(name: str, **changes: Any) -> Case:
    config = LanguageModelConfig(**SMALL, **TEXT, **changes)
    return Case(name, LanguageModel, config, lambda: (words(BATCH, TOKENS),), (BATCH, TOKENS, WORDS))


def translation(name: str, **changes: Any) -> Case:
    def pair() -> tuple[Tensor, ...]:
        source, mask = sentences()
        return source, words(BATCH, 5), mask

    return Case(
        name, EncoderDecoder, EncoderDecoderConfig(**SMALL, **TEXT, **changes), pair, (BATCH, 5, WORDS)
    )


def recurrent(name: str, **changes: Any) -> Case:
    return Case(name, RecurrentClassifier, RecurrentConfig(**SEEN, width=12, **changes), images, SCORES)


CASES = [
    Case("encoder", Encoder, TransformerConfig(**SMALL), vectors, STATES),
    Case("encoder, pre", Encoder, TransformerConfig(**SMALL, normalisation="pre"), vectors, STATES),
    Case(
        "decoder",
        Decoder,
        TransformerConfig(**SMALL),
        lambda: (torch.randn(*STATES), torch.randn(4, 3, 16)),
        STATES,
    ),
    translation("encoder-decoder"),
    translation("encoder-decoder, pre", normalisation="pre"),
    translation("encoder-decoder, linear", attention="linear"),
    language("language model"),
    language("language model, sinusoidal", positions="sinusoidal", normalisation="post"),
    language("language model, linear", attention="linear"),
    vision("vision"),
    vision("vision, mean", pooling="mean", positions="sinusoidal"),
    vision("vision, linear", attention="linear"),
    Case(
        "convolutional",
        ConvolutionalClassifier,
        ConvolutionalConfig(**SEEN, width=6, depth=2),
        images,
        SCORES,
    ),
    recurrent("recurrent, plain", cell="plain"),
    recurrent("recurrent, lstm", cell="lstm"),
    recurrent("recurrent, gru both ways", cell="gru", bidirectional=True),
    Case(
        "text encoder",
        TextEncoder,
        TextEncoderConfig(**SMALL, **TEXT, normalisation="post", embedding_normalisation=True, token_types=2),
        sentences,
        STATES,
    ),
    text("text, transformer"),
    text("text, linear, first", attention="linear", pooling="first"),
    text("text, plain", encoder="plain"),
    text("text, lstm both ways", encoder="lstm", bidirectional=True),
    text("text, gru", encoder="gru"),
    text("text, convolution", encoder="convolution"),
    text("text, n-grams", ngrams=40),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, chosen in (("case", CASES), ("causal_case", [c for c in CASES if hasattr(c.make, "generate")])):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=str)


@pytest.fixture
def cases() -> dict[str, Case]:
    return {c.name: c for c in CASES}
