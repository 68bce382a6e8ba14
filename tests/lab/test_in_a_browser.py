"""The page of the server in a real browser: the first screen, typing, pointing, undo, links, problems."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.real("chromium", "playwright")
SCROLLS = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


def cell(page: Any, path: str, index: str) -> Any:
    return page.locator(f"td[data-path='{path}'][data-index='{index}']")


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expecting

    return expecting(locator)


def type_in(page: Any, path: str, index: str, text: str) -> None:
    cell(page, path, index).dblclick()
    page.locator("input.editor").fill(text)
    page.keyboard.press("Enter")


def test_the_first_screen_fits_and_explains_itself(opened: Any, served: Any) -> None:
    page = opened(served.address)
    assert page.evaluate(SCROLLS) == [1280, 720]
    lefts = [
        page.locator(f".card[data-path='{name}']").bounding_box()["x"]
        for name in ("tokens", "W_q", "query", "scores", "weights", "output")
    ]
    assert lefts == sorted(lefts)
    assert page.locator(".arrows path").count() == 11
    expect(page.locator(".sentence")).to_have_text(re.compile("Token 0 gives 53% of its weight to token 1"))
    expect(page.locator(".lines")).to_contain_text("A[0,1] = e^2/(e + e^2 + 1 + e) = 0.5344")
    assert page.locator("td.lit").all_inner_texts() == ["1", "2", "0", "1"]
    assert page.locator(".lines math").count() == 2


def test_typing_moves_what_depends_on_it_and_undo_brings_it_back(opened: Any, served: Any) -> None:
    page = opened(served.address)
    cell(page, "tokens", "0,0").click()
    page.keyboard.type("3")
    expect(cell(page, "weights", "0,1")).to_have_text("0.0473")
    moved = set(page.locator("td.moved").evaluate_all("all => all.map((td) => td.dataset.path)"))
    assert {"query", "key", "scores", "weights", "output"} == moved
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.index") == "1,0"
    page.keyboard.press("Control+z")
    expect(cell(page, "weights", "0,1")).to_have_text("0.5344")
    expect(cell(page, "tokens", "0,0")).to_have_text("1")
    page.keyboard.press("Control+y")
    expect(cell(page, "weights", "0,1")).to_have_text("0.0473")
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(cell(page, "weights", "0,1")).to_have_text("0.5344")


def test_escape_brings_back_what_stood_there(opened: Any, served: Any) -> None:
    page = opened(served.address)
    cell(page, "tokens", "0,0").click()
    page.keyboard.type("7")
    expect(cell(page, "query", "0,0")).to_have_text("7")
    page.keyboard.press("Escape")
    expect(cell(page, "query", "0,0")).to_have_text("1")
    expect(cell(page, "tokens", "0,0")).to_have_text("1")


def test_an_intermediate_value_is_set_marked_and_unset(opened: Any, served: Any) -> None:
    page = opened(served.address)
    type_in(page, "scores", "0,1", "0")
    expect(cell(page, "weights", "0,1")).to_have_text("0.1345")
    expect(cell(page, "scores", "0,1")).to_have_class(re.compile("edited"))
    expect(page.locator(".lines")).to_contain_text("You set this cell. Worked out, it would be 2.")
    page.get_by_role("button", name="Undo this change").click()
    expect(cell(page, "weights", "0,1")).to_have_text("0.5344")
    assert page.locator("td.edited").count() == 0


def test_beta_from_0_to_infinity(opened: Any, served: Any) -> None:
    page = opened(served.address)
    slider = page.get_by_role("slider")
    slider.focus()
    slider.press("End")
    expect(cell(page, "weights", "0,1")).to_have_text("1")
    expect(page.locator(".beta .typed")).to_have_value("∞")
    assert slider.get_attribute("aria-valuetext") == "∞"
    slider.press("Home")
    expect(cell(page, "weights", "0,1")).to_have_text("0.2500")
    expect(page.locator(".sentence")).to_contain_text("At β = 0")
    page.locator(".beta .typed").fill("1/3")
    page.keyboard.press("Enter")
    expect(cell(page, "weights", "0,1")).to_have_text("0.3394")


def test_an_older_answer_never_follows_a_newer_one(opened: Any, served: Any) -> None:
    """Answers are held up at random; what is shown at the end, and at every moment, is never older."""
    page = opened(served.address)
    waits = iter([0.3, 0.0, 0.2, 0.0] * 20)
    page.route(
        "**/call/explain", lambda route: (page.wait_for_timeout(1000 * next(waits)), route.continue_())
    )
    page.evaluate(
        """() => {
          window.seen = [];
          const cell = document.querySelector("td[data-path='query'][data-index='0,0']");
          const all = { subtree: true, childList: true, characterData: true };
          const watching = new MutationObserver(() => window.seen.push(cell.textContent));
          watching.observe(document.querySelector("#canvas"), all);
        }"""
    )
    cell(page, "tokens", "0,0").click()
    for text in "1234567":
        page.locator("input.editor").fill(text)
    expect(cell(page, "query", "0,0")).to_have_text("7")
    seen = page.evaluate("seen")
    assert seen == sorted(seen)


def test_what_cannot_be_used_is_said_beside_the_cell_and_the_last_good_state_stays(
    opened: Any, served: Any
) -> None:
    page = opened(served.address)
    type_in(page, "tokens", "1,1", "<img src=x onerror=alert(1)>")
    bubble = page.locator(".card[data-path='tokens'] .bubble")
    expect(bubble).to_contain_text("cannot read '<img src=x")
    expect(cell(page, "tokens", "1,1")).to_have_text("0")
    expect(cell(page, "weights", "1,1")).to_have_text("0.7758")
    assert page.locator("img").count() == 0
    type_in(page, "tokens", "1,1", "0")
    type_in(page, "tokens", "0,0", "2")
    expect(bubble).to_have_count(0)


def paste(page: Any, path: str, index: str, text: str) -> None:
    cell(page, path, index).focus()
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.setData("text/plain", text);
          const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
          document.activeElement.dispatchEvent(event);
        }""",
        text,
    )


