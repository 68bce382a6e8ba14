"""The problem book."""

from headwork.problems.book import GROUPS, Finding, Problem, Solution, book, entries, find, listing, summary
