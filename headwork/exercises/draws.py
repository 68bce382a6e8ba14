"""Numbers drawn from a seed: the same on every machine and in every Python, because they are digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


class Draws:
    """A stream of whole numbers that depends only on the words it was made from.

    >>> Draws("self-attention", 7).whole(0, 9) == Draws("self-attention", 7).whole(0, 9)
    True
    """

    def __init__(self, *words: object) -> None:
        self._start = "/".join(map(str, words)).encode()
        self._count = 0

    def whole(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        self._count += 1
        digest = hashlib.sha256(self._start + b"#%d" % self._count).digest()
        return low + int.from_bytes(digest[:8], "big") % (high - low + 1)

    def choice(self, items: Sequence[Choice]) -> Choice:
        return items[self.whole(0, len(items) - 1)]

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        left, result = list(items), []
        while left:
            result.append(left.pop(self.whole(0, len(left) - 1)))
        return result

    def row(self, count: int, low: int, high: int) -> list[int]:
        return [self.whole(low, high) for _ in range(count)]

    def matrix(self, rows: int, columns: int, low: int, high: int) -> str:
        """A matrix as a person would type it."""
        return typed([self.row(columns, low, high) for _ in range(rows)])


def typed(rows: Sequence[Sequence[object]]) -> str:
    """Rows of numbers as typed text.

    >>> typed([[1, 2], [2, 0]]), typed([[1, 2]])
    ('1 2; 2 0', '[[1, 2]]')
    """
    if len(rows) == 1:
        return f"[[{', '.join(map(str, rows[0]))}]]"
    return "; ".join(" ".join(map(str, row)) for row in rows)
