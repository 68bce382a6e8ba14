"""What a command shows: a ``Document`` is a title and blocks of a few kinds, without a format.

``formats`` has one file per format::

    Document("Title", (Heading("Weights"), Prose("Row 2 is even."), Table("", ("a", "b"), [(1, 2)])))

A document is made of parts: blocks, plain text (prose), a matplotlib figure, or anything ``Renderable``.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partialmethod
from itertools import product
from typing import Any

from headwork.documents.style import PLAIN, Style, escape_controls
from headwork.documents.token_views import AttentionView, TokenHeatmaps
from headwork.errors import format_shape

CellIndex = tuple[int, ...]  # of a cell in a whole value


@dataclass(frozen=True)
class Formula:
    """A formula in LaTeX: a part of prose, or a cell of a table."""

    latex: str


@dataclass(frozen=True)
class Link:
    """Words that lead elsewhere: to an anchor of the document (``#A2``) or to a file beside it."""

    text: str
    target: str


@dataclass(frozen=True)
class Badge:
    """Words of a table's cell that stand out: "good", "bad", "part" or "open"; ``about`` says more."""

    text: str
    tone: str = "bad"
    about: str = ""


@dataclass(frozen=True)
class BadgeRow:
    """Badge words side by side in one cell of a table, each one character wide, its heading rotated."""

    badges: tuple[Badge, ...]


@dataclass(frozen=True)
class Bar:
    """A share, from 0 to 1, as a bar in a cell of a table, and its words."""

    share: float
    text: str = ""


Inline = str | tuple[str | Formula | Link, ...]  # words, among them formulas and links


@dataclass(frozen=True)
class Heading:
    """A heading below the title (level 2 and more); with an anchor it can be linked to."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True)
class Prose:
    """A paragraph."""

    text: Inline


@dataclass(frozen=True)
class Caution:
    """Something to beware of."""

    text: str


@dataclass(frozen=True)
class Item:
    """One of several: its name, a verdict that is good, bad or neither, words, and more lines below."""

    text: Inline = ""
    name: str = ""
    verdict: str = ""
    good: bool | None = None
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Item, ...]


@dataclass(frozen=True)
class Code:
    """Code, or text as it stands. Where it has an output, only a notebook shows the code beside that.

    The output is parts of a document; a plain string is what the code prints.
    """

    text: str
    output: tuple[Any, ...] = ()


@dataclass(frozen=True)
class FigureBlock:
    """A matplotlib figure, what is seen on it for those who cannot see it, and its caption."""

    figure: Any
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class PandocText:
    """What somebody wrote themselves, as the tree that pandoc reads, with the pictures that it names."""

    tree: list[Any]
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds under a summary; with an anchor they can be linked to."""

    summary: str
    blocks: "tuple[Block, ...]"
    anchor: str = ""


@dataclass(frozen=True)
class VerdictCard:
    """Blocks under a name, a verdict that is good, bad or neither, and words."""

    name: str
    verdict: str = ""
    good: bool | None = None
    text: str = ""
    blocks: "tuple[Block, ...]" = ()


@dataclass(frozen=True)
class Value:
    """A named array (an input, a step): decimals, None at a symbol, and exact numbers, if any."""

    name: str
    symbol: str
    values: Any
    exact_values: Any = None
    formula: str = ""
    axes: tuple[str, ...] = ()
    digits: int = 4
    abbreviations: tuple[Any, ...] = ()  # of its long exact numbers, each with its ``definition``
    shown_with_step: bool = False  # a parameter of the next value

    @property
    def equation(self) -> str:
        """The symbol and its formula, in LaTeX."""
        return f"{self.symbol} = {self.formula}" if self.formula else self.symbol

    @property
    def shape_text(self) -> str:
        """The shape in words: ``4 x 2 (token, width)``."""
        return format_shape(self.values.shape, " ".join(self.axes))

    def matrices(self) -> Iterator[tuple[str, tuple[int | None, ...]]]:
        """The matrices with their captions and indices, None along rows and columns; heads come first."""
        axes = sorted(range(self.values.ndim), key=lambda axis: self.axes[axis] != "head")
        outer = axes[: max(len(axes) - 2, 0)]
        for numbers in product(*(range(self.values.shape[axis]) for axis in outer)):
            fixed = dict(zip(outer, numbers, strict=True))
            caption = ", ".join(f"{self.axes[axis]} {number}" for axis, number in fixed.items())
            yield caption, tuple(map(fixed.get, range(self.values.ndim)))

    def matrix_axes(self, index: tuple[int | None, ...]) -> tuple[str, ...]:
        """The axis words of one of the matrices."""
        return tuple(axis for axis, at in zip(self.axes, index, strict=True) if at is None)


def select_matrix(array: Any, index: tuple[int | None, ...]) -> Any:
    """One of the matrices of an array, by its index."""
    return array[(*(slice(None) if at is None else at for at in index), ...)]


@dataclass(frozen=True)
class Arithmetic:
    """How a cell comes about: in numbers, in names, and from which cells of which values."""

    text: str
    in_names: str
    sources: tuple[tuple[str, CellIndex], ...]


@dataclass(frozen=True)
class Values:
    """Values in order, in groups with a title each (inputs, steps), with options and warnings.

    ``arithmetic`` explains a cell of a value on demand; without it the numbers stand alone, untinted.
    ``all_cells`` shows every row and column; ``level`` is that of the headings within.
    """

    groups: tuple[tuple[str, tuple[Value, ...]], ...]
    options: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    warnings: tuple[str, ...] = ()
    arithmetic: Callable[[str, CellIndex], Arithmetic] | None = None
    all_cells: bool = False
    level: int = 2

    def all_values(self) -> list[Value]:
        return [value for _, values in self.groups for value in values]

    @property
    def settings(self) -> str:
        """The options on one line."""
        return ", ".join(f"{name} = {value}" for name, value in self.options.items())


@dataclass(frozen=True)
class Slider:
    """The same values for several settings of ``name``; a page has a slider, other formats show each."""

    name: str
    labels: tuple[str, ...]
    frames: tuple[Values, ...]
    start: int = 0

    def parts(self) -> "Iterator[Block]":
        """The frames one after another, for formats that do not move."""
        for label, frame in zip(self.labels, self.frames, strict=True):
            yield Heading(f"{self.name} = {label}")
            yield replace(frame, level=3)


class Renderable(ABC):
    """Anything that has a document, and so every format."""

    @abstractmethod
    def document(self) -> "Document": ...

    def render(self, name: str, *, style: Style = PLAIN, fragment: bool = False) -> Any:
        """The document in the format of this name (a text, or the bytes of a PDF).

        A fragment is what goes into a larger document.
        """
        from headwork.documents.formats import find_format

        content = find_format(name).render(self.document(), style, fragment)
        return escape_controls(content, colour=style.colour) if isinstance(content, str) else content

    def with_code(self, code: str) -> "Document":
        """The document with the code that makes it, for a reader who can run code."""
        return replace(self.document(), notebook_blocks=lambda: (Code(code, (self,)),))

    def to_text(self, style: Style = PLAIN) -> str:
        return str(self.render("text", style=style))

    to_markdown = partialmethod(render, "markdown")
    to_latex = partialmethod(render, "latex")
    to_html = partialmethod(render, "html")  # a whole page that opens offline
    to_json = partialmethod(render, "json")
    to_notebook = partialmethod(render, "notebook")
    to_pdf = partialmethod(render, "pdf")
    _repr_html_ = partialmethod(render, "html", fragment=True)

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True)
class Table(Renderable):
    """Rows under named columns, with notes below. Whole numbers are shown with thousands separators.

    >>> print(Table("Sizes", ("what", "weights"), [("filter", 2400)]))
    Sizes
    <BLANKLINE>
    what    weights
    filter    2,400
    <BLANKLINE>
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: list[str] = field(default_factory=list)
    extra_data: Mapping[str, Any] = field(default_factory=dict)  # further entries of the JSON
    summed: bool = False  # the last row is the sum of the others

    def document(self) -> "Document":
        return Document(self.title, (replace(self, title=""),), data=self.as_data)

    def numeric(self) -> list[bool]:
        """Which columns hold numbers, and so are aligned to the right."""
        return [any(isinstance(row[j], (int, float)) for row in self.rows) for j in range(len(self.columns))]

    def as_data(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes), **self.extra_data}


TextBlock = Heading | Prose | Caution | Items | Code | PandocText | Details | VerdictCard
Block = TextBlock | Values | Slider | Table | FigureBlock | TokenHeatmaps | AttentionView


@dataclass(frozen=True)
class Document(Renderable):
    """A title, a line about it, and parts.

    ``data`` gives the JSON; without it the JSON is made from the blocks. ``notebook_blocks`` gives the
    blocks for a reader who can run code, where they are others.

    >>> print(Document("Title", ("Words.",)))
    Title
    <BLANKLINE>
    Words.
    <BLANKLINE>
    """

    title: str
    parts: tuple[Any, ...] = ()
    about: str = ""
    data: Callable[[], Any] | None = None
    notebook_blocks: "Callable[[], Iterable[Block]] | None" = None

    def document(self) -> "Document":
        return self

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(block for part in self.parts for block in as_blocks(part))

    def title_blocks(self, level: int = 1, *, title: bool = True) -> Iterator[Block]:
        """The title as a heading, and the line about it."""
        if self.title and title:
            yield Heading(self.title, level)
        if self.about:
            yield Prose(self.about)


def block_kind(block: Any) -> str:
    """What its method in a renderer and its part of a template are called.

    >>> block_kind(PandocText([]))
    'pandoc_text'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(block).__name__).lower()


def as_blocks(part: Any) -> Iterator[Block]:
    """The blocks of a part of a document: of another document, with its title as a heading."""
    if isinstance(part, str):
        yield Prose(part)
    elif isinstance(part, Block):
        yield part
    elif isinstance(part, Renderable):
        inner = part.document()
        yield from inner.title_blocks(3)
        for block in inner.blocks:
            yield replace(block, level=max(block.level, 4)) if isinstance(block, Values) else block
    else:
        yield FigureBlock(part, "a figure")
