"""A ledger in every form: what it shows, and that each form is well made."""

from __future__ import annotations

import json
import subprocess
from html.parser import HTMLParser

import pytest

from headwork import sizes
from headwork.documents.formats.markdown import escape_markdown

LEDGERS = {
    "patches": sizes.patches(224, 16),
    "convolution": sizes.convolution((3, 256, 256), filters=32, kernel=5, stride=2),
    "columns": sizes.attention_ledger(tokens=6, width=768, tokens_as="columns"),
    "heads": sizes.attention_ledger(tokens=5, width=768, heads=12, batch=1, biases=True),
    "transformer": sizes.transformer(),
    "growth": sizes.growth("encoder-layer"),
}


@pytest.fixture(params=LEDGERS)
def ledger(request):
    return LEDGERS[request.param]


def test_text_has_aligned_columns_thousands_and_totals():
    lines = LEDGERS["transformer"].to_text().splitlines()
    header, total = lines[2], next(line for line in lines if line.startswith("total"))
    assert "63,082,496" in total
    assert header.index("weights") + len("weights") == total.index("62,999,552") + len("62,999,552")
    assert "99,883,155,456" in LEDGERS["convolution"].to_text()
    assert "[1,12,5,5]" in LEDGERS["heads"].to_text()
    assert "β K^T Q" in LEDGERS["columns"].to_text()
    assert "\nNote: with tokens as columns" in LEDGERS["columns"].to_text()


def test_columns_that_no_row_fills_are_left_out():
    assert "FLOPs" not in LEDGERS["patches"].to_text()
    assert "biases" not in LEDGERS["columns"].to_text().splitlines()[2]


def test_every_table_of_markdown_has_rows_of_one_length(ledger):
    text = ledger.to_markdown()
    assert text.startswith(f"# {ledger.title}\n")
    for block in text.split("\n\n"):
        counts = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert len(counts) <= 1
    assert all(escape_markdown(note) in text for note in (*ledger.notes, *ledger.warnings))


def test_growth_is_written_as_formulas():
    assert "$2 n^{2} d + 12 n d^{2}$" in LEDGERS["growth"].to_markdown()
    assert "$2 n^{2} d + 12 n d^{2}$" in LEDGERS["growth"].to_latex()
    assert "2 n^2 d + 12 n d^2" in LEDGERS["growth"].to_text()


def test_latex_needs_only_amsmath_and_may_be_a_fragment(ledger):
    whole, fragment = ledger.to_latex(), ledger.to_latex(fragment=True)
    assert [line for line in whole.splitlines() if "usepackage" in line] == [r"\usepackage{amsmath}"]
    assert fragment in whole
    assert "documentclass" not in fragment
    assert whole.isascii()
    assert whole.count(r"\begin{tabular}") == whole.count(r"\end{tabular}") >= 1


@pytest.mark.real("pdflatex")
def test_latex_compiles(tmp_path):
    for name, ledger in LEDGERS.items():
        (tmp_path / f"{name}.tex").write_text(ledger.to_latex())
    source = "\n".join(ledger.to_latex(fragment=True) for ledger in LEDGERS.values())
    document = rf"\documentclass{{article}}\usepackage{{amsmath}}\begin{{document}}{source}\end{{document}}"
    (tmp_path / "all.tex").write_text(document)
    for name in ("all", "transformer"):
        run = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-2000:]
    assert "Overfull" not in (tmp_path / "transformer.log").read_text()


def test_json_holds_exact_numbers_shapes_and_totals(ledger):
    data = json.loads(ledger.to_json())
    assert data["title"] == ledger.title
    assert [row["name"] for row in data["rows"]] == [row.name for row in ledger.rows]
    for told, row in zip(data["rows"], ledger.rows, strict=True):
        assert told.get("shape") == (None if row.shape is None else list(row.shape))
    assert ("total" in data) == ledger.summed


def test_json_of_large_numbers():
    data = json.loads(LEDGERS["convolution"].to_json())
    assert data["facts"]["dense weights"] == 99_883_155_456
    assert json.loads(LEDGERS["transformer"].to_json())["total"]["parameters"] == 63_082_496
    assert json.loads(LEDGERS["growth"].to_json())["facts"]["multiply-adds"] == "2 n^2 d + 12 n d^2"


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        if tag not in ("meta", "link", "br", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_is_one_page_with_a_row_for_each_row(ledger):
    page = ledger.to_html()
    cells = Cells()
    cells.feed(page)
    assert not cells.open
    assert cells.rows >= len(ledger.rows) + ledger.summed
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_rows_that_stand_several_times_count_several_times():
    row = sizes.Row(name="layer", weights=3, biases=1, multiply_adds=5, times=4)
    total = sizes.Ledger(title="four", rows=(row,), summed=True).total
    assert (total.parameters, total.flops) == (16, 40)
    assert (row.parameters, row.flops) == (4, 10)
