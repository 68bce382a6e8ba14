"""Heads that start as a convolution look where one would, and learn from there."""

from __future__ import annotations

import pytest
import torch

import headwork
from headwork.errors import InputError
from headwork.mechanisms.kernels import PLAIN
from headwork.models import VisionTransformer, VisionTransformerConfig
from headwork.training import changed, vision
from headwork.training.initialisation import initialise_as_convolution
from headwork.training.preparation import prepare


@pytest.mark.parametrize("pooling", ["class token", "mean"])
def test_each_head_looks_at_its_neighbour(pooling):
    torch.manual_seed(0)
    model = VisionTransformer(VisionTransformerConfig(pooling=pooling, depth=3))
    initialise_as_convolution(model)
    # Without content, a token is its position alone, and every block sees the same.
    with torch.no_grad():
        model.patch_embedding.filters.zero_()
        for block in model.transformer.blocks:
            block.attention.W_o.zero_()
            block.feed_forward.W_2.zero_()
    trace = headwork.trace(model, torch.zeros(1, 1, 28, 28), only="*weights")
    first = int(pooling == "class token")
    for number in range(12):
        block, head = divmod(number, 4)
        weights = torch.as_tensor(trace[f"block {block}/attention/weights"].raw.array.copy())[
            0, head, first:, first:
        ]
        down, right = divmod((4 + number) % 9, 3)
        for row, column in ((1, 1), (3, 3), (5, 2), (0, 6)):
            wanted = 7 * min(max(row + down - 1, 0), 6) + min(max(column + right - 1, 0), 6)
            assert weights[7 * row + column].argmax() == wanted
            assert weights[7 * row + column].max() > 0.5


def test_row_and_column_codes_are_orthogonal_and_as_large_as_the_patches():
    model = VisionTransformer(VisionTransformerConfig())
    initialise_as_convolution(model)
    table = model.positions.table.detach()
    assert (table[0] == 0).all()
    rows = table[1:].reshape(7, 7, 64)
    # The difference of two rows is the same in every column, and at right angles to that of two columns.
    torch.testing.assert_close(rows[0, 0] - rows[3, 0], rows[0, 5] - rows[3, 5], atol=1e-5, rtol=0)
    assert abs((rows[0, 0] - rows[1, 0]) @ (rows[0, 0] - rows[0, 1])) < 1e-4
    images = torch.randn(64, 1, 28, 28)
    patches = PLAIN.patch_embedding(images, model.patch_embedding.tree()).pow(2).mean()
    assert 0.5 < (rows.pow(2).mean() / patches).item() < 2


@pytest.mark.parametrize(
    "changes", [{"width": 32}, {"positions": "sinusoidal"}, {"attention": "linear"}, {"patch": 14}], ids=str
)
def test_what_cannot_start_so_is_told(changes):
    with pytest.raises(InputError, match=r"start convolution: .*start at random"):
        initialise_as_convolution(VisionTransformer(VisionTransformerConfig(**changes)))


def test_a_run_says_that_it_starts_otherwise(digits):
    told: list[str] = []
    prepared = prepare(changed(vision("digits"), ["model.patch=4"]), log=told.append, data=digits)
    assert prepared.run.initialisation == "random"
    assert "2 x 2 patches are too few" in "".join(told)


def test_only_heads_can_start_so():
    with pytest.raises(InputError, match="only a vision transformer has heads"):
        vision(model="cnn", initialisation="convolution")
