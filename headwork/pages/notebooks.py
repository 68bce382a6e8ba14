"""Notebooks as JSON text (nbformat 4.5)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class NotebookCell(NamedTuple):
    """A cell: ``markdown`` or ``code``, its source, metadata, and what a kernel has put below it."""

    kind: str
    source: str
    metadata: Mapping[str, Any] = {}
    outputs: tuple[Mapping[str, Any], ...] = ()


def safe_markdown(text: str) -> str:
    """Markdown without tags, and without links except to the web and to files beside it.

    >>> safe_markdown("a < b <img onerror=x> [y](javascript:z) [p](https://arxiv.org)")
    'a < b &lt;img onerror=x> [y] (javascript:z) [p](https://arxiv.org)'
    """
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)
    text = re.sub(r"\](?=\((?!https?://|[\w./#-]+\)))", "] ", text)
    return re.sub(r"^([ >]*\[[^\]\n]*\])(?=:)", r"\1 ", text, flags=re.M)


def notebook_text(cells: Iterable[NotebookCell], name: str = "cell") -> str:
    """A whole notebook; the ids of its cells are the name and a number.

    >>> json.loads(notebook_text([NotebookCell("markdown", "# Title")]))["cells"][0]["id"]
    'cell-0'
    """
    entries: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        source = safe_markdown(cell.source) if cell.kind == "markdown" else cell.source
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"{name}-{number}",
            "metadata": dict(cell.metadata),
            "source": source.rstrip("\n").splitlines(keepends=True),
        }
        if cell.kind == "code":
            count = 1 + sum(bool(before.get("outputs")) for before in entries) if cell.outputs else None
            entry |= {"execution_count": count, "outputs": list(cell.outputs)}
        entries.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": entries, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
