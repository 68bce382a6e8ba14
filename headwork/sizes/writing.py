"""How a ledger writes formulas and numbers: LaTeX as the cards have it, and one line of plain text."""

from __future__ import annotations

import re

from headwork.sizes.polynomial import Polynomial

PLAIN = {
    "beta": "β", "gamma": "γ", "mu": "μ", "sigma": "σ", "epsilon": "ε", "Phi": "Φ", "phi": "φ", "top": "T",
    "ldots": "...", "infty": "oo", "textstyle": "", "cdot": "*",
}  # fmt: skip
ESCAPES = {"_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "{": r"\{", "}": r"\}", "$": r"\$", "^": r"\^{}",
           "~": r"\~{}", "<": r"\textless{}", ">": r"\textgreater{}"}  # fmt: skip


def applied(formula: str, *, transposed: bool) -> str:
    r"""A card's formula with each ``{W_q}`` as it is applied.

    >>> applied("X {W_q}", transposed=True)
    'X W_q^\\top'
    """
    return re.sub(r"\{(W_\w)\}", r"\1^\\top" if transposed else r"\1", formula)


def plain(formula: str) -> str:
    r"""A formula as one line of text.

    >>> plain(r"\beta\, Q K^\top"), plain(r"\operatorname{softmax}(S) \text{ over keys}")
    ('β Q K^T', 'softmax(S) over keys')
    """
    text = re.sub(r"\\(?:operatorname|text|mathrm)\{([^{}]*)\}", r"\1", re.sub(r"\\[,;! ]", " ", formula))
    text = re.sub(r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda word: PLAIN.get(word[1], word[1]), text)
    return re.sub(r" +", " ", re.sub(r"[{}\\]", "", text)).strip()


def escaped(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(ESCAPES.get(sign, sign) for sign in text.replace("\\", "/"))


def number(count: object) -> str:
    """A count in text: thousands apart, a polynomial or a shape as it is.

    >>> number(99883155456), number((1, 5, 768))
    ('99,883,155,456', '[1,5,768]')
    """
    if isinstance(count, tuple):
        return f"[{','.join(map(str, count))}]"
    return f"{count:,}" if isinstance(count, int) else str(count)


def number_latex(count: object) -> str:
    """The same for LaTeX; thousands stand apart by a thin space of their own.

    >>> number_latex(44138496)
    '$44{,}138{,}496$'
    """
    if isinstance(count, Polynomial):
        return f"${count.latex()}$"
    if isinstance(count, int | tuple):
        return f"${number(count).replace(',', '{,}' if isinstance(count, int) else ',')}$"
    return escaped(str(count))
