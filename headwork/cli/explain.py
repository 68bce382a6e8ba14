"""``headwork explain``: a problem worked step by step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.options import Digits, ListAll, Settings, assignment
from headwork.cli.output import FORMATS, Output
from headwork.errors import InputError


@command(
    'headwork explain self-attention --set tokens="1 2; 2 0" --set beta=1 --exact',
    "headwork explain self-attention problem.toml --as html --out steps.html",
    "headwork explain self-attention problem.toml --slide beta --as html --out beta.html",
    'headwork explain softmax --set scores="0 1 2" --cell "weights[1]"',
    panel="Learn",
    formats=(*FORMATS, "notebook"),
)
def explain(
    output: Output,
    mechanism: Annotated[str, Argument(help="What to work: see --list.")] = "",
    problem: Annotated[Path | None, Argument(help="A TOML file: mechanism, [inputs], [options].")] = None,
    set_: Settings = None,
    exact: Annotated[bool, Option("--exact", help="Keep fractions, roots, e and pi.")] = False,
    cell: Annotated[list[str] | None, Option(help="Only the arithmetic of a cell: weights[0,1].")] = None,
    limit: Annotated[str, Option(help="Every step in a limit: beta=oo.")] = "",
    what_if: Annotated[list[str] | None, Option(help='Replace a step: scores="0 1; 1 0".')] = None,
    slide: Annotated[str, Option(help="A page with a slider: beta, or beta=0,1,oo.")] = "",
    digits: Digits = 4,
    list_: ListAll = False,
) -> None:
    """Work a problem step by step, with exact numbers.

    Every value is named, with its shape and the arithmetic of each cell.
    """
    if list_:
        from headwork.readings.listing import mechanism_list

        output.write(mechanism_list())
        return
    from headwork import readings
    from headwork.readings.problem_file import read_problem

    inputs: dict[str, Any] = {}
    if mechanism.endswith(".toml") and problem is None:
        mechanism, problem = "", Path(mechanism)
    if problem is not None:
        named, inputs = read_problem(problem)
        if mechanism and named and named.replace("_", "-") != mechanism.replace("_", "-"):
            raise InputError(
                f"{problem} is about {named}, but {mechanism} was asked for. Leave one of them out."
            )
        mechanism = mechanism or named
    if not mechanism:
        raise InputError("explain: which mechanism? Name one, or see headwork explain --list.")
    inputs |= dict(assignment(text, "--set") for text in set_ or [])
    for name in ("exact", "digits", "replacing"):
        if name in inputs:
            option = name.replace("replacing", "what-if")
            raise InputError(f"explain: '{name}' is not an input. Use the option --{option}.")
    settings: dict[str, Any] = {"exact": exact or bool(limit), "digits": digits}
    if slide:
        from headwork.readings.sliding import slide_frames

        if output.format != "html":
            raise InputError(
                f"--slide makes a page with a slider: add --as html --out FILE (not {output.format})."
            )
        output.write(slide_frames(mechanism, slide, settings, inputs))
        return
    trace = readings.explain(mechanism, **settings, **inputs)
    for path, value in (assignment(text, "--what-if") for text in what_if or []):
        trace = trace.what_if(path, value)
    if limit:
        trace = trace.limit(*assignment(limit, "--limit"))
    if cell:
        output.write("\n".join(str(trace.cell(*_cell_index(text))) for text in cell))
        return
    output.show(trace)
    if output.path is not None:
        for warning in trace.warnings:
            print(f"! {warning}", file=sys.stderr)


def _cell_index(text: str) -> tuple[Any, ...]:
    """The step and the indices of ``weights[0,1]``."""
    path, bracket, rest = text.partition("[")
    numbers = rest.rstrip("] ").split(",") if bracket else []
    if any(not n.strip().isdecimal() for n in numbers):
        raise InputError(f"--cell {text!r}: expected a step and indices from 0, such as weights[0,1].")
    return (path.strip(), *(int(n) for n in numbers))
