"""A trace as Markdown, with formulas and matrices between dollar signs."""

from __future__ import annotations

from collections.abc import Iterator

from headwork.errors import sizes_in_words
from headwork.readings.latex import matrix_latex
from headwork.readings.terminal import options_text
from headwork.readings.trace import Trace


def markdown(trace: Trace) -> str:
    """The whole trace as Markdown."""
    return "\n".join(_lines(trace)) + "\n"


def _lines(trace: Trace) -> Iterator[str]:
    yield f"# {trace.mechanism.slug}"
    yield f"\n{trace.mechanism.about}"
    if trace.title:
        yield f"\n**{trace.title}**"
    if told := options_text(trace):
        yield f"\n{told}"
    for noted in trace.everything():
        formula = f" = {noted.formula}" if noted.formula else ""
        yield f"\n## {noted.path}\n"
        yield f"${noted.symbol}{formula}$: {sizes_in_words(noted.shape, ' '.join(noted.axes))}"
        for caption, matrix in noted.matrices():
            if caption:
                yield f"\n{caption}"
            yield f"\n$$\n{matrix_latex(matrix, trace)}\n$$"
    for warning in trace.warnings:
        yield f"\n> **Careful:** {warning}"
