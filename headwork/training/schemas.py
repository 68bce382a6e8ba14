"""What the files of a run hold, checked whenever one is read: anybody may have edited it.

The schemas stand in ``schemas.toml``, which says how they are written.
"""

from pathlib import Path
from typing import Any

from headwork.errors import InputError, truncate
from headwork.files import load_package_toml

LONGEST_TEXT = 10_000
SCHEMAS = load_package_toml(__file__, "schemas.toml")
LIMITS: dict[str, list[float]] = SCHEMAS.pop("limits")
TYPES = {"text": str, "truth": bool, "table": dict, "list": list}
TYPE_WORDS = {str: "text, not too long", bool: "true or false", dict: "a table", list: "a list"}


def check_schema(value: Any, schema: Any, where: str | Path) -> None:
    """Refuse what does not fit this schema, by its place.

    >>> check_schema({"loss": 1, "accuracy": 2}, "measured", "result.json: test")
    Traceback (most recent call last):
    headwork.errors.InputError: result.json: test: accuracy is 2. Expected a number from 0.0 to 1.0.
    """
    if isinstance(schema, list):
        check_schema(value, "list", where)
        for part in value:
            check_schema(part, schema[0], where)
    elif schema in SCHEMAS:
        check_schema(value, "table", where)
        for name, inner in SCHEMAS[schema].items():
            plain = name.removesuffix("?")
            if value.get(plain) is not None or plain == name:
                check_schema(value.get(plain), inner, f"{where}: {plain}")
    elif schema in LIMITS:
        low, high = LIMITS[schema]
        if type(value) not in (int, type(low)) or not low <= value <= high:
            raise _schema_error(value, f"a number from {low} to {high}", where)
    elif type(value) is not TYPES[schema] or (schema == "text" and len(str(value)) > LONGEST_TEXT):
        raise _schema_error(value, TYPE_WORDS[TYPES[schema]], where)


def _schema_error(value: Any, expected: str, where: str | Path) -> InputError:
    actual = TYPE_WORDS[type(value)] if isinstance(value, dict | list) else truncate(repr(value), 60)
    return InputError(f"{where} is {actual}. Expected {expected}.")


def check_metrics(lines: list[Any], where: str | Path) -> None:
    """Refuse lines of metrics that no run writes."""
    for line in lines:
        check_schema(line, "line", where)
        if line.get("ended"):
            check_schema(line, "epoch", where)
