"""What holds of the transformers alone: size, masking, decoding, and that they are the mechanisms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headwork.errors import InputError
from headwork.mechanisms import decoder_layer, encoder_layer
from headwork.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    EncoderDecoderConfig,
    LanguageModel,
    LanguageModelConfig,
    TextClassifier,
    TextEncoder,
    TextEncoderConfig,
    TransformerConfig,
    VisionTransformer,
    VisionTransformerConfig,
)
from headwork.models.transformer import next_tokens

SMALL: dict[str, Any] = {"width": 16, "hidden": 24, "heads": 2, "depth": 2}


def randomised(module: Any) -> Any:
    """Random biases and scales too, so that none is missed."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.eval()


# --- size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", [1, 1000, 37000])
def test_the_base_model_has_the_published_size(vocabulary: int) -> None:
    with torch.device("meta"):
        model = EncoderDecoder(EncoderDecoderConfig(vocabulary=vocabulary))
    assert model.parameter_count == 44_138_496 + 512 * vocabulary


def test_before_each_part_means_two_normalisations_more() -> None:
    with torch.device("meta"):
        model = EncoderDecoder(EncoderDecoderConfig(vocabulary=1, normalisation="pre"))
    assert model.parameter_count == 44_138_496 + 512 + 2 * 2 * 512


def test_final_normalisation_can_be_asked_for() -> None:
    assert Encoder(TransformerConfig(**SMALL)).normalisation is None
    assert Encoder(TransformerConfig(**SMALL, final_normalisation=True)).normalisation is not None
    assert (
        Encoder(TransformerConfig(**SMALL, normalisation="pre", final_normalisation=False)).normalisation
        is None
    )


# --- a block is a mechanism ---------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_blocks_are_the_mechanisms(placement: Any) -> None:
    config = TransformerConfig(
        **{**SMALL, "depth": 1}, normalisation=placement, activation="gelu", final_normalisation=False
    )
    options: dict[str, Any] = {"heads": 2, "normalisation": placement, "activation": "gelu", "epsilon": 1e-5}
    tokens, memory = torch.randn(3, 5, 16), torch.randn(3, 4, 16)
    model: Any = randomised(Encoder(config))
    expected = encoder_layer(tokens, model.tree().blocks[0], **options)
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=0)
    model = randomised(Decoder(config))
    expected = decoder_layer(tokens, memory, model.tree().blocks[0], **options)
    torch.testing.assert_close(model(tokens, memory), expected, rtol=0, atol=0)


# --- causality and padding ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_no_output_changes_before_the_token_that_changed(causal_case: Any, backend: str) -> None:
    model, (tokens,) = causal_case.model(backend=backend), causal_case.batch()
    before = model(tokens)
    for t in range(tokens.shape[1]):
        other = tokens.clone()
        other[:, t] = (other[:, t] + 1) % model.config.vocabulary
        after = model(other)
        torch.testing.assert_close(after[:, :t], before[:, :t], rtol=0, atol=1e-6)
        assert (after[:, t:] - before[:, t:]).abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("backend", ["plain", "fused"])
@pytest.mark.parametrize("name", ["encoder-decoder", "encoder-decoder, pre", "encoder-decoder, linear"])
def test_a_decoder_sees_no_later_target(cases: dict[str, Any], name: str, backend: str) -> None:
    model, (source, target, mask) = cases[name].model(backend=backend), cases[name].batch()
    before = model(source, target, mask)
    for t in range(target.shape[1]):
        other = target.clone()
        other[:, t] = (other[:, t] + 1) % model.config.vocabulary
        after = model(source, other, mask)
        torch.testing.assert_close(after[:, :t], before[:, :t], rtol=0, atol=1e-6)
        assert (after[:, t:] - before[:, t:]).abs().amax(-1).min() > 1e-6


PADDED = [
    "text encoder",
    "text, transformer",
    "text, linear, first",
    "text, plain",
    "text, lstm both ways",
    "text, gru",
    "text, convolution",
]


@pytest.mark.parametrize("backend", ["plain", "fused"])
@pytest.mark.parametrize("name", PADDED)
def test_padding_changes_nothing(cases: dict[str, Any], name: str, backend: str) -> None:
    model, (tokens, mask) = cases[name].model(backend=backend), cases[name].batch()
    together = model(tokens, mask)
    for i, length in enumerate(mask.sum(-1).tolist()):
        alone = model(tokens[i : i + 1, :length])[0]
        padded = together[i, :length] if together.dim() == 3 else together[i]
        torch.testing.assert_close(padded, alone, rtol=1e-5, atol=1e-6)
    # And what stands in the padding does not matter either.
    other = torch.where(mask == 0, (tokens + 1) % model.config.vocabulary, tokens)
    changed = model(other, mask)
    real = mask != 0 if together.dim() == 3 else slice(None)
    torch.testing.assert_close(changed[real], together[real], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["plain", "fused"])
@pytest.mark.parametrize("name", ["encoder-decoder", "encoder-decoder, linear"])
def test_padding_of_the_source_and_after_the_target_changes_nothing(
    cases: dict[str, Any], name: str, backend: str
) -> None:
    model, (source, target, mask) = cases[name].model(backend=backend), cases[name].batch()
    together = model(source, target, mask)
    for i, length in enumerate(mask.sum(-1).tolist()):
        alone = model(source[i : i + 1, :length], target[i : i + 1, :3])[0]
        torch.testing.assert_close(together[i, :3], alone, rtol=1e-5, atol=1e-5)


