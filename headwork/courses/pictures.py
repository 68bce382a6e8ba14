"""Pictures of a hand-in, looked at before Typst sets them: it would take all memory, or end the process.

A picture of pixels is judged by its header. An SVG is read once, tag by tag: what a small file can make
endless (filters, entities, a drawing inside a drawing) is refused, and the rest is counted.
"""

import base64
import re
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.parsers import expat

from headwork.data.image_files import open_image
from headwork.errors import InputError, TooLarge

PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
MAX_DEPTH, MAX_TAGS, MAX_LETTERS = 200, 50_000, 20_000  # of an SVG: tags inside each other; tags; letters
MAX_WITH_MARKERS = 100_000  # bytes of an SVG that sets a mark at every point of its lines


def count_pixels(content: bytes, name: Path) -> int:
    """How many pixels Typst would decode of a picture that may be shown, or else why it may not."""
    if name.suffix.lower() == ".svg":
        return _Svg(content).pixels
    with open_image(BytesIO(content), name) as image:
        return image.width * image.height


class _Svg:
    """What is counted of an SVG."""

    def __init__(self, content: bytes) -> None:
        self.size, self.depth, self.tags, self.letters, self.pixels = len(content), 0, 0, 0, 0
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._words
        parser.EntityDeclHandler = self._entity
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise InputError(f"not an SVG that can be read: {error}.") from None

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition(":")[2]
        self.depth += 1
        self.tags += 1 + 49 * (kind == "tspan") + len(attributes) ** 2 // 100  # as much as they take Typst
        if self.depth > MAX_DEPTH:
            raise TooLarge(f"tags inside each other more than {MAX_DEPTH} deep.")
        if self.tags > MAX_TAGS:
            raise TooLarge(f"more than {MAX_TAGS:,} tags. Save it as PNG.")
        if kind == "filter" or (kind == "marker" and self.size > MAX_WITH_MARKERS):
            raise TooLarge(f"it has a {kind}, which can take without end. Save it as PNG.")
        for name, value in attributes.items():
            if name.rpartition(":")[2] == "href" and value.strip().startswith("data:"):
                self._embedded(value)

    def _end(self, tag: str) -> None:
        self.depth -= 1

    def _words(self, text: str) -> None:
        self.letters += len(text.strip())
        if self.letters > MAX_LETTERS:
            raise TooLarge(f"more than {MAX_LETTERS:,} letters. Save it as PNG.")

    def _entity(self, *_: Any) -> None:
        raise InputError("it declares entities, which are not read.")

    def _embedded(self, address: str) -> None:
        kind, _, data = address.strip().removeprefix("data:").partition(",")
        ending = next((e for e, named in PICTURES.items() if kind == f"{named};base64"), ".svg")
        if ending == ".svg":
            raise InputError("only a PNG or JPEG may stand inside an SVG.")
        letters = re.sub(r"[^A-Za-z0-9+/]", "", data)
        content = base64.b64decode(letters + "=" * (-len(letters) % 4))
        self.pixels += count_pixels(content, Path(f"inside{ending}"))
