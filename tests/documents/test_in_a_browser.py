"""A page in a real browser: arithmetic on hover, focus and tap; slider; offline; no sideways scrolling."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from headwork import explain
from headwork.documents import (
    Caution,
    Code,
    Details,
    Document,
    FigureBlock,
    Formula,
    Heading,
    Item,
    Items,
    Link,
    Prose,
    Table,
)
from headwork.documents.number_format import number_text
from headwork.readings import slider as sliders

pytestmark = pytest.mark.real("chromium", "playwright")
A2: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1; 1 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1"}


def _cell(page: Any, path: str, row: int, column: int) -> Any:
    return page.locator(f"table[aria-label='{path}'] tbody tr").nth(row).locator("td").nth(column)


def _arrows(page: Any) -> list[tuple[str, str]]:
    """Which card's edge each arrow leaves and reaches, by name, as drawn."""
    found = page.evaluate(
        """() => {
          const frame = document.querySelector(".headwork").getBoundingClientRect();
          const near = (x, y) => [...document.querySelectorAll(".card")].find((card) => {
            const box = card.getBoundingClientRect();
            return x >= box.left - 2 && x <= box.right + 2 && y >= box.top - 2 && y <= box.bottom + 2;
          }).querySelector(".name b").textContent;
          return [...document.querySelectorAll(".arrows path")].map((path) => {
            const [line] = path.getAttribute("d").split("m");
            path.setAttribute("d", line);
            const ends = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
            return ends.map((p) => near(p.x + frame.left, p.y + frame.top));
          });
        }"""
    )
    return sorted(map(tuple, found))


def test_arrows_lead_from_card_to_card(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1).to_html())
    page.locator(".arrows path").first.wait_for(state="attached")
    assert _arrows(page) == sorted(
        [
            *(("tokens", name) for name in ("query", "key", "value")),
            *(("W_k", "key"), ("W_v", "value"), ("query", "scores"), ("key", "scores")),
            *(("scores", "weights"), ("weights", "output"), ("value", "output")),
        ]
    )
    tops = {
        name: _cell(page, name, 0, 0).bounding_box()["y"] for name in ("query", "value", "scores", "output")
    }
    assert tops["query"] == tops["value"] < tops["scores"]
    narrow = opened(explain("self-attention", **A2, beta=1).to_html(), width=390)
    assert not narrow.locator(".arrows").is_visible()


def test_a_card_is_copied_as_latex_and_numpy(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1, exact=True).to_html())
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="copy NumPy of tokens").press("Enter")
    page.wait_for_function("window.copied")
    assert page.evaluate("copied") == "tokens = np.array([[1, 2], [2, 0], [0, 1], [1, 1]])"
    page.get_by_role("button", name="copy NumPy of weights").click()
    page.wait_for_function("copied.startsWith('weights')")
    trace = explain("self-attention", **A2, beta=1, exact=True)
    copied = page.evaluate("copied").removeprefix("weights = np.array(").removesuffix(")")
    assert json.loads(copied) == trace["weights"].values.tolist(), "in full precision, not as shown"
    page.get_by_role("button", name="copy LaTeX of weights").click()
    page.wait_for_function("copied.startsWith('\\\\begin')")
    latex = page.evaluate("copied")
    assert latex.count(r"\frac") == 16
    assert r"\frac{e^{2}}{(e+1)^{2}}" in latex
    assert latex.count("&") == 12


def test_parameters_stand_beside_their_step(opened: Any) -> None:
    page = opened(explain("encoder", tokens="1 2; 2 0", random=7).to_html())
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    query = page.locator(".card").filter(has=page.get_by_text("block 0/attention/query", exact=True))
    assert query.locator(".parameter .name b").all_inner_texts() == ["W_q", "b_q"]
    page.locator(".arrows path").first.wait_for(state="attached")
    arrows = page.locator(".arrows path").count()
    assert ("tokens", "block 0/attention/query") in _arrows(page)
    assert page.locator(".arrows path").count() == arrows, "none leads from a parameter"
    query.locator(".parameter td").first.hover()
    assert page.locator(".arithmetic").inner_text().startswith("W_q[0,0] = ")
    query.get_by_role("button", name="copy NumPy of b_q").press("Enter")
    page.wait_for_function("window.copied")
    assert page.evaluate("copied") == "b_q = np.array([[-1, 1]])"
    query.get_by_role("button", name="copy NumPy of block 0/attention/query").press("Enter")
    page.wait_for_function("copied.startsWith('block')")
    assert page.evaluate("copied").count("[") == 3, "its own matrix alone"


