"""The page of a trace: every number with its arithmetic and sources; the slider; the notebook's fragment."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from headwork import explain
from headwork.documents import Document
from headwork.errors import InputError
from headwork.readings.slider import _check_alike, slider
from headwork.readings.trace import Trace

A2: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1; 1 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1"}
random = np.random.default_rng(0)


class Renderable(HTMLParser):
    """The cells of a page in order (options first), and the data of its script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str | None] = []  # None in a heat map, which the script paints
        self.inside = ""
        self.data: dict[str, Any] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        told = dict(attributes)
        if tag == "td" and told.get("class") != "gap":
            self.inside = "cell"
            self.cells.append("")
        elif tag == "canvas":
            self.cells += [None] * (int(told["data-rows"]) * int(told["data-columns"]))
        elif tag == "ul" and told.get("class") == "options":
            self.inside = "options"
        elif tag == "b" and self.inside == "options":
            self.inside = "option"
            self.cells.append("")
        elif tag == "script" and told.get("type") == "application/json":
            self.inside = "data"
        elif tag == "span" and told.get("class") == "exact":
            self.inside = "exact"

    def handle_endtag(self, tag: str) -> None:
        if tag == "b" and self.inside == "option":
            self.inside = "options"
        elif tag == "span" and self.inside == "exact":
            self.inside = "cell"
        elif tag in ("td", "ul", "script"):
            self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("cell", "option"):
            self.cells[-1] = (self.cells[-1] or "") + data
        elif self.inside == "data":
            self.data = json.loads(data)

    def records(self, frame: int = 0) -> list[list[Any]]:
        return [self.data["records"][i] for i in self.data["frames"][frame]["cells"]]


SQUARE, IMAGE, KERNEL = (
    np.arange(size).reshape(shape) for size, shape in ((16, (4, 4)), (18, (2, 3, 3)), (16, (2,) * 4))
)
TRACES = {
    "exact": lambda: explain("self-attention", **A2, beta=1, exact=True),
    "heads": lambda: explain(
        "multi-head-attention", tokens="1 2 3 4; 0 1 0 2; 5 0 0 1", W_q=SQUARE, heads=2, mask="causal"
    ),
    "columns": lambda: explain(
        "multi-head-attention", tokens="1 2 3; 0 1 0; 5 0 7; 1 1 2", heads=2, tokens_as="columns"
    ),
    "row": lambda: explain("softmax", scores="0 1 2"),
    "number": lambda: explain("recurrence", inputs="1 2 4", W_x=1, W_h="-1", exact=True),
    "channels": lambda: explain("convolution-2d", image=IMAGE, kernel=KERNEL),
    "symbols": lambda: explain("convolution-1d", signal="x1 x2 x3", kernel="k1 k2"),
    "large": lambda: explain("self-attention", tokens=random.normal(size=(14, 2))),
}


@pytest.mark.parametrize("name", TRACES)
def test_the_numbering_of_cells_is_that_of_the_page(name: str) -> None:
    shown = Renderable(TRACES[name]().to_html())
    records = shown.records()
    assert len(shown.cells) == len(records)
    for cell, record in zip(shown.cells, records, strict=True):
        assert cell is None or not record[0] or cell == record[0]


@pytest.mark.parametrize("name", TRACES)
def test_each_source_is_the_cell_that_the_arithmetic_names(name: str) -> None:
    trace = TRACES[name]()
    records = Renderable(trace.to_html()).records()
    shown = {record[3].split(" = ")[0]: record for record in records if record[3]}
    cells = {
        (n.path, place): trace.cell(n.path, *place)
        for n in trace.all_values()
        for place in np.ndindex(n.shape)
    }
    seen = 0
    for (path, _), cell in cells.items():
        if cell.name not in shown:  # left out of a large matrix
            continue
        assert shown[cell.name][3] == str(cell)
        sources = [cells[source] for source in cell.sources if source in cells]
        if path in ("query", "key", "value") and not sources:  # without matrices they are the tokens
            sources = [next(c for c in cells.values() if c.name == f"X{cell.name[1:]}")]
        lit = {records[i][3] for i in shown[cell.name][5]} - {""}  # an option says nothing
        assert lit == {str(source) for source in sources if source.name in shown}
        seen += len(lit)
    assert seen


