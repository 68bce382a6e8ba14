"""How numbers are written, and how many of them: what the formats share."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headwork.documents.blocks import Badge, BadgeRow, Bar, Formula, Link, Value
from headwork.documents.formulas import plain_formula
from headwork.numbers.operations import map_cells

LONGEST_BAR = 24  # characters
MAX_SHOWN = 12  # rows and columns
LONGEST_EXACT = 60  # characters of an exact form that still fits into a cell


def with_infinity(text: str) -> str:
    """Text for people: infinity by its sign. ``oo`` is only what one types.

    >>> with_infinity("-oo")
    '-∞'
    """
    return text.replace("oo", "∞")


def decimal_value(value: Any) -> float | None:
    """A number, exact or not, as a float; None where symbols remain."""
    if not hasattr(value, "free_symbols"):
        return float(value)
    from headwork.numbers.exact import to_float

    return to_float(value)


def number_text(value: Any, digits: int) -> str:
    """A number in decimals: whole numbers as they are, others to so many digits after the point.

    >>> number_text(2.0, 4), number_text(0.53444, 4), number_text(1e-9, 4)
    ('2', '0.5344', '1e-09')
    """
    number = decimal_value(value)
    if number is None:
        from headwork.numbers.exact import exact_text

        return with_infinity(exact_text(value))
    value = number
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    rounded = f"{value:.{digits}f}"
    if abs(value) < 10.0**-digits or abs(value) >= 1e15:
        return f"{value:.{max(digits - 3, 0)}g}"
    return rounded


def number_latex(value: Any, digits: int) -> str:
    """A number in LaTeX: exact ones as they are, floats to so many digits."""
    if hasattr(value, "free_symbols"):
        from headwork.numbers.exact import exact_latex

        return exact_latex(value)
    text = number_text(value, digits)
    if "e" in text and text not in ("undefined",):
        mantissa, exponent = text.split("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return {"∞": r"\infty", "-∞": r"-\infty", "undefined": r"\text{undefined}"}.get(text, text)


def definitions(value: Value, *, latex: bool = False) -> list[str]:
    """What the names of a value stand for, in text or LaTeX."""
    if not value.abbreviations:  # then SymPy is not needed, which takes a second to import
        return []
    from headwork.numbers.exact import exact_latex, exact_text

    written, sign = (exact_latex, r"\approx") if latex else (exact_text, "=")
    pairs = ((name, name.definition) for name in value.abbreviations)
    return [f"{written(n)} = {written(d)} {sign} {number_text(d, value.digits)}" for n, d in pairs]


def cell_text(cell: Any) -> str:
    """A cell of a table as text.

    >>> cell_text(12000), cell_text((4, 2)), cell_text(True), cell_text(None)
    ('12,000', '4 x 2', 'yes', '')
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, Formula):
        return plain_formula(cell.latex)
    if isinstance(cell, Badge):
        return f"[{cell.text}]" if cell.tone == "bad" else cell.text
    if isinstance(cell, BadgeRow):
        texts = [mark.text for mark in cell.badges]
        return ("" if max(map(len, texts), default=0) < 2 else " ").join(texts)
    if isinstance(cell, Bar):
        return f"{'#' * round(LONGEST_BAR * cell.share)} {cell.text}".strip()
    if isinstance(cell, Link):
        return cell.text
    if isinstance(cell, (tuple, list)):
        return " x ".join(map(str, cell))
    return str(cell)


def wrap_code(text: str, width: int) -> str:
    """Code whose lines are broken after so many characters.

    >>> wrap_code("abcde\\nf", 3)
    'abc\\nde\\nf'
    """
    lines = text.expandtabs(4).splitlines()
    return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))


def visible_indices(count: int, limit: int = MAX_SHOWN) -> Sequence[int | None]:
    """Which of so many are shown: the first ones and the last two; None stands for those left out.

    >>> visible_indices(3), visible_indices(20, 6)
    (range(0, 3), [0, 1, 2, None, 18, 19])
    """
    if count <= limit:
        return range(count)
    return [*range(limit - 3), None, count - 2, count - 1]


def column_slices(widths: Sequence[float], max_width: float) -> Iterator[slice]:
    """Which columns stand side by side within so much; at least one.

    >>> list(column_slices([3, 3, 9, 2], 6))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    start = 0
    for stop in range(1, len(widths) + 1):
        if stop == len(widths) or sum(widths[start : stop + 1]) > max_width:
            yield slice(start, stop)
            start = stop


def number_texts(numbers: Any, digits: int) -> Any:
    """An array of numbers in decimals, as an array of texts."""
    return map_cells(lambda number: number_text(number, digits), numbers)


def exact_texts(exact: Any, then: Callable[[str], str] = str) -> Any:
    """An array of exact numbers as texts that can be typed back in, or as ``then`` changes them."""
    from headwork.numbers.exact import exact_text

    return map_cells(lambda number: then(exact_text(number)), exact)


def heat(value: float | None, full_scale: float) -> float | None:
    """How strongly a number is tinted: its share of what counts as largest, at most all of it, with its sign.

    Blue is positive and orange negative, so that the colour-blind tell them apart.

    >>> heat(-1.0, 4.0), heat(9.0, 4.0), heat(None, 4.0)
    (-0.25, 1.0, None)
    """
    if value is None or not math.isfinite(value):
        return None
    share = float(value) / full_scale if full_scale else math.copysign(1.0, value) if value else 0.0
    return max(-1.0, min(1.0, round(share, 2)))
