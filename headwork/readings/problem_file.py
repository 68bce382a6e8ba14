"""A problem in a TOML file: ``mechanism = "..."``, ``[inputs]``, ``[parameters]``, ``[options]``."""

from pathlib import Path
from typing import Any

from headwork.errors import InputError, unknown
from headwork.files import read_toml

TABLES = ("inputs", "parameters", "options")


def read_problem(path: str | Path) -> tuple[str, dict[str, Any]]:
    """The mechanism's name (it may be missing) and the inputs and options, decimals kept as typed."""
    content = read_toml(path)
    for key in content:
        if key not in ("mechanism", *TABLES):
            raise InputError(f"{path}: {unknown('entry', key, ['mechanism', *TABLES])}")
    mechanism = content.get("mechanism", "")
    tables = [content.get(name, {}) for name in TABLES]
    if not isinstance(mechanism, str) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f'{path}: expected mechanism = "..." and the tables [inputs] and [options].')
    return mechanism, {name: value for table in tables for name, value in table.items()}
