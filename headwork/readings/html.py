"""A trace as HTML: a page that opens offline, a block for a report, a fragment for a notebook.

What stays the same from frame to frame (cards, formulas, shapes) is markup; what changes (numbers, tints,
arithmetic) is numbered cell by cell, in the order in which the page shows them, and kept once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from headwork.errors import InputError, sizes_in_words
from headwork.pages import Entry, Grid, mathml, matrix_table, page, render, script_data, visible_indices
from headwork.pages.formulas import plain_formula
from headwork.pages.matrices import heat
from headwork.pages.shell import read_asset
from headwork.readings.terminal import option_texts
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text, with_infinity

Place = tuple[int, ...]  # the index of a cell in a whole value as shown

MOST_CARDS = 120  # inputs and steps shown
MOST_MATRICES = 16  # of one value: its heads, channels or times
MOST_SOURCES = 20_000  # cells looked up for the arithmetic of one page; the rest is told without
MOST_CHARACTERS = 900_000  # of arithmetic in one page
LONGEST_ARITHMETIC = 4_000  # of one cell
LONGEST_BARE = 400  # of one cell told by its value alone
LONGEST_EXACT = 60  # characters of an exact form that still fits into a cell

HINT = "Point at a cell, tap it, or use the arrow keys: its arithmetic shows below, the cells it came from light up."
IN_PART = "Shown in part; the whole is in the JSON (--as json)."


@dataclass(frozen=True)
class Matrix:
    """One matrix of a value: which of its rows and columns are shown, and where each cell stands in the whole."""

    noted: TraceValue
    caption: str

    @property
    def rows(self) -> Sequence[int | None]:
        return visible_indices(self.noted.shape[0]) if len(self.noted.shape) > 1 else (0,)

    @property
    def columns(self) -> Sequence[int | None]:
        return visible_indices(self.noted.shape[-1]) if self.noted.shape else (0,)

    def place(self, row: int | None, column: int | None) -> Place | None:
        """The index of a cell in the whole value as shown."""
        if row is None or column is None:
            return None
        index = (row, column)[2 - len(self.noted.shape) :]
        return self.noted.full_index(self.noted.raw_index(index))

    def places(self) -> Iterator[Place]:
        for row in self.rows:
            for column in self.columns:
                if (place := self.place(row, column)) is not None:
                    yield place

    def grid(self, entries: dict[Place, Entry]) -> Grid:
        found = [[self.place(i, j) for j in self.columns] for i in self.rows]
        axes = self.noted.axes
        return Grid(
            cells=[[None if p is None else entries[p] for p in row] for row in found],
            rows=self.rows if len(axes) > 1 else (),
            columns=self.columns if axes else (),
            row_axis=axes[0] if len(axes) > 1 else "",
            column_axis=axes[-1] if axes else "",
            label=self.noted.path,
            caption=self.caption,
        )


@dataclass(frozen=True)
class Card:
    """One input or step with the matrices of it that are shown."""

    noted: TraceValue
    matrices: list[Matrix]
    whole: bool

    def places(self) -> Iterator[Place]:
        for matrix in self.matrices:
            yield from matrix.places()


def _card(noted: TraceValue) -> Card:
    every = [Matrix(matrix, caption) for caption, matrix in noted.matrices()]
    shown = [every[i] for i in visible_indices(len(every), MOST_MATRICES) if i is not None]
    whole = len(shown) == len(every) and all(None not in (*m.rows, *m.columns) for m in shown)
    return Card(noted, shown, whole)


# --- numbers ------------------------------------------------------------------------------------


class Frame:
    """One trace read once: the numbers of every card, exact ones tidied."""

    def __init__(self, trace: Trace, cards: list[Card]) -> None:
        self.trace = trace
        self.written: dict[str, dict[Place, Entry]] = {}
        noted = {card.noted.path: trace[card.noted.path] for card in cards}
        self.exact = {path: value.exact for path, value in noted.items()}
        self.values = {path: value.values for path, value in noted.items()}

    def largest(self, path: str) -> float:
        """The largest finite size of a value's numbers."""
        sizes = [abs(float(x)) for x in self.values[path].flat if x is not None]
        return max((size for size in sizes if size < np.inf), default=0.0)

    def entries(self, card: Card, largest: float) -> dict[Place, Entry]:
        """The shown cells of one value by their place in the whole."""
        path = card.noted.path
        if path not in self.written:
            self.written[path] = {place: self._entry(path, place, largest) for place in card.places()}
        return self.written[path]

    def _entry(self, path: str, place: Place, largest: float) -> Entry:
        exact, number = self.exact[path], self.values[path][place]
        if number is None or np.isfinite(number):
            decimal = "" if number is None else number_text(number, self.trace.digits)
            form = Markup("") if exact is None else _exact_form(exact[place], decimal)
            return Entry(decimal, form, heat(number, largest))
        return Entry(number_text(number, self.trace.digits), odd=True)

    def bare(self, path: str, place: Place) -> str:
        """A cell's name and value, without its arithmetic."""
        from headwork.numbers.exact import exact_text

        exact, number = self.exact[path], self.values[path][place]
        name = f"{plain_formula(self.trace[path].symbol)}[{','.join(map(str, place))}]"
        texts = [name, *([] if exact is None else [with_infinity(exact_text(exact[place]))])]
        return " = ".join([*texts, *([] if number is None else [number_text(number, self.trace.digits)])])