def test_paste_from_a_spreadsheet_and_from_latex(opened: Any, served: Any) -> None:
    page = opened(served.address)
    paste(page, "tokens", "0,0", "1\t0\n0\t1\n5\t5\n")
    expect(cell(page, "tokens", "2,1")).to_have_text("5")
    expect(page.locator("td[data-path='weights']")).to_have_count(9)
    paste(page, "W_q", "0,0", r"\begin{bmatrix} 2 & 0 \\ 0 & \frac{1}{2} \end{bmatrix}")
    expect(cell(page, "W_q", "1,1")).to_have_text("0.5000")
    paste(page, "tokens", "0,0", "1\t0\n0")
    expect(page.locator(".bubble")).to_contain_text("ragged rows: row 0 has 2 entries and row 1 has 1.")
    expect(cell(page, "tokens", "2,1")).to_have_text("5")
    paste(page, "tokens", "0,0", "1 2 3; 4 5 6")
    expect(page.locator(".bubble")).to_contain_text("takes width 2; the tokens are 2 x 3")


def test_sizes_numbers_and_options(opened: Any, served: Any) -> None:
    page = opened(served.address)
    page.get_by_role("button", name="one more token in tokens").click()
    expect(page.locator("td[data-path='weights']")).to_have_count(25)
    page.get_by_role("button", name="one fewer width in tokens").click()
    expect(page.locator("td[data-path='tokens']")).to_have_count(5)
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    page.get_by_role("button", name="Undo (Ctrl+Z)").click()
    expect(page.locator("td[data-path='weights']")).to_have_count(16)
    page.get_by_text("both", exact=True).click()
    expect(cell(page, "weights", "0,1").locator("math")).to_be_visible()
    expect(cell(page, "weights", "0,1").locator(".decimal")).to_be_visible()
    page.get_by_text("exact", exact=True).click()
    expect(cell(page, "weights", "0,1").locator(".decimal")).to_be_hidden()
    page.get_by_text("decimal", exact=True).click()
    page.get_by_text("More", exact=True).click()
    page.get_by_label("mask").select_option("causal")
    expect(cell(page, "weights", "0,1")).to_have_text("0")
    page.get_by_label("tokens as").select_option("columns")
    expect(page.locator(".card[data-path='tokens']")).to_contain_text("2 × 4")


