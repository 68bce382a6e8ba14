"""Bold and colour in a terminal. Text is plain unless a command asks for more."""

import os
import re
import shutil
from dataclasses import dataclass
from functools import partialmethod
from typing import TextIO

WIDTH = 80  # columns, where nobody knows better
# Our own sequences, or else signs that command a terminal or turn the direction of reading.
CONTROLS = re.compile(
    r"(\A\r(?:\x1b\[K)?|\x1b\[(?:[012]|3[12])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


@dataclass(frozen=True)
class Style:
    """How text is set: with or without colour, and how wide.

    >>> Style().bold("weights"), Style(colour=True).green("correct")
    ('weights', '\\x1b[32mcorrect\\x1b[0m')
    """

    colour: bool = False
    width: int = WIDTH

    def _styled(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text

    bold, dim = partialmethod(_styled, 1), partialmethod(_styled, 2)
    red, green = partialmethod(_styled, 31), partialmethod(_styled, 32)


PLAIN = Style()


def escape_controls(text: str, *, colour: bool) -> str:
    """Text without signs that a terminal obeys, other than our own where there is colour.

    They become escapes as JSON has them, so that JSON stays the same.

    >>> escape_controls("a\\x1b[2J", colour=True)
    'a\\\\u001b[2J'
    """
    return CONTROLS.sub(lambda m: m[1] if m[1] and colour else f"\\u{ord(m[0][0]):04x}{m[0][1:]}", text)


def style_for(stream: TextIO) -> Style:
    """On a terminal its width, and colour unless NO_COLOR is set; plain for a pipe or a file."""
    if not stream.isatty():
        return PLAIN
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    return Style(colour=not os.environ.get("NO_COLOR"), width=width)
