"""``headwork run``, ``problems``, ``explain`` and ``lab``: the problem book, problems worked step by step."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwork.cli.app import command
from headwork.cli.output import Output, assignment, check_out_path
from headwork.errors import InputError

if TYPE_CHECKING:
    from headwork.problems import Solution


@command()
def run(out: Path | None = None, book_only: bool = False, lab: bool = False) -> None:
    """Solve the whole problem book and write a report.

    Where torch is installed, a small vision transformer is trained too. The report is one page with pictures.
    """
    from headwork.problems import summary
    from headwork.problems.report import LAB_FILE, new_folder, report

    check_out_path(out, folder=True)
    folder = out or new_folder(Path.cwd())
    results = solve_all()
    print(summary(results).to_text())
    trained = None if book_only else _train_digits(folder)
    if lab:
        _write_lab(folder / LAB_FILE, None, "")
    print(f"\nThe report is {report(results, folder, trained, lab).resolve()}")
    if shutil.which("headwork") is None:
        print(f"The command headwork is in {Path(sys.executable).parent}: put that folder on your PATH.")
    tokens = 'headwork explain self-attention --set tokens="1 2; 2 0; 0 1"'
    print(f"Try next:\n  headwork problems A2\n  {tokens} --exact")
    print(f"  {tokens} --slide beta --as html --out beta.html")
    print("Or change the numbers in a page that computes:\n  headwork lab")
    if not all(solution.right for solution in results.values()):
        raise typer.Exit(1)


@command()
def problems(output: Output, slug: str = "", check: bool = False) -> None:
    """List course problems, solve one, or check all.

    Without a slug, another format than text gives the whole book.
    """
    from headwork.problems import book, find_problem, problem_list, summary

    if not (slug or check) and output.is_default:
        output.show(problem_list())
        return
    results = {find_problem(slug).slug: find_problem(slug).solve()} if slug else solve_all()
    shown = find_problem(slug).document(*results.values()) if slug else book(results)
    good = all(solution.right for solution in results.values())
    output.show(summary(results) if check else shown, good=good)


def solve_all() -> "dict[str, Solution]":
    """Every problem solved, with a line of progress on stderr."""
    from headwork.problems import all_problems

    results = {}
    for slug, problem in all_problems().items():
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
    from headwork.inspection.estimator import train_digits

    what = "a vision transformer on the embedded digits (patch 2, 6 layers, 4 heads)"
    print(f"\nTraining {what} ...", flush=True)
    job = train_digits(folder)
    print(f"Test accuracy {job[0].test_accuracy:.1%} on images it has never seen.")
    return job


@command()
def lab(
    page_name: str = "",
    save: Path | None = None,
    site: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    browser: bool = True,
    model: list[Path] | None = None,
) -> None:
    """Open a page that computes: change any number.

    It is served from this computer, for whoever has the address with its token, until Ctrl-C. --save and
    --site put Python itself into the page (fetched once, some 20 MB), so that it needs no server.
    """
    from headwork.lab import page

    fragment = page.page_address(page_name)
    if (save or site) and (port or host != "127.0.0.1"):
        raise InputError("--host and --port are for a lab that is served; --save and --site write files.")
    if save or site:
        _write_lab(save, site, fragment)
        return
    for folder in model or ():
        from headwork.lab.foreign import offer

        offer(folder.absolute().name, folder)
    from headwork.lab.server import serve

    def announce(address: str) -> None:
        address += fragment
        print(f"The lab is at {address}\nCtrl-C ends it.", flush=True)
        if browser:
            _open_browser(address)

    serve(host=host, port=port, announce=announce)


def _write_lab(save: Path | None, site: Path | None, fragment: str) -> None:
    from headwork.files import write_atomic
    from headwork.lab import page

    check_out_path(save)
    check_out_path(site, folder=True, option="--site")
    if save:
        print(f"wrote {write_atomic(save, page.one_file())}{fragment}", file=sys.stderr)
    for name, data in page.site().items() if site else ():
        assert site is not None
        write_atomic(site / name, data)
    if site:
        print(f"wrote {site}: put the folder on any web host", file=sys.stderr)


def _open_browser(address: str) -> None:
    """Open the page where somebody sits before this screen; over a network nobody does."""
    import os
    import threading
    import webbrowser

    shown = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    seen = shown or sys.platform in ("darwin", "win32")
    if seen and sys.stdout.isatty():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


@command()
def explain(
    output: Output,
    mechanism: str = "",
    problem: Path | None = None,
    set_: list[str] | None = None,
    exact: bool = False,
    cell: list[str] | None = None,
    limit: str | None = None,
    what_if: list[str] | None = None,
    random: int | None = None,
    slide: str | None = None,
    digits: int = 4,
    list_: bool = False,
) -> None:
    """Work a problem step by step, with exact numbers.

    Every value is named, with its shape and the arithmetic of each cell. Tokens are rows, or columns with
    --set tokens_as=columns.
    """
    if list_:
        from headwork.readings.explaining import mechanism_list

        output.show(mechanism_list())
        return
    from headwork import readings
    from headwork.readings.explaining import read_problem
    from headwork.readings.trace_document import cells_document

    inputs: dict[str, Any] = {}
    if mechanism.endswith(".toml") and problem is None:
        mechanism, problem = "", Path(mechanism)
    if problem is not None:
        named, inputs = read_problem(problem)
        if mechanism and named and named.replace("_", "-") != mechanism.replace("_", "-"):
            raise InputError(f"{problem} is about {named}, but {mechanism} was asked for. Leave one out.")
        mechanism = mechanism or named
    if not mechanism:
        raise InputError("explain: which mechanism? Name one, or see headwork explain --list.")
    inputs |= dict(assignment(text, "--set") for text in set_ or [])
    for name in ("exact", "digits", "replacing"):
        if name in inputs:
            option = name.replace("replacing", "what-if")
            raise InputError(f"explain: '{name}' is not an input. Use the option --{option}.")
    settings: dict[str, Any] = {"exact": exact or limit is not None, "digits": digits}
    inputs |= {} if random is None else {"random": random}
    if slide is not None:
        from headwork.readings.slider import slider

        if limit is not None or what_if or cell:
            raise InputError("--slide shows every step: leave out --limit, --what-if and --cell.")

        output.show(slider(mechanism, slide, settings, inputs))
        return
    trace = readings.explain(mechanism, **settings, **inputs)
    for path, value in (assignment(text, "--what-if") for text in what_if or []):
        trace = trace.what_if(path, value)
    if limit is not None:
        trace = trace.limit(*assignment(limit, "--limit"))
    if cell:
        output.show(cells_document([trace.cell(*_cell_index(text)) for text in cell]))
        return
    output.show(trace)
    if output.path is not None:
        for warning in trace.warnings:
            print(f"Note: {warning}", file=sys.stderr)


def _cell_index(text: str) -> tuple[Any, ...]:
    """The step and the indices of ``weights[0,1]``."""
    path, bracket, rest = text.partition("[")
    numbers = rest.rstrip("] ").split(",") if bracket else []
    if any(not n.strip().isdecimal() for n in numbers):
        raise InputError(f"--cell {text!r}: expected a step and indices from 0, such as weights[0,1].")
    return (path.strip(), *(int(n) for n in numbers))
