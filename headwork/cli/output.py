"""What a command shows: in which format, to the screen or to a file; and the options that several share.

A command that takes a parameter ``output: Output`` gets the options --as, --json, --out and --fragment from
here, so that they are the same everywhere.
"""

import sys
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from typer import Exit

from headwork.cli.options import COMMANDS, Function, Parameters, annotated, with_parameters
from headwork.documents.formats import DEFAULT_FORMAT, find_format, format_for_path, format_names
from headwork.documents.style import escape_controls, style_for
from headwork.errors import InputError

if TYPE_CHECKING:
    from headwork.documents import Document, Renderable

# For an encoding that lacks them: what can be typed instead.
ASCII_FALLBACK = str.maketrans(
    {"β": "beta", "π": "pi", "∞": "oo", "×": "x", "·": "*", "−": "-", "→": "->", "…": "..."}
)


@dataclass(frozen=True)
class Output:
    """Where a result goes and in which format."""

    format: str = DEFAULT_FORMAT
    path: Path | None = None
    fragment: bool = False

    @property
    def is_default(self) -> bool:
        """Whether no other format was asked for."""
        return self.format == DEFAULT_FORMAT

    def show(self, result: "Renderable", *, good: bool = True) -> None:
        """Write a document to the screen, or whole into the file; what is not good ends with exit code 1."""
        if self.path is None:
            self._print(result.render(self.format, style=style_for(sys.stdout), fragment=self.fragment))
        else:
            self._save(result.document(), self.path)
        if not good:
            raise Exit(1)

    def _save(self, document: "Document", path: Path) -> None:
        from headwork.files import write_atomic

        check_out_path(path)
        write_atomic(path, document.render(self.format, fragment=self.fragment))
        pictures_of = getattr(find_format(self.format), "pictures", None)  # of one that has them beside it
        pictures = pictures_of(document) if pictures_of else {}
        for name, content in pictures.items():
            write_atomic(path.with_name(f"{path.stem}-{name}"), content)
        beside = f" with {len(pictures)} pictures beside it" if pictures else ""
        print(f"wrote {path}{beside}", file=sys.stderr)

    def _print(self, content: str | bytes) -> None:
        if isinstance(content, str):
            sys.stdout.write(content)
        elif sys.stdout.isatty():
            raise InputError(f"{self.format} is binary: write it to a file with --out.")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)


def check_out_path(path: Path | None, *, folder: bool = False, option: str = "--out") -> None:
    """Refuse a folder where a file is to be written, and a file, or the name of one, where a folder is."""
    if path is None:
        return
    if path.exists() and path.is_dir() != folder:
        wrong, wanted = ("file", "folder") if folder else ("folder", "file in it")
        raise InputError(f"{option} {path} is a {wrong}. Name a {wanted}.")
    if folder and not path.exists() and format_for_path(path) != DEFAULT_FORMAT:
        raise InputError(f"{option} {path} is the name of a file, but a folder is written. Name a folder.")


def with_output(function: Function, parameters: Parameters) -> Function:
    """The function with the options of its output in place of the parameter ``output``.

    One that is among its ``parameters`` (an --out that is a folder, say) stays that.
    """
    *names, last = format_names()
    types = {"as_": (str, ""), "json": (bool, False), "out": (Path | None, None), "fragment": (bool, False)}
    words: dict[str, str] = {name: COMMANDS["options"][name] for name in types if name not in parameters}
    if "as_" in words:
        words["as_"] = words["as_"].format(formats=f"{', '.join(names)} or {last}")
    options = {
        name: (annotated(name, *types[name], {"help": text}), types[name][1]) for name, text in words.items()
    }

    @wraps(function)
    def command(**arguments: Any) -> None:
        typed = {name: arguments.pop(name) for name in options}
        if typed["json"] and typed["as_"] not in ("", "json"):
            raise InputError(f"--json and --as {typed['as_']}: which one? Leave one out.")
        chosen = "json" if typed["json"] else typed["as_"] or format_for_path(typed.get("out"))
        find_format(chosen)
        function(**arguments, output=Output(chosen, typed.get("out"), typed["fragment"]))

    return with_parameters(command, parameters | options)


class SafeStream:
    """A stream on which anything may be written: what it cannot show, or must not obey, is spelled out.

    >>> from io import StringIO
    >>> stream = StringIO()
    >>> SafeStream(stream).write("a\\x1b[2J") and stream.getvalue()
    'a\\\\u001b[2J'
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        text = escape_controls(text, colour=self.stream.isatty())
        encoding = self.stream.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            text = text.translate(ASCII_FALLBACK).encode(encoding, "backslashreplace").decode(encoding)
        return self.stream.write(text)


def assignment(text: str, option: str, example: str = "beta=1") -> tuple[str, str]:
    """The name and the value of ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: expected name=value, such as {option} {example}.")
    return name.strip(), value.strip()


def comma_separated(text: str) -> list[str]:
    """The names in ``review, stars``."""
    return [name.strip() for name in text.split(",") if name.strip()]
