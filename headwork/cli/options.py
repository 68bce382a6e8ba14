"""Options that several commands share, and readers of what is typed for them."""

from typing import Annotated

from typer import Option

from headwork.errors import InputError

Digits = Annotated[int, Option("--digits", min=0, max=15, help="Digits after the decimal point.")]
ListAll = Annotated[bool, Option("--list", help="List what can be named, with what each takes.")]
Settings = Annotated[list[str] | None, Option("--set", help="A setting, name=value; repeatable.")]
Seed = Annotated[int, Option("--seed", min=0, help="Another seed gives other numbers.")]
Difficulty = Annotated[int, Option("--difficulty", min=1, max=3, help="1, 2 or 3.")]
Hint = Annotated[int, Option("--hint", min=0, max=3, help="0 marks, 1 where, 2 what kind, 3 the step.")]


def assignment(text: str, option: str, example: str = "beta=1") -> tuple[str, str]:
    """The name and the value of ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"{option} {text!r}: expected name=value, such as {option} {example}.")
    return name.strip(), value.strip()


def names(text: str) -> list[str]:
    """The names in ``review, stars``."""
    return [name.strip() for name in text.split(",") if name.strip()]
