"""A plain table of results, written in every form: text, Markdown, LaTeX, HTML, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

LATEX = {
    "_": r"\_",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "^": r"\^{}",
    "~": r"\~{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\\": r"\textbackslash{}",
    "|": r"\textbar{}",
    "∞": r"$\infty$",
}


@dataclass(frozen=True)
class Table:
    """Rows under named columns, with notes below. Whole numbers get thousands separators when shown.

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

    def _cells(self) -> list[list[str]]:
        return [[shown(cell) for cell in row] for row in self.rows]

    def to_text(self) -> str:
        cells = [list(self.columns), *self._cells()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        right = [any(isinstance(row[j], (int, float)) for row in self.rows) for j in range(len(self.columns))]
        lines = [self.title] if self.title else []
        for row in cells:
            parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines + [f"{note}" for note in self.notes])

    def to_markdown(self) -> str:
        def line(cells: list[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        head = [f"# {self.title}", ""] if self.title else []
        table = [line(list(self.columns)), "|" + "---|" * len(self.columns), *map(line, self._cells())]
        return "\n".join(head + table + [f"\n{note}" for note in self.notes]) + "\n"

    def to_latex(self, fragment: bool = False) -> str:
        rows = [
            " & ".join(map(escaped_latex, cells)) + r" \\" for cells in [list(self.columns), *self._cells()]
        ]
        rows.insert(1, r"\hline")
        notes = "".join(f"\n\\par {escaped_latex(note)}" for note in self.notes)
        title = f"\\paragraph{{{escaped_latex(self.title)}}}\\mbox{{}}\\par\n" if self.title else ""
        body = (
            f"{title}\\begin{{tabular}}{{{'l' * len(self.columns)}}}\n"
            + "\n".join(rows)
            + f"\n\\end{{tabular}}{notes}\n"
        )
        if fragment:
            return body
        return f"\\documentclass{{article}}\n\\usepackage{{amsmath}}\n\\begin{{document}}\n{body}\\end{{document}}\n"

    def to_html(self) -> str:
        """The table as a fragment for a page."""
        head = "".join(f"<th scope=col>{escape(c)}</th>" for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>" for cells in self._cells()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        table = f'<table class="plain">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        return f'<div class="scroll">{table}</div>{notes}'

    def as_data(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": list(self.notes), **self.more}

    def to_json(self) -> str:
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"


def shown(cell: Any) -> str:
    """One cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, (tuple, list)):
        return " x ".join(map(str, cell))
    return str(cell)


def escaped_latex(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(LATEX.get(sign, sign) for sign in text)
