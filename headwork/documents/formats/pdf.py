"""PDF, set by Typst: no TeX is needed. Pandoc writes the Typst, from the same Markdown as everywhere.

What is wider than the line is set smaller; wide matrices are broken into blocks of columns before that.
Words are escaped as in Markdown, so that nothing in them is obeyed. The extra ``pdf`` brings both programs.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from headwork.documents import blocks
from headwork.documents.blocks import Document
from headwork.documents.formats.markdown import Markdown
from headwork.documents.number_format import wrap_code
from headwork.documents.page_templates import read_asset
from headwork.documents.pandoc import convert, write_tree
from headwork.documents.plots import figure_bytes
from headwork.documents.style import PLAIN, Style
from headwork.errors import InputError

SUFFIX = ".pdf"
NEEDS = ("typst", "pypandoc")
READER = "commonmark+tex_math_dollars+pipe_tables+implicit_figures"
CHARACTERS = 100  # of a line of code
LONG_WORD = re.compile(r"\S{41,}")  # it may be broken anywhere
PASSAGE = "\u2063passage{}\u2063"  # stands for what pandoc has read before


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> bytes:
    """The document as the bytes of a PDF file: the same for the same document."""
    source, files = typst_source(document)
    return typeset(source, files)


def typeset(source: str, files: Mapping[str, bytes]) -> bytes:
    """What Typst makes of a source that may show these files, and no others: they stand in a folder apart."""
    import typst

    with TemporaryDirectory() as folder:
        for name, content in {**files, "main.typ": source.encode()}.items():
            (Path(folder) / name).write_bytes(content)
        try:
            written: bytes = typst.compile(Path(folder) / "main.typ", root=Path(folder))
        except typst.TypstError as error:
            raise InputError(f"Typst cannot set this: {error}.") from None
    return written


def typst_source(document: Document) -> tuple[str, dict[str, bytes]]:
    """The source that Typst sets, and the files of its pictures."""
    writer = PagedMarkdown()
    markdown = writer.render_blocks([*document.title_blocks(title=False), *document.blocks])
    body, _ = convert("\n\n".join(markdown), READER, "typst", "--shift-heading-level-by=-1")
    for number, passage in enumerate(writer.passages):
        body = body.replace(PASSAGE.format(number), passage)
    title = json.dumps(_printable(document.title), ensure_ascii=False)
    return f"{read_asset('page.typ')}#show: titled.with({title})\n{body}", writer.files


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\u200b" else f"[U+{ord(c):04X}]" for c in text)


class PagedMarkdown(Markdown):
    """Markdown with its pictures in files, and what people wrote in the Typst that pandoc writes of it."""

    max_width = 1.4 * 482  # on a line of 17 cm, as estimated: it may be set smaller

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.passages: list[str] = []

    def text(self, words: str) -> str:
        return super().text(LONG_WORD.sub(lambda word: "\u200b".join(word[0]), _printable(words)))

    def listing(self, text: str) -> Iterator[str]:
        return super().listing(wrap_code(text, CHARACTERS))

    def grid(self, table: blocks.Table) -> Iterator[str]:
        return (rows.replace("---|", ":---|") for rows in super().grid(table))  # words to the left

    def value_heading(self, value: blocks.Value, level: int) -> Iterator[str]:
        _, about = super().value_heading(value, level)
        yield f"###### {self.strong(value.name)} {about}"  # page.typ sets it as words

    def figure(self, block: blocks.Figure) -> Iterator[str]:
        name = f"figure-{len(self.files)}.svg"
        self.files[name] = figure_bytes(block.plot, "svg")
        yield f"![{self.text(block.caption)}]({name})"

    def pandoc_text(self, block: blocks.PandocText) -> Iterator[str]:
        yield PASSAGE.format(len(self.passages))
        self.files |= block.pictures
        options = ("--syntax-highlighting=idiomatic", "--shift-heading-level-by=-1")
        self.passages.append(f"#[\n{write_tree(block.tree, 'typst', *options)}\n]")
