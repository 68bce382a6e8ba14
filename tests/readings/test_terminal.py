"""Text for the terminal: within its width, bold and coloured only where a command asks for it."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import numpy as np
import pytest

from headwork.documents.style import PLAIN, Style, style_for
from headwork.readings import explain

CODES = re.compile(r"\x1b\[\d+m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wide_trace(exact: bool = False):
    rows = np.round(np.random.default_rng(0).normal(size=(3, 11)), 2)
    return explain("self-attention", tokens=rows.tolist(), mask="causal", exact=exact)


@pytest.mark.parametrize("style", [Style(), Style(colour=True), Style(width=60)], ids=str)
def test_no_line_is_wider_than_the_screen(style):
    problems = {
        "rotary-positions": {"vectors": "1 2 3 4; 5 6 7 8"},
        "layer-normalisation": {"tokens": "1 2 4; 3 5 8"},
        "attention": {"query": "1 2; 3 40", "key": "5 6; 7 8; 9 1", "value": "1; 2; 3", "beta": "b"},
    }
    traces = [wide_trace(), *(explain(slug, exact=True, **inputs) for slug, inputs in problems.items())]
    for trace in traces:
        for line in trace.to_text(style).splitlines():
            assert len(CODES.sub("", line)) <= style.width, line


def test_a_wide_matrix_is_cut_into_blocks_of_numbered_columns():
    trace = wide_trace()
    text = trace.to_text()
    assert "[,0]" in text
    assert "[,10]" in text
    block = text.split("\n\n")[2].splitlines()
    assert [line.split() for line in block[1:]][4:] == [
        ["[,9]", "[,10]"],
        *([f"{x:.4f}" for x in row] for row in trace["tokens"].values[:, 9:]),
    ]
    assert "[,0]" not in explain("softmax", scores="1 2 3").to_text()


def test_step_names_are_bold_where_colour_is_asked_for():
    trace = explain("softmax", scores="0 1")
    coloured = trace.to_text(Style(colour=True))
    assert "\x1b[1mweights\x1b[0m, 2 (key)" in coloured
    assert CODES.sub("", coloured) == trace.to_text()
    assert "\x1b" not in str(trace)


def test_colour_needs_a_terminal_and_no_refusal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert style_for(io.StringIO()) == PLAIN
    assert style_for(Terminal()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not style_for(Terminal()).colour
    monkeypatch.setenv("COLUMNS", "132")
    assert style_for(Terminal()).width == 132


def test_infinity_is_a_sign_on_screen_and_typed_as_oo():
    trace = explain("attention", query="[[1, 0]]", key="1 0; 0 1", value="1; 2", beta="b", mask="[[1, 0]]")
    assert "-∞" in trace.to_text()
    assert not re.search(r"\boo\b", trace.to_text() + trace.to_html())
    assert '"-oo"' in trace.to_json()
    limit = explain("softmax", scores="0 x").limit("x", "oo")
    assert limit.title == "limit as x -> ∞"
    assert "limit as x -> oo" in limit.to_json()
    assert '.limit(\\"x\\", \\"oo\\")' in limit.to_notebook()


def test_decimals_are_shown_without_sympy():
    program = (
        "import sys, headwork; trace = headwork.explain('softmax', scores='0 1 2'); "
        "[trace.render(name) for name in ('text', 'markdown', 'json', 'latex', 'html')]; "
        "print('sympy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"
