"""The numbers of the course problems, and others worked out beside them."""

from __future__ import annotations

import pytest

import headwork.mechanisms  # noqa: F401
from headwork import sizes
from headwork.note import MECHANISMS


def test_a1_patches():
    ledger = sizes.patches(224, 16)
    assert (ledger["side"], ledger["patches"], ledger["tokens"]) == (14, 196, 197)
    assert ledger["rows"] == (196, 768)
    other = sizes.patches((32, 48), 8, channels=1, class_token=False)
    assert (other["down"], other["across"], other["patches"], other["tokens"]) == (4, 6, 24, 24)


def test_c2_shapes_through_multi_head_attention():
    ledger = sizes.attention_ledger(tokens=5, width=768, heads=12, batch=1)
    assert ledger["tokens"] == (1, 5, 768)
    assert ledger["queries"] == ledger["keys"] == ledger["values"] == (1, 5, 12, 64)
    assert ledger["attention matrices"] == (1, 12, 5, 5)
    assert ledger["per-head outputs"] == (1, 5, 12, 64)
    assert ledger["joined"] == ledger["output"] == (1, 5, 768)


def test_c3_both_conventions():
    columns = sizes.attention_ledger(tokens=6, width=768, tokens_as="columns")
    assert columns["tokens"] == columns["query"] == columns["key"] == columns["value"] == (768, 6)
    assert columns["W_q"] == (768, 768)
    assert columns["scores"] == (6, 6)
    assert columns["output"] == (768, 6)
    assert columns.row("scores").formula == r"\beta\, K^\top Q"
    assert columns.row("output").formula == "V A"
    assert columns.row("query").formula == "W_q X"
    assert "Q K^T would be [768, 768]" in columns.warnings[0]
    rows = sizes.attention_ledger(tokens=6, width=768)
    assert rows["query"] == rows["output"] == (6, 768)
    assert rows.row("query").formula == r"X W_q^\top"
    assert not rows.warnings
    assert rows.total.flops == columns.total.flops


def test_tokens_as_columns_of_another_memory_keep_the_right_axes():
    ledger = sizes.attention_ledger(tokens=6, memory=7, width=12, heads=3, tokens_as="columns")
    assert ledger["key"] == (3, 4, 7)
    assert ledger["scores"] == ledger["weights"] == (3, 7, 6)
    assert ledger.row("scores").axes == "head key query"
    assert ledger["per head"] == (3, 4, 6)


@pytest.mark.parametrize("vocabulary", [1, 37_000, 50_257])
def test_c4_the_base_transformer(vocabulary):
    ledger = sizes.transformer(vocabulary=vocabulary)
    assert ledger["parameters"] == 44_138_496 + 512 * vocabulary
    assert ledger["parameters without the vocabulary"] == 44_138_496
    assert ledger["parameters"] - ledger["parameters without biases"] == ledger.total.biases


def test_c4_for_the_papers_vocabulary():
    assert sizes.transformer().total.parameters == 63_082_496


def test_a_layer_of_the_transformer_is_the_encoder_layer():
    model = {"token": 9, "width": 24, "key_width": 24, "value_width": 24, "joined_width": 24, "hidden": 40}
    layer = sizes.sum_rows("layer", sizes.count_rows("encoder-layer", model, heads=3))
    rows = sizes.transformer(width=24, depth=1, heads=3, hidden=40, vocabulary=0, tokens=9).rows
    stack = sizes.sum_rows("stack", (row for row in rows if row.name.startswith("encoder/block")))
    for count in ("weights", "biases", "multiply_adds", "other_operations"):
        assert getattr(stack, count) == getattr(layer, count)


@pytest.mark.parametrize(
    ("width", "depth", "heads", "parameters"),
    [
        (192, 12, 3, 5_717_416),
        (384, 12, 6, 22_050_664),
        (768, 12, 12, 86_567_656),
        (1024, 24, 16, 304_326_632),
    ],
)
def test_published_vision_transformers(width, depth, heads, parameters):
    assert sizes.vit(width=width, depth=depth, heads=heads)["parameters"] == parameters


