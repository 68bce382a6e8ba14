"""How a ledger writes its numbers."""

from __future__ import annotations

from headwork.pages.tables import escaped_latex
from headwork.sizes.polynomial import Polynomial


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
    return escaped_latex(str(count))