def test_a_page_says_what_each_step_is() -> None:
    page = TRACES["exact"]().to_html()
    assert "<h1>self-attention</h1>" in page
    assert "Tokens attend to each other" in page
    assert '<mi>A</mi><mo>=</mo><mo lspace="0.17em" rspace="0">softmax</mo>' in page
    assert "<b>weights</b> 4 × 4 (query, key)" in page
    assert "query ↓" in page
    assert "W_k, W_v are symmetric" in page
    assert "<mfrac>" in page
    assert '<span class="decimal">0.5344</span>' in page
    told = [record[3] for record in Renderable(page).records()]
    assert "A[0,1] = e^2/(e + e^2 + 1 + e) = e^2/(e + 1)^2 = 0.5344" in told
    names = [record[4] for record in Renderable(page).records()]
    assert "A[0,1] = e^S[0,1]/(e^S[0,0] + e^S[0,1] + e^S[0,2] + e^S[0,3])" in names


def test_exact_and_decimal_are_offered_where_both_are_there() -> None:
    assert 'type="checkbox"' in TRACES["exact"]().to_html()
    assert 'type="checkbox"' not in TRACES["symbols"]().to_html()
    assert 'type="checkbox"' not in TRACES["row"]().to_html()


def test_beta_among_the_sources_lights_the_option() -> None:
    shown = Renderable(explain("self-attention", tokens="1 2; 2 0", beta="1/2", exact=True).to_html())
    scores = next(record for record in shown.records() if record[3].startswith("S[0,1] = "))
    assert shown.cells[scores[5][0]] == "1/2"


def test_what_is_no_number_is_marked() -> None:
    trace = explain("attention", query="1; 2", key="1; 2", value="1; 2", mask="0 0; 1 1", exact=True)
    page = trace.to_html()
    assert '<td class="odd">-∞</td>' in page
    assert '<td class="odd">undefined</td>' in page
    assert "the mask hides every key from query 0" in page


def test_a_long_exact_form_stays_out_of_its_cell_but_in_the_page() -> None:
    trace = explain("self-attention", tokens="1 2; 3 4; sqrt(2) 1/3", exact=True)
    value = trace["output"].exact_values[2, 1]  # type: ignore[index]
    text = trace.exact_text(value)
    assert len(text) > 60
    shown = Renderable(trace.to_html())
    record = next(r for r in shown.records() if r[3].startswith("Y[2,1] = "))
    assert not record[1]
    assert text in record[3]


def test_a_large_trace_stays_small_and_shows_every_cell() -> None:
    square = random.normal(size=(5, 64, 64))
    names = ("tokens", "W_q", "W_k", "W_v", "W_o")
    page = explain("multi-head-attention", heads=4, **dict(zip(names, square, strict=True))).to_html()
    assert len(page.encode()) < 2_000_000
    assert "the whole is in the JSON" not in page
    # Some cells of every value have their arithmetic; the others are stored by their decimals.
    records = [record for record in Renderable(page).records() if isinstance(record, list)]
    for symbol in ("Q", "K", "V", "S", "A", "H", "J", "Y"):
        assert any(record[4].startswith(f"{symbol}[") for record in records)


def test_many_steps_are_shown_in_part() -> None:
    page = explain("recurrence", inputs=list(range(200)), W_x=1, W_h="1/2").to_html()
    assert "steps are left out" in page
    assert len(page.encode()) < 1_000_000


def test_nothing_in_a_trace_becomes_markup() -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    trace = replace(TRACES["exact"](), title=hostile, warnings=[hostile])
    for page in (trace.to_html(), trace._repr_html_()):
        assert "<img" not in page
        assert page.count("</script>") in (0, 2)


def test_the_fragment_for_a_notebook_keeps_to_itself() -> None:
    text = TRACES["exact"]()._repr_html_()
    assert "<script" not in text
    assert "<html" not in text
    assert "<table" in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]  # type: ignore[index]
    rules = re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))
    assert rules
    for rule in rules:
        assert all(part.strip().startswith(".headwork") for part in rule.split(",")), rule


def test_two_traces_on_one_page_have_their_own_data() -> None:
    text = Document("two", (TRACES["row"](), TRACES["exact"]())).to_html()
    assert text.count('type="application/json"') == 2
    assert " id=" not in text


# --- the slider -------------------------------------------------------------------------------------


def _frames(
    slide: str, given: dict[str, Any], mechanism: str = "self-attention", **settings: Any
) -> tuple[Renderable, str]:
    page = slider(mechanism, slide, settings, given).to_html()
    return Renderable(page), page


