"""The problem book is its own golden test: every entry's checks hold, and a wrong value is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
import sympy
from matplotlib.figure import Figure

from benchmarks import kept_runs
from headwork.documents import FigureBlock
from headwork.errors import InputError
from headwork.problems import Problem, Solution, all_problems, find_problem, summary
from headwork.problems.book import BOOK, GROUPS
from headwork.problems.report import HANDOUTS, report

COUNTS = {"A": 3, "B": 8, "C": 5, "D": 4, "E": 1, "F": 2, "G": 12}
EXPECTED = [f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)]


def test_every_problem_of_the_hand_outs_is_there():
    assert list(all_problems()) == EXPECTED
    assert {slug[0] for slug in all_problems()} == set(GROUPS)


@pytest.mark.parametrize("slug", EXPECTED)
def test_every_value_is_right(slug):
    solution = find_problem(slug).solve()
    assert [f for f in solution.findings if not f.right] == []
    assert solution.answer
    # A yes-or-no check states its fact: "no" as the expected outcome would be a double negative.
    assert [f.label for f in solution.findings if f.ours == "no"] == []


@pytest.mark.parametrize("slug", ["A2", "B3", "C3", "D2", "G4", "F1"])
def test_every_form_can_be_written(slug):
    problem = find_problem(slug)
    solution = problem.solve()
    report = problem.document(solution)
    assert problem.title in report.to_text()
    assert report.to_markdown().startswith(f"# {slug}")
    latex = report.to_latex()
    assert latex.startswith(r"\documentclass")
    assert latex.count("{") == latex.count("}")
    assert report.to_html().lstrip().lower().startswith("<!doctype html>")
    assert problem.as_data(solution)["right"] is True


def test_every_text_of_the_book_belongs_to_a_problem_and_a_checked_value():
    assert list(BOOK) == EXPECTED
    for slug, words in BOOK.items():
        labels = (
            {finding.label for finding in find_problem(slug).solve().findings} if "errors" in words else set()
        )
        assert set(words.get("errors", {})) <= labels, slug


def test_a_published_error_stands_only_beside_the_correct_value():
    findings = find_problem("A2").solve().findings
    published = next(f for f in findings if f.published == "0.6624")
    assert published.ours.startswith("0.6622")
    assert "0.1967" in published.why


@pytest.mark.parametrize(
    ("slug", "error"),
    [
        ("A3", "CNNs rely on sequential convolutions"),
        ("G8", "CNNs need a fixed input size"),
        ("C5", "onto a flattened 2D vector"),
        ("G4", "the dimension of all three vectors is the same"),
        ("G9", "provide relative positions"),
    ],
)
def test_errors_of_the_hand_outs_are_named(slug, error):
    findings = [f for f in find_problem(slug).solve().findings if error in f.published]
    assert len(findings) == 1
    assert len(findings[0].why) > 40


@pytest.mark.parametrize(
    ("slug", "facts"),
    [
        ("A3", ["inductive bias", "O(k^2 d^2 n)", "O(n d^2)", "O(n^2 d + n d^2)", "best uses"]),
        ("B2", ["mean of the values", "gate"]),
        ("B3", ["dot product of a query and delta", "q.delta > 0", "near-tie"]),
        ("F1", ["91.78%", "93.12%", "93.53%", "validation, by epoch", "results/vision-50"]),
        ("F2", ["88.11%", "91.07%", "91.58%", "n-grams", "transformer alone", "results/imdb-minilm"]),
        ("A2", ["(0,2) (0,0) (0,1) (0,1)", "2 4 0 2", "0.1050 0.7758 0.0142 0.1050", "(0, 0.3292)"]),
        ("B5", ["q_i = e_i, so A = I", "q_i = e_s(i)", "one head per tap", "1/3 each"]),
        ("B7", ["O(n d^2) instead of O(n^2 d)", "neither sum depends on i", "elu + 1"]),
        ("B8", ["O(n d^2 + n^2 d)"]),
        (
            "C1",
            ["without bound", "depend on the length", "sin(w_k t)", "learned table", "relative and rotary"],
        ),
        ("C2", ["tokens [1,5,768]", "values [1,5,12,64]", "[1,12,5,5]", "joined [1,5,768]"]),
        ("C4", ["residual connection", "max(0, x W1 + b1) W2 + b2", "masks later tokens", "63,082,496"]),
        ("D1", ["k1 x7 + k2 x8 + k3 x9", "k2 x1 + k3 x2", "k1 x2 + k2 x3 + k3 x4"]),
        ("D4", ["floor((W + 2p - K)/s) + 1", "[3,5,5]", "508,032"]),
        ("E1", ["than those at 1, 3", "h_T = sum_t w_h^(T-t) w_x x_t"]),
        ("B6", ["y1 ≈ x1, y2 ≈ x2, y3 ≈ x3", "sqrt(2) r, r, sqrt(2) r", "copies itself because"]),
    ],
)
def test_the_opening_lines_answer(slug, facts):
    text = find_problem(slug).document(find_problem(slug).solve()).to_text()
    opening = " ".join("\n".join(text.splitlines()[:15]).split())
    assert [fact for fact in facts if fact not in opening] == []


def test_the_kept_runs_are_those_in_results():
    written = kept_runs.FILE.read_text()
    assert written == kept_runs.text(), "run python -m benchmarks.kept_runs"


def test_c1_does_not_blame_the_hand_out_for_what_it_says_of_the_index():
    assert [f.published for f in find_problem("C1").solve().findings if f.published] == []


@pytest.mark.parametrize(
    ("ours", "expected", "right"),
    [
        (np.array([sympy.E / (sympy.E + 1)], object), "[e/(e+1)]", True),
        (np.array([sympy.E / (sympy.E + 1)], object), "[e/(e+2)]", False),
        (np.array([0.5]), "[1/2]", True),
        (np.array([0.5 + 1e-9]), "[1/2]", False),
        (np.array([1.0, 2.0]), "[1]", False),
        (3, 3, True),
        (3, 4, False),
        ((7, 9), (7, 9), True),
    ],
)
def test_a_check_notices(ours, expected, right):
    solution = Solution()
    solution.check("value", ours, expected)
    assert solution.right is right
    assert ("MISMATCH" in solution.verdict) is not right


def test_a_rounded_check_notices_the_last_digit():
    solution = Solution()
    solution.check("value", np.array([0.534447]), "0.5343", rounded=4)
    assert not solution.right


def test_an_unknown_problem_is_named():
    with pytest.raises(InputError, match="unknown problem 'A9'"):
        find_problem("A9")


def test_summary_counts_mismatches():
    bad = Solution()
    bad.check("x", 1, 2)
    good = Problem("X", "x", "x", lambda solution: solution.check("x", 1, 1)).solve()
    assert "1 problem with a mismatch" in summary({"a": bad, "b": good}).notes[0]


def test_an_ellipsis_does_not_end_an_answer_in_the_summary():
    solution = Solution()
    solution.answer = "1 if the inputs at 2, 4, ... sum to more. The rest follows."
    assert summary({"a": solution}).rows[0][1] == "1 if the inputs at 2, 4, … sum to more"


def test_every_problem_answers_a_question_of_a_hand_out():
    questions = [q for handout in HANDOUTS.values() for q in handout["questions"].values()]
    assert {slug for question in questions for slug in question["problems"]} == set(EXPECTED)
    assert all(len(question["asks"]) > 10 for question in questions)


def test_the_report_opens_with_doors_and_folds_each_problem_once(tmp_path):
    solutions = {slug: find_problem(slug).solve() for slug in ("A1", "B4", "G1")}
    text = report(solutions, tmp_path).read_text()
    assert text.index("See attention at work") < text.index('id="task2"') < text.index('id="hw2"')
    assert text.count('<details id="B4"><summary>B4. Several heads, and grouped convolution: [head_1') == 1
    assert text.count('<a href="#B4">B4. Several heads, and grouped convolution</a>') == 2
    assert "<p>Why: 224 / 16 = 14 patches fit along each side." in text
    assert "values checked</summary>" in text
    assert 'href="digits/report.html"' not in text


def test_the_report_opens_each_question_in_the_lab(tmp_path):
    solutions = {"A1": find_problem("A1").solve()}
    text = report(solutions, tmp_path).read_text()
    assert "headwork lab task2/b\n" in text
    assert "lab.html" not in text, "no link to a page that is not there"
    text = report(solutions, tmp_path, lab=True).read_text()
    assert text.count('<a href="lab.html#/problems/task2/b">Change its numbers in the lab</a>') == 1
    assert '<a href="lab.html">the lab</a>' in text


def test_the_report_links_that_of_the_model(tmp_path):
    trained = SimpleNamespace(test_accuracy=0.97), FigureBlock(Figure(), "images", "12 are correct.")
    text = report({"A1": find_problem("A1").solve()}, tmp_path, trained).read_text()
    assert text.count('href="digits/report.html"') == 2
    assert "Test accuracy 97.0%" in text
