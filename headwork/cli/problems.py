"""``headwork problems``: the problem book; ``headwork run``: the main job."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from headwork.cli.app import command
from headwork.cli.output import Output

if TYPE_CHECKING:
    from headwork.problems import Solution


@command("headwork run --out report/", panel="Learn")
def run(
    out: Annotated[Path | None, Option(help="The folder for the report; a new one by default.")] = None,
    book_only: Annotated[bool, Option("--book-only", help="Train no model.")] = False,
) -> None:
    """Solve the whole problem book and write a report.

    Where torch is installed, a small vision transformer is trained too. The report is one page with pictures.
    """
    from headwork.problems import summary
    from headwork.problems.report import new_folder, report

    folder = out or new_folder(Path.cwd())
    results = solve_all()
    print(summary(results).to_text())
    trained = None if book_only else _train_digits(folder)
    print(f"\nThe report is {report(results, folder, trained).resolve()}")
    if shutil.which("headwork") is None:
        print(f"The command headwork is in {Path(sys.executable).parent}: put that folder on your PATH.")
    tokens = 'headwork explain self-attention --set tokens="1 2; 2 0; 0 1"'
    print(f"Try next:\n  headwork problems A2\n  {tokens} --exact")
    print(f"  {tokens} --slide beta --as html --out beta.html")
    if not all(solution.right for solution in results.values()):
        raise typer.Exit(1)


@command(
    "headwork problems",
    "headwork problems A2",
    "headwork problems A2 --as html --out a2.html",
    "headwork problems --check",
    panel="Learn",
)
def problems(
    output: Output,
    slug: Annotated[str, Argument(help="Which problem: A1 to G12. Without it, all are listed.")] = "",
    check: Annotated[bool, Option("--check", help="Solve all, or this one; exit 1 on a mismatch.")] = False,
) -> None:
    """List course problems, solve one, or check all."""
    from headwork.problems import find, listing, summary

    if check:
        results = {find(slug).slug: find(slug).solve()} if slug else solve_all()
        table = summary(results)
        output.write(table.to_json() if output.format == "json" else table.to_text())
        raise typer.Exit(0 if all(solution.right for solution in results.values()) else 1)
    if not slug:
        output.write(listing())
        return
    problem = find(slug)
    solution = problem.solve()
    if output.format == "json":
        output.write(problem.to_json(solution))
    else:
        output.show(problem.report(solution))
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


def _train_digits(folder: Path) -> Any:
    """The vision transformer trained on the embedded digits, where torch is installed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        print('\nNo model was trained: torch is not installed. Try pip install ".[train]".')
        return None
    from headwork.inspection.digits import train_digits

    print(
        "\nTraining a vision transformer on the embedded digits (patch 2, 6 layers, 4 heads) ...", flush=True
    )
    job = train_digits(folder)
    print(f"Test accuracy {job.result.test_accuracy:.1%} on images it has never seen.")
    return job
