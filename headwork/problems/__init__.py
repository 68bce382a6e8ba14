"""The problem book."""

from headwork.problems.book import GROUPS, Problem, Solution, all_problems, book, find, problem_list, summary
