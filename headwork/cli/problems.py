"""``headwork problems``: the problem book; ``headwork run``: the main job."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwork.cli.app import app
from headwork.cli.showing import As, Json, Out, form, show

if TYPE_CHECKING:
    from headwork.problems import Solution

EPILOG = """Examples:

headwork problems

headwork problems A2

headwork problems A2 --as html --out a2.html

headwork problems --check"""


@app.command(epilog=EPILOG)
def problems(
    slug: Annotated[str, typer.Argument(help="Which problem: A1 to G12. Without it, all are listed.")] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Solve all (or this one) and exit 1 on any mismatch.")
    ] = False,
    as_: As = "text",
    json: Json = False,
    out: Out = None,
    fragment: Annotated[
        bool, typer.Option("--fragment", help="LaTeX to put into a document of your own.")
    ] = False,
) -> None:
    """The problem book: list the problems, solve one, or check all."""
    from headwork.problems import find, listing, summary

    wanted = form(as_, json, ("text", "markdown", "latex", "html", "json"))
    if check:
        results = {find(slug).slug: find(slug).solve()} if slug else solve_all()
        table = summary(results)
        show(table.to_json() if wanted == "json" else table.to_text(), out)
        raise typer.Exit(0 if all(solution.right for solution in results.values()) else 1)
    if not slug:
        show(listing(), out)
        return
    problem = find(slug)
    solution = problem.solve()
    report = problem.report(solution)
    renderers: dict[str, Callable[[], str]] = {
        "text": report.to_text,
        "markdown": report.to_markdown,
        "html": report.to_html,
        "latex": lambda: report.to_latex(fragment),
        "json": lambda: problem.to_json(solution),
    }
    show(renderers[wanted](), out)
    if not solution.right:
        raise typer.Exit(1)


def solve_all() -> dict[str, Solution]:
    """Every problem solved, with a line of progress on stderr."""
    from headwork.problems import entries

    results = {}
    for slug, problem in entries().items():
        if sys.stderr.isatty():
            print(f"\r\033[Ksolving {slug} {problem.title}", end="", file=sys.stderr, flush=True)
        results[slug] = problem.solve()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return results


@app.command(epilog="Example:\n\nheadwork run --out report/")
def run(
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the report; new unless given.")
    ] = None,
    book_only: Annotated[bool, typer.Option("--book-only", help="Leave out the training.")] = False,
) -> None:
    """The main job: solve the whole problem book, train a small model, write one report with pictures."""
    from headwork.problems import summary
    from headwork.problems.report import new_folder, report

    folder = out or new_folder(Path.cwd())
    results = solve_all()
    print(summary(results).to_text())
    trained = None if book_only else _digits(folder)
    written = report(results, folder, trained)
    print(f"\nThe report is {written.resolve()}")
    if shutil.which("headwork") is None:
        print(
            f"The command headwork is in {Path(sys.executable).parent}: put it on your path, as README tells."
        )
    print(
        'Try next:\n  headwork problems A2\n  headwork explain self-attention --set tokens="1 2; 2 0; 0 1" --exact'
    )
    print(
        '  headwork explain self-attention --set tokens="1 2; 2 0; 0 1" --slide beta --as html --out beta.html'
    )
    if not all(solution.right for solution in results.values()):
        raise typer.Exit(1)


def _digits(folder: Path) -> Any:
    """The vision transformer trained on the embedded digits, where torch is installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        print('\nNo model was trained: torch is not installed. Try pip install ".[train]".')
        return None
    from headwork.training import digits_job

    print(
        "\nTraining a vision transformer on the embedded digits (patch 2, 6 layers, 4 heads) ...", flush=True
    )
    job = digits_job(folder)
    print(f"Test accuracy {job.test_accuracy:.1%} of images that it never saw.")
    return job