def test_d1_d2_a_signal():
    assert sizes.output_size(9, 3) == 7
    assert sizes.output_size(9, 3, stride=2, padding=1) == 5
    ledger = sizes.convolution((9,), kernel=3)
    assert ledger["output"] == (1, 7)
    assert (ledger["weights"], ledger["locally connected weights"], ledger["dense weights"]) == (3, 21, 63)


def test_d4_a_convolution_of_an_image():
    ledger = sizes.convolution((3, 256, 256), filters=32, kernel=5, stride=2)
    assert ledger["input"] == (3, 256, 256)
    assert ledger["filter"] == (3, 5, 5)
    assert ledger["output"] == (32, 126, 126)
    assert ledger["weights"] == 2400
    assert ledger["locally connected weights"] == 38_102_400
    assert ledger["dense weights"] == 99_883_155_456
    assert ledger.row("as a dense layer").parameters == 99_883_155_456 + 508_032
    assert "floor((256 + 2*0 - 5)/2) + 1 = 126" in ledger.notes[0]


def test_whole_numbers_stay_whole_however_large():
    ledger = sizes.convolution((1000, 10**6, 10**6), filters=10**4, kernel=3, padding=1)
    assert ledger["dense weights"] == 10**15 * 10**16


def test_channels_may_stand_apart():
    assert (
        sizes.convolution((28, 28), channels=4, kernel=3).facts
        == sizes.convolution((4, 28, 28), kernel=3).facts
    )


def test_what_the_stride_leaves_over_is_said():
    assert any(
        "the last 1 of 256" in note for note in sizes.convolution((3, 256, 256), kernel=5, stride=2).notes
    )
    assert not any(
        "are skipped" in note for note in sizes.convolution((3, 255, 255), kernel=5, stride=2).notes
    )


GROWTH = {
    "self-attention": "2 n^2 d + 3 n d^2",
    "multi-head-attention": "2 n^2 d + 4 n d^2",
    "attention": "2 n m d",
    "linear-attention-recurrent": "n d^2 + m d^2 + n d",
    "feed-forward": "8 n d^2",
    "encoder-layer": "2 n^2 d + 12 n d^2",
    "recurrence": "2 n d^2",
    "convolution-1d": "n d^2 k",
    "convolution-2d": "d^2 k^2 s^2",
}


@pytest.mark.parametrize(("mechanism", "formula"), GROWTH.items())
def test_b8_and_a3_growth(mechanism, formula):
    assert str(sizes.growth(mechanism)["multiply-adds"]) == formula


def test_b8_growth_is_the_count_at_any_size():
    found = sizes.growth("multi-head-attention", heads=4)
    ledger = sizes.attention_ledger(tokens=197, width=768, heads=4, biases=True)
    for polynomial, count in (
        (found["multiply-adds"], ledger.total.multiply_adds),
        (found["FLOPs"], ledger.total.flops),
        (found["other operations"], ledger.total.other_operations),
    ):
        assert polynomial(n=197, d=768) == count
    assert found["order"] == "O(n^2 d + n d^2)"
    assert any("from n = 2 d on" in note for note in found.notes)


def test_a_depthwise_convolution_grows_with_the_width_only_once():
    assert str(sizes.growth("convolution-2d", depthwise=True)["multiply-adds"]) == "d k^2 s^2"


def test_every_growing_mechanism_is_counted_and_verified():
    for mechanism in sizes.countable_mechanisms():
        assert sizes.growth(mechanism)["order"].startswith("O(")
    assert (
        {"self-attention", "encoder-layer", "recurrence", "convolution-2d"}
        <= set(sizes.countable_mechanisms())
        <= set(MECHANISMS)
    )


def test_a_count_that_is_no_polynomial_is_not_passed_off_as_one():
    from headwork.errors import HeadworkError
    from headwork.sizes.polynomial import interpolate, verify

    def halves(at):
        return 2 ** at["n"]

    with pytest.raises(HeadworkError, match="no such polynomial"):
        verify(interpolate(halves, {"n": (1, 2, 3, 4)}), halves, {"n": 9})
