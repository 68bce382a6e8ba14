"""A trace as HTML: a page that opens offline, a block for a report, a fragment for a notebook.

What stays the same from frame to frame (cards, formulas, shapes) is markup; what changes (numbers, tints,
arithmetic) is numbered cell by cell, in the order in which the page shows them, and kept once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from headwork.errors import InputError, sizes_in_words
from headwork.pages import Entry, Grid, mathml, matrix_table, page, render, script_data, visible_indices
from headwork.pages.formulas import plain_formula
from headwork.pages.matrices import heat
from headwork.pages.page import read_asset
from headwork.readings.terminal import option_texts
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text, with_infinity

CellIndex = tuple[int, ...]  # of a cell in a whole value as shown

MAX_CARDS = 120  # inputs and steps shown
MAX_MATRICES = 16  # of one value: its heads, channels or times
MAX_SOURCES = 20_000  # cells looked up for the arithmetic of one page; the rest has none
MAX_CHARACTERS = 900_000  # of arithmetic in one page
LONGEST_ARITHMETIC = 4_000  # of one cell
LONGEST_VALUE = 400  # of one cell without its arithmetic
LONGEST_EXACT = 60  # characters of an exact form that still fits into a cell

HINT = (
    "Point at a cell, tap it, or use the arrow keys: its arithmetic appears below, and the cells that it "
    "comes from light up."
)
IN_PART = "Shown in part; the whole is in the JSON (--as json)."


@dataclass(frozen=True)
class Matrix:
    """One matrix of a value: which rows and columns are shown, and the index of each cell in the whole."""

    value: TraceValue
    caption: str

    @property
    def rows(self) -> Sequence[int | None]:
        return visible_indices(self.value.shape[0]) if len(self.value.shape) > 1 else (0,)

    @property
    def columns(self) -> Sequence[int | None]:
        return visible_indices(self.value.shape[-1]) if self.value.shape else (0,)

    def cell_index(self, row: int | None, column: int | None) -> CellIndex | None:
        """The index of a cell in the whole value as shown."""
        if row is None or column is None:
            return None
        within = (row, column)[2 - len(self.value.shape) :]
        return self.value.full_index(self.value.raw_index(within))

    def cell_indices(self) -> list[list[CellIndex | None]]:
        """The indices of the cells row by row; None stands for those left out."""
        return [[self.cell_index(row, column) for column in self.columns] for row in self.rows]

    def grid(self, entries: dict[CellIndex, Entry]) -> Grid:
        axes = self.value.axes
        return Grid(
            cells=[[None if p is None else entries[p] for p in row] for row in self.cell_indices()],
            rows=self.rows if len(axes) > 1 else (),
            columns=self.columns if axes else (),
            row_axis=axes[0] if len(axes) > 1 else "",
            column_axis=axes[-1] if axes else "",
            label=self.value.path,
            caption=self.caption,
        )


@dataclass(frozen=True)
class Card:
    """One input or step with the matrices of it that are shown."""

    value: TraceValue
    matrices: list[Matrix]
    whole: bool

    def cell_indices(self) -> Iterator[CellIndex]:
        rows = (row for matrix in self.matrices for row in matrix.cell_indices())
        return (index for row in rows for index in row if index is not None)


def _card(value: TraceValue) -> Card:
    every = [Matrix(matrix, caption) for caption, matrix in value.matrices()]
    visible = [every[i] for i in visible_indices(len(every), MAX_MATRICES) if i is not None]
    whole = len(visible) == len(every) and all(None not in (*m.rows, *m.columns) for m in visible)
    return Card(value, visible, whole)


# --- numbers ------------------------------------------------------------------------------------
class Frame:
    """One trace read once: the numbers of every card, exact ones tidied."""

    def __init__(self, trace: Trace, cards: list[Card]) -> None:
        self.trace = trace
        self._entries: dict[str, dict[CellIndex, Entry]] = {}
        values = {card.value.path: trace[card.value.path] for card in cards}
        self.exact = {path: value.exact for path, value in values.items()}
        self.values = {path: value.values for path, value in values.items()}

    def scales(self) -> dict[str, float]:
        """What full tint means for each value: its largest finite number; weights are shares of 1."""
        scales = {}
        for path, values in self.values.items():
            sizes = (abs(float(x)) for x in values.flat if x is not None)
            least = float(path.rpartition("/")[2] == "weights")
            scales[path] = max([least, *(size for size in sizes if size < np.inf)])
        return scales

    def entries(self, card: Card, largest: float) -> dict[CellIndex, Entry]:
        """The visible cells of one value by their index."""
        path = card.value.path
        if path not in self._entries:
            self._entries[path] = {index: self._entry(path, index, largest) for index in card.cell_indices()}
        return self._entries[path]

    def _entry(self, path: str, index: CellIndex, largest: float) -> Entry:
        exact, number = self.exact[path], self.values[path][index]
        if number is None or np.isfinite(number):
            decimal = "" if number is None else number_text(number, self.trace.digits)
            form = Markup("") if exact is None else _exact_form(exact[index], decimal)
            return Entry(decimal, form, heat(number, largest))
        return Entry(number_text(number, self.trace.digits), odd=True)

    def name_and_value(self, path: str, index: CellIndex) -> str:
        """A cell's name and value, without its arithmetic."""
        from headwork.numbers.exact import exact_text

        exact, number = self.exact[path], self.values[path][index]
        name = f"{plain_formula(self.trace[path].symbol)}[{','.join(map(str, index))}]"
        texts = [name, *([] if exact is None else [with_infinity(exact_text(exact[index]))])]
        return " = ".join([*texts, *([] if number is None else [number_text(number, self.trace.digits)])])


