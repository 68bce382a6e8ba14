"""Numbers drawn from a seed: the same on every machine and in every Python, because they are digests."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


class SeededRandom:
    """A stream of integers that depends only on its seed words.

    >>> SeededRandom("self-attention", 7).integer(0, 9) == SeededRandom("self-attention", 7).integer(0, 9)
    True
    """

    def __init__(self, *words: object) -> None:
        self._start = "/".join(map(str, words)).encode()
        self._count = 0

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        self._count += 1
        digest = hashlib.sha256(self._start + b"#%d" % self._count).digest()
        return low + int.from_bytes(digest[:8], "big") % (high - low + 1)

    def choice(self, items: Sequence[Choice]) -> Choice:
        return items[self.integer(0, len(items) - 1)]

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        left, result = list(items), []
        while left:
            result.append(left.pop(self.integer(0, len(left) - 1)))
        return result

    def row(self, count: int, low: int, high: int) -> list[int]:
        return [self.integer(low, high) for _ in range(count)]

    def vector_text(self, count: int, low: int, high: int) -> str:
        """A row as a person would type it."""
        return " ".join(map(str, self.row(count, low, high)))

    def matrix_text(self, rows: int, columns: int, low: int, high: int) -> str:
        """A matrix as a person would type it."""
        return matrix_text([self.row(columns, low, high) for _ in range(rows)])


def matrix_text(rows: Sequence[Sequence[object]]) -> str:
    """Rows of numbers as a person types them.

    >>> matrix_text([[1, 2], [2, 0]]), matrix_text([[1, 2]])
    ('1 2; 2 0', '[[1, 2]]')
    """
    if len(rows) == 1:
        return f"[[{', '.join(map(str, rows[0]))}]]"
    return "; ".join(" ".join(map(str, row)) for row in rows)
