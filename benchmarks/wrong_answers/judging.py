"""Which causes say the same as the author of a wrong answer: a table of judgements, made by reading both."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ACCEPTED = Path(__file__).parents[2] / "tests" / "grading" / "accepted_causes.toml"
# What can be said of any numbers: of a slip it is the right cause, of anything else it names none.
SLIPS = ("slip", "sign-slip", "point-slip", "digits-swapped", "misrounded", "rounded-too-early")
NONE = ("unknown", "shape")


class Said(NamedTuple):
    """A cause as the package says it."""

    slug: str
    sentence: str = ""

    @property
    def names_something(self) -> bool:
        return self.slug not in SLIPS + NONE

    def listed(self, patterns: list[str]) -> bool:
        """Whether its slug, or its slug and sentence, are among the patterns."""
        return any(
            fnmatchcase(said, x) for x in patterns for said in (self.slug, f"{self.slug}: {self.sentence}")
        )


@cache
def judgements() -> dict[str, Any]:
    return tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))


def _listed(table: str, kind: str, mistake: str) -> list[str]:
    """The patterns of causes listed for a mistake, under its kind or under every kind."""
    tables = judgements()[table]
    rows = [*tables.get("every-kind", {}).items(), *tables.get(kind, {}).items()]
    return [cause for pattern, causes in rows if fnmatchcase(mistake, pattern) for cause in causes]


def accepted(kind: str, mistake: str, same: list[str]) -> list[str]:
    """The causes that may be named: the mistake's own, and those of mistakes with the very same numbers."""
    known = [mistake, *(other.removesuffix(" (each time)") for other in same)]
    return [cause for name in known for cause in _listed("accepted", kind, name)]


def _nowhere(slug: str) -> bool:
    return False


def verdict(
    kind: str,
    mistake: str,
    same: list[str],
    causes: list[Said],
    elsewhere: Callable[[str], bool] = lambda _: False,
) -> str:
    """``named``, ``named beside others``, ``unknown``, ``shape``, ``slip`` or ``wrong name``.

    What nobody has compared by reading counts as right if it holds ``elsewhere``.
    """
    right = accepted(kind, mistake, same)
    right += [cause.slug for cause in unjudged(kind, mistake, same, causes) if elsewhere(cause.slug)]
    others = [cause for cause in causes if cause.names_something and not cause.listed(right)]
    if any(cause.listed(right) for cause in causes):
        return "named beside others" if others else "named"
    if others:
        return "wrong name"
    if any(cause.slug in SLIPS for cause in causes):
        return "slip"
    return "shape" if any(cause.slug == "shape" for cause in causes) else "unknown"


def unjudged(kind: str, mistake: str, same: list[str], causes: list[Said]) -> list[Said]:
    """The named causes that nobody has compared with this mistake yet."""
    judged = accepted(kind, mistake, same) + _listed("rejected", kind, mistake)
    return [cause for cause in causes if cause.names_something and not cause.listed(judged)]