def _exact_form(value: Any, decimal: str) -> Markup:
    """An exact number as a formula; nothing where its decimals say as much or it is too long for a cell."""
    from headwork.numbers.exact import exact_latex, exact_text

    if decimal and value.is_Integer:
        return Markup("")
    text = exact_text(value)
    if decimal and len(text) > LONGEST_EXACT:
        return Markup("")
    if len(text) > LONGEST_EXACT:
        return Markup("{}…").format(text[: LONGEST_EXACT // 2])
    return mathml(exact_latex(value))


class Records:
    """The texts of each cell, stored once however often they occur; a frame is a list of their numbers.

    A record is (decimal, exact form, heat or "odd", arithmetic, the same in names, numbers of its sources).
    """

    def __init__(self, cards: list[Card], options: Sequence[str]) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.characters = 0
        self.cards = cards
        cells = [(name, ()) for name in options] + [
            (c.value.path, index) for c in cards for index in c.cell_indices()
        ]
        self.order: dict[tuple[str, CellIndex], int] = {index: number for number, index in enumerate(cells)}

    def _number(self, *record: Any) -> int:
        return self.numbers.setdefault(record, len(self.numbers))

    def frame(self, frame: Frame, scales: dict[str, float], budget: float) -> dict[str, Any]:
        """One frame, options first, then every cell in the page's order."""
        trace = frame.trace
        cells = [self._number(value, "", None, "", "", ()) for value in option_texts(trace).values()]
        for left, card in zip(range(len(self.cards), 0, -1), self.cards, strict=True):
            path = card.value.path
            # What one card leaves of its part goes to those after it.
            stop = budget - budget / left
            for index, entry in frame.entries(card, scales[path]).items():
                if budget > stop and self.characters < MAX_CHARACTERS:
                    arithmetic, names, sources, cost = self._arithmetic(trace, path, index)
                    budget -= cost
                else:
                    arithmetic = _cut(frame.name_and_value(path, index), LONGEST_VALUE)
                    names, sources = "", ()
                self.characters += len(arithmetic) + len(names)
                tint = "odd" if entry.odd else entry.heat
                cells.append(self._number(entry.decimal, str(entry.exact), tint, arithmetic, names, sources))
        formulas = [_formula(trace[card.value.path]) for card in self.cards]
        return {"cells": cells, "formulas": formulas, "warnings": trace.warnings, "title": trace.title}

    def _arithmetic(self, trace: Trace, path: str, index: CellIndex) -> tuple[str, str, tuple[int, ...], int]:
        """The arithmetic of a cell in numbers and in names, its sources, and how many cells that took."""
        cell = trace.cell(path, *index)
        sources = tuple(self.order[source] for source in cell.sources if source in self.order)
        names = "" if cell.in_names in (cell.in_numbers, cell.exact) else f"{cell.name} = {cell.in_names}"
        return _cut(str(cell)), _cut(names), sources, 4 + len(cell.sources)


def _cut(text: str, longest: int = LONGEST_ARITHMETIC) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 4 :]}"


