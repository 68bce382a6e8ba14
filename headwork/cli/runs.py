"""``headwork curves``, ``evaluate``, ``predict``, ``export`` and ``report``: what to do with runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headwork.cli.app import app
from headwork.cli.showing import As, Json, Out, form, show
from headwork.errors import InputError, unknown

RunFolder = Annotated[Path, typer.Argument(help="The folder of the run.")]
FORMS = ("text", "markdown", "latex", "html", "json")


@app.command(epilog="Example:\n\nheadwork curves runs/v10 runs/v30 runs/v50 --out curves.png")
def curves(
    runs: Annotated[list[Path], typer.Argument(help="The folders of one or more runs.")],
    out: Annotated[Path, typer.Option("--out", help="The picture, .png or .svg.")] = Path("curves.png"),
) -> None:
    """Loss and accuracy of several runs on one picture, and their results in a table."""
    from headwork.training.comparing import curves_of, results_of

    written = curves_of(runs, out)
    show(results_of(runs).to_text(), None)
    print(f"wrote {written}")


@app.command(
    epilog="Examples:\n\nheadwork evaluate runs/v10\n\nheadwork evaluate runs/v10 --part validation --json"
)
def evaluate(
    run: RunFolder,
    part: Annotated[str, typer.Option("--part", help="validation or test.")] = "",
    data: Annotated[
        str, typer.Option("--data", help="Other data of the same classes: its test part, or all.")
    ] = "",
    columns: Annotated[str, typer.Option("--columns", help="Of other texts in a file: review,stars.")] = "",
    as_: As = "text",
    json: Json = False,
    out: Out = None,
) -> None:
    """Measure a run again, class by class."""
    wanted = form(as_, json, FORMS)
    if part not in ("", "validation", "test"):
        raise unknown("--part", part, ["validation", "test"])
    from headwork.training.evaluation import by_class
    from headwork.training.trained import evaluate_run

    named = tuple(name.strip() for name in columns.split(",")) if columns else ()
    evaluation, facts, told = evaluate_run(run, part=part or None, data=data, columns=named)  # type: ignore[arg-type]
    show(_as(by_class(evaluation, facts.classes, f"{run}: {told}"), wanted), out)


@app.command(
    epilog='Examples:\n\nheadwork predict runs/v10 --image boot.png\n\nheadwork predict runs/imdb --text "A fine film."'
)
def predict(
    run: RunFolder,
    image: Annotated[list[Path] | None, typer.Option("--image", help="A picture; repeatable.")] = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="A text; repeatable.")] = None,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
) -> None:
    """What a run says of pictures or texts, and how sure it is."""
    wanted = form(as_, json, FORMS)
    from headwork.training.trained import predict as said

    show(_as(said(run, images=image or [], texts=text or []), wanted), out)


@app.command(
    epilog="Examples:\n\nheadwork export runs/v10 --to onnx --out vit.onnx\n\nheadwork export runs/v10 --to pretrained"
)
def export(
    run: RunFolder,
    to: Annotated[str, typer.Option("--to", help="onnx or pretrained.")] = "onnx",
    out: Annotated[
        Path | None, typer.Option("--out", help="The file, or the folder; in the run's unless given.")
    ] = None,
) -> None:
    """Write a trained model for others, compared with ours after writing."""
    if to not in ("onnx", "pretrained"):
        raise unknown("--to", to, ["onnx", "pretrained"])
    from headwork.training.export import export_run
    from headwork.training.folders import RESULT, check_run

    if out is None and not (check_run(run) / RESULT).exists():
        raise InputError(
            f"{run}: not finished, so this model is soon out of date. Name a place for it with --out."
        )
    for line in export_run(run, to, out):
        print(line)


@app.command(
    epilog="Examples:\n\nheadwork report runs/v10 --as notebook --out v10.ipynb\n\nheadwork report runs/v10 --as html"
)
def report(
    run: RunFolder,
    as_: Annotated[str, typer.Option("--as", help="notebook or html.")] = "notebook",
    out: Out = None,
) -> None:
    """A finished run told: as a notebook ready to hand in, or as a page."""
    wanted = form(as_, False, ("notebook", "html"))
    from headwork.training.report import write_report

    if out is not None and out.is_dir():
        raise InputError(f"--out {out} is a folder. Name a file in it.")
    print(f"wrote {write_report(run, wanted, out)}")


def _as(table: Any, wanted: str) -> str:
    written = {
        "text": table.to_text,
        "markdown": table.to_markdown,
        "latex": table.to_latex,
        "html": table.to_html,
        "json": table.to_json,
    }
    return str(written[wanted]())
