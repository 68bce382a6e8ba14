"""Tokenizers from files that nobody vouches for: refused where they would make much of little.

The tokenizers library believes its files: one can turn each letter into a million, overflow the stack, or
panic. So what can grow is measured first, and what the library raises becomes an error of ours.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwork.errors import HeadworkError, InputError

MAX_TOKENIZER_BYTES = 100_000_000
VOCABULARY = {"vocab": 300_000, "merges": 300_000, "added_tokens": 300_000}  # may be long; other lists:
MAX_LIST, MAX_STRING = 16, 1000
MAX_GROWTH = 16  # how many times longer a text may become before it is cut into tokens


def read_tokenizer_json(data: bytes, where: str | Path) -> Any:
    """The library's tokenizer of a tokenizer.json, without the padding that its author's last script set."""
    with library_errors(where):
        import tokenizers

        _check_tokenizer(data)
        inner = tokenizers.Tokenizer.from_str(data.decode())
        inner.no_padding()
    return inner


@contextmanager
def library_errors(where: str | Path) -> Iterator[None]:
    """What the tokenizers library raises, as an error of ours; a panic of its Rust code is no Exception."""
    try:
        yield
    except (HeadworkError, ImportError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise InputError(f"{where}: not a tokenizer that the tokenizers library can use ({error}).") from None


def _check_tokenizer(data: bytes) -> None:
    """Refuse what would take much more memory than its file and its texts."""
    growth, tokens = 1, 0

    def look(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal growth, tokens
        for name, value in node.items():
            strings = [name, *([value] if isinstance(value, str) and name != "precompiled_charsmap" else [])]
            if name in VOCABULARY and isinstance(value, (dict, list)):
                strings += map(str, value)
            if isinstance(value, (dict, list)) and len(value) > VOCABULARY.get(name, MAX_LIST):
                raise ValueError(f"{name} has {len(value):,} parts")
            if (longest := max(map(len, strings))) > MAX_STRING:
                raise ValueError(f"{name} has {longest:,} characters")
        tokens += "SpecialToken" in node
        if node.get("type") in ("Replace", "Prepend"):
            # An empty pattern, and a regular expression, may match between all letters.
            pattern, content = node.get("pattern") or {}, str(node.get("content", node.get("prepend")))
            matched = len(str(pattern.get("String", "")))
            growth *= max(1, -(-len(content) // matched)) if matched else 1 + len(content)
        if growth > MAX_GROWTH or tokens > MAX_LIST * MAX_LIST:
            raise ValueError(f"a text would become more than {MAX_GROWTH} times longer")
        return node

    json.loads(data, object_hook=look)
