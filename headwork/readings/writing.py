"""How numbers and formulas are written: the small pieces that every renderer shares."""

from __future__ import annotations

import math
import re
from typing import Any

MINUS_INFINITY = {math.inf: "oo", -math.inf: "-oo"}


def number_text(value: Any, digits: int) -> str:
    """A number in decimals: whole numbers as they are, others to so many digits after the point.

    >>> number_text(2.0, 4), number_text(0.53444, 4), number_text(1e-9, 4)
    ('2', '0.5344', '1e-09')
    """
    if hasattr(value, "free_symbols"):
        from headwork.numbers.exact import decimal, exact_text

        number = decimal(value)
        if number is None:
            return exact_text(value)
        value = number
    value = float(value)
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return MINUS_INFINITY[value]
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
    return {"oo": r"\infty", "-oo": r"-\infty", "undefined": r"\text{undefined}"}.get(text, text)


GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ",
    "sigma": "σ", "phi": "φ", "omega": "ω", "Phi": "Φ", "Sigma": "Σ",
}  # fmt: skip
WORDS = {
    "top": "T", "infty": "oo", "ldots": "...", "cdots": "...", "cdot": "*", "sum": "sum", "max": "max",
    "sin": "sin", "cos": "cos", "textstyle": "", "prime": "'", "exp": "exp", "times": "x",
}  # fmt: skip


def plain_formula(latex: str) -> str:
    r"""A card's formula as one line of text.

    >>> plain_formula(r"\beta\, Q K^\top"), plain_formula(r"\tfrac{1}{d} \textstyle\sum_j x_j")
    ('β Q K^T', '(1)/(d) sum_j x_j')
    """
    text = re.sub(r"\\[,;! ]", " ", latex)
    for _ in range(5):
        text = re.sub(r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text)
        text = re.sub(r"\\(?:operatorname|text|mathrm)\{([^{}]*)\}", r"\1", text)
        text = re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)
        text = re.sub(r"([_^])\{([^{} ]{1,3})\}", r"\1\2", text)
        text = re.sub(r"([_^])\{([^{}]*)\}", r"\1(\2)", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: GREEK.get(m[1], WORDS.get(m[1], m[1])), text)
    return re.sub(r" +", " ", text.replace("\\_", "_").replace("\\", "")).strip()


def formula_for(card_formula: str, card_columns: str, *, columns: bool, convention: str) -> str:
    r"""A card's formula with each matrix as the convention applies it.

    >>> formula_for("X {W_q}", "{W_q} X", columns=False, convention="W x")
    'X W_q^\\top'
    """
    formula = card_columns if columns and card_columns else card_formula
    turned = (convention == "W x") != columns
    return re.sub(r"\{(W_\w)\}", r"\1^\\top" if turned else r"\1", formula)
