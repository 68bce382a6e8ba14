"""The hand-outs: each question is found by its number and by a word, and its answer says what is asked."""

import json
import re
import shlex
from pathlib import Path

import pytest

from benchmarks.handouts import page
from headwork.courses.notebooks import SOURCES
from headwork.errors import InputError
from headwork.exercises import generate
from headwork.problems.book import BOOK
from headwork.problems.handouts import answers_document, look_up, questions, search
from headwork.problems.training import kept_runs

ROOT = Path(__file__).parents[2]
# The questions as the hand-outs count them, several of them in one row.
ROWS = re.split(
    " ",
    "task2/a task2/b task2/c hw3/1.1a-b hw3/1.1c hw3/1.1d hw3/1.1e-f hw3/1.2a-b hw3/1.3a hw3/1.3b "
    "hw3/1.3c hw3/1.3d-e hw3/1.4a hw3/1.4b-e hw3/1.5a-c coursework1/1 coursework1/2.1-2.3 "
    "coursework1/3.1 coursework1/3.2 discussion/1a-b discussion/1c-d discussion/1e discussion/1f "
    "discussion/1g-h discussion/2a-b discussion/2c-d discussion/2e hw2/1 hw2/2a-c hw2/3 hw2/4 hw2/5",
)
# What a marker looks for, who holds only the hand-out.
FACTS = {
    "task2/a": "14 x 14 = 196",
    "task2/b": "0.1966 0.5344 0.0723 0.1966 | 0.1050 0.7758 0.0142 0.1050 | (0, 0.6622), (0, 0.3292), (0, 1)",
    "task2/c": "parallelism | long-range | O(k^2 d^2 n) | O(n d^2) | O(n^2 d + n d^2) | best uses",
    "hw3/1.1a": "softmax(β Q K^T) V | sum_j a_ij v_j",
    "hw3/1.1b": "inverse temperature | sqrt(d_k) | variance",
    "hw3/1.1c": "∞ | one-hot | cross-attention | fully connected | gate",
    "hw3/1.1d": "goes to 0 | 1/n | mean of all values | fully connected layer",
    "hw3/1.1e": "EVERY query | β q_i * δ | near-tie",
    "hw3/1.1f": "goes to 1 | goes to 0 | sign of q.delta",
    "hw3/1.2a": "W_o | head_1 | d/h",
    "hw3/1.2b": "kernel size 1 | WITHOUT groups | block-diagonal",
    "hw3/1.3a": "n x d | n x n | W_o | same X",
    "hw3/1.3b": "sin(ω_k t) | lowest bit | Not needed: for sets | commutes with permutations",
    "hw3/1.3c": "A = I | permutation matrix | one 1 in every row and every column",
    "hw3/1.3d": "1/3 1/3 1/3 0 0 | window | ends",
    "hw3/1.3e": "convolution | one head per tap | W_o sums",
    "hw3/1.4a": "Parallelism | vanishes | positions | O(n d^2)",
    "hw3/1.4b": "query | key | value | softmax | mean",
    "hw3/1.4c": "joined | W_o | average relations",
    "hw3/1.4d": "max(0, x W_1 + b_1) W_2 + b_2 | each token alone | SAME weights | nonlinearity",
    "hw3/1.4e": "mean | variance | scale | residual | stable",
    "hw3/1.5a": "locality | patches | little data",
    "hw3/1.5b": "patches | class token | GELU | pre-norm | only the encoder",
    "hw3/1.5c": "sinusoids | learns a table | ABSOLUTE",
    "coursework1/1": "[768,6] | [6,6]",
    "coursework1/2.1": "softmax | mask | W_o",
    "coursework1/2.2": "(1) Machine translation | (2) Images | (3) Speech",
    "coursework1/2.3": "Global view | depend on the input | NOT an advantage: parallelism",
    "coursework1/3.1": "[1, 5, 768] | [1, 5, 12, 64] | [1, 12, 5, 5]",
    "coursework1/3.2": "91.78% | 93.12% | 93.53% | Curves on validation",
    "discussion/1a": "7 outputs | k_1 x_1 + k_2 x_2 + k_3 x_3 | k_1 x_7 + k_2 x_8 + k_3 x_9",
    "discussion/1b": "5 outputs | k_2 x_1 + k_3 x_2 | k_1 x_2 + k_2 x_3 + k_3 x_4",
    "discussion/1c": "7 x 9 Toeplitz | 0 k1 k2 k3 0",
    "discussion/1d": "7 x 3 = 21",
    "discussion/1e": "[3 4; 6 7] | blurs",
    "discussion/1f": "floor( (W + 2p - K)/(s) ) + 1",
    "discussion/1g": "[3, 256, 256] | [3, 5, 5] | [32, 126, 126] | 2,400",
    "discussion/1h": "99,883,155,456",
    "discussion/2a": "O(n d^2 + n^2 d)",
    "discussion/2b": "softmax( | V",
    "discussion/2c": "without bound | 1/n, 2/n, ..., 1 | sinusoids",
    "discussion/2d": "how far apart | offset",
    "discussion/2e": "one head | animal",
    "hw2/1": "even positions sum to more | sigmoid",
    "hw2/2a": "sqrt(2) beta | |x2| = |a| = beta",
    "hw2/2b": "y1 ≈ x1, y2 ≈ x2, y3 ≈ x3",
    "hw2/2c": "weight is near 1 | align the query",
    "hw2/3": "O(T d^2) | do not depend on i | associativity",
    "hw2/4": "91.78% | 93.53% | 6 pre-norm layers | Curves on validation",
    "hw2/5": "88.11% | 91.58% | Curves on validation",
    "hw2/hand-in": "headwork handin",
}


