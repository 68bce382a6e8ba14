"""The problem book."""

from headwork.problems.book import GROUPS, Finding, Problem, Worked, entries, find

__all__ = ["GROUPS", "Finding", "Problem", "Worked", "entries", "find"]
