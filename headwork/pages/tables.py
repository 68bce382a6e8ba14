"""A plain table of results, written in every form: text, Markdown, LaTeX, HTML, JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from headwork.pages.formulas import mathml, plain_formula
from headwork.pages.notebooks import safe_markdown
from headwork.pages.style import PLAIN, Style

ROWS = 40  # of a LaTeX table, which does not break over pages
LATEX = {sign: f"\\{sign}" for sign in "_&%#{}$"} | {
    "^": r"\^{}",
    "~": r"\~{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\\": r"\textbackslash{}",
    "|": r"\textbar{}",
    "∞": r"$\infty$",
}


@dataclass(frozen=True)
class Formula:
    """A cell that holds a formula in LaTeX."""

    latex: str


@dataclass(frozen=True)
class Table:
    """Rows under named columns, with notes below. Whole numbers are shown with thousands separators.

    >>> print(Table("Sizes", ("what", "weights"), [("filter", 2400)]).to_text())
    Sizes
    what    weights
    filter    2,400
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    notes: list[str] = field(default_factory=list)
    more: Mapping[str, Any] = field(default_factory=dict)  # further entries of the JSON
    summed: bool = False  # the last row is the sum of the others

    def _cells(self, write: Callable[[Any], str]) -> list[list[str]]:
        return [[write(cell) for cell in row] for row in self.rows]

    def _numeric(self) -> list[bool]:
        """Which columns hold numbers, and so are aligned to the right."""
        return [any(isinstance(row[j], (int, float)) for row in self.rows) for j in range(len(self.columns))]

    def to_text(self, style: Style = PLAIN) -> str:
        cells = [*([list(self.columns)] if any(self.columns) else []), *self._cells(cell_text)]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        lines = []
        for row in cells:
            parts = zip(row, widths, self._numeric(), strict=True)
            lines.append("  ".join(c.rjust(w) if right else c.ljust(w) for c, w, right in parts).rstrip())
        if self.summed:
            lines.insert(-1, "  ".join("-" * width for width in widths))
        return "\n".join(([style.bold(self.title)] if self.title else []) + lines + self.notes)

    def to_markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(" ".join(cell.replace("|", "\\|").splitlines()) for cell in cells) + " |"

        def write(cell: Any) -> str:
            return f"${cell.latex}$" if isinstance(cell, Formula) else cell_text(cell)

        head = [f"# {self.title}", ""] if self.title else []
        rule = "|" + "".join("---:|" if right else "---|" for right in self._numeric())
        table = [line(list(self.columns)), rule, *map(line, self._cells(write))]
        return safe_markdown("\n".join(head + table + [f"\n{note}" for note in self.notes]) + "\n")

    def to_latex(self, fragment: bool = False) -> str:
        def write(cell: Any) -> str:
            return f"${cell.latex}$" if isinstance(cell, Formula) else escape_latex(cell_text(cell))

        rows = [" & ".join(cells) + r" \\" for cells in self._cells(write)]
        if self.summed:
            rows.insert(-1, r"\hline")
        head = [" & ".join(map(escape_latex, self.columns)) + r" \\", r"\hline"] if any(self.columns) else []
        sides = "".join("r" if right else "l" for right in self._numeric())
        tables = [
            "\n".join(
                [rf"\begin{{tabular}}{{{sides}}}", *head, *rows[start : start + ROWS], r"\end{tabular}"]
            )
            for start in range(0, max(len(rows), 1), ROWS)
        ]
        notes = "".join(f"\n\\par {escape_latex(note)}" for note in self.notes)
        title = f"\\paragraph{{{escape_latex(self.title)}}}\\mbox{{}}\\par\n" if self.title else ""
        body = title + "\\par\\medskip\n".join(tables) + notes + "\n"
        if fragment:
            return body
        preamble = "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n"
        return f"{preamble}{body}\\end{{document}}\n"

    def to_html(self) -> str:
        """The table as a fragment for a page."""

        def write(cell: Any) -> str:
            return mathml(cell.latex) if isinstance(cell, Formula) else escape(cell_text(cell))

        sides = [' style="text-align:right"' if right else "" for right in self._numeric()]
        names = zip(sides, self.columns, strict=True)
        head = "".join(f"<th scope=col{side}>{escape(name)}</th>" for side, name in names)
        rows = [
            "".join(f"<td{side}>{cell}</td>" for side, cell in zip(sides, cells, strict=True))
            for cells in self._cells(write)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        table = f'<table class="plain">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return f'<div class="scroll">{table}</div>{notes}'

    def as_data(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes), **self.more}

    def to_json(self) -> str:
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"


def cell_text(cell: Any) -> str:
    """One cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, Formula):
        return plain_formula(cell.latex)
    if isinstance(cell, (tuple, list)):
        return " x ".join(map(str, cell))
    return str(cell)


def escape_latex(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(LATEX.get(sign, sign) for sign in text)
