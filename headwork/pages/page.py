"""A page: one file with its styles and its script inside, and the blocks that go into it."""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from headwork.pages.tables import Table

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
Block = str | Markup | Table


def page(title: str, *blocks: Block, about: str = "") -> str:
    """A whole page that opens offline.

    >>> "<h1>A &lt; B</h1>" in page("A < B", "Some words.")
    True
    """
    style, script = read_asset("page.css") + read_asset("trace.css"), read_asset("cells.js")
    contents = [as_markup(block) for block in blocks]
    return str(render("page.html", title=title, about=about, blocks=contents, style=style, script=script))


def as_markup(block: Block) -> Markup:
    """A block as it stands in a page.

    >>> as_markup("1 < 2")
    Markup('<p>1 &lt; 2</p>')
    """
    if isinstance(block, Table):
        return Markup(block.to_html())
    return block if isinstance(block, Markup) else Markup("<p>{}</p>").format(block)


def heading(text: str, level: int = 2, name: str = "") -> Markup:
    """A heading; with a name it can be linked to.

    >>> heading("By hand", name="A")
    Markup('<h2 id="A">By hand</h2>')
    """
    anchor = Markup(' id="{}"').format(name) if name else ""
    return Markup("<h{0}{1}>{2}</h{0}>").format(level, anchor, text)


def figure(picture: Markup, caption: str = "") -> Markup:
    """A picture (an SVG, a matrix) with its caption.

    >>> figure(Markup("<svg></svg>"), "weights")
    Markup('<figure><svg></svg><figcaption>weights</figcaption></figure>')
    """
    below = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup("<figure>{}{}</figure>").format(picture, below)


def script_data(data: Any) -> Markup:
    """Data for the page's script, safe against anything in it that looks like markup.

    >>> print(script_data(["</script>"]))
    <script type="application/json">["\\u003c/script\\u003e"]</script>
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json">{text}</script>')


def render(template: str, **data: Any) -> Markup:
    """One of the templates of this package, everything but markup escaped."""
    return Markup(_templates().get_template(template).render(**data))


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def read_asset(name: str) -> Markup:
    """A style or script of this package, to go into a page."""
    return Markup((HERE / name).read_text(encoding="utf-8"))
