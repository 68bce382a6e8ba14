r"""LaTeX that fits its page: a whole document that needs only amsmath, or a fragment to put into one.

What is too wide for a line is set smaller (\fit), and beyond that broken: matrices into blocks of columns,
tables into columns of text that wrap.

``document.tex`` opens a document. ``fragment.tex`` is for what goes into another one too: \fit sets its
contents smaller where they are wider than the line; \picturefile shows a picture where it stands beside the
document (``pictures``), or else the words about it. ``pandoc_text.tex`` is what pandoc's own LaTeX asks for.
"""

import re
from collections.abc import Iterator, Sequence
from html.entities import codepoint2name
from itertools import accumulate, groupby
from math import ceil, sqrt
from typing import Any

from headwork.documents import blocks
from headwork.documents.blocks import Document, Formula
from headwork.documents.number_format import cell_text, wrap_code
from headwork.documents.page_templates import read_asset
from headwork.documents.pandoc import write_tree
from headwork.documents.plots import figure_bytes
from headwork.documents.renderer import LETTER_WIDTH, FormulaRenderer
from headwork.documents.style import PLAIN, Style

CLOSING = "\\par\\endgroup\n"
LINE_WIDTH = 345.0  # points: the line of an article
WRAPPED_COLUMN = 130.0  # a column of a table that wraps
PAGE_LINES = 36  # lines of a table, roughly, which does not break over pages
TIMES_SIGN = r" \times "
CHARACTERS = 76  # of a line of code
LONGEST_WORD = 24  # a longer one may be broken anywhere
ESCAPES = {sign: f"\\{sign}" for sign in "_&%#{}$"} | {sign: f"{{{sign}}}" for sign in "[]"}
ESCAPES |= {sign: f"$\\{codepoint2name[ord(sign)]}$" for sign in "αβγδεθλμπσφωΣΦ×≤≥"}
ESCAPES |= {"∞": r"$\infty$", "·": r"$\cdot$", "→": r"$\to$", "≈": r"$\approx$", "√": r"$\surd$"}
ESCAPES |= {"^": r"\^{}", "~": r"\~{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
ESCAPES |= {"\\": r"\textbackslash{}", "…": r"\ldots{}", "–": "--", "−": "$-$", "’": "'", "²": "$^2$"}
VERBATIM = re.compile(r"(\\begin\{verbatim\}.*?\\end\{verbatim\})", re.DOTALL)
NOT_IN_FONTS = re.compile(r"[^\x00-\u017e]")  # what the usual fonts lack
SUFFIX = ".tex"


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document in LaTeX."""
    title = [rf"\section*{{{escape_latex(document.title)}}}"] if document.title else []
    about = [escape_latex(document.about)] if document.about else []
    writer = Latex()
    pieces = "\n\n".join([*about, *writer.render_blocks(document.blocks)])
    body = "\n".join([*title, f"{read_asset('fragment.tex')}{pieces}", CLOSING])
    if fragment:
        return body
    packages = "\\usepackage{graphicx}\n" if writer.pictures else ""
    if writer.has_pandoc_text:
        packages = read_asset("pandoc_text.tex")
    return f"{read_asset('document.tex')}{packages}\\begin{{document}}\n{body}\\end{{document}}\n"


def pictures(document: Document) -> dict[str, bytes]:
    """The pictures of the document, by what stands after its own name: book.tex has book-figure-1.png."""
    writer = Latex()
    for _ in writer.render_blocks(document.blocks):
        pass
    return {
        name: p if isinstance(p, bytes) else figure_bytes(p, "png") for name, p in writer.pictures.items()
    }


def escape_latex(text: str, max_length: int = LONGEST_WORD) -> str:
    r"""Plain text for LaTeX; a letter that its usual fonts lack by its number, a long word breakable.

    >>> print(escape_latex("50% of W_q \\ 字"))
    50\% of W\_q \textbackslash{} {[}U+5B57{]}
    """
    return re.sub(r"\S+", lambda match: _escape_word(match[0], max_length), text)


def _escape_word(word: str, max_length: int = LONGEST_WORD) -> str:
    parts = [
        ESCAPES.get(s, s if 31 < ord(s) < 127 or 160 < ord(s) < 0x17F else f"{{[}}U+{ord(s):04X}{{]}}")
        for s in word
    ]
    return "".join(parts) if len(word) <= max_length else r"\allowbreak{}".join(parts)


def _ensure_math(sign: re.Match[str]) -> str:
    """A sign as escaped text, that may also stand within a formula."""
    return re.sub(r"^\$(.*)\$$", r"\\ensuremath{\1}", _escape_word(sign[0]))


class Latex(FormulaRenderer):
    pandoc_format = "latex"
    max_width = 1.4 * LINE_WIDTH  # as estimated at full size; \fit may halve it

    def __init__(self) -> None:
        self.pictures: dict[str, Any] = {}
        self.has_pandoc_text = False

    def text(self, words: str) -> str:
        return escape_latex(words)

    def math(self, latex: str) -> str:
        return rf"\fit{{${latex}$}}"

    def listing(self, text: str) -> Iterator[str]:
        lines = wrap_code(text, CHARACTERS).splitlines()
        rows = [" ".join(map(_escape_word, line.split(" "))).replace(" ", r"\ ") or r"\ " for line in lines]
        yield "{\\footnotesize\\ttfamily\\raggedright " + "\\\\\n".join(rows) + "\\par}"

    def heading(self, block: blocks.Heading) -> Iterator[str]:
        name = {2: "subsection*", 3: "subsubsection*"}.get(block.level, "paragraph")
        yield rf"\{name}{{{escape_latex(block.text)}}}"

    def caution(self, block: blocks.Caution) -> Iterator[str]:
        yield rf"\emph{{Note:}} {escape_latex(block.text)}"

    def display(self, latex: str) -> str:
        return f"\\[\n\\fit{{$\\displaystyle {latex}$}}\n\\]"

    def figure_block(self, block: blocks.FigureBlock) -> Iterator[str]:
        name = f"figure-{len(self.pictures) + 1}.png"
        self.pictures[name] = block.figure
        yield rf"\picturefile{{{name}}}{{{escape_latex(block.alt)}}} {escape_latex(block.caption)}"

    def pandoc_text(self, block: blocks.PandocText) -> Iterator[str]:
        self.has_pandoc_text = True
        self.pictures |= block.pictures
        text = write_tree(block.tree, self.pandoc_format, "--syntax-highlighting=none")
        text = re.sub(r"\\includegraphics(\[[^]]*\])?\{", r"\g<0>\\jobname-", text)
        parts = VERBATIM.split(text)  # words, code, words ...
        parts[::2] = (NOT_IN_FONTS.sub(_ensure_math, part) for part in parts[::2])
        for code in range(1, len(parts), 2):
            plain = NOT_IN_FONTS.sub(lambda m: f"[U+{ord(m[0]):04X}]", parts[code])
            parts[code] = f"{{\\footnotesize {plain}\n}}"
        yield "".join(parts)

    def items(self, block: blocks.Items) -> Iterator[str]:
        lines = []
        for item in block.items:
            words = [rf"\textbf{{{escape_latex(word)}}}" for word in (item.name, item.verdict) if word]
            text = " ".join([*words, self.inline(item.text)])
            lines.append(r"\item " + r"\\ ".join([text, *map(escape_latex, item.more)]))
        yield "\n".join([r"\begin{itemize}", *lines, r"\end{itemize}"]) if lines else ""

    # --- tables ---------------------------------------------------------------------------------

    def cell(self, cell: Any, max_length: int = LONGEST_WORD) -> str:
        if isinstance(cell, blocks.Badge):
            return rf"\fbox{{{escape_latex(cell.text)}}}" if cell.tone == "bad" else escape_latex(cell.text)
        if isinstance(cell, blocks.Bar):
            return rf"\rule{{{6 * cell.share:.2f}em}}{{1.2ex}} {escape_latex(cell.text)}"
        if isinstance(cell, (tuple, list)):
            return f"${TIMES_SIGN.join(map(str, cell))}$"
        return f"${cell.latex}$" if isinstance(cell, Formula) else escape_latex(cell_text(cell), max_length)

    def grid(self, table: blocks.Table) -> Iterator[str]:
        texts = [list(table.columns), *([cell_text(cell) for cell in row] for row in table.rows)]
        natural = [LETTER_WIDTH * max(len(row[j]) for row in texts) for j in range(len(table.columns))]
        shares = _column_shares(natural)
        alignment = [
            rf"p{{{share:.3f}\linewidth}}" if share else "r" if right else "l"
            for share, right in zip(shares, table.numeric(), strict=True)
        ]
        letters = [int(0.75 * share * LINE_WIDTH / LETTER_WIDTH) for share in shares]

        def line(cells: Sequence[Any]) -> str:
            texts = (
                rf"\raggedright {self.cell(cell, count)}" if count else self.cell(cell)
                for cell, count in zip(cells, letters, strict=True)
            )
            return " & ".join(texts) + r" \tabularnewline"

        rows = [line(row) for row in table.rows]
        if table.summed and rows:
            rows[-1] = "\\hline\n" + rows[-1]
        head = [line(table.columns), r"\hline"] if any(table.columns) else []
        heights = [
            max(
                [
                    1,
                    *(
                        ceil(LETTER_WIDTH * len(t) / (0.9 * s * LINE_WIDTH))
                        for t, s in zip(row, shares, strict=True)
                        if s
                    ),
                ]
            )
            for row in texts[1:]
        ]
        ends = accumulate(heights)
        pages = groupby(zip(rows, ends, strict=True), key=lambda row: row[1] // PAGE_LINES)
        for part in [[row for row, _ in page] for _, page in pages] or [[]]:
            inner = "\n".join([rf"\begin{{tabular}}{{{''.join(alignment)}}}", *head, *part, r"\end{tabular}"])
            yield rf"\fit{{{inner}}}"

    # --- values ---------------------------------------------------------------------------------

    def strong(self, words: str) -> str:
        return rf"\paragraph{{{escape_latex(words)}}}\mbox{{}}\par"

    def value_heading(self, value: blocks.Value, level: int) -> Iterator[str]:
        numbers, _, words = value.shape_text.partition(" (")
        size = f"${numbers.replace(' x ', TIMES_SIGN)}$ ({escape_latex(words)}" if words else numbers
        yield rf"\paragraph{{{escape_latex(value.name)}}} {self.math(value.equation)} \quad {size}"


def _column_shares(natural: list[float]) -> list[float]:
    """The share of the line for each column of long text, which wraps; 0 for the others."""
    wrapped_sizes = [size if size > WRAPPED_COLUMN else 0.0 for size in natural]
    if sum(natural) <= LINE_WIDTH - 6 * len(natural):
        wrapped_sizes = [0.0] * len(natural)
    fixed = (sum(natural) - sum(wrapped_sizes)) / LINE_WIDTH  # of which \fit may halve the letters
    remaining = min(0.85, sum(wrapped_sizes) / LINE_WIDTH, max(0.95 - fixed, 0.8 - 0.5 * fixed, 0.1))
    weights = [sqrt(size) for size in wrapped_sizes]
    return [remaining * weight / (sum(weights) or 1.0) for weight in weights]
