"""What the formats share: a method per kind of block, and what stands in for one that a format lacks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from headwork.documents import blocks
from headwork.documents.blocks import Formula, Link, Value, as_blocks, block_kind, select_matrix
from headwork.documents.formulas import plain_formula
from headwork.documents.number_format import (
    LONGEST_EXACT,
    column_slices,
    definitions,
    number_latex,
    visible_indices,
)
from headwork.documents.pandoc import write_tree
from headwork.numbers.operations import map_cells

LETTER_WIDTH = 5.3  # points: a letter, roughly


class Renderer(ABC):
    """A format: the method named after a kind of block gives its pieces of text."""

    pandoc_format = "plain"  # its name among pandoc's writers

    def render_blocks(self, parts: Iterable[blocks.Block]) -> Iterator[str]:
        """The blocks, one after another."""
        for block in parts:
            yield from getattr(self, block_kind(block))(block)

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
            yield from self.listing(part) if isinstance(part, str) else self.render_blocks(as_blocks(part))

    def prose(self, block: blocks.Prose) -> Iterator[str]:
        yield self.inline(block.text)

    @abstractmethod
    def listing(self, text: str) -> Iterator[str]:
        """Text whose lines and spaces count."""

    def pandoc_text(self, block: blocks.PandocText) -> Iterator[str]:
        """What pandoc writes of a passage."""
        yield write_tree(block.tree, self.pandoc_format)

    def slider(self, block: blocks.Slider) -> Iterator[str]:
        yield from self.render_blocks(block.parts())

    def attention_view(self, block: "blocks.AttentionView | blocks.TokenHeatmaps") -> Iterator[str]:
        """What only a page can draw, as a table."""
        yield from self.render_blocks([blocks.Table("", *block.rows())])

    token_heatmaps = attention_view

    def details(self, block: blocks.Details) -> Iterator[str]:
        yield from self.render_blocks([blocks.Prose(f"{block.summary}:"), *block.blocks])

    def verdict_card(self, block: blocks.VerdictCard) -> Iterator[str]:
        """An item, and the blocks below it."""
        yield from self.items(blocks.Items((blocks.Item(block.text, block.name, block.verdict, block.good),)))
        yield from self.render_blocks(block.blocks)

    def cautions(self, texts: Iterable[str]) -> Iterator[str]:
        return self.render_blocks(blocks.Caution(text) for text in texts)

    @abstractmethod
    def values(self, block: blocks.Values) -> Iterator[str]: ...

    @abstractmethod
    def items(self, block: blocks.Items) -> Iterator[str]: ...

    @abstractmethod
    def cell(self, cell: Any) -> str:
        """A cell of a table."""


class FormulaRenderer(Renderer):
    """A format that sets formulas: values one after another, a table between its title and its notes."""

    max_width = math.inf  # points of a matrix; a wider one is broken into blocks of columns

    @abstractmethod
    def strong(self, words: str) -> str:
        """A heading within a part."""

    @abstractmethod
    def display(self, latex: str) -> str:
        """A formula on a line of its own."""

    @abstractmethod
    def value_heading(self, value: blocks.Value, level: int) -> Iterator[str]:
        """The name of a value, its formula and its size."""

    @abstractmethod
    def grid(self, table: blocks.Table) -> Iterator[str]:
        """The rows of a table under its columns."""

    def values(self, block: blocks.Values) -> Iterator[str]:
        """Title and options, then one value after another, with what to beware of at the end."""
        yield from (self.strong(block.title),) if block.title else ()
        yield from (self.text(block.settings),) if block.options else ()
        for value in block.all_values():
            yield from self.value_heading(value, block.level)
            yield from map(self.display, matrix_lines(value, block.all_cells, self.max_width))
            yield from map(self.display, definitions(value, latex=True))
        yield from self.cautions(block.warnings)

    def table(self, table: blocks.Table) -> Iterator[str]:
        yield from (self.strong(table.title),) if table.title else ()
        yield from self.grid(table)
        yield from map(self.text, table.notes)


# --- matrices as formulas: exact and in decimals, in as many parts as fit a line -----------------
def matrix_lines(value: Value, all_cells: bool, max_width: float) -> Iterator[str]:
    """Each matrix in as many formulas as it takes: exact and decimals on a line, or blocks of columns."""
    for caption, index in value.matrices():
        name = [rf"\text{{{caption}: }} ".replace("_", r"\_")] if caption else []
        parts = [_truncated(cells, all_cells) for cells in _number_forms(value, index)]
        if sum(sum(_widths(cells)) for cells in parts) <= max_width:
            yield "".join([*name, r" \approx ".join(map(_bmatrix, parts))])
            continue
        for number, cells in enumerate(parts):
            relation = [r"\approx "] if number else []
            spans = list(column_slices(_widths(cells), max_width))
            for span in spans:
                columns = rf"\text{{columns {span.start} to {span.stop - 1}: }} "
                label = [columns] if len(spans) > 1 else []
                yield "".join([*name, *relation, *label, _bmatrix([row[span] for row in cells])])


def _widths(cells: Sequence[Sequence[str]]) -> list[float]:
    """Roughly how wide the columns are, in points, and rather more."""
    return [
        LETTER_WIDTH * (2 + max(len(plain_formula(cell)) for cell in column))
        for column in zip(*cells, strict=True)
    ]


def _number_forms(value: Value, index: tuple[int | None, ...]) -> list[Any]:
    """The numbers of a matrix in LaTeX: exact, and in decimals where those say more."""
    numbers = np.atleast_2d(select_matrix(value.values, index))
    format_number = partial(number_latex, digits=value.digits)
    if value.exact_values is None:
        return [map_cells(format_number, numbers)]
    exact = np.atleast_2d(select_matrix(value.exact_values, index))
    first = np.vectorize(partial(_number, digits=value.digits), [object])(exact, numbers)
    if any(x is None for x in numbers.flat) or all(x.is_Integer or x.is_infinite for x in exact.flat):
        return [first]
    return [first, map_cells(format_number, numbers)]


def _number(value: Any, decimal: Any, digits: int) -> str:
    """An exact number, by its decimals where it is too long for a cell."""
    from headwork.numbers.exact import exact_text

    too_long = decimal is not None and len(exact_text(value)) > LONGEST_EXACT
    return number_latex(decimal if too_long else value, digits)


def _truncated(cells: Any, all_cells: bool) -> list[list[str]]:
    rows, columns = (range(n) if all_cells else visible_indices(n) for n in cells.shape)
    return [[r"\cdots" if i is None or j is None else cells[i, j] for j in columns] for i in rows]


def _bmatrix(cells: Sequence[Sequence[str]]) -> str:
    return "\\begin{bmatrix}\n" + " \\\\\n".join(" & ".join(row) for row in cells) + "\n\\end{bmatrix}"
