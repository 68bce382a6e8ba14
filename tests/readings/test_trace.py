"""A trace: problem A2 cell by cell, what-if, limits, heads, JSON, LaTeX, and work refused beforehand."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

from headwork.errors import InputError, TooLarge
from headwork.numbers.exact import to_float
from headwork.numbers.parsing import read_number
from headwork.readings import Trace, explain

A2 = {"tokens": "1 2; 2 0; 0 1; 1 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1", "beta": 1}


@pytest.fixture(scope="module")
def a2() -> Trace:
    return explain("self-attention", **A2, exact=True)


# --- cells --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "index", "text"),
    [
        ("scores", (0, 1), "S[0,1] = 1*2 + 2*0 = 2"),
        ("weights", (0, 1), "A[0,1] = e^2/(e + e^2 + 1 + e) = e^2/(e + 1)^2 = 0.5344"),
        ("weights", (2, 3), "A[2,3] = 1/(1 + 1 + 1 + 1) = 1/4 = 0.25"),
        ("key", (1, 0), "K[1,0] = 2*1 + 0*0 = 2"),
    ],
)
def test_the_arithmetic_of_a_cell(a2: Trace, path: str, index: tuple[int, ...], text: str) -> None:
    # A decimal that says no more than the exact form (0.25) may be there or not: compare up to it.
    assert str(a2.cell(path, *index)).removesuffix("00") == text


def test_a_cell_in_names_and_its_sources(a2: Trace) -> None:
    cell = a2.cell("scores", 0, 1)
    # A beta of 1 says nothing and is left out.
    assert cell.in_names == "Q[0,0]*K[1,0] + Q[0,1]*K[1,1]"
    other = explain("self-attention", **{**A2, "beta": "1/2"}, exact=True).cell("scores", 0, 1)
    assert other.in_names == "beta*(Q[0,0]*K[1,0] + Q[0,1]*K[1,1])"
    assert str(other) == "S[0,1] = (1/2)*(1*2 + 2*0) = 1"
    assert {path for path, _ in cell.sources} - {"beta"} == {"query", "key"}
    assert set(cell.sources) >= {("query", (0, 0)), ("key", (1, 0)), ("query", (0, 1)), ("key", (1, 1))}


def test_the_published_numbers_of_a2(a2: Trace) -> None:
    assert a2["scores"].values.tolist() == [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]
    np.testing.assert_allclose(a2["weights"].values[1], [0.1050, 0.7758, 0.0142, 0.1050], atol=5e-5)
    np.testing.assert_allclose(a2.output.values, [[0, 0.6622], [0, 0.3292], [0, 1], [0, 0.6622]], atol=5e-5)
    assert [a2.exact_text(x) for x in a2.output.exact_values[:, 1]] == [
        "(3*e + 1)/(e + 1)^2",
        "(3*e^2 + 1)/(e^2 + 1)^2",
        "1",
        "(3*e + 1)/(e + 1)^2",
    ]


def test_decimals_without_exact() -> None:
    trace = explain("self-attention", **A2)
    assert not trace.exact
    assert str(trace.cell("scores", 0, 1)) == "S[0,1] = 1*2 + 2*0 = 2"
    assert str(trace.cell("weights", 0, 1)).endswith(" = 0.5344")


def test_symbols_make_it_exact_by_themselves() -> None:
    trace = explain("self-attention", **{**A2, "beta": "beta"})
    assert trace.exact
    assert trace.cell("weights", 2, 0).exact == "1/4"
    assert trace.cell("scores", 0, 1).exact == "2*beta"


@pytest.mark.parametrize("index", [(0,), (4, 0), (0, 4), (-1, 0), (0, 0, 0)])
def test_a_cell_that_is_not_there(a2: Trace, index: tuple[int, ...]) -> None:
    with pytest.raises(
        InputError, match=r"scores: there is no cell \[.*\]. It is 4 x 4 \(query, key\), counted from 0"
    ):
        a2.cell("scores", *index)


def test_a_step_that_is_not_there(a2: Trace) -> None:
    with pytest.raises(
        InputError, match=r"unknown step of self-attention 'wieghts'\. Did you mean 'weights'"
    ):
        a2["wieghts"]


# --- heads --------------------------------------------------------------------------

HEADS = {"tokens": "1 2 0 1; 2 0 3 1; 0 1 1 -1", "W_q": "1 0 1 0; 0 2 0 0; 0 1 1 0; 1 0 0 3", "heads": 2}


def test_one_head_is_an_index() -> None:
    trace = explain("multi-head-attention", **HEADS, exact=True)
    for head in (0, 1):
        one = trace[f"head {head}/weights"]
        assert one.path == f"head {head}/weights"
        assert one.axes == ("query", "key")
        assert np.array_equal(one.values, trace["weights"].values[head])
        assert str(trace.cell(f"head {head}/weights", 0, 1)) == str(trace.cell("weights", head, 0, 1))
    assert trace["head 1/query"].shape == (3, 2)
    assert np.array_equal(trace["head 1/query"].values, trace["query"].values[:, 1])
    with pytest.raises(InputError, match="there is no head 2; there are 2, counted from 0"):
        trace["head 2/weights"]


# --- other readings -----------------------------------------------------------------


def test_what_if_the_later_steps_follow(a2: Trace) -> None:
    edited = a2.what_if("scores", "0 0 0 0; 1 1 1 1; 0 0 0 0; 2 2 2 2")
    assert edited["weights"].values.tolist() == [[0.25] * 4] * 4
    assert edited.output.values.tolist() == [[0, 1]] * 4
    assert np.array_equal(edited["key"].values, a2["key"].values)
    assert a2["weights"].values[1, 1] == pytest.approx(0.7758, abs=5e-5)


def test_what_if_with_columns_is_typed_as_it_is_shown() -> None:
    trace = explain("self-attention", tokens="1 2 0; 2 0 1", beta=1, tokens_as="columns")
    shown = trace["weights"].values
    again = trace.what_if("weights", shown.tolist())
    np.testing.assert_array_equal(again.output.values, trace.output.values)


def test_what_if_refuses_another_shape_or_name(a2: Trace) -> None:
    with pytest.raises(InputError, match="scores: the new value is 2 x 2, the step is 4 x 4"):
        a2.what_if("scores", "1 2; 3 4")
    with pytest.raises(InputError, match="unknown step"):
        a2.what_if("output2", "1")


def test_the_limit_of_a2() -> None:
    hard = explain("self-attention", **A2, exact=True).limit("beta", "oo")
    assert hard["weights"].values.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0.25] * 4, [0, 1, 0, 0]]
    assert hard.output.values.tolist() == [[0, 0], [0, 0], [0, 1], [0, 0]]
    assert "∞" in hard.title
    soft = explain("self-attention", **A2).limit("beta", 0)
    assert soft.output.values.tolist() == [[0, 1]] * 4


def test_the_limit_in_a_symbol_of_an_input() -> None:
    # B6: as the norm r grows, each token is copied.
    trace = explain(
        "attention",
        query="0 r 0 r; r 0 0 0; 0 r r 0",
        key="0 r 0 r; r 0 0 0; 0 r r 0",
        value="0 1 0 1; 1 0 0 0; 0 1 1 0",
        beta=1,
    )
    assert trace.limit("r", "oo").output.values.tolist() == [[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]]


def test_a_limit_in_a_symbol_that_is_not_there(a2: Trace) -> None:
    with pytest.raises(InputError, match="no step holds the symbol 'q'"):
        a2.limit("q", "oo")


# --- masks ---------------------------------------------------------------------------


def test_a_mask_that_was_typed_is_shown_and_is_a_source() -> None:
    trace = explain("multi-head-attention", tokens="1 2; 2 0", mask="1 0; 1 1", heads=2, beta=1)
    assert trace.inputs["mask"].axes == ("query", "key")
    assert trace.cell("masked", 1, 0, 1).sources == (("mask", (0, 1)),)
    assert trace.cell("masked", 1, 1, 0).sources == (("scores", (1, 1, 0)), ("mask", (1, 0)))
    rows = explain("self-attention", tokens="1 2; 2 0", mask="1 0; 1 1")["weights"].values
    columns = explain("self-attention", tokens="1 2; 2 0", mask="1 1; 0 1", tokens_as="columns")
    assert (
        explain("self-attention", tokens="1 2; 2 0", mask="causal")["weights"].values.tolist()
        == rows.tolist()
    )
    assert columns["weights"].values[1, 0] == 0, "typed the way round in which the scores are shown"


# --- JSON ---------------------------------------------------------------------------


def strict(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


PROBLEMS: list[tuple[str, dict[str, Any]]] = [
    ("self-attention", {**A2, "mask": "causal"}),
    ("self-attention", {**A2, "beta": "beta"}),
    ("attention", {"query": "1 2", "key": "1 2; 0 1", "value": "1; x", "mask": "0 0"}),
    ("linear-attention", {"query": "0 1;", "key": "1 0; 2 0", "value": "1; 2"}),
    ("layer-normalisation", {"tokens": "1 2 4; 0 1 sqrt(2)"}),
    ("multi-head-attention", HEADS),
    ("sinusoidal-positions", {"places": "0 1 2", "width": 4}),
    ("recurrence", {"inputs": "1 2 4", "W_x": 1, "W_h": "1/2", "activation": "tanh"}),
]


@pytest.mark.parametrize(("slug", "given"), PROBLEMS, ids=[f"{i} {p[0]}" for i, p in enumerate(PROBLEMS)])
@pytest.mark.parametrize("exact", [False, True])
def test_json_is_json_and_exact_strings_can_be_typed_back_in(
    slug: str, given: dict[str, Any], exact: bool
) -> None:
    problem = {
        name: f"{v};" if slug == "attention" and name in ("query", "mask") else v for name, v in given.items()
    }
    trace = explain(slug, **problem, exact=exact)
    data = strict(trace.to_json())
    assert set(data) >= {"mechanism", "inputs", "steps", "output", "warnings"}
    assert data["mechanism"] == slug
    assert data["output"] == data["steps"][-1]["path"]
    for step in data["steps"]:
        assert set(step) >= {"path", "symbol", "formula", "axes", "shape", "values"}
        assert list(np.shape(step["values"])) == step["shape"]
        assert len(step["axes"]) == len(step["shape"])
        assert ("exact" in step) == trace.exact
        if trace.exact:
            for text, value in zip(
                np.ravel(step["exact"]), np.ravel(np.array(step["values"], object)), strict=True
            ):
                typed_back(text, value)


def typed_back(text: str, value: Any) -> None:
    if text == "nan":
        assert value == "nan"
        return
    number = to_float(read_number(text, exact=True))
    if value is None:
        assert number is None
    elif isinstance(value, str):
        assert number == float(value)
    else:
        assert number == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_minus_infinity_is_a_string_and_a_symbol_is_null() -> None:
    masked = strict(explain("self-attention", **A2, mask="causal").to_json())
    values = {step["path"]: step["values"] for step in masked["steps"]}
    assert values["masked"][0] == [1, "-inf", "-inf", "-inf"]
    symbolic = strict(explain("self-attention", **{**A2, "beta": "beta"}).to_json())
    values = {step["path"]: step["values"] for step in symbolic["steps"]}
    assert values["scores"][0][0] is None
    assert values["weights"][2] == [0.25] * 4


# --- LaTeX and text -----------------------------------------------------------------


@pytest.mark.parametrize(("slug", "given"), PROBLEMS, ids=[f"{i} {p[0]}" for i, p in enumerate(PROBLEMS)])
def test_latex_is_balanced(slug: str, given: dict[str, Any]) -> None:
    problem = {
        name: f"{v};" if slug == "attention" and name in ("query", "mask") else v for name, v in given.items()
    }
    trace = explain(slug, **problem, exact=True)
    whole, fragment = trace.to_latex(), trace.to_latex(fragment=True)
    assert whole.startswith(r"\documentclass")
    assert fragment in whole
    assert "documentclass" not in fragment
    cells = [
        trace.cell(path, *index).latex for path, n in trace.steps.items() for index in np.ndindex(n.shape)
    ]
    for text in (whole, fragment, *cells):
        plain = re.sub(r"\\[{}]", "", text)
        assert plain.count("{") == plain.count("}")
        assert text.count(r"\left(") == text.count(r"\right)")
        opened, closed = re.findall(r"\\begin\{(\w+)\}", text), re.findall(r"\\end\{(\w+)\}", text)
        assert sorted(opened) == sorted(closed)
        assert text.count(r"\[") == text.count(r"\]")
        assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


@pytest.mark.parametrize(("slug", "given"), PROBLEMS, ids=[f"{i} {p[0]}" for i, p in enumerate(PROBLEMS)])
def test_text_and_markdown_name_every_step(slug: str, given: dict[str, Any]) -> None:
    problem = {
        name: f"{v};" if slug == "attention" and name in ("query", "mask") else v for name, v in given.items()
    }
    trace = explain(slug, **problem)
    for shown in (trace.to_text(), trace.to_markdown()):
        for path in trace.steps:
            assert path in shown


# --- refused beforehand -------------------------------------------------------------


def test_exact_work_beyond_a_size_is_refused_and_decimals_are_offered() -> None:
    tokens = np.arange(64 * 64).reshape(64, 64).tolist()
    with pytest.raises(
        TooLarge,
        match=r"about [\d,]+ exact operations; at most 8,000 .* Leave out --exact to work in decimals",
    ):
        explain("multi-head-attention", tokens=tokens, heads=4, exact=True)
    trace = explain("multi-head-attention", tokens=(np.array(tokens) / 4096).tolist(), heads=4)
    assert trace.output.shape == (64, 64)


def test_decimal_work_has_an_end_too() -> None:
    with pytest.raises(TooLarge, match="at most 10,000,000"):
        explain("self-attention", tokens=np.zeros((9000, 1)).tolist())
    with pytest.raises(TooLarge, match=r"recurrence: more than 3,000 steps. Take fewer tokens"):
        explain("recurrence", inputs=np.zeros((2000, 1)).tolist(), W_x="1", W_h="1")


def test_six_tokens_of_width_four_with_two_heads_are_worked_exactly() -> None:
    tokens = "1 2 0 1; 2 0 1 1; 0 1 1 2; 1 1 0 0; 2 1 1 0; 0 2 1 1"
    matrices = {
        "W_q": "1 0 1 0; 0 1 0 2; 1 0 0 1; 0 1 1 0",
        "W_k": "1 0 0 1; 0 2 0 0; 1 0 1 0; 0 0 1 1",
        "W_v": "1 1 0 0; 0 1 0 0; 0 0 2 1; 1 0 0 1",
    }
    exact = explain("multi-head-attention", tokens=tokens, **matrices, heads=2, exact=True)
    decimals = explain("multi-head-attention", tokens=tokens, **matrices, heads=2)
    np.testing.assert_allclose(exact.output.values, decimals.output.values, rtol=1e-12, atol=1e-12)
    assert "sqrt(2)" in exact.to_text()


def test_a_whole_encoder_layer_is_worked_exactly() -> None:
    given = {
        "tokens": "1 2; 3 -1",
        "W_q": "1 2; 0 1",
        "W_v": "1 1; 0 2",
        "W_1": "1 2 0; 1 1 1",
        "W_2": "1 0; 2 1; 0 3",
        "heads": 1,
    }
    exact, decimals = explain("encoder-layer", **given, exact=True), explain("encoder-layer", **given)
    for path, noted in decimals.steps.items():
        np.testing.assert_allclose(exact[path].values, noted.values, rtol=1e-12, atol=1e-12, err_msg=path)
    assert math.isclose(exact.output.values[0, 0], -exact.output.values[0, 1])


# --- what a person gets wrong -------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "given", "words"),
    [
        ("self-atention", {}, "unknown mechanism 'self-atention'. Did you mean 'self-attention'"),
        ("self-attention", {}, "tokens missing"),
        ("self-attention", {"tokens": "1 2", "W_z": "1"}, "unknown input of self-attention 'W_z'"),
        ("self-attention", {"tokens": "1 2; 3 4", "W_q": "1 2 3; 4 5 6"}, "Transpose W_q"),
        (
            "attention",
            {"query": "1 2;", "key": "1 2 3;", "value": "1;"},
            "key width 3 differs from query width 2",
        ),
        ("attention", {"query": "1 2;", "key": "1 2;", "value": "1; 2"}, "1 keys but 2 values"),
        ("self-attention", {"tokens": "1 2; 3 4", "mask": "sideways"}, "Expected causal, or a matrix"),
        ("self-attention", {"tokens": "1 2; 3 4", "mask": "1 2; 3 4"}, "numbers other than 0 and 1"),
        ("self-attention", {"tokens": "1 2; 3 4", "mask": "1 0"}, "mask"),
        ("self-attention", {"tokens": "1 2; 3 4", "convention": "Wx"}, "Did you mean 'W x'"),
        ("self-attention", {"tokens": "1 2; 3 4", "beta": "-oo"}, "minus infinity"),
        ("self-attention", {"tokens": "1 2; 3 4", "beta": "1 2"}, "single number"),
        (
            "multi-head-attention",
            {"tokens": "1 2 3; 3 4 5", "heads": 2},
            "width 3 cannot be cut into 2 heads",
        ),
        ("multi-head-attention", {"tokens": "1 2; 3 4", "heads": "1/2"}, "whole number"),
        ("multi-head-attention", {"tokens": "1 2; 3 4", "heads": "oo"}, "whole number"),
        ("multi-head-attention", {"tokens": "1 2; 3 4"}, "heads missing"),
        ("patches", {"image": "1 2 3; 4 5 6", "size": 2}, "cannot be cut into squares"),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_errors_in_words(slug: str, given: dict[str, Any], words: str, exact: bool) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        explain(slug, **given, exact=exact)


def test_what_if_edits_add_up() -> None:
    trace = explain("self-attention", tokens="1 2; 2 0", beta=1, exact=True)
    both = trace.what_if("key", "1 0; 0 1").what_if("value", "5 0; 0 5")
    assert both["key"].exact_values.tolist() == [[1, 0], [0, 1]]
    assert both["value"].exact_values.tolist() == [[5, 0], [0, 5]]
    assert both["scores"].exact_values.tolist() == [[1, 2], [2, 0]]
    assert repr(both).startswith("<Trace of self-attention")


def test_infinite_beta_is_one_truth_however_it_is_asked_for() -> None:
    given = {"tokens": "1 2; 2 0; 0 1", "W_q": "1 1; 0 1", "mask": "causal"}
    typed = explain("self-attention", beta="oo", exact=True, **given)
    limit = explain("self-attention", beta="beta", **given).limit("beta", "oo")
    for path in typed.steps:
        assert (typed[path].exact_values == limit[path].exact_values).all(), path
        assert typed[path].formula == limit[path].formula
    # Each product as it is: beta times it would be infinite; the weights are the limit.
    assert typed["scores"].exact_values.tolist() == [[7, 6, 2], [2, 4, 0], [3, 2, 1]]
    assert typed["scores"].formula == r"Q K^\top"
    assert r"\operatorname{softmax}(\beta\, S') \text{ as } \beta \to \infty" in typed["weights"].formula
