"""HTML: a page that opens offline, nothing fetched from elsewhere; or a fragment for a notebook.

Of values, what stays the same from frame to frame (cards, formulas, shapes) is markup; what changes (numbers,
tints, arithmetic) is numbered cell by cell, in the order in which the page shows them, and kept once.
"""

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from headwork.documents import blocks, number_format
from headwork.documents.blocks import CellIndex, Document, Formula, block_kind
from headwork.documents.formulas import mathml, plain_formula
from headwork.documents.page_templates import read_asset, render_template, script_data
from headwork.documents.pandoc import with_pictures, write_tree
from headwork.documents.plots import figure_svg
from headwork.documents.renderer import Renderer
from headwork.documents.style import PLAIN, Style, escape_controls
from headwork.documents.token_views import AttentionView, TokenHeatmaps

STYLES = ("page.css", "trace.css", "attention.css")
SCRIPTS = ("heat.js", "flow.js", "typeset.js", "copy.js", "cells.js", "attention.js")
MAX_PARTS = 12  # unfolded in one page
MAX_CARDS = 120  # inputs and steps shown
MAX_MATRICES = 16  # of one value: its heads, channels or times
MAX_SOURCES = 20_000  # cells looked up for the arithmetic of one page; the rest has none
MAX_CHARACTERS = 600_000  # of arithmetic in one page
MAX_HEAT = 90_000  # cells of heat maps in one page; further matrices are shown in part
LONGEST_ARITHMETIC = 4_000  # of one cell

