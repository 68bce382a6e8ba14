"""``headwork equal``: two things shown to be the same."""

from __future__ import annotations

from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, Out, form, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork equal --list

headwork equal convolution-toeplitz

headwork equal heads-convolution --cases 1000 --as html --out heads.html"""

FORMS = ("text", "markdown", "latex", "html", "json")


@app.command(epilog=EPILOG)
def equal(
    name: Annotated[str, typer.Argument(help="Which equivalence: see --list.")] = "",
    cases: Annotated[int, typer.Option("--cases", help="How many random cases to compare.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the random cases.")] = 0,
    as_: Annotated[str, typer.Option("--as", help="text, markdown, latex, html or json.")] = "text",
    json: Json = False,
    out: Out = None,
    fragment: Annotated[
        bool, typer.Option("--fragment", help="LaTeX to put into a document of your own.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the equivalences.")] = False,
) -> None:
    """Show that two things are the same: both sides traced, counted, compared, and proved on a small case."""
    from headwork.construct import equal as show_equal
    from headwork.construct import equivalence_list

    if list_:
        show(equivalence_list(), out)
        return
    if not name:
        raise InputError("equal: which equivalence? Name one, or see headwork equal --list.")
    wanted = form(as_, json, FORMS)
    equality = show_equal(name, cases=cases, seed=seed)
    renderers = {
        "text": equality.to_text,
        "markdown": equality.to_markdown,
        "latex": lambda: equality.to_latex(fragment),
        "html": equality.to_html,
        "json": equality.to_json,
    }
    show(renderers[wanted](), out)
    if not equality.holds:
        raise typer.Exit(1)
