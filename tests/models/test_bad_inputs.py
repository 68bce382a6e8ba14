"""What cannot be used is refused with words: where, what came, what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from headwork.errors import InputError
from headwork.models import (
    ConvolutionalConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    RecurrentConfig,
    TextClassifierConfig,
    TransformerConfig,
    VisionTransformerConfig,
)

CONFIGS: list[tuple[Callable[[], Any], str]] = [
    (lambda: TransformerConfig(width=10, heads=4), r"width 10 cannot be cut into 4 heads.*divides 10"),
    (
        lambda: VisionTransformerConfig(heads=3),
        r"VisionTransformerConfig: width 64 cannot be cut into 3 heads",
    ),
    (lambda: VisionTransformerConfig(patch=5), r"side 28 cannot be cut into patches of side 5"),
    (
        lambda: VisionTransformerConfig(pooling="clas token"),
        r"pooling 'clas token'. Did you mean 'class token'\?",
    ),  # type: ignore[arg-type]
    (lambda: VisionTransformerConfig(backend="fast"), r"backend 'fast'.*Known: plain, fused"),  # type: ignore[arg-type]
    (lambda: VisionTransformerConfig(positions="rotary"), r"Known: learned, sinusoidal"),  # type: ignore[arg-type]
    (lambda: TransformerConfig(attention="quadratic"), r"attention 'quadratic'"),  # type: ignore[arg-type]
    (lambda: TransformerConfig(normalisation="both"), r"normalisation 'both'"),  # type: ignore[arg-type]
    (lambda: TransformerConfig(activation="swish"), r"activation 'swish'"),  # type: ignore[arg-type]
    (lambda: TransformerConfig(depth=0), r"depth is 0. Give a whole number, at least 1"),
    (lambda: TransformerConfig(width=6.5, heads=1), r"width is 6.5"),  # type: ignore[arg-type]
    (lambda: TransformerConfig(heads=True), r"heads is True"),
    (lambda: TransformerConfig(dropout=1.0), r"dropout is 1.0"),
    (lambda: TransformerConfig(dropout="much"), r"dropout is 'much'"),  # type: ignore[arg-type]
    (lambda: LanguageModelConfig(vocabulary=-1), r"vocabulary is -1"),
    (lambda: EncoderDecoderConfig(max_length=0), r"max_length is 0"),
    (lambda: TextClassifierConfig(encoder="bert"), r"encoder 'bert'"),  # type: ignore[arg-type]
    (lambda: TextClassifierConfig(token_types=-1), r"token_types is -1. Give a whole number, at least 0"),
    (lambda: RecurrentConfig(cell="rnn"), r"cell 'rnn'.*Known: plain, lstm, gru"),  # type: ignore[arg-type]
    (lambda: ConvolutionalConfig(image=4, depth=3), r"3 layers halve an image of side 4 to nothing"),
]


@pytest.mark.parametrize(("make", "told"), CONFIGS, ids=[told for _, told in CONFIGS])
def test_a_bad_config_is_refused(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        make()


def test_a_config_cannot_be_changed_or_given_in_order() -> None:
    with pytest.raises(AttributeError):
        TransformerConfig().width = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        TransformerConfig(512)  # type: ignore[misc]


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_bad_batches_are_refused(case: Any, backend: str) -> None:
    model, batch = case.model(backend=backend), case.batch()
    empty = tuple(t[:0] for t in batch)
    with pytest.raises(InputError, match="empty"):
        model(*empty)
    first, *rest = batch
    if first.dim() == 4:
        with pytest.raises(InputError, match=r"images are 4 x 2 x 9 x 8 .*Expected batch x 2 x 8 x 8"):
            model(torch.zeros(4, 2, 9, 8))
        with pytest.raises(InputError, match="images are 4 x 1 x 8 x 8"):
            model(torch.zeros(4, 1, 8, 8))
        with pytest.raises(InputError, match="images are 2 x 8 x 8"):
            model(torch.zeros(2, 8, 8))
    elif first.dim() == 2:
        beyond = first.clone()
        beyond[0, 0] = 13
        with pytest.raises(InputError, match="token 13 is beyond the vocabulary of 13"):
            model(beyond, *rest)
        with pytest.raises(InputError, match="token -1 is beyond"):
            model(-torch.ones_like(first), *rest)
        with pytest.raises(InputError, match="Give whole numbers"):
            model(first.float(), *rest)
        with pytest.raises(InputError, match="one row per sequence"):
            model(first[0], *rest)
    else:
        with pytest.raises(InputError, match="Expected batch x token x 16"):
            model(torch.zeros(1, 2, 15), *rest)


@pytest.mark.parametrize(
    "name", ["language model", "language model, sinusoidal", "text, transformer", "encoder-decoder"]
)
def test_a_sequence_longer_than_the_positions(cases: dict[str, Any], name: str) -> None:
    model = cases[name].model()
    tokens = torch.zeros(1, 10, dtype=torch.long)
    with pytest.raises(
        InputError, match=r"a sequence of 10 tokens, but there are positions for 9.*'max_length'"
    ):
        model(*([tokens, tokens] if name == "encoder-decoder" else [tokens]))
    if name.startswith("language"):
        caches: list[Any] = [{}, {}]
        model(tokens[:, :9], caches=caches)
        with pytest.raises(InputError, match="a sequence of 10 tokens"):
            model(tokens[:, :1], caches=caches)


@pytest.mark.parametrize("name", ["text, transformer", "text, gru", "encoder-decoder"])
def test_bad_masks_are_refused(cases: dict[str, Any], name: str) -> None:
    model, batch = cases[name].model(), cases[name].batch()
    tokens, mask = batch[:-1], batch[-1]
    with pytest.raises(InputError, match=r"the mask is 4 x 6 \(batch, token\), the tokens are 4 x 7"):
        model(*tokens, mask[:, :6])
    with pytest.raises(InputError, match="hides every token"):
        model(*tokens, torch.zeros_like(mask))
    if name == "text, gru":
        with pytest.raises(InputError, match="put the padding after the tokens"):
            model(*tokens, mask.flip(-1))
