"""A worked problem in every form; the parts (traces, ledgers, tables, figures) render themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headwork.pages.tables import Table, escaped_latex
from headwork.problems.book import GROUPS, Problem, Worked, entries
from headwork.readings import Trace
from headwork.readings.latex import PREAMBLE


def listing() -> str:
    """Every problem by group, a line each."""
    lines = []
    for group, name in GROUPS.items():
        lines += ["", f"{group}. {name}"] if lines else [f"{group}. {name}"]
        lines += [f"  {slug:<4} {entry.title}" for slug, entry in entries().items() if slug[0] == group]
    return "\n".join([*lines, "", "headwork problems A2 works one; headwork problems --check works all."])


def text(problem: Problem, worked: Worked) -> str:
    blocks = [f"{problem.slug}. {problem.title}", problem.question]
    blocks += [_text(part) for part in worked.parts if not _is_figure(part)]
    if worked.findings:
        blocks.append("\n".join(_finding_lines(worked)))
    return "\n\n".join([*blocks, f"Answer: {worked.answer}  ({worked.verdict})"]) + "\n"


def _finding_lines(worked: Worked) -> list[str]:
    lines = []
    for f in worked.findings:
        lines.append(f"  {'ok' if f.right else 'MISMATCH'}  {f.what}: {f.ours}")
        if f.published:
            lines.append(f"      published: {f.published}. {f.why}")
    return lines


def _text(part: Any) -> str:
    return part if isinstance(part, str) else str(part.to_text()).rstrip()


def _is_figure(part: Any) -> bool:
    return hasattr(part, "savefig")


def markdown(problem: Problem, worked: Worked) -> str:
    blocks = [f"# {problem.slug}. {problem.title}", f"*{problem.question}*"]
    blocks += [part if isinstance(part, str) else part.to_markdown() for part in worked.parts if not _is_figure(part)]
    blocks += [worked.table().to_markdown()] if worked.findings else []
    return "\n\n".join([*blocks, f"**{worked.answer}** ({worked.verdict})"]) + "\n"


def latex(problem: Problem, worked: Worked, *, fragment: bool = False) -> str:
    blocks = [
        rf"\section*{{{escaped_latex(f'{problem.slug}. {problem.title}')}}}",
        rf"\emph{{{escaped_latex(problem.question)}}}",
    ]
    for part in worked.parts:
        if not _is_figure(part):
            blocks.append(escaped_latex(part) if isinstance(part, str) else part.to_latex(fragment=True))
    blocks.append(r"\begin{itemize}" + "".join(_latex_items(worked)) + r"\end{itemize}" if worked.findings else "")
    blocks.append(rf"\textbf{{{escaped_latex(worked.answer)}}}")
    body = "\n\n\\par ".join(blocks) + "\n"
    return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"


def _latex_items(worked: Worked) -> list[str]:
    lines = []
    for f in worked.findings:
        slip = f" (published: {f.published}. {f.why})" if f.published else ""
        lines.append(f"\\item {escaped_latex(f'{f.what}: {f.ours}{slip}')}\n")
    return lines


def blocks(problem: Problem, worked: Worked) -> Iterator[Any]:
    """The parts of one problem as blocks of a page."""
    from headwork.pages import figure, heading, plot_svg
    from headwork.readings.html import trace_block

    yield heading(f"{problem.slug}. {problem.title}", name=problem.slug)
    yield problem.question
    for part in worked.parts:
        if isinstance(part, Trace):
            yield trace_block([part])
        elif _is_figure(part):
            yield figure(plot_svg(part, problem.title))
        else:
            yield part if isinstance(part, (str, Table)) else part.table()
    if worked.findings:
        yield worked.table()
    yield f"{worked.answer} ({worked.verdict})"


def html(problem: Problem, worked: Worked) -> str:
    from headwork.pages import page

    return page(f"{problem.slug}. {problem.title}", *blocks(problem, worked))


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
