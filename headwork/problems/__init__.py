"""The problem book."""

from headwork.problems.book import Problem, Solution, all_problems, book, find_problem, problem_list, summary

find = find_problem  # its former name
