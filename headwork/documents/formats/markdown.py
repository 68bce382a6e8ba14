"""Markdown, with formulas and matrices between dollar signs."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from headwork.documents import blocks
from headwork.documents.blocks import Document, Formula
from headwork.documents.number_format import cell_text
from headwork.documents.renderer import FormulaRenderer
from headwork.documents.style import PLAIN, Style

# What would become markup: emphasis (_ within a word does not), code, formulas, strike-through; tags and
# entities; links; headings, lists, quotes and rules at the start of a line.
SIGNS = re.compile(
    r"[\\`*$~|]|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(\[:]|<(?=[A-Za-z/!?])|&(?=#?\w+;)"
    r"|^(?=[ >]*(?:#{1,6}\s|[-+=>]))",
    flags=re.MULTILINE,
)
NUMBER = re.compile(r"^([ >]*\d+)([.)]\s)", flags=re.MULTILINE)  # of an item in a list
SUFFIX = ".md"


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document as Markdown."""
    return markdown_text([*document.title_blocks(title=not fragment), *document.blocks])


def markdown_text(blocks: Iterable[blocks.Block]) -> str:
    """Blocks as Markdown.

    >>> print(markdown_text([blocks.Prose(("From ", Formula("Q"), " to a_b, *not* <b>."))]), end="")
    From $Q$ to a_b, \\*not\\* &lt;b>.
    """
    return "\n\n".join(Markdown().render_blocks(blocks)) + "\n"


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> escape_markdown("W_q <img onerror=x> [y](javascript:z) $1 **a** A[0,1]")
    'W_q &lt;img onerror=x> [y]\\\\(javascript:z) \\\\$1 \\\\*\\\\*a\\\\*\\\\* A[0,1]'
    """
    entities = {"<": "&lt;", "&": "&amp;"}
    escaped = SIGNS.sub(lambda match: entities.get(match[0], f"\\{match[0]}"), text)
    return NUMBER.sub(r"\1\\\2", escaped)  # a backslash before a digit would stand there


class Markdown(FormulaRenderer):
    pandoc_format = "gfm"

    def text(self, words: str) -> str:
        return escape_markdown(words)

    def math(self, latex: str) -> str:
        return f"${latex}$"

    def cell(self, cell: Any) -> str:
        if isinstance(cell, Formula):
            return self.math(re.sub(r"(?<!\\)\|", r"\\vert ", cell.latex))  # a bar would end the cell
        if isinstance(cell, (tuple, list)):
            return " × ".join(map(str, cell))
        return self.text(" ".join(cell_text(cell).split()))

    def listing(self, text: str) -> Iterator[str]:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        yield f"{fence}\n{text.rstrip()}\n{fence}"

    def heading(self, block: blocks.Heading) -> Iterator[str]:
        yield f"{'#' * block.level} {self.text(' '.join(block.text.split()))}"

    def caution(self, block: blocks.Caution) -> Iterator[str]:
        yield f"> **Note:** {self.text(block.text)}"

    def figure_block(self, block: blocks.FigureBlock) -> Iterator[str]:
        caption = f": {self.text(block.caption)}" if block.caption else ""
        yield f"*Figure ({self.text(block.alt)})*{caption}"

    def items(self, block: blocks.Items) -> Iterator[str]:
        lines = []
        for item in block.items:
            words = [self.strong(word) for word in (item.name, item.verdict) if word]
            lines.append("- " + " ".join([*words, self.inline(item.text)]).strip())
            lines += [f"  - {self.text(line)}" for line in item.more]
        yield "\n".join(lines)

    def grid(self, table: blocks.Table) -> Iterator[str]:
        rule = "|" + "".join("---:|" if right else "---|" for right in table.numeric())
        rows = [[self.cell(cell) for cell in row] for row in table.rows]
        lines = [f"| {' | '.join(row)} |" for row in ([self.cell(name) for name in table.columns], *rows)]
        yield "\n".join([lines[0], rule, *lines[1:]])

    def strong(self, words: str) -> str:
        return f"**{self.text(words)}**"

    def display(self, latex: str) -> str:
        return f"$$\n{latex}\n$$"

    def value_heading(self, value: blocks.Value, level: int) -> Iterator[str]:
        yield from self.heading(blocks.Heading(value.name, level))
        yield f"{self.math(value.equation)}: {self.text(value.shape_text.replace(' x ', ' × '))}"
