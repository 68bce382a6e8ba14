"""``headwork compare``: the families side by side, every row of the usual table measured."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from headwork.cli.app import command
from headwork.cli.options import names
from headwork.cli.output import Output
from headwork.errors import InputError


@command(
    "headwork compare",
    "headwork compare --only complexity --only parallelism",
    "headwork compare --families cnn,rnn,transformer --only long-range",
    "headwork compare --full --seeds 0,1,2 --out comparison-full",
    panel="Look inside",
)
def compare(
    output: Output,
    full: Annotated[bool, Option("--full", help="Longer gaps, Fashion-MNIST, reviews, three seeds.")] = False,
    only: Annotated[list[str] | None, Option(help="complexity, parallelism, long-range, bias, uses.")] = None,
    families: Annotated[
        str, Option(help="Of cnn, rnn, lstm, gru, transformer, linear; by default without rnn.")
    ] = "",
    seeds: Annotated[str, Option(help="0, or several: 0,1,2.")] = "",
    steps: Annotated[int | None, Option(help="Training steps of every model; 250, with --full 1000.")] = None,
    out: Annotated[Path | None, Option(help="The folder, new or of an interrupted comparison.")] = None,
) -> None:
    """Measure CNN, RNN, transformer and linear attention.

    The models have equally many parameters. It takes about two minutes on two cores.
    """
    try:
        seed_numbers = [int(part) for part in names(seeds)]
    except ValueError:
        raise InputError(f"--seeds {seeds!r}: expected whole numbers, such as 0 or 0,1,2.") from None
    if find_spec("torch") is None:
        raise InputError(
            'compare: torch is not installed, and everything here is measured with it: pip install ".[train]"'
        )
    from headwork import comparison

    settings = comparison.Settings.of(
        full=full, families=names(families.lower()), rows=only or [], seeds=seed_numbers, steps=steps
    )
    folder = out or Path("comparison-full" if full else "comparison-quick")
    try:
        result = comparison.compare(settings, folder)
    except comparison.StoppedError as stopped:
        print(f"headwork: {stopped}", file=sys.stderr)
        raise typer.Exit(130) from None
    output.show(result)
    print(f"The report with its pictures is {(folder / 'comparison.html').resolve()}", file=sys.stderr)
