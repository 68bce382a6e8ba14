"""What the files of a run hold, checked whenever one is read: anybody may have edited it.

A schema is a type, the limits of a number (whole where they are), a list of one schema, or a table of
schemas. A name with a question mark may be missing; further names are left alone.
"""

from pathlib import Path
from typing import Any

from headwork.errors import InputError, truncate

LONGEST_TEXT = 10_000
WORDS = {str: "text, not too long", bool: "true or false", dict: "a table", list: "a list"}
WHOLE, POSITIVE, NUMBER, FRACTION = (0, 2**53), (1, 2**53), (-1e12, 1e12), (0.0, 1.0)
MEASURED = {"loss": NUMBER, "accuracy": FRACTION}
LINE = {"step": WHOLE, "epoch?": NUMBER, "training?": MEASURED, "ended?": bool}
EPOCH = {"step": WHOLE, "epoch": NUMBER, "seconds": NUMBER, "training": MEASURED, "validation?": MEASURED}
DATA: dict[str, Any] = {
    "name": str,
    "classes": [str],
    "digest": str,
    "counts": {"training": WHOLE, "validation": WHOLE},
}
DATA |= {"notes?": [str], "tokenizer?": str, "channels?": (0, 3), "size?": (0, 4096)}
DATA |= {"mean?": [NUMBER], "std?": [(0.0, 1e12)]}
MISTAKE = {"place": WHOLE, "label": WHOLE, "said": WHOLE, "probability": FRACTION, "text?": str}
BIN = {"from": FRACTION, "to": FRACTION, "count": POSITIVE, "confidence": FRACTION, "accuracy": FRACTION}
RESULT: dict[str, Any] = {
    "test": {**MEASURED, "count": POSITIVE},
    "validation?": MEASURED,
    "confusion": [[WHOLE]],
}
RESULT |= {"steps": WHOLE, "seconds": NUMBER, "parameters": WHOLE, "threads": WHOLE, "mistakes": [MISTAKE]}
RESULT |= {"calibration?": [BIN], "baseline?": {"name": str, "accuracy": FRACTION}}
STATE = {"step": WHOLE, "seconds": NUMBER, "loss": NUMBER, "correct": NUMBER, "seen": WHOLE, "torch": str}
STATE |= {"config": dict, "facts": DATA, "processes": POSITIVE, "threads": POSITIVE, "metrics": [dict]}


def check_schema(value: Any, schema: Any, where: str | Path) -> None:
    """Refuse what does not fit this schema, by its place.

    >>> check_schema({"loss": 1, "accuracy": 2}, MEASURED, "result.json: test")
    Traceback (most recent call last):
    headwork.errors.InputError: result.json: test: accuracy is 2. Expected a number from 0.0 to 1.0.
    """
    if isinstance(schema, dict) and isinstance(value, dict):
        for name, inner in schema.items():
            plain = name.removesuffix("?")
            if value.get(plain) is not None or plain == name:
                check_schema(value.get(plain), inner, f"{where}: {plain}")
    elif isinstance(schema, list) and isinstance(value, list):
        for part in value:
            check_schema(part, schema[0], where)
    elif isinstance(schema, tuple):
        if type(value) not in (int, type(schema[0])) or not schema[0] <= value <= schema[1]:
            raise _schema_error(value, f"a number from {schema[0]} to {schema[1]}", where)
    elif type(value) is not schema or (schema is str and len(value) > LONGEST_TEXT):
        raise _schema_error(value, WORDS[schema if isinstance(schema, type) else type(schema)], where)


def _schema_error(value: Any, expected: str, where: str | Path) -> InputError:
    actual = WORDS[type(value)] if isinstance(value, dict | list) else truncate(repr(value), 60)
    return InputError(f"{where} is {actual}. Expected {expected}.")


def check_metrics(lines: list[Any], where: str | Path) -> None:
    """Refuse lines of metrics that no run writes."""
    for line in lines:
        check_schema(line, LINE, where)
        if line.get("ended"):
            check_schema(line, EPOCH, where)
