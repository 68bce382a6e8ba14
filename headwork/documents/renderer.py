"""What the formats share: a method per kind of block, and what stands in for one that a format lacks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from headwork.documents import blocks
from headwork.documents.blocks import Formula, Link, as_blocks
from headwork.documents.matrices import matrix_lines
from headwork.documents.pandoc import write_tree
from headwork.documents.writing import definitions


class Renderer(ABC):
    """A format: the method named after a kind of block gives its pieces of text."""

    pandoc_format = "plain"  # its name among pandoc's writers

    def pieces(self, blocks: Iterable[blocks.Block]) -> Iterator[str]:
        """The blocks, one after another."""
        for block in blocks:
            yield from getattr(self, type(block).__name__.lower())(block)

    @abstractmethod
    def text(self, words: str) -> str:
        """Words as they stand in this format: nothing in them is obeyed."""

    @abstractmethod
    def math(self, latex: str) -> str:
        """A formula within a line."""

    def inline(self, words: blocks.Inline) -> str:
        """Words with formulas and links among them."""
        parts = (words,) if isinstance(words, str) else words
        return "".join(map(self._inline, parts))

    def _inline(self, part: str | Formula | Link) -> str:
        if isinstance(part, Link):
            return self.link(part)
        return self.math(part.latex) if isinstance(part, Formula) else self.text(part)

    def link(self, link: Link) -> str:
        """A link; only its words where a format leads nowhere."""
        return self.text(link.text)

    def code(self, block: blocks.Code) -> Iterator[str]:
        """The output of code where there is one, or else the text as it stands."""
        if not block.output:
            yield from self.listing(block.text)
        for part in block.output:
            yield from self.listing(part) if isinstance(part, str) else self.pieces(as_blocks(part))

    def prose(self, block: blocks.Prose) -> Iterator[str]:
        yield self.inline(block.text)

    @abstractmethod
    def listing(self, text: str) -> Iterator[str]:
        """Text whose lines and spaces count."""

    def passage(self, block: blocks.Passage) -> Iterator[str]:
        """What pandoc writes of a passage."""
        yield write_tree(block.tree, self.pandoc_format)

    def slider(self, block: blocks.Slider) -> Iterator[str]:
        yield from self.pieces(block.parts())

    def attention(self, block: "blocks.Attention | blocks.Tints") -> Iterator[str]:
        """What only a page can draw, as a table."""
        yield from self.pieces([blocks.Table("", *block.rows())])

    tints = attention

    def details(self, block: blocks.Details) -> Iterator[str]:
        yield from self.pieces([blocks.Prose(f"{block.summary}:"), *block.blocks])

    def card(self, block: blocks.Card) -> Iterator[str]:
        """An item, and the blocks below it."""
        yield from self.items(blocks.Items((blocks.Item(block.text, block.name, block.verdict, block.good),)))
        yield from self.pieces(block.blocks)

    def notes(self, notes: Iterable[str]) -> Iterator[str]:
        return self.pieces(blocks.Note(text) for text in notes)

    @abstractmethod
    def values(self, block: blocks.Values) -> Iterator[str]: ...

    @abstractmethod
    def items(self, block: blocks.Items) -> Iterator[str]: ...

    @abstractmethod
    def cell(self, cell: Any) -> str:
        """A cell of a table."""


class Typeset(Renderer):
    """A format that sets formulas: values one after another, a table between its title and its notes."""

    widest = math.inf  # points of a matrix; a wider one is broken into blocks of columns

    @abstractmethod
    def strong(self, words: str) -> str:
        """A heading within a part."""

    @abstractmethod
    def display(self, latex: str) -> str:
        """A formula on a line of its own."""

    @abstractmethod
    def opening(self, value: blocks.Value, level: int) -> Iterator[str]:
        """The name of a value, its formula and its size."""

    @abstractmethod
    def grid(self, table: blocks.Table) -> Iterator[str]:
        """The rows of a table under its columns."""

    def values(self, block: blocks.Values) -> Iterator[str]:
        """Title and options, then one value after another, with what to beware of at the end."""
        yield from (self.strong(block.title),) if block.title else ()
        yield from (self.text(block.settings),) if block.options else ()
        for value in block.every():
            yield from self.opening(value, block.level)
            yield from map(self.display, matrix_lines(value, block.whole, self.widest))
            yield from map(self.display, definitions(value, latex=True))
        yield from self.notes(block.warnings)

    def table(self, table: blocks.Table) -> Iterator[str]:
        yield from (self.strong(table.title),) if table.title else ()
        yield from self.grid(table)
        yield from map(self.text, table.notes)
