"""A trace as Markdown, with formulas and matrices between dollar signs."""

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
    if options := options_text(trace):
        yield f"\n{options}"
    for value in trace.everything():
        formula = f" = {value.formula}" if value.formula else ""
        yield f"\n## {value.path}\n"
        yield f"${value.symbol}{formula}$: {sizes_in_words(value.shape, ' '.join(value.axes))}"
        for caption, matrix in value.matrices():
            if caption:
                yield f"\n{caption}"
            yield f"\n$$\n{matrix_latex(matrix, trace)}\n$$"
    for warning in trace.warnings:
        yield f"\n> **Note:** {warning}"
