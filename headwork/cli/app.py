"""The application, its exit codes, and how errors are told.

0 done; 1 a check failed; 2 the input is wrong; 130 interrupted. Results go to stdout, everything else
to stderr. Each command's module imports its room only when the command runs.
"""

from __future__ import annotations

import os
import sys

import typer

from headwork import __version__
from headwork.errors import HeadworkError

app = typer.Typer(
    name="headwork",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


# What the parser of the command line raises; newer releases of typer carry a click of their own.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# What `headwork[train]` brings, by the names that are imported.
TRAIN = {
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "onnxscript": "onnxscript",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "tokenizers": "tokenizers",
    "torch": "torch",
}


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headwork {__version__}")
        raise typer.Exit


@app.callback(epilog="Try: headwork problems A2   or   headwork explain --list")
def headwork(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback when something goes wrong."),
) -> None:
    """A workbench for attention and the networks around it: work problems by hand with every step exact,
    build heads to order, and see what each costs."""


def register() -> None:
    """Import the modules that add commands, in the order in which --help lists them."""
    from headwork.cli import (  # noqa: F401
        build,
        compare,
        data,
        equal,
        explain,
        grade,
        practice,
        problems,
        runs,
        sensitivity,
        sizes,
        train,
    )


def main() -> None:
    """Run the command line and exit with its code."""
    debug = "--debug" in sys.argv
    register()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except USAGE_ERROR as wrong:
        wrong.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("headwork: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (headwork ... | head): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except HeadworkError as error:
        if debug:
            raise
        print(f"headwork: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        if isinstance(error, ModuleNotFoundError) and (
            lacking := TRAIN.get((error.name or "").partition(".")[0])
        ):
            print(f'headwork: this needs {lacking}: pip install ".[train]"', file=sys.stderr)
            sys.exit(2)
        print(
            f"headwork: unexpected {type(error).__name__}: {error}. Run again with --debug to see where.",
            file=sys.stderr,
        )
        sys.exit(2)
