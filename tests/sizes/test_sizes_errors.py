"""What cannot be counted says where, what came, what was expected and how to mend it."""

from __future__ import annotations

import pytest

from headwork import sizes
from headwork.errors import InputError

WRONG = {
    "patches: patch is 0. Expected a whole number from 1 to 1,000,000,000.": lambda: sizes.patches(224, 0),
    "patches: image height is -3.": lambda: sizes.patches(-3, 1),
    "patches: channels is 2.5.": lambda: sizes.patches(224, 16, channels=2.5),
    "patches: image has 3 sizes. Give one for a square, or height x width.": lambda: sizes.patches(
        (1, 2, 3), 1
    ),
    "an image of 225 x 224 (height, width) cannot be cut into squares of 16: 1 rows and 0 columns are left "
    "over. Either crop it to 224 x 224, pad it to 240 x 224": lambda: sizes.patches((225, 224), 16),
    "vit: an image of 30 x 30": lambda: sizes.vit(image=30, patch=4),
    "such as 2, 3, 5.": lambda: sizes.vit(image=30, patch=4),
    "Either pad it to 32 x 32": lambda: sizes.patches(16, 32),
    "convolution, along the height: a kernel of 5 does not fit into 3 positions with padding 0. "
    "Use a kernel of at most 3, or a padding of at least 1.": lambda: sizes.convolution((1, 3, 9), kernel=5),
    "convolution: kernel is 0.": lambda: sizes.convolution(9, kernel=0),
    "convolution: stride is 0.": lambda: sizes.convolution(9, kernel=3, stride=0),
    "convolution: padding is -1. Expected a whole number from 0": lambda: sizes.convolution(
        9, kernel=3, padding=-1
    ),
    "3 groups do not divide 4 channels (remainder 1). Choose a number of groups that divides both "
    "channels (4) and filters (6).": lambda: sizes.convolution((4, 8, 8), filters=6, kernel=3, groups=3),
    "2 groups do not divide 5 filters": lambda: sizes.convolution((4, 8, 8), filters=5, kernel=3, groups=2),
    "20,000 groups; at most 10,000": lambda: sizes.convolution(
        (20000, 8, 8), filters=20000, kernel=3, groups=20000
    ),
    "the input has 4 sizes.": lambda: sizes.convolution((1, 2, 3, 4), kernel=1),
    "the input has 3 sizes and channels 4 besides.": lambda: sizes.convolution(
        (3, 8, 8), channels=4, kernel=1
    ),
    "the kernel has 3 sizes, the input 2.": lambda: sizes.convolution((8, 8), kernel=(1, 2, 3)),
    "attention: tokens is 0.": lambda: sizes.attention_ledger(tokens=0, width=8),
    "attention: batch is 0.": lambda: sizes.attention_ledger(tokens=2, width=8, batch=0),
    "attention: width is 1000000000000. Expected": lambda: sizes.attention_ledger(tokens=1, width=10**12),
    "attention: width 768 cannot be cut into 10 heads of one size (remainder 8). "
    "Choose a number of heads that divides 768, such as 6, 8, 12; or the width 770.": lambda: (
        sizes.attention_ledger(tokens=5, width=768, heads=10)
    ),
    "unknown tokens_as 'column'. Did you mean 'columns'?": lambda: sizes.attention_ledger(
        tokens=5, width=8, tokens_as="column"
    ),
    "plain attention has no biases": lambda: sizes.attention_ledger(tokens=5, width=8, biases=True),
    "transformer: width 512 cannot be cut into 7 heads": lambda: sizes.transformer(heads=7),
    "transformer: vocabulary is -1. Expected a whole number from 0": lambda: sizes.transformer(vocabulary=-1),
    "vit: depth is 0.": lambda: sizes.vit(depth=0),
    "unknown mechanism 'self-atention'. Did you mean 'self-attention'?": lambda: sizes.growth(
        "self-atention"
    ),
    "growth: patches has sizes that cannot be varied independently.": lambda: sizes.growth("patches"),
    "growth: softmax has no groups.": lambda: sizes.growth("softmax", depthwise=True),
    "growth: heads is 0.": lambda: sizes.growth("self-attention", heads=0),
    "shapes of more than 2^63 entries are not counted": lambda: sizes.convolution(
        (10**6, 10**8, 10**8), kernel=3, filters=10
    ),
}


@pytest.mark.parametrize(("message", "wrong"), WRONG.items())
def test_errors_say_what_to_do(message, wrong):
    with pytest.raises(InputError) as caught:
        wrong()
    assert message in str(caught.value)


def test_an_unknown_entry_names_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'weights'"):
        sizes.convolution(9, kernel=3)["weihgts"]
    with pytest.raises(InputError, match="Did you mean 'query'"):
        sizes.attention_ledger(tokens=5, width=8).row("querry")