def test_a_heat_map_writes_numbers_as_the_tables_do(opened: Any) -> None:
    numbers = [0.0, -2.0, 0.53444, -0.99996, 1e-9, -3.4e-5, 1e15, 2.6e17, 12345.678, 9.99e-5, 0.00012]
    page = opened(explain("softmax", scores=" ".join(map(str, range(20)))).to_html())
    for digits in (3, 4, 7):
        written = page.evaluate("([x, d]) => x.map((y) => MapCell.text(y, d))", [numbers, digits])
        assert written == [number_text(number, digits) for number in numbers]
    odd = page.evaluate("[Infinity, -Infinity, NaN].map((y) => MapCell.text(y, 4))")
    assert odd == ["∞", "-∞", "undefined"]


def test_arithmetic_is_typeset(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1, exact=True).to_html())
    _cell(page, "weights", 0, 1).hover()
    lines = page.locator(".arithmetic math").all()
    assert [line.locator("mfrac").count() for line in lines] == [1, 2]
    lines = ["a[0,1] = -1*(2 + x_1)/sqrt(3)^2 = ... ≈ 1e-09", "2 +", "<b>"]
    understood = page.evaluate("lines => lines.map((line) => typeset(line)?.outerHTML)", lines)
    assert understood[1:] == [None, None]
    assert understood[0].count("<msqrt>") == understood[0].count("<mfrac>") == 1


def _lit(page: Any) -> list[str]:
    return page.locator(".lit").all_inner_texts()  # type: ignore[no-any-return]


def test_pointing_at_a_cell_shows_its_arithmetic_and_lights_its_sources(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1, exact=True).to_html())
    panel = page.locator(".arithmetic")
    assert not panel.is_visible()
    _cell(page, "weights", 0, 1).hover()
    assert "A[0,1] = e^2/(e + e^2 + 1 + e) = e^2/(e + 1)^2 = 0.5344" in panel.inner_text()
    assert "e^S[0,1]" in panel.inner_text()
    assert _lit(page) == ["1", "2", "0", "1"]
    page.locator("h1").hover()
    assert not panel.is_visible()
    assert _lit(page) == []


def test_the_keyboard_reaches_every_cell_with_one_stop_a_table(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1).to_html())
    tables = page.locator(".matrix table").count()
    assert page.locator("td[tabindex='0']").count() == tables
    _cell(page, "scores", 0, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    panel = page.locator(".arithmetic")
    assert "S[1,1] = 2*2 + 0*0 = 4" in panel.inner_text()
    assert panel.get_attribute("aria-live") == "polite"
    assert sorted(_lit(page)) == ["0", "0", "1", "2", "2"]  # beta, a row of Q, a row of K
    page.keyboard.press("End")
    assert "S[1,3]" in panel.inner_text()
    page.keyboard.press("ArrowRight")
    assert "S[1,3]" in panel.inner_text()
    for _ in range(3):  # past the two buttons that copy the card
        page.keyboard.press("Tab")
    assert "A[0,0]" in panel.inner_text()
    page.keyboard.press("Escape")
    assert not panel.is_visible()


def test_code_that_scrolls_is_a_stop_of_the_keyboard(opened: Any) -> None:
    page = opened(Document("", (Code("x " * 200), Code("short"))).to_html(), width=390)
    page.wait_for_function("document.querySelector('pre').tabIndex === 0")
    assert page.locator("pre").nth(1).get_attribute("tabindex") == "-1"


def test_a_tap_shows_the_arithmetic_and_a_tap_elsewhere_puts_it_away(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1, exact=True).to_html(), width=390, touch=True)
    _cell(page, "output", 0, 1).tap()
    panel = page.locator(".arithmetic")
    assert "Y[0,1]" in panel.inner_text()
    assert len(_lit(page)) == 8
    panel.tap()
    assert panel.is_visible()
    page.locator("h1").tap()
    assert not panel.is_visible()


