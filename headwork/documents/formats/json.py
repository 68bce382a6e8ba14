"""JSON that any program can read: the data of a document, with minus infinity as the string "-inf"."""

import json
import math
from dataclasses import asdict
from typing import Any

from headwork.documents import blocks
from headwork.documents.formats.text import Text
from headwork.documents.style import PLAIN, Style

SUFFIX = ".json"


def render(document: blocks.Document, style: Style = PLAIN, fragment: bool = False) -> str:
    """The document's data; where it has none of its own, its blocks."""
    parts = [] if document.data else [_data(block) for block in document.blocks]
    data = document.data() if document.data else {"title": document.title, "parts": parts}
    return json.dumps(json_safe(data), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def json_safe(nested: Any) -> Any:
    """Data with the numbers that JSON cannot hold as strings.

    >>> json_safe([1.0, -math.inf, {"a": math.nan}])
    [1.0, '-inf', {'a': 'nan'}]
    """
    if isinstance(nested, dict):
        return {name: json_safe(part) for name, part in nested.items()}
    if isinstance(nested, (list, tuple)):
        return [json_safe(part) for part in nested]
    if isinstance(nested, float) and not math.isfinite(nested):
        return "nan" if math.isnan(nested) else "inf" if nested > 0 else "-inf"
    return nested


def _data(block: blocks.Block) -> Any:
    if isinstance(block, blocks.Table):
        return block.as_data()
    if isinstance(block, (blocks.Details, blocks.VerdictCard)):
        names = ("summary",) if isinstance(block, blocks.Details) else ("name", "verdict", "text")
        return {name: getattr(block, name) for name in names} | {"parts": list(map(_data, block.blocks))}
    if isinstance(block, blocks.FigureBlock):
        return {"figure": block.alt, "caption": block.caption}
    if isinstance(block, (blocks.Heading, blocks.Caution, blocks.Items, blocks.Code)):
        return asdict(block)
    return "\n".join(Text().render_blocks([block]))
