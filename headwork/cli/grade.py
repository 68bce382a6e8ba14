"""``headwork grade``: an answer, or a class of answers, marked and explained."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork grade ex7/answer.toml

headwork grade ex7/answer.toml --hint 3

headwork grade sheet3/answers/ --key sheet3/key/ --out marks/

Exit codes: 0 all right, 1 something wrong in an answer, 2 unreadable."""


@app.command(epilog=EPILOG)
def grade(
    answers: Annotated[Path, typer.Argument(help="An answer file, or a folder of them.")],
    key: Annotated[Path | None, typer.Option("--key", help="A key file, or the folder of keys.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for marks, feedback and common causes.")
    ] = None,
    hint: Annotated[
        int,
        typer.Option("--hint", min=0, max=3, help="0 marks only, 1 where, 2 what kind, 3 the right step."),
    ] = 2,
    json: Json = False,
) -> None:
    """Mark every step, name the first wrong one and its cause, and mark the rest from the student's own numbers."""
    if answers.is_dir():
        _class(answers, key, out, hint, json)
        return
    from headwork.courses.cohort import feedback_text, grade_file, write_marks
    from headwork.grading.feedback import as_data

    if not answers.exists() and not answers.is_symlink():
        raise InputError(f"{answers}: not there. Name an answer file or a folder of them.")
    graded = grade_file(answers, key)
    if out is not None:
        graded = write_marks([graded], out, hint=hint)[0]
    if graded.problem:
        raise InputError(graded.problem)
    if json:
        show(
            json_.dumps(
                {number: as_data(mark) for number, mark in graded.marks.items()},
                ensure_ascii=False,
                allow_nan=False,
            ),
            None,
        )
    else:
        show(feedback_text(graded, hint) if len(graded.marks) > 1 else _single(graded, hint), None)
    unreadable = any(step.state == "unreadable" for mark in graded.marks.values() for step in mark.steps)
    if unreadable or graded.state != "all right":
        raise typer.Exit(2 if unreadable else 1)


def _single(graded: object, hint: int) -> str:
    from headwork.courses.cohort import Graded
    from headwork.grading.feedback import feedback

    assert isinstance(graded, Graded)
    return "\n".join(feedback(mark, hint) for mark in graded.marks.values())


def _class(answers: Path, key: Path | None, out: Path | None, hint: int, json: bool) -> None:
    from headwork.courses.cohort import common_causes, grade_class, marks_csv, write_marks

    if key is None:
        raise InputError(f"{answers} is a folder: say with --key where its keys are.")
    results = grade_class(answers, key)
    if out is not None:
        results = write_marks(results, out, hint=hint)
        print(f"wrote {out}: marks.csv, causes.csv, feedback/, overrides.toml", file=sys.stderr)
    causes = [{"exercise": e, "step": s, "cause": c, "students": n} for e, s, c, n in common_causes(results)]
    if json:
        rows = [
            {"student": g.student, "state": g.state, "points": g.points, "of": g.full, "problem": g.problem}
            for g in results
        ]
        show(json_.dumps({"marks": rows, "causes": causes}, ensure_ascii=False, allow_nan=False), None)
    else:
        lines = [marks_csv(results).rstrip("\n")]
        if causes:
            lines += [
                "",
                "most common causes:",
                *(f"  {c['students']:>4}  {c['exercise']}. {c['step']}: {c['cause']}" for c in causes[:10]),
            ]
        show("\n".join(lines), None)
    states = {graded.state for graded in results}
    if "unreadable" in states:
        raise typer.Exit(2)
    if states & {"marked", "no answer"}:
        raise typer.Exit(1)
