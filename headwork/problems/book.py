"""The problem book: every course problem, worked by our mechanisms, with what was published beside it.

An entry is a function that works its problem into a ``Worked``: it shows traces and tables, says a few
words, and checks each value against the right one. The checks are the golden tests at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from headwork.errors import unknown
from headwork.numbers.exact import decimal, exact_text, sign, tidy
from headwork.numbers.typed import read_array
from headwork.pages.tables import Table, escaped_latex
from headwork.readings import Trace, TraceValue
from headwork.readings.report import Report
from headwork.readings.writing import number_text

GROUPS = {
    "A": "Patches and self-attention by hand",
    "B": "What attention can be made to do",
    "C": "The transformer",
    "D": "Convolution and weight sharing",
    "E": "Recurrence",
    "F": "Training on real data",
    "G": "Questions in words",
}
CLOSE = 1e-12  # how close a decimal must come to the right value


@dataclass(frozen=True)
class Finding:
    """One checked value: ours, whether it is right, and what was published where that differs."""

    what: str
    ours: str
    right: bool
    published: str = ""
    why: str = ""


@dataclass(frozen=True)
class Findings:
    """All checked values of a problem; what was published stands beside the right value, with the reason."""

    found: list[Finding]

    def table(self) -> Table:
        rows = [(f.what, f.ours, "right" if f.right else "MISMATCH", f.published, f.why) for f in self.found]
        keep = [0, 1, 2, *([3, 4] if any(f.published for f in self.found) else [])]
        columns = ("value", "ours", "checked", "published", "why it differs")
        return Table("", tuple(columns[i] for i in keep), [tuple(row[i] for i in keep) for row in rows])

    def to_text(self) -> str:
        return "\n".join(f"  {'ok' if f.right else 'MISMATCH'}  {_line(f)}" for f in self.found)

    def to_markdown(self) -> str:
        return self.table().to_markdown()

    def to_latex(self, fragment: bool = True) -> str:
        items = "".join(f"\\item {escaped_latex(_line(f))}\n" for f in self.found)
        return f"\\begin{{itemize}}\n{items}\\end{{itemize}}\n"


def _line(found: Finding) -> str:
    slip = f"\n      published: {found.published}. {found.why}" if found.published else ""
    return f"{found.what}: {found.ours}{slip}"


@dataclass
class Worked:
    """What an entry shows, says and finds, in order."""

    parts: list[Any] = field(default_factory=list)  # str, Trace, Table or a matplotlib figure
    findings: list[Finding] = field(default_factory=list)
    answer: str = ""

    @property
    def right(self) -> bool:
        return all(finding.right for finding in self.findings)

    @property
    def verdict(self) -> str:
        wrong = [f.what for f in self.findings if not f.right]
        if wrong:
            return f"MISMATCH: {', '.join(wrong)}"
        if not self.findings:
            return "pointer"
        slips = sum(1 for f in self.findings if f.published)
        return "right" if not slips else f"right; {slips} published slip{'s' if slips > 1 else ''} shown"

    def say(self, words: str) -> None:
        self.parts.append(" ".join(words.split()))

    def show(self, part: Any) -> None:
        """A trace, table, ledger or figure; a report by its parts."""
        self.parts += [part.title, *part.parts] if isinstance(part, Report) else [part]

    def check(
        self, what: str, ours: Any, expected: Any, *, published: str = "", why: str = "", rounded: int = -1
    ) -> None:
        """Compare with the right value: exactly, to ``CLOSE`` in decimals, or to so many digits."""
        if isinstance(ours, TraceValue):
            ours = ours.values if ours.exact is None else ours.exact
        if isinstance(ours, (str, bool, int, tuple, list)) or ours is None:
            right, told = ours == expected, _told(ours)
        elif rounded >= 0:
            digits = _rounded(ours, rounded)
            right, told = digits == expected.split(), " ".join(digits)
        else:
            right, told = _same(ours, expected), _written(ours)
        self.findings.append(Finding(what, told, bool(right), published, " ".join(why.split())))


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _cells(value: Any) -> list[Any]:
    return list(np.asarray(value, object).flat) if not np.isscalar(value) else [value]


def _written(value: Any) -> str:
    rows = np.atleast_2d(np.asarray(value, object))
    return "; ".join(" ".join(_one(x) for x in row) for row in rows.reshape(-1, rows.shape[-1]))


def _one(value: Any) -> str:
    return exact_text(tidy(value)) if hasattr(value, "free_symbols") else number_text(value, 4)


def _rounded(value: Any, digits: int) -> list[str]:
    return [f"{decimal(x) if hasattr(x, 'free_symbols') else float(x):.{digits}f}" for x in _cells(value)]


def _same(ours: Any, expected: Any) -> bool:
    right = (
        read_array(expected, exact=True).array if isinstance(expected, str) else np.asarray(expected, object)
    )
    mine = np.asarray(ours, object)
    if mine.shape != right.shape:
        return False
    return all(_equal(a, b) for a, b in zip(mine.flat, right.flat, strict=True))


def _equal(ours: Any, right: Any) -> bool:
    if hasattr(ours, "free_symbols") and hasattr(right, "free_symbols"):
        difference = (ours - right).expand()
        if difference == 0:
            return True
        return not difference.free_symbols and sign(difference) == 0
    number = decimal(right) if hasattr(right, "free_symbols") else float(right)
    return number is not None and bool(abs(float(ours) - number) <= CLOSE * (1 + abs(number)))


@dataclass(frozen=True)
class Problem:
    """An entry: its slug, title, question in our words, and the function that works it."""

    slug: str
    title: str
    question: str
    entry: Callable[[Worked], None]

    def work(self) -> Worked:
        worked = Worked()
        self.entry(worked)
        return worked

    def report(self, worked: Worked) -> Report:
        """The question, what was worked, what was found, the answer."""
        found = [Findings(worked.findings)] if worked.findings else []
        answer = f"Answer: {worked.answer} ({worked.verdict})"
        return Report(f"{self.slug}. {self.title}", (self.question, *worked.parts, *found, answer))


PROBLEMS: dict[str, Problem] = {}

Entry = Callable[[Worked], None]


def problem(slug: str, title: str, question: str) -> Callable[[Entry], Entry]:
    """Enter a function into the book."""

    def enter(entry: Entry) -> Entry:
        PROBLEMS[slug] = Problem(slug, title, " ".join(question.split()), entry)
        return entry

    return enter


@cache
def entries() -> dict[str, Problem]:
    """Every problem by its slug, in order."""
    for name in ("attention", "making", "transformer", "convolution", "recurrence", "training", "words"):
        import_module(f"headwork.problems.{name}")
    return {slug: PROBLEMS[slug] for slug in sorted(PROBLEMS, key=lambda slug: (slug[0], int(slug[1:])))}


def find(slug: str) -> Problem:
    """A problem by its slug, in either case."""
    problems = entries()
    if slug.upper() not in problems:
        raise unknown("problem", slug, problems)
    return problems[slug.upper()]


__all__ = ["GROUPS", "Finding", "Problem", "Trace", "Worked", "entries", "find", "problem"]
