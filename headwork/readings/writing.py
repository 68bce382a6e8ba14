"""How numbers are written: what every renderer shares."""

import math
from typing import Any


def with_infinity(text: str) -> str:
    """Text for people: infinity by its sign. ``oo`` is only what one types.

    >>> with_infinity("-oo")
    '-∞'
    """
    return text.replace("oo", "∞")


def number_text(value: Any, digits: int) -> str:
    """A number in decimals: whole numbers as they are, others to so many digits after the point.

    >>> number_text(2.0, 4), number_text(0.53444, 4), number_text(1e-9, 4)
    ('2', '0.5344', '1e-09')
    """
    if hasattr(value, "free_symbols"):
        from headwork.numbers.exact import decimal, exact_text

        number = decimal(value)
        if number is None:
            return with_infinity(exact_text(value))
        value = number
    value = float(value)
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
        from headwork.numbers.exact import exact_latex, tidy

        return exact_latex(tidy(value))
    text = number_text(value, digits)
    if "e" in text and text not in ("undefined",):
        mantissa, exponent = text.split("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return {"∞": r"\infty", "-∞": r"-\infty", "undefined": r"\text{undefined}"}.get(text, text)
