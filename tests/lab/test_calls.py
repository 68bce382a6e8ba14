"""The calls: JSON in, JSON out; the same numbers as explain; errors at their cell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwork.lab.calls import CALLS, EXAMPLES, example_state, run_call, run_call_text
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.note import MECHANISMS
from headwork.problems.by_hand import A2
from headwork.readings import explain

FIRST: dict[str, Any] = example_state("self-attention").as_data()


def value(shown: dict[str, Any], path: str) -> dict[str, Any]:
    return next(v for v in shown["values"] if v["path"] == path)


def decimals(shown: dict[str, Any], path: str) -> list[list[str]]:
    return [[cell[0] for cell in row] for row in value(shown, path)["matrices"][0]["cells"]]


def asked(name: str, /, **request: Any) -> dict[str, Any]:
    found = json.loads(run_call_text(name, json.dumps(request)))
    assert "error" not in found, found
    return found  # type: ignore[no-any-return]


def error(name: str, /, **request: Any) -> dict[str, Any]:
    return run_call(name, request)["error"]  # type: ignore[no-any-return]


def test_every_mechanism_has_an_example_that_shows_something() -> None:
    assert set(EXAMPLES) == {*MECHANISMS, *(d.slug for d in DEFINITIONS.values())}
    for one in asked("mechanisms")["mechanisms"]:
        assert one["point"].endswith(".")
        shown = asked("explain", state=one["state"])
        path, index = one["look"]
        assert asked("cell", state=one["state"], path=path, index=index)["numbers"]
        cells = [c for v in shown["values"] for m in v["matrices"] for row in m["cells"] for c in row]
        assert not [cell for cell in cells if cell and cell[0] == "undefined"], one["slug"]


def test_the_first_screen_is_the_four_tokens() -> None:
    shown = asked("explain", state=FIRST)
    assert {**FIRST["options"], **FIRST["inputs"]}.keys() == A2.keys()
    trace = explain("self-attention", **A2)
    assert decimals(shown, "weights")[0] == ["0.1966", "0.5344", "0.0723", "0.1966"]
    assert trace.cell("weights", 0, 1).decimal == "0.5344"
    assert [v["column"] for v in shown["values"]] == [0, 1, 1, 1, 2, 2, 2, 3, 4, 5]
    assert value(shown, "output")["from"] == ["weights", "value"]
    assert shown["sentence"].startswith(
        "Token 0 gives 53% of its weight to token 1; token 2 spreads its weight evenly"
    )


def test_a_cell_comes_with_names_numbers_words_and_sources() -> None:
    cell = asked("cell", state={**FIRST, "exact": True}, path="weights", index="0,1")
    assert cell["numbers"] == "A[0,1] = e^2/(e + e^2 + 1 + e) = e^2/(e + 1)^2 = 0.5344"
    assert cell["names"].startswith("A[0,1] = e^S[0,1]/(")
    assert cell["words"].startswith("token 0 gives 53% of its weight to token 1")
    assert cell["sources"] == [["scores", f"0,{j}"] for j in (1, 0, 2, 3)]


def test_an_edited_step_moves_what_follows_and_can_be_told_from_the_rest() -> None:
    edited = {**FIRST, "edits": {"scores": {"0,1": "0"}}}
    shown = asked("explain", state=edited)
    assert value(shown, "scores")["edited"] == ["0,1"]
    assert decimals(shown, "scores")[0] == ["1", "0", "0", "1"]
    assert decimals(shown, "weights")[0] == ["0.3655", "0.1345", "0.1345", "0.3655"]
    assert decimals(shown, "query") == decimals(asked("explain", state=FIRST), "query")
    assert asked("cell", state=edited, path="scores", index="0,1")["words"].endswith("it would be 2.")
    other = asked("cell", state=edited, path="scores", index="1,1")
    assert other["numbers"] == "S[1,1] = 2*2 + 0*0 = 4", "the cells beside the edit keep their arithmetic"


def test_two_edits_one_after_the_other() -> None:
    edits = {"weights": {"0,0": "1"}, "scores": {"0,1": "0"}}
    shown = asked("explain", state={**FIRST, "edits": edits})
    assert decimals(shown, "weights")[0] == ["1", "0.1345", "0.1345", "0.3655"]


@pytest.mark.parametrize(
    ("beta", "sentence"),
    [
        (
            "0",
            "At β = 0 every score is 0: each token spreads its weight evenly, so all outputs are one mean.",
        ),
        ("oo", "Token 0 gives all of its weight to token 1; token 2 spreads its weight evenly over all 4. "),
    ],
)
def test_the_sentence_at_the_ends_of_the_slider(beta: str, sentence: str) -> None:
    shown = asked("explain", state={**FIRST, "options": {"beta": beta}})
    assert shown["sentence"].startswith(sentence)


def test_the_slider_has_what_was_typed_among_its_stops() -> None:
    shown = asked("explain", state={**FIRST, "options": {"beta": "1/3"}})
    slider = next(o for o in shown["options"] if o["name"] == "beta")
    assert slider["stops"][slider["at"]] == "1/3"
    assert slider["stops"][slider["at"] - 1] == "0.3"
    assert slider["labels"][-1] == "∞"
    usual = asked("explain", state={**FIRST, "options": {}})
    slider = next(o for o in usual["options"] if o["name"] == "beta")
    assert slider["labels"][slider["at"]] == "1/sqrt(2)"


def test_tokens_and_widths_grow_and_shrink_together() -> None:
    wider = asked("resized", state=FIRST, name="tokens", axis=1, by=1)
    assert value(wider, "tokens")["size"].startswith("4 × 3")
    assert value(wider, "W_q")["size"].startswith("2 × 3")
    fewer = asked("resized", state=FIRST, name="tokens", axis=0, by=-1)
    assert value(fewer, "weights")["size"].startswith("3 × 3")
    one = {"mechanism": "self-attention", "inputs": {"tokens": [["1", "2"]]}}
    assert "least" in error("resized", state=one, name="tokens", axis=0, by=-1)["message"]


def test_a_mask_of_cells_is_the_one_before_and_follows_the_tokens() -> None:
    causal = asked("mask_cells", state={**FIRST, "options": {"beta": "1", "mask": "causal"}})
    assert value(causal, "mask")["typed"][1] == ["1", "1", "0", "0"]
    assert value(causal, "masked")["from"] == ["mask", "scores"]
    assert value(causal, "mask")["column"] == value(causal, "scores")["column"]
    assert next(o for o in causal["options"] if o["name"] == "mask")["value"] == "matrix"
    hidden = asked("cell", state=causal["state"], path="masked", index="0,1")
    assert hidden["words"] == "the mask hides token 1 from token 0: no weight goes there."
    assert hidden["sources"] == [["mask", "0,1"]]
    more = asked("resized", state=causal["state"], name="tokens", axis=0, by=1)
    assert more["state"]["inputs"]["mask"][0] == ["1", "0", "0", "0", "1"]
    fewer = asked("pasted", state=causal["state"], name="tokens", text="1 2; 3 4")
    assert fewer["state"]["inputs"]["mask"] == [["1", "0"], ["1", "1"]]
    turned = asked("turned", state=fewer["state"], tokens_as="columns")
    assert turned["state"]["inputs"]["mask"] == [["1", "1"], ["0", "1"]], "the way round in which S is shown"
    none = asked("mask_cells", state=FIRST)
    assert {cell for row in value(none, "mask")["typed"] for cell in row} == {"1"}
    typed = asked("explain", state={**FIRST, "options": {"mask": "1 0 0 0; 1 1 1 1; 1 1 1 1; 1 1 1 1"}})
    assert decimals(typed, "weights")[0] == ["1", "0", "0", "0"]
    two = {**FIRST, "inputs": {**none["state"]["inputs"], "mask": [["2"] * 4] * 4}}
    assert error("explain", state=two)["path"] == "mask"


@pytest.mark.parametrize("name", ["softmax", "linear-attention-recurrent", "decoder"])
def test_a_mask_is_offered_where_the_mechanism_takes_one(name: str) -> None:
    shown = asked("explain", state=example_state(name).as_data())
    offered = [o["name"] for o in shown["options"] if "matrix" in o.get("choices", ())]
    assert offered == (["memory_mask"] if name == "decoder" else [])
    assert "takes no mask" in error("mask_cells", state=example_state(name).as_data())["message"]


@pytest.mark.parametrize(
    "text",
    ["1\t2\n3\t4", "1 2; 3 4", "[[1, 2], [3, 4]]", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"],
)
def test_a_matrix_is_pasted_from_anywhere(text: str) -> None:
    shown = asked("pasted", state=FIRST, name="tokens", text=text)
    assert value(shown, "tokens")["typed"] == [["1", "2"], ["3", "4"]]


def test_errors_stand_at_their_cell() -> None:
    inputs = {**FIRST["inputs"], "tokens": [["1", "2"], ["2", "<b>"]]}
    nonsense = error("explain", state={**FIRST, "inputs": inputs})
    assert (nonsense["path"], nonsense["index"]) == ("tokens", (1, 1))
    assert nonsense["message"].startswith("cannot read '<b>'")
    ragged = error("pasted", state=FIRST, name="tokens", text="1\t2\n3")
    assert ragged["path"] == "tokens"
    assert ragged["message"].startswith("ragged rows: row 0 has 2 entries and row 1 has 1.")
    misfit = error("pasted", state=FIRST, name="tokens", text="1 2 3; 4 5 6")
    assert misfit["message"].startswith(
        "W_q is 2 x 2 and, applied as W x, takes width 2; the tokens are 2 x 3"
    )
    edit = error("explain", state={**FIRST, "edits": {"scores": {"0,1": "x("}}})
    assert (edit["path"], edit["index"]) == ("scores", (0, 1))
    empty = error("explain", state={**FIRST, "inputs": {"tokens": [["1", ""]]}})
    assert empty["message"].startswith("empty. Type a number")


def test_work_too_large_for_exact_is_refused_in_words_of_the_page() -> None:
    tokens = [[str(i % 7) for i in range(j, j + 20)] for j in range(20)]
    large = error(
        "explain", state={"mechanism": "self-attention", "inputs": {"tokens": tokens}, "exact": True}
    )
    assert large["kind"] == "too large"
    assert "Switch to decimals" in large["message"]
    assert "--" not in large["message"]
    many = error("explain", state={"mechanism": "softmax", "inputs": {"scores": ["1"] * 3000}})
    assert many["kind"] == "too large"


STRANGE: list[Any] = [
    {},
    {"state": None},
    {"state": []},
    {"state": {"mechanism": 3}},
    {"state": {"mechanism": "softmax", "inputs": []}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": {"a": 1}}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": None}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": [[[[[[["1"]]]]]]]}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "digits": 10**9}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "edits": {"weights": {"7": "1"}}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "edits": {"nothing": {"0": "1"}}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "edits": {"weights": 3}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1", "note": "1"}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "0 1"}, "options": {"replacing": "1"}}},
    {"state": {"mechanism": "softmax", "inputs": {"scores": "9^9^9^9"}, "exact": True}},
    {"state": {"mechanism": "__import__('os')", "inputs": {}}},
    {"state": FIRST, "more": 1},
]


@pytest.mark.parametrize("request_", STRANGE, ids=str)
def test_what_cannot_be_read_is_an_answer(request_: Any) -> None:
    found = run_call("explain", request_)
    assert found["error"]["message"]
    json.dumps(found)


def test_sensitivity_is_a_curve_of_the_cell() -> None:
    chart = asked("sensitivity", state=FIRST, path="weights", index="0,1", of="beta")
    assert chart["points"][0] == [0.0, 0.0]
    assert chart["points"][-1] == [1.0, 1.0]
    assert chart["moved"][chart["at"]] == "1"
    assert chart["words"].endswith("Now it is 0.5344.")
    flat = asked("sensitivity", state=FIRST, path="weights", index="2,1", of="beta")
    assert "does not change" in flat["words"]
    token = asked("sensitivity", state=FIRST, path="weights", index="0,1", of="tokens", of_index="0,0")
    assert token["values"][token["at"]] == "0.5344"


def test_export_is_what_the_command_line_writes() -> None:
    trace = explain("self-attention", **A2)
    for name in asked("capabilities")["formats"]:
        if name != "pdf":
            assert asked("export", state=FIRST, format=name)["text"] == trace.render(name)


def test_problems_by_hand_out_with_live_steps_and_errors_beside_the_value() -> None:
    listed = asked("problems")
    questions = {q["id"]: q["problems"] for h in listed["handouts"] for q in h["questions"]}
    assert questions["task2/b"] == ["A2"]
    assert len(listed["handouts"]) == 5
    a2 = asked("problem", slug="A2")
    assert a2["answer"].startswith("outputs (0, 0.6622)")
    assert {"0.7757", "0.6624"} <= {e["published"] for e in a2["errors"]}
    shown = asked("explain", state=a2["states"][0])
    assert decimals(shown, "weights")[0][1] == "0.5344"


def test_a_problem_with_a_figure_keeps_to_the_policy() -> None:
    html = asked("problem", slug="B3")["html"]
    assert "<svg" in html
    assert "<style" not in html, "the page's policy refuses it"


def test_every_call_is_documented() -> None:
    from pathlib import Path

    page = Path("docs/lab.md").read_text("utf-8")
    assert [name for name in CALLS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("strange", [None, True, -1, 1.5, [], [[]], {}, {"a": 1}, "", "\ud800", "x" * 9999])
def test_a_part_of_any_kind_is_answered_in_words(strange: Any) -> None:
    state = {**FIRST, "exact": False}
    for name, request in {
        "problem": {"slug": strange},
        "cell": {"state": state, "path": strange, "index": strange},
        "sensitivity": {"state": state, "path": strange, "index": "0", "of": strange},
        "resized": {"state": state, "name": strange, "axis": strange, "by": strange},
        "export": {"state": state, "format": strange},
        "pasted": {"state": state, "name": "tokens", "text": strange},
        "look": {"model": "digits", "given": strange},
        "model": {"name": strange},
        "open_model": {"files": {"model.safetensors": strange}, "others": [strange]},
        "check": {"answers": strange, "kind": strange, "seed": strange, "difficulty": strange},
        "read_answer_file": {"text": strange},
    }.items():
        assert json.dumps(run_call(name, request), allow_nan=False), name


def test_every_module_that_the_page_is_to_have_is_there() -> None:
    from headwork.lab import packing

    parts = [*packing.PACKAGES, *packing.LAZY_MODULES, packing.TRAINED]
    assert [part for part in parts if not (packing.PACKAGE / part).exists()] == []