def test_a_slider_of_beta_goes_from_the_mean_to_the_winner() -> None:
    shown, page = _frames("beta", A2, exact=True)
    assert re.findall(r"<span>([^<]*)</span>", page.split('class="ticks"')[1].split("</label>")[0]) == [
        "0",
        "0.1",
        "0.2",
        "0.5",
        "1",
        "2",
        "5",
        "10",
        "∞",
    ]
    assert 'type="range" min="0" max="8" step="1" value="4"' in page

    def weights(frame: int) -> list[str]:
        return [r[0] for r in shown.records(frame) if r[3].startswith("A[0,")]

    assert weights(0) == ["0.2500"] * 4
    assert weights(4) == ["0.1966", "0.5344", "0.0723", "0.1966"]
    assert weights(8) == ["0", "1", "0", "0"]
    assert shown.records(8)[0][0] == "∞"


def test_frames_keep_what_does_not_change_only_once() -> None:
    shown, page = _frames("beta", A2, exact=True)
    frames = shown.data["frames"]
    tokens = slice(2, 10)
    assert frames[0]["cells"][tokens] == frames[8]["cells"][tokens]
    assert page.count("<table") == 9
    assert len(shown.data["records"]) < 0.7 * len(frames) * len(frames[0]["cells"])


def test_a_slider_takes_listed_values_and_starts_where_the_problem_stands() -> None:
    _, page = _frames("beta=0, 1/2 ,3", {**A2, "beta": "3"})
    assert 'max="2" step="1" value="2" aria-valuetext="3"' in page


def test_a_slider_of_a_symbol_puts_numbers_in_its_place() -> None:
    shown, _ = _frames("x=0,1,oo", {"scores": "0 x"}, "softmax", exact=True)
    weights = [[r[0] for r in shown.records(i) if r[3].startswith("A[")] for i in range(3)]
    assert weights == [["0.5000", "0.5000"], ["0.2689", "0.7311"], ["0", "1"]]
    assert shown.data["frames"][2]["title"] == "limit as x -> ∞"


def test_a_slider_of_a_symbol_with_tokens_as_columns() -> None:
    given = {"tokens": "1 x 3; 4 5 6", "tokens_as": "columns"}
    shown, _ = _frames("x=2,7", given)
    expected = explain("self-attention", tokens="1 7 3; 4 5 6", tokens_as="columns").to_html()
    assert [r[0] for r in shown.records(1)] == [r[0] for r in Renderable(expected).records()]


def test_usual_values_that_cannot_be_are_left_out_and_told() -> None:
    shown, page = _frames("beta", {"tokens": "1 2; x 0"})
    assert len(shown.data["frames"]) == 8
    assert "beta = oo is left out: comparing needs numbers" in page


@pytest.mark.parametrize(
    ("slide", "mechanism", "given", "said"),
    [
        (
            "gamma",
            "self-attention",
            A2,
            r"'gamma' is neither an option of self-attention \(beta, .*there are none",
        ),
        ("y", "softmax", {"scores": "x 1"}, r"nor a symbol among the inputs \(x\)"),
        ("tokens", "self-attention", A2, "'tokens' is neither"),
        ("mask", "self-attention", A2, "which values of mask"),
        ("beta=1", "self-attention", A2, "1 value of beta. Give 2 to 40"),
        ("beta=1,frog", "self-attention", A2, "cannot read 'frog'"),
        ("beta", "self-attention", {}, "tokens missing"),
        (
            "padding=0,1",
            "convolution-1d",
            {"signal": "1 2 3", "kernel": "1 1"},
            "changes the steps or their shapes",
        ),
        ("beta", "atention", A2, "Did you mean 'attention'"),
    ],
)
def test_what_cannot_slide_is_told(slide: str, mechanism: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        slider(mechanism, slide, {}, given)


def test_warnings_belong_to_their_frame() -> None:
    shown, _ = _frames("beta=1,100", {"tokens": "1 2; 3 -4"})
    assert not any("saturates" in w for w in shown.data["frames"][0]["warnings"])
    assert any("saturates" in w for w in shown.data["frames"][1]["warnings"])


def test_frames_of_other_shapes_are_refused() -> None:
    traces: list[Trace] = [explain("softmax", scores=s) for s in ("0 1", "0 1 2")]
    with pytest.raises(InputError, match="one layout"):
        _check_alike(traces, "scores")


def test_the_formulas_of_a_frame_are_those_of_its_numbers() -> None:
    shown, page = _frames("beta=1,oo", {"tokens": "1 2; 2 0"})
    finite, infinite = (frame["formulas"] for frame in shown.data["frames"])
    changed = [i for i in range(len(finite)) if finite[i] != infinite[i]]
    assert [("β" in finite[i], "β" in infinite[i]) for i in changed] == [(True, False), (False, True)]
    assert ".card .formula" in page  # the script puts them in place
