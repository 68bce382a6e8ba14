"""``headwork equal``: two computations shown to be the same."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.options import ListAll
from headwork.cli.output import Output
from headwork.errors import InputError


@command(
    "headwork equal --list",
    "headwork equal convolution-toeplitz",
    "headwork equal heads-convolution --cases 1000 --as html --out heads.html",
    panel="Build",
)
def equal(
    output: Output,
    name: Annotated[str, Argument(help="Which equivalence: see --list.")] = "",
    cases: Annotated[int, Option(help="Number of random cases to compare.")] = 100,
    seed: Annotated[int, Option(min=0, help="Seed of the random cases.")] = 0,
    list_: ListAll = False,
) -> None:
    """Prove that two computations are the same.

    Both sides are worked step by step, their weights and FLOPs counted, their results compared on random
    cases, and their difference proved to be zero on a small case.
    """
    from headwork import construct

    if list_:
        output.write(construct.equivalence_list())
        return
    if not name:
        raise InputError("equal: which equivalence? Name one, or see headwork equal --list.")
    equivalence = construct.equal(name, cases=cases, seed=seed)
    output.show(equivalence)
    if not equivalence.holds:
        raise typer.Exit(1)
