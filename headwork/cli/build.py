"""``headwork build``: a head to order, with a certificate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, Out, form, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork build permutation --order "2 3 1" --tolerance 1e-3

headwork build running-mean --tokens 5 --window 3 --ends none

headwork build convolution --taps "1 0 -1" --tokens 7 --positions sinusoidal --as html --out edge.html

headwork build convolution-2d --grid 3x4 --kernel "0 1 0; 1 -4 1; 0 1 0" --positions grid

headwork build matrix --matrix "1/2 1/2; 1/4 3/4" --json

headwork build copy --tolerance 1e-3"""

FORMS = ("text", "markdown", "latex", "html", "json")


@app.command(epilog=EPILOG)
def build(
    target: Annotated[str, typer.Argument(help="What the heads should do: see --list.")] = "",
    tokens: Annotated[int | None, typer.Option("--tokens", help="How many tokens there are.")] = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", help="The largest error allowed (1e-3; matrix: none).")
    ] = "",
    positions: Annotated[
        str, typer.Option("--positions", help="one-hot, grid, sinusoidal, rotary or none.")
    ] = "one-hot",
    ends: Annotated[str, typer.Option("--ends", help="clamp, wrap or none; shrink for a running mean.")] = "",
    order: Annotated[
        str, typer.Option("--order", help='A permutation from 1: "2 3 1" (y1 = x2), or cycles.')
    ] = "",
    by: Annotated[int | None, typer.Option("--by", help="shift: y_i = x_(i+by).")] = None,
    window: Annotated[int | None, typer.Option("--window", help="running-mean: how many tokens.")] = None,
    causal: Annotated[bool, typer.Option("--causal", help="running-mean: up to each token.")] = False,
    taps: Annotated[
        str, typer.Option("--taps", help='convolution: "1 0 -1", the middle one on the token itself.')
    ] = "",
    kernel: Annotated[str, typer.Option("--kernel", help="convolution-2d: rows of taps.")] = "",
    grid: Annotated[str, typer.Option("--grid", help="Patches as rows x columns: 3x4.")] = "",
    matrix: Annotated[str, typer.Option("--matrix", help="matrix: the weights, one row per query.")] = "",
    head_width: Annotated[int | None, typer.Option("--head-width", help="matrix: the head's width.")] = None,
    heads: Annotated[int | None, typer.Option("--heads", help="The most heads that may be used.")] = None,
    norm: Annotated[str, typer.Option("--norm", help="The largest l2 norm of a content row.")] = "1",
    width: Annotated[int, typer.Option("--width", help="The width of the content.")] = 2,
    position_width: Annotated[
        int | None, typer.Option("--position-width", help="Of sinusoidal and rotary positions.")
    ] = None,
    delta: Annotated[
        str, typer.Option("--delta", help="How far one key is moved to test the sensitivity.")
    ] = "0.1",
    as_: Annotated[str, typer.Option("--as", help="text, markdown, latex, html or json.")] = "text",
    json: Json = False,
    out: Out = None,
    fragment: Annotated[
        bool, typer.Option("--fragment", help="LaTeX to put into a document of your own.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the targets with their inputs.")] = False,
) -> None:
    """Build attention heads for a target, with a proven error bound; or say why none can."""
    from headwork.construct import build as built
    from headwork.construct import target_list

    if list_:
        show(target_list(), out)
        return
    if not target:
        raise InputError("build: what should the heads do? Name a target, or see headwork build --list.")
    wanted = form(as_, json, FORMS)
    typed: dict[str, Any] = {
        "tokens": tokens,
        "ends": ends,
        "order": order,
        "by": by,
        "window": window,
        "causal": causal,
        "taps": taps,
        "kernel": kernel,
        "grid": grid,
        "matrix": matrix,
        "head_width": head_width,
    }
    details = {name: value for name, value in typed.items() if value not in ("", None, False)}
    result = built(
        target,
        tolerance=_number(tolerance, "--tolerance") if tolerance else None,
        positions=positions,
        norm=_number(norm, "--norm"),
        width=width,
        heads=heads,
        position_width=position_width,
        delta=_number(delta, "--delta"),
        **details,
    )
    renderers = {
        "text": result.to_text,
        "markdown": result.to_markdown,
        "latex": lambda: result.to_latex(fragment),
        "html": result.to_html,
        "json": result.to_json,
    }
    show(renderers[wanted](), out)
    if not result.possible:
        raise typer.Exit(2)
    if not result.holds:
        raise typer.Exit(1)


def _number(text: str, option: str) -> float:
    from headwork.numbers.typed import SymbolFound, read_number

    try:
        return float(read_number(text))
    except SymbolFound:
        raise InputError(f"{option} is {text!r}. Expected a number, such as 1e-3 or 1/1000.") from None
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
