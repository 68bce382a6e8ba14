"""``headwork build`` and ``equal``: heads to order, certified; two computations shown to be the same."""

from typing import Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.output import ListAll, Output
from headwork.errors import InputError


@command(
    'headwork build permutation --order "2 3 1" --tolerance 1e-3',
    "headwork build running-mean --tokens 5 --window 3 --ends none",
    'headwork build convolution --taps "1 0 -1" --tokens 7 --positions sinusoidal --as html --out edge.html',
    'headwork build convolution-2d --grid 3x4 --kernel "0 1 0; 1 -4 1; 0 1 0" --positions grid',
    'headwork build matrix --matrix "1/2 1/2; 1/4 3/4" --json',
    "headwork build copy --tolerance 1e-3",
)
def build(
    output: Output,
    target: Annotated[str, Argument(help="What the heads should do: see --list.")] = "",
    tokens: Annotated[int | None, Option(help="Number of tokens.")] = None,
    tolerance: Annotated[str | None, Option(help="The largest error allowed (1e-3; matrix: none).")] = None,
    positions: Annotated[str, Option(help="one-hot, grid, sinusoidal, rotary or none.")] = "one-hot",
    ends: Annotated[str | None, Option(help="clamp, wrap, zero or none; running mean: shrink.")] = None,
    order: Annotated[str | None, Option(help='A permutation from 1: "2 3 1" (y1 = x2), or cycles.')] = None,
    by: Annotated[int | None, Option(help="shift: y_i = x_(i+by).")] = None,
    window: Annotated[int | None, Option(help="running-mean: number of tokens.")] = None,
    causal: Annotated[bool, Option("--causal", help="running-mean: up to each token.")] = False,
    taps: Annotated[
        str | None, Option(help='convolution: "1 0 -1", the middle one on the token itself.')
    ] = None,
    kernel: Annotated[str | None, Option(help="convolution-2d: rows of taps.")] = None,
    grid: Annotated[str | None, Option(help="Patches as rows x columns: 3x4.")] = None,
    matrix: Annotated[str | None, Option(help="matrix: the weights, one row per query.")] = None,
    head_width: Annotated[int | None, Option(help="matrix: the head's width.")] = None,
    heads: Annotated[int | None, Option(help="The largest number of heads.")] = None,
    norm: Annotated[str, Option(help="The largest l2 norm of a content row.")] = "1",
    width: Annotated[int, Option(help="The width of the content.")] = 2,
    position_width: Annotated[int | None, Option(help="Width of sinusoidal and rotary positions.")] = None,
    delta: Annotated[str, Option(help="How far to move a key, to bound what that changes.")] = "0.1",
    list_: ListAll = False,
) -> None:
    """Build heads to order, with a proof of their error.

    Where no weights can do what is asked, the proof is given; where none were found, what was searched. The
    exit code is then 2.
    """
    options: dict[str, Any] = dict(locals())
    from headwork import construct

    if list_:
        output.show(construct.target_list())
        return
    if not target:
        raise InputError("build: what should the heads do? Name a target, or see headwork build --list.")
    for name in ("output", "target", "list_"):
        del options[name]
    numbers = ("norm", "delta", *(() if tolerance is None else ("tolerance",)))
    options |= {name: _number(options[name], f"--{name}") for name in numbers}
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


@command(
    "headwork equal --list",
    "headwork equal convolution-toeplitz",
    "headwork equal heads-convolution --cases 1000 --as html --out heads.html",
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
        output.show(construct.equivalence_list())
        return
    if not name:
        raise InputError("equal: which equivalence? Name one, or see headwork equal --list.")
    equivalence = construct.equal(name, cases=cases, seed=seed)
    output.show(equivalence, good=equivalence.holds)
