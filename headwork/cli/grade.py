"""``headwork grade``: an answer, or the answers of a class, marked and explained."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.options import Hint
from headwork.cli.output import Output
from headwork.errors import InputError


@command(
    "headwork grade ex7/answer.toml",
    "headwork grade ex7/answer.toml --hint 3",
    "headwork grade sheet3/answers/ --key sheet3/key/ --out marks/",
    panel="Practise",
)
def grade(
    answers: Annotated[Path, Argument(help="An answer file, or a folder of them.")],
    key: Annotated[Path | None, Option(help="A key file, or the folder of keys.")] = None,
    out: Annotated[Path | None, Option(help="A folder for marks, feedback and common causes.")] = None,
    hint: Hint = 2,
    json: Annotated[bool, Option("--json", help="Print the marks as JSON.")] = False,
) -> None:
    """Mark an answer and explain the first incorrect step.

    Every step is marked, the cause of the first incorrect one is named, and later steps are marked from the
    student's own numbers. Exit codes: 0 all correct, 1 something incorrect, 2 unreadable.
    """
    if answers.is_dir():
        _grade_cohort(answers, key, out, hint, json)
        return
    from headwork.courses.cohort import feedback_text, grade_file, write_marks
    from headwork.grading.feedback import as_data, feedback
    from headwork.pages.style import style_for

    if not answers.exists() and not answers.is_symlink():
        raise InputError(f"{answers}: no such file. Name an answer file or a folder of them.")
    graded = grade_file(answers, key)
    if out is not None:
        graded = write_marks([graded], out, hint=hint)[0]
    if graded.problem:
        raise InputError(graded.problem)
    if json:
        _write_json({number: as_data(mark) for number, mark in graded.marks.items()})
    elif len(graded.marks) > 1:
        Output().write(feedback_text(graded, hint, style_for(sys.stdout)))
    else:
        marks = graded.marks.values()
        Output().write("\n".join(feedback(mark, hint, style_for(sys.stdout)) for mark in marks))
    unreadable = any(step.state == "unreadable" for mark in graded.marks.values() for step in mark.steps)
    if unreadable or graded.state != "all right":
        raise typer.Exit(2 if unreadable else 1)


def _grade_cohort(answers: Path, key: Path | None, out: Path | None, hint: int, json: bool) -> None:
    from headwork.courses.cohort import common_causes, grade_cohort, marks_csv, write_marks

    if key is None:
        raise InputError(f"{answers} is a folder: name the folder of its keys with --key.")
    results = grade_cohort(answers, key)
    if out is not None:
        results = write_marks(results, out, hint=hint)
        print(f"wrote {out}: marks.csv, causes.csv, feedback/, overrides.toml", file=sys.stderr)
    causes = [{"exercise": e, "step": s, "cause": c, "students": n} for e, s, c, n in common_causes(results)]
    if json:
        rows = [
            {name: getattr(g, name) for name in ("student", "state", "points")}
            | {"of": g.max_points, "problem": g.problem}
            for g in results
        ]
        _write_json({"marks": rows, "causes": causes})
    else:
        lines = [marks_csv(results).rstrip("\n")]
        if causes:
            lines += ["", "most common causes:"]
            lines += [
                f"  {c['students']:>4}  {c['exercise']}. {c['step']}: {c['cause']}" for c in causes[:10]
            ]
        Output().write("\n".join(lines))
    states = {graded.state for graded in results}
    if "unreadable" in states:
        raise typer.Exit(2)
    if states & {"marked", "no answer"}:
        raise typer.Exit(1)


def _write_json(data: Any) -> None:
    Output().write(json_.dumps(data, ensure_ascii=False, allow_nan=False))