HINT = (
    "Point at a cell, tap it, or use the arrow keys: its arithmetic appears below, and the cells that it "
    "comes from light up."
)
IN_PART = "Shown in part; the whole is in the JSON (--as json)."
SUFFIX = ".html"


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document as a whole page, or as a fragment: styles that stay inside, no script
    but that of drawn tokens."""
    html = Html(interactive=not fragment)
    head = [blocks.Heading(document.title, 3)] if fragment and document.title else []
    before, sections = (document.blocks, ()) if fragment else _fold_sections(document.blocks)
    html.contents += [(section.anchor, section.summary) for section in sections]
    body = Markup("\n").join(html.render_blocks([*head, *before, *sections]))
    if fragment:
        if html.has_token_view:  # the one part of a notebook's output that answers to the pointer
            body += Markup("<script>{}</script>").format(read_asset("attention.js"))
        styles = Markup("").join(map(read_asset, STYLES[1:] if html.has_token_view else STYLES[1:2]))
        return f"<div><style>\n{styles}</style>\n{body}</div>"
    return page(document.title, body, document.about, html.contents)


def _fold_sections(shown: Sequence[blocks.Block]) -> tuple[Sequence[blocks.Block], Sequence[blocks.Details]]:
    """What stands before the first section, and, where there are many sections, each folded under its
    heading.
    """
    heads = [
        (i, b) for i, b in enumerate(shown) if isinstance(b, blocks.Heading) and b.level == 2 and b.anchor
    ]
    if len(heads) <= MAX_PARTS:
        return shown, ()
    ends = [*(i for i, _ in heads[1:]), len(shown)]
    parts = [(head, tuple(shown[i + 1 : end])) for (i, head), end in zip(heads, ends, strict=True)]
    return shown[: heads[0][0]], [blocks.Details(head.text, part, head.anchor) for head, part in parts]


def page(title: str, body: Markup, about: str = "", contents: Sequence[tuple[str, str]] = ()) -> str:
    """A whole page that opens offline; of several parts it lists the contents, each by anchor and words.

    >>> "<h1>A &lt; B</h1>" in page("A < B", Markup("<p>Some words.</p>"))
    True
    """
    assets = {"style": STYLES, "script": SCRIPTS}
    data: dict[str, Any] = {name: Markup("").join(map(read_asset, files)) for name, files in assets.items()}
    data |= {"title": title or "Headwork", "about": about, "contents": contents, "body": body}
    return escape_controls(str(render_template("page.html", **data)), colour=False)


def blocks_markup(blocks: Iterable[blocks.Block]) -> Markup:
    """Blocks as they stand in a page.

    >>> print(blocks_markup([blocks.Prose("1 < 2")]), end="")
    <p>1 &lt; 2</p>
    """
    return Markup("\n").join(Html().render_blocks(blocks))


class Html(Renderer):
    """Most kinds of block are written by the template; ``interactive`` adds the arithmetic of cells."""

    def __init__(self, interactive: bool = True) -> None:
        self.interactive = interactive
        self.contents: list[tuple[str, str]] = []  # the parts: anchor and words
        self.has_token_view = False  # whether there are tokens to draw

    def text(self, words: str) -> Markup:
        return escape(words)

    def math(self, latex: str) -> Markup:
        return mathml(latex)

    def link(self, link: blocks.Link) -> Markup:
        return Markup('<a href="{}">{}</a>').format(link.target, link.text)

    def inline(self, words: Any) -> Markup:
        return Markup(super().inline(words))

    def cell(self, cell: Any) -> Markup:
        if isinstance(cell, Formula):
            return mathml(cell.latex)
        if isinstance(cell, blocks.Link):
            return self.link(cell)
        if isinstance(cell, blocks.BadgeRow):
            badges = Markup("").join(map(self.cell, cell.badges))
            return Markup('<span class="strip">{}</span>').format(badges)
        if isinstance(cell, blocks.Badge):
            about = Markup(' title="{}"').format(cell.about) if cell.about else ""
            return Markup('<span class="mark {}"{}>{}</span>').format(cell.tone, about, cell.text)
        if isinstance(cell, blocks.Bar):
            bar = Markup('<span class="share"><i style="--share:{:.3f}"></i>{}</span>')
            return bar.format(cell.share, cell.text)
        return escape(number_format.cell_text(cell))

    def listing(self, text: str) -> Iterator[Markup]:
        yield Markup("<pre>{}</pre>").format(text.rstrip("\n"))

    def template(self, block: Any) -> Iterator[Markup]:
        kind = block_kind(block)
        yield render_template("blocks.html", kind=kind, block=block, html=self, figure_svg=figure_svg)

    def heading(self, block: blocks.Heading) -> Iterator[Markup]:
        if block.level == 2 and self.interactive:
            block = replace(block, anchor=block.anchor or f"part-{len(self.contents) + 1}")
            self.contents.append((block.anchor, block.text))
        yield from self.template(block)

    prose = caution = figure_block = details = verdict_card = items = table = template

    def attention_view(self, block: AttentionView | TokenHeatmaps) -> Iterator[Markup]:
        self.has_token_view = True
        data = script_data(block.as_data()) if isinstance(block, AttentionView) else ""
        yield render_template("attention.html", kind=block_kind(block), block=block, data=data)

    token_heatmaps = attention_view

    def pandoc_text(self, block: blocks.PandocText) -> Iterator[Markup]:
        yield Markup(write_tree(with_pictures(block.tree, block.pictures), "html", "--mathml"))

    def values(self, block: blocks.Values) -> Iterator[Markup]:
        yield values_markup([block], interactive=self.interactive)

    def slider(self, block: blocks.Slider) -> Iterator[Markup]:
        if self.interactive:
            yield values_markup(block.frames, block)
        else:
            yield from self.values(block.frames[block.start])


# --- values: cards with their matrices ------------------------------------------------------------
@dataclass(frozen=True)
class CellContent:
    """One cell: its decimals, its exact form where that differs, and its heat from -1 to 1.

    A cell without heat (a symbol) stays blank behind; ``not_finite`` marks what is no finite number.
    """

    decimal: str
    exact: Markup = field(default_factory=Markup)
    heat: float | None = None
    not_finite: bool = False


@dataclass(frozen=True)
class Matrix:
    """One matrix of a value: its caption, axes, the rows and columns shown, and whether as a picture."""

    caption: str
    index: tuple[int | None, ...]
    axes: tuple[str, ...]
    rows: Sequence[int | None]
    columns: Sequence[int | None]
    as_heatmap: bool = False

    def cells(self) -> list[list[CellIndex | None]]:
        """The index of each cell in the whole value, row by row; None stands for those left out."""
        return [[self._cell(row, column) for column in self.columns] for row in self.rows]

    def _cell(self, row: int | None, column: int | None) -> CellIndex | None:
        if row is None or column is None:
            return None
        within = iter((row, column)[2 - len(self.axes) :])
        return tuple(next(within) if at is None else at for at in self.index)


@dataclass(frozen=True)
class ValueCard:
    """A value with the matrices of it that are shown."""

    value: blocks.Value
    matrices: list[Matrix]
    all_cells: bool

    @classmethod
    def from_value(cls, value: blocks.Value, all_cells: bool, cells_left: int) -> "ValueCard":
        """What is too large for a table is a heat map, of its cells while so many are left."""
        every = list(value.matrices())
        in_heatmap = not all_cells and value.values.size <= cells_left and None not in list(value.values.flat)
        visible = [every[i] for i in number_format.visible_indices(len(every), MAX_MATRICES) if i is not None]
        matrices = []
        for caption, index in visible:
            shape = [size for size, at in zip(value.values.shape, index, strict=True) if at is None]
            down, across = (1, 1, *shape)[-2:]
            heat = in_heatmap and max(down, across) > number_format.MAX_SHOWN
            shown = range if all_cells or heat else number_format.visible_indices
            axes = value.matrix_axes(index)
            matrices.append(Matrix(caption, index, axes, shown(down), shown(across), heat))
        complete = all(None not in (*m.rows, *m.columns) for m in matrices) and len(visible) == len(every)
        return cls(value, matrices, complete)

    def cells(self) -> Iterator[tuple[CellIndex, bool]]:
        """Every cell that is shown, in order, and whether as a part of a heat map."""
        for matrix in self.matrices:
            yield from ((i, matrix.as_heatmap) for row in matrix.cells() for i in row if i is not None)


def values_markup(
    frames: Sequence[blocks.Values], slider: blocks.Slider | None = None, *, interactive: bool = True
) -> Markup:
    """Values as a section of cards; several frames under a slider."""
    start = slider.start if slider else 0
    block = frames[start]
    interactive = interactive and block.arithmetic is not None
    every = block.all_values()
    visible = [every[i] for i in number_format.visible_indices(len(every), MAX_CARDS) if i is not None]
    cards: list[ValueCard] = []
    cells_left = MAX_HEAT // len(frames) if interactive else 0
    for value in visible:
        cards.append(ValueCard.from_value(value, block.all_cells, cells_left))
        cells_left -= sum(heat for _, heat in cards[-1].cells())
    frame = Frame(block, cards)
    data, has_exact = Markup(), False
    if interactive:
        records = CellRecords(cards, list(block.options))
        number_frames = [frame if other is block else Frame(other, cards, frame.scales) for other in frames]
        contents = [records.frame(one, MAX_SOURCES / len(frames)) for one in number_frames]
        labels = list(slider.labels) if slider else []
        stored = {"records": list(records.record_ids), "frames": contents, "start": start, "labels": labels}
        data = script_data(stored)
        has_exact = any(record[0] and record[1] for record in records.record_ids)
    names = {card.value.name: card for card in cards}
    left_out = len(every) - len(cards)
    return render_template(
        "trace.html",
        block=block,
        frame=frame,
        groups=[(title, [names[v.name] for v in vs if v.name in names]) for title, vs in block.groups],
        mathml=mathml,
        plain=plain_formula,
        definitions=number_format.definitions,
        in_part=IN_PART,
        left_out=f"{left_out} steps are left out. {IN_PART}" if left_out else "",
        hint=HINT if interactive else "",
        slider=slider,
        has_exact=has_exact,
        data=data,
    )


# --- numbers ------------------------------------------------------------------------------------
class Frame:
    """The numbers of every card of one block of values."""

    def __init__(
        self, block: blocks.Values, cards: list[ValueCard], scales: dict[str, float] | None = None
    ) -> None:
        self.block = block
        by_name = {value.name: value for value in block.all_values()}
        self.values = {card.value.name: by_name[card.value.name] for card in cards}
        self.scales = scales or {name: _scale(value) for name, value in self.values.items()}
        self.entries = {
            card.value.name: {
                index: self._entry(card.value.name, index, *flag) for index, *flag in card.cells()
            }
            for card in cards
        }

    def grid(self, card: ValueCard, matrix: Matrix) -> list[list[CellContent | None]]:
        """The entries of one matrix, row by row."""
        entries = self.entries[card.value.name]
        return [[None if index is None else entries[index] for index in row] for row in matrix.cells()]

    def _entry(self, name: str, index: CellIndex, in_heatmap: bool) -> CellContent:
        value = self.values[name]
        number = value.values[index]
        tint = None if self.block.arithmetic is None else number_format.heat(number, self.scales[name])
        if number is None or math.isfinite(number):
            decimal = "" if number is None else number_format.number_text(number, value.digits)
            exact = None if in_heatmap or value.exact_values is None else value.exact_values[index]
            form = Markup("") if exact is None else _exact_form(exact, decimal)
            return CellContent(decimal, form, tint)
        return CellContent(number_format.number_text(number, value.digits), not_finite=True)


def _scale(value: blocks.Value) -> float:
    """What full tint means: the largest finite number; weights are shares of 1."""
    sizes = (abs(float(x)) for x in value.values.flat if x is not None)
    least = float(value.name.rpartition("/")[2] == "weights")
    return max([least, *(size for size in sizes if size < math.inf)])


def _exact_form(value: Any, decimal: str) -> Markup:
    """An exact number as a formula; nothing where its decimals say as much or it is too long for a cell."""
    from headwork.numbers.exact import exact_latex, exact_text

    if decimal and value.is_Integer:
        return Markup("")
    text = exact_text(value)
    if decimal and len(text) > number_format.LONGEST_EXACT:
        return Markup("")
    if len(text) > number_format.LONGEST_EXACT:
        return Markup("{}…").format(text[: number_format.LONGEST_EXACT // 2])
    return mathml(exact_latex(value))


class CellRecords:
    """The texts of each cell, stored once however often they occur; a frame is a list of their ids.

    A record is (decimal, exact form, heat or "odd", arithmetic, the same in names, numbers of its sources);
    a cell of a heat map without arithmetic has none.
    """

    def __init__(self, cards: list[ValueCard], options: Sequence[str]) -> None:
        self.record_ids: dict[Any, int] = {}
        self.characters = 0
        self.cards = cards
        cells: list[tuple[str, CellIndex]] = [(name, ()) for name in options]
        cells += [(card.value.name, index) for card in cards for index, _ in card.cells()]
        self.cell_numbers = {index: number for number, index in enumerate(cells)}

    def _record_id(self, record: Any) -> int:
        return self.record_ids.setdefault(record, len(self.record_ids))

    def frame(self, frame: Frame, budget: float) -> dict[str, Any]:
        """One frame, options first, then every cell in the page's order."""
        block = frame.block
        cells = [self._record_id((value, "", None, "", "", ())) for value in block.options.values()]
        numbers: list[Any] = [None] * len(cells)  # in full precision, for those who copy them
        for left, card in zip(range(len(self.cards), 0, -1), self.cards, strict=True):
            name = card.value.name
            # What one card leaves of its part goes to those after it.
            stop = budget - budget / left
            for index, in_heatmap in card.cells():
                entry = frame.entries[name][index]
                numbers.append(frame.values[name].values[index])
                arithmetic: tuple[Any, ...] = ("", "", ())  # the page names the cell and what it shows
                if block.arithmetic and budget > stop and self.characters < MAX_CHARACTERS:
                    cell = block.arithmetic(name, index)
                    sources = tuple(self.cell_numbers[s] for s in cell.sources if s in self.cell_numbers)
                    arithmetic = (_cut(cell.text), _cut(cell.in_names), sources)
                    budget -= 4 + len(cell.sources)  # how many cells that took
                    self.characters += len(arithmetic[0]) + len(arithmetic[1])
                elif in_heatmap:
                    cells.append(-1)  # the page makes it from the number
                    continue
                tint = "odd" if entry.not_finite else entry.heat
                cells.append(self._record_id((entry.decimal, str(entry.exact), tint, *arithmetic)))
        step_names = [card.value.name for card in self.cards if not card.value.shown_with_step]
        return {
            "cells": cells,
            "numbers": b64encode(np.array(numbers, "<f8").tobytes()).decode(),
            "formulas": [mathml(frame.values[name].equation) for name in step_names],
            "warnings": block.warnings,
            "title": block.title,
        }


def _cut(text: str) -> str:
    longest = LONGEST_ARITHMETIC
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 4 :]}"
