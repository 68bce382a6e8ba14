"""The book's list, its summary, and a worked problem as data."""

from __future__ import annotations

import json
from typing import Any

from headwork.pages.tables import Table
from headwork.problems.book import GROUPS, Problem, Worked, entries
from headwork.readings import Trace


def listing() -> str:
    """Every problem by group, a line each."""
    lines: list[str] = []
    for group, name in GROUPS.items():
        lines += ["", f"{group}. {name}"] if lines else [f"{group}. {name}"]
        lines += [f"  {slug:<4} {entry.title}" for slug, entry in entries().items() if slug[0] == group]
    return "\n".join([*lines, "", "headwork problems A2 works one; headwork problems --check works all."])


def as_data(problem: Problem, worked: Worked) -> dict[str, Any]:
    from headwork.readings.json import as_data as trace_data

    return {
        "problem": problem.slug,
        "title": problem.title,
        "question": problem.question,
        "answer": worked.answer,
        "verdict": worked.verdict,
        "right": worked.right,
        "findings": [vars(finding) for finding in worked.findings],
        "words": [part for part in worked.parts if isinstance(part, str)],
        "traces": [trace_data(part) for part in worked.parts if isinstance(part, Trace)],
    }


def json_text(problem: Problem, worked: Worked) -> str:
    return json.dumps(as_data(problem, worked), ensure_ascii=False, allow_nan=False) + "\n"


def summary(results: dict[str, Worked]) -> Table:
    """Problem, answer, verdict: the short table of the whole book."""
    rows = [(slug, worked.answer, worked.verdict) for slug, worked in results.items()]
    checks = sum(len(worked.findings) for worked in results.values())
    wrong = sum(not worked.right for worked in results.values())
    note = f"{checks} values checked in {len(rows)} problems; " + (
        f"{wrong} problems with a mismatch." if wrong else "all right."
    )
    return Table("", ("problem", "answer", "verdict"), rows, [note])
