"""headwork equal: both sides shown, exit 0, 1 where they differ, 2 where the name is wrong."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import headwork.cli.build  # noqa: F401  (adds the command)


@pytest.fixture
def run(headwork_command):
    return partial(headwork_command, "equal")


def test_convolution_is_a_toeplitz_matrix(run):
    code, out, _ = run("convolution-toeplitz", "--cases", "5")
    assert code == 0
    for description in (
        "both sides are the same",
        "over 5 random cases",
        "T = T_(i, s i + j - p) = k_j",
        "63",
    ):
        assert description in out


def test_json(run):
    code, out, _ = run("heads-convolution", "--cases", "3", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["holds"]
    assert data["cases"] == 3
    assert set(data["left"]) == {"name", "weights", "flops", "others"}


def test_list(run):
    code, out, _ = run("--list")
    assert code == 0
    assert len(out.splitlines()) == 2 + 14


def test_sides_that_differ_are_exit_1(run, monkeypatch):
    from headwork.construct import EQUIVALENCES

    good, other = EQUIVALENCES["softmax-argmax"], EQUIVALENCES["attention-kernel-smoothing"]
    monkeypatch.setitem(EQUIVALENCES, "softmax-argmax", replace(good, right=replace(good.left), limit=None))
    assert run("softmax-argmax", "--cases", "2")[0] == 0

    def keys_of_other_lengths(random):
        return {name: random.normal(size=(4, 2)) for name in ("query", "key", "value")} | {
            "beta": np.array(1.0)
        }

    wrong = replace(other, sample=keys_of_other_lengths)
    monkeypatch.setitem(EQUIVALENCES, "attention-kernel-smoothing", wrong)
    code, out, _ = run("attention-kernel-smoothing", "--cases", "2")
    assert code == 1
    assert "MORE THAN ALLOWED" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "which equivalence?"),
        (("softmax-argmx",), "Did you mean 'softmax-argmax'?"),
        (("softmax-argmax", "--cases", "0"), "cases is 0"),
        (("softmax-argmax", "--seed", "-1"), "Invalid value for '--seed'"),
        (("softmax-argmax", "--as", "docx"), "unknown --as 'docx'"),
    ],
)
def test_what_is_malformed_is_told_on_stderr(run, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
