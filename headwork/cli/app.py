"""The application, its exit codes, and how errors are reported.

0 done; 1 a check failed; 2 the input is wrong; 130 interrupted. Results go to stdout, everything else
to stderr. Each command's module imports its package only when the command runs.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from typing import Any, TextIO, cast

import typer
from typer import Option
from typer.core import TyperGroup

from headwork import __version__
from headwork.cli.options import COMMANDS, Function, parameters_of, with_parameters
from headwork.cli.output import SafeStream, with_output
from headwork.errors import HeadworkError, truncate

PANELS = ("Learn", "Practise", "Build", "Train", "Look inside")  # one module each


class Group(TyperGroup):
    """Commands listed under the headings of PANELS, each by the first line of its help.

    Done here because typer knows headings only with rich, which takes longer to import than a command to run.
    """

    default = ""  # the command that is meant where none is named

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not self.default else [self.default, *args])

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for panel in (*PANELS, None):
            rows = [
                (name.ljust(width), inspect.cleandoc(command.help or "").partition("\n")[0])
                for name, command in self.commands.items()
                if getattr(command, "rich_help_panel", None) == panel
            ]
            if rows:
                with formatter.section(panel or "Commands"):
                    formatter.write_dl(rows)


def _group(default: str = "", **settings: Any) -> typer.Typer:
    return typer.Typer(
        cls=type("Group", (Group,), {"default": default}),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **settings,
    )


app = _group(
    name="headwork", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)


@cache
def group(name: str) -> typer.Typer:
    """A command with commands of its own; ``default`` is meant where none is named."""
    about = COMMANDS[name]
    typer_group = _group(about.get("default", ""))
    panel, epilog = about["panel"], _epilog(about["examples"])
    app.add_typer(typer_group, name=name, help=about["help"], rich_help_panel=panel, epilog=epilog)
    return typer_group


def command(name: str = "", *, group_name: str = "") -> Callable[[Function], Function]:
    """Add a function as a command, or as one of a group; its words stand in ``commands.toml``.

    The first line of its docstring is what --help lists, under the panel that its module is named after.
    Where it takes ``output``, the options of the output are added.
    """

    def add(function: Function) -> Function:
        command_name = name or function.__name__.strip("_")
        about = COMMANDS[f"{group_name} {command_name}".strip()]
        shows = "output" in inspect.signature(function).parameters
        complete = (with_output if shows else with_parameters)(function, parameters_of(function, about))
        panel = None if group_name else function.__module__.rpartition(".")[2].replace("_", " ").capitalize()
        settings: dict[str, Any] = {"help": about.get("help"), "epilog": _epilog(about["examples"])}
        parent = group(group_name) if group_name else app
        parent.command(command_name, rich_help_panel=panel, **settings)(complete)
        return function

    return add


def _epilog(examples: Sequence[str]) -> str:
    """The examples as lines that are not wrapped (\\b)."""
    return "\b\n" + "\n  ".join(["Examples:" if len(examples) > 1 else "Example:", *examples])


# What the parser of the command line raises; newer releases of typer carry a click of their own.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

# The extra of pyproject.toml that installs each package which the core lacks, by the names that are imported.
EXTRAS = dict.fromkeys(("safetensors", "sklearn", "tokenizers", "torch"), "train")
EXTRAS |= dict.fromkeys(("starlette", "uvicorn"), "lab")
EXTRAS |= dict.fromkeys(("onnx", "onnxruntime", "onnxscript"), "export")
EXTRAS |= dict.fromkeys(("pypandoc", "typst"), "pdf")


def _version(asked: bool) -> None:
    if asked:
        print(f"headwork {__version__}")
        raise typer.Exit


@app.callback(
    epilog=_epilog(["headwork problems A2", 'headwork explain softmax --set scores="0 1 2" --exact'])
)
def headwork(
    version: bool = Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    debug: bool = Option(False, "--debug", help="Show a traceback when something goes wrong."),
) -> None:
    """A workbench for attention and the networks around it.

    Work problems by hand with every step exact, have answers marked and explained, build heads to order,
    train models and look inside them.
    """


def register() -> None:
    """Import the modules that add commands, in the order in which --help lists them."""
    for panel in PANELS:
        import_module(f"headwork.cli.{panel.lower().replace(' ', '_')}")


def main() -> None:
    """Run the command line and exit with its code."""
    with open(os.devnull, "w") as nowhere:
        out, error = (SafeStream(stream or nowhere) for stream in (sys.stdout, sys.stderr))  # None: closed
        with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, error)):
            _main()


def _main() -> None:
    debug = "--debug" in sys.argv
    register()
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except USAGE_ERROR as error:
        error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("headwork: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (headwork ... | head): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        module = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, HeadworkError):
            message = str(error)
        elif isinstance(error, ModuleNotFoundError) and module in EXTRAS:
            package = {"sklearn": "scikit-learn", "pypandoc": "pypandoc_binary"}.get(module, module)
            message = f'this needs {package}: pip install ".[{EXTRAS[module]}]"'
        elif isinstance(error, OSError) and error.strerror:  # a name that is too long, a full disk
            where = f"{truncate(str(error.filename), 200)}: " if error.filename else ""
            message = f"{where}{error.strerror}."
        elif isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # numpy's, and torch's
            message = f"not enough memory. Give less at once: smaller images, a smaller batch_size. ({error})"
        else:
            message = f"unexpected {type(error).__name__}: {error}. Run again with --debug to see where."
        print(f"headwork: {truncate(message)}", file=sys.stderr)
        sys.exit(2)