def test_a_mask_is_typed_cell_by_cell(opened: Any, served: Any) -> None:
    page = opened(served.address)
    page.get_by_text("More", exact=True).click()
    choice = page.locator(".options-menu label", has_text="mask").locator("select")
    choice.select_option("matrix")
    expect(page.locator("td[data-path='mask']")).to_have_count(16)
    assert set(page.locator("td[data-path='mask']").all_inner_texts()) == {"1"}
    page.keyboard.press("Escape")
    type_in(page, "mask", "0,1", "0")
    expect(cell(page, "weights", "0,1")).to_have_text("0")
    expect(cell(page, "weights", "1,1")).to_have_text("0.7758")
    cell(page, "masked", "0,1").click()
    expect(page.locator(".lines")).to_contain_text("The mask hides token 1 from token 0")
    expect(cell(page, "mask", "0,1")).to_have_class(re.compile("lit"))
    type_in(page, "mask", "0,1", "2")
    expect(page.locator(".card[data-path='mask'] .bubble")).to_contain_text("numbers other than 0 and 1")
    page.get_by_role("button", name="one more token in tokens").click()
    expect(page.locator("td[data-path='mask']")).to_have_count(25)
    expect(cell(page, "mask", "0,1")).to_have_text("0")
    again = opened(page.url)
    expect(cell(again, "mask", "0,1")).to_have_text("0")
    assert page.evaluate(SCROLLS)[0] == 1280
    page.get_by_text("More", exact=True).click()
    choice.select_option("causal")
    expect(page.locator("td[data-path='mask']")).to_have_count(0)
    expect(cell(page, "weights", "1,2")).to_have_text("0")
    choice.select_option("none")
    expect(page.locator("td[data-path='masked']")).to_have_count(0)


def test_nothing_is_cut_or_jumps_while_beta_is_dragged(opened: Any, served: Any) -> None:
    page = opened(served.address)
    tops = "['.lines', '.panel'].map((name) => document.querySelector(name).getBoundingClientRect().top)"
    before = page.evaluate(tops)
    page.get_by_role("slider").press("End")
    expect(cell(page, "weights", "0,1")).to_have_text("1")
    assert page.evaluate(tops) == before
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    assert page.locator(".scroll, .formula").evaluate_all(cut) == 0


def test_a_link_reproduces_everything(opened: Any, served: Any) -> None:
    page = opened(served.address)
    type_in(page, "tokens", "0,0", "3")
    type_in(page, "scores", "1,1", "-2")
    page.locator(".beta .typed").fill("1/2")
    page.keyboard.press("Enter")
    expect(page.locator("td.edited")).to_have_count(1)
    page.get_by_text("both", exact=True).click()
    expect(cell(page, "weights", "0,1").locator("math")).to_be_visible()
    again = opened(page.url)
    expect(cell(again, "weights", "0,1").locator("math")).to_be_visible()
    expect(again.locator("td.edited")).to_have_count(1)
    texts = "all => all.map((td) => td.textContent)"
    shown, reproduced = (one.locator("#canvas td").evaluate_all(texts) for one in (page, again))
    assert shown == reproduced


def test_play_steps_through_by_keyboard(opened: Any, served: Any) -> None:
    page = opened(served.address)
    names = []
    for _ in range(6):
        page.keyboard.press("PageDown")
        names.append(page.evaluate("document.activeElement.dataset.path"))
    assert names == ["query", "key", "value", "scores", "weights", "output"]
    page.keyboard.press("PageUp")
    expect(page.locator(".lines")).to_contain_text("A[0,1]")
    assert page.locator(".later").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".later").count() == 0


def test_by_keyboard_alone(opened: Any, served: Any) -> None:
    page = opened(served.address)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset?.path") == "tokens":
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.path") == "W_q", "the arrows go on to the next card"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is seen"
    page.keyboard.press("Enter")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    expect(cell(page, "query", "1,1")).to_have_text("4")
    expect(page.locator("#announcer")).to_contain_text("Token 0 gives")