def test_exact_and_decimal(opened: Any) -> None:
    page = opened(explain("self-attention", **A2, beta=1, exact=True).to_html())
    cell = _cell(page, "weights", 0, 1)
    assert cell.locator("math").is_visible()
    assert cell.locator(".decimal").is_visible(), "both together"
    page.locator(".switch").click()
    assert cell.inner_text() == "0.5344"


def test_the_slider_changes_numbers_tints_and_arithmetic(opened: Any) -> None:
    page = opened(sliders.slider("self-attention", "beta", {"exact": True}, A2).to_html())
    cell, panel, slider = (
        _cell(page, "weights", 0, 1),
        page.locator(".arithmetic"),
        page.get_by_role("slider"),
    )
    cell.click()
    slider.focus()
    assert panel.is_visible(), "the cell stays while the slider moves"
    slider.press("End")
    assert page.locator(".slider output").inner_text() == "∞"
    assert slider.get_attribute("aria-valuetext") == "∞"
    assert cell.inner_text() == "1"
    assert cell.evaluate("e => e.style.getPropertyValue('--heat')") == "1"
    assert "A[0,1] = 1/(0 + 1 + 0 + 0) = 1" in panel.inner_text()
    slider.press("Home")
    assert cell.locator("math").text_content() == "14"  # one over four
    assert page.locator(".options b").first.inner_text() == "0"
    for _ in range(4):
        slider.press("ArrowRight")
    assert "= e^2/(e + 1)^2 = 0.5344" in panel.inner_text()
    assert _lit(page) == ["1", "2", "0", "1"]


def test_many_values_and_a_limit_on_the_slider(opened: Any) -> None:
    values = ",".join(f"{i}/7" for i in range(1, 30)) + ",oo"
    page = opened(
        sliders.slider("softmax", f"x={values}", {"exact": True}, {"scores": "0 x"}).to_html(), width=390
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".ticks span").all_inner_texts() == ["1/7", "∞"]
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "1/7"
    assert not page.locator(".title").is_visible()
    slider.press("End")
    assert page.locator(".title").is_visible()
    assert page.locator(".title").inner_text() == "limit as x -> ∞"
    assert page.locator(".slider output").inner_text() == "∞"
    slider.press("ArrowLeft")
    assert not page.locator(".title").is_visible()


