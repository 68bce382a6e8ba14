"""Plots: a matplotlib figure as SVG within the page or as a file, the same bytes for the same figure."""

import io
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from markupsafe import Markup

from headwork.errors import unknown_name
from headwork.files import write_atomic

# What matplotlib draws in black or white takes the colours of the page, light or dark.
INK = {"#000000": "currentColor", "#ffffff": "var(--panel, #ffffff)"}
NO_METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


def figure_svg(figure: Any, alt: str = "") -> Markup:
    """A matplotlib figure as an SVG element; ``alt`` describes it for those who cannot see it.

    >>> from matplotlib.figure import Figure
    >>> str(figure_svg(Figure(), "nothing")).startswith('<svg role="img" aria-label="nothing"')
    True
    """
    text = figure_bytes(figure, "svg").decode()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Ids of several plots in one page must not meet.
    mark = sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'( id="|url\(#|xlink:href="#)', rf"\g<1>p{mark}-", text).replace("xlink:href", "href")
    text = re.sub("|".join(INK), lambda match: INK[match[0]], text)
    named = Markup('<svg role="img" aria-label="{}" fill="currentColor" ').format(alt)
    return named + Markup(re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"\1>", text))


def subplots(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A matplotlib figure of this size, in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def heat_colormap() -> Any:
    """The colours of a heat map, from nothing to blue: what stands on it can be read, in light and dark."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("tint", [(0.12, 0.41, 0.84, 0.03), (0.12, 0.41, 0.84, 0.6)])


def save_figure(figure: Any, path: str | Path) -> Path:
    """A matplotlib figure as a .png or .svg file."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in NO_METADATA:
        raise unknown_name("kind of picture", Path(path).suffix or path, [".png", ".svg"])
    return write_atomic(path, figure_bytes(figure, kind))


def figure_bytes(figure: Any, kind: str) -> bytes:
    """A figure as the bytes of an SVG or PNG file."""
    import matplotlib

    written = io.BytesIO()
    # A salt of our own and no date: the same figure gives the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "headwork", "svg.fonttype": "path"}):
        figure.savefig(written, format=kind, metadata=NO_METADATA[kind], transparent=kind == "svg", dpi=150)
    return written.getvalue()
