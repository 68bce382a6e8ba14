"""Sentences in TOML: each that is said is there, is given what it names, and none is there in vain."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[1] / "headwork"
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]
ROOMS = sorted({path.parent for path in MODULES if "load_words(" in path.read_text()})


def sentences(entry: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every sentence of a file with its path."""
    for name, value in entry.items() if isinstance(entry, dict) else enumerate(entry):
        here = f"{path}/{name}".strip("/")
        if isinstance(value, str):
            yield here, value
        elif isinstance(value, dict | list):
            yield from sentences(value, here)


def named_values(sentence: str) -> set[str]:
    """What a sentence must be given."""
    fields = (field for _, field, _, _ in string.Formatter().parse(sentence) if field is not None)
    return {re.split(r"[.\[]", field)[0] for field in fields}


def calls(room: Path) -> Iterator[tuple[str, ast.Call]]:
    """Where something is said: a pattern of the paths that are meant, and the call."""
    for module in room.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("text_of", "table"):
                continue
            path = node.args[0]
            parts = path.values if isinstance(path, ast.JoinedStr) else [path]
            texts = (re.escape(part.value) if isinstance(part, ast.Constant) else r"[\w-]+" for part in parts)
            if not isinstance(path, ast.Name):
                yield f"{''.join(texts)}(/.*)?", node


def test_what_a_sentence_names():
    assert named_values("{a:g} of {b[0]}, {c.name} at {{d}}") == {"a", "b", "c"}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_what_is_said_is_there_and_is_given_what_it_names(room):
    known = dict(sentences(tomllib.loads((room / "words.toml").read_text())))
    used = set()
    for pattern, call in calls(room):
        meant = {path for path in known if re.fullmatch(pattern, path)}
        given = {keyword.arg for keyword in call.keywords}
        assert meant, ast.unparse(call)
        missing = {path: named_values(known[path]) - given for path in meant if None not in given}
        assert not any(missing.values()), f"{ast.unparse(call)}: {missing}"
        used |= meant
    assert set(known) - used == set()