# --- pages --------------------------------------------------------------------------------------
def html(
    frames: list[Trace] | Trace, slider: list[str] | None = None, *, name: str = "", start: int = 0
) -> str:
    """A whole page; with ``slider``, one label per frame, it has a slider ``name`` that begins at ``start``.

    >>> from headwork.readings import explain
    >>> "<math>" in html(explain("softmax", scores="0 1", exact=True))
    True
    """
    frames = [frames] if isinstance(frames, Trace) else frames
    trace = frames[start]
    title = f"{trace.mechanism.slug}: {name} on a slider" if slider else trace.mechanism.slug
    return page(
        title, trace_block(frames, slider, name=name, start=start, level=2), about=trace.mechanism.about
    )


def trace_block(
    frames: list[Trace], slider: list[str] | None = None, *, name: str = "", start: int = 0, level: int = 3
) -> Markup:
    """A trace as one block of a page; ``level`` is that of its headings."""
    cards = _cards(frames[start])
    _check_alike(frames, name)
    read = [Frame(trace, cards) for trace in frames]
    scales = read[start].scales()
    records = Records(cards, list(option_texts(frames[start])))
    contents = [records.frame(frame, scales, MAX_SOURCES / len(frames)) for frame in read]
    position = {"start": start, "labels": [with_infinity(label) for label in slider or []]}
    more = {
        "data": script_data({"records": list(records.numbers), "frames": contents, **position}),
        "slider": {"name": name, **position} if slider else None,
        "has_exact": any(decimal and exact for decimal, exact, *_ in records.numbers),
    }
    return _block(read[start], cards, scales, level=level, hint=HINT, **more)


def notebook_fragment(trace: Trace) -> str:
    """A trace as a fragment for a notebook: styles that stay inside, no script.

    >>> from headwork.readings import explain
    >>> "<script" in notebook_fragment(explain("softmax", scores="0 1"))
    False
    """
    cards = _cards(trace)
    frame = Frame(trace, cards)
    return str(_block(frame, cards, frame.scales(), level=4, styled=read_asset("trace.css")))


def _cards(trace: Trace) -> list[Card]:
    every = list(trace.everything())
    return [_card(every[i]) for i in visible_indices(len(every), MAX_CARDS) if i is not None]


def _formula(value: TraceValue) -> Markup:
    return mathml(f"{value.symbol} = {value.formula}" if value.formula else value.symbol)


def _block(frame: Frame, cards: list[Card], scales: dict[str, float], *, level: int, **more: Any) -> Markup:
    """The markup of one frame, with what the template needs."""
    trace = frame.trace

    def contents(card: Card) -> dict[str, Any]:
        value = card.value
        numbers = frame.entries(card, scales[value.path])
        return {
            "formula": _formula(value),
            "path": value.path,
            "words": sizes_in_words(value.shape, " ".join(value.axes)).replace(" x ", " × "),
            "tables": [matrix_table(matrix.grid(numbers)) for matrix in card.matrices],
            "note": "" if card.whole else IN_PART,
        }

    parts = [
        {"title": title, "cards": [contents(card) for card in cards if card.value.path in among]}
        for title, among in (("Inputs", trace.inputs), ("Steps", trace.steps))
    ]
    count = len(trace.inputs) + len(trace.steps)
    return render(
        "trace.html",
        **{
            "parts": parts,
            "title": trace.title,
            "warnings": trace.warnings,
            "level": level,
            "options": list(option_texts(trace).items()),
            "left_out": "" if len(cards) == count else f"{count - len(cards)} steps are left out. {IN_PART}",
            "slider": None,
            "has_exact": False,
            "data": "",
            "styled": "",
            "hint": "",
            **more,
        },
    )


def _check_alike(frames: list[Trace], name: str) -> None:
    """A slider changes numbers; what changes the shape or the steps needs a page of its own."""
    shapes = [[(value.path, value.shape) for value in trace.everything()] for trace in frames]
    for other in shapes[1:]:
        if other != shapes[0]:
            differing = next(
                (p for p in [*other, *shapes[0]] if p not in other or p not in shapes[0]), other[0]
            )
            raise InputError(
                f"slide: {name} changes the steps or their shapes ({differing[0]}), and a slider shows one "
                "layout. Make one page for each value."
            )