# --- decoding -----------------------------------------------------------------------------------------


def test_a_cache_gives_the_same_tokens(causal_case: Any) -> None:
    for backend in ("plain", "fused"):
        model = causal_case.model(backend=backend, max_length=40)
        (tokens,) = causal_case.batch()
        greedy = model.generate(tokens, 30)
        assert torch.equal(greedy[:, :7], tokens)
        assert torch.equal(greedy, model.generate(tokens, 30, cached=False))
        drawn = [
            model.generate(
                tokens, 30, temperature=1.5, cached=cached, generator=torch.Generator().manual_seed(3)
            )
            for cached in (True, False)
        ]
        assert torch.equal(drawn[0], drawn[1])
        assert not torch.equal(drawn[0], greedy)


def test_a_cache_gives_the_same_scores_in_pieces_of_any_size(causal_case: Any) -> None:
    model, (tokens,) = causal_case.model(), causal_case.batch()
    caches: list[dict[str, Tensor]] = [{} for _ in range(model.config.depth)]
    pieces = [model(piece, caches=caches) for piece in tokens.split([3, 1, 2, 1], 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), model(tokens), rtol=1e-5, atol=1e-5)


def test_greedy_takes_the_likeliest_and_temperature_draws() -> None:
    scores = torch.tensor([[0.0, 2.0, 1.0]])
    assert next_tokens(scores, 0.0, None).tolist() == [[1]]
    many = next_tokens(scores.expand(20000, 3), 2.0, torch.Generator().manual_seed(0))
    shares = torch.bincount(many.flatten(), minlength=3) / 20000
    torch.testing.assert_close(shares, (scores[0] / 2).softmax(-1), rtol=0, atol=0.02)


def test_generating_leaves_the_model_as_it_was() -> None:
    model = LanguageModel(LanguageModelConfig(**SMALL, vocabulary=11)).train()
    model.generate(torch.tensor([[1, 2]]), 2)
    assert model.training
    with pytest.raises(InputError, match="2 tokens and 255 more"):
        model.generate(torch.tensor([[1, 2]]), 255)
    with pytest.raises(InputError, match="Neither may be negative"):
        model.generate(torch.tensor([[1, 2]]), 2, temperature=-1.0)


# --- classifiers on a given encoder -------------------------------------------------------------------


def test_a_classifier_on_a_given_encoder_shares_it() -> None:
    encoder = TextEncoder(
        TextEncoderConfig(**SMALL, vocabulary=11, token_types=2, embedding_normalisation=True)
    )
    model = TextClassifier.on(encoder, classes=3, pooling="first")
    assert model.encoder is encoder
    assert model(torch.tensor([[1, 2, 3]])).shape == (1, 3)
    assert (model.config.token_types, model.config.classes, model.config.pooling) == (2, 3, "first")
    rebuilt = TextClassifier(model.config)
    assert [n for n, _ in rebuilt.named_parameters()] == [n for n, _ in model.named_parameters()]
    with pytest.raises(InputError, match="expected a TextEncoder"):
        TextClassifier.on(nn.Linear(2, 2), classes=3)  # type: ignore[arg-type]


def test_token_types_are_zero_unless_given() -> None:
    model = TextEncoder(TextEncoderConfig(**SMALL, vocabulary=11, token_types=2)).eval()
    tokens = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(model(tokens), model(tokens, types=torch.zeros_like(tokens)))
    assert not torch.allclose(model(tokens), model(tokens, types=torch.ones_like(tokens)))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_first_tokens_alone_are_the_first_of_all(placement: Any) -> None:
    encoder = Encoder(TransformerConfig(**SMALL, normalisation=placement, backend="fused")).double().eval()
    given, results = torch.randn(2, 5, SMALL["width"], dtype=torch.float64), []
    for first in (None, 2):
        tokens = given.clone().requires_grad_()
        out = encoder(tokens, output_tokens=first)[:, :2]
        results.append((out, torch.autograd.grad((out**2).sum(), [tokens, *encoder.parameters()])))
    (all_of, grads), (some, their_grads) = results
    assert encoder(tokens, output_tokens=2).shape[1] == 2
    torch.testing.assert_close(some, all_of, rtol=0, atol=1e-12)
    for a, b in zip(grads, their_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


# --- the hand-out's vision transformer ------------------------------------------------------------------


def test_the_vision_transformer_of_the_hand_out() -> None:
    config = VisionTransformerConfig()
    assert (config.image_size, config.patch_size, config.depth, config.heads, config.patches) == (
        28,
        4,
        6,
        4,
        49,
    )
    model = VisionTransformer(config)
    assert model.parameter_count == 205_962
    assert VisionTransformer(VisionTransformerConfig(pooling="mean")).parameter_count == 205_962 - 2 * 64


def test_places_of_patches_matter_but_not_without_positions() -> None:
    model = VisionTransformer(VisionTransformerConfig(**{**SMALL, "image": 8}, positions="sinusoidal")).eval()
    image = torch.randn(1, 1, 8, 8)
    turned = image.flip(-1)  # mirrors the patches and what is in them
    patches_only = torch.cat([image[..., 4:], image[..., :4]], -1)
    assert not torch.allclose(model(image), model(patches_only))
    model.positions.table.zero_()
    torch.testing.assert_close(model(image), model(patches_only), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(model(image), model(turned))
