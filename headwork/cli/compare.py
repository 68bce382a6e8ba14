"""``headwork compare``: the families side by side, every row of the usual table measured."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, form, show
from headwork.errors import InputError

EPILOG = """Examples:

headwork compare

headwork compare --only complexity --only parallelism

headwork compare --families cnn,rnn,transformer --only long-range

headwork compare --full --seeds 0,1,2 --out comparison-full"""


@app.command(epilog=EPILOG)
def compare(
    full: Annotated[
        bool, typer.Option("--full", help="Longer gaps, Fashion-MNIST, reviews, three seeds.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="complexity, parallelism, long-range, bias or uses; repeatable."),
    ] = None,
    families: Annotated[
        str,
        typer.Option(
            "--families", help="Of cnn, rnn, lstm, gru, transformer, linear; all but rnn unless given."
        ),
    ] = "",
    seeds: Annotated[str, typer.Option("--seeds", help="0, or several: 0,1,2.")] = "",
    steps: Annotated[
        int | None, typer.Option("--steps", help="Budget of every training; 250, in full 1000.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder; a start with the same settings goes on in it.")
    ] = None,
    as_: Annotated[
        str, typer.Option("--as", help="What to print: text, markdown, latex, html or json.")
    ] = "text",
    json: Json = False,
) -> None:
    """CNN, LSTM, GRU, transformer and linear attention of equal size, measured: about two minutes."""
    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json"))
    numbers = _numbers(seeds)
    if find_spec("torch") is None:
        raise InputError(
            'compare: torch is not installed, and everything here is measured with it: pip install ".[train]"'
        )
    from headwork.comparison import Settings, StoppedError
    from headwork.comparison import compare as measured

    names = [name.strip().lower() for name in families.split(",") if name.strip()]
    settings = Settings.of(full=full, families=names, rows=only or [], seeds=numbers, steps=steps)
    folder = out or Path("comparison-full" if full else "comparison-quick")
    try:
        comparison = measured(settings, folder)
    except StoppedError as stopped:
        print(f"headwork: {stopped}", file=sys.stderr)
        raise typer.Exit(130) from None
    forms = {
        "text": comparison.to_text,
        "markdown": comparison.to_markdown,
        "latex": comparison.to_latex,
        "html": comparison.to_html,
        "json": comparison.to_json,
    }
    show(forms[wanted](), None)
    print(f"The report with its pictures is {(folder / 'comparison.html').resolve()}", file=sys.stderr)


def _numbers(typed: str) -> list[int]:
    try:
        return [int(part) for part in typed.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--seeds {typed!r}: expected whole numbers, such as 0 or 0,1,2.") from None
