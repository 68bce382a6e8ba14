"""``headwork sensitivity``: how attention responds when one key moves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from headwork.cli.app import command
from headwork.cli.options import Digits
from headwork.cli.output import Output


@command(
    'headwork sensitivity --query "1 0" --key "1 0; 0.9 0; 0 1" --value "1 0; 0 1; 0 0" '
    '--change 1 --delta "0.2 0"',
    'headwork sensitivity --query "1 0; 0 1" --key "1 0; 0 1" --value "1 0; 0 1" '
    '--change 0 --delta "5 5" --plot moved.png',
    panel="Look inside",
)
def sensitivity(
    output: Output,
    query: Annotated[str, Option(help="One row per query.")],
    key: Annotated[str, Option(help="One row per key.")],
    value: Annotated[str, Option(help="One row per value.")],
    change: Annotated[int, Option(help="Which key moves, counted from 0.")],
    delta: Annotated[str, Option(help="By how much: one number per column.")],
    betas: Annotated[str, Option(help="Values of beta, oo allowed.")] = "0.1 0.5 1 2 5 10 50",
    plot: Annotated[Path | None, Option(help="Also draw it: a .png or .svg file.")] = None,
    digits: Digits = 4,
) -> None:
    """Perturb one key and see how the output changes.

    Shows weights and output for several beta, the worst case over all inputs, and where the winner flips.
    """
    from headwork.pages.plots import save_plot
    from headwork.readings.sensitivity import sensitivity as measure

    result = measure(query, key, value, change=change, delta=delta, betas=betas.replace(",", " ").split())
    table = result.table(digits)
    if output.format == "html":
        from headwork.pages import figure, page, plot_svg

        curve = figure(plot_svg(result.figure(), "how far the output moves, by beta"))
        output.write(page("Sensitivity", table, curve))
    else:
        output.show(table)
    if plot is not None:
        save_plot(result.figure(), plot)