@pytest.mark.parametrize("width", [390, 1280])
def test_only_tables_scroll_sideways(opened: Any, width: int) -> None:
    wide = " ".join(str(i) for i in range(30))
    traces = [
        explain("multi-head-attention", tokens=f"{wide}; {wide}; {wide}", heads=2),
        explain("convolution-2d", image="1 2 3; 4 5 6; 7 8 9", kernel="1/4 1/4; 1/4 1/4", exact=True),
        explain("rotary-positions", vectors="1 x; sqrt(2) 3"),
    ]
    table = Table("wide", tuple(f"column_{i}" for i in range(30)), [tuple(range(30))])
    for text in (table.to_html(), *(trace.to_html() for trace in traces)):
        page = opened(text, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_to_what_is_folded_unfolds_it(opened: Any) -> None:
    inner = Details("inner", (Prose("deep inside"),), "inner")
    page = opened(Document("", (Prose((Link("there", "#inner"),)), Details("outer", (inner,)))).to_html())
    assert not page.get_by_text("deep inside").is_visible()
    page.get_by_text("there").press("Enter")
    page.get_by_text("deep inside").wait_for(state="visible")


def _large() -> str:
    tokens = np.random.default_rng(0).normal(size=(64, 16)).round(2)
    return explain("multi-head-attention", tokens=tokens, heads=4).to_html()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_heat_map_gives_its_values_by_pointer_and_keyboard(opened: Any, width: int) -> None:
    text = _large()
    assert len(text.encode()) < 2_000_000
    page = opened(text, width=width)
    panel = page.locator(".arithmetic")
    canvas = page.locator("canvas[aria-label^='weights, head 2']")
    canvas.hover(position={"x": 4 * 63.5, "y": 4 * 62.5})  # squares of 4 pixels
    value = re.fullmatch(r"A\[2,62,63\] = (0\.\d{4})", panel.locator(".spoken").inner_text())
    assert value is not None
    canvas.focus()
    assert "A[2,0,0] = " in panel.inner_text()
    canvas.press("ArrowDown")
    canvas.press("End")
    assert "A[2,1,63] = " in panel.inner_text()
    canvas.press("ArrowRight")
    assert "A[2,1,63] = " in panel.inner_text()
    before = canvas.bounding_box()["width"]
    canvas.press("+")
    assert canvas.bounding_box()["width"] == 2 * before
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_heat_map_is_painted_and_lights_its_sources(opened: Any) -> None:
    page = opened(explain("softmax", scores=" ".join(map(str, range(20)))).to_html())
    copied = (
        "const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });"
        "copy.drawImage(c, 0, 0); return [...copy.getImageData(x * c.width / 20, c.height / 2, 1, 1).data]"
    )
    scores, weights = page.locator("canvas").nth(0), page.locator("canvas").nth(1)
    faint, strong = (scores.evaluate(f"(c, x) => {{ {copied} }}", x) for x in (0.5, 19.5))
    assert faint[3] < 20 < 200 < strong[3], "from the least to the largest"
    before = scores.evaluate("c => c.toDataURL()")
    weights.focus()
    assert scores.evaluate("c => c.toDataURL()") != before


def _report() -> str:
    plot = Figure()
    plot.subplots().plot([0, 1])
    links = Prose((Link("a fold", "#fold"), " and ", Formula("x^2")))
    items = Items((Item("right", "one", "ok", True), Item("wrong", "two", "MISMATCH", False, ("why",))))
    blocks = (
        Heading("One"),
        links,
        items,
        Heading("Two"),
        FigureBlock(plot, "a line", "A line."),
        Caution("Beware."),
    )
    return Document("Report", (*blocks, Details("more", (Code("x = 1"),), "fold")), "About.").to_html()


KINDS: dict[str, Callable[[], str]] = {
    "steps": lambda: explain("self-attention", **A2, beta=1, exact=True).to_html(),
    "slider": lambda: sliders.slider("self-attention", "beta", {"exact": True}, A2).to_html(),
    "large": _large,
    "layer": lambda: explain("encoder-layer", tokens="1 2; 3 5", heads=1).to_html(),
    "model": lambda: explain("encoder", tokens="1 2; 2 0", random=7).to_html(),
    "table": lambda: Table("Sizes", ("what", "count"), [("a", 1)], ["a note"]).to_html(),
    "wide table": lambda: Table("", ("", *"abcdefgh"), [("a" * 40,) * 9]).to_html(),
    "report": _report,
}


@pytest.mark.real("chromium", "playwright", "axe")
@pytest.mark.parametrize(("dark", "width"), [(False, 390), (True, 1280)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_nothing_serious_for_those_who_cannot_see_or_point(
    opened: Any, part: Any, kind: str, dark: bool, width: int
) -> None:
    page = opened(KINDS[kind](), width=width)
    page.emulate_media(color_scheme="dark" if dark else "light")
    if kind in ("steps", "large"):
        page.locator("td, canvas").first.focus()
    page.evaluate(Path(part("axe")).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [f for f in found if f["impact"] in ("serious", "critical")]
    assert [(f["id"], f["nodes"][0]["html"][:200], f["nodes"][0]["any"][:1]) for f in serious] == []
