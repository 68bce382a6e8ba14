"""PDF, set by Typst: no TeX is needed. Formulas come from the same LaTeX as everywhere, through pandoc.

What is wider than the line is set smaller; wide matrices are broken into blocks of columns before that.
Words go into Typst as strings, so that nothing in them is obeyed. The extra ``pdf`` brings both programs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headwork.documents import blocks
from headwork.documents.blocks import Document, Formula
from headwork.documents.number_format import cell_text, wrap_code
from headwork.documents.page_templates import read_asset
from headwork.documents.pandoc import latex_to_typst, write_tree
from headwork.documents.plots import figure_bytes
from headwork.documents.renderer import FormulaRenderer
from headwork.documents.style import PLAIN, Style
from headwork.errors import InputError

SUFFIX = ".pdf"
NEEDS = ("typst", "pypandoc")
CHARACTERS = 100  # of a line of code
LONGEST_WORD = 40  # a longer one may be broken anywhere


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> bytes:
    """The document as the bytes of a PDF file: the same for the same document."""
    source, files = typst_source(document)
    return typeset(source, files)


def typeset(source: str, files: Mapping[str, bytes], *, own_fonts: bool = False) -> bytes:
    """What Typst makes of a source that may show these files, and no others: they stand in a folder apart.

    With its own fonts alone it begins five times as fast: enough to see whether something can be set.
    """
    import typst

    with TemporaryDirectory() as folder:
        for name, content in {**files, "main.typ": source.encode()}.items():
            (Path(folder) / name).write_bytes(content)
        try:
            written: bytes = typst.compile(
                Path(folder) / "main.typ", root=Path(folder), ignore_system_fonts=own_fonts
            )
        except typst.TypstError as error:
            raise InputError(f"Typst cannot set this: {error}.") from None
    return written


def typst_source(document: Document) -> tuple[str, dict[str, bytes]]:
    """The source that Typst sets, and the files of its pictures."""
    writer = Typst()
    title = [f'#text(size: 1.7em, weight: "bold")[{writer.text(document.title)}]'] if document.title else []
    about = [writer.text(document.about)] if document.about else []
    contents = (
        "#context if counter(page).final().first() > 2 and query(heading).len() > 3 { outline(depth: 2) }"
    )
    body = [*title, *about, contents, *writer.render_blocks(document.blocks)]
    formulas, _ = latex_to_typst(list(writer.formulas))
    names = [f"#let f{number} = [{typst}]\n" for number, typst in enumerate(formulas)]
    head = f"#set document(title: {string(document.title)}, date: none)\n"
    return str(read_asset("page.typ")) + head + "".join(names) + "\n\n".join(body) + "\n", writer.files


def string(text: str) -> str:
    r"""A string of Typst.

    >>> print(string('a "b" \\'))
    "a \"b\" \\"
    """
    plain = "".join(c if c.isprintable() or c in "\n\u200b" else f"[U+{ord(c):04X}]" for c in text)
    return json.dumps(plain, ensure_ascii=False)


class Typst(FormulaRenderer):
    """The blocks in Typst; formulas by the names f0, f1 ..., because pandoc reads all of them at once."""

    pandoc_format = "typst"
    max_width = 1.4 * 482  # on a line of 17 cm, as estimated: it may be set smaller

    def __init__(self) -> None:
        self.formulas: dict[str, int] = {}
        self.files: dict[str, bytes] = {}

    def text(self, words: str) -> str:
        long_word = rf"\S{{{LONGEST_WORD + 1},}}"
        plain = re.sub(long_word, lambda word: "\u200b".join(word[0]), " ".join(re.split(r"\s+", words)))
        return f"#{string(plain)};" if plain else ""

    def math(self, latex: str) -> str:
        return f"#f{self.formulas.setdefault(latex, len(self.formulas))};"

    def display(self, latex: str) -> str:
        return self.math(f"\n{latex}")

    def link(self, link: blocks.Link) -> str:
        words = f"[{self.text(link.text)}]"
        if link.target.startswith("#"):
            return f"#to({string(link.target[1:])}, {words});"
        return f"#link({string(link.target)}, {words});"

    def listing(self, text: str) -> Iterator[str]:
        yield f"#raw(block: true, {string(wrap_code(text, CHARACTERS))})"

    def heading(self, block: blocks.Heading) -> Iterator[str]:
        anchor = f"#label({string(block.anchor)})" if block.anchor else ""
        yield f"#heading(level: {max(block.level - 1, 1)})[{self.text(block.text)}]{anchor}"

    def caution(self, block: blocks.Caution) -> Iterator[str]:
        yield f"#remark[*Note:* {self.text(block.text)}]"

    def details(self, block: blocks.Details) -> Iterator[str]:
        anchor = f"#label({string(block.anchor)})" if block.anchor else ""
        yield self.strong(block.summary) + anchor
        yield from self.render_blocks(block.blocks)

    def figure_block(self, block: blocks.FigureBlock) -> Iterator[str]:
        name = f"figure-{len(self.files)}.svg"
        self.files[name] = figure_bytes(block.figure, "svg")
        caption = f", caption: [{self.text(block.caption)}]" if block.caption else ""
        yield f'#figure(fit(image("{name}", alt: {string(block.alt)})){caption}, numbering: none)'

    def pandoc_text(self, block: blocks.PandocText) -> Iterator[str]:
        self.files |= block.pictures
        options = ("--syntax-highlighting=idiomatic", "--shift-heading-level-by=-1")
        yield f"#[\n{write_tree(block.tree, self.pandoc_format, *options)}\n]"

    def items(self, block: blocks.Items) -> Iterator[str]:
        yield f"#list(tight: true, {', '.join(map(self._item, block.items))})" if block.items else ""

    def _item(self, item: blocks.Item) -> str:
        colour = {True: 'fill: rgb("#1a7f37"), ', False: 'fill: rgb("#b42318"), ', None: ""}[item.good]
        words = [f"*{self.text(item.name)}*"] if item.name else []
        words += [f'#text({colour}weight: "bold")[{self.text(item.verdict)}]'] if item.verdict else []
        lines = [" ".join([*words, self.inline(item.text)]), *map(self.text, item.more)]
        return f"[{' #linebreak() '.join(lines)}]"

    # --- tables ---------------------------------------------------------------------------------

    def cell(self, cell: Any) -> str:
        if isinstance(cell, Formula):
            return self.math(cell.latex)
        if isinstance(cell, blocks.Bar):
            bar = f"#box(width: {6 * cell.share:.2f}em, height: 0.7em, fill: luma(170))"
            return f"{bar} {self.text(cell.text)}"
        text = cell_text(cell)
        return self.text(text.replace(" x ", " × ") if isinstance(cell, tuple) else text)

    def grid(self, table: blocks.Table) -> Iterator[str]:
        columns = len(table.columns)
        alignment = ", ".join("right" if right else "left" for right in table.numeric())
        head = [f"table.header({self._cells(f'*{self.cell(name)}*' for name in table.columns)})"]
        head += ["table.hline(stroke: 0.5pt)"]
        rows = [self._cells(map(self.cell, row)) for row in table.rows]
        if table.summed and rows:
            rows.insert(-1, "table.hline(stroke: 0.5pt)")
        inner = ",\n".join([*(head if any(table.columns) else []), *rows])
        widths = ", ".join(_widths(table))
        size = 9 if columns < 6 else 8 if columns < 9 else 7
        yield f"#text(size: {size}pt, table(columns: ({widths},), align: ({alignment},),\n{inner}))"

    def _cells(self, cells: Iterable[str]) -> str:
        return ", ".join(f"[{cell}]" for cell in cells)

    # --- values ---------------------------------------------------------------------------------

    def strong(self, words: str) -> str:
        return f"#block(sticky: true)[*{self.text(words)}*]"

    def value_heading(self, value: blocks.Value, level: int) -> Iterator[str]:
        size = self.text(value.shape_text.replace(" x ", " × "))
        yield (
            f"#block(sticky: true, above: 1.3em)[*{self.text(value.name)}* #h(0.6em) "
            f"{self.math(value.equation)} #h(0.6em) #text(fill: luma(90))[{size}]]"
        )


def _widths(table: blocks.Table) -> list[str]:
    """A column of long text takes a share of the line, and wraps; the others are as wide as they need be."""
    longest = [
        max(len(cell_text(cell)) for cell in (name, *(row[number] for row in table.rows)))
        for number, name in enumerate(table.columns)
    ]
    if sum(longest) + 3 * len(longest) <= 100:
        return ["auto"] * len(longest)
    return [f"{count**0.5:.2f}fr" if count > 14 else "auto" for count in longest]
