"""Errors a person can act on: where, what was given, what was expected, how to fix it."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

MAX_MESSAGE = 4_000  # characters: an error quotes what came, and that may be a file of megabytes


def truncate(text: str, max_length: int = MAX_MESSAGE) -> str:
    """The text, without its middle where it is too long.

    >>> truncate("a very long text", 12), truncate("short", 9)
    ('a very l...t', 'short')
    """
    if len(text) <= max_length:
        return text
    start = 2 * max_length // 3
    return f"{text[:start]}...{text[len(text) - (max_length - 3 - start) :]}"


class HeadworkError(Exception):
    """Everything this package raises on purpose; the command line shows it without a traceback."""

    def __init__(self, message: object = "") -> None:
        super().__init__(truncate(str(message)))


class InputError(HeadworkError, ValueError):
    """What was typed, pasted or passed cannot be used as it stands (exit code 2)."""


class TooLarge(InputError):
    """The work was refused by its size, before it began."""


def unknown_name(kind: str, name: object, choices: Iterable[str]) -> InputError:
    """An unknown name, with the nearest known one.

    >>> print(unknown_name("mechanism", "atention", ["attention", "softmax"]))
    unknown mechanism 'atention'. Did you mean 'attention'? Known: attention, softmax.
    """
    names = list(choices)
    name = truncate(str(name), 200)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    listed = f"Known: {', '.join(names)}." if names else "There is none."
    return InputError(f"unknown {kind} '{name}'.{hint} {listed}")


def check_known(kind: str, name: object, choices: Collection[str], where: str = "") -> None:
    """Refuse a name that is not a known one; ``where`` is the file in which it stands.

    >>> check_known("ends", "clamp", ("clamp", "wrap"))
    """
    if name not in choices:
        error = unknown_name(kind, name, choices)
        raise InputError(f"{where}: {error}") if where else error


def check_all_known(kind: str, names: Iterable[object], choices: Collection[str], where: str = "") -> None:
    """Refuse the first of several names that is not a known one."""
    for name in names:
        check_known(kind, name, choices, where)


def format_shape(shape: Iterable[int], axes: str) -> str:
    """A shape with its axis words; leading axes without a word are numbers only.

    >>> format_shape((7, 6), "key width")
    '7 x 6 (key, width)'
    """
    sizes = tuple(shape)
    words = axes.split()[-len(sizes) :] if sizes else []
    numbers = " x ".join(map(str, sizes)) if sizes else "a single number"
    return f"{numbers} ({', '.join(words)})" if words else numbers
