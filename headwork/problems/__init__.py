"""The problem book."""

from headwork.problems.book import GROUPS, Finding, Problem, Solution, entries, find, listing, summary

__all__ = ["GROUPS", "Finding", "Problem", "Solution", "entries", "find", "listing", "summary"]