def text(name):
    return " ".join(answers_document(look_up(name)).to_text().split())


@pytest.mark.parametrize("row", ROWS)
def test_every_question_of_the_hand_outs_is_found_by_its_number(row):
    found = [question.name for question in look_up(row)]
    assert found
    assert all(name.startswith(row[: row.index("/") + 2]) for name in found)


def test_the_rows_are_all_there_is():
    found = {question.name for row in ROWS for question in look_up(row)}
    assert set(questions()) == found | {"hw2/hand-in"} == set(FACTS)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("HW3/1.3C", ["hw3/1.3c"]),
        ("hw3 1.3c", ["hw3/1.3c"]),
        ("hw3/1.1e-f", ["hw3/1.1e", "hw3/1.1f"]),
        ("coursework1/2.1-2.3", ["coursework1/2.1", "coursework1/2.2", "coursework1/2.3"]),
        ("hw3/1.2", ["hw3/1.2a", "hw3/1.2b"]),
        ("hw2/hand-in", ["hw2/hand-in"]),
        ("discussion/2", [f"discussion/2{letter}" for letter in "abcde"]),
    ],
)
def test_how_a_number_may_be_typed(typed, found):
    assert [question.name for question in look_up(typed)] == found


def test_a_number_that_is_not_there():
    with pytest.raises(InputError, match=r"unknown question 'hw3/1\.9'\. Did you mean .* Known: hw3/1\.1a"):
        look_up("hw3/1.9")
    with pytest.raises(InputError, match="unknown question 'hw8'"):
        look_up("hw8")


@pytest.mark.parametrize("name", FACTS)
def test_every_question_is_found_by_a_word_of_it(name):
    words = sorted(re.findall(r"[a-z]{4,}", questions()[name].asks.lower()), key=len)
    assert questions()[name] in search(words[-1])


def test_words_that_are_not_there():
    assert search("permutation")[0].name == "hw3/1.3c"
    with pytest.raises(InputError, match=r"no question .* has 'permutaton'\. Did you mean 'permutation'"):
        search("permutaton")
    with pytest.raises(InputError, match="Try fewer or other words"):
        search("softmax zzzzzz")


@pytest.mark.parametrize("name", FACTS)
def test_the_answer_says_what_is_asked(name):
    shown = text(name)
    assert [fact for fact in FACTS[name].split(" | ") if fact not in shown] == []


@pytest.mark.parametrize("name", FACTS)
def test_an_answer_leads_on(name):
    question = questions()[name]
    notebook, _, section = question.notebook.partition(", ")
    assert f"\n## {section}\n" in SOURCES[notebook].read_text()
    assert generate(question.exercise, 0, 1).points
    assert question.answer.count("$") % 2 == 0


def test_the_figures_of_the_training_questions_are_those_of_the_kept_runs():
    for run in ("vision-10-0", "vision-30", "vision-50"):
        assert f"{kept_runs()[run]['test_accuracy']:.2%}" in questions()["hw2/4"].answer
    for run in ("imdb", "imdb-ngrams", "imdb-minilm", "rotten-tomatoes-minilm"):
        assert f"{kept_runs()[run]['test_accuracy']:.2%}" in questions()["hw2/5"].answer


def test_the_measured_table_is_that_of_the_kept_comparison():
    kept = (ROOT / "results" / "comparison.json").read_text()
    rows = json.loads(kept)["rows"]
    every = json.dumps([[row["cells"], row["verdict"], row["sentences"]] for row in rows])
    for row in BOOK["A3"]["table"]:
        for cell in row[1:]:
            figures = re.findall(r"-?\d+\.\d+%?|\d+%", cell.replace("0.63", "0.628").replace("1.00", "0.999"))
            assert figures or "chain" in cell, cell
            missing = [figure for figure in figures if figure not in every and figure != "93.53%"]
            assert [f for f in missing if f"{f[:-1]}." not in every] == [], cell


def test_docs_have_every_answer():
    assert (ROOT / "docs" / "handouts.md").read_text() == page(), "python -m benchmarks.handouts"


def quick(command):
    return not re.search(r"compare|train|handin|course new|build", command)


COMMANDS = sorted({question.command for question in questions().values()})


def run(command, headwork_command, folder):
    from headwork.cli.app import register

    register()
    code, out, err = headwork_command(*shlex.split(command)[1:])
    assert code == 0, (command, err)
    assert out or "wrote" in err


@pytest.mark.parametrize("command", list(filter(quick, COMMANDS))[::3])
def test_a_command_of_an_answer_runs(command, headwork_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(command, headwork_command, tmp_path)


@pytest.mark.soak
def test_every_command_of_an_answer_runs(headwork_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in COMMANDS:
        if not command.startswith("headwork train"):
            run(command, headwork_command, tmp_path)
