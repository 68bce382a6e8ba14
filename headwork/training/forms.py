"""What the files of a run hold, checked whenever one is read: anybody may have edited it.

A form is a type, the limits of a number (whole where they are), a list of one form, or a table of forms. A
name with a question mark may be missing; further names are left alone.
"""

from pathlib import Path
from typing import Any

from headwork.errors import InputError, truncate

LONGEST_TEXT = 10_000
WORDS = {str: "text, not too long", bool: "true or false", dict: "a table", list: "a list"}
WHOLE, COUNT, NUMBER, SHARE = (0, 2**53), (1, 2**53), (-1e12, 1e12), (0.0, 1.0)
MEASURED = {"loss": NUMBER, "accuracy": SHARE}
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
MISTAKE = {"place": WHOLE, "label": WHOLE, "said": WHOLE, "probability": SHARE, "text?": str}
BIN = {"from": SHARE, "to": SHARE, "count": COUNT, "confidence": SHARE, "accuracy": SHARE}
RESULT: dict[str, Any] = {
    "test": {**MEASURED, "count": COUNT},
    "validation?": MEASURED,
    "confusion": [[WHOLE]],
}
RESULT |= {"steps": WHOLE, "seconds": NUMBER, "parameters": WHOLE, "threads": WHOLE, "mistakes": [MISTAKE]}
RESULT |= {"calibration?": [BIN], "baseline?": {"name": str, "accuracy": SHARE}}
STATE = {"step": WHOLE, "seconds": NUMBER, "loss": NUMBER, "correct": NUMBER, "seen": WHOLE, "torch": str}
STATE |= {"config": dict, "facts": DATA, "processes": COUNT, "threads": COUNT, "metrics": [dict]}


def check_form(value: Any, form: Any, where: str | Path) -> None:
    """Refuse what has not this form, by its place.

    >>> check_form({"loss": 1, "accuracy": 2}, MEASURED, "result.json: test")
    Traceback (most recent call last):
    headwork.errors.InputError: result.json: test: accuracy is 2. Expected a number from 0.0 to 1.0.
    """
    if isinstance(form, dict) and isinstance(value, dict):
        for name, inner in form.items():
            plain = name.removesuffix("?")
            if value.get(plain) is not None or plain == name:
                check_form(value.get(plain), inner, f"{where}: {plain}")
    elif isinstance(form, list) and isinstance(value, list):
        for part in value:
            check_form(part, form[0], where)
    elif isinstance(form, tuple):
        if type(value) not in (int, type(form[0])) or not form[0] <= value <= form[1]:
            raise _refusal(value, f"a number from {form[0]} to {form[1]}", where)
    elif type(value) is not form or (form is str and len(value) > LONGEST_TEXT):
        raise _refusal(value, WORDS[form if isinstance(form, type) else type(form)], where)


def _refusal(value: Any, expected: str, where: str | Path) -> InputError:
    found = WORDS[type(value)] if isinstance(value, dict | list) else truncate(repr(value), 60)
    return InputError(f"{where} is {found}. Expected {expected}.")


def check_metrics(lines: list[Any], where: str | Path) -> None:
    """Refuse lines of metrics that no run writes."""
    for line in lines:
        check_form(line, LINE, where)
        if line.get("ended"):
            check_form(line, EPOCH, where)
