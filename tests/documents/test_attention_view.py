"""The view of attention in a real browser: layer, head and token by pointer and by keyboard, in a page and in
the output of a notebook; offline, and within the width of a telephone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwork.documents import AttentionView, Document, Heatmap, TokenHeatmaps, Tokens

pytestmark = pytest.mark.real("chromium", "playwright")
WORDS = ("[CLS]", "the", "cat", "<b>sat</b>")


def weights(count: int, heads: int = 2) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).dirichlet(np.full(count, 0.3), size=(heads, count))


def words_view() -> AttentionView:
    layers = (("block 0", weights(4)), ("block 1", weights(4, 3)))
    return AttentionView(Tokens(WORDS), layers, (1, 2, None), {(1, 2): "previous (97%)"})


def patches_view() -> AttentionView:
    labels = ("class token", *(f"{i // 3}, {i % 3}" for i in range(6)))
    return AttentionView(Tokens(labels, (2, 3)), (("block 0", weights(7)),), (0, 1, 0))


def said(page: Any) -> str:
    return str(page.locator(".said").inner_text())


@pytest.mark.parametrize("form", ["page", "notebook"])
def test_words_by_pointer(opened, form):
    view = words_view()
    document = Document("Words", (view,))
    page = opened(document.to_html() if form == "page" else f"<body>{document._repr_html_()}</body>")
    assert said(page).startswith("block 1, head 2: on average to")
    assert said(page).endswith("previous (97%).")
    page.locator("[data-side=query][data-token='2']").click()
    row = view.layers[1][1][2][2]
    best = WORDS[int(row.argmax())]
    assert f"from “cat” to “{best}” {100 * row.max():.0f}%" in said(page)
    lines = page.locator(".lines line").count()
    assert 1 <= lines <= 4  # from this word alone
    page.locator("[data-side=key][data-token='1']").click()
    assert "to “the” from" in said(page)
    page.get_by_role("button", name="block 0, head 1").click()
    assert said(page).startswith("block 0, head 1: to “the” from")
    page.get_by_label("Layer").select_option("1")
    assert said(page).startswith("block 1, head 1")
    assert page.get_by_label("Head").locator("option").count() == 3
    assert page.locator(".word text").nth(3).text_content() == "<b>sat</b>"  # words are never markup


def test_words_by_keyboard(opened):
    page = opened(Document("Words", (words_view(),)).to_html())
    page.locator(".detail svg").focus()
    page.keyboard.press("ArrowDown")
    assert "from “[CLS]” to" in said(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "to “the” from" in said(page)
    page.keyboard.press("+")
    assert said(page).startswith("block 0, head 0")
    page.keyboard.press("Escape")
    assert "on average" in said(page)


def test_patches_by_pointer_and_keyboard(opened):
    view = patches_view()
    page = opened(Document("Patches", (view,)).to_html())
    assert "from class token to" in said(page)
    page.locator(".detail [data-token='5']").click()
    row = view.layers[0][1][1][5]
    assert f"{100 * row.max():.0f}%" in said(page)
    assert "from patch 1, 1 to" in said(page)
    page.mouse.move(5, 5)
    page.locator(".detail svg").focus()
    page.keyboard.press("ArrowLeft")
    assert "from patch 1, 0 to" in said(page)
    page.keyboard.press("ArrowUp")
    assert "from patch 0, 0 to" in said(page)
    opacity = page.locator(".detail [data-token='3']").evaluate("square => square.style.fillOpacity")
    most = max(float(weights[head][1].max()) for weights in [view.layers[0][1]] for head in (0, 1))
    assert float(opacity) == pytest.approx(0.9 * view.layers[0][1][1][1][3] / most, abs=0.01)


def test_nothing_is_wider_than_a_telephone(opened):
    values = np.array([np.nan, 0.5, -0.25, 1.0])
    tints = TokenHeatmaps(Tokens(WORDS), (Heatmap("occlusion", values, "above random"),))
    page = opened(Document("Words", (tints, words_view(), patches_view())).to_html(), width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    spans = page.locator(".tints .text span")
    assert spans.nth(2).get_attribute("class") == "below"
    assert spans.nth(3).inner_text() == "<b>sat</b>"
