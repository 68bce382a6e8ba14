"""The page as it is put together: served in parts, or whole as one file with Python inside.

A room of the page is one script in ``page/`` with a class, listed in ``SCRIPTS`` here and in ``ROOMS`` of lab.js.
"""

import base64
import hashlib
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headwork.documents.templates import read_asset, script_data
from headwork.lab.calls import FIRST, answer, example_state

HERE = Path(__file__).parent / "page"
STYLES = ("page.css", "trace.css", "lab.css")
SCRIPTS = (
    *("flow.js", "typeset.js", "copy.js"),  # of the page that headwork explain writes
    *("backend.js", "address.js", "canvas.js", "try.js", "problems.js", "start.js", "python.js", "lab.js"),
)
# Scripts only from the page itself; style attributes are how figures and tints are drawn.
SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def asset(name: str) -> str:
    """A style or script: of the lab, or of the pages that every command writes."""
    own = HERE / name
    return own.read_text("utf-8") if own.exists() else str(read_asset(name))


def style() -> str:
    return "\n".join(map(asset, STYLES))


def script() -> str:
    body = "\n".join(map(asset, SCRIPTS))
    return f'"use strict";\n{{\n{body}}}\n'


def fill(**parts: Any) -> str:
    """The page's own template with its parts."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("lab.html").render(**parts)


def lab_data(**more: Any) -> Markup:
    """What the scripts need to begin with."""
    data = {"first": FIRST, "state": answer("explain", {"state": example_state(FIRST).as_data()})["state"], **more}
    return Markup(str(script_data(data)).replace("<script ", '<script id="lab-data" ', 1))


def served_page() -> str:
    """The page of the local server: its style and script are files beside it."""
    return fill(
        policy="",
        styles=Markup('<link rel="stylesheet" href="lab.css">'),
        data=lab_data(served=True),
        scripts=Markup('<script src="lab.js"></script>'),
    )


def digest(text: str) -> str:
    """The source of an inline script or style, for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