def _exact_form(value: Any, decimal: str) -> Markup:
    """An exact number as a formula; nothing where its decimals say as much, or where it is too long for a cell."""
    from headwork.numbers.exact import exact_latex, exact_text

    if decimal and value.is_Integer:
        return Markup("")
    text = exact_text(value)
    if decimal and len(text) > LONGEST_EXACT:
        return Markup("")
    if len(text) > LONGEST_EXACT:
        return Markup("{}…").format(text[: LONGEST_EXACT // 2])
    return mathml(exact_latex(value))


def _scales(frame: Frame, cards: list[Card]) -> dict[str, float]:
    """What full tint means for each value: its largest number; weights are shares of 1."""
    weights = {path for path in frame.values if path.rpartition("/")[2] == "weights"}
    return {c.noted.path: max(frame.largest(c.noted.path), float(c.noted.path in weights)) for c in cards}


class Records:
    """What is told of each cell, kept once however often it occurs; a frame is a list of their numbers.

    A record is (decimal, exact form, heat or "odd", arithmetic, the same in names, numbers of its sources).
    """

    def __init__(self, cards: list[Card], options: Sequence[str]) -> None:
        self.kept: dict[tuple[Any, ...], int] = {}
        self.characters = 0
        self.cards = cards
        places = [(name, ()) for name in options] + [
            (c.noted.path, place) for c in cards for place in c.places()
        ]
        self.order: dict[tuple[str, Place], int] = {place: number for number, place in enumerate(places)}

    def _number(self, *record: Any) -> int:
        return self.kept.setdefault(record, len(self.kept))

    def frame(self, frame: Frame, scales: dict[str, float], budget: float) -> dict[str, Any]:
        """One frame, options first, then every cell in the page's order."""
        trace = frame.trace
        cells = [self._number(value, "", None, "", "", ()) for value in option_texts(trace).values()]
        for left, card in zip(range(len(self.cards), 0, -1), self.cards, strict=True):
            path = card.noted.path
            # What one card leaves of its part goes to those after it.
            stop = budget - budget / left
            for place, entry in frame.entries(card, scales[path]).items():
                if budget > stop and self.characters < MOST_CHARACTERS:
                    said, names, sources, cost = self._arithmetic(trace, path, place)
                    budget -= cost
                else:
                    said, names, sources = _cut(frame.bare(path, place), LONGEST_BARE), "", ()
                self.characters += len(said) + len(names)
                tint = "odd" if entry.odd else entry.heat
                cells.append(self._number(entry.decimal, str(entry.exact), tint, said, names, sources))
        return {"cells": cells, "warnings": trace.warnings, "title": trace.title}

    def _arithmetic(self, trace: Trace, path: str, place: Place) -> tuple[str, str, tuple[int, ...], int]:
        """How a cell came about in numbers and in names, its sources, and how many cells that took."""
        cell = trace.cell(path, *place)
        sources = tuple(self.order[source] for source in cell.sources if source in self.order)
        names = "" if cell.in_names in (cell.in_numbers, cell.exact) else f"{cell.name} = {cell.in_names}"
        return _cut(str(cell)), _cut(names), sources, 4 + len(cell.sources)


def _cut(text: str, longest: int = LONGEST_ARITHMETIC) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 4 :]}"


