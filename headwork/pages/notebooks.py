"""Notebooks as JSON text (nbformat 4.5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class NotebookCell(NamedTuple):
    """A cell: ``markdown`` or ``code``, its source, and metadata."""

    kind: str
    source: str
    metadata: Mapping[str, Any] = {}


def notebook_text(cells: Iterable[NotebookCell], name: str = "cell") -> str:
    """A whole notebook; the ids of its cells are the name and a number.

    >>> json.loads(notebook_text([NotebookCell("markdown", "# Title")]))["cells"][0]["id"]
    'cell-0'
    """
    entries = []
    for number, cell in enumerate(cells):
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"{name}-{number}",
            "metadata": dict(cell.metadata),
            "source": cell.source.rstrip("\n").splitlines(keepends=True),
        }
        entries.append(entry | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": entries, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
