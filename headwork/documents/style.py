"""Bold and colour in a terminal. Text is plain unless a command asks for more."""

import os
import shutil
from dataclasses import dataclass
from functools import partialmethod
from typing import TextIO

WIDTH = 80  # columns, where nobody knows better


@dataclass(frozen=True)
class Style:
    """How text is set: with or without colour, and how wide.

    >>> Style().bold("weights"), Style(colour=True).green("correct")
    ('weights', '\\x1b[32mcorrect\\x1b[0m')
    """

    colour: bool = False
    width: int = WIDTH

    def _set(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    bold, dim = partialmethod(_set, 1), partialmethod(_set, 2)
    red, green = partialmethod(_set, 31), partialmethod(_set, 32)


PLAIN = Style()


def style_for(stream: TextIO) -> Style:
    """On a terminal its width, and colour unless NO_COLOR is set; plain for a pipe or a file."""
    if not stream.isatty():
        return PLAIN
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    return Style(colour=not os.environ.get("NO_COLOR"), width=width)