# --- pages --------------------------------------------------------------------------------------


def html(frames: list[Trace], slider: list[str] | None = None, *, name: str = "", start: int = 0) -> str:
    """A whole page. With ``slider``, one label a frame, it has a slider called ``name`` that begins at ``start``.

    >>> from headwork.readings import explain
    >>> "<math>" in html([explain("softmax", scores="0 1", exact=True)])
    True
    """
    trace = frames[start]
    title = f"{trace.mechanism.slug}: {name} on a slider" if slider else trace.mechanism.slug
    return page(
        title, trace_block(frames, slider, name=name, start=start, level=2), about=trace.mechanism.about
    )


def trace_block(
    frames: list[Trace], slider: list[str] | None = None, *, name: str = "", start: int = 0, level: int = 3
) -> Markup:
    """A trace as one block of a page; ``level`` is that of its headings."""
    shown = frames[start]
    cards = _cards(shown)
    _check_alike(frames, name)
    read = [Frame(trace, cards) for trace in frames]
    scales = _scales(read[start], cards)
    records = Records(cards, list(option_texts(shown)))
    told = [records.frame(frame, scales, MOST_SOURCES / len(frames)) for frame in read]
    labels = [with_infinity(label) for label in slider or []]
    data = script_data({"records": list(records.kept), "frames": told, "start": start, "labels": labels})
    controls = {"name": name, "labels": labels, "start": start} if slider else None
    both = any(decimal and exact for decimal, exact, *_ in records.kept)
    return _block(
        read[start], cards, scales, level=level, data=data, slider=controls, has_exact=both, hint=HINT
    )


def notebook_fragment(trace: Trace) -> str:
    """A trace as a fragment for a notebook: styles that stay inside, no script.

    >>> from headwork.readings import explain
    >>> "<script" in notebook_fragment(explain("softmax", scores="0 1"))
    False
    """
    cards = _cards(trace)
    frame = Frame(trace, cards)
    return str(_block(frame, cards, _scales(frame, cards), level=4, styled=read_asset("trace.css")))


def _cards(trace: Trace) -> list[Card]:
    every = list(trace.everything())
    return [_card(every[i]) for i in visible_indices(len(every), MOST_CARDS) if i is not None]


def _block(frame: Frame, cards: list[Card], scales: dict[str, float], *, level: int, **more: Any) -> Markup:
    """The markup of one frame, with what the template needs."""
    trace = frame.trace

    def shown(card: Card) -> dict[str, Any]:
        noted = card.noted
        numbers = frame.entries(card, scales[noted.path])
        return {
            "formula": mathml(f"{noted.symbol} = {noted.formula}" if noted.formula else noted.symbol),
            "path": noted.path,
            "words": sizes_in_words(noted.shape, " ".join(noted.axes)).replace(" x ", " × "),
            "tables": [matrix_table(matrix.grid(numbers)) for matrix in card.matrices],
            "note": "" if card.whole else IN_PART,
        }

    parts = [
        {"title": title, "cards": [shown(card) for card in cards if card.noted.path in among]}
        for title, among in (("Given", trace.inputs), ("Steps", trace.steps))
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
    shapes = [[(noted.path, noted.shape) for noted in trace.everything()] for trace in frames]
    for other in shapes[1:]:
        if other != shapes[0]:
            differing = next(
                (p for p in [*other, *shapes[0]] if p not in other or p not in shapes[0]), other[0]
            )
            raise InputError(
                f"slide: {name} changes the steps or their shapes ({differing[0]}), and a slider shows one layout. "
                "Make one page for each value."
            )
