"""Templates, styles and scripts of pages, which stand beside the formats that use them."""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment

FORMATS = Path(__file__).parent / "formats"


def script_data(data: Any) -> Markup:
    """Data for the page's script, safe against anything in it that looks like markup.

    >>> print(script_data(["</script>"]))
    <script type="application/json">["\\u003c/script\\u003e"]</script>
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json">{text}</script>')


def render_template(template: str, folder: Path = FORMATS, **data: Any) -> Markup:
    """One of the templates of a folder, everything but markup escaped."""
    return Markup(_templates(folder).get_template(template).render(**data))


@cache
def _templates(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def read_asset(name: str) -> Markup:
    """A style or script, to go into a page."""
    return Markup((FORMATS / name).read_text(encoding="utf-8"))
