"""Options that every showing command has, and where the result goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headwork.errors import InputError, unknown

As = Annotated[str, typer.Option("--as", help="text, markdown, latex, html, json or notebook.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the screen.")]
Json = Annotated[bool, typer.Option("--json", help="Short for --as json.")]
Digits = Annotated[int, typer.Option("--digits", min=0, max=15, help="Digits after the decimal point.")]


def form(chosen: str, json: bool, known: tuple[str, ...]) -> str:
    """Which form was asked for; an unknown one is refused."""
    wanted = "json" if json else chosen
    if wanted not in known:
        raise unknown("--as", wanted, known)
    return wanted


def show(text: str, out: Path | None) -> None:
    """The result, on the screen or whole into a file."""
    if out is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from headwork.files import write_whole

    if out.is_dir():
        raise InputError(f"--out {out} is a folder. Name a file in it.")
    print(f"wrote {write_whole(out, text)}", file=sys.stderr)
