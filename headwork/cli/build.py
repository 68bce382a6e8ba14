"""``headwork build`` and ``equal``: heads to order, certified; two computations shown to be the same."""

from typing import Any

import typer

from headwork.cli.app import command
from headwork.cli.output import Output
from headwork.errors import InputError


@command()
def build(output: Output, target: str = "", list_: bool = False, **options: Any) -> None:
    """Build heads to order, with a proof of their error.

    Where no weights can do what is asked, the proof is given; where none were found, what was searched. The
    exit code is then 2.
    """
    from headwork import construct

    if list_:
        output.show(construct.target_list())
        return
    if not target:
        raise InputError("build: what should the heads do? Name a target, or see headwork build --list.")
    for name in ("norm", "delta", "tolerance"):
        if options[name] is not None:
            options[name] = _number(options[name], f"--{name}")
    # 0 equals False, so `value not in (None, False)` would drop it.
    given = {n: v for n, v in options.items() if not (v is None or v is False)}
    result = construct.build(target, **given)
    output.show(result, good=result.holds or not result.possible)
    if not result.possible:
        raise typer.Exit(2)


def _number(text: str, option: str) -> float:
    from headwork.numbers.parsing import SymbolInDecimals, read_number

    try:
        return float(read_number(text))
    except SymbolInDecimals:
        raise InputError(f"{option} is {text!r}. Expected a number, such as 1e-3 or 1/1000.") from None
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


@command()
def equal(output: Output, name: str = "", cases: int = 100, seed: int = 0, list_: bool = False) -> None:
    """Prove that two computations are the same.

    Both sides are worked step by step, their weights and FLOPs counted, their results compared on random
    cases, and their difference proved to be zero on a small case.
    """
    from headwork import construct

    if list_:
        output.show(construct.equivalence_list())
        return
    if not name:
        raise InputError("equal: which equivalence? Name one, or see headwork equal --list.")
    equivalence = construct.equal(name, cases=cases, seed=seed)
    output.show(equivalence, good=equivalence.holds)
