"""``headwork sensitivity``: one key is moved, and attention answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import As, Digits, Json, Out, form, show

EPILOG = """Examples:

headwork sensitivity --query "1 0" --key "1 0; 0.9 0; 0 1" --value "1 0; 0 1; 0 0" --change 1 --delta "0.2 0"

headwork sensitivity --query "1 0; 0 1" --key "1 0; 0 1" --value "1 0; 0 1" --change 0 --delta "5 5" --plot moved.png"""


@app.command(epilog=EPILOG)
def sensitivity(
    query: Annotated[str, typer.Option(help="One row a query.")],
    key: Annotated[str, typer.Option(help="One row a key.")],
    value: Annotated[str, typer.Option(help="One row a value.")],
    change: Annotated[int, typer.Option(help="Which key moves, counted from 0.")],
    delta: Annotated[str, typer.Option(help="By how much: one number a column.")],
    betas: Annotated[str, typer.Option(help="Values of beta, oo allowed.")] = "0.1 0.5 1 2 5 10 50",
    plot: Annotated[Path | None, typer.Option(help="Also draw it: a .png or .svg file.")] = None,
    digits: Digits = 4,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
) -> None:
    """Perturb one key: weights and output for several beta, the worst case, and where the winner flips."""
    from headwork.pages.plots import save_plot
    from headwork.readings.sensitivity import sensitivity as measure

    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json"))
    found = measure(query, key, value, change=change, delta=delta, betas=betas.replace(",", " ").split())
    table = found.table(digits)
    if wanted == "html":
        from headwork.pages import figure, page, plot_svg

        show(
            page("Sensitivity", table, figure(plot_svg(found.figure(), "how far the output moves, by beta"))),
            out,
        )
    else:
        show(
            {
                "text": table.to_text,
                "markdown": table.to_markdown,
                "latex": table.to_latex,
                "json": table.to_json,
            }[wanted](),
            out,
        )
    if plot is not None:
        save_plot(found.figure(), plot)
