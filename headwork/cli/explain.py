"""``headwork explain``: a problem worked step by step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headwork.cli.app import app
from headwork.cli.showing import As, Digits, Json, Out, form, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork explain self-attention --set tokens="1 2; 2 0" --set beta=1 --exact

headwork explain self-attention problem.toml --as html --out steps.html

headwork explain self-attention problem.toml --slide beta --as html --out beta.html

headwork explain softmax --set scores="0 1 2" --cell weights[1]"""


@app.command(epilog=EPILOG)
def explain(
    mechanism: Annotated[str, typer.Argument(help="What to work: see --list.")] = "",
    problem: Annotated[
        Path | None, typer.Argument(help="A TOML file: mechanism, [inputs], [options].")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="An input or option, name=value; repeatable.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Keep fractions, roots, e and pi.")] = False,
    cell: Annotated[
        list[str] | None, typer.Option("--cell", help="Only the arithmetic of a cell: weights[0,1].")
    ] = None,
    limit: Annotated[str, typer.Option("--limit", help="Every step in a limit: beta=oo.")] = "",
    what_if: Annotated[
        list[str] | None, typer.Option("--what-if", help='Replace a step: scores="0 1; 1 0".')
    ] = None,
    slide: Annotated[
        str, typer.Option("--slide", help="A slider over this option or symbol (html): beta, or beta=0,1,oo.")
    ] = "",
    digits: Digits = 4,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Annotated[
        bool, typer.Option("--fragment", help="LaTeX to put into a document of your own.")
    ] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the mechanisms with their inputs and steps.")
    ] = False,
) -> None:
    """Work a problem step by step: every value named, with its shape and its arithmetic."""
    if list_:
        from headwork.readings.listing import mechanism_list

        show(mechanism_list(), out)
        return
    from headwork.readings import explain as work
    from headwork.readings.problem_file import read_problem

    given: dict[str, Any] = {}
    if mechanism.endswith(".toml") and problem is None:
        mechanism, problem = "", Path(mechanism)
    if problem is not None:
        named, given = read_problem(problem)
        if mechanism and named and named.replace("_", "-") != mechanism.replace("_", "-"):
            raise InputError(
                f"{problem} is about {named}, but {mechanism} was asked for. Leave one of them out."
            )
        mechanism = mechanism or named
    if not mechanism:
        raise InputError("explain: which mechanism? Name one, or see headwork explain --list.")
    given |= dict(_pair(text, "--set") for text in set_ or [])
    for name in ("exact", "digits", "replacing"):
        if name in given:
            raise InputError(
                f"explain: '{name}' is not an input. Use the option --{name.replace('replacing', 'what-if')}."
            )
    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json", "notebook"))
    settings: dict[str, Any] = {"exact": exact or bool(limit), "digits": digits}
    if slide:
        from headwork.readings.sliding import slide_frames

        if wanted != "html":
            raise InputError(f"--slide makes a page with a slider: add --as html --out FILE (not {wanted}).")
        show(slide_frames(mechanism, slide, settings, given), out)
        return
    trace = work(mechanism, **settings, **given)
    for path, value in (_pair(text, "--what-if") for text in what_if or []):
        trace = trace.what_if(path, value)
    if limit:
        trace = trace.limit(*_pair(limit, "--limit"))
    if cell:
        show("\n".join(str(trace.cell(*_place(text))) for text in cell), out)
        return
    renderers = {
        "text": trace.to_text,
        "markdown": trace.to_markdown,
        "latex": lambda: trace.to_latex(fragment),
        "html": trace.to_html,
        "json": trace.to_json,
        "notebook": trace.to_notebook,
    }
    show(renderers[wanted](), out)
    if out is not None:
        for warning in trace.warnings:
            print(f"! {warning}", file=sys.stderr)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: expected name=value, such as {option} beta=1.")
    return name.strip(), value.strip()


def _place(text: str) -> tuple[Any, ...]:
    path, bracket, rest = text.partition("[")
    numbers = rest.rstrip("] ").split(",") if bracket else []
    if any(not n.strip().isdecimal() for n in numbers):
        raise InputError(
            f"--cell {text!r}: expected a step and its place counted from 0, such as weights[0,1]."
        )
    return (path.strip(), *(int(n) for n in numbers))
