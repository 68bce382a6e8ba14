"""One file per format: a module of this package is a format by being here.

Its function ``render(document, style, fragment)`` writes a whole document; what a format needs to escape
is escaped there and nowhere else.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol

from headwork.errors import check_known

if TYPE_CHECKING:
    from pathlib import Path

    from headwork.documents.blocks import Document
    from headwork.documents.style import Style

DEFAULT_FORMAT = "text"  # where none is asked for


@cache
def format_names() -> tuple[str, ...]:
    """The formats there are, the usual one first."""
    names = (module.name for module in iter_modules(__path__))
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_FORMAT, name)))


class Format(Protocol):
    """What a module of this package holds."""

    SUFFIX: str  # of a file

    def render(self, document: "Document", style: "Style", fragment: bool) -> str | bytes: ...


def find_format(name: str) -> Format:
    """The module that writes a document in this format."""
    check_known("--as", name, format_names())
    module: Format = import_module(f"{__name__}.{name}")
    return module


def installed_formats() -> tuple[str, ...]:
    """The formats whose packages (``NEEDS``) are installed."""
    needs = {name: getattr(find_format(name), "NEEDS", ()) for name in format_names()}
    return tuple(name for name, packages in needs.items() if all(map(find_spec, packages)))


def format_for_path(path: "Path | None") -> str:
    """The format that the name of a file asks for; the usual one where it asks for none."""
    suffixes = {find_format(name).SUFFIX: name for name in format_names()} if path else {}
    return suffixes.get(path.suffix.lower(), DEFAULT_FORMAT) if path else DEFAULT_FORMAT
