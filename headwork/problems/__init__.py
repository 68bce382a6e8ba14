"""The problem book."""

from headwork.problems.book import GROUPS, Finding, Problem, Solution, entries, find, listing, summary
