"""W x and x W, tokens as rows and as columns, hardness from 0 to infinity, with numbers that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwork.readings import explain

TOKENS = [[1, 2, -1], [3, 0, 2], [-2, 1, 1], [0, 4, -3]]
MATRICES = {
    "W_q": [[1, 2, 0], [0, 1, -1], [3, 0, 1], [1, 1, 2]],
    "W_k": [[2, 0, 1], [1, -1, 0], [0, 2, 1], [1, 3, 0]],
    "W_v": [[1, 0, 2], [-1, 1, 0], [2, 2, 1], [0, 1, 1]],
}
W_O = [[1, 2, 0, 1], [0, 1, 1, 3], [2, 0, 1, 0]]


def turned(nested: Any) -> Any:
    return np.transpose(nested).tolist()


def kinds() -> Any:
    yield "self-attention", {"tokens": TOKENS}, {}
    yield "self-attention", {"tokens": TOKENS}, {"mask": "causal", "beta": "1/2"}
    yield "cross-attention", {"tokens": TOKENS, "memory": TOKENS[:2]}, {}
    yield "multi-head-attention", {"tokens": TOKENS, "memory": TOKENS[1:]}, {"heads": 2}


@pytest.mark.parametrize(("slug", "tokens", "options"), list(kinds()))
def test_x_W_with_W_equals_W_x_with_W_turned(slug: str, tokens: Any, options: Any) -> None:
    matrices = {**MATRICES, **({"W_o": W_O} if "heads" in options else {})}
    ours = explain(slug, **tokens, **matrices, **options)
    other = explain(
        slug, **tokens, **{n: turned(W) for n, W in matrices.items()}, **options, convention="x W"
    )
    for path, noted in ours.steps.items():
        assert np.array_equal(noted.values, other[path].values), path
    assert r"W_q^\top" in ours["query"].formula
    assert "top" not in other["query"].formula


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("slug", "tokens", "options"), list(kinds()))
def test_columns_give_the_rows_turned(slug: str, tokens: Any, options: Any, exact: bool) -> None:
    matrices = {**MATRICES, **({"W_o": W_O} if "heads" in options else {})}
    rows = explain(slug, **tokens, **matrices, **options, exact=exact)
    columns = explain(
        slug,
        **{n: turned(X) for n, X in tokens.items()},
        **matrices,
        **options,
        exact=exact,
        tokens_as="columns",
    )
    assert list(rows.steps) == list(columns.steps)
    assert np.array_equal(columns["output"].values, rows["output"].values.T)
    for path in ("scores", "weights"):
        assert np.array_equal(columns[path].values, np.swapaxes(rows[path].values, -1, -2)), path
    assert columns.output.shape == rows.output.shape[::-1]


def test_columns_name_the_same_cell() -> None:
    rows = explain("self-attention", tokens=TOKENS, **MATRICES, beta=1, exact=True)
    columns = explain(
        "self-attention", tokens=turned(TOKENS), **MATRICES, beta=1, exact=True, tokens_as="columns"
    )
    ours, other = rows.cell("scores", 0, 1), columns.cell("scores", 1, 0)
    assert (ours.name, other.name) == ("S[0,1]", "S[1,0]")
    assert ours.in_numbers == other.in_numbers
    assert ("query", (0, 2)) in ours.sources
    assert ("query", (2, 0)) in other.sources


def test_the_numbers_tell_the_conventions_apart() -> None:
    square = {name: [row[:3] for row in W[:3]] for name, W in MATRICES.items()}
    ours = explain("self-attention", tokens=TOKENS, **square)
    other = explain("self-attention", tokens=TOKENS, **square, convention="x W")
    assert not np.allclose(ours.output.values, other.output.values)
    flipped = explain(
        "self-attention", tokens=TOKENS, W_q=square["W_k"], W_k=square["W_q"], W_v=square["W_v"]
    )
    assert not np.allclose(ours.output.values, flipped.output.values)


# --- hardness -------------------------------------------------------------------------------------------

# Row 0 has one winner, row 1 a tie of two, row 2 a tie of all.
CHOICE = {"query": "1 0; 0 1; 0 0", "key": "3 1; 1 2; -2 2; 0 -1", "value": "8 1; 2 4; -4 2; 6 9"}
HARD = [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4]


@pytest.mark.parametrize("exact", [False, True])
def test_hardness_0_is_the_plain_mean_of_the_values(exact: bool) -> None:
    trace = explain("attention", **CHOICE, beta=0, exact=exact)
    assert trace["weights"].values.tolist() == [[0.25] * 4] * 3
    assert trace.output.values.tolist() == [[3, 4]] * 3


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("beta", ["oo", float("inf")])
def test_hardness_infinity_is_one_hot_with_ties_shared(exact: bool, beta: Any) -> None:
    trace = explain("attention", **CHOICE, beta=beta, exact=exact)
    assert trace["weights"].values.tolist() == HARD
    assert trace.output.values.tolist() == (np.array(HARD) @ [[8, 1], [2, 4], [-4, 2], [6, 9]]).tolist()


def test_ties_of_irrational_scores_are_shared() -> None:
    keys = "sqrt(5+2*sqrt(6)),0; sqrt(2)+sqrt(3),0; 2,0"
    for exact in (False, True):
        trace = explain("attention", query="1 0;", key=keys, value="1; 2; 3", beta="oo", exact=exact)
        assert trace["weights"].values.tolist() == [[0.5, 0.5, 0]]


@pytest.mark.parametrize("mask", ["causal", [[1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1]]])
def test_a_masked_key_never_wins(mask: Any) -> None:
    for exact in (False, True):
        hard = explain("attention", **CHOICE, beta="oo", mask=mask, exact=exact)["weights"].values
        allowed = np.tri(3, 4, 1) if mask == "causal" else np.array(mask)
        assert np.array_equal(hard.sum(-1), [1, 1, 1])
        assert not hard[allowed == 0].any()


@pytest.mark.parametrize(("to", "beta"), [("oo", "oo"), (0, 0), (1, 1), ("1/2", "1/2")])
def test_the_limit_of_the_hardness_is_what_that_hardness_gives(to: Any, beta: Any) -> None:
    limit = explain("attention", **CHOICE, beta="beta").limit("beta", to)
    direct = explain("attention", **CHOICE, beta=beta, exact=True)
    for path in ("weights", "output"):
        np.testing.assert_allclose(limit[path].values, direct[path].values, rtol=1e-12, atol=1e-12)


def test_the_limit_to_minus_infinity_takes_the_smallest_score() -> None:
    limit = explain("attention", **CHOICE, beta="beta").limit("beta", "-oo")
    assert limit["weights"].values.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [0.25] * 4]
