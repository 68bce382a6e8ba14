"""A ledger as text, Markdown, LaTeX, HTML and JSON; only the columns that some row fills are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from textwrap import fill
from typing import TYPE_CHECKING, Any

from headwork.pages.formulas import plain_formula
from headwork.pages.tables import escaped_latex
from headwork.sizes.ledger import Ledger, Row
from headwork.sizes.polynomial import Polynomial
from headwork.sizes.writing import number, number_latex

if TYPE_CHECKING:
    from headwork.pages import Table

# Heading, what a row has there, whether it is a number (set to the right).
COLUMNS: tuple[tuple[str, Callable[[Row], Any], bool], ...] = (
    ("name", lambda row: row.name, False),
    ("times", lambda row: row.times if row.times != 1 else None, True),
    ("shape", lambda row: row.shape, False),
    ("axes", lambda row: row.axes.replace(" ", ", ") or None, False),
    ("weights", lambda row: row.weights, True),
    ("biases", lambda row: row.biases, True),
    ("parameters", lambda row: row.parameters, True),
    ("multiply-adds", lambda row: row.multiply_adds, True),
    ("FLOPs", lambda row: row.flops, True),
    ("others", lambda row: row.others, True),
    ("formula", lambda row: row.formula or None, False),
    ("", lambda row: row.about or None, False),
)
WIDEST = 110  # characters of a note in text
ROWS_A_TABLE = 40  # of LaTeX, which breaks no table over pages
PREAMBLE = r"""\documentclass{article}
\usepackage{amsmath}
\setlength{\textwidth}{7.2in}
\setlength{\oddsidemargin}{-0.35in}
\setlength{\parindent}{0pt}
\begin{document}
"""


Headings = list[tuple[str, bool]]


def blocks(ledger: Ledger) -> list[tuple[Headings, list[list[Any]]]]:
    """Rows with shapes and rows without make tables of their own, each with only the columns it fills."""
    groups = [list(rows) for _, rows in groupby(ledger.rows, key=lambda row: row.shape is None)]
    if ledger.summed and groups:
        groups[-1].append(ledger.total)
    return [shown(rows) for rows in groups]


def shown(rows: Sequence[Row]) -> tuple[Headings, list[list[Any]]]:
    """The headings, with what is set to the right, and the cells, ``None`` where there is nothing."""
    kept = [
        (heading, value, right)
        for heading, value, right in COLUMNS
        if any(value(row) is not None for row in rows) and not _repeated(heading, rows)
    ]
    cells = [[value(row) for _, value, _ in kept] for row in rows]
    return [(heading, right) for heading, _, right in kept], cells


def _repeated(heading: str, rows: Sequence[Row]) -> bool:
    """Without any bias, a column of parameters would only say again what the weights say."""
    return heading == "parameters" and all(row.biases is None for row in rows)


def text(ledger: Ledger) -> str:
    """Aligned columns for the terminal."""
    lines = [ledger.title]
    for i, (headings, cells) in enumerate(tables := blocks(ledger)):
        lines += ["", *_text_table(headings, cells, ledger.summed and i == len(tables) - 1)]
    if ledger.facts:
        longest = max(map(len, ledger.facts))
        lines += ["", *(f"  {name.ljust(longest)}  {number(fact)}" for name, fact in ledger.facts.items())]
    lines += ["", *(fill(note, WIDEST) for note in ledger.notes)] if ledger.notes else []
    lines += ["", *(fill(f"! {warning}", WIDEST) for warning in ledger.warnings)] if ledger.warnings else []
    return "\n".join(lines) + "\n"


def _text_table(headings: Headings, cells: list[list[Any]], summed: bool) -> Iterator[str]:
    strings = [
        [_text(heading, cell) for (heading, _), cell in zip(headings, row, strict=True)] for row in cells
    ]
    strings.insert(0, [heading for heading, _ in headings])
    widths = [max(len(row[i]) for row in strings) for i in range(len(headings))]
    for i, row in enumerate(strings):
        if i == 1 or (summed and i == len(strings) - 1):
            yield "  " + "  ".join("-" * width for width in widths)
        padded = [
            c.rjust(w) if right else c.ljust(w)
            for c, w, (_, right) in zip(row, widths, headings, strict=True)
        ]
        yield ("  " + "  ".join(padded)).rstrip()


def _text(heading: str, cell: Any) -> str:
    if cell is None:
        return ""
    return plain_formula(cell) if heading == "formula" else number(cell)


def markdown(ledger: Ledger) -> str:
    """A table of Markdown, formulas between dollar signs."""

    def cell_text(heading: str, cell: Any) -> str:
        if cell is None:
            return ""
        if isinstance(cell, Polynomial) or heading == "formula":
            cell = f"${cell.latex() if isinstance(cell, Polynomial) else cell}$"
        return number(cell).replace("|", r"\|")

    lines = [f"# {ledger.title}"]
    for headings, cells in blocks(ledger):
        lines += ["", "| " + " | ".join(heading for heading, _ in headings) + " |"]
        lines.append("|" + "|".join("---:" if right else "---" for _, right in headings) + "|")
        for row in cells:
            strings = [cell_text(heading, cell) for (heading, _), cell in zip(headings, row, strict=True)]
            lines.append("| " + " | ".join(strings) + " |")
    lines += (
        ["", *(f"- {name}: {cell_text('', fact)}" for name, fact in ledger.facts.items())]
        if ledger.facts
        else []
    )
    for note in ledger.notes:
        lines += ["", note]
    for warning in ledger.warnings:
        lines += ["", f"> **Careful:** {warning}"]
    return "\n".join(lines) + "\n"


def latex(ledger: Ledger, *, fragment: bool = False) -> str:
    """A whole document that needs only amsmath, or what goes into one."""
    body = "\n".join(_latex_lines(ledger)) + "\n"
    return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"


def _latex_lines(ledger: Ledger) -> Iterator[str]:
    yield rf"\section*{{{escaped_latex(ledger.title)}}}"
    yield r"{\scriptsize\setlength{\tabcolsep}{3pt}"
    for headings, cells in blocks(ledger):
        for start in range(0, len(cells), ROWS_A_TABLE):
            yield rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for _, right in headings)}}}"
            yield " & ".join(escaped_latex(heading) for heading, _ in headings) + r" \\ \hline"
            for row in cells[start : start + ROWS_A_TABLE]:
                line = r"\hline " if ledger.summed and row is cells[-1] else ""
                strings = (_latex(heading, cell) for (heading, _), cell in zip(headings, row, strict=True))
                yield line + " & ".join(strings) + r" \\"
            yield r"\end{tabular}\par\medskip"
    yield "}"
    for name, fact in ledger.facts.items():
        yield rf"\par {escaped_latex(name)}: {number_latex(fact)}"
    for note in ledger.notes:
        yield rf"\par {escaped_latex(note)}"
    for warning in ledger.warnings:
        yield rf"\par\emph{{Careful:}} {escaped_latex(warning)}"


def _latex(heading: str, cell: Any) -> str:
    if cell is None:
        return ""
    return f"${cell}$" if heading == "formula" else number_latex(cell)


def json_text(ledger: Ledger) -> str:
    """All of it as JSON: whole numbers exact, polynomials as text."""
    return json.dumps(as_data(ledger), ensure_ascii=False, indent=1) + "\n"


def as_data(ledger: Ledger) -> dict[str, Any]:
    """The ledger as plain lists, numbers and strings."""
    return {
        "title": ledger.title,
        "rows": [_row_data(row) for row in ledger.rows],
        **({"total": _row_data(ledger.total)} if ledger.summed else {}),
        "facts": {name: _plain_data(fact) for name, fact in ledger.facts.items()},
        "notes": list(ledger.notes),
        "warnings": list(ledger.warnings),
    }


def _row_data(row: Row) -> dict[str, Any]:
    data = {
        "name": row.name,
        "times": row.times,
        "shape": row.shape,
        "axes": row.axes.split() or None,
        "weights": row.weights,
        "biases": row.biases,
        "parameters": row.parameters,
        "multiply_adds": row.multiply_adds,
        "flops": row.flops,
        "other_operations": row.others,
        "formula": row.formula or None,
        "about": row.about or None,
    }
    return {name: _plain_data(value) for name, value in data.items() if value is not None}


def _plain_data(value: Any) -> Any:
    if isinstance(value, Polynomial):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def table(ledger: Ledger) -> Table:
    """The same as a plain table of results, for reports that hold several."""
    from headwork.pages import Table

    headings, cells = shown([*ledger.rows, *([ledger.total] if ledger.summed else [])])
    rows = [
        tuple(_text(heading, cell) for (heading, _), cell in zip(headings, row, strict=True)) for row in cells
    ]
    facts = [f"{name}: {number(fact)}" for name, fact in ledger.facts.items()]
    columns = tuple(heading for heading, _ in headings)
    return Table(ledger.title, columns, rows, [*facts, *ledger.notes, *ledger.warnings])


def html(ledger: Ledger) -> str:
    """One page that opens offline."""
    from markupsafe import Markup

    from headwork.pages import Table, mathml, page

    def cell_html(heading: str, cell: Any, right: bool) -> Markup:
        if isinstance(cell, Polynomial):
            inner: str = mathml(cell.latex())
        else:
            inner = mathml(cell) if heading == "formula" and cell else "" if cell is None else number(cell)
        return Markup("<td{}>{}</td>").format(side(right), inner)

    def side(right: bool) -> str:
        return Markup(' style="text-align:right"') if right else ""

    def table_html(headings: Headings, rows: list[list[Any]]) -> Markup:
        head = Markup("").join(
            Markup("<th scope=col{}>{}</th>").format(side(right), name) for name, right in headings
        )
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(
                Markup("").join(
                    cell_html(name, cell, right) for (name, right), cell in zip(headings, row, strict=True)
                )
            )
            for row in rows
        )
        return frame.format(head, body)

    frame = Markup(
        '<div class="scroll"><table class="plain"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    )
    tables = [table_html(*block) for block in blocks(ledger)]
    facts = (
        [Table("", ("", ""), [(name, number(fact)) for name, fact in ledger.facts.items()])]
        if ledger.facts
        else []
    )
    warnings = [f"Careful: {warning}" for warning in ledger.warnings]
    return page(ledger.title, *tables, *facts, *ledger.notes, *warnings)
