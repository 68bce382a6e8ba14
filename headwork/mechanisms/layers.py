"""A whole encoder layer: attention and feed-forward, each with a residual and a normalisation.

"post" normalises after the residual, as published (Vaswani et al. 2017); "pre" normalises what goes into
each part and leaves the residual path free (Xiong et al. 2020, arXiv 2002.04745).
"""

from __future__ import annotations

from typing import Literal

from headwork.mechanisms.attention import PROJECTIONS, Convention, Mask, Number, Tensor, multi_head_attention
from headwork.mechanisms.feedforward import Activation, feed_forward
from headwork.mechanisms.normalisation import layer_normalisation
from headwork.note import Given, Note, Step, inside, mechanism, silent, steps_of

Placement = Literal["post", "pre"]


@mechanism(
    Given("tokens", "X", "token width", "one row a token"),
    *PROJECTIONS,
    Given("W_o", "W_o", "width joined_width", "mixes the joined heads; none is the identity", trained=True),
    Given("W_1", "W_1", "width hidden", "feed-forward, applied as x W; none is the identity", trained=True),
    Given("W_2", "W_2", "hidden width", "feed-forward, applied as x W; none is the identity", trained=True),
    Given("b_1", "b_1", "hidden", "none is 0", trained=True),
    Given("b_2", "b_2", "width", "none is 0", trained=True),
    Given("scale_1", r"\gamma_1", "width", "of the first normalisation; none is 1", trained=True),
    Given("shift_1", r"\beta_1", "width", "of the first normalisation; none is 0", trained=True),
    Given("scale_2", r"\gamma_2", "width", "of the second normalisation; none is 1", trained=True),
    Given("shift_2", r"\beta_2", "width", "of the second normalisation; none is 0", trained=True),
    *steps_of(layer_normalisation, scope="normalisation 1"),
    *steps_of(multi_head_attention, scope="attention"),
    Step("residual 1", "R_1", r"X + \operatorname{attention}", "token width"),
    *steps_of(layer_normalisation, scope="normalisation 2"),
    *steps_of(feed_forward, scope="feed-forward"),
    Step("residual 2", "R_2", r"X' + \operatorname{feed\_forward}", "token width"),
    Step("output", "Y", r"\text{the layer's result}", "token width"),
)
def encoder_layer(
    tokens: Tensor,
    W_q: Tensor = None,
    W_k: Tensor = None,
    W_v: Tensor = None,
    W_o: Tensor = None,
    W_1: Tensor = None,
    W_2: Tensor = None,
    b_1: Tensor = None,
    b_2: Tensor = None,
    scale_1: Tensor = None,
    shift_1: Tensor = None,
    scale_2: Tensor = None,
    shift_2: Tensor = None,
    *,
    heads: int,
    beta: Number = None,
    mask: Mask = None,
    normalisation: Placement = "post",
    activation: Activation = "relu",
    epsilon: Number = 0,
    convention: Convention = "W x",
    note: Note = silent,
) -> Tensor:
    """One layer of a transformer encoder, its normalisation after or before each part."""

    def normalise_1(rows: Tensor) -> Tensor:
        return layer_normalisation(rows, scale_1, shift_1, epsilon=epsilon, note=inside(note, "normalisation 1"))

    def normalise_2(rows: Tensor) -> Tensor:
        return layer_normalisation(rows, scale_2, shift_2, epsilon=epsilon, note=inside(note, "normalisation 2"))

    def attend(rows: Tensor) -> Tensor:
        return multi_head_attention(
            rows, W_q, W_k, W_v, W_o,
            heads=heads, beta=beta, mask=mask, convention=convention, note=inside(note, "attention"),
        )  # fmt: skip

    def feed(rows: Tensor) -> Tensor:
        return feed_forward(rows, W_1, W_2, b_1, b_2, activation=activation, note=inside(note, "feed-forward"))

    if normalisation == "pre":
        tokens = note("residual 1", tokens + attend(normalise_1(tokens)))
        tokens = note("residual 2", tokens + feed(normalise_2(tokens)))
    else:
        tokens = normalise_1(note("residual 1", tokens + attend(tokens)))
        tokens = normalise_2(note("residual 2", tokens + feed(tokens)))
    return note("output", tokens)
