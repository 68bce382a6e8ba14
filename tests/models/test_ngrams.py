"""N-grams beside the encoder, and words left out in training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from headwork.mechanisms.kernels import PLAIN
from headwork.mechanisms.texts import keep_positions, ngram_logits, text_encoder
from headwork.models import TextClassifier, TextClassifierConfig
from headwork.models.text import hashed_ngram_rows, random_positions
from headwork.readings import recorder

SMALL: dict[str, Any] = {"width": 8, "hidden": 8, "heads": 2, "depth": 1, "vocabulary": 50, "max_length": 20}


def classifier(**changes: Any) -> TextClassifier:
    torch.manual_seed(0)
    model = TextClassifier(TextClassifierConfig(**{**SMALL, "ngrams": 500, **changes})).eval()
    if model.ngrams is not None:
        torch.nn.init.normal_(model.ngrams.table, std=1e-2)
    return model


def test_the_row_of_a_pair_knows_its_order_and_that_of_a_word_not_its_position() -> None:
    rows = hashed_ngram_rows(torch.tensor([[3, 4, 3, 4, 4, 3]]), None, classifier().config)
    word, pair, triple = rows.unbind(-1)
    assert word[0, 0] == word[0, 2] == word[0, 5]
    assert pair[0, 1] == pair[0, 3], "3 4 twice"
    assert pair[0, 2] == pair[0, 5], "4 3 twice"
    assert len({int(pair[0, 1]), int(pair[0, 2]), int(pair[0, 4])}) == 3
    assert len({int(row) for row in triple[0]}) == 6, "no triple twice"


def test_an_ngram_counts_once_in_a_text() -> None:
    model = classifier()
    ngrams = model.ngrams
    torch.nn.init.normal_(ngrams.ratios)
    tokens, mask = torch.tensor([[0, 7, 7, 7, 7]]), torch.tensor([[0, 1, 1, 1, 1]])
    by_token, length = ngram_logits(ngrams.tree(), *model.ngrams_of(tokens, mask))  # type: ignore[misc]
    # 7; 7 7 and 0 0 7, 0 7, 0 7 7, 7 7 7: the fourth 7 brings nothing new.
    assert by_token[0, :2].abs().sum() > 0
    assert by_token[0, 4].tolist() == [0, 0]
    rows = hashed_ngram_rows(tokens, mask, model.config)[mask != 0].unique()
    torch.testing.assert_close(length[0], ngrams.ratios[rows].norm(dim=0) + 1e-6)
    expected = (ngrams.table[rows] * ngrams.ratios[rows]).sum(0)
    torch.testing.assert_close(by_token.sum(1)[0], expected)


def test_pairs_are_spread_over_the_rows() -> None:
    config = TextClassifierConfig(**{**SMALL, "vocabulary": 30_000, "ngrams": 4096})
    tokens = torch.randint(30_000, (1, 4096), generator=torch.Generator().manual_seed(0)).unique()[None]
    for rows in hashed_ngram_rows(tokens, None, config).unbind(-1):
        filled = Counter(rows.flatten().tolist())
        assert len(filled) / rows.numel() > 0.6, "by chance, 63% or more"
        assert max(filled.values()) < 12


@pytest.mark.parametrize("padding", [0, 9])
def test_padding_counts_for_nothing_on_either_side(padding: int) -> None:
    model = classifier(positions="sinusoidal", encoder="convolution")
    tokens = torch.tensor([[1, 5, 6, 7]])
    behind = torch.cat([tokens, torch.full((1, 3), padding)], 1)
    ahead = torch.cat([torch.full((1, 3), padding), tokens], 1)
    mask = torch.tensor([[1] * 4 + [0] * 3])
    torch.testing.assert_close(model(behind, mask), model(tokens, torch.ones_like(tokens)))
    after = hashed_ngram_rows(ahead, mask.flip(1), model.config)[:, 3:]
    assert torch.equal(hashed_ngram_rows(tokens, None, model.config), after)
    both = (model.ngrams_of(tokens), model.ngrams_of(ahead, mask.flip(1)))
    logits = [ngram_logits(model.ngrams.tree(), *given) for given in both]  # type: ignore[misc]
    for alone, padded in zip(*logits, strict=True):
        torch.testing.assert_close(alone.flatten(1).sum(1), padded.flatten(1).sum(1))


def test_without_ratios_or_table_only_the_encoder_counts() -> None:
    model, tokens = classifier(), torch.randint(50, (3, 6))
    assert model.ngrams is not None
    logits = model(tokens)
    torch.nn.init.zeros_(model.ngrams.table)
    assert not torch.equal(model(tokens), logits)
    assert torch.equal(model(tokens), classifier(ngrams=0)(tokens))


def test_random_positions_are_ordered_real_and_begin_with_the_first() -> None:
    torch.manual_seed(0)
    mask = torch.arange(20) < torch.tensor([20, 12, 3])[:, None]
    positions = random_positions(mask, mask, 0.5)
    assert positions.shape == (3, 10)
    assert (positions[:, 0] == 0).all()
    assert (positions.diff(dim=1) > 0).all()
    assert keep_positions(mask, positions).sum(1).tolist() == [10, 10, 3]
    counts = sum(
        torch.zeros(20).index_add(0, random_positions(mask[:1], mask[:1], 0.5)[0], torch.ones(10))
        for _ in range(400)
    )
    assert (counts[1:] > 120).all(), "every position has its chance"  # type: ignore[index]


@pytest.mark.parametrize("encoder", ["transformer", "gru"])
def test_words_are_left_out_in_training_only(encoder: Any) -> None:
    model, tokens = classifier(encoder=encoder, word_dropout=0.5, dropout=0.0), torch.randint(50, (4, 12))
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))
    kept: dict[str, torch.Tensor] = {}
    model(tokens, note=recorder(kept))
    outputs = [value for path, value in kept.items() if path.endswith(("block 0/output", "forwards/output"))]
    assert [value.shape[1] for value in outputs] == [6]
    torch.manual_seed(3)
    first = model(tokens)
    torch.manual_seed(3)
    assert torch.equal(first, model(tokens))


def test_remaining_tokens_have_their_own_positions() -> None:
    model, tokens = classifier(dropout=0.0), torch.randint(50, (1, 6))
    vectors: list[torch.Tensor] = []

    def collect(name: str, value: Any, /) -> Any:
        if name == "block 0/normalisation 1/centred":
            vectors.append(value)
        return value

    for kept in (None, torch.tensor([[0, 3, 5]])):
        text_encoder(
            model.encoder.tree(), model.config, tokens, kept_positions=kept, kernels=PLAIN.with_note(collect)
        )
    assert torch.equal(vectors[1], vectors[0][:, [0, 3, 5]])
