"""Pages: one file that opens offline, formulas as MathML, readable matrices, plots that do not change."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork import explain
from headwork.documents import (
    Arithmetic,
    Details,
    Document,
    FigureBlock,
    Heading,
    Link,
    Prose,
    Table,
    Value,
    Values,
    heat_colormap,
    save_figure,
)
from headwork.documents.formulas import mathml
from headwork.documents.page_templates import read_asset, script_data
from headwork.documents.plots import figure_svg
from headwork.errors import InputError
from headwork.note import MECHANISMS

FORMULAS = sorted(
    {c.symbol for m in MECHANISMS.values() for c in (*m.inputs, *m.steps)}
    | {
        re.sub(r"\{(W_\w)\}", r"\1^\\top", f)
        for m in MECHANISMS.values()
        for s in m.steps
        for f in (s.formula, s.column_formula)
    }
)
HOSTILE = "</script><script>alert(1)</script><!--\u2028&"


@pytest.mark.parametrize("latex", [f for f in FORMULAS if f])
def test_every_cards_formula_becomes_mathml(latex: str) -> None:
    text = str(mathml(latex))
    ElementTree.fromstring(text)
    assert "\\" not in text, "a command was left as it is"
    assert "<mo />" not in text, "an operator lost its name"
    assert "http" not in text


@pytest.mark.parametrize(
    "latex", [r"\text{<script>alert(1)</script>}", "a<b>c", "&lt;script&gt;", r"\operatorname{<b>}"]
)
def test_a_formula_never_becomes_other_markup(latex: str) -> None:
    tags = set(re.findall(r"<(\w+)", str(mathml(latex))))
    assert tags <= {"math", "mrow", "mi", "mo", "mn", "mtext"}
    assert "&lt" not in mathml(latex)


def test_brackets_keep_their_size_round_fractions_only() -> None:
    assert 'stretchy="true"' not in mathml(r"\left(1 + e\right)^{2}")
    assert 'stretchy="true"' in mathml(r"\left(\frac{1}{2}\right)")


def test_data_for_the_script_cannot_end_it() -> None:
    text = str(script_data([HOSTILE]))
    assert text.count("<") == 2
    assert json.loads(re.sub(r"</?script[^>]*>", "", text)) == [HOSTILE]


def test_a_page_is_whole_escaped_and_asks_for_nothing() -> None:
    drawn = FigureBlock(_plot(), 'a "plot"', "below <it>")
    parts = ("1 < 2", Heading("H", anchor="h"), Table("t", ("a",), [("<td>",)]), drawn)
    text = Document("A < B", parts, about="<about>").to_html()
    assert text.startswith("<!doctype html>")
    assert text.count("<html") == text.count("</html>") == 1
    for escaped in (
        "A &lt; B",
        "<p>1 &lt; 2</p>",
        "&lt;td&gt;",
        "below &lt;it&gt;",
        "&lt;about&gt;",
    ):
        assert escaped in text
    assert not re.search(
        r"https?:|//[a-z]+\.|@import|url\((?!#)|<link(?! rel=\"icon\" href=\"data:,\")|\ssrc=", text
    )


def test_a_plot_is_the_same_every_time_and_shares_no_ids_with_another() -> None:
    first, same, other = figure_svg(_plot(), "one"), figure_svg(_plot(), "one"), figure_svg(_plot(2), "one")
    assert first == same
    assert "metadata" not in first
    assert first.startswith('<svg role="img" aria-label="one" fill="currentColor" viewBox=')

    def ids(text: str) -> set[str]:
        return set(re.findall(r' id="([^"]+)"', text))

    assert ids(first)
    assert not ids(first) & ids(other)
    assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", first)) <= ids(first)
    ElementTree.fromstring(str(first))


def test_a_plot_takes_the_colours_of_the_page() -> None:
    plot = Figure()
    axes = plot.subplots()
    axes.imshow([[0, 1]], cmap=heat_colormap())
    axes.plot([0, 1], label="a line")
    axes.legend()
    text = str(figure_svg(plot))
    assert not re.search("#000000|#ffffff(?!\\))|#fff\\b|black|white", text)
    assert "stroke: currentColor" in text
    assert "fill: var(--panel, #ffffff)" in text
    assert [round(float(heat_colormap()(at)[3]), 2) for at in (0.0, 1.0)] == [0.03, 0.6], (
        "what stands on it is read"
    )


def _plot(slope: int = 1) -> Figure:
    plot = Figure(figsize=(2, 1))
    plot.subplots().plot([0, 1], [0, slope], "o-")
    return plot


def test_a_plot_is_saved_as_png_or_svg(tmp_path: Path) -> None:
    assert save_figure(_plot(), tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in save_figure(_plot(), tmp_path / "a.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == save_figure(_plot(), tmp_path / "b.png").read_bytes()
    with pytest.raises(InputError, match=r"unknown kind of picture '.gif'.*Known: .png, .svg"):
        save_figure(_plot(), tmp_path / "a.gif")


def test_a_matrix_has_its_indices_axes_and_tints() -> None:
    numbers = np.arange(2.0 * 20).reshape(1, 2, 20) - 20
    numbers[0, 0, 1] = -np.inf
    value = Value("weights", "A", numbers, axes=("head", "query", "key"))
    document = Document("", (Values((("", (value,)),), arithmetic=lambda *_: Arithmetic("", "", ())),))
    assert "<canvas" not in document.render("html", fragment=True), "no script could paint it"
    text = document.render("html", fragment=True)
    assert "query ↓" in text
    assert "key →" in text
    heads = re.findall(r'<th scope="(?:col|row)">(.*?)</th>', text)
    assert heads == [*map(str, range(9)), "…", "18", "19", "0", "1"]
    assert '<td class="below" style="--heat:1.0">-20</td>' in text
    assert '<td class="odd">-∞</td>' in text
    assert '<td style="--heat:0.95">19</td>' in text
    assert text.count('<td class="gap">') == 2
    assert '<p class="caption">head 0</p>' in text


def test_a_large_matrix_is_a_heat_map_of_all_its_cells() -> None:
    def asked(name: str, index: tuple[int, ...]) -> Arithmetic:
        return Arithmetic("sum " * 2_000, "", tuple(("weights", (0, 0, k)) for k in range(64)))

    numbers = np.round(np.random.default_rng(0).normal(size=(4, 64, 64)), 4)
    value = Value("weights", r"A_\beta", numbers, axes=("head", "query", "key"))
    text = Document("", (Values((("", (value,)),), arithmetic=asked),)).to_html()
    maps = re.findall(r'<canvas [^>]*data-index="([^"]*)" data-scale="([^"]*)"', text)
    assert maps == [(f"[{head}, null, null]", str(abs(numbers).max())) for head in range(4)]
    assert 'data-symbol="A_β"' in text
    data = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert data is not None
    stored = json.loads(data[1])
    assert len(stored["frames"][0]["cells"]) == numbers.size
    cells = stored["frames"][0]["cells"]
    assert isinstance(stored["records"][cells[0]], list)
    assert set(cells[-64:]) == {-1}, "written by the page"
    kept = np.frombuffer(base64.b64decode(stored["frames"][0]["numbers"]), "<f8")
    assert (kept == numbers.ravel()).all()
    assert len(text.encode()) < 2_000_000


def test_a_matrix_of_symbols_stays_a_table() -> None:
    text = explain("softmax", scores=" ".join(["x", *"0" * 13]), exact=True).to_html()
    assert "<canvas" not in text
    assert "Shown in part" in text


def test_a_page_of_several_parts_lists_them_by_links_and_folds() -> None:
    link = Prose(("see ", Link("<the fold>", "#f")))
    parts = (Heading("One <1>"), link, Heading("Two", anchor="two"), Details("more", (Prose("x"),), "f"))
    text = Document("", parts).to_html()
    assert '<li><a href="#part-1">One &lt;1&gt;</a></li>\n<li><a href="#two">Two</a></li>' in text
    assert '<h2 id="part-1">One &lt;1&gt;</h2>' in text
    assert 'see <a href="#f">&lt;the fold&gt;</a>' in text
    assert '<details id="f"><summary>more</summary>' in text
    assert "<nav" not in Document("", (Heading("One"), "alone")).to_html()
    for name in ("text", "markdown", "latex", "json", "notebook"):
        assert "the fold" in Document("", (link,)).render(name)


def test_many_parts_are_folded_in_a_page_and_stay_headings_elsewhere() -> None:
    def document(count: int) -> Document:
        parts = ((Heading(f"Part <{i}>", anchor=f"p{i}"), f"Words {i}.") for i in range(count))
        return Document("Many", ("First.", *(block for part in parts for block in part)))

    text = document(13).to_html()
    assert text.count('<li><a href="#p') == 13
    assert '<details id="p12"><summary>Part &lt;12&gt;</summary>\n<p>Words 12.</p>' in text
    assert "<h2" not in text
    assert text.index("First.") < text.index("<details")
    assert "## Part" in document(13).to_markdown()
    assert "<details" not in document(12).to_html()


# --- can it be read? ------------------------------------------------------------------------------


def _colours(dark: bool) -> dict[str, str]:
    """The custom properties of a page, in light or dark."""
    light, _, rest = (str(read_asset("trace.css")) + str(read_asset("page.css"))).partition(
        "@media (prefers-color-scheme"
    )
    found = dict(re.findall(r"--(\w+): ([^;]+);", light))
    return found | dict(re.findall(r"--(\w+): ([^;]+);", rest)) if dark else found


def _rgb(text: str) -> tuple[float, ...]:
    if text.startswith("#"):
        return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))
    return tuple(map(float, text.split()))


def _luminance(rgb: tuple[float, ...]) -> float:
    parts = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("tint", ["cool", "warm"])
def test_text_on_the_strongest_tint_is_readable(dark: bool, tint: str) -> None:
    colours = _colours(dark)
    alpha, least = map(
        float, re.search(r"var\(--heat, 0\) \* ([.\d]+) \+ ([.\d]+)", read_asset("trace.css")).groups()
    )  # type: ignore[union-attr]
    strong = alpha + least
    behind = tuple(
        strong * c + (1 - strong) * p
        for c, p in zip(_rgb(colours[tint]), _rgb(colours["panel"]), strict=True)
    )
    # Decimals below an exact number are lighter than it is.
    fainter = float(re.search(r"decimal \{[^}]*opacity: ([.\d]+)", read_asset("trace.css"))[1])  # type: ignore[index]
    for opacity in (1.0, fainter):
        ink = tuple(
            opacity * c + (1 - opacity) * b for c, b in zip(_rgb(colours["ink"]), behind, strict=True)
        )
        lights = sorted((_luminance(behind), _luminance(ink)))
        assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5
