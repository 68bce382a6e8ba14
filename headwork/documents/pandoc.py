"""Pandoc, which reads what people wrote (LaTeX, Markdown) and writes it, with its formulas, in other formats.

It runs in its sandbox: whatever a text says, no other file is read. What it gives is a syntax tree of nested
lists and dictionaries, ``{"t": "Para", "c": [...]}``; what it could not read is in its messages.
"""

import base64
import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headwork.errors import InputError

Tree = list[Any]  # the blocks of a text
VERSION = [1, 23, 1]
SECONDS, HEAP_OVERFLOW = 300, 251  # wall-clock limit; pandoc's exit code
USER_LIMITS, OWN_LIMITS = (3, "250M"), (60, "2000M")  # CPU time, memory: of a user's text and of our own
# Markdown in which nothing is raw: no HTML, no LaTeX but formulas.
READERS = {"latex": "latex", "markdown": "markdown-raw_html-raw_tex-raw_attribute-yaml_metadata_block"}
MAX_DEPTH = 150  # of a tree: a list in a list adds four
SEPARATOR = "\u2063split\u2063"


def convert(text: str, reader: str, writer: str, *options: str) -> tuple[str, list[str]]:
    """A text in another format, and what pandoc says of parts that it could not read or write."""
    import pypandoc

    seconds, memory = USER_LIMITS if reader in READERS.values() else OWN_LIMITS
    command = [pypandoc.get_pandoc_path(), "--sandbox", "--verbose", "--wrap=none", *options]
    command += ["--from", reader, "--to", writer, "+RTS", f"-M{memory}", "-RTS"]
    if os.name == "posix":
        command = ["sh", "-c", f'ulimit -t {seconds}; exec "$0" "$@"', *command]
    try:
        run = subprocess.run(
            command, input=text, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"this text takes pandoc more than {SECONDS} seconds. Make it shorter.") from None
    if run.returncode < 0 or run.returncode == HEAP_OVERFLOW:
        raise InputError(f"this text takes pandoc more than {seconds} s or {memory}. Make it shorter.")
    if run.returncode:
        raise InputError(" ".join(run.stderr.split()))
    messages = re.split(r"^\[(?:INFO|WARNING)\] ", run.stderr, flags=re.M)
    return run.stdout, [" ".join(message.split()) for message in messages if message.strip()]


def read_tree(text: str, syntax: str) -> tuple[Tree, list[str]]:
    """The tree of a text in LaTeX or Markdown."""
    written, messages = convert(text, READERS.get(syntax, syntax), "json")
    brackets = re.sub(r'"(?:[^"\\]|\\.)*+"|[^][{}]', "", written)
    if max(itertools.accumulate((sign in "[{") - (sign in "]}") for sign in brackets)) > MAX_DEPTH:
        raise InputError("its lists or quotes are nested too deeply.")
    return json.loads(written)["blocks"], messages


def write_tree(tree: Tree, writer: str, *options: str) -> str:
    """A tree in a format that pandoc writes."""
    return convert(_pandoc_json(tree), "json", writer, *options)[0].rstrip("\n")


def map_elements(tree: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """A copy of a tree; ``change`` gives what stands in place of an element, None for nothing."""
    if isinstance(tree, list):
        parts = (map_elements(part, change) for part in tree)
        return [part for part, was in zip(parts, tree, strict=True) if part is not None or was is None]
    if not isinstance(tree, dict):
        return tree
    changed = change(tree) if "t" in tree else tree
    return changed and {name: map_elements(part, change) for name, part in changed.items()}


def with_pictures(tree: Tree, pictures: Mapping[str, bytes]) -> Any:
    """The tree with each picture by its bytes, so that a page stands alone."""

    def embed(part: dict[str, Any]) -> dict[str, Any]:
        if part["t"] != "Image" or part["c"][2][0] not in pictures:
            return part
        attributes, words, (name, title) = part["c"]
        kind = {"svg": "svg+xml", "jpg": "jpeg"}.get(ending := name.rpartition(".")[2], ending)
        source = f"data:image/{kind};base64,{base64.b64encode(pictures[name]).decode()}"
        return {"t": "Image", "c": [attributes, words, [source, title]]}

    return map_elements(tree, embed)


def latex_to_typst(formulas: Sequence[str]) -> tuple[list[str], list[str]]:
    """LaTeX formulas as Typst shows them, and those that could not be read: these stand as they are."""
    cells: Tree = []
    for latex in formulas:
        kind = "DisplayMath" if latex.startswith("\n") else "InlineMath"
        cells.append(_para({"t": "Math", "c": [{"t": kind}, latex.strip()]}))
        cells.append(_para({"t": "Str", "c": SEPARATOR}))
    text, _ = convert(_pandoc_json(cells), "json", "typst")
    written = [part.strip() for part in text.split(SEPARATOR)[: len(formulas)]]
    unreadable = [latex for latex, typst in zip(formulas, written, strict=True) if not typst.startswith("$")]
    return written, unreadable


def _para(*inlines: dict[str, Any]) -> dict[str, Any]:
    return {"t": "Para", "c": list(inlines)}


def _pandoc_json(tree: Iterable[Any]) -> str:
    return json.dumps({"pandoc-api-version": VERSION, "meta": {}, "blocks": list(tree)})
