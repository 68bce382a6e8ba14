"""Text for the terminal: each step with its formula, shape and numbers, within the width of the screen."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np

from headwork.documents import blocks, number_format
from headwork.documents.blocks import Document, select_matrix
from headwork.documents.formulas import plain_formula
from headwork.documents.renderer import Renderer
from headwork.documents.style import PLAIN, Style

MAX_TABLE_WIDTH, MAX_CELL_WIDTH = 160, 32  # characters; in a wider table, long cells wrap
MAX_EXACT_WIDTH = 100  # characters; wider exact rows are listed cell by cell
SUFFIX = ".txt"


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document as text."""
    writer = Text(style)
    head = style.bold(document.title)
    if document.about:
        lines = writer.wrapped(f"{document.title}: {document.about}")
        head = writer.with_bold("\n".join(lines), document.title)
    pieces = (piece.rstrip("\n") for piece in writer.render_blocks(document.blocks))
    return "\n\n".join(piece for piece in (head, *pieces) if piece) + "\n"


class Text(Renderer):
    def __init__(self, style: Style = PLAIN) -> None:
        self.style = style

    def text(self, words: str) -> str:
        return words

    def math(self, latex: str) -> str:
        return plain_formula(latex)

    def cell(self, cell: Any) -> str:
        return " ".join(number_format.cell_text(cell).split())

    def listing(self, text: str) -> Iterator[str]:
        yield text

    def heading(self, block: blocks.Heading) -> Iterator[str]:
        yield self.style.bold(block.text)

    def prose(self, block: blocks.Prose) -> Iterator[str]:
        text = self.inline(block.text)
        yield text if self.style == PLAIN else "\n".join(self.wrapped(text))

    def caution(self, block: blocks.Caution) -> Iterator[str]:
        yield "\n".join(self.wrapped(f"Note: {block.text}", "", "  "))

    def figure_block(self, block: blocks.FigureBlock) -> Iterator[str]:
        yield f"[Figure: {block.alt}] {block.caption}".rstrip()

    def items(self, block: blocks.Items) -> Iterator[str]:
        colours: dict[bool | None, Callable[[str], str]]
        colours = {True: self.style.green, False: self.style.red, None: str}
        width = max((len(item.name) for item in block.items), default=0)
        lines = []
        for item in block.items:
            name = self.style.bold(item.name) + " " * (width - len(item.name))
            parts = [name, colours[item.good](item.verdict), self.inline(item.text)]
            lines += ["  " + "  ".join(part for part in parts if part).rstrip()]
            lines += [f"    {line}" for line in item.more]
        yield "\n".join(lines)

    def verdict_card(self, block: blocks.VerdictCard) -> Iterator[str]:
        head, *inner = super().verdict_card(block)
        lines = [f"    {line}" for piece in inner for line in piece.rstrip().splitlines()]
        yield "\n".join([head, *lines])

    # --- tables ---------------------------------------------------------------------------------

    def table(self, table: blocks.Table) -> Iterator[str]:
        rows = [[self.cell(cell) for cell in row] for row in table.rows]
        cells = [*([list(table.columns)] if any(table.columns) else []), *rows]
        widths = [max((len(row[j]) for row in cells), default=0) for j in range(len(table.columns))]
        lines = [self.style.bold(table.title)] if table.title else []
        numeric = table.numeric()
        if sum(widths) > MAX_TABLE_WIDTH:
            widths = [min(width, MAX_CELL_WIDTH) for width in widths]
        for row in cells:
            wrapped = [wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
            for part in zip_longest(*wrapped, fillvalue=""):
                parts = zip(part, widths, numeric, strict=True)
                lines.append("  ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in parts).rstrip())
        if table.summed:
            lines.insert(-1, "  ".join("-" * width for width in widths))
        yield "\n".join([*lines, *table.notes])

    # --- values ---------------------------------------------------------------------------------

    def values(self, block: blocks.Values) -> Iterator[str]:
        yield "\n".join([*self.wrapped(block.title), *self.wrapped(block.settings, "  ", "  ")])
        for value in block.all_values():
            yield "\n".join([*self._value_heading(value), *self._numbers(value, block.all_cells)])
        yield from self.cautions(block.warnings)

    def _value_heading(self, value: blocks.Value) -> Iterator[str]:
        left, right = plain_formula(value.equation), f"{value.name}, {value.shape_text}"
        if len(left) + 3 + len(right) <= self.style.width:
            yield f"{left}   {self.with_bold(right, value.name)}"
            return
        yield from self.wrapped(left, "", "    ")
        for line in self.wrapped(right, "  ", "    "):
            yield self.with_bold(line, value.name)

    def with_bold(self, line: str, name: str) -> str:
        return line.replace(name, self.style.bold(name), 1)

    def wrapped(self, words: str, indent: str = "", hanging: str = "") -> list[str]:
        width = self.style.width
        return wrap(words, width, initial_indent=indent, subsequent_indent=hanging, break_on_hyphens=False)

    def _numbers(self, value: blocks.Value, all_cells: bool) -> Iterator[str]:
        for caption, index in value.matrices():
            if caption:
                yield f"  {caption}"
            numbers = select_matrix(value.values, index)
            exact = None if value.exact_values is None else select_matrix(value.exact_values, index)
            decimals = number_format.number_texts(numbers if exact is None else exact, value.digits)
            strings = (
                decimals if exact is None else number_format.exact_texts(exact, number_format.with_infinity)
            )
            if np.array_equal(strings, decimals):
                yield from self._table(decimals, all_cells)
            elif self._fits(strings):
                yield from self._table(strings, all_cells)
                if all(number is not None for number in numbers.flat):
                    yield "  ="
                    yield from self._table(decimals, all_cells)
            else:
                yield from self._table(decimals, all_cells)
                for cell in np.ndindex(strings.shape):
                    inner = iter(cell)
                    position = ",".join(str(next(inner) if at is None else at) for at in index)
                    line = f"{plain_formula(value.symbol)}[{position}] = {strings[cell]}"
                    yield from self.wrapped(line, "  ", "      ")
        for line in number_format.definitions(value):
            yield from self.wrapped(line, "  ", "      ")

    def _fits(self, strings: Any) -> bool:
        """Whether exact numbers are short enough for a table."""
        widths = [max(map(len, column)) + 2 for column in np.atleast_2d(strings).T]
        return sum(widths) <= MAX_EXACT_WIDTH and max(widths) <= self.style.width

    def _table(self, strings: Any, all_cells: bool) -> Iterator[str]:
        """Aligned rows; what is wider than the screen is cut into blocks of columns under their numbers."""
        rows = np.atleast_2d(strings)
        down, across = (range(n) if all_cells else number_format.visible_indices(n) for n in rows.shape)
        columns = [["..." if i is None or j is None else rows[i, j] for i in down] for j in across]
        names = ["..." if j is None else f"[,{j}]" for j in across]
        widths = [max(map(len, column)) for column in columns]
        if sum(widths) + 2 * len(widths) <= self.style.width:
            yield from _lines(columns, widths)
            return
        widths = [max(width, len(name)) for width, name in zip(widths, names, strict=True)]
        for part in number_format.column_slices([width + 2 for width in widths], self.style.width):
            yield self.style.dim(next(_lines([[name] for name in names[part]], widths[part])))
            yield from _lines(columns[part], widths[part])


def _lines(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for row in zip(*columns, strict=True):
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
