"""Each warning where a person is likely to be misled, and none where not."""

from __future__ import annotations

from typing import Any

import pytest

from headwork.readings import explain

PLAIN: dict[str, Any] = {"tokens": "1 2; 3 -1; 0 1", "W_q": "1 2; 0 1", "W_k": "2 1; 1 0", "W_v": "1 1; 0 2"}
SKEW: dict[str, Any] = {**PLAIN, "W_k": "2 1; -1 0", "beta": "1/4"}


def warnings(slug: str = "self-attention", **given: Any) -> list[str]:
    return explain(slug, **{**(SKEW if slug == "self-attention" else {}), **given}).warnings


@pytest.mark.parametrize("exact", [False, True])
def test_plain_numbers_give_no_warning(exact: bool) -> None:
    assert warnings(exact=exact) == []
    assert warnings(exact=exact, mask="causal") == []
    assert warnings("attention", query="1 2; 0 3", key="1 2; 4 -1; 1 1", value="1; 2; 3", exact=exact) == []


def test_tokens_as_columns() -> None:
    found = warnings(tokens="1 3 0 2 5; 2 -1 1 1 0", tokens_as="columns")
    assert len(found) == 1
    assert "K^T Q (5 x 5 for 5 tokens)" in found[0]
    assert "Q K^T would be 2 x 2: it compares features, not tokens" in found[0]


@pytest.mark.parametrize("exact", [False, True])
def test_a_row_with_everything_masked(exact: bool) -> None:
    found = warnings(mask="1 0 1; 0 0 0; 1 1 1", exact=exact)
    assert len(found) == 1
    assert "the mask hides every key from query 1" in found[0]
    assert warnings(mask="1 0 0; 0 0 1; 1 1 1", exact=exact) == []


def test_everything_masked_under_hard_attention() -> None:
    for exact in (False, True):
        assert any(
            "hides every key from query 1" in w
            for w in warnings(mask="1 0 1; 0 0 0; 1 1 1", beta="oo", exact=exact)
        )


LINEAR = {"key": "1 0; 0 1", "value": "1; 2"}


@pytest.mark.parametrize("exact", [False, True])
def test_linear_attention_with_a_sum_of_zero_or_negative_weights(exact: bool) -> None:
    zero = warnings("linear-attention", query="1 -1; 1 2", **LINEAR, exact=exact)
    assert any("the scores of query 0 sum to zero" in w and "elu+1" in w for w in zero)
    negative = warnings("linear-attention", query="3 -1; 1 2", **LINEAR, exact=exact)
    assert len(negative) == 1
    assert "some weights are negative" in negative[0]
    assert warnings("linear-attention", query="3 1; 2 2", **LINEAR, exact=exact) == []
    assert warnings("linear-attention", query="1 -1; 3 -1", features="elu+1", **LINEAR, exact=exact) == []


def test_a2_has_a_sum_of_zero_under_linear_attention() -> None:
    tokens = "1 2; 2 0; 0 1; 1 1"
    found = warnings(
        "linear-attention", query=tokens, key="1 0; 2 0; 0 0; 1 0", value="0 2; 0 0; 0 1; 0 1", exact=True
    )
    assert any("query 2 sum to zero" in w for w in found)


@pytest.mark.parametrize("exact", [False, True])
def test_scores_so_large_that_softmax_saturates(exact: bool) -> None:
    found = warnings(beta=20, exact=exact)
    assert len(found) == 1
    assert "softmax saturates" in found[0]
    assert warnings(beta=1, exact=exact) == []
    assert warnings(beta="oo", exact=exact) == []


def test_numbers_so_symmetric_that_they_hide_a_mistake() -> None:
    a2 = warnings(tokens="1 2; 2 0; 0 1; 1 1", W_q="1 0; 0 1", W_k="1 0; 0 0", W_v="0 0; 0 1", beta=1)
    assert any("W_q, W_k, W_v are symmetric" in w and "x W for W x" in w for w in a2)
    assert len(a2) == 1  # one quiet note, which names both products
    assert "scores are symmetric" in a2[0]
    assert "K Q^T for Q K^T" in a2[0]


def test_no_warning_where_symmetry_is_natural_or_nothing_was_given() -> None:
    assert warnings(W_q="1 2; 0 1", W_k="1 2; 0 1") == []  # Q = K, so S is symmetric by nature
    tokens = {"tokens": "1 2; 3 -1; 0 1", "beta": "1/4"}
    for slug, more in (("self-attention", {}), ("multi-head-attention", {"heads": 2})):
        assert explain(slug, **tokens, **more).warnings == []
    assert explain("self-attention", tokens="1; 2", W_v="3").warnings == []  # 1 x 1


@pytest.mark.parametrize("exact", [False, True])
def test_a_constant_token_cannot_be_normalised(exact: bool) -> None:
    (found,) = warnings("layer-normalisation", tokens="1 2; 3 3", exact=exact)
    assert "token 1 is constant, so 0/0: undefined" in found
    assert warnings("layer-normalisation", tokens="1 2; 3 3", epsilon="1/100", exact=exact) == []
    (found,) = warnings("rms-normalisation", tokens="0 0; 3 3", exact=exact)
    assert "token 0 is all 0" in found


def test_a_causal_mask_over_more_keys_than_queries() -> None:
    given = {"query": "1 2; 0 3", "key": "1 2; 4 -1; 1 1", "value": "1; 2; 3", "mask": "causal"}
    (found,) = warnings("attention", **given)
    assert "the queries count as the last 2 of the 3 positions" in found
    # A decoder's mask is for its own tokens, not for a longer memory.
    layer = {"tokens": "1 2; 2 0", "memory": "1 1; 0 1; 2 0", "heads": 1}
    assert not any("the last 2" in w for w in warnings("decoder-layer", **layer))
    assert "query 0 may attend to keys 0 to 1" in found
    weights = explain("attention", **given)["weights"].values
    assert (weights[0, :2] > 0).all()
    assert weights[0, 2] == 0


def test_symbols_are_no_reason_for_a_warning() -> None:
    assert warnings(beta="beta") == []
