"""Names for exact numbers that are too long for a cell: ``u_3`` stands for what it is defined as.

A name is a number, not a free symbol: it is evaluated and compared through its definition. So what follows
from a long number stays short, and SymPy's work small.
"""

from functools import cached_property, lru_cache
from typing import Any

import sympy

from headwork.errors import TooLarge
from headwork.numbers.exact import as_single_fraction, exact_text, sign, to_float

MAX_CELL_LENGTH = 40  # characters
MAX_DEFINITION_LENGTH = 200
MAX_PARTS = 64  # that are named one by one
MAX_EXPANDED_LENGTH = 1000  # characters of what is written without names: as long as an entry that is typed


class NamedNumber(sympy.Dummy):  # type: ignore[misc]
    """A name with its definition; no two are equal, even if they are called the same."""

    definition: Any
    # Answers are cached, because SymPy queries a number through many code paths.

    @cached_property
    def free_symbols(self) -> Any:
        return self.definition.free_symbols

    @lru_cache(maxsize=20_000)  # noqa: B019
    def _eval_evalf(self, precision: int) -> Any:
        return self.definition._eval_evalf(precision)

    def _sympystr(self, printer: Any) -> str:
        return str(self.name)

    def _latex(self, printer: Any) -> str:
        return f"u_{{{self.name[2:]}}}"


class NumberNames:
    """The names of one trace, in order."""

    def __init__(self) -> None:
        self.by_definition: dict[Any, Any] = {}  # definition -> name

    def shorten(self, value: Any) -> Any:
        """The value, or the name of it where it is too long."""
        sizes = {a: sign(a.args[0]) * a.args[0] for a in value.atoms(sympy.Abs) if not a.free_symbols}
        value = as_single_fraction(value.xreplace(sizes))
        return value if len(exact_text(value)) <= MAX_CELL_LENGTH else self._name(value)

    def _name(self, value: Any) -> Any:
        value = self._cut(value)
        if value.is_Atom:
            return value
        if (opposite := as_single_fraction(-value)) in self.by_definition:
            return -self.by_definition[opposite]
        if value not in self.by_definition:
            number = to_float(value)
            signs = {"positive": number > 0} if number else {}
            self.by_definition[value] = NamedNumber(
                f"u_{len(self.by_definition) + 1}", real=number is not None or None, **signs
            )
            self.by_definition[value].definition = value
        return self.by_definition[value]

    def _cut(self, value: Any) -> Any:
        """The value with as many of its parts named as make it short enough for a definition."""
        while len(exact_text(value)) > MAX_DEFINITION_LENGTH and value.args:
            parts = sorted(value.args, key=lambda part: -len(exact_text(part)))
            if parts[0].is_Atom or len(parts) > MAX_PARTS:  # half of them together
                half = len(parts) // 2
                value = value.func(self._name(value.func(*parts[:half])), *parts[half:])
            else:
                value = value.func(*(self._name(p) if p == parts[0] else p for p in value.args))
        return value


@lru_cache(maxsize=20_000)
def expand_names(value: Any) -> Any:
    """The value with the definitions in place of all names; one that becomes too long is refused.

    >>> name = NamedNumber("u_1")
    >>> name.definition = sympy.sqrt(2) + 1
    >>> print(expand_names(name / 2))
    1/2 + sqrt(2)/2
    """
    names = value.atoms(NamedNumber)
    value = value.xreplace({name: expand_names(name.definition) for name in names})
    if names and len(exact_text(value)) > MAX_EXPANDED_LENGTH:
        raise TooLarge(f"an exact number takes more than {MAX_EXPANDED_LENGTH} characters without names.")
    return value