def test_by_touch(opened: Any, served: Any) -> None:
    page = opened(served.address, width=390, height=844, touch=True)
    assert page.evaluate(SCROLLS)[0] == 390
    cell(page, "weights", "1,1").tap()
    expect(page.locator(".lines")).to_contain_text("A[1,1]")
    cell(page, "tokens", "0,0").tap()
    page.locator("input.editor").fill("5")
    page.keyboard.press("Enter")
    expect(cell(page, "query", "0,0")).to_have_text("5")
    cell(page, "scores", "0,0").tap()
    page.get_by_role("button", name="Change this number").tap()
    page.locator("input.editor").fill("0")
    page.keyboard.press("Enter")
    expect(page.locator("td.edited")).to_have_count(1)


@pytest.mark.parametrize(
    "name", ["softmax", "multi-head-attention", "convolution-2d", "lstm", "encoder-layer", "vision"]
)
def test_every_kind_of_mechanism_can_be_opened_and_changed(opened: Any, served: Any, name: str) -> None:
    page = opened(f"{served.address}#/try/{name}")
    expect(page.locator(".card").first).to_be_visible()
    first = page.locator(".card.input td").first
    first.dblclick()
    page.locator("input.editor").fill("1/2")
    page.keyboard.press("Enter")
    expect(first).to_have_text("0.5000")
    assert page.evaluate(SCROLLS)[0] == 1280


def test_export_and_copy(opened: Any, served: Any) -> None:
    page = opened(served.address)
    page.get_by_text("Export", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="LaTeX", exact=True).click()
    assert download.value.suggested_filename == "self-attention.tex"
    assert r"\begin{document}" in Path(download.value.path()).read_text("utf-8")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator(".card[data-path='tokens']").hover()
    page.get_by_role("button", name="copy NumPy of tokens").click()
    assert page.evaluate("copied") == "tokens = np.array([[1, 2], [2, 0], [0, 1], [1, 1]])"


def test_problems_answer_first_with_live_steps(opened: Any, served: Any) -> None:
    page = opened(f"{served.address}#/problems/task2/b")
    expect(page.locator(".answer")).to_contain_text("outputs (0, 0.6622)")
    expect(page.locator("table.plain s").filter(has_text="0.7757")).to_be_visible()
    lefts = [
        page.locator(f".card[data-path='{n}']").bounding_box()["x"] for n in ("tokens", "scores", "output")
    ]
    assert lefts == sorted(lefts), "one row, as on the first screen"
    type_in(page, "tokens", "0,0", "0")
    expect(cell(page, "query", "0,0")).to_have_text("0")
    page.get_by_role("searchbox").fill("convolution 1e")
    assert page.locator(".questions li:visible").count() == 0
    page.get_by_role("searchbox").fill("mean filter")
    assert page.locator(".questions li:visible").count() == 1
    page.locator(".questions li:visible a").click()
    expect(page.locator(".asked")).to_contain_text("discussion/1e")


def test_the_start_page_has_a_few_doors(opened: Any, served: Any) -> None:
    page = opened(f"{served.address}#/start")
    assert page.locator(".door").count() == 5
    expect(page.locator(".picture .card").first).to_be_visible()
    page.get_by_role("link", name="Look up a question").click()
    expect(page.locator(".answer").first).to_be_visible()


def test_names_with_html_in_them_never_run(opened: Any, served: Any) -> None:
    bad = "<img src=x onerror=document.title='bad'>"
    for place in (
        f"#/try/{bad}",
        f"#/problems/{bad}",
        f"#/try/self-attention?tokens={bad}&{bad}=1",
        f"#/{bad}",
    ):
        page = opened(f"{served.address}{place}")
        page.wait_for_timeout(300)
        assert page.title() == "Headwork lab"
        assert page.locator("img").count() == 0


PLACES = {
    "try": "",
    "exact": "#/try/softmax?scores=0+1&~show=both",
    "problems": "#/problems/task2/b",
    "start": "#/start",
}


@pytest.mark.real("chromium", "playwright", "axe")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("place", list(PLACES))
def test_axe_finds_nothing_serious(opened: Any, served: Any, part: Any, place: str, dark: bool) -> None:
    page = opened(
        f"{served.address}{PLACES[place]}", color_scheme="dark" if dark else "light", bypass_csp=True
    )
    page.locator(".card").first.wait_for()
    page.evaluate(Path(part("axe")).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [f for f in found if f["impact"] in ("serious", "critical")]
    assert [
        (f["id"], f["nodes"][0]["html"][:200], json.dumps(f["nodes"][0]["any"])[:300]) for f in serious
    ] == []
