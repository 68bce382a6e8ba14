"""A title and what stands under it (words, tables, traces, ledgers, figures), in every form."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwork.pages.style import PLAIN, Style
from headwork.pages.tables import Table, escape_latex
from headwork.readings.trace import Trace


@dataclass(frozen=True)
class Report:
    """Parts in order. A part is text, or has ``to_text`` and so on; a figure appears only on a page.

    >>> print(Report("Title", ("Words.",)).to_text())
    Title
    <BLANKLINE>
    Words.
    <BLANKLINE>
    """

    title: str
    parts: tuple[Any, ...]

    def to_text(self, style: Style = PLAIN) -> str:
        parts = [part if isinstance(part, str) else part.to_text(style) for part in self._written()]
        return "\n\n".join([style.bold(self.title), *(part.rstrip("\n") for part in parts)]) + "\n"

    def to_markdown(self) -> str:
        shown = [part if isinstance(part, str) else _lowered(part.to_markdown()) for part in self._written()]
        return "\n\n".join([f"# {self.title}", *shown]) + "\n"

    def to_latex(self, fragment: bool = False) -> str:
        from headwork.readings.latex import PREAMBLE

        shown = [
            f"\\par {escape_latex(part)}\n" if isinstance(part, str) else part.to_latex(fragment=True)
            for part in self._written()
        ]
        body = "\n".join([rf"\section*{{{escape_latex(self.title)}}}", *shown])
        return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"

    def to_html(self) -> str:
        from headwork.pages import page

        return page(self.title, *self.blocks())

    def blocks(self) -> Iterator[Any]:
        """The parts as blocks of a page."""
        from headwork.pages import figure, heading, plot_svg
        from headwork.readings.html import trace_block

        for part in self.parts:
            if isinstance(part, Trace):
                yield heading(part.title or part.mechanism.slug, level=3)
                yield trace_block([part])
            elif _is_figure(part):
                yield figure(plot_svg(part, self.title))
            else:
                yield part if isinstance(part, (str, Table)) else part.table()

    def _written(self) -> list[Any]:
        return [part for part in self.parts if not _is_figure(part)]


def _is_figure(part: Any) -> bool:
    return hasattr(part, "savefig")


def _lowered(markdown: str) -> str:
    """Headings one level down, under the title."""
    lines = (f"#{line}" if line.startswith("#") else line for line in markdown.rstrip("\n").splitlines())
    return "\n".join(lines)


class Reported(ABC):
    """Every form of a result that has a report and its data."""

    @abstractmethod
    def report(self) -> Report: ...

    @abstractmethod
    def as_data(self) -> dict[str, Any]: ...

    def to_text(self, style: Style = PLAIN) -> str:
        return self.report().to_text(style)

    def to_markdown(self) -> str:
        return self.report().to_markdown()

    def to_latex(self, fragment: bool = False) -> str:
        return self.report().to_latex(fragment)

    def to_html(self) -> str:
        return self.report().to_html()

    def to_json(self) -> str:
        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return self.to_text()
