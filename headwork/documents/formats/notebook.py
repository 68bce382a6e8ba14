"""A notebook (nbformat 4.5) that comes with its outputs, and runs from top to bottom."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headwork.documents import Block, Code, Details, Document, Heading, Prose, Renderable, as_blocks
from headwork.documents.blocks import FigureBlock
from headwork.documents.formats.markdown import escape_markdown, markdown_text
from headwork.documents.plots import figure_bytes
from headwork.documents.style import PLAIN, Style, escape_controls

SUFFIX = ".ipynb"


class NotebookCell(NamedTuple):
    """A cell: ``markdown`` or ``code``, its source, metadata, outputs below code, pictures in Markdown."""

    kind: str
    source: str
    metadata: Mapping[str, Any] = {}
    outputs: tuple[Mapping[str, Any], ...] = ()
    attachments: Mapping[str, Any] = {}


def render(document: Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document as a notebook."""
    inner = document.notebook_blocks() if document.notebook_blocks else _blocks(document.parts)
    return notebook_text(
        _cells([*document.title_blocks(), *inner], runs=document.notebook_blocks is not None)
    )


def _blocks(parts: Iterable[Any]) -> Iterator[Block]:
    """The parts of a document; one that has code of its own as its first code block, which recomputes it."""
    for part in parts:
        inner = part.document() if isinstance(part, Renderable) else None
        if inner is not None and inner.notebook_blocks:
            yield Heading(inner.title, 3)
            yield next(iter(inner.notebook_blocks()))
        else:
            yield from as_blocks(part)


def _cells(blocks: Iterable[Block], runs: bool) -> Iterable[NotebookCell]:
    """Code with its outputs; what stands between as Markdown, a figure by its picture.

    Without outputs it is code only in what ``runs``; elsewhere it is text as it stands.
    """
    words: list[Block] = []
    for block in _flat(blocks):
        if not (isinstance(block, FigureBlock) or (isinstance(block, Code) and (runs or block.output))):
            words.append(block)
            continue
        if words:
            yield NotebookCell("markdown", markdown_text(words))
            words = []
        if isinstance(block, Code):
            yield NotebookCell("code", block.text, {}, tuple(map(_output, block.output)))
        else:
            picture = {"figure.png": {"image/png": _png(block)}}
            source = f"![{escape_markdown(' '.join(block.alt.split()))}](attachment:figure.png)\n\n"
            source += markdown_text([Prose(block.caption)])
            yield NotebookCell("markdown", source, attachments=picture)
    if words:
        yield NotebookCell("markdown", markdown_text(words))


def _flat(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Details):
            yield Prose(f"{block.summary}:")
            yield from _flat(block.blocks)
        else:
            yield block


def _png(figure: FigureBlock) -> str:
    return base64.b64encode(figure_bytes(figure.figure, "png")).decode()


def _output(output: Renderable | FigureBlock | str) -> dict[str, Any]:
    """An output as a kernel writes it below a cell: printed text, a picture, or what shows itself."""
    if isinstance(output, str):
        return {"output_type": "stream", "name": "stdout", "text": output.splitlines(True)}
    if isinstance(output, FigureBlock):
        data = {"image/png": _png(output), "text/plain": "<Figure>"}
    else:
        data = {"text/html": output._repr_html_(), "text/plain": output.to_text()}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def notebook_text(cells: Iterable[NotebookCell]) -> str:
    """A whole notebook.

    >>> json.loads(notebook_text([NotebookCell("markdown", "# Title")]))["cells"][0]["id"]
    'cell-0'
    """
    entries: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{number}",
            "metadata": dict(cell.metadata),
            "source": escape_controls(cell.source.rstrip("\n"), colour=False).splitlines(keepends=True),
        }
        if cell.attachments:
            entry["attachments"] = dict(cell.attachments)
        if cell.kind == "code":
            count = 1 + sum(bool(before.get("outputs")) for before in entries) if cell.outputs else None
            entry |= {"execution_count": count, "outputs": list(cell.outputs)}
        entries.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": entries, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
